"""Run the audit of the demo in a separate process, whose Spark starts while the brokers do.

``python -m activemq_fleet.lab.demo_audit_process LOGS OUT`` waits for the word ``audit`` on its standard input. Then it
audits logs and journals as the command ``audit`` does. It ends without an audit when its input ends.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from activemq_fleet.errors import FleetError
from activemq_fleet.node.printable import escape_unprintable

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession


def main(arguments: Sequence[str]) -> int:
    """Run the failover demo's audit of broker logs and agent journals, and return the exit code of the process.

    The function runs in a separate process. ``arguments`` are LOGS and OUT: the directory of the logs and journals, and
    that of the result. The process starts Spark, waits for the word ``audit`` on standard input, and audits LOGS into
    OUT. The exit code is 0 if the audit was done or not requested, 130 when interrupted, else that of the error.
    """
    from activemq_fleet.spark.session import SessionOptions, temporary_spark_session

    logs, out = arguments
    try:
        with temporary_spark_session("audit", SessionOptions(progress=False)) as spark:
            from activemq_fleet.spark.audit_job import audit

            _start_workers(spark)
            if sys.stdin.readline().strip() == "audit":
                audit(spark, logs, out)
    except FleetError as error:
        print(escape_unprintable(f"audit: {error}"), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def _start_workers(spark: SparkSession) -> None:
    """Make Java load, and a Spark worker import, what every query needs."""
    spark.range(1).mapInArrow(_unchanged, "id bigint").groupBy().count().toArrow()


def _unchanged(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    return batches


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
