"""Tests of the examples of the fleet rules.

An example is an inventory in YAML: ``all`` has the variables of every host, ``hosts`` those of each host.
"""

from __future__ import annotations

import pytest
import yaml

from activemq_fleet.lint import Rule, fleet_findings, rules_of_scope
from activemq_fleet.lint.engine import RuleExample
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Fleet, build_fleet

FLEET_RULES = rules_of_scope("fleet")
DEFAULTS = {
    "activemq_network_username": "network",
    "activemq_network_password": "a secret",
    "activemq_users": [{"name": "app", "password": "another", "groups": ["apps"]}],
}


def example_parameters(kind: str) -> list[object]:
    return [
        pytest.param(rule, example, id=f"{rule.id}-{example.release}-{number}")
        for rule in FLEET_RULES
        for number, example in enumerate(getattr(rule, kind))
    ]


def build_example_fleet(example: RuleExample) -> Fleet:
    """Build the fleet of an example: its variables override those that every fleet requires."""
    inventory = yaml.safe_load(example.text)
    common = DEFAULTS | {"activemq_release": example.release} | (inventory.get("all") or {})
    hosts = {name: common | (host_variables or {}) for name, host_variables in inventory["hosts"].items()}
    return build_fleet(hosts, inventory.get("groups") or {})


def rules_reported_for(example: RuleExample) -> set[str]:
    fleet = build_example_fleet(example)
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in fleet.brokers}
    return {finding.rule for finding in fleet_findings(fleet, documents)}


@pytest.mark.parametrize(("rule", "example"), example_parameters("failing_examples"))
def test_fleet_rule_reports_each_of_its_failing_examples(rule: Rule, example: RuleExample) -> None:
    assert rule.id in rules_reported_for(example)


@pytest.mark.parametrize(("rule", "example"), example_parameters("passing_examples"))
def test_fleet_rule_does_not_report_its_passing_examples(rule: Rule, example: RuleExample) -> None:
    assert rule.id not in rules_reported_for(example)
