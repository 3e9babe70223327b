"""What a task does: finds a file by what stands in it, and reads a range of it as rows.

Between planning and reading a file may be renamed, packed, or copied and cut. So the name is tried first, and then
everything else that the host has.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from activemq_fleet.pipeline.follow.contents import Content
from activemq_fleet.pipeline.follow.looking import followed
from activemq_fleet.pipeline.follow.places import Name, Place, Range
from activemq_fleet.pipeline.follow.records import pieces

if TYPE_CHECKING:
    import pyarrow as pa

_TRIES = 5
_PAUSE = 0.2  # a renaming or the last step of gzip takes far less


def read(root: Path, wanted: Sequence[Range | Name]) -> Iterator[pa.RecordBatch]:
    """The rows of some ranges and names, one batch a piece."""
    for one in wanted:
        if isinstance(one, Name):
            yield _batch([_row(one, "name", one.place.file)])
            continue
        data = content_of(root / one.host, one)
        if data is None:
            yield _batch([_row(one, "lost", one.place.file, line=one.line, begin=one.begin, end=one.end)])
            continue
        for line, piece in pieces(data, one.place.kind):
            kind = one.place.kind
            row = _row(one, kind, one.place.file, line=one.line + line, begin=one.begin, end=one.end, chunk=piece)
            yield _batch([row])


def content_of(directory: Path, wanted: Range) -> bytes | None:
    """The bytes of a range. As many as there are, if half a record was taken back; None if the file is no more."""
    short = None
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE)
        for file in [wanted.place.file, *followed(directory)]:
            data = _in(directory / file, wanted)
            if data is not None and len(data) == wanted.end - wanted.begin:
                return data
            short = short if data is None else data
    return short


def _in(path: Path, wanted: Range) -> bytes | None:
    place: Place = wanted.place
    try:
        with Content(path) as content:
            return content.read(wanted.begin, wanted.end) if content.holds(place) else None
    except OSError:
        return None


def _row(one: Range | Name, kind: str, file: str, **more: Any) -> dict[str, Any]:
    gone = one.place.gone
    return {"host": one.host, "number": one.number, "kind": kind, "file": file, "gone": gone, **more}


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema())


def arrow_schema() -> pa.Schema:
    """The columns of the stream: see ``source.SCHEMA``."""
    import pyarrow as pa

    text, long = pa.string(), pa.int64()
    names = {"host": text, "number": long, "kind": text, "file": text, "gone": pa.bool_()}
    return pa.schema({**names, "line": long, "begin": long, "end": long, "chunk": pa.binary()})
