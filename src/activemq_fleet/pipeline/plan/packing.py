"""Rows of several datasets in one row of a job, so that one pass over the fleet gives all of them.

A worker computes everything about some components at once. Datasets have different columns, and
Spark gives a job one result: so each dataset's rows travel as an Arrow stream, in which equal texts
stand once, and compressed; a later pass takes out one dataset each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

TEXT, TEXTS, INT, BOOL = pa.string(), pa.list_(pa.string()), pa.int32(), pa.bool_()
_SHARED = pa.dictionary(pa.int32(), pa.string())

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

_SHARING = frozenset({"content", "fix", "sha256", "why"})
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def packed(name: str, columns: Mapping[str, list[Any]]) -> bytes | None:
    """A table as bytes, None where it has no row."""
    schema = TABLES[name]
    if not columns or not columns[schema.names[0]]:
        return None
    arrays = [_array(field, columns[field.name]) for field in schema]
    table = pa.Table.from_arrays(arrays, names=schema.names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
    result: bytes = sink.getvalue().to_pybytes()
    return result


def _array(field: pa.Field, values: list[Any]) -> pa.Array:
    if field.name not in _SHARING:
        return pa.array(values, field.type)
    known: dict[Any, int] = {}
    indices = [None if value is None else known.setdefault(value, len(known)) for value in values]
    texts = [value.decode() if isinstance(value, bytes) else value for value in known]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(texts, TEXT))


def batch_of(name: str, columns: Mapping[str, list[Any]]) -> pa.RecordBatch:
    """A table's rows as they are."""
    schema = TABLES[name]
    return pa.RecordBatch.from_arrays([_plain_array(field, columns[field.name]) for field in schema], schema=schema)


def _plain_array(field: pa.Field, values: list[Any]) -> pa.Array:
    if field.name == "content":  # bytes, which are UTF-8
        return pa.array(values, pa.binary()).cast(field.type)
    return pa.array(values, field.type)


def unpacked(batches: Iterable[pa.RecordBatch], *, name: str) -> Iterator[pa.RecordBatch]:
    """Rows of one dataset from packs, for ``mapInArrow``."""
    schema = TABLES[name]
    for batch in batches:
        for value in batch.column(name):
            if not value.is_valid:
                continue
            with pa.ipc.open_stream(value.as_buffer()) as reader:
                for part in reader:
                    yield pa.RecordBatch.from_arrays(
                        [column.cast(field.type) for column, field in zip(part.columns, schema, strict=True)],
                        schema=schema,
                    )
