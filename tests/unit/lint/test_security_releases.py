"""What is said of a release that is open to published vulnerabilities, of a fleet and of anyone's file."""

from __future__ import annotations

import re
from typing import Any

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import (
    InstalledReleaseFacts,
    Rule,
    RuleSelection,
    fleet_findings,
    installed_release_findings,
    rules_of_scope,
)
from activemq_fleet.releases import Release
from activemq_fleet.releases._data import load_release_data
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import build_fleet
from tests.unit.fleets import hosts


def found(release: str, rule: str, *, from_package: bool = False) -> tuple[Finding, ...]:
    return installed_release_findings(
        InstalledReleaseFacts(Release.of(release), from_package), RuleSelection(select=(rule,))
    )


def of_fleet(rule: str, **variables: Any) -> list[Finding]:
    fleet = build_fleet(hosts("orders-mq01", **variables), {})
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in fleet.brokers}
    return list(fleet_findings(fleet, documents, RuleSelection(select=(rule,))))


@pytest.mark.parametrize("rule", rules_of_scope("release"), ids=lambda rule: rule.id)
def test_a_release_of_the_examples_fires_or_is_silent(rule: Rule) -> None:
    assert all(found(example.release, rule.id) for example in rule.failing_examples)
    assert not any(found(example.release, rule.id) for example in rule.passing_examples)


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
def test_code_execution_without_a_login_is_an_error_where_the_line_has_a_fix(release: str, severity: str) -> None:
    (finding,) = found(release, "S001")
    assert finding.severity == severity
    assert "CVE-2023-46604" in finding.message


@pytest.mark.parametrize("release", ["5.15.16", "5.16.7", "5.17.6", "5.18.3", "5.19.0", "6.0.0", "5.18.99"])
def test_a_release_with_the_fix_is_not_told_of_code_execution(release: str) -> None:
    assert found(release, "S001") == ()


def test_a_package_of_a_distribution_may_have_the_fix_under_the_old_number() -> None:
    (finding,) = found("5.17.2", "S001", from_package=True)
    assert finding.severity == "warning"
    assert "unless the package has the fix" in finding.message


@pytest.mark.parametrize(("release", "wanted"), [("5.18.3", 2), ("5.19.10", 2), ("6.0.1", 2), ("5.19.11", 0)])
def test_each_broker_of_a_fleet_is_warned_of_until_its_release_has_the_fixes(release: str, wanted: int) -> None:
    told = of_fleet("S002", release=release)
    assert len({finding.host for finding in told}) == len(told) == wanted
    assert {finding.severity for finding in told} <= {"warning"}


def test_the_release_to_go_to_is_named() -> None:
    (first, _) = of_fleet("S001", release="5.15.2")
    assert first.fix.startswith("upgrade to 5.19.11 (5.15.16 fixes CVE-2023-46604, but not all later vulnerabilities)")
    (second, _) = of_fleet("S002", release="6.0.1")
    assert second.fix.startswith("upgrade to 6.3.2")


def test_each_recommended_release_is_known_and_is_not_flagged_again() -> None:
    """Of every known release, and of a patch that is newer than all known ones of its line."""
    data = load_release_data()
    patches = {line: about.last_patch + 1 for line, about in data.lines.items()}
    for release in (f"{line}.{patch}" for line, last in patches.items() for patch in range(last + 1)):
        for finding in (*found(release, "S001"), *found(release, "S002")):
            match = re.match(r"upgrade to (\d+\.\d+\.\d+)", finding.fix)
            assert match, finding
            assert Release.of(match[1]).known, finding
            assert (found(match[1], "S001"), found(match[1], "S002")) == ((), ()), finding
