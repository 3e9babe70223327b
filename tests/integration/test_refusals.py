"""Tests of rules that predict a failed start, with the failing and the passing example of each rule.

A broker does not start with the failing example, and it logs the cause. It starts with the passing example.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from activemq_fleet.lint import Rule, rules_of_scope
from activemq_fleet.lint.engine import RuleExample
from activemq_fleet.releases import Release
from activemq_fleet.schema import CORE
from tests.integration.old_java import java_11
from tests.integration.single_brokers import BrokerSandbox, Fate, Outcome
from tests.rule_examples import complete, rule_findings
from tests.situations import fact_of_activemq, further, in_every_situation

_SCHEMA = "cvc-complex-type"
# The log must match the cause. Otherwise, a broker that fails for another reason would confirm the rule.
CAUSES = {
    "L013": r"NullPointerException: .*(Statements|persistenceAdapter)",
    "N001": "masterSlave requires at least 2 URIs",
    "N009": "The reference to entity",
    "N012": "InstanceAlreadyExistsException",
    "N022": _SCHEMA,
    "N030": "prefetchSize must be > 0|to a memory size: -1",
    "V001": _SCHEMA,
    "V002": _SCHEMA,
    "V003": _SCHEMA,
    "V005": _SCHEMA,
    "V006": _SCHEMA,
    "V007": _SCHEMA,
    "V008": "DiscoveryAgent scheme NOT recognized",
    "V009": "Transport scheme NOT recognized",
    "V013": "ClassNotFoundException: io.fabric8.insight",
    "V014": r"FileNotFoundException: .*/jetty(-spring)?\.xml",
    "V020": "annot find the declaration of element|no declaration can be found for element",
    "V021": _SCHEMA,
    "V028": "ClassNotFoundException: org.apache.commons.dbcp.BasicDataSource|Invalid property .(maxAct|trustAll)",
    "V029": r"Not a matching number of '\(' and '\)'|Cannot create inner bean 'networkConnector",
    "V040": "annot find the declaration of element|no declaration can be found for element",
    "V041": "The configuration has no BrokerService instance",
    "V050": "Could (not convert|convert not) to a memory size|IllegalArgumentException: yes|No enum constant",
    "V051": "Port value out of range|port out of range|Could not convert to a memory size",
    "V053": "[Pp]ort (value )?out of range|port out of range",
    "V052": "KeyStoreException: someTypeOfFile not found",
    "V055": "NumberFormatException",
    "V057": "Address already in use",
    "V064": 'IllegalArgumentException: You must|because "key" is null',
    "V065": "NoSuchBeanDefinitionException",
    "V066": "RedeliveryPlugin requires schedulerSupport=true",
    "V067": "/ by zero|IllegalArgumentException|PatternSyntaxException",
    "V068": "Could not create discovery agent",
    "V069": "URLDecoder: (Illegal hex characters|Incomplete trailing escape)",
    "V016": "Bean name '[^']+' is already used",
}
REFUSAL_RULES = [rule for rule in rules_of_scope("file") if rule.refuses]


def examples(kind: str) -> list[object]:
    """Return the first example of each rule, and with ``SITUATIONS=all`` the further examples."""
    return [
        pytest.param(
            rule, example, id=f"{rule.id}-{example.release}-{number}", marks=[in_every_situation] if number else []
        )
        for rule in REFUSAL_RULES
        for number, example in enumerate(getattr(rule, kind))
    ]


REFUSAL_DEADLINE = 20.0
"""Seconds: a broker that reports its start and still runs after them has not refused its document."""


def start_example(sandbox: BrokerSandbox, example: RuleExample, fate: Fate) -> Outcome:
    """Return the outcome of the start of a broker with an example, on the release of the example."""
    return outcome_of(sandbox, example.release, complete(example.text, Release.of(example.release)).decode(), fate)


def outcome_of(
    sandbox: BrokerSandbox, release: str, text: str, fate: Fate, *, java: Path | None = None, under: Sequence[str] = ()
) -> Outcome:
    """Return the outcome of the start of a broker with a document; ``fate`` is the expected outcome."""
    document = text.replace("0.0.0.0", sandbox.address(1))
    broker = sandbox.add_broker("broker", release, document, java=java, under=under)
    return broker.boot(stays=REFUSAL_DEADLINE) if fate == "refused" else broker.boot()


@fact_of_activemq
@pytest.mark.parametrize(("rule", "example"), examples("failing_examples"))
def test_broker_refuses_failing_example_of_rule(sandbox: BrokerSandbox, rule: Rule, example: RuleExample) -> None:
    outcome = start_example(sandbox, example, "refused")
    assert outcome.fate == "refused", outcome.output
    assert re.search(CAUSES[rule.id], outcome.output), outcome.output


@in_every_situation
@pytest.mark.parametrize(("rule", "example"), examples("passing_examples"))
def test_broker_starts_with_passing_example_of_rule(sandbox: BrokerSandbox, rule: Rule, example: RuleExample) -> None:
    outcome = start_example(sandbox, example, "started")
    assert outcome.fate == "started", outcome.output


@pytest.mark.parametrize(
    ("release", "fate"),
    [("5.18.3", "started"), ("6.3.1", "refused"), *further(("5.5.1", "refused"), ("5.17.6", "refused"))],
)
def test_v010_broker_starts_with_versioned_schema_only_if_release_contains_it(
    sandbox: BrokerSandbox, release: str, fate: Fate
) -> None:
    """The brokers have no Internet access: they resolve only the names in their hosts file."""
    activemq_xml = complete("", Release.of(release)).decode().replace("activemq-core.xsd", "activemq-core-5.16.5.xsd")
    outcome = outcome_of(sandbox, release, activemq_xml, fate)
    assert outcome.fate == fate, outcome.output
    assert ("no declaration can be found for element 'broker'" in outcome.output) == (fate == "refused")


@pytest.mark.parametrize(("release", "fate"), [("5.18.3", "started"), ("6.3.1", "refused")])
def test_v012_java_older_than_release_requires_prevents_start(sandbox: BrokerSandbox, release: str, fate: Fate) -> None:
    outcome = outcome_of(sandbox, release, complete("", Release.of(release)).decode(), fate, java=java_11())
    assert outcome.fate == fate, outcome.output
    assert ("UnsupportedClassVersionError" in outcome.output) == (fate == "refused")


@pytest.mark.parametrize("release", ["6.3.1", *further("5.5.1", "5.18.3")])
@pytest.mark.parametrize(("location", "fate"), [(f"{CORE} {CORE}/activemq-core.xsd", "started"), ("", "refused")])
def test_broker_element_as_root_starts_only_with_schema_location(
    sandbox: BrokerSandbox, release: str, location: str, fate: Fate
) -> None:
    hint = f' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="{location}"'
    root = f'<broker xmlns="{CORE}"{hint if location else ""} brokerName="north" useJmx="false" persistent="false"/>'
    assert outcome_of(sandbox, release, root, fate).fate == fate


def virtual_destinations(inside: str) -> str:
    """Return the XML of a broker's virtual destinations."""
    return (
        "<broker><destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
        f"{inside}</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors></broker>"
    )


@in_every_situation
@pytest.mark.parametrize(
    ("release", "snippet", "cause"),
    [
        ("5.5.1", '<networkConnector name="south"/>', "discoveryAgent"),
        ("6.3.1", '<networkConnector name="south" uri=""/>', 'because "uri" is null'),
        ("6.3.1", '<policyEntry queue=""/>', "a non-empty name is required"),
        ("5.8.0", "<broker><destinations><queue/></destinations></broker>", '"this.physicalName" is null'),
        ("5.18.3", "<broker><persistenceAdapter/></broker>", "Cannot convert value of type"),
        ("5.18.3", virtual_destinations('<compositeQueue name="a"/>'), "Collection.size"),
        ("5.8.0", virtual_destinations("<compositeTopic><forwardTo/></compositeTopic>"), "String.trim"),
    ],
)
def test_v064_broker_refuses_element_without_required_part(
    sandbox: BrokerSandbox, release: str, snippet: str, cause: str
) -> None:
    assert [finding.severity for finding in rule_findings("V064", snippet, release)] == ["error"]
    outcome = outcome_of(sandbox, release, complete(snippet, Release.of(release)).decode(), "refused")
    assert outcome.fate == "refused", outcome.output
    assert cause in outcome.output, outcome.output


LOOPBACK_ONLY = ("unshare", "--net", "--map-root-user", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
"""The beginning of a command line that runs a command with no interface but the loopback interface."""


@pytest.mark.parametrize("release", [*further("5.5.1"), "6.3.1"])
@pytest.mark.parametrize(
    ("options", "fate"), [("", "refused"), ("&amp;networkInterface=lo&amp;joinNetworkInterface=lo", "started")]
)
def test_m005_multicast_without_interface_prevents_start(
    sandbox: BrokerSandbox, release: str, options: str, fate: Fate
) -> None:
    if subprocess.run([*LOOPBACK_ONLY, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this account cannot create network namespaces: run this test as root")
    link = f'<networkConnector name="all" uri="multicast://224.1.2.3:26255?group=lonely{options}"/>'
    outcome = outcome_of(sandbox, release, complete(link, Release.of(release)).decode(), fate, under=LOOPBACK_ONLY)
    assert outcome.fate == fate, outcome.output
    assert bool(re.search(r"Invalid value 'null'|setsockopt failed", outcome.output)) == (fate == "refused")


def test_each_rule_about_refusals_has_cause_or_separate_test() -> None:
    separately_tested = {"M005", "V010", "V012"}
    assert {rule.id for rule in rules_of_scope() if rule.refuses} <= CAUSES.keys() | separately_tested
