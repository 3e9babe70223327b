"""Tests of rules whose cases have different remedies: the remedy of a finding fits its case."""

from __future__ import annotations

import pytest

from activemq_fleet.findings import Finding, join_problem_and_remedy
from tests.support.rule_findings import rule_findings

LISTENER = '<transportConnector name="x" uri="tcp://0.0.0.0:1?{}"/>'
POLICY = '<policyEntry queue="{}" memoryLimit="1 mb"/>'
ACCOUNTS = """<simpleAuthenticationPlugin>
  <users><authenticationUser username="app" password="${app.password}" groups="apps"/></users>
</simpleAuthenticationPlugin>"""
RIGHTS = """<authorizationPlugin><map><authorizationMap><authorizationEntries>
  <authorizationEntry topic="ActiveMQ.Advisory.&gt;" read="GROUP" write="GROUP" admin="GROUP"/>
</authorizationEntries></authorizationMap></map></authorizationPlugin>"""


def link(uri: str, attributes: str = 'userName="app"') -> str:
    return f'<networkConnector name="south" uri="{uri}" {attributes}/>'


@pytest.mark.parametrize(
    ("uri", "remedy"),
    [
        ("static:(tcp://a_b:1)", "write an IP address, or an alias"),
        ("static:(tcp://a)", "write tcp://host:port with a port from 1 to 65535"),
        ("static:(nio://a:99999)", "write nio://host:port with a port from 1 to 65535"),
        ("static:(tcp://b c:2)", "write scheme://host:port without spaces"),
    ],
)
def test_remedy_of_invalid_link_address_depends_on_its_problem(uri: str, remedy: str) -> None:
    (finding,) = rule_findings("N062", link(uri))
    assert finding.fix.startswith(remedy)


def test_remedy_of_missing_advisories_depends_on_their_cause() -> None:
    snippet = link("static:(tcp://a:61616)")
    (disabled,) = rule_findings("N027", f'<broker advisorySupport="false"/>{snippet}')
    assert disabled.fix == 'remove advisorySupport="false"'
    (no_entry,) = rule_findings(
        "N027", snippet + RIGHTS.replace("Advisory.&gt;", "Advisory.Connection").replace("GROUP", "apps")
    )
    (no_group,) = rule_findings(
        "N027", snippet + ACCOUNTS + RIGHTS.replace('read="GROUP"', 'read="x"').replace("GROUP", "apps")
    )
    assert no_entry.message != no_group.message
    for finding in (no_entry, no_group):
        assert finding.fix.startswith("in the authorizationMap, give the group of the bridges")


@pytest.mark.parametrize(
    ("rule", "snippet", "release", "remedy"),
    [
        ("N002", link("static:(failover:(tcp://a:1,tcp://b:1))"), "5.18.3", "write masterslave:"),
        ("N002", link("static:(failover:(tcp://a:1))"), "5.18.3", "set maxReconnectAttempts=0 after"),
        ("N002", link("static:(failover:(tcp://a:1,tcp://b:1))"), "5.5.1", "set maxReconnectAttempts=1 after"),
        ("N005", link("static:(tcp://x-mq01-a:1,tcp://x-mq01-b:1)"), "5.18.3", "write masterslave:"),
        ("N005", link("static:(tcp://x-mq01-a:1,tcp://x-mq01-b:1)"), "5.5.1", "write static:(failover:"),
        ("N015", '<broker brokerName=" "/>', "5.18.3", "use only letters, digits"),
        ("N060", POLICY.format("tmp_*"), "5.18.3", "put the variable part of the destinations' names into a separate"),
        ("N060", POLICY.format("a.b&gt;"), "5.18.3", "write a.b.> for a.b and all destinations below it"),
        ("N060", POLICY.format("x.*.a&gt;"), "5.18.3", "write x.*.a.> for x.*.a and all destinations below it"),
        ("N061", LISTENER.format("wireFormat.maxFrameSize=1 MB"), "5.18.3", "write the number of bytes"),
        ("N061", LISTENER.format("maximumConnections=many"), "5.18.3", "write a whole number, such as maximumConn"),
        ("N061", LISTENER.format("transport.soTimeout=1s"), "5.18.3", "write the number of milliseconds"),
        ("S009", LISTENER.format("x=1"), "5.5.1", "in a firewall, permit connections to the port of"),
        ("S032", ACCOUNTS + RIGHTS.replace("GROUP", "*"), "5.8.0", "write an <authorizationEntry"),
        ("S032", ACCOUNTS + RIGHTS.replace("GROUP", "all"), "5.18.3", "write <authorizationEntry"),
        ("S031", ACCOUNTS + RIGHTS.replace("GROUP", "*"), "5.8.0", "replace this group with a group that has accounts"),
        ("S010", link("static:(tcp://a:1)", 'password="rosebud"'), "5.18.3", "write a placeholder such as ${network."),
    ],
)
def test_remedy_of_finding_depends_on_case_and_release(rule: str, snippet: str, release: str, remedy: str) -> None:
    finding, *_ = rule_findings(rule, snippet, release)
    assert finding.fix.startswith(remedy)


LEASE = """<persistenceAdapter><jdbcPersistenceAdapter dataSource="#db" lockKeepAlivePeriod="5000">
  <locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>
</jdbcPersistenceAdapter></persistenceAdapter>"""
KAHADB = '<persistenceAdapter><kahaDB directory="/srv/shared/a" lockKeepAlivePeriod="5000"/></persistenceAdapter>'
HANDLER = "<ioExceptionHandler><{}/></ioExceptionHandler>"


@pytest.mark.parametrize(
    ("rule", "snippet", "release", "remedy", "reason"),
    [
        (
            "C013",
            '<memoryUsage limit="64 mb"/>',
            "5.18.3",
            "replace the limit of <memoryUsage>",
            "all producers block",
        ),
        ("C013", '<memoryUsage limit="4 gb"/>', "5.18.3", "replace the limit of <memoryUsage>", "the broker reduces"),
        ("C013", '<memoryUsage limit="4 gb"/>', "5.8.0", "set the limit of <memoryUsage>", "messages fill the heap"),
        ("L014", LEASE, "5.18.3", "add <ioExceptionHandler><leaseLocker", "the default handler ignores"),
        ("L014", LEASE, "5.8.0", "add <ioExceptionHandler><jDBC", "the default handler ignores"),
        (
            "L042",
            HANDLER.format("jDBCIOExceptionHandler") + KAHADB,
            "5.18.3",
            "use <defaultIOExceptionHandler",
            "the broker process keeps the lock",
        ),
        (
            "L042",
            HANDLER.format('defaultIOExceptionHandler ignoreSQLExceptions="false" stopStartConnectors="true"') + LEASE,
            "5.18.3",
            "use <leaseLockerIOExceptionHandler/>",
            "while the database does not answer",
        ),
    ],
)
def test_reason_and_remedy_of_finding_depend_on_case_and_release(
    rule: str, snippet: str, release: str, remedy: str, reason: str
) -> None:
    finding, *_ = rule_findings(rule, snippet, release)
    assert finding.fix.startswith(remedy)
    assert finding.why.startswith(reason)


def test_remedy_does_not_contain_star_group_before_5_9() -> None:
    (finding,) = rule_findings("S032", ACCOUNTS + RIGHTS.replace("GROUP", "*"), "5.8.0")
    assert "release 5.8.0 treats as the name of a group without accounts" in finding.message
    assert "*" not in finding.fix


def test_line_of_finding_without_position_has_only_its_file() -> None:
    finding = Finding(
        rule="S001",
        severity="error",
        host="",
        message="<broker> has no name",
        fix="write brokerName",
        file="activemq.xml",
    )
    assert finding.to_line() == "S001 activemq.xml: <broker> has no name. Write brokerName"


@pytest.mark.parametrize(
    ("problem", "remedy", "expected"),
    [
        ("the port is in use", "stop the process", "the port is in use. Stop the process"),
        ("x has no attribute y; did you mean z?", "write z", "x has no attribute y; did you mean z? Write z"),
        (
            "the name is unknown",
            "activemq-fleet names lists them",
            "the name is unknown. activemq-fleet names lists them",
        ),
        ("the URI has no agent", "static:(…) names brokers", "the URI has no agent. static:(…) names brokers"),
    ],
)
def test_problem_and_remedy_of_finding_are_joined_as_sentences(problem: str, remedy: str, expected: str) -> None:
    assert join_problem_and_remedy(problem, remedy) == expected
