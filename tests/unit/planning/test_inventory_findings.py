"""Findings about an inventory in a plan: those that check reports, computed without the complete fleet."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.findings import Finding
from activemq_fleet.inventory import fleet_from_inventory_data, read_inventory
from activemq_fleet.planning.components import divide_into_components
from activemq_fleet.planning.host_facts import host_component_facts_and_variables
from activemq_fleet.planning.host_records import HostRecord
from activemq_fleet.planning.inventory_findings import findings_about_inventory_files_and_hosts

INVENTORY = """\
all:
  vars: {activemq_release: 5.18.3, activemq_ha: none, activemq_topology: none}
  hosts:
    orders-mq01-a: {ansible_host: 192.0.2.1, activemqq_heap: 1g}
    orders-mq02-a: {ansible_host: 192.0.2.1}
    orders-mq03-a: {ansible_host: 192.0.2.1, activemq_instance: third}
    mqkiel:
"""
RULES = {"T009", "T036", "T037"}


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text(INVENTORY)
    return path


def keys_of_findings(findings: tuple[Finding, ...]) -> set[tuple[str, str, str]]:
    """Return rule, host and message of each finding of the tested rules."""
    return {(finding.rule, finding.host, finding.message) for finding in findings if finding.rule in RULES}


def test_plan_findings_about_inventory_equal_findings_of_complete_fleet(inventory: Path) -> None:
    inventory_data = read_inventory([str(inventory)])
    findings = findings_about_inventory_files_and_hosts(inventory_data)
    assert {finding.rule for finding in findings} == RULES
    assert keys_of_findings(findings) == keys_of_findings(fleet_from_inventory_data(inventory_data).findings)


def test_inventory_finding_belongs_to_component_of_its_host_or_is_warning(inventory: Path) -> None:
    inventory_data = read_inventory([str(inventory)])
    facts = [
        host_component_facts_and_variables(HostRecord(host, variables), None)[0]
        for host, variables in inventory_data.hosts.items()
    ]
    division = divide_into_components(
        facts, date(2026, 11, 28), findings_about_inventory_files_and_hosts(inventory_data)
    )
    (rest,) = division.rest_by_component.values()
    assert [(finding.rule, finding.host) for finding in rest.findings] == [
        ("T036", "orders-mq01-a"),
        ("T009", "orders-mq02-a"),
    ]
    assert [line for line in division.warnings if line.startswith("T037 mqkiel: ")]


def test_error_in_inventory_files_stops_plan(inventory: Path) -> None:
    inventory.write_text(f"{INVENTORY}orders:\n  host:\n    mqkiel:\n")
    with pytest.raises(InputError, match="Ansible ignores the key host of group orders, because it is not"):
        findings_about_inventory_files_and_hosts(read_inventory([str(inventory)]))
