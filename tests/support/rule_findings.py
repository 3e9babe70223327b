"""Findings of one rule on a snippet."""

from __future__ import annotations

from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings
from activemq_fleet.releases import Release
from tests.rule_examples import complete


def rule_findings(rule: str, snippet: str | bytes, release: str = "5.18.3", **other_files: str) -> list[Finding]:
    """The findings of one rule on a snippet, or on a whole document given as bytes."""
    known = Release.of(release)
    data = complete(snippet, known) if isinstance(snippet, str) else snippet
    files = {name.replace("__", "."): text.encode() for name, text in other_files.items()}
    return [finding for finding in file_findings(data, known, other_files=files) if finding.rule == rule]
