"""Load balancers of an inventory: addresses, ports, backends and findings."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.errors import SettingsError
from activemq_fleet.topology import BALANCERS, Fleet, VirtualIpAddress, build_fleet
from tests.unit.fleets import hosts

VIP = "10.77.0.100"
LOGIN = {"activemq_vip_username": "look", "activemq_vip_password": "hush"}
COMMON = {"activemq_vip_interface": "eth0", **LOGIN}
TWO_BALANCERS = {"lb1": COMMON | {"activemq_address": "10.77.0.41"}, "lb2": COMMON | {"activemq_address": "10.77.0.42"}}
TLS = dict.fromkeys(("keystore", "truststore"), "/etc/x") | dict.fromkeys(
    ("keystore_password", "truststore_password"), "hush"
)


def balanced_fleet(
    brokers: dict[str, dict[str, Any]], balancers: dict[str, dict[str, Any]] | None = None, **variables: Any
) -> Fleet:
    """Return a fleet of brokers and of balancers that share these variables."""
    balancers = TWO_BALANCERS if balancers is None else balancers
    common = {f"activemq_{key}": value for key, value in variables.items()}
    merged = {name: brokers.get(name, {}) | settings | common for name, settings in balancers.items()}
    return build_fleet(brokers | merged, {BALANCERS: list(balancers)})


def messages_of(fleet: Fleet, rule: str) -> list[str]:
    """Return the messages of a rule, each with its host."""
    return [f"{finding.host}: {finding.message}" for finding in fleet.findings if finding.rule == rule]


def virtual_address(fleet: Fleet, group: str = "orders", balancer: int = 0) -> VirtualIpAddress:
    """Return the virtual address of a group on a balancer."""
    return next(address for address in fleet.balancers[balancer].addresses if address.group == group)


def servers_by_backend(address: VirtualIpAddress, connector: str) -> dict[str, list[str]]:
    """Return the names of the servers of a connector, by backend."""
    front = next(front for front in address.fronts if front.connector == connector)
    return {backend.name: [server.name for server in backend.servers] for backend in front.backends}


def test_backends_of_shared_pairs_contain_both_nodes() -> None:
    fleet = balanced_fleet(hosts("orders-mq01", "orders-mq02", vip=VIP))
    assert fleet.findings == ()
    assert servers_by_backend(virtual_address(fleet), "mqtt") == {
        "orders-mq01.mqtt": ["orders-mq01-a", "orders-mq01-b"],
        "orders-mq02.mqtt": ["orders-mq02-a", "orders-mq02-b"],
    }


def test_backend_of_pure_group_contains_only_preferred_masters() -> None:
    fleet = balanced_fleet(hosts("orders-mq01", "orders-mq02", vip=VIP, ha="pure", release="5.5.1", master_node="b"))
    orders_address = virtual_address(fleet)
    assert [front.connector for front in orders_address.fronts] == ["openwire", "stomp"]
    assert servers_by_backend(orders_address, "stomp") == {"orders.stomp.masters": ["orders-mq01-b", "orders-mq02-b"]}


def test_pairs_of_group_with_pure_and_shared_pairs_have_separate_backends() -> None:
    brokers = hosts("orders-mq01", vip=VIP, ha="pure", release="5.7.0") | hosts("orders-mq02", vip=VIP, release="5.7.0")
    assert servers_by_backend(virtual_address(balanced_fleet(brokers)), "openwire") == {
        "orders-mq01.openwire": ["orders-mq01-a"],
        "orders-mq02.openwire": ["orders-mq02-a", "orders-mq02-b"],
    }


def test_each_single_broker_has_separate_backend() -> None:
    fleet = balanced_fleet(hosts("orders-mq01", vip=VIP, ha="none"))
    assert list(servers_by_backend(virtual_address(fleet), "stomp")) == ["orders-mq01-a.stomp", "orders-mq01-b.stomp"]


def test_virtual_address_listens_without_port_offset_and_connects_with_it() -> None:
    brokers = hosts("orders-mq01", vip=VIP)
    brokers["orders-mq01-a.example.com"]["activemq_port_offset"] = 10
    front = next(front for front in virtual_address(balanced_fleet(brokers)).fronts if front.connector == "mqtt")
    assert front.port == 1883
    assert [server.address[1] for server in front.backends[0].servers] == [1893, 1883]


def test_connection_limit_of_server_reserves_connections_for_health_check() -> None:
    fleet = balanced_fleet(hosts("orders-mq01", vip=VIP))
    assert {server.limit for front in virtual_address(fleet).fronts for server in front.backends[0].servers} == {990}


def test_connector_without_health_check_has_no_port() -> None:
    connectors = [{"name": name, "scheme": name, "port": port} for name, port in (("amqp", 5672), ("stomp", 61613))]
    fleet = balanced_fleet(hosts("orders-mq01", vip=VIP, connectors=connectors))
    assert [front.connector for front in virtual_address(fleet).fronts] == ["stomp"]


def test_first_balancer_of_inventory_has_highest_priority() -> None:
    fleet = balanced_fleet(hosts("orders-mq01", vip=VIP), dict(reversed(TWO_BALANCERS.items())))
    assert {b.host: b.addresses[0].priority for b in fleet.balancers} == {"lb2": 200, "lb1": 190}


def test_balancers_with_known_addresses_are_peers() -> None:
    orders_address = virtual_address(balanced_fleet(hosts("orders-mq01", vip=VIP)))
    assert (orders_address.source, orders_address.peers) == ("10.77.0.41", ("10.77.0.42",))


def test_t024_balancer_without_address_makes_all_balancers_use_multicast() -> None:
    balancers = TWO_BALANCERS | {"lb3": COMMON}
    fleet = balanced_fleet(hosts("orders-mq01", vip=VIP), balancers)
    assert {(b.addresses[0].source, b.addresses[0].peers) for b in fleet.balancers} == {(None, ())}
    assert len(messages_of(fleet, "T024")) == 3
    assert not fleet.blocking_findings


def test_t024_ipv6_address_without_ipv6_peers_is_reported() -> None:
    assert messages_of(balanced_fleet(hosts("orders-mq01", vip="fd00::64")), "T024")


def test_virtual_address_of_single_group_can_be_set_on_balancers() -> None:
    assert virtual_address(balanced_fleet(hosts("orders-mq01"), vip=VIP)).address == VIP


def test_t020_balancer_without_virtual_address_is_reported() -> None:
    assert messages_of(balanced_fleet(hosts("orders-mq01")), "T020")[0] == (
        "lb1: the host is in activemq_loadbalancers, but activemq_vip is not set"
    )


def test_t020_address_on_balancers_of_two_groups_is_reported() -> None:
    fleet = balanced_fleet(hosts("orders-mq01", "billing-mq01"), vip=VIP)
    assert "not set in the variables of any group of brokers" in messages_of(fleet, "T020")[0]


def test_group_without_virtual_address_is_not_balanced() -> None:
    fleet = balanced_fleet(hosts("orders-mq01", vip=VIP) | hosts("billing-mq01"))
    assert [address.group for address in fleet.balancers[0].addresses] == ["orders"]
    assert fleet.findings == ()


def test_t021_virtual_address_without_interface_is_reported() -> None:
    fleet = balanced_fleet(hosts("orders-mq01", vip=VIP), {"lb1": LOGIN})
    assert messages_of(fleet, "T021") == [
        f"lb1: activemq_vip of group orders is {VIP}, but activemq_vip_interface is not set"
    ]


def test_t022_same_virtual_address_of_two_groups_is_reported() -> None:
    fleet = balanced_fleet(hosts("orders-mq01", "billing-mq01", vip=VIP))
    assert messages_of(fleet, "T022") == [
        f"orders-mq01-a.example.com: activemq_vip of group orders is {VIP}, "
        "which is the virtual address of group billing"
    ]


@pytest.mark.parametrize("owner", ["orders-mq01-b.example.com", "lb2"])
def test_t022_virtual_address_that_is_address_of_host_is_reported(owner: str) -> None:
    inventory = hosts("orders-mq01", vip="10.77.0.42" if owner == "lb2" else "10.77.0.32")
    inventory["orders-mq01-b.example.com"]["activemq_address"] = "10.77.0.32"
    assert messages_of(balanced_fleet(inventory), "T022")[0].endswith(f"which is the address of {owner}")


def test_t023_same_router_id_of_two_groups_is_reported() -> None:
    inventory = hosts("orders-mq01", vip=VIP) | hosts("billing-mq01", vip="10.78.0.100")
    assert messages_of(balanced_fleet(inventory), "T023") == [
        "orders-mq01-a.example.com: activemq_vip_router_id of group orders is 100, and group billing has the same id"
    ]
    inventory_with_router_id = hosts("orders-mq01", vip=VIP) | hosts("billing-mq01", vip="10.78.0.100", vip_router_id=7)
    assert messages_of(balanced_fleet(inventory_with_router_id), "T023") == []


@pytest.mark.parametrize(("vip", "expected"), [("10.77.0.9", 9), ("fd00::ff", 255), ("10.77.1.0", None)])
def test_router_id_is_last_byte_of_address_unless_byte_is_zero(vip: str, expected: int | None) -> None:
    router_id = virtual_address(balanced_fleet(hosts("orders-mq01", vip=vip))).router_id
    assert router_id == expected if expected else 1 <= router_id <= 255


def test_t025_balancer_without_credentials_is_warning() -> None:
    fleet = balanced_fleet(hosts("orders-mq01", vip=VIP), {"lb1": {"activemq_vip_interface": "eth0"}})
    assert len(messages_of(fleet, "T025")) == 1
    assert not fleet.blocking_findings


def test_t026_balancer_with_broker_on_all_addresses_is_reported() -> None:
    host = "orders-mq01-a.example.com"
    assert messages_of(balanced_fleet(hosts("orders-mq01", vip=VIP), {host: COMMON}), "T026")
    assert not messages_of(balanced_fleet(hosts("orders-mq01", vip=VIP, bind="10.77.0.31"), {host: COMMON}), "T026")


@pytest.mark.parametrize(
    ("bind", "bind_of_connector", "fix"),
    [
        ("0.0.0.0", None, "set activemq_bind of the broker"),
        ("10.77.0.31", "0.0.0.0", "set bind of the connector openwire in activemq_connectors"),
        ("0.0.0.0", "10.77.0.31", None),
    ],
)
def test_t026_regards_bind_address_of_connector(bind: str, bind_of_connector: str | None, fix: str | None) -> None:
    connector = {"name": "openwire", "scheme": "nio", "port": 61616, "bind": bind_of_connector}
    inventory = hosts("orders-mq01", vip=VIP, bind=bind, connectors=[connector])
    fleet = balanced_fleet(inventory, {"orders-mq01-a.example.com": COMMON})

    fixes = [finding.fix for finding in fleet.findings if finding.rule == "T026"]
    assert fixes == ([f"{fix} to the address of the host"] if fix else [])


def test_t027_brokers_that_require_client_certificate_are_reported() -> None:
    brokers = hosts("orders-mq01", vip=VIP, tls=TLS | {"client_auth": True})
    assert len(messages_of(balanced_fleet(brokers), "T027")) == 2
    assert not messages_of(balanced_fleet(brokers, vip_certificate="/etc/lb.pem"), "T027")
    assert not messages_of(balanced_fleet(hosts("orders-mq01", vip=VIP, tls=TLS)), "T027")


def test_t009_different_virtual_addresses_in_group_are_reported() -> None:
    inventory = hosts("orders-mq01", vip=VIP)
    inventory["orders-mq01-b.example.com"]["activemq_vip"] = "10.77.0.101"
    assert messages_of(balanced_fleet(inventory), "T009") == [
        "orders-mq01-b.example.com: activemq_vip differs from the value of orders-mq01-a.example.com in group orders"
    ]


def test_t009_different_passwords_of_balancers_are_reported() -> None:
    balancers = TWO_BALANCERS | {"lb2": TWO_BALANCERS["lb2"] | {"activemq_vip_password": "other"}}
    assert (
        "lb2: activemq_vip_password differs from the value of the host lb1"
        in messages_of(balanced_fleet(hosts("orders-mq01", vip=VIP), balancers), "T009")[0]
    )


def test_t009_balancer_password_that_differs_from_user_is_reported() -> None:
    users = [{"name": "look", "password": "another"}]
    messages = messages_of(balanced_fleet(hosts("orders-mq01", vip=VIP, users=users)), "T009")
    assert messages
    assert all("activemq_vip_password differs from activemq_users[0].password" in message for message in messages)


def test_t006_connectors_with_same_port_of_virtual_address_are_reported() -> None:
    brokers = hosts("orders-mq01", vip=VIP)
    for node, name in (("a", "one"), ("b", "other")):
        connectors = [{"name": name, "scheme": "tcp", "port": 61616}]
        brokers[f"orders-mq01-{node}.example.com"]["activemq_connectors"] = connectors
    assert f"both require port 61616 of the virtual address {VIP}" in messages_of(balanced_fleet(brokers), "T006")[0]


def test_brokers_of_balanced_group_have_balancer_account_without_groups() -> None:
    acl = [{"destination": "q", "kind": "queue", "read": ["ops"]}]
    fleet = balanced_fleet(hosts("orders-mq01", vip=VIP, acl=acl) | hosts("billing-mq01"))
    accounts = {broker.group: [account.name for account in broker.accounts] for broker in fleet.brokers}
    assert accounts == {"orders": ["net", "look", "activemq-probe"], "billing": ["net", "activemq-probe"]}
    account_of_balancers = next(account for account in fleet.broker("orders-mq01-a").accounts if account.name == "look")
    assert account_of_balancers.groups == ()


@pytest.mark.parametrize("vip", ["lb.example.com", "10.0.0.100/24", "224.0.0.18", "0.0.0.0", "10.0.0", "fe80::1%eth0"])
def test_invalid_virtual_address_is_refused(vip: str) -> None:
    reason = r"is (not an IP|a multicast|the) address|contains a zone"
    with pytest.raises(SettingsError, match=rf"in activemq_vip, the virtual address '.*' ({reason})"):
        balanced_fleet(hosts("orders-mq01", vip=vip))


def test_balancer_username_without_password_is_refused() -> None:
    with pytest.raises(SettingsError, match="activemq_vip_username is set, but activemq_vip_password is not"):
        balanced_fleet(hosts("orders-mq01", vip=VIP), {"lb1": {"activemq_vip_username": "look"}})


def test_waiver_of_balancer_applies_to_its_finding() -> None:
    waivers = [{"rule": "T021", "reason": "the interface comes in May", "hosts": ["lb1"]}]
    fleet = balanced_fleet(hosts("orders-mq01", vip=VIP), {"lb1": LOGIN | {"activemq_waivers": waivers}})
    assert [finding.waived for finding in fleet.findings if finding.rule == "T021"] == ["the interface comes in May"]
