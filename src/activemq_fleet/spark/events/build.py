"""The dataset ``events``, and what is missing from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf

from activemq_fleet.logs.event_batches import Scanner, Source
from activemq_fleet.spark.events.chunks import blocks
from activemq_fleet.spark.events.files import IN_MEMORY, Log, scan_files
from activemq_fleet.spark.events.parse import CUT_OFF, EVENTS, labelled, with_problem
from activemq_fleet.spark.events.rolls import Roll, missing
from activemq_fleet.spark.events.shares import shares_of
from activemq_fleet.spark.events.survey import Place, lines_of, survey, whole
from activemq_fleet.spark.inputs import InputFile, Inputs, binary
from activemq_fleet.spark.settings import cores_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Through = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What is done with the events of a partition where they are read."""


def events(spark: SparkSession, inputs: Inputs) -> DataFrame:
    """Every event of the logs, in the columns of EVENTS. Looks first at files that need it, see ``survey``.

    A file is one row for Spark, and several make a partition, by host and file; one above 32 MB is read
    as lines, in blocks, by several tasks. So each partition is sorted by host, file and line, but for
    those of large files, where the blocks of several may follow each other in any order.
    """
    return scanned(spark, inputs, None, EVENTS)


def scanned(spark: SparkSession, inputs: Inputs, through: Through | None, schema: StructType) -> DataFrame:
    """What ``through`` makes of the events of each partition, in the worker that reads them; None: they themselves."""
    logs = inputs.of_kind("log")
    # One for a Spark elsewhere: how many tasks run there at a time is not known.
    shares = shares_of(logs, whole, cores_of(spark.conf.get("spark.master", None) or ""))
    places = survey(spark, inputs, {file.host for file in logs} - shares.together)
    found = [_of_files(spark, files, inputs, places, through, schema) for files in shares.files]
    if large := [file for file in logs if not whole(file)]:
        found.append(_of_blocks(spark, large, inputs, places, through, schema))
    return reduce(lambda one, other: one.unionAll(other), found) if found else spark.createDataFrame([], schema)


def _of_files(
    spark: SparkSession,
    files: Sequence[InputFile],
    inputs: Inputs,
    places: Mapping[str, Place],
    through: Through | None,
    schema: StructType,
) -> DataFrame:
    """Whole files, in one partition: nothing is shuffled, and what is known of them goes with the function."""
    logs = {file.path: Log(file, inputs.hosts[file.host], places.get(file.path)) for file in files}
    in_order = sum(file.size for file in files) > IN_MEMORY

    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = scan_files(batches, logs, in_order=in_order)
        return through(found) if through else found

    read = binary(spark, list(logs)).select("path", "content").coalesce(1)
    if in_order:
        read = read.sortWithinPartitions(sf.element_at(sf.split("path", "/"), -2), "path")
    return read.mapInArrow(parse, schema)


def _of_blocks(
    spark: SparkSession,
    files: list[InputFile],
    inputs: Inputs,
    places: Mapping[str, Place],
    through: Through | None,
    schema: StructType,
) -> DataFrame:
    about = {}
    for file in files:
        host = inputs.hosts[file.host]
        about[file.id] = (host.host, file.file, Source(host.release, host.timezone), places[file.path])

    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = _scan_blocks(batches, about)
        return through(found) if through else found

    return lines_of(spark, files).mapInArrow(parse, schema)


def _scan_blocks(
    batches: Iterator[pa.RecordBatch], about: Mapping[int, tuple[str, str, Source, Place]]
) -> Iterator[pa.RecordBatch]:
    scanner: Scanner | None = None
    for id_, start, data, last in blocks(batches):
        host, file, source, place = about[id_]
        part = place.parts[start]
        if scanner is None:
            scanner = Scanner(source, part.line)
            scanner.line += data[: part.skip].count(b"\n")
            data = data[part.skip :]
        if last and part.open:
            data = data[:-1]
        found = scanner.scan(data, part.after if last else b"", same_file=part.same_file)
        if last and part.open and not part.after:
            found = iter(_cut_off(list(found)))
        for batch in found:
            yield labelled(batch, host, file, source.release, place.order)
        if last:
            scanner = None


def _cut_off(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [*batches[:-1], *(with_problem(batch, CUT_OFF) for batch in batches[-1:])]


def gaps(events: DataFrame, inputs: Inputs) -> DataFrame:
    """What is not known of the logs: host, file, line, what. One row a problem, sorted by nothing.

    Bytes that are no text, files cut short, records that could not be read (counted a file, at the
    first), files missing between others, hosts without a log.
    """
    broken = events.where("problem is not null").select("host", "file", "line", sf.col("problem").alias("what"))
    unread = (
        events.where("not parsed")
        .groupBy("host", "file")
        .agg(sf.min("line").alias("line"), sf.count("*").alias("count"))
        .select("host", "file", "line", sf.concat("count", sf.lit(" records could not be read")).alias("what"))
    )
    spark = events.sparkSession
    known = spark.createDataFrame(pa.Table.from_pylist(_absent(inputs), schema=_GAPS))
    return broken.unionAll(unread).unionAll(known)


_GAPS = pa.schema([("host", pa.string()), ("file", pa.string()), ("line", pa.int64()), ("what", pa.string())])


def _absent(inputs: Inputs) -> list[dict[str, str | None]]:
    rolls: dict[str, list[Roll]] = defaultdict(list)
    for file in inputs.of_kind("log"):
        rolls[file.host].append(Roll(file.file))
    return [
        {"host": host, "file": None, "line": None, "what": what}
        for host, found in rolls.items()
        for what in missing(found)
    ]
