"""What a check has found, before it takes a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from activemq_fleet.findings import Finding, Severity
from activemq_fleet.topology import Fleet

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class Report:
    """``hosts`` are those that were looked at; ``waivers`` those in force."""

    hosts: tuple[str, ...]
    findings: tuple[Finding, ...]
    waivers: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, fleet: Fleet) -> Report:
        """The report on a fleet: brokers, agents and balancers."""
        brokers, agents = [b.host for b in fleet.brokers], [a.host for a in fleet.agents]
        hosts = dict.fromkeys((*brokers, *agents, *(b.host for b in fleet.balancers)))
        return cls(tuple(hosts), fleet.findings, fleet.waivers, fleet.warnings)

    @property
    def counts(self) -> dict[str, int]:
        """How many findings of each severity are not waived, and how many are."""
        found = dict.fromkeys((*SEVERITIES, "waived"), 0)
        for finding in self.findings:
            found["waived" if finding.waived is not None else finding.severity] += 1
        return found


def path_of(finding: Finding) -> str | None:
    """The file of a finding, as ``render`` would name it in its output directory."""
    if finding.file is None or not finding.host:
        return finding.file
    return f"hosts/{finding.host}/{finding.file}"
