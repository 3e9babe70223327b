"""Write and read the datasets of a job, ``OUT/NAME/*.parquet``; OUT appears whole or not at all.

On this machine's file system OUT is written as ``OUT.staged`` and renamed in one step. Anywhere else (``s3a://…``)
nothing can be renamed: new files come first, and ``manifest.json``, which lists the files that count, comes last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from pyspark.sql import Observation
from pyspark.sql import functions as sf

from activemq_fleet import __version__
from activemq_fleet.errors import InputError
from activemq_fleet.spark.manifests import HadoopTarget, listed_files, manifest_of
from activemq_fleet.spark.paths import escaped_uri_of, local_path, uri_of
from activemq_fleet.spark.schemas import COLUMN_METADATA, SCHEMA_VERSION, SCHEMAS, SORTED_BY
from activemq_fleet.spark.settings import is_local, temporary_settings
from activemq_fleet.spark.staging import LocalTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SCHEMAS", "SCHEMA_VERSION", "Output", "read"]

_FILE = 192 << 20  # bytes: the middle of 128 to 256 MB
_SHUFFLED = {"messages": 5, "deliveries": 25}
"""How many times as large as in their file rows are on their way to it: 3 million of events that were delivered."""
_ANY_SHUFFLED = 3  # not measured: the other datasets that are shuffled are small
_ADAPTIVE = "spark.sql.adaptive.enabled"


def _by_size(name: str) -> dict[str, str]:
    """Return settings with which each task of the last shuffle writes one file of about 192 MiB."""
    return {
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(_FILE * _SHUFFLED.get(name, _ANY_SHUFFLED)),
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    }


class Target(Protocol):
    """Where an Output is written: LocalTarget or HadoopTarget."""

    def check_replaceable(self, kind: str) -> None:
        """Raise InputError unless OUT is absent, empty, or an earlier result of this kind."""

    def prepare(self) -> None:
        """Prepare an empty place for writing; raise InputError when another run is writing there."""

    def dataset_path(self, name: str) -> str:
        """Return the URI of the directory for the files of a dataset."""

    def check_rows(self, name: str, rows: int) -> None:
        """Check that the files of a dataset have ``rows`` rows. Raises SparkProblem when some are missing."""

    def written_files(self, name: str) -> Sequence[str]:
        """Return the paths of the files or directories that this run wrote of a dataset."""

    def write_text(self, name: str, text: str) -> None:
        """Write a text file ``name`` beside the datasets."""

    def commit(self, manifest: Mapping[str, Any]) -> None:
        """Replace the earlier result by this one, with its manifest."""

    def discard(self) -> None:
        """Remove what was written and not committed."""


class Output:
    """A job's result while it is written, used in a ``with`` block. Until ``commit`` the output path is unchanged."""

    def __init__(self, spark: SparkSession, path: str, kind: str = "audit") -> None:
        """Prepare to write to ``path``, any that Hadoop writes.

        ``kind`` is ``audit``, ``plan`` or ``drift``. Raises InputError where the path holds anything but an earlier
        result of this kind.
        """
        self.path = path
        self._spark = spark
        self._kind = kind
        self._rows: dict[str, int] = {}
        found = local_path(path)
        self._target: Target = HadoopTarget(spark, uri_of(path)) if found is None else LocalTarget(found)
        self._target.check_replaceable(kind)
        self._target.prepare()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._target.discard()

    def write(self, name: str, frame: DataFrame, *, ordered: bool = False) -> int:
        """Append the rows of ``frame`` to the dataset ``name``, and return its number of rows.

        Columns of the dataset's schema are selected by name and cast; others are dropped. ``ordered`` means that each
        partition is sorted and as large as a file should be: then nothing is shuffled or sorted.
        """
        rows = sf.count(sf.lit(1)).alias("rows")
        is_adaptive = self._spark.conf.get(_ADAPTIVE) == "true"  # else nobody reads the others
        with temporary_settings(self._spark, _by_size(name) if is_adaptive else {}):
            shaped = select_columns(name, frame) if ordered else _in_order(name, select_columns(name, frame))
            seen = Observation()
            shaped.observe(seen, rows).write.mode("append").option(
                "mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"
            ).parquet(self._target.dataset_path(name))
        return self.record_rows(name, self._rows.get(name, 0) + int(seen.get["rows"]))

    def local_directory(self, name: str) -> Path | None:
        """Return the directory where workers may write a dataset themselves; None unless all is on this machine."""
        connected = "connect" in type(self._spark).__module__  # to a Spark whose workers are anywhere
        if connected or not isinstance(self._target, LocalTarget):
            return None
        return self._target.staged / name if is_local(self._spark.conf.get("spark.master", None)) else None

    def record_rows(self, name: str, rows: int) -> int:
        """Set and return the number of rows of a dataset whose files are there. Raises SparkProblem if rows lack."""
        self._rows[name] = rows
        self._target.check_rows(name, rows)
        return rows

    def read_written(self, name: str) -> DataFrame:
        """Return a dataset as this run has written it, read from its files."""
        return self._spark.read.schema(SCHEMAS[name]).parquet(*map(escaped_uri_of, self._target.written_files(name)))

    def write_text(self, name: str, text: str) -> None:
        """Write a text file beside the datasets, such as ``audit.json``."""
        self._target.write_text(name, text)

    def commit(self) -> None:
        """Replace what is at the output path by what was written, in one step, with manifest.json."""
        self._target.commit(manifest_of(self._kind, __version__, SCHEMA_VERSION, self._rows))


def read(spark: SparkSession, out: str, name: str) -> DataFrame:
    """Return a dataset of the committed result at ``out``. Raises InputError when there is none of that name."""
    reader = spark.read.schema(SCHEMAS[name])
    found = local_path(out)
    if found is not None:
        if not (found / name).is_dir():
            raise InputError(f"{out}: holds no dataset {name}")
        return reader.parquet(escaped_uri_of(found / name))
    return reader.parquet(*map(escaped_uri_of, listed_files(spark, uri_of(out), name)))


def read_text(spark: SparkSession, out: str, name: str) -> str:
    """Return the text of a file beside the datasets of the committed result at ``out``, such as ``audit.json``."""
    found = local_path(out)
    paths = listed_files(spark, uri_of(out), name) if found is None else [uri_of(found / name)]
    return "".join(str(row["value"]) for row in spark.read.text(paths, wholetext=True).collect())


def select_columns(name: str, frame: DataFrame, *more: str) -> DataFrame:
    """Return the columns of a dataset in the order of its schema, cast, then the columns ``more`` of ``frame``.

    The columns' metadata has SCHEMA_VERSION, which Spark writes into Parquet footers.
    """
    about, fields = dict(COLUMN_METADATA), SCHEMAS[name].fields
    return frame.select(
        *(sf.col(field.name).cast(field.dataType).alias(field.name, metadata=about) for field in fields), *more
    )


def _in_order(name: str, frame: DataFrame) -> DataFrame:
    """Return the rows in partitions of about a file each, sorted, those of a host together as far as they fit."""
    keys = SORTED_BY[name]
    first = [key for key in keys if key in ("group", "host")] or list(keys[:1])
    return frame.hint("rebalance", *first).sortWithinPartitions(*keys)
