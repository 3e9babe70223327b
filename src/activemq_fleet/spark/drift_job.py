"""The Spark job ``drift``: compare planned with collected files, host by host, with the package ``drift``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf

from activemq_fleet import InputError
from activemq_fleet.drift.file_records import (
    FileRecord,
    collected_file_records,
    planned_file_record,
    rendered_file_record,
)
from activemq_fleet.drift.host_drift import (
    ComparedHost,
    FleetDrift,
    count_host_drift,
    drift_result,
    drift_rows_of_host,
    planned_collected_or_both_word,
)
from activemq_fleet.spark.datasets import AtomicJobOutput, read_dataset
from activemq_fleet.spark.input_directory import check_no_outside_links
from activemq_fleet.spark.manifests import json_text
from activemq_fleet.spark.paths import local_path, path_relative_to_root, uri_of, uri_with_escaped_wildcards
from activemq_fleet.spark.progress import show_progress_phase
from activemq_fleet.spark.settings import temporary_settings
from activemq_fleet.spark.task_results import (
    OBJECTS_DDL,
    Batches,
    DatasetRows,
    KeyedObject,
    pickle_into_arrow_batches,
    repartition_by_key,
    unpickle_objects,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A fleet has many small files. By default, a task gets only thirty of them: for 300 hosts with 3,000 files,
# this makes 86 tasks, and with these settings 6.
_SMALL_FILES = {"spark.sql.files.openCostInBytes": str(32 << 10), "spark.sql.files.maxPartitionBytes": str(32 << 20)}


def report_drift(spark: SparkSession, planned: str, collected: str, out: str) -> FleetDrift:
    """Compare planned with collected configuration files of a fleet in Spark, and return the differences (drift).

    Writes the dataset ``drift`` and drift.json to ``out``, and returns the result. ``planned`` is the output of
    ``plan`` or ``render``, ``collected`` that of the playbook collect. Raises InputError for a path that holds neither.
    """
    with AtomicJobOutput(spark, out, kind="drift") as output, temporary_settings(spark, _SMALL_FILES):
        with show_progress_phase("listing planned and collected files"):
            records = _read_planned_files(spark, planned).unionByName(_read_collected_files(spark, collected))
        with show_progress_phase("comparing planned with collected files"):
            hosts, _ = output.run_task_and_write_rows(repartition_by_key(records).mapInArrow, _compare_hosts, ["drift"])
        result = drift_result(hosts)
        output.add_text_file_to_commit("drift.json", json_text(result.to_dict()))
        output.commit()
        return result


def _read_planned_files(spark: SparkSession, planned: str) -> DataFrame:
    """Return the records of planned files: of the output of ``plan``, else of ``render``."""
    root = uri_of(planned)
    _check_readable(planned)
    try:
        files = read_dataset(spark, planned, "files").where(sf.col("host").isNotNull())
        sha256 = sf.coalesce("masked_sha256", "sha256")  # plans of earlier versions have no masked_sha256
        return files.select("host", "path", "content", sha256).mapInArrow(_records_of_planned_rows, OBJECTS_DDL)
    except (InputError, AnalysisException) as error:
        if isinstance(error, AnalysisException) and not _is_path_not_found(error):
            raise
    hosts = f"{root}/hosts"
    missing_message = (
        f"{planned}: the directory contains neither files/ nor hosts/. Set --planned to the output directory of "
        "`activemq-fleet plan` (with files/) or `activemq-fleet render` (with hosts/)"
    )
    return _read_files(
        spark,
        f"{uri_with_escaped_wildcards(root)}/hosts",
        hosts,
        lambda *file: (rendered_file_record(*file),),
        missing_message,
    )


def _read_collected_files(spark: SparkSession, collected: str) -> DataFrame:
    """Return the records of collected files, and of the hosts that have been collected."""
    root = uri_of(collected)
    _check_readable(collected)
    pattern = f"{uri_with_escaped_wildcards(root)}/*"
    missing_message = (
        f"{collected}: the directory has no HOST/{{}}. Set --found to a directory that the playbook collect wrote"
    )
    files = _read_files(
        spark, f"{pattern}/configuration", root, collected_file_records, missing_message.format("configuration")
    )
    return files.unionByName(
        _read_files(spark, f"{pattern}/host.json", root, collected_file_records, missing_message.format("host.json"))
    )


def _read_files(
    spark: SparkSession,
    pattern: str,
    root: str,
    records_of: Callable[[str, bytes], Iterable[FileRecord]],
    missing_message: str,
) -> DataFrame:
    """Return the records of every file below the directories that match, also of hidden files.

    ``records_of`` takes the path below ``root`` and the content. Raises InputError with the line ``none`` where
    nothing matches.
    """

    def records(batches: Batches) -> Batches:
        file_records = (
            record
            for batch in batches
            for path, content in zip(*batch.columns, strict=True)
            for record in records_of(path_relative_to_root(root, path.as_py()), content.as_py())
        )
        return _key_records_by_host(file_records)

    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        files = reader.option("ignoredPathSegmentRegex", r"^\..*\.crc$").load(pattern)
    except AnalysisException as error:
        if not _is_path_not_found(error):
            raise
        raise InputError(missing_message) from None
    return files.select("path", "content").mapInArrow(records, OBJECTS_DDL)


def _records_of_planned_rows(batches: Batches) -> Batches:
    """Return records of rows of the dataset ``files``."""
    rows = (row for batch in batches for row in zip(*batch.columns, strict=True))
    return _key_records_by_host(planned_file_record(*(value.as_py() for value in row)) for row in rows)


def _key_records_by_host(records: Iterable[FileRecord]) -> Batches:
    """Yield file records as OBJECTS with their host as key."""
    return pickle_into_arrow_batches(KeyedObject(record.host, record) for record in records)


def _compare_hosts(batches: Batches) -> Iterator[DatasetRows | ComparedHost]:
    """Yield the rows of each host, and the compared host; records are grouped by host."""
    for host, objects in groupby(unpickle_objects(batches), key=lambda keyed: keyed.key):
        records = [keyed.value for keyed in objects]
        side = planned_collected_or_both_word(records)
        rows = list(drift_rows_of_host(records)) if side == "both" else []
        yield from (DatasetRows("drift", row) for row in rows)
        if side:
            yield ComparedHost(host, side, count_host_drift(host, rows) if side == "both" else None)


def _check_readable(path: str) -> None:
    """Raise an error with the path as the user wrote it if it is unreadable, or has a link that leads out of it."""
    directory = local_path(path)
    if directory is not None:
        os.scandir(directory).close()
        check_no_outside_links(path)


def _is_path_not_found(error: AnalysisException) -> bool:
    return "PATH_NOT_FOUND" in str(error.getCondition())
