"""Check configurations by rules: a module for each family, a small function for each rule.

``check --file`` runs the file and release rules on any activemq.xml, ``check -i`` all rules on a fleet, the broker
role's preflight the host rules.
"""

from __future__ import annotations

from activemq_fleet.lint.engine import FAMILIES, SCOPES, Rule, RuleExample, rules_of_scope
from activemq_fleet.lint.files import InstalledReleaseFacts, file_findings, installed_release_findings
from activemq_fleet.lint.fleets import fleet_findings
from activemq_fleet.lint.hosts import host_findings
from activemq_fleet.lint.selection import RuleSelection

__all__ = [
    "FAMILIES",
    "SCOPES",
    "InstalledReleaseFacts",
    "Rule",
    "RuleExample",
    "RuleSelection",
    "file_findings",
    "fleet_findings",
    "host_findings",
    "installed_release_findings",
    "rules_of_scope",
]
