from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from activemq_fleet.lab.lab_brokers import BrokerSnapshot, LabBrokers
from activemq_fleet.lab.loopback_overlay import assign_loopback_addresses
from activemq_fleet.lab.status import (
    HostStatus,
    RunningBridge,
    broker_status_from_snapshot,
    established_bridges_of_broker_run,
)
from activemq_fleet.node.log.broker_run import BrokerRun
from activemq_fleet.node.log.log_records import parse_log
from activemq_fleet.topology import Fleet
from activemq_fleet.topology.brokers_by_address import BrokersByAddress
from tests.log_reading import logger_of
from tests.unit.lab_fleets import BLOCK, PAIR, fleet_of, variables

HUB, SHOP = "hub-mq01-a.example.com", "shop-mq01-a.example.com"
HOSTS = (HUB, "hub-mq01-b.example.com", SHOP, "shop-mq01-b.example.com")
LINKS = [{"from": "shop", "to": "hub", "duplex": True}]


def hosts_of(fleet: Fleet) -> LabBrokers:
    addresses = assign_loopback_addresses(fleet, BLOCK)
    brokers_by_address = BrokersByAddress(fleet.brokers, {host: (address,) for host, address in addresses.items()})
    return cast(
        "LabBrokers",
        SimpleNamespace(fleet=fleet, loopback_address=addresses.__getitem__, brokers_by_address=brokers_by_address),
    )


def linked_fleet(**settings: Any) -> Fleet:
    return fleet_of(variables(*HOSTS, links=LINKS, topology="none", **settings))


def established_message(local: str, remote: str, peer: str) -> str:
    return f"Network connection between vm://{local} and {remote} ({peer}) has been established."


def bridges_from_log(fleet: Fleet, host: str, *messages: str) -> tuple[RunningBridge, ...]:
    log_text = "".join(
        f"2026-03-01 10:00:00,000 | INFO  | {message} | {logger_of(message)} | main\n" for message in messages
    )
    return established_bridges_of_broker_run(
        hosts_of(fleet), fleet.broker(host), BrokerRun().apply_records(parse_log(log_text))
    )


def test_lab_status_shows_link_peer_and_remote_host_of_bridge() -> None:
    message = established_message("shop-mq01#0", "tcp://hub-mq01-b.example.com:61616", "hub-mq01")
    (bridge,) = bridges_from_log(linked_fleet(), SHOP, message)
    assert (bridge.link, bridge.peer, bridge.remote_host, bridge.remote_address) == (
        "shop-mq01-to-hub-mq01",
        "hub-mq01",
        "hub-mq01-b.example.com",
        ("127.77.1.2", 61616),
    )


def test_responder_of_duplex_link_has_link_of_its_peer() -> None:
    message = established_message("hub-mq01#0", "tcp:///127.0.0.1:47178@61616", "shop-mq01")
    (bridge,) = bridges_from_log(linked_fleet(), HUB, message)
    assert (bridge.link, bridge.peer, bridge.responder, bridge.remote_host) == (
        "shop-mq01-to-hub-mq01",
        "shop-mq01",
        True,
        None,
    )


def test_bridge_to_broker_discovered_by_multicast_has_multicast_link() -> None:
    fleet = fleet_of(variables(*PAIR, "orders-mq02-a.x", "orders-mq02-b.x", release="5.5.1", ha="pure"))
    message = established_message("orders-mq01-a#0", "tcp://orders-mq02-a.x/127.77.2.1:61616", "orders-mq02-a")
    (bridge,) = bridges_from_log(fleet, PAIR[0], message)
    assert (bridge.link, bridge.remote_host) == ("orders-mq01-a-orders", "orders-mq02-a.x")


def test_brokers_on_same_address_are_distinguished_by_port() -> None:
    hosts = variables(address="mq.example.com", pair_links="static")
    hosts[PAIR[1]]["activemq_port_offset"] = 10
    message = established_message("o#0", "tcp://mq.example.com/127.77.1.1:61626", "orders-mq01")
    (bridge,) = bridges_from_log(fleet_of(hosts), PAIR[0], message)
    assert (bridge.remote_host, bridge.link) == (PAIR[1], "orders-mq01-a-to-orders-mq01-b")


@pytest.mark.parametrize("remote", ["tcp://elsewhere.example.com:61616", "odd"])
def test_bridge_to_unknown_broker_has_peer_without_link_and_host(remote: str) -> None:
    message = established_message("shop-mq01#0", remote, "unknown")
    (bridge,) = bridges_from_log(linked_fleet(), SHOP, message)
    assert (bridge.peer, bridge.link, bridge.remote_host) == ("unknown", "", None)


def test_lab_status_of_stopped_broker_has_no_process_and_no_bridges() -> None:
    fleet = linked_fleet()
    status = broker_status_from_snapshot(hosts_of(fleet), fleet.broker(HUB), BrokerSnapshot("stopped", BrokerRun()))
    assert status.to_dict() == {
        "host": HUB,
        "address": "127.77.1.1",
        "ports": {"openwire": 61616, "stomp": 61613, "mqtt": 1883, "console": 8161},
        "role": "master",
        "state": "stopped",
        "pid": None,
        "uptime": None,
        "bridges": [],
        "breaking": [],
    }


def test_lab_status_lists_peer_with_two_bridges_once() -> None:
    outgoing = established_message("hub-mq01#0", "tcp://shop-mq01-a.example.com:61616", "shop-mq01")
    incoming = established_message("hub-mq01#2", "tcp:///127.0.0.1:47178@61616", "shop-mq01")
    running_bridges = bridges_from_log(linked_fleet(), HUB, outgoing, incoming)
    status = HostStatus(HUB, "127.77.1.1", {}, "master", "active", 1, 1, running_bridges)
    assert (len(status.bridges), status.to_dict()["bridges"]) == (2, ["shop-mq01"])
