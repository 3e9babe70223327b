"""Explain the findings about a host, and the waivers that cover it."""

from __future__ import annotations

import fnmatch

from activemq_fleet.explain.explanation import Entry, Section
from activemq_fleet.findings import SEVERITIES, Finding
from activemq_fleet.topology import Broker, Fleet


def findings_section(fleet: Fleet, host: str, broker: Broker | None) -> Section:
    """Return the section of an explanation that lists a host's findings, its peer's findings, and waivers."""
    peer = broker.peer if broker else None
    own_findings = sorted(
        (finding for finding in fleet.findings if finding.host in (host, peer)),
        key=lambda f: (f.host != host, f.waived is not None, SEVERITIES.index(f.severity), f.rule, f.message),
    )
    entries = [_finding_entry(finding, host) for finding in own_findings]
    used = {finding.rule for finding in own_findings if finding.waived is not None and finding.host == host}
    for waiver in fleet.waivers:
        rule = waiver["rule"]
        if rule not in used and any(fnmatch.fnmatchcase(host, pattern) for pattern in waiver["hosts"]):
            until = f", until {waiver['until']}" if waiver.get("until") else ""
            text = f"findings would be waived{until}: {waiver['reason']}"
            entries.append(Entry(f"waiver {rule}", text, variable="activemq_waivers", origin="inventory"))
    if not entries:
        entries = [Entry("none", "no findings and no waivers for this host")]
    return Section("findings", "Findings and waivers", tuple(entries))


def _finding_entry(finding: Finding, host: str) -> Entry:
    kind = finding.severity if finding.waived is None else "waived"
    whose = "" if finding.host == host else f"{finding.host}: "
    where = f"{finding.file}:{finding.line}: " if finding.file and finding.line else ""
    details = (f"fix: {finding.fix}",) if finding.waived is None else (f"waived: {finding.waived}",)
    return Entry(
        f"{kind} {finding.rule}",
        f"{whose}{where}{finding.message}",
        why=finding.why,
        details=details,
        severity=kind,
        data=finding.to_dict(),
    )
