"""Fuzz target: malformed logs, read by every reader of broker logs. The scanner must agree with a plain reader."""

from __future__ import annotations

import tempfile
from pathlib import Path

from activemq_fleet.lab.log_tail import last_error_with_root_cause
from activemq_fleet.node.log import broker_log, pure_log
from activemq_fleet.node.log.broker_run import BrokerRun
from activemq_fleet.node.log.log_records import parse_log
from tests.log_reading import first_difference, make_malformed_log

from .target import Target


def read(data: bytes) -> str:
    """Read a log with the scanner, the parser of the library and the readers of hosts; return the problem."""
    text = data.decode(errors="replace")
    records = list(parse_log(text))
    BrokerRun().apply_records(records)
    last_error_with_root_cause(records)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "activemq.log").write_bytes(data)
        Path(directory, "activemq.log.1").write_bytes(data[::-1])
        phase = broker_log.read_broker_phase(directory, 0)
        error = broker_log.last_logged_error(directory)
        runs = pure_log.read_pure_master_slave_runs(directory)
    if "\n" in error or len(error) > 400:
        return f"the last error is not a single short line: {error!r}"
    if phase.name == "unknown" and any(run["started"] for run in runs):
        return f"pure_log reports a run that started, and broker_log reports no phase: {runs}"
    return first_difference(data)


TARGET = Target("malformed logs, read by every reader of broker logs", make_malformed_log, read, suffix=".log")
