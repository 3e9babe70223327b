"""Carry the results of Spark tasks: rows of datasets, objects for the driver, and objects for tasks of the next stage.

A task is a Python function over Arrow batches that yields ``DatasetRows``, ``KeyedObject`` and any other objects, which
go to the driver. Objects travel as rows of OBJECTS, pickled; only workers of this session write and read them.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from activemq_fleet.planning.host_records import escape_lone_surrogates
from activemq_fleet.spark.settings import PARQUET_COMPRESSION

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetWriter
    from pyspark.sql import DataFrame

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Iterator[Any]]

OBJECTS = pa.schema([("key", pa.string()), ("place", pa.int64()), ("data", pa.binary())])
"""A pickled object a row; ``key`` is null for the driver, else that of the group that the object belongs to in the next
stage, and ``place`` its order there."""
OBJECTS_DDL = "key string, place bigint, data binary"

ROW_GROUP_BYTES = 64 << 20
"""Bytes of rows in memory (Arrow) that make one Parquet row group."""
_ROWS_PER_BATCH = 1000  # files of some kilobytes each, and objects of some hundred bytes
# Columns of ``events`` whose values rarely repeat, or are as short as an index of a dictionary.
_WITHOUT_DICTIONARY = frozenset({"line", "end_line", "time", "raw_time", "parsed"})


@dataclass(frozen=True, slots=True)
class DatasetRows:
    """Rows that a Spark task adds to a dataset.

    They are a record batch, or a mapping of column to value for a single row. ``part``: the rows of each part of the
    task's output are written to a separate Parquet file.
    """

    dataset: str
    rows: pa.RecordBatch | Mapping[str, Any]
    part: str = ""


class KeyedObject(NamedTuple):
    """A Python object that a Spark task passes to the next stage, with the key by which objects are grouped.

    One task of the next stage gets all objects of the same ``key``, sorted by ``place``.
    """

    key: str
    value: Any
    place: int = 0


class WrittenPart(NamedTuple):
    """A Parquet file that a Spark task has written: one part of a dataset.

    It has the dataset, the file name, the number of rows, and ``part`` of its rows.
    """

    dataset: str
    file: str
    rows: int
    part: str


def make_object_pickling_task(task: Task) -> Callable[[Batches], Batches]:
    """Make a task for Spark that yields the results of another task as pickled objects.

    It is for ``mapInArrow``; its batches have the schema OBJECTS.
    """
    return lambda batches: pickle_into_arrow_batches(task(batches))


def pickle_into_arrow_batches(results: Iterable[Any]) -> Batches:
    """Yield Python objects, pickled, as Arrow record batches.

    The batches have the schema OBJECTS.
    """
    results = iter(results)
    while chunk := list(islice(results, _ROWS_PER_BATCH)):
        rows = [
            (task_output.key, task_output.place, task_output.value)
            if isinstance(task_output, KeyedObject)
            else (None, None, task_output)
            for task_output in chunk
        ]
        keys, places, values = zip(*rows, strict=True)
        columns = keys, places, [pickle.dumps(value) for value in values]
        yield pa.RecordBatch.from_arrays(
            [pa.array(*column) for column in zip(columns, OBJECTS.types, strict=True)], schema=OBJECTS
        )


def unpickle_objects(batches: Iterable[pa.RecordBatch]) -> Iterator[KeyedObject]:
    """Yield the Python objects that Arrow record batches hold in pickled form.

    The batches have the schema OBJECTS; the objects come in their order.
    """
    for batch in batches:
        for key, data in zip(batch.column("key"), batch.column("data"), strict=True):
            yield KeyedObject(key.as_py(), pickle.loads(data.as_buffer()))  # noqa: S301 -- written by pickle_into_arrow_batches


def repartition_by_key(objects: DataFrame, partitions: int | None = None) -> DataFrame:
    """Return pickled objects of Spark tasks, repartitioned so that all objects with the same key are in one partition.

    The objects are pickled; they are sorted by key and place.
    """
    numbered = objects.repartition("key") if partitions is None else objects.repartition(partitions, "key")
    return numbered.sortWithinPartitions("key", "place")


def make_file_writing_task(
    task: Task, directory: Path, schemas: Mapping[str, pa.Schema], order: Mapping[str, Sequence[str]]
) -> Task:
    """Wrap a Spark task so that it writes its dataset rows to Parquet files instead of yielding them.

    The files are in ``directory/DATASET``. The task yields a WrittenPart for each file. ``order`` has the columns that
    each row group is sorted by; without them rows stay in the order of the task.
    """

    def write(batches: Batches) -> Iterator[Any]:
        parts: dict[str, _ParquetPart] = {}
        try:
            for dataset, batch, label in _batches_by_dataset(task(batches), schemas):
                if dataset is None:
                    yield batch
                    continue
                part = parts.get(dataset)
                if part is None or part.label != label:
                    if part is not None:
                        yield part.finish_file()
                    part = parts[dataset] = _ParquetPart(
                        directory, dataset, schemas[dataset], order.get(dataset, ()), label
                    )
                part.write_record_batch(batch)
        except BaseException:
            for part in parts.values():
                part.close_without_flush()
            raise
        for part in parts.values():
            yield part.finish_file()

    return write


def make_objects_and_rows_task(task: Task, schemas: Mapping[str, pa.Schema]) -> Callable[[Batches], Batches]:
    """Wrap a Spark task so that its objects and its dataset rows are in separate columns of one data frame.

    It is for ``mapInArrow``. Objects are in pickled form; the rows of each dataset are in a struct column.
    """
    fields = [*OBJECTS, *(pa.field(name, pa.struct(list(schema))) for name, schema in schemas.items())]
    combined_schema = pa.schema(fields)

    def rows(batches: Batches) -> Batches:
        for dataset, batch, _ in _batches_by_dataset(task(batches), schemas):
            given = next(pickle_into_arrow_batches([batch])) if dataset is None else batch
            columns = {field.name: pa.nulls(given.num_rows, field.type) for field in combined_schema}
            if dataset is None:
                columns |= dict(zip(OBJECTS.names, given.columns, strict=True))
            else:
                columns[dataset] = pa.StructArray.from_arrays(given.columns, fields=list(schemas[dataset]))
            yield pa.RecordBatch.from_arrays(list(columns.values()), schema=combined_schema)

    return rows


def _batches_by_dataset(
    results: Iterator[Any], schemas: Mapping[str, pa.Schema]
) -> Iterator[tuple[str | None, Any, str]]:
    """Yield dataset, batch in its schema, and part of a task's rows, and (None, object, "") for other objects."""
    pending_rows: dict[str, list[Mapping[str, Any]]] = {}
    for task_output in results:
        if not isinstance(task_output, DatasetRows):
            yield None, task_output, ""
        elif isinstance(task_output.rows, pa.RecordBatch):
            schema = schemas[task_output.dataset]
            yield task_output.dataset, task_output.rows.select(schema.names).cast(schema), task_output.part
        else:
            rows = pending_rows.setdefault(task_output.dataset, [])
            rows.append(task_output.rows)
            if len(rows) == _ROWS_PER_BATCH:
                yield (
                    task_output.dataset,
                    _rows_to_record_batch(pending_rows.pop(task_output.dataset), schemas[task_output.dataset]),
                    "",
                )
    for dataset, rows in pending_rows.items():
        yield dataset, _rows_to_record_batch(rows, schemas[dataset]), ""


def _rows_to_record_batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Convert rows to an Arrow record batch."""
    try:
        return pa.RecordBatch.from_pylist(rows, schema)
    except UnicodeEncodeError:
        return pa.RecordBatch.from_pylist([_encodable(row) for row in rows], schema)


def _encodable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _encodable(inside) for name, inside in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(inside) for inside in value]
    return escape_lone_surrogates(value) if isinstance(value, str) else value


class _ParquetPart:
    """A Parquet file of a dataset that a Spark task is writing.

    It is compressed with PARQUET_COMPRESSION, in row groups of ROW_GROUP_BYTES.
    """

    def __init__(self, directory: Path, dataset: str, schema: pa.Schema, order: Sequence[str], label: str) -> None:
        from pyarrow.parquet import ParquetWriter

        self.label = label
        self._dataset, self._schema, self._order = dataset, schema, order
        self._path = directory / dataset / f"part-{uuid.uuid4()}.{PARQUET_COMPRESSION}.parquet"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # This limit allows a dictionary of all texts in a row group, because most texts are in several rows.
        self._writer: ParquetWriter = ParquetWriter(
            self._path,
            schema,
            compression=PARQUET_COMPRESSION,
            use_dictionary=[name for name in schema.names if name not in _WITHOUT_DICTIONARY],
            dictionary_pagesize_limit=ROW_GROUP_BYTES,
            store_schema=False,
        )
        self._pending_batches: list[pa.RecordBatch] = []
        self._size = self._rows = 0

    def write_record_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows, given as a record batch, to a Parquet file of a dataset.

        The batch has the dataset's schema.
        """
        self._pending_batches.append(batch)
        self._size += batch.nbytes
        self._rows += batch.num_rows
        if self._size >= ROW_GROUP_BYTES:
            self._flush()

    def finish_file(self) -> WrittenPart:
        """Finish a Parquet file of a dataset: write its last row group and its footer, and close it."""
        self._flush()
        self._close_writer()
        return WrittenPart(self._dataset, self._path.name, self._rows, self.label)

    def close_without_flush(self) -> None:
        """Close a Parquet file without writing the buffered rows of its next row group, such as after an error."""
        self._close_writer()

    def _close_writer(self) -> None:
        self._writer.add_key_value_metadata(self._schema.metadata or {})
        self._writer.close()

    def _flush(self) -> None:
        if self._pending_batches:
            table = pa.Table.from_batches(self._pending_batches)
            if self._order:
                table = table.sort_by([(name, "ascending") for name in self._order])
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
            self._pending_batches, self._size = [], 0


def write_empty_parquet_file(directory: Path, dataset: str, schema: pa.Schema) -> None:
    """Write a Parquet file without rows to the directory of a dataset."""
    _ParquetPart(directory, dataset, schema, (), "").finish_file()
