"""Open and close a Spark session for a job: on this machine, on a cluster, or over Spark Connect.

Prerequisites are checked first, so that a user reads one line and no Java stack trace. Spark's own log goes to a file
in the session's scratch directory; with ``ACTIVEMQ_FLEET_DEBUG=1`` it is shown.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from activemq_fleet.spark.prerequisites import check_local_archives_exist, check_reachable, require_supported_java_home
from activemq_fleet.spark.problems import DEBUG_VARIABLE, SparkProblem, pyspark_java_exit_status, translate_spark_errors
from activemq_fleet.spark.progress import show_progress, show_progress_phase
from activemq_fleet.spark.scratch import ScratchDirectory, temporary_scratch_directory
from activemq_fleet.spark.session_options import SessionOptions
from activemq_fleet.spark.settings import (
    executor_archives,
    is_local_master,
    python_interpreter_path_in_archive,
    spark_connect_settings,
    spark_master_of,
    spark_settings,
)
from activemq_fleet.spark.workers import check_package_on_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SessionOptions", "SparkProblem", "show_progress_phase", "temporary_spark_session"]

_LOG_LEVEL = "spark.log.level"
_IS_SPARK_SUBMIT = "PYSPARK_GATEWAY_PORT" in os.environ  # started by spark-submit


@contextmanager
def temporary_spark_session(name: str, options: SessionOptions) -> Iterator[SparkSession]:
    """Yield a Spark session for a job, and stop the session at the end of the ``with`` block.

    Errors that Spark raises at the start or inside the block become SparkProblem, whose message is one line.
    """
    remote = options.remote or (os.environ.get("SPARK_REMOTE") if options.master is None else None)
    with temporary_scratch_directory() as scratch, warnings.catch_warnings():
        # These warnings of pyspark concern its internals, and require no action from users.
        warnings.filterwarnings("ignore", module=r"(pyspark|py4j|google|grpc)\b")
        running: list[SparkSession] = []
        try:
            # Inside the block, because the cause is read from a running JVM.
            with translate_spark_errors(scratch):
                check_local_archives_exist(executor_archives(options))
                spark = _connect_remotely(name, remote, options) if remote else _launch_spark(name, options, scratch)
                running.append(spark)
                with show_progress(spark, remote=bool(remote), enabled=options.progress):
                    _check_workers_if_remote(spark, remote=bool(remote))
                    yield spark
        except KeyboardInterrupt:
            for spark in running:
                spark.interruptAll()
            raise
        finally:
            _end_sessions(running, classic=not remote)


def _connect_remotely(name: str, remote: str, options: SessionOptions) -> SparkSession:
    """Return a session of the Spark Connect server at ``remote``."""
    check_reachable(remote)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(remote).appName(f"activemq-fleet {name}")
    spark = builder.getOrCreate()
    for key, value in spark_connect_settings(options).items():
        spark.conf.set(key, value)
    for archive in executor_archives(options):
        spark.addArtifacts(archive, archive=True)
    return spark


def _launch_spark(name: str, options: SessionOptions, scratch: ScratchDirectory) -> SparkSession:
    """Start Spark from this process and return its session."""
    if not _IS_SPARK_SUBMIT:  # Otherwise, a JVM already exists.
        os.environ["JAVA_HOME"] = str(require_supported_java_home())
    master = spark_master_of(options)
    if master:
        check_reachable(master)
    from pyspark.sql import SparkSession

    # pyspark reads it at its start. The current interpreter is known to have the packages.
    os.environ.pop("SPARK_REMOTE", None)
    if is_local_master(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    elif options.archives:
        os.environ["PYSPARK_PYTHON"] = f"./{python_interpreter_path_in_archive(options)}"
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"activemq-fleet {name}")
    for key, value in spark_settings(options, master, scratch.path).items():
        builder = builder.config(key, value)
    with scratch.redirect_output_to_log(enabled=not os.environ.get(DEBUG_VARIABLE)):
        spark = builder.getOrCreate()
    if not os.environ.get(DEBUG_VARIABLE):
        # Without this, both print stack traces if Java stops unexpectedly, in addition to the error line.
        spark.sparkContext._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
        logging.getLogger().addHandler(logging.NullHandler())  # py4j's
    # spark-submit has chosen how its JVM logs before any setting of ours is read.
    if _IS_SPARK_SUBMIT and not os.environ.get(DEBUG_VARIABLE) and spark.conf.get(_LOG_LEVEL, None) is None:
        spark.sparkContext.setLogLevel("ERROR")
    return spark


def _check_workers_if_remote(spark: SparkSession, *, remote: bool) -> None:
    """Check the workers' Python, unless it is this process's own."""
    is_local = not remote and is_local_master(spark.conf.get("spark.master", None))
    if is_local and os.environ.get("PYSPARK_PYTHON") == sys.executable:
        return
    with show_progress_phase("checking the workers"):
        check_package_on_workers(spark)


def _end_sessions(running: list[SparkSession], *, classic: bool) -> None:
    """Stop the sessions, and the JVM that this process launched."""
    if not classic or pyspark_java_exit_status() is None:
        for spark in running:
            spark.stop()
    if classic and not _IS_SPARK_SUBMIT:
        _end_java()


def _end_java() -> None:
    """Stop the JVM that pyspark launched; it uses the scratch directory, and the next session would reuse it."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    process.wait(timeout=60)
