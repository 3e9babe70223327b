"""Findings of a rule on a snippet."""

from __future__ import annotations

from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings
from activemq_fleet.releases import Release
from tests.rule_examples import complete


def rule_findings(rule: str, snippet: str | bytes, release: str = "5.18.3", **other_files: str) -> list[Finding]:
    """Return the findings of a rule on a snippet, or on a complete document given as bytes."""
    known_release = Release.of(release)
    data = complete(snippet, known_release) if isinstance(snippet, str) else snippet
    files = {name.replace("__", "."): text.encode() for name, text in other_files.items()}
    return [finding for finding in file_findings(data, known_release, other_files=files) if finding.rule == rule]
