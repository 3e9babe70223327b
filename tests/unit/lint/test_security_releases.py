"""Tests of the findings about published vulnerabilities of releases, for fleets and for installed releases."""

from __future__ import annotations

import re
from typing import Any

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import (
    InstalledReleaseFacts,
    Rule,
    RuleSelection,
    installed_release_findings,
    rules_of_scope,
)
from activemq_fleet.releases import Release
from activemq_fleet.releases._data import load_releases_and_advisories
from activemq_fleet.topology import build_fleet
from tests.support.rule_findings import fleet_rule_findings
from tests.unit.fleets import hosts


def release_findings(release: str, rule: str, *, from_package: bool = False) -> tuple[Finding, ...]:
    return installed_release_findings(
        InstalledReleaseFacts(Release.of(release), from_package), RuleSelection(select=(rule,))
    )


def fleet_findings_of(rule: str, **variables: Any) -> list[Finding]:
    return fleet_rule_findings(rule, build_fleet(hosts("orders-mq01", **variables), {}))


@pytest.mark.parametrize("rule", rules_of_scope("release"), ids=lambda rule: rule.id)
def test_release_rule_reports_only_its_failing_examples(rule: Rule) -> None:
    assert all(release_findings(example.release, rule.id) for example in rule.failing_examples)
    assert not any(release_findings(example.release, rule.id) for example in rule.passing_examples)


@pytest.mark.parametrize(
    ("release", "severity"),
    [
        ("5.5.1", "warning"),
        ("5.14.5", "warning"),
        ("5.15.15", "error"),
        ("5.16.6", "error"),
        ("5.17.5", "error"),
        ("5.18.2", "error"),
    ],
)
def test_code_execution_is_error_if_release_line_has_fix(release: str, severity: str) -> None:
    (finding,) = release_findings(release, "S001")
    assert finding.severity == severity
    assert "CVE-2023-46604" in finding.message


@pytest.mark.parametrize("release", ["5.15.16", "5.16.7", "5.17.6", "5.18.3", "5.19.0", "6.0.0", "5.18.99"])
def test_code_execution_is_not_reported_for_release_with_fix(release: str) -> None:
    assert release_findings(release, "S001") == ()


def test_code_execution_of_distribution_package_is_warning() -> None:
    (finding,) = release_findings("5.17.2", "S001", from_package=True)
    assert finding.severity == "warning"
    assert "unless the package has the fix" in finding.message


@pytest.mark.parametrize(("release", "number"), [("5.18.3", 2), ("5.19.10", 2), ("6.0.1", 2), ("5.19.11", 0)])
def test_vulnerable_release_is_warning_for_each_broker_of_fleet(release: str, number: int) -> None:
    findings = fleet_findings_of("S002", release=release)
    assert len({finding.host for finding in findings}) == len(findings) == number
    assert {finding.severity for finding in findings} <= {"warning"}


def test_fix_contains_recommended_release() -> None:
    (finding_about_execution, _) = fleet_findings_of("S001", release="5.15.2")
    assert finding_about_execution.fix.startswith(
        "upgrade to 5.19.11 (5.15.16 fixes CVE-2023-46604, but not all later vulnerabilities)"
    )
    (finding_about_release, _) = fleet_findings_of("S002", release="6.0.1")
    assert finding_about_release.fix.startswith("upgrade to 6.3.2")


def test_recommended_release_is_known_and_not_vulnerable() -> None:
    """The test checks every known release, and a patch release newer than all known ones of its line."""
    release_data = load_releases_and_advisories()
    patches = {line: line_data.last_patch + 1 for line, line_data in release_data.lines.items()}
    for release in (f"{line}.{patch}" for line, last in patches.items() for patch in range(last + 1)):
        for finding in (*release_findings(release, "S001"), *release_findings(release, "S002")):
            match = re.match(r"upgrade to (\d+\.\d+\.\d+)", finding.fix)
            assert match, finding
            assert Release.of(match[1]).known, finding
            assert (release_findings(match[1], "S001"), release_findings(match[1], "S002")) == ((), ()), finding
