"""Rules about configurations: one module a family, each rule one small function.

``check --file`` runs the file and release rules on anyone's activemq.xml, ``check -i`` all of them on a
fleet, the broker role's preflight the host rules.
"""

from __future__ import annotations

from activemq_fleet.lint.document import Problem
from activemq_fleet.lint.engine import FAMILIES, Example, Rule, Scope
from activemq_fleet.lint.files import file_findings
from activemq_fleet.lint.fleets import FleetView, fleet_findings
from activemq_fleet.lint.hosts import HostFacts, HostView, Subject, host_findings
from activemq_fleet.lint.releases import ReleaseView, release_findings
from activemq_fleet.lint.selection import Selection
from activemq_fleet.lint.table import rules

__all__ = [
    "FAMILIES",
    "Example",
    "FleetView",
    "HostFacts",
    "HostView",
    "Problem",
    "ReleaseView",
    "Rule",
    "Scope",
    "Selection",
    "Subject",
    "file_findings",
    "fleet_findings",
    "host_findings",
    "release_findings",
    "rules",
]
