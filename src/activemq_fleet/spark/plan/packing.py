"""Rows of several datasets in one row of a job, so that one pass over the fleet gives all of them.

A worker computes everything about some components at once. Datasets have different columns, and
Spark gives a job one result: so each dataset's rows travel as an Arrow stream, in which equal texts
stand once, and compressed; a later pass takes out one dataset each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

TEXT, TEXTS, INT, BOOL = pa.string(), pa.list_(pa.string()), pa.int32(), pa.bool_()

TABLES: Mapping[str, pa.Schema] = {
    "brokers": pa.schema(
        [(name, TEXT) for name in ("host", "group", "pair", "node", "role", "release", "address")]
        + [("ports", pa.map_(TEXT, INT))]
    ),
    "links": pa.schema(
        [(name, TEXT) for name in ("host", "name", "kind", "target", "uri")]
        + [("duplex", BOOL), ("network_ttl", INT), ("consumer_ttl", INT), ("message_ttl", INT)]
        + [("include", TEXTS), ("exclude", TEXTS)]
    ),
    "findings": pa.schema(
        [(name, TEXT) for name in ("rule", "severity", "host", "message", "fix", "why", "file")]
        + [("line", INT), ("column", INT), ("waived", TEXT)]
    ),
    "files": pa.schema([(name, TEXT) for name in ("host", "path", "sha256", "content")]),
    "components": pa.schema([(name, TEXT) for name in ("host", "component", "fingerprint")]),
}
"""Columns as in the datasets; ``components`` says which rows belong together, for the next run."""

PACK = pa.schema(
    [(name, pa.binary()) for name in TABLES]
    + [(name, pa.int64()) for name in ("blocking", "withheld")]
    + [("error", TEXT)]
)
"""One row for some components: the tables, how many findings block, brokers without files, the first error."""

_SHARED = pa.dictionary(pa.int32(), pa.string())
_SHARING = frozenset({"content", "fix", "sha256", "why"})
COMPACT: Mapping[str, pa.Schema] = {
    name: pa.schema([(field.name, _SHARED if field.name in _SHARING else field.type) for field in schema])
    for name, schema in TABLES.items()
}
"""The same in memory: of some columns equal texts stand once."""

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def compact(name: str, columns: Mapping[str, list[Any]]) -> pa.RecordBatch:
    """A table's rows, by column; ``content`` is bytes, which are UTF-8."""
    schema = COMPACT[name]
    return pa.RecordBatch.from_arrays([_array(field, columns[field.name]) for field in schema], schema=schema)


def _array(field: pa.Field, values: list[Any]) -> pa.Array:
    if field.name not in _SHARING:
        return pa.array(values, field.type)
    known: dict[Any, int] = {}
    indices = [None if value is None else known.setdefault(value, len(known)) for value in values]
    texts = pa.array(known, pa.binary() if field.name == "content" else TEXT).cast(TEXT)
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), texts)


def packed(batches: Sequence[pa.RecordBatch]) -> bytes | None:
    """A table as bytes, None where it has no row."""
    if not batches:
        return None
    table = pa.Table.from_batches(batches).unify_dictionaries()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
    result: bytes = sink.getvalue().to_pybytes()
    return result


def unpacked(batches: Iterable[pa.RecordBatch], *, name: str) -> Iterator[pa.RecordBatch]:
    """Rows of one dataset from packs, for ``mapInArrow``."""
    for batch in batches:
        for value in batch.column(name):
            if not value.is_valid:
                continue
            with pa.ipc.open_stream(value.as_buffer()) as reader:
                for part in reader:
                    yield plain(name, [part])


def plain(name: str, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Rows of ``compact`` as the dataset has them."""
    table = pa.Table.from_batches(batches).cast(TABLES[name]).combine_chunks()
    return pa.RecordBatch.from_arrays([_one(column) for column in table.columns], schema=table.schema)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def without_content(files: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of files that say what is in them by their hash only."""
    schema = COMPACT["files"]
    nothing = pa.nulls(files.num_rows, _SHARED)
    place = schema.get_field_index("content")
    return pa.RecordBatch.from_arrays([*files.columns[:place], nothing, *files.columns[place + 1 :]], schema=schema)
