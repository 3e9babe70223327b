"""Translate errors of Spark into one line with the problem and the remedy."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from activemq_fleet import FleetError
from activemq_fleet.node.text_lines import split_lines
from activemq_fleet.spark.scratch import ScratchDirectory


class SparkProblem(FleetError):
    """A problem of Spark, as an error with a message for the user.

    Spark could not be started, or a job of it failed.
    """


DEBUG_VARIABLE = "ACTIVEMQ_FLEET_DEBUG"
"""Environment variable with which Spark's log is shown."""
PACK = "make an environment with `activemq-fleet pack -o env.tar.gz` and add --archives env.tar.gz#environment"
_BUG_ERRORS = ("PySparkTypeError", "PySparkValueError", "PySparkAttributeError", "PySparkNotImplementedError")

_FULL_DISK_TEXT = re.compile(r"No space left on device|Disk quota exceeded")
_PACKAGE_PREFIX = re.compile(r"^(?:[a-z][\w$]*[.])+")
_FULL_DISK_BYTES = 32 << 20  # number of free bytes below which a disk counts as full
_JAVA_EXIT_TIMEOUT = 5.0  # seconds within which a JVM exits after its connections are closed

Line = Callable[[re.Match[str]], str]

# The first match is used, so causes precede their consequences.
_KNOWN_ERRORS: tuple[tuple[str, Line], ...] = (
    # An error of this package, raised in a worker.
    (r"^activemq_fleet\.errors\.\w+: (.+)$", lambda m: m[1]),
    (
        r"PYTHON_VERSION_MISMATCH\D*(\S+).*?driver\D*(\S+)",
        lambda m: f"the Spark workers run Python {m[1]}, but this machine runs {m[2].rstrip('.,')}: {PACK}",
    ),
    (
        r"Cannot run program \"([^\"]+)\"",
        lambda m: (
            f"the Spark workers cannot run the Python {m[1]}: set PYSPARK_PYTHON to the path of Python on "
            f"the workers, or {PACK}"
        ),
    ),
    (
        r"No module named '(activemq_fleet|[\w.]+)'",
        lambda m: f"Python on the Spark workers has no module {m[1]}: {PACK}",
    ),
    (r"\[PATH_NOT_FOUND\] Path does not exist: (\S+?)\.? ", lambda m: f"the path {m[1]} does not exist: correct it"),
    (
        r"FileNotFoundException: (?:File )?(.+?) \(Permission denied\)|Permission denied: (\S+)",
        lambda m: f"{m[1] or m[2]}: allow the account that runs Spark to access this path (permission denied)",
    ),
    (
        r"No FileSystem for scheme \"?(\w+)|ClassNotFoundException: Class \S*\.(S3A|Abfs|GoogleHadoop)FileSystem",
        lambda m: (
            f"Spark has no file system driver for {m[1] or m[2]} paths: add the jar of the driver. For s3a, "
            "set --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION with the Hadoop version of Spark"
        ),
    ),
    (
        r"OutOfMemoryError: (.+)",
        lambda m: f"Java ran out of memory ({m[1]}): raise spark.driver.memory or spark.executor.memory with --conf",
    ),
    (
        r"InvalidClassException: .*serialVersionUID",
        lambda m: (
            "the Spark release of the cluster differs from the release on this machine: install the release of the "
            "cluster on this machine (pip install pyspark==RELEASE)"
        ),
    ),
    (
        r"Invalid maximum heap size: \S+|Could not reserve enough space.*",
        lambda m: f"Java did not start ({m[0]}): set spark.driver.memory with --conf to a size such as 2g",
    ),
    (
        r"Master must either be yarn or start with",
        lambda m: "--master is not the URL of a Spark master: use local[*], spark://HOST:7077, yarn or k8s://URL",
    ),
    (
        r"Exception in thread \"main\" [\w.]+: (.+)",
        lambda m: f"Spark did not start ({m[1]}): correct this cause, and run the command again",
    ),
    (
        r"Could not parse Master URL: '?([^']*)'?",
        lambda m: (
            f"--master {m[1]} is not the URL of a Spark master: use local[*], spark://HOST:7077, yarn or k8s://URL"
        ),
    ),
    (
        r"All masters are unresponsive|StatusCode\.UNAVAILABLE",
        lambda m: "the connection to Spark was refused or lost: check that the server of --master or --remote runs",
    ),
    (
        r"ExecutorLostFailure.*?Reason: (.+)",
        lambda m: (
            f"Spark lost an executor four times during the same task ({m[1]}): raise the executors' memory with --conf "
            "spark.executor.memory or spark.executor.memoryOverhead"
        ),
    ),
)


@contextmanager
def translate_spark_errors(scratch: ScratchDirectory) -> Iterator[None]:
    """Translate the errors that Spark raises in a ``with`` block to SparkProblem.

    Other exceptions pass through.
    """
    try:
        yield
    except Exception as error:
        if _has_java_ended(error):
            raise SparkProblem(_explain_java_end(scratch.spark_log_text)) from error
        if not _is_spark_error(error):
            raise
        text = _spark_error_text(error)
        if "JAVA_GATEWAY_EXITED" in text:  # pyspark has no details; the log has Java's message
            text = scratch.spark_log_text
        raise SparkProblem(
            _explain_full_disk(scratch.path) if _FULL_DISK_TEXT.search(text) else explain_spark_error(text)
        ) from error


def _is_spark_error(error: Exception) -> bool:
    names = _class_names(error)
    return not names & set(_BUG_ERRORS) and bool(names & {"PySparkException", "Py4JError", "RpcError"})


def _class_names(error: Exception) -> set[str]:
    """Return the names of the error's class and its bases, so that Spark's classes need not be imported."""
    return {kind.__name__ for kind in type(error).__mro__}


def pyspark_java_exit_status() -> int | None:
    """Return the exit status of the Java process that pyspark started; None while it runs.

    The status is negative for a signal.
    """
    from pyspark import SparkContext

    launched = getattr(SparkContext._gateway, "proc", None)
    status: int | None = launched.poll() if launched else None
    return status


def _has_java_ended(error: Exception) -> bool:
    """Return whether an error is a lost connection to a JVM that has ended."""
    if not _class_names(error) & {"ConnectionError", "Py4JNetworkError"}:
        return False
    deadline = time.monotonic() + _JAVA_EXIT_TIMEOUT
    while (status := pyspark_java_exit_status()) is None and time.monotonic() < deadline:
        time.sleep(0.1)
    return status is not None


def _explain_java_end(log: str) -> str:
    """Return one line that explains why Java ended during the job."""
    if "OutOfMemoryError" in log:
        return explain_spark_error(log)
    status = pyspark_java_exit_status() or 0
    end_text = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return (
        f"Java {end_text} in the middle of the job: check whether the machine ran out of memory, and run the "
        "command again"
    )


def _spark_error_text(error: Exception) -> str:
    """Return the text of a Spark exception.

    It is the message, with the Java stack trace and causes below it.
    """
    return f"{error}\n{getattr(error, 'java_exception', '') or ''}"


def explain_spark_error(text: str) -> str:
    """Return one line that explains a Spark error: for a known problem what to do, else the innermost cause.

    ``text`` is the text of the error or Spark's log.
    """
    for pattern, line in _KNOWN_ERRORS:
        match = re.search(pattern, text, re.MULTILINE)
        if match:
            return line(match)
    causes = re.findall(r"^Caused by: (.+)$", text, re.MULTILINE)
    raised = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): .+$", text, re.MULTILINE)
    first = next((line.strip() for line in split_lines(text) if line.strip()), "it reported no reason")
    cause = (causes or raised or [first])[-1].strip()
    return (
        f"Spark failed: {_PACKAGE_PREFIX.sub('', cause)[:500]}. To see its log, run the command with {DEBUG_VARIABLE}=1"
    )


def _explain_full_disk(scratch: Path) -> str:
    """Return a line that names the full disk: that of Spark's temporary files where it has less than 32 MiB."""
    if shutil.disk_usage(scratch).free < _FULL_DISK_BYTES:
        return (
            f"the disk is full, so Spark cannot write temporary files in {scratch}: set TMPDIR, or --conf "
            "spark.local.dir, to a directory with more space"
        )
    return (
        "the disk is full (that of the output directory, or that of the executors' temporary files): free disk space, "
        "and run the command again"
    )
