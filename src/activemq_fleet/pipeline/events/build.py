"""The dataset ``events``, and what is missing from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf

from activemq_fleet.logs.columns import Scanner, Source
from activemq_fleet.pipeline.events.chunks import blocks
from activemq_fleet.pipeline.events.parse import CUT_OFF, EVENTS, IN_MEMORY, labelled, parse_chunks, with_problem
from activemq_fleet.pipeline.events.rolls import Roll, missing
from activemq_fleet.pipeline.events.shares import shared_out
from activemq_fleet.pipeline.events.survey import Place, lines_of, survey, whole
from activemq_fleet.pipeline.inputs import InputFile, Inputs, binary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Through = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What is done with the events of a partition where they are read."""

_FILES = pa.schema(
    [
        ("path", pa.string()),
        ("host", pa.string()),
        ("file", pa.string()),
        ("order", pa.int32()),
        ("release", pa.string()),
        ("timezone", pa.string()),
        ("first_line", pa.int64()),
        ("skip", pa.int32()),
        ("after", pa.binary()),
        ("compressed", pa.bool_()),
    ]
)
_UNPACKED = 12
"""So many times its size is what a gzip file of logs holds."""


def events(spark: SparkSession, inputs: Inputs) -> DataFrame:
    """Every event of the logs, in the columns of EVENTS. Looks at the files first, see ``survey``.

    A file is one row for Spark, and several make a partition, by host and file; one above 32 MB is read
    as lines, in blocks, by several tasks. So each partition is sorted by host, file and line, but for
    those of large files, where the blocks of several may follow each other in any order.
    """
    return scanned(spark, inputs, None, EVENTS)


def scanned(spark: SparkSession, inputs: Inputs, through: Through | None, schema: StructType) -> DataFrame:
    """What ``through`` makes of the events of each partition, in the worker that reads them; None: they themselves."""
    places = survey(spark, inputs)
    logs = inputs.of_kind("log")
    small, large = [file for file in logs if whole(file)], [file for file in logs if not whole(file)]
    found = []
    if small:
        found.append(parse_chunks(_whole_files(spark, small, inputs, places), through, schema))
    if large:
        found.append(_of_blocks(spark, large, inputs, places, through, schema))
    if not found:
        return spark.createDataFrame([], schema)
    return found[0] if len(found) == 1 else found[0].unionAll(found[1])


def _whole_files(spark: SparkSession, files: list[InputFile], inputs: Inputs, places: Mapping[str, Place]) -> DataFrame:
    """A partition has whole files of hosts that follow each other. No content is shuffled: each share is a scan."""
    shares = shared_out([file.size * (_UNPACKED if file.compressed else 1) for file in files])
    about = spark.createDataFrame(pa.Table.from_pylist([_about(file, inputs, places) for file in files], schema=_FILES))
    by_share: dict[int, list[InputFile]] = defaultdict(list)
    for file, share in zip(files, shares, strict=True):
        by_share[share].append(file)
    scans = [
        binary(spark, [file.path for file in mine]).select("path", sf.col("content").alias("chunk")).coalesce(1)
        for mine in by_share.values()
    ]
    placed = reduce(lambda one, other: one.unionAll(other), scans).join(sf.broadcast(about), "path")
    largest = max(sum(file.size for file in mine) for mine in by_share.values())
    return placed if largest <= IN_MEMORY else placed.sortWithinPartitions("host", "file")


def _about(file: InputFile, inputs: Inputs, places: Mapping[str, Place]) -> dict[str, Any]:
    host, place = inputs.hosts[file.host], places[file.path]
    part = place.parts[0]
    return {
        "path": file.path,
        "host": file.host,
        "file": file.file,
        "order": place.order,
        "release": host.release,
        "timezone": host.timezone,
        "first_line": part.line,
        "skip": part.skip,
        "after": part.after or None,
        "compressed": file.compressed,
    }


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
