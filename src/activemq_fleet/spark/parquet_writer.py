"""Write Parquet files in Spark's Python workers, without a way back to Java.

Where Spark runs on this machine and the output is a local directory (``Output.local_directory``), no row has to go
to Java's Parquet writer. Each task writes files under unique names and returns these; files that no task's result
names were left by an attempt that failed.
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

ROW_GROUP_BYTES = 64 << 20
"""Bytes of rows in memory (Arrow) that make one Parquet row group."""


def new_part_name() -> str:
    """Return a unique name for a Parquet part file."""
    return f"part-{uuid.uuid4()}.zstd.parquet"


class ParquetPartWriter:
    """Writer of one Parquet file at ``path``, zstd, in row groups of ROW_GROUP_BYTES.

    ``schema`` is that of ``arrow_schema_of``, with the metadata of the footer. ``without_dictionary`` names columns
    whose values hardly repeat, or are as short as a dictionary's index: a dictionary would cost time and space.
    """

    def __init__(self, path: Path, schema: pa.Schema, without_dictionary: Sequence[str] = ()) -> None:
        from pyarrow.parquet import ParquetWriter

        self._schema = schema
        # The limit: a row group's dictionary holds all its texts, of which most stand in several rows.
        self._file: ParquetWriter = ParquetWriter(
            path,
            schema,
            compression="zstd",
            use_dictionary=[name for name in schema.names if name not in without_dictionary],
            dictionary_pagesize_limit=ROW_GROUP_BYTES,
            store_schema=False,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch that has at least the schema's columns."""
        self._waiting.append(batch.select(self._schema.names))
        self._size += batch.nbytes
        if self._size >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the last row group and the footer."""
        if self._waiting:
            self._flush()
        self._file.add_key_value_metadata(self._schema.metadata or {})
        self._file.close()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._waiting).cast(self._schema)
        self._file.write_table(table, row_group_size=max(1, table.num_rows))
        self._waiting, self._size = [], 0


def hard_link_files(files: Collection[Path], directory: Path) -> None:
    """Hard-link files into ``directory`` on the same file system; it is made if need be."""
    directory.mkdir(parents=True, exist_ok=True)
    for file in files:
        os.link(file, directory / file.name)


def remove_unlisted_parts(directory: Path, names: Collection[str], schema: pa.Schema) -> None:
    """Delete files in ``directory`` other than ``names``; with no names, write one Parquet file without rows."""
    for path in directory.iterdir():
        if path.name not in names:
            path.unlink()
    if not names:
        ParquetPartWriter(directory / new_part_name(), schema).close()
