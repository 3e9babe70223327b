"""The Spark job ``drift``: compare planned with collected files, host by host, with the package ``drift``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf

from activemq_fleet.drift.host_drift import drift_of_host, side_of
from activemq_fleet.drift.records import FileRecord, collected_file, planned_file, rendered_file
from activemq_fleet.errors import InputError
from activemq_fleet.spark.datasets import Output, read
from activemq_fleet.spark.input_directory import refuse_outside_links
from activemq_fleet.spark.manifests import json_text
from activemq_fleet.spark.paths import escaped_uri_of, local_path, uri_of
from activemq_fleet.spark.progress import phase
from activemq_fleet.spark.schemas import SCHEMAS
from activemq_fleet.spark.settings import temporary_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_HOSTS = 1000
_STATUSES = ("changed", "added", "removed", "same")
_CAUSES = ("by_hand", "out_of_date", "unknown")
# A fleet's files are small and many: as Spark counts, a task would get thirty of them.
_SMALL_FILES = {"spark.sql.files.openCostInBytes": str(32 << 10), "spark.sql.files.maxPartitionBytes": str(32 << 20)}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")
_RECORDS = pa.schema([(name, pa.bool_() if name == "collected" else pa.string()) for name in FileRecord._fields])
_RECORDS_DDL = ", ".join(f"{name} {'boolean' if name == 'collected' else 'string'}" for name in FileRecord._fields)
_ROWS = pa.schema([(name, pa.string()) for name in (*SCHEMAS["drift"].names, "side")])
_ROWS_DDL = ", ".join(f"{name} string" for name in _ROWS.names)
_AT_ONCE = 256  # records a batch: each may hold a megabyte of text

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class HostDrift:
    """Numbers of a host's files by status (changed, added, removed, same), and of the differing ones by cause."""

    host: str
    changed: int
    added: int
    removed: int
    same: int
    by_hand: int
    out_of_date: int
    unknown: int

    @property
    def different(self) -> int:
        """The number of files that are not as planned: changed, added or removed."""
        return self.changed + self.added + self.removed


@dataclass(frozen=True, slots=True)
class DriftResult:
    """The outcome of a comparison: ``hosts`` with differences, most files first, and the number of ``same_hosts``.

    ``not_collected`` are hosts that are planned only, ``not_planned`` those that are collected only, the first 1,000
    by name; ``not_collected_hosts`` and ``not_planned_hosts`` are their numbers.
    """

    hosts: tuple[HostDrift, ...]
    same_hosts: int
    not_collected: tuple[str, ...]
    not_planned: tuple[str, ...]
    not_collected_hosts: int
    not_planned_hosts: int

    @property
    def differs(self) -> bool:
        """True when any host differs, was not collected or is not planned."""
        return bool(self.hosts or self.not_collected_hosts or self.not_planned_hosts)

    def to_dict(self) -> dict[str, Any]:
        """Return the object that drift.json and ``--format json`` hold: all fields, and ``verdict``."""
        return {"verdict": "differences" if self.differs else "same", **asdict(self)}


def drift(spark: SparkSession, planned: str, found: str, out: str) -> DriftResult:
    """Write the dataset ``drift`` and drift.json to ``out``, and return the outcome.

    ``planned`` is the output of ``plan`` or ``render``, ``found`` that of the playbook collect. Raises InputError for a
    path that holds neither.
    """
    with Output(spark, out, kind="drift") as output, temporary_settings(spark, _SMALL_FILES):
        with phase("listing what was planned and what was collected"):
            records = _planned(spark, planned).unionByName(_collected(spark, found))
        compared = records.groupBy("host").applyInArrow(_compared, _ROWS_DDL).persist()
        try:
            with phase("comparing"):
                output.write("drift", compared.where("side = 'both'"))
            with phase("summing up"):
                result = _summed_up(compared)
        finally:
            compared.unpersist()
        output.write_text("drift.json", json_text(result.to_dict()))
        output.commit()
        return result


def _planned(spark: SparkSession, planned: str) -> DataFrame:
    """Return the records of planned files: of the output of ``plan``, else of ``render``."""
    root = uri_of(planned)
    _refuse_unreadable(planned)
    try:
        files = read(spark, planned, "files").where(sf.col("host").isNotNull())
        return files.select("host", "path", "content", "sha256").mapInArrow(_planned_records, _RECORDS_DDL)
    except (InputError, AnalysisException) as error:
        if isinstance(error, AnalysisException) and not _is_not_found(error):
            raise
    hosts = f"{root}/hosts"
    none = f"{planned}: holds neither the dataset files, as plan writes it, nor hosts/, as render does"
    return _files(spark, f"{escaped_uri_of(root)}/hosts", hosts, lambda *file: (rendered_file(*file),), none)


def _collected(spark: SparkSession, found: str) -> DataFrame:
    """Return the records of collected files, and of the hosts that have been collected."""
    root = uri_of(found)
    _refuse_unreadable(found)
    pattern = f"{escaped_uri_of(root)}/*"
    none = f"{found}: holds no HOST/{{}}, as collect lays it down"
    files = _files(spark, f"{pattern}/configuration", root, collected_file, none.format("configuration"))
    return files.unionByName(_files(spark, f"{pattern}/host.json", root, collected_file, none.format("host.json")))


def _files(
    spark: SparkSession,
    pattern: str,
    root: str,
    records_of: Callable[[str, bytes], Iterable[FileRecord]],
    none: str,
) -> DataFrame:
    """Return the records of every file below the directories that match, hidden ones too.

    ``records_of`` takes the path below ``root`` and the content. Raises InputError with the line ``none`` where
    nothing matches.
    """
    base = f"{_SCHEME.sub('', root).rstrip('/')}/"

    def records(batches: Batches) -> Batches:
        return _batched(
            record
            for batch in batches
            for path, content in zip(*batch.columns, strict=True)
            for record in records_of(_SCHEME.sub("", path.as_py()).removeprefix(base), content.as_py())
        )

    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        files = reader.option("ignoredPathSegmentRegex", r"^\..*\.crc$").load(pattern)
    except AnalysisException as error:
        if not _is_not_found(error):
            raise
        raise InputError(none) from None
    return files.select("path", "content").mapInArrow(records, _RECORDS_DDL)


def _planned_records(batches: Batches) -> Batches:
    """Return records of rows of the dataset ``files``."""
    rows = (row for batch in batches for row in zip(*batch.columns, strict=True))
    return _batched(planned_file(*(value.as_py() for value in row)) for row in rows)


def _batched(records: Iterator[FileRecord]) -> Batches:
    while listed := list(islice(records, _AT_ONCE)):
        columns = [
            pa.array(column, field.type) for column, field in zip(zip(*listed, strict=True), _RECORDS, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_RECORDS)


def _compared(key: tuple[pa.Scalar], table: pa.Table) -> pa.Table:
    """Return the drift of a host, or one row with the side that it is on alone."""
    records = table.to_pylist()
    side = side_of(records)
    if side == "both":
        rows = [{**row, "side": side} for row in drift_of_host(records)]
    else:
        rows = [{"host": key[0].as_py(), "side": side}] if side else []
    return pa.Table.from_pylist(rows, schema=_ROWS)


def _summed_up(compared: DataFrame) -> DriftResult:
    """Return what is said of all hosts. Their names and numbers are little enough for the driver."""
    statuses = [sf.count_if(sf.col("status") == status).cast("int").alias(status) for status in _STATUSES]
    causes = [sf.count_if(sf.col("cause") == cause).cast("int").alias(cause) for cause in _CAUSES]
    hosts: dict[str, list[HostDrift]] = {"both": [], "planned": [], "found": []}
    for row in compared.groupBy("side", "host").agg(*statuses, *causes).orderBy("host").collect():
        numbers = row.asDict()
        hosts[numbers.pop("side")].append(HostDrift(**numbers))
    different = [one for one in hosts["both"] if one.different]
    return DriftResult(
        hosts=tuple(sorted(different, key=lambda one: -one.different)),
        same_hosts=len(hosts["both"]) - len(different),
        not_collected=tuple(one.host for one in hosts["planned"][:_MOST_HOSTS]),
        not_planned=tuple(one.host for one in hosts["found"][:_MOST_HOSTS]),
        not_collected_hosts=len(hosts["planned"]),
        not_planned_hosts=len(hosts["found"]),
    )


def _refuse_unreadable(path: str) -> None:
    """Raise an error that names the path as the user wrote it, also for a link that leads out of it."""
    found = local_path(path)
    if found is not None:
        os.scandir(found).close()
        refuse_outside_links(path)


def _is_not_found(error: AnalysisException) -> bool:
    return "PATH_NOT_FOUND" in str(error.getCondition())
