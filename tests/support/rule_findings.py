"""Findings of a rule on a snippet or on a fleet."""

from __future__ import annotations

from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings, fleet_findings
from activemq_fleet.releases import Release
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Fleet
from tests.rule_examples import complete


def rule_findings(rule: str, snippet: str | bytes, release: str = "5.18.3", **other_files: str) -> list[Finding]:
    """Return the findings of a rule on a snippet, or on a complete document given as bytes."""
    known_release = Release.of(release)
    data = complete(snippet, known_release) if isinstance(snippet, str) else snippet
    files = {name.replace("__", "."): text.encode() for name, text in other_files.items()}
    return [finding for finding in file_findings(data, known_release, other_files=files) if finding.rule == rule]


def fleet_rule_findings(rule: str, fleet: Fleet) -> list[Finding]:
    """Return the findings of a rule on the rendered files of a fleet."""
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in fleet.brokers}
    return [finding for finding in fleet_findings(fleet, documents) if finding.rule == rule]
