"""Brokers without a peer whose host names differ only in the domain, and brokers whose host names are IP addresses."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet import build_fleet, check_fleet
from activemq_fleet.addresses import host_name_without_domain
from activemq_fleet.diagram import to_mermaid
from activemq_fleet.explain import explain_host
from activemq_fleet.topology import Fleet, pair_and_single_broker_count_texts

NETWORK_PASSWORD = "not-the-password"


def linked_single_brokers(*hosts: str, **variables: Any) -> Fleet:
    common = {
        "activemq_release": "6.3.1",
        "activemq_ha": "none",
        "activemq_group": "g",
        "activemq_node": "a",
        "activemq_network_username": "network",
        "activemq_network_password": NETWORK_PASSWORD,
        **variables,
    }
    return build_fleet({host: {**common, "activemq_pair": f"g-{n}"} for n, host in enumerate(hosts, 1)})


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("orders-mq01-a.example.com", "orders-mq01-a"),
        ("mq1", "mq1"),
        ("mq.rack.7", "mq"),
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
    ],
)
def test_host_name_without_domain_is_first_label_or_whole_address(host: str, name: str) -> None:
    assert host_name_without_domain(host) == name


@pytest.mark.parametrize("hosts", [("mq.north.example.com", "mq.south.example.com"), ("10.0.0.1", "10.0.0.2")])
def test_single_brokers_with_same_first_label_are_linked_with_each_other(hosts: tuple[str, str]) -> None:
    first, second = linked_single_brokers(*hosts).brokers
    assert [(link.name, link.uri) for link in first.links] == [
        (f"{first.host}-to-{second.host}", f"static:(tcp://{second.host}:61616)?maxReconnectDelay=2000")
    ]
    assert [link.target for link in second.links] == [first.host]


def test_links_of_entries_lead_to_the_single_broker_of_the_named_pair() -> None:
    fleet = linked_single_brokers(
        "mq.north.example.com",
        "mq.south.example.com",
        "hub",
        activemq_topology="none",
        activemq_links=[{"from": "g-3", "to": "g-1"}, {"from": "g-3", "to": "g-2"}],
    )
    assert [link.target for link in fleet.broker("hub").links] == ["mq.north.example.com", "mq.south.example.com"]


def test_linked_single_brokers_with_same_default_name_are_errors() -> None:
    fleet = linked_single_brokers("mq.north.example.com", "mq.south.example.com")
    (finding,) = [finding for finding in check_fleet(fleet, schema_of=None) if finding.rule == "N013"]
    assert finding.severity == "error"
    assert finding.fix == "set activemq_broker_name of mq.south.example.com to a unique name"


def test_brokers_with_ip_addresses_as_host_names_have_unique_names() -> None:
    fleet = linked_single_brokers("10.0.0.1", "10.0.0.2")
    assert [broker.broker_name for broker in fleet.brokers] == ["10.0.0.1", "10.0.0.2"]
    assert [finding for finding in check_fleet(fleet, schema_of=None) if finding.blocks] == []


def test_single_brokers_with_same_first_label_are_counted_separately() -> None:
    fleet = linked_single_brokers("mq.north.example.com", "mq.south.example.com", activemq_topology="none")
    assert pair_and_single_broker_count_texts(fleet.brokers) == ["2 single brokers"]


def test_explanation_and_pictures_show_whole_address_of_broker() -> None:
    fleet = linked_single_brokers("10.0.0.1", "10.0.0.2")
    name = explain_host(fleet, "10.0.0.1").section("role").entries[0]
    assert name.text == "10.0.0.1 is in group g, node a, no domain"
    assert "10.0.0.1 :61616" in to_mermaid(fleet)
