"""Rules that say a broker will not start: it does not, and says why; with what the rule shows instead it does."""

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
from tests.integration.planted import Fate, Ground, Outcome
from tests.rule_examples import complete
from tests.situations import fact_of_activemq, further, in_every_situation

_SCHEMA = "cvc-complex-type"
# What the log must say, lest a broker that fails for another reason speaks for the rule.
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
    "V016": "Bean name '[^']+' is already used",
}
SHOWN = [rule for rule in rules_of_scope("file") if rule.refuses]


def examples(kind: str) -> list[object]:
    """The first example of every rule, and the others where every situation is wanted."""
    return [
        pytest.param(
            one, example, id=f"{one.id}-{example.release}-{number}", marks=[in_every_situation] if number else []
        )
        for one in SHOWN
        for number, example in enumerate(getattr(one, kind))
    ]


ENDS = 20.0
"""Seconds after which a broker that is to refuse its document, and says that it has started, has not refused it."""


def started(ground: Ground, example: RuleExample, fate: Fate) -> Outcome:
    """What a broker of the example's release makes of it."""
    return outcome_of(ground, example.release, complete(example.text, Release.of(example.release)).decode(), fate)


def outcome_of(
    ground: Ground, release: str, whole: str, fate: Fate, *, java: Path | None = None, under: Sequence[str] = ()
) -> Outcome:
    """What a broker makes of a document, on an address of its own; ``fate`` is what is expected."""
    mine = whole.replace("0.0.0.0", ground.address(1))
    broker = ground.plant("broker", release, mine, java=java, under=under)
    return broker.boot(stays=ENDS) if fate == "refused" else broker.boot()


@fact_of_activemq
@pytest.mark.parametrize(("rule", "example"), examples("failing_examples"))
def test_a_broker_refuses_what_the_rule_says_it_refuses(ground: Ground, rule: Rule, example: RuleExample) -> None:
    outcome = started(ground, example, "refused")
    assert outcome.fate == "refused", outcome.output
    assert re.search(CAUSES[rule.id], outcome.output), outcome.output


@in_every_situation
@pytest.mark.parametrize(("rule", "example"), examples("passing_examples"))
def test_a_broker_starts_with_what_the_rule_is_silent_on(ground: Ground, rule: Rule, example: RuleExample) -> None:
    outcome = started(ground, example, "started")
    assert outcome.fate == "started", outcome.output


@pytest.mark.parametrize(
    ("release", "fate"),
    [("5.18.3", "started"), ("6.3.1", "refused"), *further(("5.5.1", "refused"), ("5.17.6", "refused"))],
)
def test_v010_a_versioned_schema_is_found_only_by_releases_that_bring_it(
    ground: Ground, release: str, fate: Fate
) -> None:
    """Without the Internet, which these brokers do not have: their hosts file is all they resolve."""
    whole = complete("", Release.of(release)).decode().replace("activemq-core.xsd", "activemq-core-5.16.5.xsd")
    outcome = outcome_of(ground, release, whole, fate)
    assert outcome.fate == fate, outcome.output
    assert ("no declaration can be found for element 'broker'" in outcome.output) == (fate == "refused")


@pytest.mark.parametrize(("release", "fate"), [("5.18.3", "started"), ("6.3.1", "refused")])
def test_v012_a_java_older_than_the_release_needs_ends_the_start(ground: Ground, release: str, fate: Fate) -> None:
    outcome = outcome_of(ground, release, complete("", Release.of(release)).decode(), fate, java=java_11())
    assert outcome.fate == fate, outcome.output
    assert ("UnsupportedClassVersionError" in outcome.output) == (fate == "refused")


@pytest.mark.parametrize("release", ["6.3.1", *further("5.5.1", "5.18.3")])
@pytest.mark.parametrize(("location", "fate"), [(f"{CORE} {CORE}/activemq-core.xsd", "started"), ("", "refused")])
def test_broker_as_root_starts_where_it_names_its_schema(
    ground: Ground, release: str, location: str, fate: Fate
) -> None:
    hint = f' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="{location}"'
    root = f'<broker xmlns="{CORE}"{hint if location else ""} brokerName="north" useJmx="false" persistent="false"/>'
    assert outcome_of(ground, release, root, fate).fate == fate


LONELY = ("unshare", "--net", "--map-root-user", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
"""Runs a command where there is no interface but the loopback one."""


@pytest.mark.parametrize("release", [*further("5.5.1"), "6.3.1"])
@pytest.mark.parametrize(
    ("options", "fate"), [("", "refused"), ("&amp;networkInterface=lo&amp;joinNetworkInterface=lo", "started")]
)
def test_m005_multicast_without_an_interface_ends_the_start(
    ground: Ground, release: str, options: str, fate: Fate
) -> None:
    if subprocess.run([*LONELY, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this account may not make network namespaces")
    link = f'<networkConnector name="all" uri="multicast://224.1.2.3:26255?group=lonely{options}"/>'
    outcome = outcome_of(ground, release, complete(link, Release.of(release)).decode(), fate, under=LONELY)
    assert outcome.fate == fate, outcome.output
    assert bool(re.search(r"Invalid value 'null'|setsockopt failed", outcome.output)) == (fate == "refused")


def test_every_rule_about_a_refusal_is_shown_with_its_cause() -> None:
    by_hand = {"M005", "V010", "V012"}
    assert {rule.id for rule in rules_of_scope() if rule.refuses} <= CAUSES.keys() | by_hand
