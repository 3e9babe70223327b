"""Write and read the datasets of a Spark job, ``OUT/NAME/*.parquet``; OUT appears whole or not at all.

On this machine's file system OUT is written as ``OUT.staged`` and renamed in one step. Anywhere else (``s3a://…``)
nothing can be renamed: new files come first, and ``manifest.json``, which lists the files that count, comes last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import Observation
from pyspark.sql import functions as sf

from activemq_fleet import InputError, __version__
from activemq_fleet.spark.manifests import HadoopTarget, files_listed_in_manifest, new_manifest
from activemq_fleet.spark.paths import local_path, uri_of, uri_with_escaped_wildcards
from activemq_fleet.spark.schemas import COLUMN_METADATA, SCHEMA_VERSION, SCHEMAS, SORTED_BY, arrow_schema_of
from activemq_fleet.spark.settings import is_local_master, temporary_settings
from activemq_fleet.spark.staging import LocalTarget
from activemq_fleet.spark.task_results import (
    OBJECTS,
    OBJECTS_DDL,
    Batches,
    Task,
    WrittenPart,
    make_file_writing_task,
    make_object_pickling_task,
    make_objects_and_rows_task,
    unpickle_objects,
    write_empty_parquet_file,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SCHEMAS", "SCHEMA_VERSION", "AtomicJobOutput", "read_dataset"]

_FILE_BYTES = 192 << 20  # bytes: the middle of 128 to 256 MB
_SHUFFLE_FACTORS = {"messages": 5, "deliveries": 25}
"""How many times as large as in their file rows are on their way to it: 3 million of events that were delivered."""
_DEFAULT_SHUFFLE_FACTOR = 3  # not measured: the other datasets that are shuffled are small
_ADAPTIVE_SETTING = "spark.sql.adaptive.enabled"

MapInArrow = Callable[[Callable[[Batches], Batches], str], "DataFrame"]
"""``DataFrame.mapInArrow``: it runs a function over the frame's batches, and takes the columns of the result as DDL."""


def _file_size_settings(name: str) -> dict[str, str]:
    """Return settings with which each task of the last shuffle writes one file of about 192 MiB.

    Spark's own 64 MiB a task would make files of 13 MiB of ``messages`` and of 3 MiB of ``deliveries``.
    """
    return {
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(
            _FILE_BYTES * _SHUFFLE_FACTORS.get(name, _DEFAULT_SHUFFLE_FACTOR)
        ),
        # Without this setting, Spark makes as many tasks as run at once, and ignores the size.
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    }


class AtomicJobOutput:
    """The output of a Spark job: datasets and text files, which one commit makes visible together.

    It is written in a ``with`` block; the output path is unchanged until ``commit``.
    """

    def __init__(self, spark: SparkSession, path: str, kind: str = "audit") -> None:
        """Prepare to write to ``path``, any that Hadoop writes.

        ``kind`` is ``audit``, ``plan`` or ``drift``. Raises InputError where the path holds anything but an earlier
        result of this kind.
        """
        self.path = path
        self._spark = spark
        self._kind = kind
        self._rows: dict[str, int] = {}
        self._cached_frames: list[DataFrame] = []
        self.parts: dict[str, list[WrittenPart]] = {}
        """The files that tasks have written, by dataset."""
        directory = local_path(path)
        self._target: LocalTarget | HadoopTarget = (
            HadoopTarget(spark, uri_of(path)) if directory is None else LocalTarget(directory)
        )
        self._target.check_output_replaceable(kind)
        self._target.create_staging_directory_if_local()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for frame in self._cached_frames:
            frame.unpersist()
        self._target.delete_staging_directory_if_local()

    def write_dataset(self, name: str, frame: DataFrame, *, ordered: bool = False) -> int:
        """Write the rows of a data frame to a dataset of a job's output.

        They are appended. Returns the dataset's number of rows. The dataset is called ``name``. Columns of the
        dataset's schema are selected by name and cast; others are dropped. ``ordered`` means that each partition is
        sorted and as large as a file should be: then nothing is shuffled or sorted.
        """
        rows = sf.count(sf.lit(1)).alias("rows")
        is_adaptive = self._spark.conf.get(_ADAPTIVE_SETTING) == "true"  # Without it, Spark ignores the other settings.
        with temporary_settings(self._spark, _file_size_settings(name) if is_adaptive else {}):
            sorted_frame = (
                _select_dataset_columns(name, frame)
                if ordered
                else _sort_into_files(name, _select_dataset_columns(name, frame))
            )
            observation = Observation()
            sorted_frame.observe(observation, rows).write.mode("append").option(
                "mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"
            ).parquet(self._target.dataset_uri(name))
        return self._record_rows(name, self._rows.get(name, 0) + int(observation.get["rows"]))

    def run_task_and_write_rows(
        self,
        map_in_arrow: MapInArrow,
        task: Task,
        datasets: Sequence[str],
        *,
        keep: bool = False,
        ordered: bool = False,
        files: int | None = None,
    ) -> tuple[list[Any], DataFrame]:
        """Run a task in Spark on a data frame's rows, and write the dataset rows that it yields to the job's output.

        Returns (results, frame): the other objects that the task yields, those for the driver as a list, and those for
        the next stage as a frame of OBJECTS, which with ``keep`` is kept until the output is closed. ``map_in_arrow``
        is the method ``mapInArrow`` of the data frame with the task's input, or a function with the same parameters.
        Where Spark runs on this machine and writes to a directory of it, the tasks write the files; elsewhere Spark
        does, ``ordered`` as in ``write_dataset``, in at most ``files`` files. Half of all time of an audit was that
        rows went to Java's Parquet writer (docs/audit-speed.md).
        """
        schemas = {name: arrow_schema_of(name) for name in datasets}
        directory = self._workers_directory()
        if directory is not None:
            task = make_file_writing_task(task, directory, schemas, {} if ordered else SORTED_BY)
            frame = map_in_arrow(make_object_pickling_task(task), OBJECTS_DDL)
        else:
            columns = "".join(f", `{name}` {SCHEMAS[name].simpleString()}" for name in datasets)
            frame = map_in_arrow(make_objects_and_rows_task(task, schemas), OBJECTS_DDL + columns)
        if keep or directory is None:
            self.cache_until_closed(frame)
        chosen = frame.where("key IS NULL AND data IS NOT NULL") if keep or directory is None else frame
        task_results = [keyed.value for keyed in unpickle_objects(chosen.select(*OBJECTS.names).toArrow().to_batches())]
        parts = [part for part in task_results if isinstance(part, WrittenPart)]
        for name in datasets:
            if directory is not None:
                self._record_parts(directory, name, [part for part in parts if part.dataset == name])
            else:
                rows = frame.where(f"`{name}` IS NOT NULL").select(f"{name}.*")
                self.write_dataset(name, rows if files is None else rows.coalesce(files), ordered=ordered)
        task_objects = [other for other in task_results if not isinstance(other, WrittenPart)]
        return task_objects, frame.where("key IS NOT NULL").select(*OBJECTS.names)

    def cache_until_closed(self, frame: DataFrame) -> DataFrame:
        """Cache a data frame with Spark until the job closes its output, and return the data frame."""
        self._cached_frames.append(frame.persist())
        return frame

    def write_empty_dataset(self, name: str) -> None:
        """Write a dataset of the given name to the job's output, without any rows."""
        directory = self._workers_directory()
        if directory is not None:
            self._record_parts(directory, name, [])
        else:
            self.write_dataset(name, self._spark.createDataFrame([], SCHEMAS[name]))

    def hard_link_parquet_files(self, name: str, directory: Path, parts: Sequence[WrittenPart]) -> None:
        """Add existing Parquet files to a dataset of a job's output, as hard links.

        ``name`` is the dataset's name; the files ``parts`` are in ``directory``.
        """
        for part in parts:
            os.link(directory / part.file, self.staged_directory / name / part.file)
        self._record_parts(self.staged_directory, name, [*self.parts[name], *parts])

    @property
    def is_written_by_python_tasks(self) -> bool:
        """Whether Python tasks write the Parquet files of a job's output, instead of Spark's Parquet writer in Java.

        They do if Spark runs on this machine, and the output is a directory of it.
        """
        return self._workers_directory() is not None

    @property
    def staged_directory(self) -> Path:
        """The staging directory, in which the output is written until it is committed.

        It is on this machine.
        """
        assert isinstance(self._target, LocalTarget)  # noqa: S101 -- for the type alone
        return self._target.staged

    def _workers_directory(self) -> Path | None:
        """Return the directory where tasks may write datasets themselves; None unless all is on this machine."""
        connected = (
            "connect" in type(self._spark).__module__
        )  # connected to a Spark whose workers can be on other machines
        if connected or not isinstance(self._target, LocalTarget):
            return None
        return self._target.staged if is_local_master(self._spark.conf.get("spark.master", None)) else None

    def _record_parts(self, directory: Path, name: str, parts: Sequence[WrittenPart]) -> None:
        """Record the files that tasks have written; remove those of failed attempts of tasks."""
        self.parts[name] = list(parts)
        written_files = {part.file for part in parts}
        for path in (directory / name).glob("*.parquet"):
            if path.name not in written_files:
                path.unlink()
        if not parts:
            write_empty_parquet_file(directory, name, arrow_schema_of(name))
        self._record_rows(name, sum(part.rows for part in parts))

    def _record_rows(self, name: str, rows: int) -> int:
        """Set and return the number of rows of a written dataset. Raises SparkProblem if rows are missing."""
        self._rows[name] = rows
        self._target.check_row_count_if_local(name, rows)
        return rows

    @property
    def row_counts_by_dataset(self) -> Mapping[str, int]:
        """The number of rows written to each dataset, by name."""
        return self._rows

    def read_written_dataset(self, name: str) -> DataFrame:
        """Return a DataFrame that reads the files of a dataset which this Spark job has written."""
        return self._spark.read.schema(SCHEMAS[name]).parquet(
            *map(uri_with_escaped_wildcards, self._target.paths_of_written_dataset(name))
        )

    def add_text_file_to_commit(self, name: str, text: str) -> None:
        """Add a text file, such as ``audit.json``, to the output of a job; the next ``commit`` makes it visible."""
        self._target.add_text_file_to_commit(name, text)

    def commit(self) -> None:
        """Commit the output of a job in one step: it replaces the earlier content of the output path.

        manifest.json is written, too.
        """
        self._target.commit(new_manifest(self._kind, __version__, SCHEMA_VERSION, self._rows))


def read_dataset(spark: SparkSession, out: str, name: str) -> DataFrame:
    """Read a dataset in the output of a job, by name, and return it.

    Raises InputError when the output has no such dataset.
    """
    reader = spark.read.schema(SCHEMAS[name])
    directory = local_path(out)
    if directory is not None:
        if not (directory / name).is_dir():
            raise InputError(
                f"{out}: the directory does not contain the dataset {name}: use the output directory of the "
                f"activemq-fleet command (plan, audit or drift) that writes {name}"
            )
        return reader.parquet(uri_with_escaped_wildcards(directory / name))
    return reader.parquet(*map(uri_with_escaped_wildcards, files_listed_in_manifest(spark, uri_of(out), name)))


def read_output_text_file(spark: SparkSession, out: str, name: str) -> str:
    """Read a text file in the output of a job, and return its content.

    The file, such as ``audit.json``, is next to the datasets.
    """
    directory = local_path(out)
    paths = files_listed_in_manifest(spark, uri_of(out), name) if directory is None else [directory / name]
    frame = spark.read.text([uri_with_escaped_wildcards(path) for path in paths], wholetext=True)
    return "".join(str(row["value"]) for row in frame.collect())


def _select_dataset_columns(name: str, frame: DataFrame, *extra_columns: str) -> DataFrame:
    """Return a data frame with only the columns of a dataset's schema, cast to their types.

    They are in the order of the schema, before ``extra_columns``. The columns' metadata has SCHEMA_VERSION, which
    Spark writes into Parquet footers.
    """
    column_metadata, fields = dict(COLUMN_METADATA), SCHEMAS[name].fields
    return frame.select(
        *(sf.col(field.name).cast(field.dataType).alias(field.name, metadata=column_metadata) for field in fields),
        *extra_columns,
    )


def _sort_into_files(name: str, frame: DataFrame) -> DataFrame:
    """Return the rows in sorted partitions of about one file, with the rows of a host together as far as they fit."""
    keys = SORTED_BY[name]
    first = [key for key in keys if key in ("group", "host")] or list(keys[:1])
    return frame.hint("rebalance", *first).sortWithinPartitions(*keys)
