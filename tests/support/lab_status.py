"""The command ``status`` on a lab."""

from __future__ import annotations

from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.lab_paths import LabPaths
from activemq_fleet.lab.status_evidence import lab_fleet, lab_status
from activemq_fleet.status import FleetStatus
from activemq_fleet.status.selection import select_hosts


def read_lab_status(lab: Lab) -> FleetStatus:
    fleet = lab_fleet(LabPaths(lab.directory))
    hosts = select_hosts(fleet)
    return lab_status(fleet, hosts, hosts, timeout=20)


def finding_rules(lab: Lab) -> set[tuple[str, str]]:
    return {(finding.rule, finding.host) for finding in read_lab_status(lab).findings}
