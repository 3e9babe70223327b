"""Many small pieces of a file -> few: micro-batches come by the thousand, and each brings some lines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from activemq_fleet.spark.follow.reading import HEAD
from activemq_fleet.spark.follow.records import PIECE

if TYPE_CHECKING:
    import pyarrow as pa

GROUP = PIECE
"""Pieces that begin within so many bytes become one."""


def merged(table: pa.Table) -> pa.Table:
    """Pieces of one file, in any order -> those that follow each other as one each; runs in Spark's workers."""
    import pyarrow as pa

    rows = table.sort_by("begin")
    found = [_as_one(rows, run) for run in _runs(rows)]
    names = ["host", "number", "kind", "begin", "line", "size", "hash", "chunk", "head", "first", "problem"]
    text, long = pa.string(), pa.int64()
    types = [text, long, text, long, long, long, long, pa.binary(), pa.binary(), text, text]
    return pa.Table.from_pylist(found, schema=pa.schema(list(zip(names, types, strict=True))))


def _runs(rows: pa.Table) -> Iterator[range]:
    """Those without a hole between them. What is told of a piece's end is told of the last one."""
    begins, sizes, problems = (rows.column(name).to_pylist() for name in ("begin", "size", "problem"))
    start = 0
    for at in range(1, len(begins) + 1):
        if at < len(begins) and begins[at] == begins[at - 1] + sizes[at - 1] and problems[at - 1] is None:
            continue
        yield range(start, at)
        start = at


def _as_one(rows: pa.Table, run: range) -> dict[str, Any]:
    mine = rows.slice(run.start, len(run))
    about = mine.drop_columns(["chunk"]).to_pylist()
    if len(run) == 1:
        return {**about[0], "chunk": mine.column("chunk")[0].as_py()}
    first = next((row["first"] for row in about if row["first"] is not None), None)
    head = b"".join(row["head"] or b"" for row in about)
    return {
        **about[0],
        "size": sum(row["size"] for row in about),
        "hash": hash_of([(row["hash"], row["size"]) for row in about]),
        "chunk": b"".join(chunk.as_buffer() for chunk in mine.column("chunk")),
        "head": head[: HEAD + 1],
        "first": first,
        "problem": about[-1]["problem"],
    }


def hash_of(parts: Sequence[tuple[int | None, int]]) -> int | None:
    """One hash of several pieces; null where one has none."""
    if any(mark is None for mark, _ in parts):
        return None
    return int.from_bytes(hashlib.sha256(repr(list(parts)).encode()).digest()[:8], "big", signed=True)
