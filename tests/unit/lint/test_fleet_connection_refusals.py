"""Both ends of every dialling: what the examples of the rules do not show, and what routes make of it."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.connection_refusals import BrokerListener, ClientTlsSettings, ListenersByAddress, connection_refusal
from activemq_fleet.explain.route import explain_route
from activemq_fleet.findings import Finding
from activemq_fleet.lint import fleet_findings
from activemq_fleet.render import render_agent, render_broker
from activemq_fleet.routes import routes_without_refused_links
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Fleet, build_fleet
from activemq_fleet.validation import fleet_with_check_findings
from tests.unit.fleets import hosts

STORES = {"keystore": "/k", "keystore_password": "k", "truststore": "/t", "truststore_password": "t"}
ASKING = {**STORES, "client_auth": True}
LINKS = [{"from": "north", "to": "south"}]
AGENT = {"agent_username": "web", "agent_password": "a secret"}


def two_groups(south: dict[str, Any], north: dict[str, Any] | None = None, **variables: Any) -> Fleet:
    """A pair north that links to a pair south; each has variables of its own."""
    common = {"links": LINKS} | variables
    inventory = hosts("north-mq01", **common, **(north or {})) | hosts("south-mq01", **common, **south)
    return build_fleet(inventory, {})


def documents(fleet: Fleet) -> dict[str, XmlDocument]:
    return {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in fleet.brokers}


def told(fleet: Fleet, *rules: str) -> list[Finding]:
    return [finding for finding in fleet_findings(fleet, documents(fleet)) if finding.rule in rules]


def link(uri: str, user: str = 'userName="net" password="${activemq.network.password}"') -> dict[str, Any]:
    """A link that somebody wrote by hand."""
    xml = f'<networkConnector name="own" uri="static:({uri})" {user} decreaseNetworkConsumerPriority="true"/>'
    return {"xml_fragments": [{"parent": "broker/networkConnectors", "xml": xml}]}


def test_a_pair_without_tls_is_not_let_in_where_certificates_are_asked_for() -> None:
    (finding,) = told(two_groups({"tls": ASKING}), "N045", "N046")
    assert (finding.rule, finding.severity, finding.host) == ("N045", "error", "north-mq01-a.example.com")
    assert finding.message == (
        "link north-mq01-to-south-mq01 cannot connect: connector openwire of south-mq01-a.example.com "
        "(port 61616) requires a client certificate, but north-mq01-a.example.com has none"
    )


def test_stores_that_java_was_given_by_hand_count() -> None:
    options = ["-Djavax.net.ssl.keyStore=/k", "-Djavax.net.ssl.trustStore=/t"]
    assert not told(two_groups({"tls": ASKING}, {"java_options": options}), "N045", "N046")
    assert [f.rule for f in told(two_groups({"tls": ASKING}, {"java_options": options[:1]}), "N045", "N046")] == [
        "N046"
    ]


@pytest.mark.parametrize(("release", "kind"), [("5.7.0", "authority"), ("5.18.3", "certificate")])
def test_tls_over_nio_of_old_releases_asks_nobody(release: str, kind: str) -> None:
    connector = {"name": "o", "scheme": "nio+ssl", "port": 61616, "options": {"needClientAuth": "true"}}
    fleet = two_groups({"connectors": [connector], "tls": STORES}, release=release)
    broker = fleet.broker("south-mq01-a")
    nothing = ClientTlsSettings(has_authority=False, has_certificate=False)
    refusal = connection_refusal(nothing, BrokerListener(broker, broker.connectors[0]), tls=True)
    assert refusal is not None
    assert refusal.kind == kind


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("tcp://south-mq01-a.example.com:61617", "to port 61617 of south-mq01-a.example.com, which has no connector"),
        ("tcp://south-mq01-a.example.com:1883", "does not support OpenWire"),
        ("ssl://south-mq01-a.example.com:61616", "which does not use TLS"),
    ],
)
def test_a_link_written_by_hand_is_compared_with_what_listens_there(uri: str, said: str) -> None:
    fleet = two_groups({}, link(uri))
    (finding,) = told(fleet, "N045")
    assert said in finding.message
    assert (finding.file, finding.host) == ("conf/activemq.xml", "north-mq01-a.example.com")
    assert finding.line


def test_a_link_written_by_hand_needs_a_user_that_the_far_end_knows() -> None:
    uri = "tcp://south-mq01-a.example.com:61616"
    (finding,) = told(two_groups({}, link(uri, 'userName="nobody" password="x"')), "N045")
    assert "the user nobody, which has no account on" in finding.message
    assert not told(two_groups({}, link(uri)), "N045")


def test_a_link_without_a_user_is_told_once() -> None:
    """N036 says it of the file."""
    findings = told(two_groups({}, link("tcp://south-mq01-a.example.com:61616", "")), "N045", "N036")
    assert {finding.rule for finding in findings} == {"N036"}


def test_a_way_over_a_link_that_cannot_come_up_does_not_reach() -> None:
    fleet = two_groups({"tls": ASKING})
    routes = routes_without_refused_links(fleet, documents(fleet))
    answer = routes.reaches("north-mq01", "south-mq01")
    assert answer.outcome == "does not reach"
    assert "link north-mq01-to-south-mq01 cannot connect: connector openwire of south-mq01-a.example.com" in answer.why
    assert "does not reach" in explain_route(fleet, routes, "north-mq01-a", "south-mq01-a").title
    assert "north-mq01-to-south-mq01" not in routes.reaches("south-mq01", "north-mq01").why
    assert (
        routes_without_refused_links(two_groups({"tls": ASKING}, {"tls": STORES}))
        .reaches("north-mq01", "south-mq01")
        .arrives_for_every_bridge_choice
    )


def test_what_follows_from_a_link_that_cannot_come_up_is_not_told_as_well() -> None:
    inventory = hosts("orders-mq01") | hosts("orders-mq02", tls=ASKING)
    fleet = build_fleet(inventory, {})
    rule_ids = {finding.rule for finding in fleet_with_check_findings(fleet, documents(fleet), None).findings}
    assert "N045" in rule_ids
    assert not {rule for rule in rule_ids if rule.startswith("R")}


def test_an_agent_without_a_certificate_is_not_let_in() -> None:
    inventory = hosts("orders-mq01", tls=ASKING)
    agent = {f"activemq_{name}": value for name, value in (AGENT | {"agent_tls_ca": "/ca.pem"}).items()}
    fleet = build_fleet(inventory | {"web1": agent}, {"activemq_agents": ["web1"]})
    (finding,) = told(fleet, "C020", "C021")
    assert (finding.rule, finding.host) == ("C020", "web1")
    assert "requires a client certificate" in finding.message


def test_java_clients_beside_an_agent_dial_openwire_as_it_listens() -> None:
    connectors = [
        {"name": "openwire", "scheme": "nio", "port": 61616},
        {"name": "mqtt", "scheme": "mqtt+ssl", "port": 8883},
    ]
    agent = {f"activemq_{name}": value for name, value in AGENT.items()}
    inventory = hosts("orders-mq01", connectors=connectors) | {"web1": agent}
    fleet = build_fleet(inventory, {"activemq_agents": ["web1"]})
    files = render_agent(fleet.agents[0])
    assert b"ssl://orders-mq01-a.example.com:8883" in files["agent.conf"]
    assert b"tcp://orders-mq01-a.example.com:61616" in files["jndi.properties"]


def test_a_balancer_is_told_of_the_one_broker_that_listens_otherwise() -> None:
    inventory = hosts("orders-mq01", vip="10.0.0.100") | hosts("orders-mq02", vip="10.0.0.100", tls=STORES)
    lb = {"activemq_vip_interface": "eth0", "activemq_vip_username": "lb", "activemq_vip_password": "a secret"}
    fleet = build_fleet(inventory | {"lb1": lb}, {"activemq_loadbalancers": ["lb1"]})
    findings = [finding for finding in told(fleet, "C020") if finding.host == "lb1"]
    assert findings
    assert "which requires TLS" in findings[0].message


@pytest.mark.parametrize("tls", [None, STORES, ASKING])
def test_a_fleet_of_one_mind_has_nothing_to_tell(tls: dict[str, Any] | None) -> None:
    assert not told(two_groups({"tls": tls}, {"tls": tls}), "N045", "N046", "C020", "C021")


def two_domains() -> Fleet:
    """Hosts of one label in two domains; those of b.example.com listen at 61700 only."""
    other = [{"name": "openwire", "scheme": "tcp", "port": 61700}]
    return build_fleet(
        hosts("orders-mq01", domain="a.example.com") | hosts("orders-mq01", domain="b.example.com", connectors=other),
        {},
    )


def test_hosts_of_one_label_in_two_domains_are_told_apart() -> None:
    listeners = ListenersByAddress(two_domains().brokers)
    for name, port, other in (("a.example.com", 61616, 61700), ("b.example.com", 61700, 61616)):
        host = f"orders-mq01-a.{name}"
        listener, closed = listeners.listener_at(host, port), listeners.broker_without_listener_at(host, other)
        assert (listener and listener.broker.host, closed and closed.host) == (host, host)


def test_a_label_that_two_hosts_share_names_neither() -> None:
    listeners = ListenersByAddress(two_domains().brokers)
    for port in (61616, 61700, 9):
        assert listeners.listener_at("orders-mq01-a", port) is None
        assert listeners.broker_without_listener_at("orders-mq01-a", port) is None


def test_a_label_that_one_host_has_names_it() -> None:
    listener = ListenersByAddress(build_fleet(hosts("orders-mq01"), {}).brokers).listener_at("ORDERS-mq01-a", 61616)
    assert listener
    assert listener.broker.host == "orders-mq01-a.example.com"


def test_brokers_of_one_address_share_its_ports() -> None:
    second = [{"name": "openwire", "scheme": "tcp", "port": 61700}]
    xml = [{"parent": "broker/transportConnectors", "xml": '<transportConnector uri="tcp://0.0.0.0:61800"/>'}]
    first = hosts("orders-mq01", address="10.0.0.1")
    listeners = ListenersByAddress(
        build_fleet(first | hosts("orders-mq02", address="10.0.0.1", connectors=second), {}).brokers
    )
    assert [bool(listeners.listener_at("10.0.0.1", port)) for port in (61616, 61700, 61800)] == [True, True, False]
    closed = listeners.broker_without_listener_at("10.0.0.1", 61800)
    assert closed
    assert closed.host == "orders-mq01-a.example.com"
    owned = first | hosts("orders-mq02", address="10.0.0.1", connectors=second, xml_fragments=xml)
    assert ListenersByAddress(build_fleet(owned, {}).brokers).broker_without_listener_at("10.0.0.1", 61800) is None
