"""Errors of Spark, explained in one line. The texts are shortened from real errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from activemq_fleet.spark.problems import SparkProblem, explain_spark_error, translate_spark_errors
from activemq_fleet.spark.scratch import ScratchDirectory

_WORKER = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/opt/pyspark.zip/pyspark/worker.py", line 1920, in read_udfs
{0}
"""


class PySparkException(Exception):
    """A class with the name of the one of pyspark, which a unit test does not import."""


class PySparkTypeError(PySparkException):
    """A wrong call of pyspark in this project: a bug."""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            _WORKER.format("ModuleNotFoundError: No module named 'pyarrow'"),
            "Python on the Spark workers has no module pyarrow",
        ),
        (
            _WORKER.format(
                "pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: "
                "3.12 than that in driver: 3.11, PySpark cannot run with different minor versions."
            ),
            "the Spark workers run Python 3.12, but this machine runs 3.11",
        ),
        (_WORKER.format("activemq_fleet.errors.InputError: host a: no such thing"), "host a: no such thing"),
        ('java.io.IOException: Cannot run program "./e/bin/python": error=2', "cannot run the Python ./e/bin/python"),
        ("[PATH_NOT_FOUND] Path does not exist: file:/x/y. SQLSTATE: 42K03", "the path file:/x/y does not exist"),
        (
            "Caused by: java.io.FileNotFoundException: /x/a.log (Permission denied)",
            "/x/a.log: allow the account that runs Spark",
        ),
        ('No FileSystem for scheme "s3a"', "Spark has no file system driver for s3a paths"),
        ("Caused by: java.lang.OutOfMemoryError: Java heap space", "ran out of memory (Java heap space)"),
        (
            "top\nCaused by: a.b.CException: one\nCaused by: a.b.DException: two\n\tat x",
            "Spark failed: DException: two",
        ),
        ("", "it reported no reason"),
    ],
)
def test_known_spark_error_is_explained(text: str, line: str) -> None:
    assert line in explain_spark_error(text)


def test_stack_trace_of_spark_error_becomes_one_line(tmp_path: Path) -> None:
    with pytest.raises(SparkProblem) as caught, translate_spark_errors(ScratchDirectory(tmp_path)):
        raise PySparkException("java.lang.IllegalStateException: no\n\tat a.b\n\tat c.d")
    assert "\n" not in str(caught.value)
    assert "at a.b" not in str(caught.value)


def test_programming_error_in_spark_job_is_not_translated(tmp_path: Path) -> None:
    with pytest.raises(PySparkTypeError), translate_spark_errors(ScratchDirectory(tmp_path)):
        raise PySparkTypeError("[NOT_COLUMN]")


def test_error_of_exited_spark_gateway_contains_output_of_java(tmp_path: Path) -> None:
    (tmp_path / "spark.log").write_text("Invalid maximum heap size: -Xmx9x\nError: Could not create the JVM\n")
    with (
        pytest.raises(SparkProblem, match="Invalid maximum heap size: -Xmx9x"),
        translate_spark_errors(ScratchDirectory(tmp_path)),
    ):
        raise PySparkException("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")
