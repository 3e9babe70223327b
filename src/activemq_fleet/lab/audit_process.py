"""Run the audit of the demo in a process of its own, whose Spark starts while the brokers do.

The audit is the library's, of logs and journals alone, as the command ``audit`` runs it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from activemq_fleet.errors import FleetError, LabError
from activemq_fleet.printable import printable

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession

_GO = "audit"
_SHOWN_LINES = 12
_PATIENCE = 30.0  # seconds for a Spark that is not wanted any more to end


class AuditProcess:
    """A process that audits the directory ``logs`` into ``out`` on demand; it is ended when the block is left."""

    def __init__(self, logs: Path, out: Path) -> None:
        self._command = [sys.executable, "-m", __name__, str(logs), str(out)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return self

    def audit(self) -> None:
        """Run the audit and return when its results are written.

        Raises LabError when the audit fails, after printing the last lines of its output.
        """
        said, _ = self._process.communicate(f"{_GO}\n")
        if self._process.returncode:
            lines = [line for line in said.splitlines() if line.strip()]
            print(printable("\n".join(lines[-_SHOWN_LINES:]), lines=True), file=sys.stderr)
            raise LabError(f"the audit ended with {self._process.returncode}; its last lines are above")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process.poll() is None:
            try:
                self._process.communicate(timeout=_PATIENCE)  # the end of its input ends it
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.communicate()


def main(arguments: Sequence[str]) -> int:
    """Start Spark, wait for the word ``audit`` on standard input, and audit directory 0 into directory 1.

    Returns the exit code: 0 when the audit was done or not asked for, 130 when interrupted, else that of the error.
    """
    from activemq_fleet.spark.session import SessionOptions, session

    logs, out = arguments
    try:
        with session("audit", SessionOptions(progress=False)) as spark:
            from activemq_fleet.spark.audit.job import audit

            _warm(spark)
            if sys.stdin.readline().strip() == _GO:
                audit(spark, logs, out)
    except FleetError as error:
        print(printable(f"audit: {error}"), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def _warm(spark: SparkSession) -> None:
    """Have Java load, and a worker import, what every query needs."""
    spark.range(1).mapInArrow(_as_they_are, "id bigint").groupBy().count().toArrow()


def _as_they_are(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    return batches


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
