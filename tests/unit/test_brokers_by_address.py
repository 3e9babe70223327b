"""The resolution of host names and addresses in URIs to the brokers of a fleet."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.render import render_broker
from activemq_fleet.routes.bridges import FleetNetworkConnectors, network_connectors_of_brokers_with_fragments
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Fleet, build_fleet
from activemq_fleet.topology.brokers_by_address import BrokersByAddress, HostsByName
from tests.unit.fleets import fleet, hosts


def two_domains() -> Fleet:
    """Return hosts with the same label in two domains; those of b.example.com listen at 61700 only."""
    connectors = [{"name": "openwire", "scheme": "tcp", "port": 61700}]
    return build_fleet(
        hosts("orders-mq01", domain="a.example.com")
        | hosts("orders-mq01", domain="b.example.com", connectors=connectors),
        {},
    )


def test_listeners_of_hosts_with_same_label_in_two_domains_are_distinguished() -> None:
    brokers = BrokersByAddress(two_domains().brokers)
    for domain, port, closed_port in (("a.example.com", 61616, 61700), ("b.example.com", 61700, 61616)):
        host = f"orders-mq01-a.{domain}"
        listener, closed = brokers.listener_at(host, port), brokers.broker_without_listener_at(host, closed_port)
        assert (listener and listener.broker.host, closed and closed.host) == (host, host)


def test_host_label_shared_by_two_hosts_matches_no_listener() -> None:
    brokers = BrokersByAddress(two_domains().brokers)
    for port in (61616, 61700, 9):
        assert brokers.listener_at("orders-mq01-a", port) is None
        assert brokers.broker_without_listener_at("orders-mq01-a", port) is None


def test_host_label_of_single_host_matches_its_listener() -> None:
    listener = BrokersByAddress(build_fleet(hosts("orders-mq01"), {}).brokers).listener_at("ORDERS-mq01-a", 61616)
    assert listener
    assert listener.broker.host == "orders-mq01-a.example.com"


def test_brokers_with_same_address_share_its_ports() -> None:
    second_connectors = [{"name": "openwire", "scheme": "tcp", "port": 61700}]
    connector_fragments = [
        {"parent": "broker/transportConnectors", "xml": '<transportConnector uri="tcp://0.0.0.0:61800"/>'}
    ]
    hosts_of_first_pair = hosts("orders-mq01", address="10.0.0.1")
    brokers = BrokersByAddress(
        build_fleet(
            hosts_of_first_pair | hosts("orders-mq02", address="10.0.0.1", connectors=second_connectors), {}
        ).brokers
    )
    assert [bool(brokers.listener_at("10.0.0.1", port)) for port in (61616, 61700, 61800)] == [True, True, False]
    closed = brokers.broker_without_listener_at("10.0.0.1", 61800)
    assert closed
    assert closed.host == "orders-mq01-a.example.com"
    hosts_with_fragment = hosts_of_first_pair | hosts(
        "orders-mq02", address="10.0.0.1", connectors=second_connectors, xml_fragments=connector_fragments
    )
    assert (
        BrokersByAddress(build_fleet(hosts_with_fragment, {}).brokers).broker_without_listener_at("10.0.0.1", 61800)
        is None
    )


@pytest.mark.parametrize(
    ("domain", "address", "name"),
    [
        ("", None, "orders-mq01-a.example.com"),
        ("example.com", "10.0.0.1", "orders-mq01-a.example.com"),
        ("example.com", "10.0.0.1", "orders-mq01-a"),
        ("example.com", "10.0.0.1", "10.0.0.1"),
        ("example.com", "net-a.example.com", "NET-A"),
        ("example.com", "net-a", "net-a.example.com."),
    ],
)
def test_broker_is_found_by_address_or_inventory_name_with_or_without_domain(
    domain: str, address: str | None, name: str
) -> None:
    inventory = hosts("orders-mq01", "stock-mq01", domain=domain)
    first = min(inventory)
    if address:
        inventory[first]["activemq_address"] = address
    brokers = BrokersByAddress(build_fleet(inventory, {}).brokers)

    listener, broker = brokers.listener_at(name, 61616), brokers.broker_at(name, 61616)

    assert listener
    assert broker
    assert (listener.broker.host, broker.host) == (first, first)


def test_address_of_broker_takes_precedence_over_inventory_name_of_another() -> None:
    inventory = hosts("orders-mq01", domain="")
    inventory["orders-mq01-a"]["activemq_address"] = "orders-mq01-b"
    inventory["orders-mq01-b"]["activemq_address"] = "orders-mq01-c"
    brokers = BrokersByAddress(build_fleet(inventory, {}).brokers)

    assert [broker.host for broker in brokers.brokers_named("orders-mq01-b")] == ["orders-mq01-a"]


def test_replication_port_of_pure_master_leads_to_broker_but_is_no_listener() -> None:
    brokers = BrokersByAddress(fleet("orders-mq01", release="5.5.1", ha="pure").brokers)
    master = "orders-mq01-a.example.com"
    broker = brokers.broker_at(master, 61618)

    assert broker
    assert broker.host == master
    assert brokers.listener_at(master, 61618) is None


def test_further_name_of_machine_leads_to_its_broker() -> None:
    host = "orders-mq01-a.example.com"
    brokers = BrokersByAddress(fleet("orders-mq01").brokers, {host: ["127.16.1.1"]})

    assert [broker.host for broker in brokers.brokers_named("127.16.1.1")] == [host]


def test_name_without_domain_may_mean_hosts_of_each_domain_but_no_ip_address() -> None:
    names = HostsByName((name, name) for name in ("mq1.a.example", "mq1.b.example", "10.0.0.1"))

    assert names.possible_hosts("MQ1") == ["mq1.a.example", "mq1.b.example"]
    assert names.possible_hosts("mq1.b.example") == ["mq1.b.example"]
    assert names.possible_hosts("10") == names.possible_hosts("mq1.c.example") == []


@pytest.mark.parametrize(
    ("domain", "variables", "target"),
    [("", {}, "orders-mq01-a.example.com"), ("example.com", {"address": "net-orders.example.com"}, "net-orders")],
)
def test_route_follows_link_whose_uri_names_broker_with_another_domain(
    domain: str, variables: dict[str, Any], target: str
) -> None:
    link_xml = f'<networkConnector name="own" uri="static:(tcp://{target}:61616)"/>'
    inventory = hosts("orders-mq01", nodes="a", ha="none", topology="none", domain=domain, **variables) | hosts(
        "stock-mq01", nodes="a", ha="none", topology="none", domain=domain,
        xml_fragments=[{"parent": "broker/networkConnectors", "xml": link_xml}],
    )  # fmt: skip
    built_fleet = build_fleet(inventory, {})
    source = built_fleet.broker("stock-mq01-a")
    documents = {source.host: XmlDocument(render_broker(source)["conf/activemq.xml"])}
    connectors = network_connectors_of_brokers_with_fragments(built_fleet, documents)
    network = FleetNetworkConnectors(built_fleet, connectors, as_planned=True)

    [(connector, peers)] = network.connectors_to_other_pairs(source.host)

    assert (connector.name, [peer.host for peer in peers]) == ("own", [built_fleet.broker("orders-mq01-a").host])
