"""Tests of the examples of the host rules, and of facts that are unknown."""

from __future__ import annotations

import pytest
import yaml

from activemq_fleet.deployment import ListenerFacts, MetricsFacts
from activemq_fleet.lint import Rule, host_findings, rules_of_scope
from activemq_fleet.lint.engine import RuleExample
from activemq_fleet.node.state.evidence import MachineFacts
from tests.support.facts_of_brokers import facts_of_broker


def example_parameters(kind: str) -> list[object]:
    return [
        pytest.param(rule, example, id=f"{rule.id}-{number}")
        for rule in rules_of_scope("host")
        for number, example in enumerate(getattr(rule, kind))
    ]


def rules_reported_for(example: RuleExample) -> set[str]:
    example_values = yaml.safe_load(example.text)
    settings = example_values.get("broker") or {}
    if "metrics" in settings:
        settings["metrics"] = MetricsFacts(**{"jar": "", "keystore": None, "labels": {}, **settings["metrics"]})
    settings["listeners"] = tuple(ListenerFacts(**listener) for listener in settings.get("listeners", ()))
    subject = facts_of_broker("orders-mq01-a", example.release, **{"install": "archive", **settings})
    facts, peer = (MachineFacts.from_machine_info_result(example_values.get(name) or {}) for name in ("facts", "peer"))
    return {finding.rule for finding in host_findings(subject, facts, peer)}


@pytest.mark.parametrize(("rule", "example"), example_parameters("failing_examples"))
def test_host_rule_reports_each_of_its_failing_examples(rule: Rule, example: RuleExample) -> None:
    assert rule.id in rules_reported_for(example)


@pytest.mark.parametrize(("rule", "example"), example_parameters("passing_examples"))
def test_host_rule_does_not_report_its_passing_examples(rule: Rule, example: RuleExample) -> None:
    assert rule.id not in rules_reported_for(example)


@pytest.mark.parametrize("ha", ["shared-file", "shared-jdbc", "pure", "none"])
def test_unknown_facts_of_host_cause_no_findings(ha: str) -> None:
    subject = facts_of_broker("a", "5.7.0", ha=ha, multicast=True)
    assert host_findings(subject, MachineFacts()) == ()


def test_nolock_mount_is_not_reported_for_unshared_store() -> None:
    facts = MachineFacts(store_filesystem="nfs", store_mount_options=("vers=3", "nolock"))
    assert host_findings(facts_of_broker("a", "5.7.0", ha="pure"), facts) == ()


def test_unknown_keys_of_machine_info_are_ignored() -> None:
    assert MachineFacts.from_machine_info_result({"java": 17, "colour": "green", "user": None}) == MachineFacts(java=17)


@pytest.mark.parametrize(
    ("directory", "name"), [(None, "the shared store is"), ("/srv/a", "the shared store /srv/a is")]
)
def test_message_about_mount_contains_directory_of_shared_store_if_known(directory: str | None, name: str) -> None:
    facts = MachineFacts(store_filesystem="nfs", store_mount_options=("vers=3",))
    subject = facts_of_broker("a", "5.18.3", ha="shared-file", directory=directory)
    assert [name in finding.message for finding in host_findings(subject, facts) if finding.rule == "L001"] == [True]
