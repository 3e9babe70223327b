"""The fleet as one graph: roles, links, accounts, waivers."""

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
from activemq_fleet.topology import build_fleet, default_home_pair_of_agent
from tests.unit.fleets import NETWORK, fleet, hosts


def links(host: str, *pairs: str, **variables: Any) -> list[str]:
    return [link.name for link in fleet(*pairs, **variables).broker(host).links]


def test_a_healthy_fleet_has_no_findings() -> None:
    found = fleet("orders-mq01", "orders-mq02")

    assert found.findings == ()
    assert [group.name for group in found.groups] == ["orders"]
    assert [pair.name for pair in found.groups[0].pairs] == ["orders-mq01", "orders-mq02"]


def test_both_nodes_of_a_pair_carry_the_same_links() -> None:
    found = fleet("orders-mq01", "orders-mq02", "orders-mq03")

    assert found.broker("orders-mq01-a").links == found.broker("orders-mq01-b").links


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
def test_links_inside_a_group_follow_its_topology(topology: str, expected: list[str]) -> None:
    assert links("o-mq2-a", "o-mq1", "o-mq10", "o-mq2", "o-mq3", topology=topology) == expected


def test_a_ring_closes() -> None:
    assert links("o-mq3-b", "o-mq1", "o-mq2", "o-mq3", topology="ring") == ["o-mq3-to-o-mq1"]


def test_links_are_duplex_except_in_a_mesh() -> None:
    assert all(link.duplex for link in fleet("o-mq1", "o-mq2", topology="hub").broker("o-mq2-a").links)
    assert not any(link.duplex for link in fleet("o-mq1", "o-mq2").broker("o-mq2-a").links)


def test_a_mesh_needs_no_hop_limit_for_messages_once_the_release_tells_them_apart() -> None:
    new = fleet("o-mq1", "o-mq2", "o-mq3").broker("o-mq1-a").links[0]
    old = fleet("o-mq1", "o-mq2", "o-mq3", release="5.8.0").broker("o-mq1-a").links[0]

    assert (new.network_ttl, new.consumer_ttl, new.message_ttl) == (None, 1, -1)
    assert (old.network_ttl, old.consumer_ttl, old.message_ttl) == (1, None, None)


@pytest.mark.parametrize(("topology", "ttl"), [("hub", 2), ("chain", 3), ("ring", 2)])
def test_the_ttl_is_the_longest_path(topology: str, ttl: int) -> None:
    link = fleet("o-mq1", "o-mq2", "o-mq3", "o-mq4", topology=topology).broker("o-mq2-a").links[0]

    assert link.network_ttl == ttl


@pytest.mark.parametrize(
    ("ttl", "wanted"),
    [(-1, (-1, None, None)), ({"consumer": 2}, (None, 2, -1)), ({"consumer": 1, "message": 9999}, (None, 1, 9999))],
)
def test_a_ttl_may_have_no_limit_or_one_for_demand_and_one_for_messages(
    ttl: int | dict[str, int], wanted: tuple[int | None, ...]
) -> None:
    for own in ({"network_ttl": ttl}, {"topology": "none", "links": [{"from": "o-mq1", "to": "o-mq2", "ttl": ttl}]}):
        found = fleet("o-mq1", "o-mq2", **own)
        link = found.broker("o-mq1-a").links[0]
        assert (link.network_ttl, link.consumer_ttl, link.message_ttl) == wanted
        assert found.findings == ()
        assert {finding.rule for finding in fleet("o-mq1", "o-mq2", release="5.8.0", **own).findings} == {"T011"}


@pytest.mark.parametrize("ttl", [0, -2, True, "3", {}, {"consumer": 0}, {"consumers": 1}])
def test_a_ttl_that_lets_nothing_through_is_refused(ttl: object) -> None:
    with pytest.raises(SettingsError, match=r"in activemq_network_ttl, the TTL .* write a whole number of 1 or more"):
        fleet("o-mq1", network_ttl=ttl)


def test_links_between_groups_lengthen_the_path_of_both() -> None:
    between = [{"from": "shop", "to": "hub", "duplex": True, "include": ["orders.>"]}]
    found = fleet("hub-mq1", "shop-mq1", "shop-mq2", links=between, topology="none")
    link = found.broker("shop-mq2-b").links[0]

    assert (link.name, link.duplex, link.network_ttl) == ("shop-mq2-to-hub-mq1", True, 2)
    assert link.include == ("queue://orders.>",)
    assert found.broker("hub-mq1-a").links == ()
    assert found.broker("hub-mq1-a").networked


def test_a_link_may_carry_topics_of_mqtt_with_dots() -> None:
    between = [{"from": "a", "to": "b", "include": ["topic://v1/2.>", "plain/1"]}]
    link = fleet("a-mq1", "b-mq1", links=between).broker("a-mq1-a").links[0]

    assert link.include == ("topic://v1/2.>", "queue://plain/1")


def test_a_link_may_name_pairs() -> None:
    between = [{"from": "shop-mq2", "to": "hub-mq1", "name": "uplink", "ttl": 5}]
    found = fleet("hub-mq1", "shop-mq1", "shop-mq2", links=between, topology="none")

    assert found.broker("shop-mq1-a").links == ()
    assert [(link.name, link.network_ttl) for link in found.broker("shop-mq2-a").links] == [("uplink", 5)]


def test_the_pure_profile_is_that_of_2011() -> None:
    found = fleet("clustername-mq01", "clustername-mq02", release="5.5.1", ha="pure")
    master, slave = found.broker("clustername-mq01-a"), found.broker("clustername-mq01-b")

    assert found.findings == ()
    assert (master.broker_name, slave.broker_name) == ("clustername-mq01-a", "clustername-mq01-b")
    assert master.ports == {"openwire": 61616, "replication": 61618, "stomp": 61613, "console": 8161}
    assert slave.connectors == ()
    assert slave.peer_address == ("clustername-mq01-a.example.com", 61618)
    assert [(link.name, link.duplex, link.network_ttl) for link in (*master.links, *slave.links)] == [
        ("clustername-mq01-a-clustername", True, 3),
        ("clustername-mq01-b-clustername", False, 3),
    ]


def test_only_one_connector_announces_a_broker() -> None:
    two = [{"name": "a", "scheme": "nio", "port": 61616}, {"name": "b", "scheme": "tcp", "port": 61617}]
    broker = fleet("o-mq1", "o-mq2", connectors=two, discovery="multicast", environment="test").broker("o-mq1-a")

    assert [c.discovery_uri for c in broker.connectors] == ["multicast://224.1.2.3:6255?group=test-o", None]


def test_two_nodes_on_one_machine_differ_by_offset_and_may_link_to_each_other() -> None:
    both = hosts("o-mq1", address="mq.example.com", pair_links="static", service="none")
    both["o-mq1-b.example.com"]["activemq_port_offset"] = 10
    found = build_fleet(both, {})

    assert found.findings == ()
    assert found.broker("o-mq1-b").ports == {"openwire": 61626, "stomp": 61623, "mqtt": 1893, "console": 8171}
    assert found.broker("o-mq1-a").links[0].uri == "static:(tcp://mq.example.com:61626)?maxReconnectDelay=2000"
    assert found.broker("o-mq1-b").links[0].uri == "static:(tcp://mq.example.com:61616)?maxReconnectDelay=2000"


TLS = dict.fromkeys(("keystore", "truststore"), "/etc/x") | dict.fromkeys(
    ("keystore_password", "truststore_password"), "hush"
)


def test_tls_takes_the_schemes_of_the_release() -> None:
    old, new = (fleet("o-mq1", "o-mq2", release=release, tls=TLS).broker("o-mq1-a") for release in ("5.5.1", "6.3.1"))

    assert [c.scheme for c in old.connectors] == ["ssl", "stomp+ssl"]
    assert [c.scheme for c in new.connectors] == ["nio+ssl", "stomp+nio+ssl", "mqtt+nio+ssl"]
    assert "ssl://o-mq2-a.example.com:61616" in new.links[0].uri


@pytest.mark.parametrize(
    ("release", "schemes"),
    [
        ("5.7.0", ["ssl", "stomp+ssl", "mqtt+ssl"]),
        ("5.8.0", ["ssl", "stomp+ssl", "mqtt+ssl"]),
        ("5.14.5", ["nio+ssl", "stomp+nio+ssl", "mqtt+nio+ssl"]),
    ],
)
def test_a_client_without_a_certificate_is_refused_on_every_listener(release: str, schemes: list[str]) -> None:
    connectors = fleet("o-mq1", release=release, tls=TLS | {"client_auth": True}).broker("o-mq1-a").connectors

    assert [connector.scheme for connector in connectors] == schemes
    assert all(connector.options["transport.needClientAuth"] == "true" for connector in connectors)


@pytest.mark.parametrize(("given", "schemes"), [("nio", ["ssl"]), ("nio+ssl", ["nio+ssl"])])
def test_tls_over_nio_is_left_to_those_who_name_it_where_it_does_not_read_on(given: str, schemes: list[str]) -> None:
    connectors = [{"name": "openwire", "scheme": given, "port": 61616}]
    found = fleet("o-mq1", release="5.11.4", tls=TLS, connectors=connectors).broker("o-mq1-a")

    assert [connector.scheme for connector in found.connectors] == schemes


def test_agents_get_their_home_pair_preferred_master_first() -> None:
    credentials = {"activemq_agent_username": "agent", "activemq_agent_password": "pw"}
    agent = {"a1": credentials | {"activemq_agent_pair": "o-mq2"}}
    found = build_fleet(hosts("o-mq1", "o-mq2") | agent, {"activemq_agents": ["a1"]})

    assert found.agents[0].urls == (("o-mq2-a.example.com", 1883), ("o-mq2-b.example.com", 1883))
    assert [account.name for account in found.broker("o-mq1-a").accounts] == ["net", "agent", "activemq-probe"]


@given(st.lists(st.from_regex(r"o-mq[0-9]{2}", fullmatch=True), min_size=2, unique=True), st.text("ab", min_size=1))
def test_a_pair_that_comes_moves_only_agents_that_move_to_it(pairs: list[str], host: str) -> None:
    before, after = default_home_pair_of_agent(host, pairs[:-1]), default_home_pair_of_agent(host, pairs)

    assert after in (before, pairs[-1])


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


def test_with_acls_each_group_gets_what_its_work_needs() -> None:
    acl = [{"destination": "orders.>", "kind": "queue", "read": "staff", "write": "staff", "admin": "staff"}]
    users = [{"name": "ann", "password": "pw", "groups": "staff"}]
    agent = {"a1": {"activemq_agent_username": "agent", "activemq_agent_password": "pw"}}
    agent["a1"]["activemq_agent_topics"] = ["instance/+/#"]  # type: ignore[assignment]
    inventory = hosts("o-mq1", "o-mq2", acl=acl, users=users) | agent
    found = build_fleet(inventory, {"activemq_agents": ["a1"]}).broker("o-mq1-a").permissions

    assert {(p.kind, p.destination): p.read for p in found} == {
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
    (advisories,) = [entry for entry in found if entry.destination == "ActiveMQ.Advisory.>"]
    assert (advisories.write, advisories.admin) == ((), advisories.read)


def test_an_agents_account_alone_may_send_its_canaries_and_barriers() -> None:
    agents = {
        f"a{n}": {"activemq_agent_username": f"user{n}", "activemq_agent_password": "pw"} for n in (1, 2)
    }  # fmt: skip
    agents["a1"]["activemq_agent_topics"] = "kiosks/+/orders,news/#,alarm"
    agents["a2"]["activemq_agent_publish_prefixes"] = "deep/down"
    inventory = hosts("o-mq1", acl=[{"destination": "x", "kind": "queue"}]) | agents
    broker = build_fleet(inventory, {"activemq_agents": ["a1", "a2"]}).broker("o-mq1-a")
    written = {
        group: [entry.destination for entry in broker.permissions if entry.write == (group,)]
        for group in ("activemq-agents", "activemq-agent-user1", "activemq-agent-user2")
    }
    assert written == {
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
def test_an_agent_may_use_its_topics_where_the_release_puts_them(release: str, destination: str) -> None:
    agent = {"a1": {"activemq_agent_username": "agent", "activemq_agent_password": "pw"}}
    agent["a1"]["activemq_agent_topics"] = "v1.2/+/#"
    inventory = hosts("o-mq1", release=release, acl=[{"destination": "x", "kind": "queue"}]) | agent
    found = build_fleet(inventory, {"activemq_agents": ["a1"]}).broker("o-mq1-a").permissions

    assert destination in [entry.destination for entry in found if entry.read == ("activemq-agents",)]


def test_a_network_user_may_do_what_all_links_carry_together() -> None:
    between = [{"from": "a", "to": "b", "include": ["orders.>"]}]
    acl = [{"destination": "x", "kind": "queue"}]
    found = fleet("a-mq1", "a-mq2", "b-mq1", discovery="multicast", links=between, acl=acl)

    everything = {
        entry.kind
        for entry in found.broker("a-mq1-a").permissions
        if entry.destination == ">" and "activemq-network" in entry.write
    }
    assert everything == {"queue", "topic"}


def test_a_waiver_lets_a_finding_pass_until_its_day() -> None:
    waiver = [{"rule": "T002", "reason": "b arrives in May", "hosts": ["o-*"], "until": "2030-05-31"}]
    inventory = hosts("o-mq1", nodes="a", waivers=waiver)
    before, after = (build_fleet(inventory, {}, today=date(2030, month, 1)) for month in (5, 6))

    assert before.findings[0].waived == "b arrives in May"
    assert before.blocking_findings == ()
    assert after.blocking_findings[0].rule == "T002"
    assert "expired on 2030-05-31" in after.warnings[0]


def test_an_inventory_without_brokers_is_refused() -> None:
    with pytest.raises(InputError, match="no host of this inventory is a broker"):
        build_fleet({"db1": {}}, {})


def test_a_host_without_a_release_is_refused() -> None:
    with pytest.raises(SettingsError, match="o-mq1-a: activemq_release is not set"):
        build_fleet({"o-mq1-a": {}}, {})


def test_an_unknown_release_names_host_and_nearest_line() -> None:
    with pytest.raises(ReleaseError, match=r"o-mq1-a\.example\.com, .*5\.2\.1"):
        fleet("o-mq1", release="5.2.1")


def test_a_mistake_of_a_whole_group_is_one_line() -> None:
    with pytest.raises(SettingsError) as caught:
        fleet("o-mq1", "o-mq2", "o-mq3", heap="much")

    assert caught.value.problems[0].startswith(
        "o-mq1-a.example.com, o-mq1-b.example.com, o-mq2-a.example.com and 3 more:"
    )


def test_an_unknown_patch_is_a_warning() -> None:
    assert "release 5.18.99 is newer than 5.18.7" in fleet("o-mq1", release="5.18.99").warnings[0]


def test_a_third_node_and_other_names_that_nearly_match_are_a_finding() -> None:
    inventory = hosts("o-mq1") | {"o-mq1-c.example.com": NETWORK, "o-mq3_a": NETWORK, "o-mq1-agent": NETWORK, "web": {}}

    findings = build_fleet(inventory, {"activemq_agents": ["o-mq1-agent"]}).findings

    assert [(f.host, f.severity) for f in findings if f.rule == "T017"] == [
        ("o-mq1-c.example.com", "warning"),
        ("o-mq3_a", "warning"),
    ]


def test_one_host_looks_the_same_whoever_else_is_asked_for() -> None:
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
def test_name_that_is_no_broker_is_refused_with_the_brokers_of_that_name(name: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        fleet("o-mq1", "o-mq2").broker(name)
