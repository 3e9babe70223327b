"""A first look at the logs: in which order a host's files were written, and what reaches over their ends.

Only what needs it is looked at: the beginnings of files that are not a host's only one, and the
blocks of files that are so large that Spark reads them in parts. A worker that has all files of a host
at hand needs no look beforehand.
"""

from __future__ import annotations

import calendar
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from activemq_fleet.errors import ReleaseError
from activemq_fleet.logs.event_batches import head_of
from activemq_fleet.logs.zones import Clock
from activemq_fleet.releases import Release
from activemq_fleet.spark.events.chunks import blocks, unpacked
from activemq_fleet.spark.events.rolls import Roll, adjacent, ordered
from activemq_fleet.spark.inputs import Host, InputFile, Inputs, binary, escaped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WHOLE = 1 << 25
"""Bytes up to which a file is read as one row; larger ones are read as lines, in blocks."""
_PACKED = 1 << 26  # the same for gzip files, which no reader can cut
_BEGINNING = 1 << 16  # bytes of a file in which its first record is looked for at first
_HEAD = 1 << 20
"""Bytes before a file's first record that are taken for the end of the last record of the file before."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or a block of one: its first line, what of it belongs to the part before, and what is to be added.

    ``same_file``: what is to be added is of the same file. ``open``: its last line has no end, although
    it comes with one.
    """

    line: int = 1
    skip: int = 0
    after: bytes = b""
    same_file: bool = False
    open: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file stands among its host's, and its parts by where they begin, in bytes."""

    order: int = 0
    parts: Mapping[int, Part] = field(default_factory=lambda: {0: Part()})


@dataclass(frozen=True, slots=True)
class Seen:
    """Of a part: where it begins, its lines, the bytes before its first record, that record's date if any."""

    start: int
    lines: int
    head: bytes
    first: str | None
    too_long: bool = False
    size: int = 0


def whole(file: InputFile) -> bool:
    """Whether the file is read as one row."""
    return file.size <= (_PACKED if file.compressed else WHOLE)


def survey(spark: SparkSession, inputs: Inputs, hosts: Collection[str]) -> dict[str, Place]:
    """The place of each log of these hosts, by path. A job for hosts with several files, and one for large files."""
    logs = [file for file in inputs.of_kind("log") if file.host in hosts]
    counts: dict[str, list[InputFile]] = defaultdict(list)
    for file in logs:
        counts[file.host].append(file)
    seen: dict[str, list[Seen]] = {file.path: [Seen(0, 0, b"", None)] for file in logs}
    doubtful = [file for file in logs if whole(file) and len(counts[file.host]) > 1]
    seen |= _beginnings(spark, doubtful)
    large = [file for file in logs if not whole(file)]
    seen |= _blocks(spark, large)
    places: dict[str, Place] = {}
    for host, files in counts.items():
        places |= places_of(inputs.hosts[host], files, seen)
    return places


def _beginnings(spark: SparkSession, files: Sequence[InputFile]) -> dict[str, list[Seen]]:
    found = _look(spark, files, _BEGINNING)
    again = [file for file in files if found[file.path][0].too_long]
    return found | _look(spark, again, WHOLE)


def _look(spark: SparkSession, files: Sequence[InputFile], limit: int) -> dict[str, list[Seen]]:
    if not files:
        return {}
    from pyspark.sql import functions as sf

    frame = binary(spark, [file.path for file in files]).select(
        "path",
        sf.substring("content", 1, limit).alias("beginning"),
        (sf.col("length") > limit).alias("cut"),
        sf.col("path").endswith(".gz").alias("compressed"),
    )
    rows = frame.mapInArrow(_first_records, "path string, head binary, first string, too_long boolean")
    return {row["path"]: [Seen(0, 0, row["head"], row["first"], row["too_long"])] for row in rows.toArrow().to_pylist()}


def _first_records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = []
        for path, beginning, cut, compressed in zip(*batch.to_pydict().values(), strict=True):
            seen = _first_record(memoryview(beginning), cut=cut, compressed=compressed)
            rows.append({"path": path, "head": seen.head, "first": seen.first, "too_long": seen.too_long})
        yield pa.RecordBatch.from_pylist(rows, schema=_FIRST_RECORDS)


def beginning_of(content: memoryview, *, compressed: bool) -> Seen:
    """The beginning of a file, by one who has all of it."""
    for limit in (_BEGINNING, WHOLE):
        seen = _first_record(content[:limit], cut=len(content) > limit, compressed=compressed)
        if not seen.too_long:
            break
    return seen


def _first_record(beginning: memoryview, *, cut: bool, compressed: bool) -> Seen:
    """``cut``: the file goes on after this. Where it has no record in it, it is too long."""
    data = b"".join(bytes(piece) for piece, _, _ in unpacked(beginning, compressed=compressed))
    head = head_of(data)
    none = head == len(data)
    first = None if none else data[head : head + 23].decode(errors="replace")
    return Seen(0, 0, data[:head] if head <= _HEAD else b"", first, none and cut)


_FIRST_RECORDS = pa.schema(
    [("path", pa.string()), ("head", pa.binary()), ("first", pa.string()), ("too_long", pa.bool_())]
)
_COUNTED = pa.schema(
    [
        ("id", pa.int64()),
        ("start", pa.int64()),
        ("lines", pa.int64()),
        ("size", pa.int64()),
        ("head", pa.binary()),
        ("first", pa.string()),
    ]
)
_COUNTED_TYPES = "id bigint, start bigint, lines bigint, size bigint, head binary, first string"


def lines_of(spark: SparkSession, files: Iterable[InputFile]) -> DataFrame:
    """The lines of large files: file id, where their block begins, the line's bytes with its end."""
    from pyspark.sql import functions as sf

    return (
        spark.read.option("lineSep", "\n")
        .text([escaped(file.path) for file in files])
        .select(
            sf.xxhash64("_metadata.file_path").alias("id"),
            sf.col("_metadata.file_block_start").alias("start"),
            sf.concat(sf.col("value").cast("binary"), sf.lit(b"\n")).alias("line"),
        )
    )


def _blocks(spark: SparkSession, files: Sequence[InputFile]) -> dict[str, list[Seen]]:
    if not files:
        return {}
    rows = lines_of(spark, files).mapInArrow(_count, _COUNTED_TYPES)
    paths = {file.id: file.path for file in files}
    found: dict[str, list[Seen]] = {file.path: [] for file in files}
    for row in rows.toArrow().to_pylist():
        part = Seen(row["start"], row["lines"], row["head"], row["first"], size=row["size"])
        found[paths[row["id"]]].append(part)
    return {path: sorted(parts, key=lambda part: part.start) for path, parts in found.items()}


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    lines, size, head, first = 0, 0, b"", None
    for file, start, data, last in blocks(batches):
        if first is None:
            at = head_of(data)
            head += data[:at] if len(head) <= _HEAD else b""
            if at < len(data):
                first = data[at : at + 23].decode(errors="replace")
        lines, size = lines + data.count(b"\n"), size + len(data)
        if last:
            row = {
                "id": file,
                "start": start,
                "lines": lines,
                "size": size,
                "head": head if len(head) <= _HEAD else b"",
                "first": first,
            }
            yield pa.RecordBatch.from_pylist([row], schema=_COUNTED)
            lines, size, head, first = 0, 0, b"", None


def places_of(host: Host, files: Sequence[InputFile], seen: Mapping[str, list[Seen]]) -> dict[str, Place]:
    """The places of a host's logs, by path, from what was seen of their parts; the stream's, too."""
    paths = {file.file: file.path for file in files}
    rolls = [Roll(file.file, _second(seen[file.path], host.timezone)) for file in files]
    counts_up = _counts_up(host.release)
    order = ordered(rolls, counts_up=counts_up)
    chain: list[tuple[str, Seen, bool]] = []  # path, part, whether it goes on where the one before ended
    for at, roll in enumerate(order):
        path = paths[roll.file]
        joins = adjacent(order, at, counts_up=counts_up)
        chain += [(path, part, joins if number == 0 else True) for number, part in enumerate(seen[path])]
    parts = parts_of(chain)
    for file in files:
        _open_end(file, seen[file.path], parts[file.path])
    return {paths[roll.file]: Place(at, parts[paths[roll.file]]) for at, roll in enumerate(order)}


def _open_end(file: InputFile, seen: Sequence[Seen], parts: dict[int, Part]) -> None:
    """Note that a large file ends within a line: the end that every line was given makes it one byte longer."""
    if not file.compressed and sum(part.size for part in seen) == file.size + 1:
        last = seen[-1].start
        parts[last] = replace(parts[last], open=True)


def parts_of(chain: Sequence[tuple[str, Seen, bool]]) -> dict[str, dict[int, Part]]:
    """What each part gives to the one before; ``chain``: path, part, whether it goes on where that ended."""
    lines: dict[str, int] = defaultdict(lambda: 1)
    found: dict[str, dict[int, Part]] = defaultdict(dict)
    for path, part, _ in chain:
        found[path][part.start] = Part(lines[path])
        lines[path] += part.lines
    for (path, before, _), (other, part, joins) in pairwise(chain):
        # A file without any record of its own has nothing to tell that it goes on.
        if joins and part.head and part.first is not None and before.first is not None:
            found[path][before.start] = replace(found[path][before.start], after=part.head, same_file=path == other)
            found[other][part.start] = replace(found[other][part.start], skip=len(part.head))
    return found


def _second(parts: Sequence[Seen], zone: str) -> int | None:
    first = next((part.first for part in parts if part.first), None)
    try:
        local = calendar.timegm(time.strptime((first or "")[:19], "%Y-%m-%d %H:%M:%S"))
    except ValueError:
        return None
    return int(Clock(zone).utc(np.array([local]))[0])


def _counts_up(release: str | None) -> bool:
    """Whether the release's logger gives the newest of the rolled files the highest number."""
    try:
        return release is not None and Release.of(release).log_file_name.startswith("log4j2")
    except ReleaseError:
        return False
