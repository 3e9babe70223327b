"""Rule ids in waivers and baselines, and parentheses in composite URIs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from activemq_fleet.cli.baseline import read_baseline
from activemq_fleet.errors import InputError
from activemq_fleet.lint import file_findings
from activemq_fleet.releases import Release
from activemq_fleet.topology import build_fleet
from activemq_fleet.validation import fleet_with_check_findings
from tests.hostile_files import document
from tests.unit.fleets import hosts


def test_waiver_of_unknown_rule_is_error_that_names_hosts_and_variable() -> None:
    fleet = build_fleet(hosts("orders-mq01", waivers=[{"rule": "T999", "reason": "none"}]), {})
    with pytest.raises(InputError, match=r"orders-mq01-a\S*, orders-mq01-b\S*: activemq_waivers has a waiver of T999"):
        fleet_with_check_findings(fleet, {}, None)


def test_baseline_with_unknown_rule_is_error_that_names_file(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    entry = {"rule": "X123", "host": "a", "file": "", "message": "m"}
    path.write_text(json.dumps({"version": 1, "findings": [entry]}))
    with pytest.raises(InputError, match=r"baseline\.json: the baseline contains rules that do not exist \(X123\)"):
        read_baseline(path)


@pytest.mark.parametrize(
    ("inside", "rule"),
    [
        ('<networkConnectors><networkConnector name="n" uri="static:(tcp://a:61616"/></networkConnectors>', "V029"),
        (
            '<networkConnectors><networkConnector name="n" uri="static:(failover:(tcp://a:1)"/></networkConnectors>',
            "V029",
        ),
        (
            '<networkConnectors><networkConnector name="n" uri="masterslave:(tcp://a:1,tcp://b:1))"/>'
            "</networkConnectors>",
            "V029",
        ),
        ('<networkConnectors><networkConnector name="n" uri="static:tcp://a:61616)"/></networkConnectors>', "V029"),
        (
            '<transportConnectors><transportConnector name="o" uri="tcp://b:1" discoveryUri="static:(tcp://a:1"/>'
            "</transportConnectors>",
            "V029",
        ),
        ('<proxyConnectors><proxyConnector bind="tcp://b:1" remote="failover:(tcp://a:1"/></proxyConnectors>', "V056"),
        ('<connectionFactory id="f" brokerURL="failover:(tcp://a:1"/>', "V056"),
    ],
)
def test_unbalanced_composite_uri_is_single_error(inside: str, rule: str) -> None:
    findings = [f for f in file_findings(document(inside), Release.of("5.18.3")) if f.rule in ("V029", "V056")]
    assert [(finding.rule, finding.severity) for finding in findings] == [(rule, "error")]
