"""The host rules' own examples, and what is not known."""

from __future__ import annotations

import pytest
import yaml

from activemq_fleet.deployment import ListenerFacts, MetricsFacts
from activemq_fleet.lint import Rule, host_findings, rules_of_scope
from activemq_fleet.lint.engine import RuleExample
from activemq_fleet.node.state.evidence import MachineFacts
from tests.support.facts_of_brokers import facts_of_broker


def cases(kind: str) -> list[object]:
    return [
        pytest.param(rule, example, id=f"{rule.id}-{number}")
        for rule in rules_of_scope("host")
        for number, example in enumerate(getattr(rule, kind))
    ]


def found(example: RuleExample) -> set[str]:
    given = yaml.safe_load(example.text)
    settings = given.get("broker") or {}
    if "metrics" in settings:
        settings["metrics"] = MetricsFacts(**{"jar": "", "keystore": None, "labels": {}, **settings["metrics"]})
    settings["listeners"] = tuple(ListenerFacts(**listener) for listener in settings.get("listeners", ()))
    subject = facts_of_broker("orders-mq01-a", example.release, **{"install": "archive", **settings})
    facts, peer = (MachineFacts.from_machine_info_result(given.get(name) or {}) for name in ("facts", "peer"))
    return {finding.rule for finding in host_findings(subject, facts, peer)}


@pytest.mark.parametrize(("rule", "example"), cases("failing_examples"))
def test_the_example_that_fires_does(rule: Rule, example: RuleExample) -> None:
    assert rule.id in found(example)


@pytest.mark.parametrize(("rule", "example"), cases("passing_examples"))
def test_the_example_that_is_silent_is(rule: Rule, example: RuleExample) -> None:
    assert rule.id not in found(example)


@pytest.mark.parametrize("ha", ["shared-file", "shared-jdbc", "pure", "none"])
def test_nothing_is_said_about_what_is_not_known(ha: str) -> None:
    subject = facts_of_broker("a", "5.7.0", ha=ha, multicast=True)
    assert host_findings(subject, MachineFacts()) == ()


def test_a_local_lock_is_no_mistake_where_the_store_is_the_brokers_own() -> None:
    facts = MachineFacts(store_filesystem="nfs", store_mount_options=("vers=3", "nolock"))
    assert host_findings(facts_of_broker("a", "5.7.0", ha="pure"), facts) == ()


def test_evidence_may_hold_more_than_the_rules_know() -> None:
    assert MachineFacts.from_machine_info_result({"java": 17, "colour": "green", "user": None}) == MachineFacts(java=17)


@pytest.mark.parametrize(
    ("directory", "name"), [(None, "the shared store is"), ("/srv/a", "the shared store /srv/a is")]
)
def test_a_shared_store_is_named_by_its_directory_if_it_has_one(directory: str | None, name: str) -> None:
    facts = MachineFacts(store_filesystem="nfs", store_mount_options=("vers=3",))
    subject = facts_of_broker("a", "5.18.3", ha="shared-file", directory=directory)
    assert [name in finding.message for finding in host_findings(subject, facts) if finding.rule == "L001"] == [True]
