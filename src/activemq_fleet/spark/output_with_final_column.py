"""Set the column ``final`` while logs are followed: true for rows that no later evidence is expected to change.

Times are those of the evidence, never of this machine: the same files give the same flags whenever they are read.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from activemq_fleet.spark.datasets import Output

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from activemq_fleet.spark.inputs import Inputs

FINAL_AFTER = timedelta(minutes=15)
"""An incident is final when the logs of all its hosts go on for so long after it: clocks may be five minutes apart, and
three take-overs in ten minutes make another incident of it."""
FINAL_AFTER_FOR_FLEET = timedelta(days=1)
"""An incident is final too when any log of the fleet goes on for so long after it, whatever its own hosts do."""
JOURNAL_RETENTION = timedelta(days=7)
"""Agents keep journals, and ids of handled events, for so long: an event is final when its last record is older."""


class OutputWithFinalColumn(Output):
    """An Output that sets the column ``final`` of each row by how far logs and journals go on after it."""

    def __init__(self, spark: SparkSession, path: str, inputs: Inputs, records: DataFrame) -> None:
        """``records`` are those of the journals of ``inputs``."""
        super().__init__(spark, path)
        self._inputs = inputs
        self._records = records

    def write(self, name: str, frame: DataFrame, *, ordered: bool = False) -> int:
        """Write a dataset and return its number of rows. ``events`` has to be written first."""
        if name == "incidents":
            frame = self._incidents(frame)
        elif name == "bridges":
            frame = self._bridges(frame)
        elif name in ("messages", "deliveries"):
            frame = self._events_of_agents(frame)
        return super().write(name, frame, ordered=ordered)

    def _horizons(self) -> DataFrame:
        """Return host, pair and upto, the last time in the host's log."""
        hosts = self._inputs.hosts
        rows = [(host, hosts[host].pair or host) for host in sorted(hosts)]
        known = self._spark.createDataFrame(rows, "host string, pair string")
        upto = self.read_written("events").groupBy("host").agg(sf.max("time").alias("upto"))
        return known.join(upto, "host", "left")

    def _incidents(self, frame: DataFrame) -> DataFrame:
        slowest = self._horizons().groupBy(sf.col("pair").alias("key")).agg(_slowest())
        keyed = frame.drop("final").withColumn("key", sf.coalesce("pair", "host"))
        return self._settled(keyed.join(sf.broadcast(slowest), "key", "left")).drop("key")

    def _bridges(self, frame: DataFrame) -> DataFrame:
        slowest = self._horizons().groupBy("host").agg(_slowest())
        return self._settled(frame.drop("final").join(sf.broadcast(slowest), "host", "left"))

    def _settled(self, frame: DataFrame) -> DataFrame:
        newest = sf.broadcast(self._horizons().agg(sf.max("upto").alias("newest")))
        own = sf.col("slowest") >= sf.col("ended") + sf.lit(FINAL_AFTER)
        fleet = sf.col("newest") >= sf.col("ended") + sf.lit(FINAL_AFTER_FOR_FLEET)
        return frame.crossJoin(newest).withColumn("final", _true(own) | _true(fleet)).drop("newest", "slowest")

    def _events_of_agents(self, frame: DataFrame) -> DataFrame:
        records = self._records
        last = records.where("event_id IS NOT NULL").groupBy("event_id").agg(sf.max("ts").alias("last"))
        newest = sf.broadcast(records.agg(sf.max("ts").alias("newest")))
        over = sf.col("newest") >= sf.col("last") + sf.lit(JOURNAL_RETENTION)
        together = frame.drop("final").join(last, "event_id", "left").crossJoin(newest)
        return together.withColumn("final", _true(over)).drop("newest", "last")


def _slowest() -> Column:
    """The earliest of some horizons; null if a host has none."""
    return sf.when(sf.count("upto") == sf.count(sf.lit(1)), sf.min("upto")).alias("slowest")


def _true(condition: Column) -> Column:
    return sf.coalesce(condition, sf.lit(False))
