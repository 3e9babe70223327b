"""Tests that a cause has one finding: if two rules report it, the linter keeps the rule whose remedy removes both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings, rules_of_scope
from activemq_fleet.lint.engine import RuleExample
from activemq_fleet.lint.files import SCHEMA_RULE, one_finding_per_mistake
from activemq_fleet.lint.selection import RuleSelection
from activemq_fleet.releases import Release
from tests.rule_examples import complete
from tests.situations import some_situations

LINK = '<networkConnector name="south" uri="static:(tcp://a:61616?{})"/>'
LOGIN = (
    '<simpleAuthenticationPlugin><users><authenticationUser username="shop" password="${p}" groups="shops"/></users>'
    "</simpleAuthenticationPlugin>"
)
RIGHTS = (
    "<authorizationPlugin><map><authorizationMap><authorizationEntries>"
    '<authorizationEntry queue="&gt;" read="shops" write="shops" admin="shops"/>'
    "</authorizationEntries></authorizationMap></map></authorizationPlugin>"
)
CAUSES = [
    ("V035", "C011", "5.18.3", LINK.format("wireFormat.maxInactivityDuration=0")),
    ("V035", "C011", "5.8.0", LINK.format("useInactivityMonitor=false")),
    ("V035", "C011", "6.2.8", LINK.format("transport.useInactivityMonitor=false")),
    ("N008", "N061", "5.5.1", '<transportConnector name="more" uri="tcp://0.0.0.0:1?wireFormat.maxFrameSize=10 MB"/>'),
    ("V007", "L007", "5.5.1", '<kahaDB directory="/srv/shared/activemq" useLock="false"/>'),
    ("V014", "S006", "6.3.1", '<import resource="jetty.xml"/>'),
    (
        "S019",
        "S010",
        "5.18.3",
        '<broker><sslContext><sslContext keyStore="file:broker.ks" keyStorePassword="password"/></sslContext></broker>',
    ),
    (
        "S032",
        "N027",
        "5.18.3",
        f"<broker><networkConnectors>{LINK.format('soTimeout=1')}</networkConnectors>"
        f"<plugins>{LOGIN}{RIGHTS}</plugins></broker>",
    ),
]
DIFFERENT_CAUSES = {
    ("L004", "V007"): "the release does not check its lock, with or without the attribute that shows that it is shared",
    ("L007", "V060"): "the value, and the name: a broker with useDatabaseLock='true' has only the second finding",
    ("L009", "L014"): "the duration of the lease, and the behavior when the database does not answer",
    ("L012", "L014"): "the kind of lock, and the behavior when the database does not answer",
    ("L012", "L015"): "the kind of lock, and the behavior when its renewal fails",
    ("L013", "L014"): "the locker has no database, and the handler does not stop the broker",
    ("L014", "L015"): "an exception of the store, and an exception of the lock, which does not reach the handler",
    ("L023", "V034"): "a port that the standby opens, and a bean that the file of the console requires",
    ("M002", "M003"): "the name of the group, and that the broker is not in it",
    ("M003", "M007"): "that the broker is not in the group, and that any broker is accepted from it",
    ("N012", "N036"): "the missing name, and the missing account",
    ("N019", "N025"): "missing attributes of a link: each has its own effect and remedy",
    ("N019", "N026"): "missing attributes of a link: each has its own effect and remedy",
    ("N019", "N036"): "missing attributes of a link: each has its own effect and remedy",
    ("N025", "N026"): "missing attributes of a link: each has its own effect and remedy",
    ("N025", "N036"): "missing attributes of a link: each has its own effect and remedy",
    ("N026", "N036"): "missing attributes of a link: each has its own effect and remedy",
    ("S007", "S011"): "the clients that may add links, and that the release rejects most of them",
}
"""Rules that report different causes at the same position, and the difference."""


def reported_rules(text: str, release: str, *ignored: str) -> set[str]:
    selection = RuleSelection(ignore=ignored)
    data = complete(text, Release.of(release))
    return {finding.rule for finding in file_findings(data, Release.of(release), selection=selection)}


@pytest.mark.parametrize(("stronger", "weaker", "release", "text"), CAUSES)
def test_mistake_that_two_rules_detect_is_reported_by_stronger_rule(
    stronger: str, weaker: str, release: str, text: str
) -> None:
    assert reported_rules(text, release) & {stronger, weaker} == {stronger}


@pytest.mark.parametrize(("stronger", "weaker", "release", "text"), CAUSES)
def test_mistake_is_reported_by_weaker_rule_if_stronger_rule_is_ignored(
    stronger: str, weaker: str, release: str, text: str
) -> None:
    assert weaker in reported_rules(text, release, stronger)


@pytest.mark.parametrize("release", ["5.7.0", "5.19.10", "6.2.9", "6.3.1"])
def test_link_without_monitor_is_c011_on_releases_without_v035(release: str) -> None:
    assert reported_rules(LINK.format("wireFormat.maxInactivityDuration=0"), release) & {"C011", "V035"} == {"C011"}


def test_connector_without_monitor_is_reported_in_addition_to_link() -> None:
    connector = '<transportConnector name="more" uri="tcp://0.0.0.0:1?wireFormat.maxInactivityDuration=0"/>'
    snippet = LINK.format("wireFormat.maxInactivityDuration=0") + connector
    assert {"C011", "V035"} <= reported_rules(snippet, "5.18.3")


def test_unknown_attribute_has_no_finding_about_its_value() -> None:
    def finding(rule: str, column: int) -> Finding:
        return Finding(rule=rule, severity="warning", host="", message="text", fix="", file="a", line=1, column=column)

    for rule in ("C017", "L031", "L042"):
        findings = [finding(SCHEMA_RULE, 9), finding(rule, 9), finding(rule, 30)]
        assert one_finding_per_mistake(findings) == [findings[0], findings[2]]


def examples() -> Iterator[tuple[str, RuleExample]]:
    for rule in rules_of_scope("file"):
        if rule.id != SCHEMA_RULE:
            yield from ((rule.id, example) for example in (*rule.failing_examples, *rule.passing_examples))


@some_situations(2)
@pytest.mark.parametrize("release", ["", "5.5.1", "5.8.0", "5.18.3", "6.2.7", "6.3.1"])
def test_rules_at_same_position_report_different_causes(release: str) -> None:
    for rule, example in examples():
        example_release = Release.of(release or example.release)
        text, other_files = example.text, {}
        if example.file != "activemq.xml":
            text, other_files = f'<import resource="{example_release.console_file}"/>', {example.file: text.encode()}
        data = complete(text, example_release)
        rules_by_position = defaultdict(set)
        for finding in file_findings(data, example_release, other_files=other_files):
            rules_by_position[finding.file, finding.line, finding.column].add(finding.rule)
        for position, ids in rules_by_position.items():
            pairs = {(first, second) for first in ids for second in ids if first < second}
            assert pairs <= DIFFERENT_CAUSES.keys(), (
                rule,
                example_release.text,
                position,
                "the rules report the same cause: add them to _SUPERSEDING_RULES",
            )
