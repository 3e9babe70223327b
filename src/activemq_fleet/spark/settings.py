"""Settings of Spark for a job; those of ``--conf`` win."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from activemq_fleet.spark.options import SessionOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG4J = Path(__file__).with_name("log4j2.properties")
_LOOPBACK = "127.0.0.1"
# Half of what Java took went into compiling code well that soon ran no more: measured on two cores with plan, with
# the events of 1 GB of logs and with the verdicts of 400 histories. For days of work say TieredStopAtLevel=4.
_QUICK = "-XX:TieredStopAtLevel=1"
# Spark's classes fill it; by itself Java looks through all memory each time it grows: 0.2 s of a short run.
_METASPACE = "-XX:MetaspaceSize=256m"
# Every sort and every sum of a task begins with a page. Spark's own, of 32 to 64 MB, took a quarter of the time of an
# audit of a few logs: they are filled with zeroes, and so large that the collector looks through all memory for each.
# A task may have 8,192 of them: with more memory than this Spark's own size is right.
_WITH_SMALL_PAGES = re.compile(r"\d{1,4}m|[1-8]g")
_JAVA = "spark.driver.extraJavaOptions"
WITHOUT_CODEGEN = {"spark.sql.codegen.wholeStage": "false"}
"""Settings for jobs in which Spark does little with a row: compiling code would take longer."""

_LOCAL_CORES = re.compile(r"local\[(\d+|\*)[,\]]")

# Those that may be set in a running session too, and so over Spark Connect.
_SQL = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Else a union of scans with a task each becomes one task for all of them (from Spark 4.1).
    "spark.sql.unionOutputPartitioning": "false",
    # A file of a fleet's logs is read or named as a problem, never passed over in silence.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}


def is_local(master: str | None) -> bool:
    """Return whether the master URL is a local one, such as ``local[*]``: all runs on this machine."""
    return master is not None and master.startswith("local")


def cores_of(master: str) -> int:
    """Return the number of tasks that a local master runs at once: 2 for ``local[2]``, all cores for ``local[*]``.

    1 for any other master.
    """
    found = _LOCAL_CORES.match(master)
    if found is None:
        return 1
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1])


def master_of(options: SessionOptions) -> str | None:
    """Return the master of the options, else ``local[*]``; None under spark-submit, which sets it itself."""
    said = options.master or options.conf.get("spark.master")
    if said or "PYSPARK_GATEWAY_PORT" in os.environ:
        return said
    return "local[*]"


def remote_settings(options: SessionOptions) -> dict[str, str]:
    """Return the settings for a session of Spark Connect."""
    packed = {"spark.sql.execution.pyspark.python": packed_python(options)} if options.archives else {}
    return {**_SQL, **packed, **options.conf}


def archives_of(options: SessionOptions) -> list[str]:
    """Return the archives as ``PATH#NAME``; NAME is ``environment`` where an option has none."""
    return [one if "#" in one else f"{one}#environment" for one in options.archives]


def packed_python(options: SessionOptions) -> str:
    """Return the interpreter's path in the first archive, relative to an executor's working directory."""
    return f"{archives_of(options)[0].rpartition('#')[2]}/bin/python"


def settings_of(options: SessionOptions, master: str | None, scratch: Path) -> dict[str, str]:
    """Return the settings with which this process starts Spark; temporary files go below ``scratch``."""
    java = [f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}", f"-Djava.io.tmpdir={scratch}"]
    if is_local(master):
        java += [_QUICK, _METASPACE]
    found = {
        **_SQL,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        _JAVA: " ".join(java),
    }
    if master:
        found["spark.master"] = master
    if is_local(master):
        found |= {
            "spark.local.dir": str(scratch),
            "spark.driver.memory": f"{_driver_megabytes()}m",
        }
        if _WITH_SMALL_PAGES.fullmatch(options.conf.get("spark.driver.memory", "4g").lower()):
            found["spark.buffer.pageSize"] = "1m"
    if is_local(master) or (master or "").startswith((f"spark://{_LOOPBACK}:", "spark://localhost:")):
        found |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    if options.archives and not is_local(master):
        found["spark.archives"] = ",".join(archives_of(options))
    return _merged(found, options.conf)


@contextmanager
def temporary_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Set settings of the session for the length of the block; jobs that run after it do not have them."""
    before = {key: spark.conf.get(key, None) for key in wanted}
    try:
        for key, value in wanted.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def _merged(ours: Mapping[str, str], said: Mapping[str, str]) -> dict[str, str]:
    """What was said wins, but for Java's options: there both count."""
    merged = {**ours, **said}
    if _JAVA in said:
        merged[_JAVA] = f"{ours[_JAVA]} {said[_JAVA]}"
    return merged


def _driver_megabytes() -> int:
    """A quarter of the memory, from 1 to 4 GiB: in local mode the executors live in the driver."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1024, min(4096, pages // 4 // (1 << 20)))
