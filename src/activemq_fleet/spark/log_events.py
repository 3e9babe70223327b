"""Read the logs of a fleet with Spark as rows of the dataset ``events``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StringType, StructField, StructType

from activemq_fleet.logs.decompression import COMPRESSED_FILE_ENDING
from activemq_fleet.logs.event_batches import LogReleaseAndTimeZone
from activemq_fleet.logs.host_log_batches import LogFile, arrow_batches_of_log_lines, arrow_log_record_batches_of_host
from activemq_fleet.logs.rolled_files import (
    BEGINNING,
    LogPreambleAndFirstRecordDate,
    PlaceAmongLogFiles,
    log_file_positions_by_name,
    preamble_and_first_record_date,
)
from activemq_fleet.spark.file_partitions import partition_files_read_as_one_row
from activemq_fleet.spark.inputs import AuditInputs, InputFile, binary_files_dataframe
from activemq_fleet.spark.paths import uri_with_escaped_wildcards
from activemq_fleet.spark.schemas import SCHEMAS
from activemq_fleet.spark.settings import task_slots_of_master
from activemq_fleet.spark.task_results import Batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS_SCHEMA = StructType(
    [*SCHEMAS["events"].fields, StructField("sequence", LongType()), StructField("problem", StringType())]
)
"""The dataset's columns; ``sequence``: the order of a host's events over its files; ``problem``: what was wrong with
the bytes, or null."""
ONE_PARTITION = {"spark.sql.files.maxPartitionBytes": str(1 << 50), "spark.sql.files.minPartitionNum": "1"}
"""Settings with which each file that is read as lines is one partition, so that its lines come in order."""

_ONE_ROW_BYTES = 1 << 25  # maximum size in bytes of a file that Spark reads as one row; larger files are read as lines
_ONE_ROW_PACKED_BYTES = 1 << 26  # the same for gzip files
# With these options Spark reads the bytes of a gzip file and does not unpack them: it fails for a damaged file.
_PACKED_TEXT_OPTIONS = {
    "io.compression.codecs": "org.apache.hadoop.io.compress.PassthroughCodec",
    "io.compress.passthrough.extension": COMPRESSED_FILE_ENDING,
    # The relocation of packages in hadoop-client-api, the jar of Spark, renames the option.
    "org.apache.hadoop.shaded.io.compress.passthrough.extension": COMPRESSED_FILE_ENDING,
}
_BEGINNING_LINES = 1 << 16  # maximum number of lines in the beginning of a file that is read as lines
_BEGINNING_SCHEMA = "path string, head binary, first string"


def map_log_events(
    spark: SparkSession,
    inputs: AuditInputs,
    files: Sequence[InputFile],
    function: Callable[[Batches], Batches],
    schema: StructType | str,
) -> DataFrame:
    """Apply a function to the events of an audit's log files in Spark, and return its results as a DataFrame.

    ``function`` maps batches of events to batches with the columns ``schema``. It is called once for each partition.
    Events
    have the columns ``EVENTS_SCHEMA``, in the order of host, file and line. A file is one row for Spark, and a task
    reads several files. A file above 32 MB is read as lines by a separate task, with the settings ``ONE_PARTITION``.
    """
    # One task for a remote Spark, because the number of tasks that it runs at once is unknown.
    partitions = partition_files_read_as_one_row(
        files, _is_read_as_one_row, task_slots_of_master(spark.conf.get("spark.master", None) or "")
    )
    places = _find_log_file_positions(
        spark, inputs, [file for file in files if file.host not in partitions.whole_hosts]
    )

    def log_of(file: InputFile) -> LogFile:
        host = inputs.hosts[file.host]
        source = LogReleaseAndTimeZone(host.release, host.timezone or "UTC")
        return LogFile(file.host, file.file, source, file.compressed, places.get(file.path))

    frames = [
        _scan_whole_files(spark, {file.path: log_of(file) for file in chosen}, function, schema)
        for chosen in partitions.files
    ]
    frames += [
        _scan_file_by_lines(spark, file, log_of(file), function, schema)
        for file in files
        if not _is_read_as_one_row(file)
    ]
    return (
        reduce(lambda frame, other_frame: frame.unionAll(other_frame), frames)
        if frames
        else spark.createDataFrame([], schema)
    )


def _is_read_as_one_row(file: InputFile) -> bool:
    """Return whether Spark reads a log file as one row, because it is small enough, and not line by line."""
    return file.size <= (_ONE_ROW_PACKED_BYTES if file.compressed else _ONE_ROW_BYTES)


def _scan_whole_files(
    spark: SparkSession, logs: Mapping[str, LogFile], function: Callable[[Batches], Batches], schema: StructType | str
) -> DataFrame:
    """Read whole files in one partition. The function carries their metadata, so that no join is needed."""

    def scan(batches: Batches) -> Batches:
        return function(_events_of_files(batches, logs))

    # The number of directories above the host is the same for all files, that of directories below it is not.
    path, log = next(iter(logs.items()))
    host_position = path.count("/") - log.file.count("/")
    return (
        binary_files_dataframe(spark, list(logs))
        .select("path", "content")
        .coalesce(1)
        .sortWithinPartitions(sf.element_at(sf.split("path", "/"), host_position), "path")
        .mapInArrow(scan, schema)
    )


def _events_of_files(batches: Batches, logs: Mapping[str, LogFile]) -> Batches:
    read = (
        (logs[path], memoryview(content.as_buffer()))
        for batch in batches
        for path, content in zip(batch.column(0).to_pylist(), batch.column(1), strict=True)
    )
    # A file whose position is known does not wait for the other files of its host.
    for _, files in groupby(
        read, key=lambda read_file: (read_file[0].host, read_file[0].file if read_file[0].place else "")
    ):
        yield from _select_event_columns(arrow_log_record_batches_of_host(list(files)))


def _scan_file_by_lines(
    spark: SparkSession,
    file: InputFile,
    log: LogFile,
    function: Callable[[Batches], Batches],
    schema: StructType | str,
) -> DataFrame:
    """Read a large file as lines, in one partition."""
    size = file.size

    def scan(batches: Batches) -> Batches:
        return function(_select_event_columns(arrow_batches_of_log_lines(log, batches, size)))

    return _lines_of_file(spark, file).mapInArrow(scan, schema)


def _lines_of_file(spark: SparkSession, file: InputFile) -> DataFrame:
    """Return the lines of a file as a DataFrame with the binary column ``line``."""
    options = _PACKED_TEXT_OPTIONS if file.compressed else {}
    lines = spark.read.options(lineSep="\n", **options).text(uri_with_escaped_wildcards(file.path))
    return lines.select(sf.col("value").cast("binary").alias("line"))


def _select_event_columns(batches: Iterable[pa.RecordBatch]) -> Batches:
    return (batch.select(EVENTS_SCHEMA.names) for batch in batches)


def _find_log_file_positions(
    spark: SparkSession, inputs: AuditInputs, files: Collection[InputFile]
) -> dict[str, PlaceAmongLogFiles]:
    """Return the places of files of hosts whose files several tasks read, by path. Reads the files' beginnings."""
    counts = Counter(file.host for file in files)
    several = [file for file in files if counts[file.host] > 1]
    beginnings = _read_beginnings(spark, several)
    places = {file.path: PlaceAmongLogFiles() for file in files}
    for name, host_files in groupby(sorted(several, key=lambda file: file.host), key=lambda file: file.host):
        host, paths = inputs.hosts[name], {file.file: file.path for file in host_files}
        host_places = log_file_positions_by_name(
            {file: beginnings[path] for file, path in paths.items()},
            LogReleaseAndTimeZone(host.release, host.timezone or "UTC"),
        )
        places |= {paths[file]: place for file, place in host_places.items()}
    return places


def _read_beginnings(spark: SparkSession, files: Sequence[InputFile]) -> dict[str, LogPreambleAndFirstRecordDate]:
    """Return the first bytes and the first record of each log file, by path."""
    small_files = [file for file in files if _is_read_as_one_row(file)]
    frames = [_beginnings_of_small_files(spark, small_files)] if small_files else []
    frames += [_beginning_of_large_file(spark, file) for file in files if not _is_read_as_one_row(file)]
    if not frames:
        return {}
    rows = reduce(lambda frame, other_frame: frame.unionAll(other_frame), frames).toArrow().to_pylist()
    return {row["path"]: LogPreambleAndFirstRecordDate(row["head"], row["first"]) for row in rows}


def _beginnings_of_small_files(spark: SparkSession, files: Sequence[InputFile]) -> DataFrame:
    """Return a DataFrame with the columns ``_BEGINNING_SCHEMA`` and one row for each file that is read as one row."""
    read = binary_files_dataframe(spark, [file.path for file in files])
    part = sf.substring("content", 1, BEGINNING).alias("part")
    compressed_paths = frozenset(file.path for file in files if file.compressed)

    def parse(batches: Batches) -> Batches:
        for batch in batches:
            for path, part in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield _beginning_batch(path, part, compressed=path in compressed_paths)

    return read.select("path", part).mapInArrow(parse, _BEGINNING_SCHEMA)


def _beginning_of_large_file(spark: SparkSession, file: InputFile) -> DataFrame:
    """Return a DataFrame with the columns ``_BEGINNING_SCHEMA`` and one row for a file that is read as lines.

    Spark cannot read a file of 2 GiB or more as one row. Without the limit, Spark reads the file to its end.
    """

    def parse(batches: Batches) -> Batches:
        part = b""
        for batch in batches:
            part += b"".join(line + b"\n" for line in batch.column(0).to_pylist())
            if len(part) >= BEGINNING:
                break
        yield _beginning_batch(file.path, part[: min(BEGINNING, file.size)], compressed=file.compressed)

    first_lines = _lines_of_file(spark, file).coalesce(1).limit(_BEGINNING_LINES)  # coalesce avoids a shuffle
    return first_lines.mapInArrow(parse, _BEGINNING_SCHEMA)


def _beginning_batch(path: str, part: bytes, *, compressed: bool) -> pa.RecordBatch:
    """Return a batch with the columns ``_BEGINNING_SCHEMA`` of one file, whose first bytes are ``part``."""
    beginning = preamble_and_first_record_date(memoryview(part), compressed=compressed)
    columns = [pa.array([path]), pa.array([beginning.head], pa.binary()), pa.array([beginning.first], pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=["path", "head", "first"])
