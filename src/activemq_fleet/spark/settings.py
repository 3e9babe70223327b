"""Choose the settings of Spark for a job; settings of ``--conf`` override them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from activemq_fleet.spark.session_options import SessionOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from activemq_fleet.spark.inputs import AuditInputs

_LOG4J = Path(__file__).with_name("log4j2.properties")
_LOOPBACK_ADDRESS = "127.0.0.1"
# Java then compiles code faster, but optimizes it less. Without it, an audit of a few logs took 1.3 times as
# long, and one of 1 GB half as much again. For days of work set TieredStopAtLevel=4.
_FAST_COMPILATION = "-XX:TieredStopAtLevel=1"
# Spark's classes fill it; by default Java collects garbage each time it grows. With it an audit of a few
# logs takes 0.9 of the time.
_METASPACE_OPTION = "-XX:MetaspaceSize=256m"
_JAVA_OPTIONS_SETTING = "spark.driver.extraJavaOptions"

_LOCAL_CORES = re.compile(r"local\[(\d+|\*)[,\]]")

_DEFAULT_SHUFFLE_PARTITIONS = "200"
# Partitions, and bytes of input for each further one: each runs Python and writes files. In Spark's own 200 an audit of
# 12 MB took 43 s of the processors' time and wrote 56 files, in place of 10 s and 5.
_MIN_SHUFFLE_PARTITIONS, _BYTES_PER_SHUFFLE_PARTITION = 4, 16 << 20
_UNPACKED_SIZE_FACTOR = 15  # the size of unpacked logs, divided by their packed size

PARQUET_COMPRESSION = "zstd"
"""The compression of the Parquet files of all datasets.

With it, the files of ``events`` are 0.55 times as large as with snappy, Spark's own, in as much time."""

# Settings that can also be changed in a running session, and so through Spark Connect.
_SQL_SETTINGS = {
    # Without it, times are converted in the time zone of the machine that runs the job.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": PARQUET_COMPRESSION,
    # Spark's own, INT96, has no statistics by which a reader of one hour skips the rest, and is deprecated in Parquet.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Without it, a union of scans with one task each becomes a single task (from Spark 4.1).
    "spark.sql.unionOutputPartitioning": "false",
    # Spark's own, whatever a cluster's defaults are: a file of a fleet is read or reported, never skipped silently.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}


def is_local_master(master: str | None) -> bool:
    """Return whether the URL of a Spark master, such as ``local[*]``, is local: all tasks run on this machine."""
    return master is not None and master.startswith("local")


def task_slots_of_master(master: str) -> int:
    """Return the number of tasks that a local Spark master runs at once, and 1 for a master that is not local.

    It is 2 for ``local[2]``, and the number of cores for ``local[*]``.
    """
    cores_match = _LOCAL_CORES.match(master)
    if cores_match is None:
        return 1
    return (os.cpu_count() or 1) if cores_match[1] == "*" else int(cores_match[1])


def spark_master_of(options: SessionOptions) -> str | None:
    """Return the URL of the Spark master, from the options of a session.

    It is ``local[*]`` by default, and None under spark-submit, which sets the master itself.
    """
    master = options.master or options.conf.get("spark.master")
    if master or "PYSPARK_GATEWAY_PORT" in os.environ:
        return master
    return "local[*]"


def spark_connect_settings(options: SessionOptions) -> dict[str, str]:
    """Return the settings with which a Spark Connect session is created, from the options of a job."""
    packed = (
        {"spark.sql.execution.pyspark.python": python_interpreter_path_in_archive(options)} if options.archives else {}
    )
    return {**_SQL_SETTINGS, **packed, **options.conf}


def executor_archives(options: SessionOptions) -> list[str]:
    """Return the archives that executors of Spark unpack, as ``PATH#NAME``, from the options of a session.

    NAME is the directory on the executor, ``environment`` by default.
    """
    return [archive if "#" in archive else f"{archive}#environment" for archive in options.archives]


def python_interpreter_path_in_archive(options: SessionOptions) -> str:
    """Return the path of the Python interpreter in the first archive that executors unpack, according to ``options``.

    The path is relative to an executor's working directory. Raises IndexError for options without an archive.
    """
    return f"{executor_archives(options)[0].rpartition('#')[2]}/bin/python"


def spark_settings(options: SessionOptions, master: str | None, scratch: Path) -> dict[str, str]:
    """Return the Spark settings (``spark.*``) with which a new session is created, by name.

    This process starts Spark; temporary files go below the directory ``scratch``.
    """
    java = [f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}", f"-Djava.io.tmpdir={scratch}"]
    if is_local_master(master):
        java += [_FAST_COMPILATION, _METASPACE_OPTION]
    settings = {
        **_SQL_SETTINGS,
        # A job of seconds needs no web pages, and a second job would warn that their port is in use.
        "spark.ui.enabled": "false",
        # Progress is shown by phase (``progress``). Spark's progress bar would overwrite it.
        "spark.ui.showConsoleProgress": "false",
        # Without it, an empty directory spark-warehouse remains in the current directory.
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        _JAVA_OPTIONS_SETTING: " ".join(java),
    }
    if master:
        settings["spark.master"] = master
    if is_local_master(master):
        settings |= {
            "spark.local.dir": str(scratch),
            # With Spark's own 1 GB the audit of one agent's million events runs out of memory.
            "spark.driver.memory": f"{_driver_megabytes()}m",
        }
    if is_local_master(master) or (master or "").startswith((f"spark://{_LOOPBACK_ADDRESS}:", "spark://localhost:")):
        settings |= {"spark.driver.host": _LOOPBACK_ADDRESS, "spark.driver.bindAddress": _LOOPBACK_ADDRESS}
    if options.archives and not is_local_master(master):
        settings["spark.archives"] = ",".join(executor_archives(options))
    return _merge_settings(settings, options.conf)


@contextmanager
def temporary_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Apply settings to a Spark session temporarily, while a ``with`` block runs.

    The earlier settings are restored at its end.
    """
    previous = {key: spark.conf.get(key, None) for key in wanted}
    try:
        for key, value in wanted.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in previous.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def shuffle_settings(spark: SparkSession, inputs: AuditInputs) -> dict[str, str]:
    """Return settings for the number of Spark's shuffle partitions that fits the size of an audit's input files.

    The number of shuffle partitions is 4, and one more for each 16 MiB. Empty when ``spark.sql.shuffle.partitions`` is
    set already. Spark does not coalesce partitions of cached data. With at most 16 MiB on local Spark there is one
    partition (an audit of 12 MB took 9.3 s of the processors' time, in four partitions 11.8 s), and adaptive execution,
    which makes a job of each stage, is off.
    """
    if spark.conf.get("spark.sql.shuffle.partitions", _DEFAULT_SHUFFLE_PARTITIONS) != _DEFAULT_SHUFFLE_PARTITIONS:
        return {}
    size = sum(file.size * (_UNPACKED_SIZE_FACTOR if file.compressed else 1) for file in inputs.files)
    if size <= _BYTES_PER_SHUFFLE_PARTITION and is_local_master(spark.conf.get("spark.master", None)):
        return {"spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}
    return {
        "spark.sql.shuffle.partitions": str(
            min(int(_DEFAULT_SHUFFLE_PARTITIONS), _MIN_SHUFFLE_PARTITIONS + size // _BYTES_PER_SHUFFLE_PARTITION)
        )
    }


def _merge_settings(defaults: Mapping[str, str], configured: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults overridden by the configured settings; Java's options are joined."""
    merged = {**defaults, **configured}
    if _JAVA_OPTIONS_SETTING in configured:
        merged[_JAVA_OPTIONS_SETTING] = f"{defaults[_JAVA_OPTIONS_SETTING]} {configured[_JAVA_OPTIONS_SETTING]}"
    return merged


def _driver_megabytes() -> int:
    """Return a quarter of the memory in MiB, from 1 to 4 GiB; in local mode the executors run in the driver."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1024, min(4096, pages // 4 // (1 << 20)))
