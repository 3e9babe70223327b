"""What the examples of the rules about links do not show: places, releases, what stays silent."""

from __future__ import annotations

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings
from activemq_fleet.releases import Release
from tests.rule_examples import complete

FAMILY = frozenset("NM")
ACCOUNT = {"userName": "app", "password": "${app.password}"}


def found(snippet: str, release: str = "5.18.3") -> list[Finding]:
    """What the rules of this family say about a snippet, without hints."""
    known = Release.of(release)
    findings = file_findings(complete(snippet, known), known)
    return [finding for finding in findings if finding.rule[0] in FAMILY and finding.severity != "info"]


def of(rule: str, snippet: str, release: str = "5.18.3") -> list[Finding]:
    return [finding for finding in found(snippet, release) if finding.rule == rule]


def link(uri: str, **attributes: str) -> str:
    texts = " ".join(f'{name}="{value}"' for name, value in {"name": "south", **ACCOUNT, **attributes}.items())
    return f'<networkConnector {texts} uri="{uri}"/>'


def test_an_option_is_found_on_its_own_line_of_a_long_uri() -> None:
    document = b"""<beans xmlns="http://www.springframework.org/schema/beans">
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="north">
<networkConnectors>
<networkConnector name="south"
   uri="static:(tcp://a:61616?keepAlive=true,
     tcp://b:61616?keepAlive=true&amp;nosuch=1)?maxReconnectAttempts=3"/>
</networkConnectors></broker></beans>"""
    findings = {f.rule: f for f in file_findings(document, Release.of("5.18.3"))}
    assert (findings["N007"].line, findings["N007"].column) == (6, 39)
    assert (findings["N006"].line, findings["N006"].column) == (6, 49)


def test_the_same_option_on_two_uris_is_found_on_the_wrong_one() -> None:
    uri = "static:(failover:(tcp://a:1,tcp://b:2)?randomize=false&amp;maxReconnectAttempts=0)?maxReconnectAttempts=0"
    assert found(link(uri, decreaseNetworkConsumerPriority="true")) == []
    findings = of("N006", link(uri[:-1] + "7"))
    assert len(findings) == 1
    assert "after 7 connections that fail within seconds" in findings[0].message


@pytest.mark.parametrize("uri", ["${peers}", "masterslave:(${peers})", "static:(failover:(${peers})?${options})"])
def test_what_is_decided_elsewhere_is_no_mistake(uri: str) -> None:
    assert found(link(uri)) == []


@pytest.mark.parametrize(
    ("release", "attempts", "rules"),
    [
        ("5.5.1", "0", ["N003"]),
        ("5.5.1", "1", []),
        ("5.5.1", "5", ["N002"]),
        ("5.5.1", "-1", ["N002"]),
        ("5.6.0", "0", []),
        ("5.18.3", "1", ["N002"]),
        ("6.3.1", "-1", ["N002"]),
    ],
)
def test_how_often_a_bridge_may_reconnect_depends_on_the_release(release: str, attempts: str, rules: list[str]) -> None:
    uri = f"static:(failover:(tcp://a:1,tcp://b:2)?randomize=false&amp;maxReconnectAttempts={attempts})"
    assert [f.rule for f in found(link(uri, decreaseNetworkConsumerPriority="true"), release)] == rules


@pytest.mark.parametrize(
    ("uri", "better"),
    [
        (
            "nio://0.0.0.0:1?wireformat.maxFrameSize=1",
            "write wireFormat.maxFrameSize in place of wireformat.maxFrameSize",
        ),
        ("nio://0.0.0.0:1?maxFrameSize=1", "write wireFormat.maxFrameSize in place of maxFrameSize"),
        ("nio://0.0.0.0:1?maximumConection=1", "write maximumConnections in place of maximumConection"),
        ("nio://0.0.0.0:1?tcpNoDelay=true", "write transport.tcpNoDelay in place of tcpNoDelay"),
        (
            "ssl://0.0.0.0:1?enabledCipherSuites=X",
            "write transport.enabledCipherSuites in place of enabledCipherSuites",
        ),
        (
            "ws://0.0.0.0:1?wireformat.maxFrameSize=1",
            "write wireFormat.maxFrameSize in place of wireformat.maxFrameSize",
        ),
    ],
)
def test_an_ignored_option_comes_with_the_one_that_was_meant(uri: str, better: str) -> None:
    findings = of("N008", f'<transportConnector name="more" uri="{uri}"/>')
    assert [finding.fix for finding in findings] == [better]


@pytest.mark.parametrize(
    "uri",
    [
        "ssl://0.0.0.0:1?needClientAuth=true&amp;transport.enabledProtocols=TLSv1.2",
        "auto+nio://0.0.0.0:1?auto.protocols=default,stomp&amp;wireFormat.stomp.maxFrameSize=1",
        "stomp://0.0.0.0:1?transport.defaultHeartBeat=5000,0&amp;transport.hbGracePeriodMultiplier=1.5",
        "amqp://0.0.0.0:1?transport.transformer=jms&amp;wireFormat.idleTimeout=0",
        "mqtt://0.0.0.0:1?transport.subscriptionStrategy=mqtt-virtual-topic-subscriptions",
        "tcp://0.0.0.0:1?transport.socket.keepAlive=true&amp;MaximumConnections=3",
        "ws://0.0.0.0:1?http.maxConnections=3",
        "tcp://0.0.0.0:1?${options}",
    ],
)
def test_options_that_are_understood_are_no_mistake(uri: str) -> None:
    assert of("N008", f'<transportConnector name="more" uri="{uri}"/>') == []


@pytest.mark.parametrize(
    ("uri", "rules"),
    [
        ("static:(tcp://a:1)?discovered.keepAlive=true", []),
        ("static:(tcp://a:1)?discovered.nosuch=true", ["N007"]),
        ("static:(failover:(tcp://a:1)?maxReconnectAttempts=0&amp;nested.keepAlive=true)", []),
        ("static:(failover:(tcp://a:1)?maxReconnectAttempts=0&amp;nested.nosuch=true)", ["N007"]),
        ("static:(tcp://a:1?socket.soTimeout=5)", []),
        ("static:(tcp://a:1?socket.nosuch=5)", ["N008"]),
        ("static:(tcp://a:1?transport.soTimeout=5)", ["N007"]),
        ("static:(http://a:1?nosuch=5)", []),
        ("static:(ssl://a:1?verifyHostName=false)", []),
        ("static:(tcp://a:1?verifyHostName=false)", ["N007"]),
        ("static:tcp://a:1?initialReconnectDelay=5", ["N007"]),
        ("multicast://default?group=g&amp;grup=h", ["N008"]),
    ],
)
def test_each_uri_has_options_of_its_own(uri: str, rules: list[str]) -> None:
    names = [finding.rule for finding in found(link(uri)) if finding.rule in ("N007", "N008")]
    assert names == rules


def test_a_slave_that_dials_its_master_with_a_wrong_option_is_told() -> None:
    snippet = "<services><masterConnector remoteURI='tcp://a:1?nosuch=1'/></services>"
    assert [f.rule for f in found(f"<broker>{snippet}</broker>", "5.5.1")] == ["N007"]


@pytest.mark.parametrize(
    ("first", "second", "fires"),
    [
        ("orders-mq01-a.example.com", "orders-mq01-b.example.com", True),
        ("broker-primary", "broker-standby", True),
        ("orders-mq01-a.one.example", "orders-mq01-b.two.example", False),
        ("mq1", "mq2", False),
        ("alpha", "beta", False),
        ("10.0.0.1", "10.0.0.2", False),
        ("orders-mq01-a", "billing-mq01-b", False),
    ],
)
def test_the_nodes_of_a_pair_are_told_by_their_names(first: str, second: str, fires: bool) -> None:
    assert bool(of("N005", link(f"static:(tcp://{first}:61616,tcp://{second}:61616)"))) is fires


def test_without_jmx_two_nameless_one_way_connectors_may_stand_together() -> None:
    two = '<networkConnector uri="static:(tcp://a:1)"/><networkConnector uri="static:(tcp://a:1)"/>'
    assert of("N012", two) == []
    findings = of("N012", two.replace("<networkConnector ", '<networkConnector duplex="true" '))
    assert [finding.severity for finding in findings] == ["warning"]


@pytest.mark.parametrize(("duplex", "severity"), [("true", "error"), ("false", "warning")])
def test_half_a_duplex_link_that_stays_dead_is_an_error(duplex: str, severity: str) -> None:
    uri = "static:(failover:(tcp://a:1,tcp://b:2)?randomize=false)"
    assert [finding.severity for finding in of("N002", link(uri, duplex=duplex))] == [severity]


@pytest.mark.parametrize("option", ["networkTTL=3", "duplex=true", "userName=net"])
def test_an_option_that_is_an_attribute_of_the_link_is_said_to_be_one(option: str) -> None:
    (finding,) = of("N008", link(f"static:(tcp://a:1)?{option}"))
    assert finding.fix == (
        f"remove {option.partition('=')[0]} from the URI, and set it as an attribute of <networkConnector>"
    )


def test_two_nodes_dialled_apart_are_found_at_the_scheme_that_does_it() -> None:
    snippet = link("\n static:(tcp://orders-mq01-a:61616,\n tcp://orders-mq01-b:61616)")
    (finding,) = of("N005", snippet)
    lines = complete(snippet, Release.of("5.18.3")).decode().splitlines()
    assert lines[(finding.line or 0) - 1][(finding.column or 0) - 1 :].startswith("static:")


@pytest.mark.parametrize(
    ("release", "uri", "fires"),
    [
        ("5.5.1", "static:(ssl://a:1?useInactivityMonitor=false)", True),
        ("5.5.1", "static:(tcp://a:1?useInactivityMonitor=false)", False),
        ("5.6.0", "static:(ssl://a:1?useInactivityMonitor=false)", False),
        ("5.8.0", "static:(failover:(tcp://a:1)?maxReconnectAttempts=0&amp;nested.keepAlive=true)", True),
        ("5.9.0", "static:(failover:(tcp://a:1)?maxReconnectAttempts=0&amp;nested.keepAlive=true)", False),
        ("5.18.3", "static:(failover:(tcp://a:1)?maxReconnectAttempts=0&amp;socket.keepAlive=true)", True),
    ],
)
def test_an_option_is_known_from_the_release_on_that_reads_it(release: str, uri: str, fires: bool) -> None:
    assert bool(of("N007", link(uri), release)) is fires


def test_failover_without_a_discovery_agent_is_another_rules() -> None:
    assert found(link("failover:(tcp://a:1,tcp://b:2)")) == []


@pytest.mark.parametrize(
    ("first", "second", "severity"),
    [("south-a", "south-b", "info"), ("south-1a", "south-1b", "warning"), ("master", "slave", "warning")],
)
def test_letters_alone_only_suggest_a_pair(first: str, second: str, severity: str) -> None:
    known = Release.of("5.18.3")
    data = complete(link(f"static:(tcp://{first}:61616,tcp://{second}:61616)"), known)
    assert [f.severity for f in file_findings(data, known) if f.rule == "N005"] == [severity]
