"""Parquet files that workers write themselves.

Where Spark runs in this process's machine and the result is a directory of it (``Output.own_place``), no
row has to go to Java to be taken apart there by its Parquet writer. Each task writes files under names
that nobody else has, and tells of them in its result; files that no task's result names belong to an
attempt that failed.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetWriter

GROUP = 64 << 20
"""Bytes of rows, as they lie in memory, that make a row group."""


def new_part() -> str:
    """A name that no other file has."""
    return f"part-{uuid.uuid4()}.zstd.parquet"


class PartFile:
    """One file, of ``schema`` with what stands in its footer (``footers.schema_of``), in row groups of GROUP.

    ``unlike`` names columns whose values hardly come again, or are as short as a reference: a dictionary
    of them costs time and room.
    """

    def __init__(self, path: Path, schema: pa.Schema, unlike: Sequence[str] = ()) -> None:
        from pyarrow.parquet import ParquetWriter

        self._schema = schema
        # The limit: a row group's dictionary holds all its texts, of which most stand in several rows.
        self._file: ParquetWriter = ParquetWriter(
            path,
            schema,
            compression="zstd",
            use_dictionary=[name for name in schema.names if name not in unlike],
            dictionary_pagesize_limit=GROUP,
            store_schema=False,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows with at least the schema's columns."""
        self._waiting.append(batch.select(self._schema.names))
        self._size += batch.nbytes
        if self._size >= GROUP:
            self._flush()

    def close(self) -> None:
        """Write what is left, and the footer."""
        if self._waiting:
            self._flush()
        self._file.add_key_value_metadata(self._schema.metadata or {})
        self._file.close()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._waiting).cast(self._schema)
        self._file.write_table(table, row_group_size=max(1, table.num_rows))
        self._waiting, self._size = [], 0


def link_all(files: Collection[Path], place: Path) -> None:
    """Link files into a directory of the same file system, where a copy would take time and room."""
    place.mkdir(parents=True, exist_ok=True)
    for file in files:
        os.link(file, place / file.name)


def keep_only(place: Path, names: Collection[str], schema: pa.Schema) -> None:
    """Remove what is not told of below ``place``; where nothing is, write a file without rows."""
    for path in place.iterdir():
        if path.name not in names:
            path.unlink()
    if not names:
        PartFile(place / new_part(), schema).close()
