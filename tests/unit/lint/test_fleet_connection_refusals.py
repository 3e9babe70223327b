"""Refused connections, in addition to the examples of the rules, and their effect on routes."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.connection_refusals import ClientTlsSettings, connection_refusal
from activemq_fleet.explain.route_page import explain_route
from activemq_fleet.findings import Finding
from activemq_fleet.lint import fleet_findings
from activemq_fleet.render import render_agent, render_broker
from activemq_fleet.routes import routes_without_refused_links
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Fleet, build_fleet
from activemq_fleet.topology.brokers_by_address import BrokerListener
from activemq_fleet.validation import fleet_with_check_findings
from tests.unit.fleets import hosts

STORES = {"keystore": "/k", "keystore_password": "k", "truststore": "/t", "truststore_password": "t"}
STORES_AND_CLIENT_AUTH = {**STORES, "client_auth": True}
LINKS = [{"from": "north", "to": "south"}]
AGENT = {"agent_username": "web", "agent_password": "a secret"}


def two_groups(south: dict[str, Any], north: dict[str, Any] | None = None, **variables: Any) -> Fleet:
    """Return a fleet in which the pair north links to the pair south, each with separate variables."""
    common = {"links": LINKS} | variables
    inventory = hosts("north-mq01", **common, **(north or {})) | hosts("south-mq01", **common, **south)
    return build_fleet(inventory, {})


def documents(fleet: Fleet) -> dict[str, XmlDocument]:
    return {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in fleet.brokers}


def findings_of_rules(fleet: Fleet, *rules: str) -> list[Finding]:
    return [finding for finding in fleet_findings(fleet, documents(fleet)) if finding.rule in rules]


def link(uri: str, user: str = 'userName="net" password="${activemq.network.password}"') -> dict[str, Any]:
    """Return the variables of a host with a hand-written link."""
    xml = f'<networkConnector name="own" uri="static:({uri})" {user} decreaseNetworkConsumerPriority="true"/>'
    return {"xml_fragments": [{"parent": "broker/networkConnectors", "xml": xml}]}


def test_link_without_certificate_is_error_if_listener_requires_it() -> None:
    (finding,) = findings_of_rules(two_groups({"tls": STORES_AND_CLIENT_AUTH}), "N045", "N046")
    assert (finding.rule, finding.severity, finding.host) == ("N045", "error", "north-mq01-a.example.com")
    assert finding.message == (
        "link north-mq01-to-south-mq01 cannot connect: connector openwire of south-mq01-a.example.com "
        "(port 61616) requires a client certificate, but north-mq01-a.example.com has none"
    )


def test_key_and_trust_store_in_java_options_are_recognized() -> None:
    options = ["-Djavax.net.ssl.keyStore=/k", "-Djavax.net.ssl.trustStore=/t"]
    assert not findings_of_rules(two_groups({"tls": STORES_AND_CLIENT_AUTH}, {"java_options": options}), "N045", "N046")
    assert [
        f.rule
        for f in findings_of_rules(
            two_groups({"tls": STORES_AND_CLIENT_AUTH}, {"java_options": options[:1]}), "N045", "N046"
        )
    ] == ["N046"]


@pytest.mark.parametrize(("release", "kind"), [("5.7.0", "authority"), ("5.18.3", "certificate")])
def test_refusal_by_nio_ssl_with_client_auth_depends_on_release(release: str, kind: str) -> None:
    connector = {"name": "o", "scheme": "nio+ssl", "port": 61616, "options": {"needClientAuth": "true"}}
    fleet = two_groups({"connectors": [connector], "tls": STORES}, release=release)
    broker = fleet.broker("south-mq01-a")
    client_settings = ClientTlsSettings(has_authority=False, has_certificate=False)
    refusal = connection_refusal(client_settings, BrokerListener(broker, broker.connectors[0]), tls=True)
    assert refusal is not None
    assert refusal.kind == kind


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("tcp://south-mq01-a.example.com:61617", "to port 61617 of south-mq01-a.example.com, which has no connector"),
        ("tcp://south-mq01-a.example.com:1883", "does not support OpenWire"),
        ("ssl://south-mq01-a.example.com:61616", "which does not use TLS"),
    ],
)
def test_hand_written_link_is_compared_with_listeners(uri: str, message: str) -> None:
    fleet = two_groups({}, link(uri))
    (finding,) = findings_of_rules(fleet, "N045")
    assert message in finding.message
    assert (finding.file, finding.host) == ("conf/activemq.xml", "north-mq01-a.example.com")
    assert finding.line


def test_hand_written_link_requires_account_on_other_end() -> None:
    uri = "tcp://south-mq01-a.example.com:61616"
    (finding,) = findings_of_rules(two_groups({}, link(uri, 'userName="unknown" password="x"')), "N045")
    assert "the user unknown, which has no account on" in finding.message
    assert not findings_of_rules(two_groups({}, link(uri)), "N045")


def test_link_without_user_is_reported_once() -> None:
    """N036 reports it for the file."""
    findings = findings_of_rules(two_groups({}, link("tcp://south-mq01-a.example.com:61616", "")), "N045", "N036")
    assert {finding.rule for finding in findings} == {"N036"}


@pytest.mark.parametrize("authentication", ["none", "custom"])
def test_link_without_user_from_broker_without_login_is_error(authentication: str) -> None:
    """N036 does not report it, because the broker that opens the link accepts its own bridge."""
    own_link = link("tcp://south-mq01-a.example.com:61616", "")
    fleet = two_groups({}, {**own_link, "authentication": authentication}, links=[])
    (finding,) = findings_of_rules(fleet, "N045", "N036")
    assert (finding.rule, finding.severity, finding.host) == ("N045", "error", "north-mq01-a.example.com")
    assert "requires authentication, but north-mq01-a.example.com connects with no userName" in finding.message


def test_inventory_link_of_broker_without_login_is_reported_once() -> None:
    """T009 reports it."""
    fleet = two_groups({"tls": STORES}, {"authentication": "none", "tls": STORES})
    assert findings_of_rules(fleet, "N045") == []
    assert "T009" in {finding.rule for finding in fleet.findings}


@pytest.mark.parametrize(("authentication", "rule"), [("none", "N045"), ("custom", "N045"), ("simple", "T008")])
def test_link_with_addresses_from_broker_without_link_user_is_reported_once(authentication: str, rule: str) -> None:
    """T009 does not compare brokers that only the addresses of a link connect."""
    links = [{"from": "north", "to": "partner", "addresses": ["south-mq01-a.example.com:61616"]}]
    fleet = two_groups({}, {"authentication": authentication, "network_username": None}, links=links)
    findings = [*fleet.findings, *findings_of_rules(fleet, "N045", "N036")]
    reported = {finding.rule for finding in findings if finding.host == "north-mq01-a.example.com"}
    assert reported & {"N045", "N036", "T008", "T009"} == {rule}


@pytest.mark.parametrize(("user", "is_refused"), [("unknown", True), ("net", False)])
def test_user_of_link_with_addresses_requires_account_on_target(user: str, is_refused: bool) -> None:
    links = [{"from": "north", "to": "partner", "addresses": ["south-mq01-a.example.com:61616"]}]
    fleet = two_groups({}, {"network_username": user}, links=links)
    messages = " ".join(finding.message for finding in findings_of_rules(fleet, "N045"))
    assert ("the user unknown, which has no account on" in messages) is is_refused


def test_link_with_address_of_port_without_broker_is_warning() -> None:
    """A program outside the inventory may listen at this port."""
    links = [{"from": "north", "to": "partner", "addresses": ["south-mq01-a.example.com:9"]}]
    (finding,) = findings_of_rules(two_groups({}, links=links), "N045")
    assert finding.severity == "warning"
    assert "possibly cannot connect" in finding.message
    assert "to port 9 of south-mq01-a.example.com, which has no connector" in finding.message
    assert (finding.fix or "").startswith("in addresses of the link in activemq_links, write a port")
    assert "outside the inventory listens at this port, add a waiver of N045" in (finding.fix or "")


def test_each_closed_port_of_links_with_addresses_is_reported() -> None:
    links = [
        {"from": "north", "to": name, "addresses": [f"south-mq01-a.example.com:{port}"]}
        for name, port in (("partner", 9), ("archive", 10))
    ]
    first, second = findings_of_rules(two_groups({}, links=links), "N045")
    assert "link north-mq01-to-partner possibly cannot connect: north-mq01-a.example.com connects to port 9 " in (
        first.message
    )
    assert "connects to port 10 of south-mq01-a.example.com" in second.message


def test_error_of_link_in_fragment_is_separate_from_warning_of_address() -> None:
    links = [{"from": "north", "to": "partner", "addresses": ["south-mq01-a.example.com:9"]}]
    fleet = two_groups({}, link("tcp://south-mq01-a.example.com:9"), links=links)
    severities = [finding.severity for finding in findings_of_rules(fleet, "N045")]
    assert sorted(severities) == ["error", "warning"]


def test_fix_of_link_to_pair_with_different_tls_settings_is_same_settings() -> None:
    inventory = hosts("north-mq01", links=LINKS) | hosts("south-mq01", links=LINKS)
    inventory["south-mq01-b.example.com"]["activemq_tls"] = STORES
    (finding,) = findings_of_rules(build_fleet(inventory, {}), "N045")
    assert finding.fix == "set activemq_tls for all nodes of south-mq01, or for none of them"


@pytest.mark.parametrize(
    ("scheme", "tls", "fix"),
    [
        ("", STORES, "write ssl:// before the address of south-mq01-a.example.com in addresses of the link"),
        ("ssl://", None, "remove ssl:// from addresses of the link in activemq_links, or set activemq_tls for south-"),
    ],
)
def test_fix_of_tls_mismatch_changes_addresses_of_link(scheme: str, tls: dict[str, Any] | None, fix: str) -> None:
    links = [{"from": "north", "to": "partner", "addresses": [f"{scheme}south-mq01-a.example.com:61616"]}]
    (finding,) = findings_of_rules(two_groups({"tls": tls}, {"tls": STORES}, links=links), "N045")
    assert finding.severity == "error"
    assert (finding.fix or "").startswith(fix)


def test_fix_of_link_with_addresses_names_variables_of_its_user() -> None:
    links = [{"from": "north", "to": "partner", "addresses": ["south-mq01-a.example.com:61616"]}]
    (finding,) = findings_of_rules(two_groups({}, {"authentication": "none"}, links=links), "N045")
    assert "set activemq_network_username and activemq_network_password of north-mq01-a" in (finding.fix or "")


def test_route_over_refused_link_does_not_reach() -> None:
    fleet = two_groups({"tls": STORES_AND_CLIENT_AUTH})
    routes = routes_without_refused_links(fleet, documents(fleet))
    route = routes.reaches("north-mq01", "south-mq01")
    assert route.outcome == "does not reach"
    assert "link north-mq01-to-south-mq01 cannot connect: connector openwire of south-mq01-a.example.com" in route.why
    assert "does not reach" in explain_route(fleet, routes, "north-mq01-a", "south-mq01-a").title
    assert "north-mq01-to-south-mq01" not in routes.reaches("south-mq01", "north-mq01").why
    assert (
        routes_without_refused_links(two_groups({"tls": STORES_AND_CLIENT_AUTH}, {"tls": STORES}))
        .reaches("north-mq01", "south-mq01")
        .arrives_for_every_bridge_choice
    )


def test_consequences_of_refused_link_are_not_reported() -> None:
    inventory = hosts("orders-mq01") | hosts("orders-mq02", tls=STORES_AND_CLIENT_AUTH)
    fleet = build_fleet(inventory, {})
    rule_ids = {finding.rule for finding in fleet_with_check_findings(fleet, documents(fleet), None).findings}
    assert "N045" in rule_ids
    assert not {rule for rule in rule_ids if rule.startswith("R")}


def test_agent_without_certificate_is_reported_if_listener_requires_it() -> None:
    inventory = hosts("orders-mq01", tls=STORES_AND_CLIENT_AUTH)
    agent = {f"activemq_{name}": value for name, value in (AGENT | {"agent_tls_ca": "/ca.pem"}).items()}
    fleet = build_fleet(inventory | {"web1": agent}, {"activemq_agents": ["web1"]})
    (finding,) = findings_of_rules(fleet, "C020", "C021")
    assert (finding.rule, finding.host) == ("C020", "web1")
    assert "requires a client certificate" in finding.message


def test_java_clients_of_agent_use_scheme_of_openwire_listener() -> None:
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


def findings_of_balancer(**variables: Any) -> list[str]:
    """Return the findings C020 of a load balancer of two pairs; the variables are those of the second pair."""
    inventory = hosts("orders-mq01", vip="10.0.0.100") | hosts("orders-mq02", vip="10.0.0.100", **variables)
    balancer = {"activemq_vip_interface": "eth0", "activemq_vip_username": "lb", "activemq_vip_password": "a secret"}
    fleet = build_fleet(inventory | {"lb1": balancer}, {"activemq_loadbalancers": ["lb1"]})
    findings = [finding for finding in findings_of_rules(fleet, "C020") if finding.host == "lb1"]
    return [f"{finding.severity}: {finding.message}" for finding in findings]


def test_balancer_is_reported_if_broker_requires_tls() -> None:
    (finding,) = findings_of_balancer(tls=STORES)
    assert "which requires TLS" in finding


@pytest.mark.parametrize(
    ("connector", "text"),
    [
        ({"scheme": "stomp+nio"}, "error: the load balancer cannot connect to a broker of group orders: connector mqtt "
         "of orders-mq02-a.example.com (port 1883) uses stomp, but the connector of this name on other brokers uses "
         "mqtt"),
        ({"scheme": "mqtt+nio", "bind": "127.0.0.1"}, "warning: the load balancer cannot connect to connector mqtt of "
         "orders-mq02-a.example.com (port 1883), which listens only on 127.0.0.1"),
    ],
)  # fmt: skip
def test_balancer_is_reported_if_connector_has_other_protocol_or_loopback_address(
    connector: dict[str, Any], text: str
) -> None:
    openwire = {"name": "openwire", "scheme": "nio", "port": 61616}
    assert findings_of_balancer(connectors=[openwire, {"name": "mqtt", "port": 1883, **connector}]) == [text]


@pytest.mark.parametrize("scheme", ["mqtt+nio", "auto+nio"])
def test_balancer_is_not_reported_if_connector_accepts_protocol(scheme: str) -> None:
    openwire = {"name": "openwire", "scheme": "auto+nio", "port": 61616}
    assert not findings_of_balancer(connectors=[openwire, {"name": "mqtt", "scheme": scheme, "port": 1883}])


@pytest.mark.parametrize("tls", [None, STORES, STORES_AND_CLIENT_AUTH])
def test_fleet_with_same_tls_settings_has_no_finding(tls: dict[str, Any] | None) -> None:
    assert not findings_of_rules(two_groups({"tls": tls}, {"tls": tls}), "N045", "N046", "C020", "C021")
