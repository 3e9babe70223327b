"""The fleet as a graph: roles, links, accounts and waivers."""

from __future__ import annotations

import hashlib
import re
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.errors import InputError, ReleaseError, SettingsError
from activemq_fleet.render import render_broker
from activemq_fleet.render.credentials import PATH as CREDENTIALS
from activemq_fleet.topology import build_fleet
from activemq_fleet.topology.agents import home_pair_of_agent_by_hash
from tests.unit.fleets import NETWORK, fleet, hosts


def link_names(host: str, *pairs: str, **variables: Any) -> list[str]:
    """Return the names of the links of a host in a fleet of pairs."""
    return [link.name for link in fleet(*pairs, **variables).broker(host).links]


def test_healthy_fleet_has_no_findings() -> None:
    built_fleet = fleet("orders-mq01", "orders-mq02")

    assert built_fleet.findings == ()
    assert [group.name for group in built_fleet.groups] == ["orders"]
    assert [pair.name for pair in built_fleet.groups[0].pairs] == ["orders-mq01", "orders-mq02"]


def test_both_nodes_of_pair_have_same_links() -> None:
    built_fleet = fleet("orders-mq01", "orders-mq02", "orders-mq03")

    assert built_fleet.broker("orders-mq01-a").links == built_fleet.broker("orders-mq01-b").links


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        ("mesh", ["o-mq2-to-o-mq1", "o-mq2-to-o-mq3", "o-mq2-to-o-mq10"]),
        ("hub", ["o-mq2-to-o-mq1"]),
        ("chain", ["o-mq2-to-o-mq3"]),
        ("ring", ["o-mq2-to-o-mq3"]),
        ("none", []),
    ],
)
def test_links_inside_group_follow_activemq_topology(topology: str, expected: list[str]) -> None:
    assert link_names("o-mq2-a", "o-mq1", "o-mq10", "o-mq2", "o-mq3", topology=topology) == expected


def test_last_pair_of_ring_links_to_first_pair() -> None:
    assert link_names("o-mq3-b", "o-mq1", "o-mq2", "o-mq3", topology="ring") == ["o-mq3-to-o-mq1"]


def test_links_of_hub_are_duplex_and_links_of_mesh_are_not() -> None:
    assert all(link.duplex for link in fleet("o-mq1", "o-mq2", topology="hub").broker("o-mq2-a").links)
    assert not any(link.duplex for link in fleet("o-mq1", "o-mq2").broker("o-mq2-a").links)


def test_mesh_has_unlimited_message_ttl_if_release_has_separate_ttls() -> None:
    new_link = fleet("o-mq1", "o-mq2", "o-mq3").broker("o-mq1-a").links[0]
    old_link = fleet("o-mq1", "o-mq2", "o-mq3", release="5.8.0").broker("o-mq1-a").links[0]

    assert (new_link.network_ttl, new_link.consumer_ttl, new_link.message_ttl) == (None, 1, -1)
    assert (old_link.network_ttl, old_link.consumer_ttl, old_link.message_ttl) == (1, None, None)


@pytest.mark.parametrize(("topology", "ttl"), [("hub", 2), ("chain", 3), ("ring", 2)])
def test_network_ttl_of_link_is_length_of_longest_path_of_topology(topology: str, ttl: int) -> None:
    link = fleet("o-mq1", "o-mq2", "o-mq3", "o-mq4", topology=topology).broker("o-mq2-a").links[0]

    assert link.network_ttl == ttl


@pytest.mark.parametrize(
    ("ttl", "expected"),
    [(-1, (-1, None, None)), ({"consumer": 2}, (None, 2, -1)), ({"consumer": 1, "message": 9999}, (None, 1, 9999))],
)
def test_network_ttl_can_be_unlimited_or_separate_for_consumers_and_messages(
    ttl: int | dict[str, int], expected: tuple[int | None, ...]
) -> None:
    for variables in (
        {"network_ttl": ttl},
        {"topology": "none", "links": [{"from": "o-mq1", "to": "o-mq2", "ttl": ttl}]},
    ):
        built_fleet = fleet("o-mq1", "o-mq2", **variables)
        link = built_fleet.broker("o-mq1-a").links[0]
        assert (link.network_ttl, link.consumer_ttl, link.message_ttl) == expected
        assert built_fleet.findings == ()
        assert {finding.rule for finding in fleet("o-mq1", "o-mq2", release="5.8.0", **variables).findings} == {"T011"}


@pytest.mark.parametrize("ttl", [0, -2, True, "3", {}, {"consumer": 0}, {"consumers": 1}])
def test_invalid_activemq_network_ttl_is_refused(ttl: object) -> None:
    with pytest.raises(SettingsError, match=r"in activemq_network_ttl, the TTL .* write a whole number of 1 or more"):
        fleet("o-mq1", network_ttl=ttl)


def test_ttl_of_link_between_groups_covers_both_groups() -> None:
    links = [{"from": "shop", "to": "hub", "duplex": True, "include": ["orders.>"]}]
    built_fleet = fleet("hub-mq1", "shop-mq1", "shop-mq2", links=links, topology="none")
    link = built_fleet.broker("shop-mq2-b").links[0]

    assert (link.name, link.duplex, link.network_ttl) == ("shop-mq2-to-hub-mq1", True, 2)
    assert link.include == ("queue://orders.>",)
    assert built_fleet.broker("hub-mq1-a").links == ()
    assert built_fleet.broker("hub-mq1-a").networked


def test_link_can_include_mqtt_topics_with_dots() -> None:
    links = [{"from": "a", "to": "b", "include": ["topic://v1/2.>", "plain/1"]}]
    link = fleet("a-mq1", "b-mq1", links=links).broker("a-mq1-a").links[0]

    assert link.include == ("topic://v1/2.>", "queue://plain/1")


def test_link_between_named_pairs_applies_only_to_these_pairs() -> None:
    links = [{"from": "shop-mq2", "to": "hub-mq1", "name": "uplink", "ttl": 5}]
    built_fleet = fleet("hub-mq1", "shop-mq1", "shop-mq2", links=links, topology="none")

    assert built_fleet.broker("shop-mq1-a").links == ()
    assert [(link.name, link.network_ttl) for link in built_fleet.broker("shop-mq2-a").links] == [("uplink", 5)]


def test_pure_profile_has_names_ports_and_links_of_deployment_of_2011() -> None:
    built_fleet = fleet("clustername-mq01", "clustername-mq02", release="5.5.1", ha="pure")
    master, slave = built_fleet.broker("clustername-mq01-a"), built_fleet.broker("clustername-mq01-b")

    assert built_fleet.findings == ()
    assert (master.broker_name, slave.broker_name) == ("clustername-mq01-a", "clustername-mq01-b")
    assert master.ports == {"openwire": 61616, "replication": 61618, "stomp": 61613, "console": 8161}
    assert slave.connectors == ()
    assert slave.peer_address == ("clustername-mq01-a.example.com", 61618)
    assert [(link.name, link.duplex, link.network_ttl) for link in (*master.links, *slave.links)] == [
        ("clustername-mq01-a-clustername", True, 3),
        ("clustername-mq01-b-clustername", False, 3),
    ]


def test_only_first_connector_announces_broker() -> None:
    connectors = [{"name": "a", "scheme": "nio", "port": 61616}, {"name": "b", "scheme": "tcp", "port": 61617}]
    broker = fleet("o-mq1", "o-mq2", connectors=connectors, discovery="multicast", environment="test").broker("o-mq1-a")

    assert [c.discovery_uri for c in broker.connectors] == ["multicast://224.1.2.3:6255?group=test-o", None]


def test_nodes_on_same_host_differ_by_port_offset_and_can_link_to_each_other() -> None:
    inventory = hosts("o-mq1", address="mq.example.com", pair_links="static", service="none")
    inventory["o-mq1-b.example.com"]["activemq_port_offset"] = 10
    built_fleet = build_fleet(inventory, {})

    assert built_fleet.findings == ()
    assert built_fleet.broker("o-mq1-b").ports == {"openwire": 61626, "stomp": 61623, "mqtt": 1893, "console": 8171}
    assert built_fleet.broker("o-mq1-a").links[0].uri == "static:(tcp://mq.example.com:61626)?maxReconnectDelay=2000"
    assert built_fleet.broker("o-mq1-b").links[0].uri == "static:(tcp://mq.example.com:61616)?maxReconnectDelay=2000"


TLS = dict.fromkeys(("keystore", "truststore"), "/etc/x") | dict.fromkeys(
    ("keystore_password", "truststore_password"), "hush"
)


def test_tls_uses_schemes_of_release() -> None:
    old_broker, new_broker = (
        fleet("o-mq1", "o-mq2", release=release, tls=TLS).broker("o-mq1-a") for release in ("5.5.1", "6.3.1")
    )

    assert [c.scheme for c in old_broker.connectors] == ["ssl", "stomp+ssl"]
    assert [c.scheme for c in new_broker.connectors] == ["nio+ssl", "stomp+nio+ssl", "mqtt+nio+ssl"]
    assert "ssl://o-mq2-a.example.com:61616" in new_broker.links[0].uri


@pytest.mark.parametrize(
    ("release", "schemes"),
    [
        ("5.7.0", ["ssl", "stomp+ssl", "mqtt+ssl"]),
        ("5.8.0", ["ssl", "stomp+ssl", "mqtt+ssl"]),
        ("5.14.5", ["nio+ssl", "stomp+nio+ssl", "mqtt+nio+ssl"]),
    ],
)
def test_client_auth_requires_client_certificate_on_every_connector(release: str, schemes: list[str]) -> None:
    connectors = fleet("o-mq1", release=release, tls=TLS | {"client_auth": True}).broker("o-mq1-a").connectors

    assert [connector.scheme for connector in connectors] == schemes
    assert all(connector.options["transport.needClientAuth"] == "true" for connector in connectors)


@pytest.mark.parametrize(("scheme", "schemes"), [("nio", ["ssl"]), ("nio+ssl", ["nio+ssl"])])
def test_tls_connector_uses_nio_in_5_11_only_if_scheme_is_nio_ssl(scheme: str, schemes: list[str]) -> None:
    connectors = [{"name": "openwire", "scheme": scheme, "port": 61616}]
    broker = fleet("o-mq1", release="5.11.4", tls=TLS, connectors=connectors).broker("o-mq1-a")

    assert [connector.scheme for connector in broker.connectors] == schemes


def test_urls_of_agent_are_home_pair_with_preferred_master_first() -> None:
    credentials = {"activemq_agent_username": "agent", "activemq_agent_password": "pw"}
    agent = {"a1": credentials | {"activemq_agent_pair": "o-mq2"}}
    built_fleet = build_fleet(hosts("o-mq1", "o-mq2") | agent, {"activemq_agents": ["a1"]})

    assert built_fleet.agents[0].urls == (("o-mq2-a.example.com", 1883), ("o-mq2-b.example.com", 1883))
    assert [account.name for account in built_fleet.broker("o-mq1-a").accounts] == ["net", "agent", "activemq-probe"]


@given(st.lists(st.from_regex(r"o-mq[0-9]{2}", fullmatch=True), min_size=2, unique=True), st.text("ab", min_size=1))
def test_added_pair_moves_agents_only_to_itself(pairs: list[str], host: str) -> None:
    home_before, home_after = home_pair_of_agent_by_hash(host, pairs[:-1]), home_pair_of_agent_by_hash(host, pairs)

    assert home_after in (home_before, pairs[-1])


def test_probe_password_is_derived_only_for_revealed_files(monkeypatch: pytest.MonkeyPatch) -> None:
    derivations = []
    pbkdf2 = hashlib.pbkdf2_hmac

    def count_derivation(*arguments: Any) -> bytes:
        derivations.append(arguments)
        return pbkdf2(*arguments)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", count_derivation)
    broker = fleet("o-mq1", network_password="made-up-for-this-test-alone").broker("o-mq1-a")
    masked = render_broker(broker)[CREDENTIALS].decode()
    assert "activemq.probe.password=@activemq_probe_password@" in masked
    assert not derivations
    revealed = render_broker(broker, reveal=True)[CREDENTIALS].decode()
    assert re.search(r"^activemq\.probe\.password=[0-9a-f]{40}$", revealed, re.MULTILINE)
    assert len(derivations) == 1


def test_acl_gives_each_group_its_required_permissions() -> None:
    acl = [{"destination": "orders.>", "kind": "queue", "read": "staff", "write": "staff", "admin": "staff"}]
    users = [{"name": "ann", "password": "pw", "groups": "staff"}]
    agent = {"a1": {"activemq_agent_username": "agent", "activemq_agent_password": "pw"}}
    agent["a1"]["activemq_agent_topics"] = ["instance/+/#"]  # type: ignore[assignment]
    inventory = hosts("o-mq1", "o-mq2", acl=acl, users=users) | agent
    permissions = build_fleet(inventory, {"activemq_agents": ["a1"]}).broker("o-mq1-a").permissions

    assert {(p.kind, p.destination): p.read for p in permissions} == {
        ("queue", "orders.>"): ("staff",),
        ("topic", "ActiveMQ.Advisory.>"): ("activemq-network", "staff", "activemq-agents"),
        ("queue", ">"): ("activemq-network",),
        ("topic", ">"): ("activemq-network",),
        ("topic", "instance.*.>"): ("activemq-agents",),
        ("topic", "instance.*.*"): ("activemq-agents",),
        ("topic", "activemq.fleet.probe.*"): ("activemq-probes",),
        ("topic", "ActiveMQ.Advisory.Connection"): (),
        ("topic", "ActiveMQ.Advisory.Topic"): (),
        ("topic", "ActiveMQ.Advisory.*.Topic.activemq.fleet.probe.*"): (),
        **{("topic", name): ("activemq-agent-agent",) for name in (
            "__canary__.a1-publisher", "__canary__.a1-subscriber", "__canary__.a1-check",
            "instance.*.__canary__.a1-subscriber", "instance.*.__canary__.a1", "instance.*.__barrier__.a1",
        )},
    }  # fmt: skip
    (advisories,) = [entry for entry in permissions if entry.destination == "ActiveMQ.Advisory.>"]
    assert (advisories.write, advisories.admin) == ((), advisories.read)


def test_only_account_of_agent_can_send_its_canaries_and_barriers() -> None:
    agents = {
        f"a{n}": {"activemq_agent_username": f"user{n}", "activemq_agent_password": "pw"} for n in (1, 2)
    }  # fmt: skip
    agents["a1"]["activemq_agent_topics"] = "kiosks/+/orders,news/#,alarm"
    agents["a2"]["activemq_agent_publish_prefixes"] = "deep/down"
    inventory = hosts("o-mq1", acl=[{"destination": "x", "kind": "queue"}]) | agents
    broker = build_fleet(inventory, {"activemq_agents": ["a1", "a2"]}).broker("o-mq1-a")
    writable = {
        group: [entry.destination for entry in broker.permissions if entry.write == (group,)]
        for group in ("activemq-agents", "activemq-agent-user1", "activemq-agent-user2")
    }
    assert writable == {
        "activemq-agents": ["kiosks.*.orders", "alarm", "news.*", "deep.down.*"],
        "activemq-agent-user1": [
            "__canary__.a1-publisher", "__canary__.a1-subscriber", "__canary__.a1-check",
            "news.__canary__.a1-subscriber", "kiosks.*.__canary__.a1", "kiosks.*.__barrier__.a1",
            "news.__canary__.a1", "news.__barrier__.a1", "alarm.__canary__.a1", "alarm.__barrier__.a1",
        ],
        "activemq-agent-user2": [
            "__canary__.a2-publisher", "__canary__.a2-subscriber", "__canary__.a2-check",
            "deep.down.__canary__.a2", "deep.down.__barrier__.a2",
        ],
    }  # fmt: skip
    assert [account.groups for account in broker.accounts if account.name.startswith("user")] == [
        ("activemq-agents", "activemq-agent-user1"),
        ("activemq-agents", "activemq-agent-user2"),
    ]


@pytest.mark.parametrize(
    ("release", "destination"), [("5.9.1", "v1.2.*.>"), ("5.10.0", "v1/2.*.>"), ("6.3.1", "v1/2.*.>")]
)
def test_agent_can_read_destinations_to_which_release_maps_its_topics(release: str, destination: str) -> None:
    agent = {"a1": {"activemq_agent_username": "agent", "activemq_agent_password": "pw"}}
    agent["a1"]["activemq_agent_topics"] = "v1.2/+/#"
    inventory = hosts("o-mq1", release=release, acl=[{"destination": "x", "kind": "queue"}]) | agent
    permissions = build_fleet(inventory, {"activemq_agents": ["a1"]}).broker("o-mq1-a").permissions

    assert destination in [entry.destination for entry in permissions if entry.read == ("activemq-agents",)]


def test_network_user_has_permissions_for_destinations_of_all_links() -> None:
    links = [{"from": "a", "to": "b", "include": ["orders.>"]}]
    acl = [{"destination": "x", "kind": "queue"}]
    built_fleet = fleet("a-mq1", "a-mq2", "b-mq1", discovery="multicast", links=links, acl=acl)

    kinds = {
        entry.kind
        for entry in built_fleet.broker("a-mq1-a").permissions
        if entry.destination == ">" and "activemq-network" in entry.write
    }
    assert kinds == {"queue", "topic"}


STATIC_BRIDGE = {"staticBridge": True}


@pytest.mark.parametrize(
    ("entry", "network_attributes", "destinations"),
    [
        ({"static_include": ["audit"], "attributes": STATIC_BRIDGE}, {}, {"queue://audit"}),
        ({"static_include": ["audit"]}, STATIC_BRIDGE, {"queue://audit"}),
        ({"include": ["orders.>"], "static_include": ["audit"]}, STATIC_BRIDGE, {"queue://audit"}),
        ({"include": ["orders.>"]}, STATIC_BRIDGE, set()),
        ({"include": ["orders.>"], "static_include": ["audit"]}, {}, {"queue://orders.>", "queue://audit"}),
        ({"static_include": ["audit"]}, {}, {"queue://>", "topic://>"}),
    ],
)
@pytest.mark.parametrize("host", ["a-mq1-a", "b-mq1-a"])
def test_network_user_has_permissions_only_for_destinations_that_link_carries(
    entry: dict[str, Any], network_attributes: dict[str, Any], destinations: set[str], host: str
) -> None:
    links = [{"from": "a", "to": "b", **entry}]
    acl = [{"destination": "x", "kind": "queue"}]
    built_fleet = fleet("a-mq1", "b-mq1", links=links, acl=acl, network_attributes=network_attributes)

    permissions = built_fleet.broker(host).permissions
    assert {f"{p.kind}://{p.destination}" for p in permissions if "activemq-network" in p.write} == destinations


@pytest.mark.parametrize(
    ("attributes_of_second", "destinations"), [({}, {"queue://>", "topic://>"}), (STATIC_BRIDGE, set())]
)
def test_static_bridge_in_multicast_group_keeps_permissions_for_links_of_others(
    attributes_of_second: dict[str, Any], destinations: set[str]
) -> None:
    variables: dict[str, Any] = {"discovery": "multicast", "acl": [{"destination": "x", "kind": "queue"}]}
    inventory = hosts("a-mq1", **variables, network_attributes=STATIC_BRIDGE)
    inventory |= hosts("a-mq2", **variables, network_attributes=attributes_of_second)
    built_fleet = build_fleet(inventory, {})

    for host in ("a-mq1-a", "a-mq2-a"):
        permissions = built_fleet.broker(host).permissions
        assert {f"{p.kind}://{p.destination}" for p in permissions if "activemq-network" in p.write} == destinations


def test_waiver_accepts_finding_until_its_last_day() -> None:
    waiver = [{"rule": "T002", "reason": "b arrives in May", "hosts": ["o-*"], "until": "2030-05-31"}]
    inventory = hosts("o-mq1", nodes="a", waivers=waiver)
    fleet_before, fleet_after = (build_fleet(inventory, {}, today=date(2030, month, 1)) for month in (5, 6))

    assert fleet_before.findings[0].waived == "b arrives in May"
    assert fleet_before.blocking_findings == ()
    assert fleet_after.blocking_findings[0].rule == "T002"
    assert "expired on 2030-05-31" in fleet_after.warnings[0]


def test_inventory_without_brokers_is_refused() -> None:
    with pytest.raises(InputError, match="no host of this inventory is a broker"):
        build_fleet({"db1": {}}, {})


def test_host_without_release_is_refused() -> None:
    with pytest.raises(SettingsError, match="o-mq1-a: activemq_release is not set"):
        build_fleet({"o-mq1-a": {}}, {})


def test_error_of_unknown_release_names_host_and_release() -> None:
    with pytest.raises(ReleaseError, match=r"o-mq1-a\.example\.com, .*5\.2\.1"):
        fleet("o-mq1", release="5.2.1")


def test_same_error_of_several_hosts_is_merged() -> None:
    with pytest.raises(SettingsError) as caught:
        fleet("o-mq1", "o-mq2", "o-mq3", heap="much")

    assert caught.value.problems[0].startswith(
        "o-mq1-a.example.com, o-mq1-b.example.com, o-mq2-a.example.com and 3 more:"
    )


def test_unknown_patch_release_is_warning() -> None:
    assert "release 5.18.99 is newer than 5.18.7" in fleet("o-mq1", release="5.18.99").warnings[0]


def test_host_names_that_nearly_match_naming_pattern_are_warnings() -> None:
    inventory = hosts("o-mq1") | {"o-mq1-c.example.com": NETWORK, "o-mq3_a": NETWORK, "o-mq1-agent": NETWORK, "web": {}}

    findings = build_fleet(inventory, {"activemq_agents": ["o-mq1-agent"]}).findings

    assert [(f.host, f.severity) for f in findings if f.rule == "T017"] == [
        ("o-mq1-c.example.com", "warning"),
        ("o-mq3_a", "warning"),
    ]


def test_fleet_does_not_depend_on_order_of_inventory() -> None:
    inventory = hosts("o-mq1", "o-mq2")

    assert build_fleet(inventory, {}) == build_fleet(dict(reversed(inventory.items())), {})


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("o-mq1", "o-mq1 is a pair, not a broker: choose one of its brokers: o-mq1-a.example.com, o-mq1-b.example.com"),
        ("o", "o is a group, not a broker: choose one of its brokers: o-mq1-a.example.com, o-mq1-b.example.com, "),
        ("o-mq3", "o-mq3 is not a broker of this inventory"),
    ],
)
def test_host_name_that_is_no_broker_of_fleet_is_refused_with_reason(name: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        fleet("o-mq1", "o-mq2").broker(name)
