"""What a check has found, before it takes a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from activemq_fleet.findings import Finding, Severity

if TYPE_CHECKING:
    from activemq_fleet.topology import Fleet

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class Report:
    """``hosts`` are those that were looked at, or with ``files`` the files; ``waivers`` those in force."""

    hosts: tuple[str, ...]
    findings: tuple[Finding, ...]
    waivers: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    files: bool = False

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


def subject_of(finding: Finding) -> str:
    """What a finding is about: a host, or a file of nobody's."""
    return finding.host or finding.file or ""


def place_of(finding: Finding) -> str:
    """``FILE:LINE:COLUMN`` as far as they are known; empty for findings about the inventory."""
    known = (finding.file, finding.line, finding.column)
    return ":".join(str(part) for part in known if part is not None)


def advice(finding: Finding) -> str:
    """The message and what to do, on one line."""
    stop = "" if finding.message.endswith(("?", ".", "…")) else "."
    return f"{finding.message}{stop} Fix: {finding.fix}"


def path_of(finding: Finding) -> str | None:
    """The file of a finding, as ``render`` would name it in its output directory."""
    if finding.file is None or not finding.host:
        return finding.file
    return f"hosts/{finding.host}/{finding.file}"
