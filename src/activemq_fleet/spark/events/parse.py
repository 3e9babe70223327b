"""Chunks of logs -> events, in Spark's workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyspark.sql.types import LongType, StringType, StructField, StructType

from activemq_fleet.logs.event_batches import Scanner, Source
from activemq_fleet.spark.events.chunks import unpacked
from activemq_fleet.spark.schemas import SCHEMAS

EVENTS = StructType(
    [
        *SCHEMAS["events"].fields,
        StructField("sequence", LongType()),
        StructField("problem", StringType()),
    ]
)
"""The dataset's columns; ``sequence``: the order inside a host, across its files; ``problem``: what was wrong
with the bytes, or null."""

LINES = 1 << 40
"""More than a file has lines: ``sequence`` is the file's place times this, plus the line."""

CUT_OFF = "the file is cut off: its last line has no end"
"""Loggers write whole lines; a collection that came in between sees this too."""


def scan_file(row: dict[str, Any], chunk: memoryview) -> Iterator[pa.RecordBatch]:
    """The events of a whole file, or of a chunk of whole records.

    ``row`` has host, file, release, timezone, first_line; ``order``, the place of the file among its host's; ``skip``,
    bytes at the beginning that belong to an earlier file; ``after``, bytes of a later one that belong to the last
    event, or null; ``compressed``, for a chunk that is a whole gzip file.
    """
    scanner = Scanner(Source(row["release"], row["timezone"] or "UTC"), row["first_line"])
    skip = row["skip"]
    for piece, last, problem in unpacked(chunk, compressed=row["compressed"]):
        if skip:
            scanner.line += bytes(piece[:skip]).count(b"\n")
            piece, skip = piece[skip:], 0
        after = (row["after"] or b"") if last else b""
        found = list(scanner.scan(piece, after))
        if last and not after and not problem and bytes(piece[-1:]) not in (b"", b"\n"):
            problem = CUT_OFF
        if problem and found:
            found[-1] = with_problem(found[-1], problem)
        for batch in found:
            yield labelled(batch, row["host"], row["file"], row["release"], row["order"])


def with_problem(batch: pa.RecordBatch, problem: str) -> pa.RecordBatch:
    """The batch with a problem of its last event."""
    problems = batch.column("problem").to_pylist()
    problems[-1] = "; ".join(filter(None, (problems[-1], problem)))
    return batch.set_column(batch.schema.get_field_index("problem"), "problem", pa.array(problems, pa.string()))


def labelled(batch: pa.RecordBatch, host: str, file: str, release: str | None, order: int) -> pa.RecordBatch:
    """The batch with all columns of EVENTS, in their order."""
    count = batch.num_rows
    known = {name: batch.column(name) for name in batch.schema.names}
    known |= {
        "host": _same(host, count),
        "file": _same(file, count),
        "release": _same(release, count),
        "sequence": pa.compute.add(known["line"], pa.scalar(order * LINES, pa.int64())),
    }
    return pa.RecordBatch.from_arrays([known[name] for name in EVENTS.names], names=EVENTS.names)


def _same(value: str | None, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), count)
