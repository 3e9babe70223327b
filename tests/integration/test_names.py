"""A drill of a lab, the audit of its logs and its diagram, with other naming conventions of hosts.

``CONVENTIONS=all``, as in ``make test-full``, takes a minute per convention. ``tests/hosts/test_drill.py`` tests one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from activemq_fleet.cli.main import main
from activemq_fleet.drills.model import DrillResult
from activemq_fleet.lab.drill import DrillOptions, run_drill
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.log_collection import collect_logs
from activemq_fleet.reports.drill_page import drill_html_page
from tests.conventions import CONVENTIONS, EVERY_CONVENTION, Convention
from tests.integration.labs import processes_of

SETTINGS = {"release": "6.3.1", "network_username": "network", "network_password": "s3cret-network"}
RATE = 40.0


@pytest.mark.skipif(
    not EVERY_CONVENTION, reason="CONVENTIONS=all is not set: set it to test all conventions, a minute each"
)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("convention", CONVENTIONS, ids=lambda convention: convention.name)
def test_drill_audit_and_diagram_name_hosts_of_each_convention(convention: Convention, tmp_path: Path) -> None:
    pair, hosts = next(iter(convention.pairs.items()))
    inventory = convention.write(tmp_path / "inventory", [pair], **SETTINGS)
    directory, collected = tmp_path / "lab", tmp_path / "logs"
    with Lab.open([inventory], directory) as lab:
        lab.up()
        drill_result = run_drill(lab, DrillOptions(faults=1, rate=RATE, seed=1, patience=300, target=pair))
        collect_logs(lab, {}, collected)
    assert not processes_of(directory)

    check_drill(drill_result, pair, hosts)
    assert main(["audit", "--logs", str(collected), "-o", str(tmp_path / "audit"), "-i", str(inventory)]) in (0, 1)
    (takeover,) = [row for row in pq.read_table(tmp_path / "audit/incidents").to_pylist() if row["kind"] == "takeover"]
    assert takeover["pair"] == pair
    assert takeover["host"] == drill_result.faults_under_sufficient_load[0].successor
    assert main(["graph", "-i", str(inventory), "-o", str(tmp_path / "fleet.svg")]) == 0
    diagram = (tmp_path / "fleet.svg").read_text()
    assert all(name in diagram for name in (pair, *(host.partition(".")[0] for host in hosts)))


def check_drill(result: DrillResult, pair: str, hosts: tuple[str, str]) -> None:
    """Check that the drill is clean, and that it names the pair, the killed host and its successor."""
    assert result.verdict == "clean", result.reasons
    assert result.event_count_of_all_pairs("lost") == 0, result.reasons
    assert result.event_count_of_all_pairs("duplicate") == 0, result.reasons
    (fault,) = result.faults_under_sufficient_load
    assert fault.pair == pair
    assert {fault.host, fault.successor} == set(hosts)
    report = drill_html_page(result)
    assert all(host.partition(".")[0] in report for host in hosts)
    assert json.dumps(result.to_dict())
