"""Which rows no later evidence is expected to change: the column ``final`` while logs are followed.

Times are those of the evidence, never of this machine: the same files give the same flags whenever they are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from activemq_fleet.spark.datasets import SCHEMAS, Output
from activemq_fleet.spark.follow.parts import link_all
from activemq_fleet.spark.paths import local_path

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from activemq_fleet.spark.inputs import Inputs

SETTLED = timedelta(minutes=15)
"""An incident is final when the logs of all its hosts go on for so long after it: clocks may be five minutes apart, and
three take-overs in ten minutes make another incident of it."""
LATE = timedelta(days=1)
"""And when any log of the fleet does for so long: a host that is silent does not hold it open for ever."""
REMEMBERED = timedelta(days=7)
"""Agents keep journals, and remember what they have handled, for so long after an event's last record."""


class FinalOutput(Output):
    """An Output whose rows say whether they are final, by the evidence of a stream."""

    def __init__(self, spark: SparkSession, path: str, inputs: Inputs, records: DataFrame) -> None:
        super().__init__(spark, path)
        self._inputs = inputs
        self._records = records
        self._upto: DataFrame | None = None

    def write(self, name: str, frame: DataFrame, *, ordered: bool = False) -> int:
        """As Output does. The events have to be written first."""
        if name == "incidents":
            frame = self._incidents(frame)
        elif name == "bridges":
            frame = self._bridges(frame)
        elif name in ("messages", "deliveries"):
            frame = self._events_of_agents(frame)
        return super().write(name, frame, ordered=ordered)

    def place(self, name: str) -> str:
        """Where this run writes a dataset."""
        return self._target.place(name)

    def rows_of(self, name: str) -> int:
        """How many rows of a dataset were written."""
        return self._rows[name]

    def adopt(self, name: str, files: Sequence[Path], rows: int) -> int:
        """Take over files that hold a dataset, of so many rows. OUT has to be local, and executors to share it."""
        place = local_path(self.place(name))
        if not files or place is None:
            return super().write(name, self._spark.createDataFrame([], SCHEMAS[name]))
        link_all(files, place)
        return self.wrote(name, rows)

    def _horizons(self) -> DataFrame:
        """host, pair, upto: the last time that each host's log tells of."""
        if self._upto is None:
            hosts = self._inputs.hosts
            rows = [(host, hosts[host].pair or host) for host in sorted(hosts)]
            known = self._spark.createDataFrame(rows, "host string, pair string")
            upto = self.written("events").groupBy("host").agg(sf.max("time").alias("upto"))
            self._upto = known.join(upto, "host", "left")
        return self._upto

    def _incidents(self, frame: DataFrame) -> DataFrame:
        slowest = self._horizons().groupBy("pair").agg(_slowest())
        key = sf.coalesce("pair", "host").alias("key")
        kept = (
            frame.drop("final")
            .withColumn("key", key)
            .join(sf.broadcast(slowest.withColumnRenamed("pair", "key")), "key", "left")
        )
        return self._settled(kept).drop("key")

    def _bridges(self, frame: DataFrame) -> DataFrame:
        mine = self._horizons().groupBy("host").agg(_slowest())
        return self._settled(frame.drop("final").join(sf.broadcast(mine), "host", "left"))

    def _settled(self, frame: DataFrame) -> DataFrame:
        """What has ended, and was followed by enough of its hosts' logs, or of anybody's."""
        newest = sf.broadcast(self._horizons().agg(sf.max("upto").alias("newest")))
        own = sf.col("slowest") >= sf.col("ended") + sf.lit(SETTLED)
        fleet = sf.col("newest") >= sf.col("ended") + sf.lit(LATE)
        return frame.crossJoin(newest).withColumn("final", _true(own) | _true(fleet)).drop("newest", "slowest")

    def _events_of_agents(self, frame: DataFrame) -> DataFrame:
        records = self._records
        last = records.where("event_id IS NOT NULL").groupBy("event_id").agg(sf.max("ts").alias("last"))
        newest = sf.broadcast(records.agg(sf.max("ts").alias("newest")))
        over = sf.col("newest") >= sf.col("last") + sf.lit(REMEMBERED)
        together = frame.drop("final").join(last, "event_id", "left").crossJoin(newest)
        return together.withColumn("final", _true(over)).drop("newest", "last")


def _slowest() -> Column:
    """The earliest of some horizons; null if a host has none."""
    return sf.when(sf.count("upto") == sf.count(sf.lit(1)), sf.min("upto")).alias("slowest")


def _true(condition: Column) -> Column:
    return sf.coalesce(condition, sf.lit(False))
