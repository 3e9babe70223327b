"""The examples of the fleet rules: inventories in YAML, as ``all`` (variables of every host) and ``hosts``."""

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


def cases(kind: str) -> list[object]:
    return [
        pytest.param(one, example, id=f"{one.id}-{example.release}-{number}")
        for one in FLEET_RULES
        for number, example in enumerate(getattr(one, kind))
    ]


def fleet_of(example: RuleExample) -> Fleet:
    """The fleet of an example: its variables over those that every fleet needs."""
    inventory = yaml.safe_load(example.text)
    common = DEFAULTS | {"activemq_release": example.release} | (inventory.get("all") or {})
    hosts = {name: common | (own or {}) for name, own in inventory["hosts"].items()}
    return build_fleet(hosts, inventory.get("groups") or {})


def found(example: RuleExample) -> set[str]:
    fleet = fleet_of(example)
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in fleet.brokers}
    return {finding.rule for finding in fleet_findings(fleet, documents)}


@pytest.mark.parametrize(("rule", "example"), cases("failing_examples"))
def test_the_fleet_that_fires_does(rule: Rule, example: RuleExample) -> None:
    assert rule.id in found(example)


@pytest.mark.parametrize(("rule", "example"), cases("passing_examples"))
def test_the_fleet_that_is_silent_is(rule: Rule, example: RuleExample) -> None:
    assert rule.id not in found(example)
