"""Findings of a security rule on a snippet and the files next to it."""

from __future__ import annotations

from activemq_fleet.findings import Finding
from activemq_fleet.lint import RuleSelection, file_findings
from activemq_fleet.releases import Release
from tests.rule_examples import complete


def security_findings(rule: str, snippet: str, release: str = "5.18.3", **other_files: str) -> list[Finding]:
    """Return the findings of a rule on a snippet; ``jetty_xml="…"`` is the file jetty.xml next to activemq.xml."""
    files = {name.replace("__", "-").replace("_", "."): text.encode() for name, text in other_files.items()}
    data = complete(snippet, Release.of(release))
    return list(file_findings(data, Release.of(release), other_files=files, selection=RuleSelection(select=(rule,))))
