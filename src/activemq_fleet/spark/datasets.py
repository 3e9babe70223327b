"""The datasets of a job: ``OUT/NAME/*.parquet``, and an OUT that appears whole or not at all.

On this machine's file system OUT is written beside its place (``OUT.staged``) and put there in one
step. Anywhere else (``s3a://…``) nothing can be renamed: new files come first, and ``manifest.json``,
which lists the files that count, comes last.
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
from activemq_fleet.spark.paths import local_path, pattern_of, uri_of
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
    """Settings that let each task of the last shuffle write one file."""
    return {
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(_FILE * _SHUFFLED.get(name, _ANY_SHUFFLED)),
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    }


class Target(Protocol):
    """Where an Output goes: a local directory, or a path that Hadoop alone knows."""

    def check_replaceable(self, kind: str) -> None:
        """Raise InputError unless OUT is absent, empty, or an earlier result of this kind."""

    def prepare(self) -> None:
        """Make ready for writing."""

    def dataset_path(self, name: str) -> str:
        """Where the files of a dataset are written."""

    def check_rows(self, name: str, rows: int) -> None:
        """A dataset is written: see that it is there."""

    def written_files(self, name: str) -> Sequence[str]:
        """The paths of what this run wrote of a dataset."""

    def write_text(self, name: str, text: str) -> None:
        """Write a file beside the datasets."""

    def commit(self, manifest: Mapping[str, Any]) -> None:
        """Let the result take the place of the earlier one."""

    def discard(self) -> None:
        """Give up what was not committed."""


class Output:
    """The result of a job, on its way. Without ``commit`` OUT stays what it was."""

    def __init__(self, spark: SparkSession, path: str, kind: str = "audit") -> None:
        """``path`` may be any that Hadoop writes. Raises InputError for what is not ours to replace."""
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
        """Write a dataset, and return its number of rows.

        The columns of its schema are taken by name and cast; others are dropped. ``ordered`` says that
        the rows of each partition come in order already, in partitions as large as a file should be:
        then nothing is shuffled or sorted.
        """
        rows = sf.count(sf.lit(1)).alias("rows")
        is_adaptive = self._spark.conf.get(_ADAPTIVE, None) == "true"  # else nobody reads the others
        with temporary_settings(self._spark, _by_size(name) if is_adaptive else {}):
            shaped = shaped_as(name, frame) if ordered else _in_order(name, shaped_as(name, frame))
            seen = Observation()
            shaped.observe(seen, rows).write.mode("append").option(
                "mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"
            ).parquet(self._target.dataset_path(name))
        return self.record_rows(name, self._rows.get(name, 0) + int(seen.get["rows"]))

    def local_directory(self, name: str) -> Path | None:
        """Where workers may write a dataset's files themselves: they and OUT are on this machine. Else None."""
        connected = "connect" in type(self._spark).__module__  # to a Spark whose workers are anywhere
        if connected or not isinstance(self._target, LocalTarget):
            return None
        return self._target.staged / name if is_local(self._spark.conf.get("spark.master", None)) else None

    def record_rows(self, name: str, rows: int) -> int:
        """Note the rows of a dataset, all of them, whose files others have put in its place."""
        self._rows[name] = rows
        self._target.check_rows(name, rows)
        return rows

    def read_written(self, name: str) -> DataFrame:
        """What this run has written of a dataset: to be read again instead of computed again."""
        return self._spark.read.schema(SCHEMAS[name]).parquet(*map(pattern_of, self._target.written_files(name)))

    def write_text(self, name: str, text: str) -> None:
        """Write a file beside the datasets: ``audit.json``, ``report.html``."""
        self._target.write_text(name, text)

    def commit(self) -> None:
        """Let everything written take OUT's place."""
        self._target.commit(manifest_of(self._kind, __version__, SCHEMA_VERSION, self._rows))


def read(spark: SparkSession, out: str, name: str) -> DataFrame:
    """A dataset of a committed result. Raises InputError when OUT has none of that name."""
    reader = spark.read.schema(SCHEMAS[name])
    found = local_path(out)
    if found is not None:
        if not (found / name).is_dir():
            raise InputError(f"{out}: holds no dataset {name}")
        return reader.parquet(pattern_of(found / name))
    return reader.parquet(*map(pattern_of, listed_files(spark, uri_of(out), name)))


def read_text(spark: SparkSession, out: str, name: str) -> str:
    """A file beside the datasets of a committed result."""
    found = local_path(out)
    paths = listed_files(spark, uri_of(out), name) if found is None else [uri_of(found / name)]
    return "".join(str(row["value"]) for row in spark.read.text(paths, wholetext=True).collect())


def shaped_as(name: str, frame: DataFrame, *more: str) -> DataFrame:
    """The dataset's columns in their order, cast, and ``more``. The version is in their metadata, and so in footers."""
    about, fields = dict(COLUMN_METADATA), SCHEMAS[name].fields
    return frame.select(
        *(sf.col(field.name).cast(field.dataType).alias(field.name, metadata=about) for field in fields), *more
    )


def _in_order(name: str, frame: DataFrame) -> DataFrame:
    """In partitions of a file each, a host's rows together as far as they fit, each sorted."""
    keys = SORTED_BY[name]
    first = [key for key in keys if key in ("group", "host")] or list(keys[:1])
    return frame.hint("rebalance", *first).sortWithinPartitions(*keys)
