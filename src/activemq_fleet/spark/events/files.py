"""Whole files of logs -> events, in Spark's workers.

A worker that has all files of a host puts them in order itself, and gives what stands before a file's
first record to the file before. So nobody has to read the files for that beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from activemq_fleet.spark.events.parse import scan_file
from activemq_fleet.spark.events.survey import Place, beginning_of, places_of
from activemq_fleet.spark.inputs import Host, InputFile

IN_MEMORY = 1 << 28
"""Bytes of files up to which a worker itself puts those of a partition in order: Java's sort would copy each."""


@dataclass(frozen=True, slots=True)
class Log:
    """A file and whose it is. ``place`` None: all files of the host are in this partition, and tell it."""

    file: InputFile
    host: Host
    place: Place | None


_Read = tuple[Log, pa.Buffer]


def scan_files(
    batches: Iterator[pa.RecordBatch], logs: Mapping[str, Log], *, in_order: bool
) -> Iterator[pa.RecordBatch]:
    """The events of files (path, content), by host and file. ``logs``: by path.

    ``in_order``: so they come, and nobody has to wait for all of them before the first is parsed.
    """
    waiting: list[_Read] = []
    size = 0
    for batch in batches:
        for path, content in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            buffer = content.as_buffer()
            waiting.append((logs[path], buffer))
            size += buffer.size
        if in_order and size > IN_MEMORY:
            ready, waiting = _complete(waiting)
            size = sum(buffer.size for _, buffer in waiting)
            yield from _in_order(ready)
    yield from _in_order(waiting)


def _complete(read: list[_Read]) -> tuple[list[_Read], list[_Read]]:
    """What can be parsed now, and the files of a host of which more may come that tell where these stand."""
    last, _ = read[-1]
    if last.place is not None:
        return read, []
    mine = [one for one in read if one[0].file.host == last.file.host]
    return [one for one in read if one[0].file.host != last.file.host], mine


def _in_order(read: list[_Read]) -> Iterator[pa.RecordBatch]:
    read = sorted(read, key=lambda one: (one[0].file.host, one[0].file.file))
    for _, group in groupby(read, key=lambda one: one[0].file.host):
        yield from _of_host(list(group))


def _of_host(read: Sequence[_Read]) -> Iterator[pa.RecordBatch]:
    host = read[0][0].host
    unknown = [one for one in read if one[0].place is None]
    seen = {
        log.file.path: [beginning_of(memoryview(buffer), compressed=log.file.compressed)] for log, buffer in unknown
    }
    found = places_of(host, [log.file for log, _ in unknown], seen) if unknown else {}
    for log, buffer in read:
        place = log.place or found[log.file.path]
        yield from scan_file(_about(log, place), memoryview(buffer))


def _about(log: Log, place: Place) -> dict[str, Any]:
    part = place.parts[0]
    return {
        "host": log.file.host,
        "file": log.file.file,
        "order": place.order,
        "release": log.host.release,
        "timezone": log.host.timezone,
        "first_line": part.line,
        "skip": part.skip,
        "after": part.after or None,
        "compressed": log.file.compressed,
    }
