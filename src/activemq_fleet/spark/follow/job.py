"""``audit --follow``: a stream that keeps what it reads, and publishes a whole result after each micro-batch."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from activemq_fleet import __version__
from activemq_fleet.audit.evidence import SKEW
from activemq_fleet.audit.result import Gap
from activemq_fleet.errors import InputError
from activemq_fleet.spark.audit.job import Logs, conclude, find, partitions, settle, write
from activemq_fleet.spark.datasets import Output
from activemq_fleet.spark.datasets import settle as end_replacement
from activemq_fleet.spark.follow.advance import HOLD
from activemq_fleet.spark.follow.final import FinalOutput
from activemq_fleet.spark.follow.parts import JOURNALS, LOGS, Parts
from activemq_fleet.spark.follow.places import digest
from activemq_fleet.spark.follow.slabs import Share, Slab, shares_of
from activemq_fleet.spark.follow.source import FORMAT, MOST, TailSource
from activemq_fleet.spark.follow.state import State
from activemq_fleet.spark.follow.taken import taken_over
from activemq_fleet.spark.follow.view import View, events, records, rows_of, view
from activemq_fleet.spark.inputs import Host, list_inputs
from activemq_fleet.spark.paths import local_path, pattern_of, uri_of
from activemq_fleet.spark.settings import temporarily
from activemq_fleet.spark.verdicts import RECORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STATE = ".follow"
_SETTINGS = {
    # Spark turns it off for streams, for the sake of operators with state. There are none in here.
    "spark.sql.adaptive.enabled": "true",
    # Each plan would be written out at length, each time it adapts, for a user interface that nobody sees.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "4096",
}
_LOOK = 1  # seconds between two looks at the query


@dataclass(frozen=True, slots=True)
class Job:
    """What each micro-batch has to know. It is pickled: on Spark Connect, micro-batches run in the server."""

    logs: str
    out: str
    inventory_hosts: Mapping[str, Host]
    skew: timedelta

    @property
    def salt(self) -> str:
        """What results depend on besides files: another inventory, skew or program tells everything anew."""
        return digest(repr((__version__, self.skew, self.inventory_hosts)).encode())

    @property
    def state(self) -> str:
        return f"{uri_of(self.out)}/{STATE}"

    @property
    def parts(self) -> Path | None:
        """Where what was parsed is kept; None where it cannot be taken over, on object stores."""
        place = local_path(self.state)
        return None if place is None else place / "parts"

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Keep what a micro-batch brings, and publish what follows from all of it. Repeating it changes nothing."""
        spark = rows.sparkSession
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)
        State(spark, self.state).take(batch, rows)
        self.publish(spark, batch)

    def publish(self, spark: SparkSession, batch: int) -> None:
        """Let OUT be the result of everything up to a micro-batch. Until there is a log or a journal there is none."""
        state = State(spark, self.state)
        found = view(state, batch, self.logs, self.inventory_hosts)
        if found is None:
            return
        if self.parts is None:
            self._publish_all(state, batch, found)
        else:
            self._publish_parts(state, batch, found, self.parts)

    def _publish_parts(self, state: State, batch: int, found: View, place: Path) -> None:
        """Parse what is not known yet, and take over the rest."""

        def read(shares: Sequence[Share]) -> DataFrame:
            # Where a file stands among its host's changes with every roll, and is put to its rows later.
            slabs = ((slab, one.mark) for one in shares for slab in one.slabs)
            return rows_of(state, batch, [(replace(slab, about={**slab.about, "order": 0}), m) for slab, m in slabs])

        parts = Parts(state.spark, place)
        parts.bring(
            shares_of(found.slabs, "log"), lambda shares: events(read(shares)),
            shares_of(found.slabs, "journal"), lambda shares: records(read(shares)),
        )  # fmt: skip
        turns = sorted({(slab.about["host"], slab.about["number"], slab.about["order"]) for slab in found.slabs})
        told = parts.records().persist()
        try:
            with FinalOutput(state.spark, self.out, found.inputs, told) as output:
                count = output.adopt("events", parts.files(LOGS), parts.rows())
                logs = Logs(count, parts.seen(), output.written("events"), parts.signs(turns))
                with temporarily(state.spark, partitions(state.spark, found.inputs)):
                    self._conclude(output, found, parts, logs, told)
                output.commit()
        finally:
            told.unpersist()

    def _conclude(self, output: FinalOutput, found: View, parts: Parts, logs: Logs, told: DataFrame) -> None:
        """The other datasets, those that nothing new concerns as they were, and the report."""

        def look() -> list[Gap]:
            find(output, found.inputs, logs, told, self.skew)
            return []

        spark, of_journals, gaps = told.sparkSession, parts.marks(JOURNALS), None
        if of_journals:
            verdicts = ("deliveries", "messages")
            gaps = taken_over(output, parts.place, verdicts, of_journals, lambda: settle(output, told))
        # Who is whose partner, which log is older, and when agents had which connection: what pairs are judged by.
        concerns = (found.inputs.hosts, logs_of(found.slabs), self.skew, _connections(told) if of_journals else None)
        of_logs = [*parts.marks(LOGS), repr(concerns)]
        logs = replace(logs, signs=logs.signs.persist())
        taken_over(output, parts.place, ("bridges", "incidents"), of_logs, look)
        conclude(
            spark, output, found.inputs, logs, told,
            absent=found.absent, skew=self.skew, is_found=True, journal_gaps=gaps,
        )  # fmt: skip

    def _publish_all(self, state: State, batch: int, found: View) -> None:
        """Where nothing can be taken over, parse everything."""
        spark = state.spark
        rows = {kind: rows_of(state, batch, _of_kind(found.slabs, kind)) for kind in ("log", "journal")}
        # Verdicts look at records dozens of times: a plan that reads files stays small.
        place = f"{self.state}/records"
        records(rows["journal"]).select(*RECORDS.names).write.mode("overwrite").parquet(place)
        told = spark.read.schema(RECORDS).parquet(pattern_of(place))
        with FinalOutput(spark, self.out, found.inputs, told) as output:
            write(spark, output, found.inputs, events(rows["log"]), told, absent=found.absent, skew=self.skew)
            output.commit()


def logs_of(slabs: Sequence[Slab]) -> list[tuple[str, str, str, int]]:
    """Which files each host has, and the order of its logs: more than digests of their rows tell."""
    abouts = [slab.about for slab in slabs]
    return sorted({(about["kind"], about["host"], about["file"], about["order"]) for about in abouts})


def _connections(records: DataFrame) -> object:
    """A digest of what agents tell of their connections."""
    names = ("host", "agent", "epoch", "jseq", "ts", "kind", "broker", "reason")
    hashed = sf.xxhash64(*names).cast("decimal(38,0)")
    mine = records.where(sf.col("kind").isin("connected", "connection_lost"))
    row = mine.agg(sf.sum(hashed).alias("sum"), sf.count(sf.lit(1)).alias("count")).first()
    return row and (str(row["sum"]), row["count"])


def _of_kind(slabs: Sequence[Slab], kind: str) -> list[tuple[Slab, str]]:
    return [(slab, "") for slab in slabs if slab.about["kind"] == kind]


def follow(
    spark: SparkSession,
    logs: str,
    out: str,
    *,
    until_idle: float | None,
    inventory_hosts: Mapping[str, Host] | None = None,
    skew: timedelta = SKEW,
    hold: float = HOLD,
    most: int = MOST,
    every: float = 1.0,
) -> None:
    """Audit logs and journals that grow, until nothing new came for ``until_idle`` seconds, or for ever.

    ``inventory_hosts`` and ``skew`` as for ``audit``. ``hold``: seconds that a file must be quiet before its last
    record is taken as it is. ``most``: bytes of a micro-batch. ``every``: seconds between two looks at the files.

    Started again with the same OUT it goes on where it was. Raises InputError for paths that it cannot follow, or
    where there was nothing to the end, and whatever Spark raises when the stream fails.
    """
    root = _followed(logs)
    end_replacement(local_path(out) or Path(out))
    with Output(spark, out):
        pass  # an OUT that is not ours is refused before any work
    spark.dataSource.register(TailSource)
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "10")  # each has an offset of all files
    job = Job(str(root), out, dict(sorted((inventory_hosts or {}).items())), skew)
    with _alone(out):
        if until_idle is None or until_idle > 0:
            with _running(spark, job, hold, most, every) as query:
                _watch(query, until_idle)
        # What was held back will not go on any more.
        with _running(spark, job, 0.0, most, every) as query:
            query.processAllAvailable()
    result = local_path(out)
    if result is not None and not (result / "audit.json").exists():
        list_inputs(spark, logs, inventory_hosts)  # says what is not there


def _followed(logs: str) -> Path:
    root = local_path(logs)
    if root is None:
        raise InputError(
            f"{logs}: --follow reads files that grow, on local or mounted paths alone; "
            "leave --follow out, and run the audit whenever there is more"
        )
    if not root.is_dir():
        raise InputError(f"{logs}: there is no such directory")
    return root


@contextmanager
def _alone(out: str) -> Iterator[None]:
    """Keep another stream from the same OUT, where it is on this machine. Elsewhere Spark's checkpoint does, later."""
    found = local_path(out)
    if found is None:
        yield
        return
    (found / STATE).mkdir(parents=True, exist_ok=True)
    descriptor = os.open(found / STATE / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            why = "another audit --follow writes it; wait for its end, or name another OUT"
            raise InputError(f"{out}: {why}") from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _running(spark: SparkSession, job: Job, hold: float, most: int, every: float) -> Iterator[StreamingQuery]:
    """The stream, for the length of the block."""
    source = spark.readStream.format(FORMAT).option("path", job.logs).option("salt", job.salt)
    rows = source.option("hold", hold).option("most", most).load()
    writer = rows.writeStream.foreachBatch(job).option("checkpointLocation", f"{job.state}/checkpoint")
    query = writer.trigger(processingTime=f"{int(every * 1000)} milliseconds").start()
    try:
        yield query
    finally:
        query.stop()


def _watch(query: StreamingQuery, until_idle: float | None, clock: Callable[[], float] = time.monotonic) -> None:
    """Return when nothing new came for so long. Raises what the query raises."""
    since, last = clock(), -1
    while not query.awaitTermination(_LOOK):
        progress = query.lastProgress
        batch = progress["batchId"] if progress else -1
        if batch != last or query.status["isDataAvailable"]:
            since, last = clock(), batch
        elif until_idle is not None and clock() - since >= until_idle:
            return
