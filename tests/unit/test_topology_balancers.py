"""Balancers of an inventory: which address, which ports, which brokers, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.errors import SettingsError
from activemq_fleet.topology import BALANCERS, Fleet, VirtualIpAddress, build_fleet
from tests.unit.fleets import hosts

VIP = "10.77.0.100"
LOGIN = {"activemq_vip_username": "look", "activemq_vip_password": "hush"}
COMMON = {"activemq_vip_interface": "eth0", **LOGIN}
TWO = {"lb1": COMMON | {"activemq_address": "10.77.0.41"}, "lb2": COMMON | {"activemq_address": "10.77.0.42"}}
TLS = dict.fromkeys(("keystore", "truststore"), "/etc/x") | dict.fromkeys(
    ("keystore_password", "truststore_password"), "hush"
)


def balanced(
    brokers: dict[str, dict[str, Any]], balancers: dict[str, dict[str, Any]] | None = None, **more: Any
) -> Fleet:
    balancers = TWO if balancers is None else balancers
    own = {name: said | {f"activemq_{key}": value for key, value in more.items()} for name, said in balancers.items()}
    merged = {name: brokers.get(name, {}) | said for name, said in own.items()}
    return build_fleet(brokers | merged, {BALANCERS: list(balancers)})


def told(fleet: Fleet, rule: str) -> list[str]:
    return [f"{found.host}: {found.message}" for found in fleet.findings if found.rule == rule]


def address(fleet: Fleet, group: str = "orders", balancer: int = 0) -> VirtualIpAddress:
    return next(one for one in fleet.balancers[balancer].addresses if one.group == group)


def servers(one: VirtualIpAddress, connector: str) -> dict[str, list[str]]:
    front = next(front for front in one.fronts if front.connector == connector)
    return {backend.name: [server.name for server in backend.servers] for backend in front.backends}


def test_both_nodes_of_every_pair_with_a_shared_store_stand_behind_its_address() -> None:
    fleet = balanced(hosts("orders-mq01", "orders-mq02", vip=VIP))
    assert fleet.findings == ()
    assert servers(address(fleet), "mqtt") == {
        "orders-mq01.mqtt": ["orders-mq01-a", "orders-mq01-b"],
        "orders-mq02.mqtt": ["orders-mq02-a", "orders-mq02-b"],
    }


def test_of_a_pure_group_only_the_preferred_masters_do_whatever_their_letter() -> None:
    fleet = balanced(hosts("orders-mq01", "orders-mq02", vip=VIP, ha="pure", release="5.5.1", master_node="b"))
    one = address(fleet)
    assert [front.connector for front in one.fronts] == ["openwire", "stomp"]
    assert servers(one, "stomp") == {"orders.stomp.masters": ["orders-mq01-b", "orders-mq02-b"]}


def test_single_brokers_each_stand_for_themselves() -> None:
    fleet = balanced(hosts("orders-mq01", vip=VIP, ha="none"))
    assert list(servers(address(fleet), "stomp")) == ["orders-mq01-a.stomp", "orders-mq01-b.stomp"]


def test_virtual_address_listens_without_port_offset_and_connects_with_it() -> None:
    brokers = hosts("orders-mq01", vip=VIP)
    brokers["orders-mq01-a.example.com"]["activemq_port_offset"] = 10
    front = next(front for front in address(balanced(brokers)).fronts if front.connector == "mqtt")
    assert front.port == 1883
    assert [server.address[1] for server in front.backends[0].servers] == [1893, 1883]


def test_clients_leave_room_for_the_look_at_a_broker() -> None:
    fleet = balanced(hosts("orders-mq01", vip=VIP))
    assert {server.limit for front in address(fleet).fronts for server in front.backends[0].servers} == {990}


def test_what_no_balancer_can_look_at_gets_no_port() -> None:
    connectors = [{"name": name, "scheme": name, "port": port} for name, port in (("amqp", 5672), ("stomp", 61613))]
    fleet = balanced(hosts("orders-mq01", vip=VIP, connectors=connectors))
    assert [front.connector for front in address(fleet).fronts] == ["stomp"]


def test_the_balancer_that_comes_first_in_the_inventory_is_preferred() -> None:
    fleet = balanced(hosts("orders-mq01", vip=VIP), dict(reversed(TWO.items())))
    assert {b.host: b.addresses[0].priority for b in fleet.balancers} == {"lb2": 200, "lb1": 190}


def test_balancers_speak_to_each_other_only_where_their_addresses_are_known() -> None:
    one = address(balanced(hosts("orders-mq01", vip=VIP)))
    assert (one.source, one.peers) == ("10.77.0.41", ("10.77.0.42",))


def test_t024_else_they_use_multicast_all_of_them() -> None:
    balancers = TWO | {"lb3": COMMON}
    fleet = balanced(hosts("orders-mq01", vip=VIP), balancers)
    assert {(b.addresses[0].source, b.addresses[0].peers) for b in fleet.balancers} == {(None, ())}
    assert len(told(fleet, "T024")) == 3
    assert not fleet.blocking_findings


def test_t024_an_ipv6_address_needs_peers_of_its_kind() -> None:
    assert told(balanced(hosts("orders-mq01", vip="fd00::64")), "T024")


def test_one_group_may_have_its_address_from_the_balancers() -> None:
    assert address(balanced(hosts("orders-mq01"), vip=VIP)).address == VIP


def test_t020_a_balancer_without_an_address_has_nothing_to_do() -> None:
    assert told(balanced(hosts("orders-mq01")), "T020")[0] == (
        "lb1: the host is in activemq_loadbalancers, but activemq_vip is not set"
    )


def test_t020_an_address_of_the_balancers_does_not_say_for_which_of_two_groups_it_is() -> None:
    fleet = balanced(hosts("orders-mq01", "billing-mq01"), vip=VIP)
    assert "not set in the variables of any group of brokers" in told(fleet, "T020")[0]


def test_a_group_without_an_address_is_left_alone() -> None:
    fleet = balanced(hosts("orders-mq01", vip=VIP) | hosts("billing-mq01"))
    assert [one.group for one in fleet.balancers[0].addresses] == ["orders"]
    assert fleet.findings == ()


def test_t021_an_address_without_an_interface() -> None:
    fleet = balanced(hosts("orders-mq01", vip=VIP), {"lb1": LOGIN})
    assert told(fleet, "T021") == [f"lb1: activemq_vip of group orders is {VIP}, but activemq_vip_interface is not set"]


def test_t022_two_groups_with_one_address() -> None:
    fleet = balanced(hosts("orders-mq01", "billing-mq01", vip=VIP))
    assert told(fleet, "T022") == [
        f"orders-mq01-a.example.com: activemq_vip of group orders is {VIP}, "
        "which is the virtual address of group billing"
    ]


@pytest.mark.parametrize("whose", ["orders-mq01-b.example.com", "lb2"])
def test_t022_an_address_that_a_host_has_already(whose: str) -> None:
    inventory = hosts("orders-mq01", vip="10.77.0.42" if whose == "lb2" else "10.77.0.32")
    inventory["orders-mq01-b.example.com"]["activemq_address"] = "10.77.0.32"
    assert told(balanced(inventory), "T022")[0].endswith(f"which is the address of {whose}")


def test_t023_two_groups_with_one_virtual_router() -> None:
    inventory = hosts("orders-mq01", vip=VIP) | hosts("billing-mq01", vip="10.78.0.100")
    assert told(balanced(inventory), "T023") == [
        "orders-mq01-a.example.com: activemq_vip_router_id of group orders is 100, and group billing has the same id"
    ]
    other = hosts("orders-mq01", vip=VIP) | hosts("billing-mq01", vip="10.78.0.100", vip_router_id=7)
    assert told(balanced(other), "T023") == []


@pytest.mark.parametrize(("vip", "router"), [("10.77.0.9", 9), ("fd00::ff", 255), ("10.77.1.0", None)])
def test_a_virtual_router_is_the_last_byte_of_its_address(vip: str, router: int | None) -> None:
    found = address(balanced(hosts("orders-mq01", vip=vip))).router_id
    assert found == router if router else 1 <= found <= 255


def test_t025_balancers_without_a_login_are_warned_about() -> None:
    fleet = balanced(hosts("orders-mq01", vip=VIP), {"lb1": {"activemq_vip_interface": "eth0"}})
    assert len(told(fleet, "T025")) == 1
    assert not fleet.blocking_findings


def test_t026_a_balancer_whose_own_broker_listens_everywhere() -> None:
    host = "orders-mq01-a.example.com"
    assert told(balanced(hosts("orders-mq01", vip=VIP), {host: COMMON}), "T026")
    assert not told(balanced(hosts("orders-mq01", vip=VIP, bind="10.77.0.31"), {host: COMMON}), "T026")


def test_t027_brokers_that_ask_for_a_certificate() -> None:
    brokers = hosts("orders-mq01", vip=VIP, tls=TLS | {"client_auth": True})
    assert len(told(balanced(brokers), "T027")) == 2
    assert not told(balanced(brokers, vip_certificate="/etc/lb.pem"), "T027")
    assert not told(balanced(hosts("orders-mq01", vip=VIP, tls=TLS)), "T027")


def test_t009_a_group_has_one_address() -> None:
    inventory = hosts("orders-mq01", vip=VIP)
    inventory["orders-mq01-b.example.com"]["activemq_vip"] = "10.77.0.101"
    assert told(balanced(inventory), "T009") == [
        "orders-mq01-b.example.com: activemq_vip differs from the value of orders-mq01-a.example.com in group orders"
    ]


def test_t009_one_login_has_one_password() -> None:
    balancers = TWO | {"lb2": TWO["lb2"] | {"activemq_vip_password": "other"}}
    assert (
        "lb2: activemq_vip_password differs from the value of the host lb1"
        in told(balanced(hosts("orders-mq01", vip=VIP), balancers), "T009")[0]
    )


def test_t009_a_login_that_is_somebody_elses_has_his_password() -> None:
    users = [{"name": "look", "password": "another"}]
    found = told(balanced(hosts("orders-mq01", vip=VIP, users=users)), "T009")
    assert found
    assert all("activemq_vip_password differs from activemq_users[0].password" in text for text in found)


def test_t006_two_connectors_that_would_be_one_port() -> None:
    brokers = hosts("orders-mq01", vip=VIP)
    for node, name in (("a", "one"), ("b", "other")):
        connectors = [{"name": name, "scheme": "tcp", "port": 61616}]
        brokers[f"orders-mq01-{node}.example.com"]["activemq_connectors"] = connectors
    assert f"both require port 61616 of the virtual address {VIP}" in told(balanced(brokers), "T006")[0]


def test_brokers_of_a_balanced_group_know_the_login_and_give_it_no_rights() -> None:
    acl = [{"destination": "q", "kind": "queue", "read": ["ops"]}]
    fleet = balanced(hosts("orders-mq01", vip=VIP, acl=acl) | hosts("billing-mq01"))
    accounts = {broker.group: [account.name for account in broker.accounts] for broker in fleet.brokers}
    assert accounts == {"orders": ["net", "look", "activemq-probe"], "billing": ["net", "activemq-probe"]}
    look = next(account for account in fleet.broker("orders-mq01-a").accounts if account.name == "look")
    assert look.groups == ()


@pytest.mark.parametrize("vip", ["lb.example.com", "10.0.0.100/24", "224.0.0.18", "0.0.0.0", "10.0.0", "fe80::1%eth0"])
def test_an_address_that_is_none_is_wrong_input(vip: str) -> None:
    reason = r"is (not an IP|a multicast|the) address|contains a zone"
    with pytest.raises(SettingsError, match=rf"in activemq_vip, the virtual address '.*' ({reason})"):
        balanced(hosts("orders-mq01", vip=vip))


def test_a_login_is_name_and_password() -> None:
    with pytest.raises(SettingsError, match="activemq_vip_username is set, but activemq_vip_password is not"):
        balanced(hosts("orders-mq01", vip=VIP), {"lb1": {"activemq_vip_username": "look"}})


def test_a_waiver_of_the_balancers_holds_for_them() -> None:
    waivers = [{"rule": "T021", "reason": "the interface comes in May", "hosts": ["lb1"]}]
    fleet = balanced(hosts("orders-mq01", vip=VIP), {"lb1": LOGIN | {"activemq_waivers": waivers}})
    assert [found.waived for found in fleet.findings if found.rule == "T021"] == ["the interface comes in May"]
