"""The demo's ``audit``, in a process whose Spark starts while the brokers do: it needs seconds to be there.

It is the library's audit, of logs and journals alone, as the command runs it.
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
    """Audits ``logs`` into ``out`` when it is told to; ends unheard with the block."""

    def __init__(self, logs: Path, out: Path) -> None:
        self._command = [sys.executable, "-m", __name__, str(logs), str(out)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return self

    def audit(self) -> None:
        """Audit now. Raises LabError with the last lines of what was said when it cannot be done."""
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
    """Start Spark, wait for the word, audit ``arguments[0]`` into ``arguments[1]``; 0 when that was done."""
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
