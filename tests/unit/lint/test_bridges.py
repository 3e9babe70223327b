"""Rules about links, in addition to their examples: positions, releases, and links without findings."""

from __future__ import annotations

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import RuleSelection, file_findings
from activemq_fleet.lint.fleets import broker_activemq_xml_findings
from activemq_fleet.releases import Release
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from tests.rule_examples import complete
from tests.unit.fleets import fleet

FAMILY = frozenset("NM")
ACCOUNT = {"userName": "app", "password": "${app.password}"}


def link_findings(snippet: str, release: str = "5.18.3") -> list[Finding]:
    """Return the findings of the rules about links for a snippet, without those of severity info."""
    parsed_release = Release.of(release)
    findings = file_findings(complete(snippet, parsed_release), parsed_release)
    return [finding for finding in findings if finding.rule[0] in FAMILY and finding.severity != "info"]


def findings_of_rule(rule: str, snippet: str, release: str = "5.18.3") -> list[Finding]:
    return [finding for finding in link_findings(snippet, release) if finding.rule == rule]


def link(uri: str, **attributes: str) -> str:
    texts = " ".join(f'{name}="{value}"' for name, value in {"name": "south", **ACCOUNT, **attributes}.items())
    return f'<networkConnector {texts} uri="{uri}"/>'


def test_finding_about_option_of_long_link_uri_has_position_of_option() -> None:
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


def test_same_option_of_nested_link_uris_is_checked_for_each_uri() -> None:
    uri = "static:(failover:(tcp://a:1,tcp://b:2)?randomize=false&amp;maxReconnectAttempts=0)?maxReconnectAttempts=0"
    assert link_findings(link(uri, decreaseNetworkConsumerPriority="true")) == []
    findings = findings_of_rule("N006", link(uri[:-1] + "7"))
    assert len(findings) == 1
    assert "after 7 connections that fail within seconds" in findings[0].message


@pytest.mark.parametrize("uri", ["${peers}", "masterslave:(${peers})", "static:(failover:(${peers})?${options})"])
def test_link_uri_with_placeholders_has_no_finding(uri: str) -> None:
    assert link_findings(link(uri)) == []


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
def test_finding_about_reconnect_attempts_depends_on_release(release: str, attempts: str, rules: list[str]) -> None:
    uri = f"static:(failover:(tcp://a:1,tcp://b:2)?randomize=false&amp;maxReconnectAttempts={attempts})"
    assert [f.rule for f in link_findings(link(uri, decreaseNetworkConsumerPriority="true"), release)] == rules


@pytest.mark.parametrize(
    ("uri", "fix"),
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
def test_fix_of_ignored_listener_option_names_intended_option(uri: str, fix: str) -> None:
    findings = findings_of_rule("N008", f'<transportConnector name="more" uri="{uri}"/>')
    assert [finding.fix for finding in findings] == [fix]


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
def test_supported_listener_options_have_no_finding(uri: str) -> None:
    assert findings_of_rule("N008", f'<transportConnector name="more" uri="{uri}"/>') == []


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
def test_link_options_are_checked_for_each_nested_uri(uri: str, rules: list[str]) -> None:
    names = [finding.rule for finding in link_findings(link(uri)) if finding.rule in ("N007", "N008")]
    assert names == rules


def test_unknown_option_of_master_connector_is_reported() -> None:
    snippet = "<services><masterConnector remoteURI='tcp://a:1?nosuch=1'/></services>"
    assert [f.rule for f in link_findings(f"<broker>{snippet}</broker>", "5.5.1")] == ["N007"]


@pytest.mark.parametrize(
    ("first", "second", "is_reported"),
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
def test_static_link_uri_of_pair_is_recognized_by_host_names_of_nodes(
    first: str, second: str, is_reported: bool
) -> None:
    assert bool(findings_of_rule("N005", link(f"static:(tcp://{first}:61616,tcp://{second}:61616)"))) is is_reported


def test_unnamed_one_way_connectors_are_accepted_without_jmx() -> None:
    connectors = '<networkConnector uri="static:(tcp://a:1)"/><networkConnector uri="static:(tcp://a:1)"/>'
    assert findings_of_rule("N012", connectors) == []
    findings = findings_of_rule("N012", connectors.replace("<networkConnector ", '<networkConnector duplex="true" '))
    assert [finding.severity for finding in findings] == ["warning"]


@pytest.mark.parametrize(("duplex", "severity"), [("true", "error"), ("false", "warning")])
def test_link_that_does_not_reconnect_is_error_if_duplex(duplex: str, severity: str) -> None:
    uri = "static:(failover:(tcp://a:1,tcp://b:2)?randomize=false)"
    assert [finding.severity for finding in findings_of_rule("N002", link(uri, duplex=duplex))] == [severity]


@pytest.mark.parametrize("option", ["networkTTL=3", "duplex=true", "userName=net"])
def test_fix_of_option_that_is_link_attribute_names_attribute(option: str) -> None:
    (finding,) = findings_of_rule("N008", link(f"static:(tcp://a:1)?{option}"))
    assert finding.fix == (
        f"remove {option.partition('=')[0]} from the URI, and set it as an attribute of <networkConnector>"
    )


def test_static_uri_of_pair_has_position_of_its_scheme() -> None:
    snippet = link("\n static:(tcp://orders-mq01-a:61616,\n tcp://orders-mq01-b:61616)")
    (finding,) = findings_of_rule("N005", snippet)
    lines = complete(snippet, Release.of("5.18.3")).decode().splitlines()
    assert lines[(finding.line or 0) - 1][(finding.column or 0) - 1 :].startswith("static:")


@pytest.mark.parametrize(
    ("release", "uri", "is_reported"),
    [
        ("5.5.1", "static:(ssl://a:1?useInactivityMonitor=false)", True),
        ("5.5.1", "static:(tcp://a:1?useInactivityMonitor=false)", False),
        ("5.6.0", "static:(ssl://a:1?useInactivityMonitor=false)", False),
        ("5.8.0", "static:(failover:(tcp://a:1)?maxReconnectAttempts=0&amp;nested.keepAlive=true)", True),
        ("5.9.0", "static:(failover:(tcp://a:1)?maxReconnectAttempts=0&amp;nested.keepAlive=true)", False),
        ("5.18.3", "static:(failover:(tcp://a:1)?maxReconnectAttempts=0&amp;socket.keepAlive=true)", True),
        ("6.3.1", "masterslave:(tcp://a:1,tcp://b:1)?discovered.keepAlive=true", True),
        ("6.3.1", "masterslave:(tcp://a:1,tcp://b:1)?discovered.nested.keepAlive=true", False),
        ("5.8.0", "masterslave:(tcp://a:1,tcp://b:1)?discovered.nested.keepAlive=true", True),
        ("6.3.1", "masterslave:(tcp://a:1,tcp://b:1)?discovered.timeout=3000", False),
        ("6.3.1", "static:(failover:(tcp://a:1)?maxReconnectAttempts=0)?discovered.keepAlive=true", True),
        ("6.3.1", "static:(failover:(tcp://a:1)?maxReconnectAttempts=0)?discovered.nested.keepAlive=true", False),
        ("6.3.1", "static:(tcp://a:1)?discovered.keepAlive=true", False),
        ("6.3.1", "static:(tcp://a:1)?discovered.socket.keepAlive=true", False),
        ("6.3.1", "static:(tcp://a:1)?discovered.maxReconnectAttempts=0", True),
        ("6.3.1", "static:(tcp://a:1)?discovered.nested.keepAlive=true", True),
    ],
)
def test_link_option_is_accepted_for_releases_that_support_it(release: str, uri: str, is_reported: bool) -> None:
    assert bool(findings_of_rule("N007", link(uri), release)) is is_reported


def test_failover_without_discovery_agent_has_no_link_finding() -> None:
    assert link_findings(link("failover:(tcp://a:1,tcp://b:2)")) == []


@pytest.mark.parametrize(
    ("first", "second", "severity"),
    [
        ("south-a", "south-b", "info"),
        ("south-1a", "south-1b", "warning"),
        ("master", "slave", "warning"),
        ("activemq-a", "activemq-b", "info"),
        ("activemq-1a", "activemq-1b", "warning"),
        ("activemq-active", "activemq-passive", "warning"),
    ],
)
def test_host_names_that_differ_only_by_last_letter_are_info(first: str, second: str, severity: str) -> None:
    release = Release.of("5.18.3")
    document = complete(link(f"static:(tcp://{first}:61616,tcp://{second}:61616)"), release)
    assert [f.severity for f in file_findings(document, release) if f.rule == "N005"] == [severity]


@pytest.mark.parametrize(
    ("attributes", "is_reported"),
    [
        ({"networkTTL": "0"}, True),
        ({"messageTTL": "0", "consumerTTL": "1"}, True),
        ({"messageTTL": "5", "networkTTL": "0"}, True),
        ({"messageTTL": "0", "networkTTL": "5"}, False),
        ({"consumerTTL": "0"}, False),
        ({"networkTTL": "-1"}, False),
        ({"networkTTL": "${ttl}"}, False),
    ],
)
def test_link_whose_message_ttl_is_zero_is_reported(attributes: dict[str, str], is_reported: bool) -> None:
    assert bool(findings_of_rule("N064", link("static:(tcp://a:1)", **attributes))) is is_reported


@pytest.mark.parametrize(
    ("attributes", "replaced"),
    [
        ({"networkTTL": "2", "messageTTL": "5", "consumerTTL": "1"}, ["consumerTTL=1", "messageTTL=5"]),
        ({"networkTTL": "2", "messageTTL": "2"}, []),
        ({"networkTTL": "2"}, []),
        ({"messageTTL": "5", "consumerTTL": "1"}, []),
    ],
)
def test_ttl_that_network_ttl_replaces_is_reported(attributes: dict[str, str], replaced: list[str]) -> None:
    findings = findings_of_rule("N065", link("static:(tcp://a:1)", **attributes))
    assert sorted(finding.message.partition(" of link")[0] for finding in findings) == replaced


@pytest.mark.parametrize(
    ("network_ttl", "attribute", "is_reported"),
    [
        (2, 'messageTTL="5"', True),
        ({"consumer": 2, "message": 3}, 'messageTTL="5"', False),
        ({"consumer": 2, "message": 3}, 'networkTTL="5"', False),
        (2, 'networkTTL="5"', False),
    ],
)
def test_ttl_of_fragment_that_rendered_network_ttl_replaces_is_reported(
    network_ttl: int | dict[str, int], attribute: str, is_reported: bool
) -> None:
    xml = f'<networkConnector name="a-mq01-to-a-mq02" {attribute}/>'
    fragments = [{"parent": "broker/networkConnectors", "xml": xml}]
    pairs = fleet("a-mq01", "a-mq02", network_ttl=network_ttl, xml_fragments=fragments)
    broker = pairs.broker("a-mq01-a")

    document = XmlDocument(render_broker(broker)["conf/activemq.xml"])
    findings = broker_activemq_xml_findings(broker, document, RuleSelection(select=("N065",)))

    fix = (
        "set activemq_network_ttl, or ttl of the link in activemq_links, to {consumer: 2, message: 5}, and remove "
        "messageTTL from activemq_xml_fragments. Or only remove messageTTL"
    )
    assert [finding.fix for finding in findings] == ([fix] if is_reported else [])


@pytest.mark.parametrize(
    ("attributes", "fix"),
    [
        (
            'networkTTL="5" messageTTL="3"',
            "set activemq_network_ttl, or ttl of the link in activemq_links, to {consumer: 5, message: 3}, and remove "
            "networkTTL and messageTTL from activemq_xml_fragments. Or only remove messageTTL",
        ),
        ('messageTTL="0"', "remove messageTTL from activemq_xml_fragments"),
        ('messageTTL="${ttl}"', "remove messageTTL from activemq_xml_fragments"),
    ],
)
def test_fix_of_ttl_of_fragment_removes_its_network_ttl_and_names_valid_ttls(attributes: str, fix: str) -> None:
    xml = f'<networkConnector name="a-mq01-to-a-mq02" {attributes}/>'
    fragments = [{"parent": "broker/networkConnectors", "xml": xml}]
    broker = fleet("a-mq01", "a-mq02", network_ttl=2, xml_fragments=fragments).broker("a-mq01-a")

    document = XmlDocument(render_broker(broker)["conf/activemq.xml"])
    findings = broker_activemq_xml_findings(broker, document, RuleSelection(select=("N065",)))

    assert [finding.fix for finding in findings] == [fix]
