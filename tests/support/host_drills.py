"""Runs of the playbook ``drill`` on hosts."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from activemq_fleet.drills.model import DrillResult
from tests.hosts.brokers import broker_report
from tests.hosts.playbooks import Controller, PlaybookError

DRILL_RATE = 40


# The names of the machines cannot be resolved outside of them.
# A busy machine requires more time to reach the rate.
DRILL_VARIABLES = {
    "activemq_address": "{{ ansible_host }}",
    "activemq_drill_rate": DRILL_RATE,
    "__activemq_settle_timeout": 300,
}


@pytest.fixture(autouse=True)
def short_temporary_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set a temporary directory that keeps socket paths short, and remove the files of an interrupted drill."""
    with tempfile.TemporaryDirectory(prefix="drill-", ignore_cleanup_errors=True) as directory:
        monkeypatch.setenv("TMPDIR", directory)
        yield


def start_drill(controller: Controller, **variables: object) -> subprocess.Popen[str]:
    """Start the playbook in the network of the machines, from which a controller reaches the brokers."""
    return controller.start_playbook("drill", "-e", json.dumps(DRILL_VARIABLES | variables), inside=True)


def run_drill(controller: Controller, report: Path, **variables: object) -> tuple[str, DrillResult]:
    process = start_drill(
        controller, activemq_drill_allowed=True, activemq_drill_report=str(report), activemq_drill_kills=1, **variables
    )
    output, _ = process.communicate(timeout=1500)
    data_path = report.with_suffix(".json")
    result = DrillResult.from_dict(json.loads(data_path.read_text())) if data_path.exists() else None
    if result is not None:
        assert result.event_count_of_all_pairs("lost") == result.event_count_of_all_pairs("duplicate") == 0, output
    if process.returncode or result is None:
        # The load was too small, or a broker was too late. This error does not concern events.
        raise PlaybookError("\n".join([output, *map(broker_report, controller.rack.machines)]))
    return output, result
