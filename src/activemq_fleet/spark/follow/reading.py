"""What a task does: finds a file by what stands in it, and reads a range of it as rows.

Between planning and reading a file may be renamed, packed, or copied and cut. So the name is tried first, and then
everything else that the host has.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from activemq_fleet.logs.event_batches import head_of
from activemq_fleet.spark.follow.contents import Content
from activemq_fleet.spark.follow.looking import followed
from activemq_fleet.spark.follow.places import Name, Range
from activemq_fleet.spark.follow.records import pieces

if TYPE_CHECKING:
    import pyarrow as pa

LOST = "the rest is missing: the file was gone before it was read"
_TRIES = 5
HEAD = 1 << 20
"""A longer beginning is not taken for the end of the last record of the file before; as in ``events.survey``."""
_PAUSE = 0.2  # a renaming or the last step of gzip takes far less


def read(root: Path, wanted: Sequence[Range | Name]) -> Iterator[pa.RecordBatch]:
    """The rows of some ranges and names, one batch a piece; the columns are those of ``source.SCHEMA``."""
    for one in wanted:
        if isinstance(one, Name):
            yield _batch(one, named=True)
            continue
        data, problem = content_of(root / one.host, one) or (b"", LOST)
        for begin, line, piece in pieces(data, one.place.kind):
            about = beginning(piece) if one.place.kind == "log" else {}
            rest = problem if begin + len(piece) == len(data) else None
            yield _batch(one, begin=one.begin + begin, line=one.line + line, chunk=piece, problem=rest, **about)


def beginning(piece: bytes) -> dict[str, Any]:
    """What stands before the first record of a log's piece, all of it where there is none, and how that begins."""
    head = head_of(piece)
    first = None if head == len(piece) else piece[head : head + 23].decode(errors="replace")
    return {"head": piece[: min(head, HEAD + 1)], "first": first}


def content_of(directory: Path, wanted: Range) -> tuple[bytes, str | None] | None:
    """The bytes of a range, and what is wrong with them. As many as there are, if half a record was taken back.

    None if the file is no more.
    """
    short = None
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE)
        for file in [wanted.place.file, *followed(directory)]:
            found = _in(directory / file, directory.parent, wanted)
            if found is not None and len(found[0]) == wanted.end - wanted.begin:
                return found
            short = short if found is None else found
    return short


def _in(path: Path, root: Path, wanted: Range) -> tuple[bytes, str | None] | None:
    try:
        with Content(path, root) as content:
            if not content.holds(wanted.place):
                return None
            problem = content.problem if wanted.end == content.size else ""
            return content.read(wanted.begin, wanted.end), problem or None
    except OSError:
        return None


def _batch(one: Range | Name, *, named: bool = False, **more: Any) -> pa.RecordBatch:
    import pyarrow as pa

    place = one.place
    row = {"host": one.host, "number": one.number, "kind": place.kind, "file": place.file, "gone": place.gone}
    return pa.RecordBatch.from_pylist([{**row, "named": named, **more}], schema=arrow_schema())


def arrow_schema() -> pa.Schema:
    """The columns of the stream: see ``source.SCHEMA``."""
    import pyarrow as pa

    text, long = pa.string(), pa.int64()
    names = {"host": text, "number": long, "kind": text, "file": text, "gone": pa.bool_(), "named": pa.bool_()}
    piece = {"begin": long, "line": long, "chunk": pa.binary(), "head": pa.binary(), "first": text, "problem": text}
    return pa.schema({**names, **piece})
