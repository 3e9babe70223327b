"""Explain the findings about a host, and the waivers that cover it."""

from __future__ import annotations

import fnmatch
from collections.abc import Hashable, Sequence
from dataclasses import replace

from activemq_fleet.explain.explanation import ExplanationSection, HostStatement
from activemq_fleet.findings import SEVERITIES, Finding
from activemq_fleet.topology import Broker, Fleet


def findings_section(fleet: Fleet, host: str, broker: Broker | None) -> ExplanationSection:
    """Return the section of the output of the command ``explain`` about a host's findings and waivers.

    The section also lists findings of the host's peer. A finding that both have is listed once.
    """
    peer = broker.peer if broker else None
    findings = sorted(
        (finding for finding in fleet.findings if finding.host in (host, peer)),
        key=lambda f: (f.host != host, f.waived is not None, SEVERITIES.index(f.severity), f.rule, f.message),
    )
    same_findings: dict[Hashable, list[Finding]] = {}
    for finding in findings:
        same_findings.setdefault(replace(finding, host="", line=None, column=None), []).append(finding)
    entries = [_finding_entry(same, host) for same in same_findings.values()]
    used = {finding.rule for finding in findings if finding.waived is not None and finding.host == host}
    for waiver in fleet.waivers:
        rule = waiver["rule"]
        if rule not in used and any(fnmatch.fnmatchcase(host, pattern) for pattern in waiver["hosts"]):
            until = f", valid until {waiver['until']}" if waiver.get("until") else ""
            text = (
                f"this waiver matches no current finding of the host (reason of the waiver: {waiver['reason']}{until})"
            )
            entries.append(HostStatement(f"waiver {rule}", text, variable="activemq_waivers", origin="inventory"))
    if not entries:
        entries = [HostStatement("none", "this host has no findings and no waivers")]
    return ExplanationSection("findings", "Findings and waivers", tuple(entries))


def _finding_entry(same: Sequence[Finding], host: str) -> HostStatement:
    """Return the entry of a finding, which names the hosts that have it unless that is ``host`` alone."""
    finding = same[0]
    kind = finding.severity if finding.waived is None else "waived"
    hosts = list(dict.fromkeys(equal_finding.host for equal_finding in same))
    host_prefix = "" if hosts == [host] else f"{' and '.join(hosts)}: "
    position_prefix = f"{finding.file}:{finding.line}: " if finding.file and finding.line else ""
    details = (f"fix: {finding.fix}",) if finding.waived is None else (f"waived: {finding.waived}",)
    return HostStatement(
        f"{kind} {finding.rule}",
        f"{host_prefix}{position_prefix}{finding.message}",
        why=finding.why,
        details=details,
        severity=kind,
        data={**finding.to_dict(), "hosts": hosts},
    )
