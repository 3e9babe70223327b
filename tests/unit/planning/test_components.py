"""Which groups belong to one component, what it has to know of the others, and what is refused before."""

from __future__ import annotations

import random
from datetime import date
from typing import Any

import pytest

from activemq_fleet.errors import FleetError, InputError, ReleaseError, SettingsError
from activemq_fleet.topology.links import component_representative_by_name
from tests.unit.planning.components import divided
from tests.unit.planning.planned import AGENT, VIP, pairs, tangled


def components(hosts: dict[str, Any], groups: dict[str, list[str]] | None = None) -> set[frozenset[str]]:
    """The groups of each component."""
    found: dict[str, set[str]] = {}
    for key, component in divided(hosts, groups or {}).component_of.items():
        if key.startswith("group "):
            found.setdefault(component, set()).add(key.removeprefix("group "))
    return {frozenset(names) for names in found.values()}


def two(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return pairs("one-mq01", **one) | pairs("two-mq01", **other) | pairs("zero-mq01")


DIAL = '<networkConnector name="out" uri="static:(tcp://{}:61616)"/>'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"links": [{"from": "one", "to": "two"}]}, {}),
        ({"links": [{"from": "two-mq01", "to": "one-mq01"}]}, {}),
        ({"address": "10.0.0.1"}, {"address": "10.0.0.1"}),
        ({"xml_fragments": [{"parent": "broker", "xml": DIAL.format("two-mq01-a.example.com")}]}, {}),
        ({"xml_fragments": [{"parent": "broker", "xml": DIAL.format("TWO-mq01-B")}]}, {}),
        ({"extra_files": [{"path": "conf/x", "content": "10.0.0.7:61616"}]}, {"address": "10.0.0.7"}),
        ({"vip": "10.0.0.7", "vip_interface": "eth0"}, {"address": "10.0.0.7"}),
        ({"java_options": ["-Durl=multicast://default?group=two"]}, {}),
    ],
)
def test_groups_are_one_component_where_something_joins_them(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert components(two(one, other)) == {frozenset({"one", "two"}), frozenset({"zero"})}
    assert components(two({}, {})) == {frozenset({"one"}), frozenset({"two"}), frozenset({"zero"})}


def test_an_agent_joins_its_group_to_that_of_the_broker_whose_machine_it_runs_on() -> None:
    hosts = two({}, {})
    hosts["one-mq01-a.example.com"] |= AGENT | {"activemq_agent_group": "two"}

    assert components(hosts, {"activemq_agents": ["one-mq01-a.example.com"]}) == {
        frozenset({"one", "two"}),
        frozenset({"zero"}),
    }


def test_groups_with_a_virtual_address_are_joined_where_there_is_a_balancer() -> None:
    hosts = two({"vip": "10.9.9.1"}, {"vip": "10.9.9.2"}) | {"lb": dict(VIP)}

    assert frozenset({"one", "two"}) in components(hosts, {"activemq_loadbalancers": ["lb"]})
    assert frozenset({"one", "two"}) not in components(hosts)


def test_a_pair_that_a_pattern_puts_into_two_groups_joins_them() -> None:
    pattern = r"^(?P<group>x-(?P<number>\d)-(?P<node>[ab]))"
    hosts = {f"x-1-{node}": {**pairs("p-mq01")["p-mq01-a.example.com"]} for node in "ab"}
    hosts["x-1-a"]["activemq_naming_pattern"] = pattern

    assert components(hosts) == {frozenset({"x-1-a", "x-1-b"})}


def test_host_without_broker_belongs_to_group_that_it_serves_else_to_first() -> None:
    hosts, groups = tangled()
    division = divided(hosts, groups)
    of, group = division.component_of, {name: division.component_of[f"group {name}"] for name in division.groups}

    assert of["host shop.example.com"] == group["north"]
    assert of["host lost.example.com"] == group[division.groups[0]]
    assert of["host lb1.example.com"] == group["served"]
    assert of["host odd.example.com"] == of["host foo-mq1.example.com"] == group["served"]
    assert "host db.example.com" not in of


def test_connected_names_are_those_that_edges_lead_to_each_other() -> None:
    dice = random.Random(3)
    for _ in range(50):
        names = [f"n{number}" for number in range(dice.randint(2, 12))]
        edges = [(dice.choice(names), dice.choice(names)) for _ in range(dice.randint(0, 14))]
        names_by_node = component_representative_by_name(edges)
        for one in names_by_node:
            reached = {one}
            for _ in names:
                reached |= {b for a, b in edges if a in reached} | {a for a, b in edges if b in reached}
            assert names_by_node[one] == min(reached)


def test_link_is_known_once_to_component_of_its_ends_with_its_first_host() -> None:
    hosts = two({}, {}) | pairs("later-mq01", links=[{"from": "one", "to": "two"}, {"from": "two", "to": "zero"}])
    hosts["zero-mq01-b.example.com"]["activemq_links"] = [{"from": "one", "to": "two"}]

    around = divided(hosts).rest_by_component

    assert [(link.source, link.to, host, position) for link, host, position in around["one"].links] == [
        ("one", "two", "later-mq01-a.example.com", 0),
        ("two", "zero", "later-mq01-a.example.com", 1),
    ]
    assert {*around} == {"one"}


def test_an_end_that_is_no_group_or_pair_is_a_finding_where_it_is_set() -> None:
    hosts = two({"links": [{"from": "one", "to": "twoo"}, {"from": "qqqqqq", "to": "one"}]}, {})

    first, second = divided(hosts).rest_by_component["one"].findings

    assert (first.rule, first.host) == ("T007", "one-mq01-a.example.com")
    assert "activemq_links[0].to is 'twoo'" in first.message
    assert first.fix.endswith("to two, or to another group or pair")
    assert (
        second.fix
        == "set activemq_links[1].from to one of the groups and pairs one, one-mq01, two, two-mq01, zero, zero-mq01"
    )


def test_store_of_several_units_is_known_to_components_of_all() -> None:
    hosts = two({"store_directory": "/srv/activemq/two-mq01"}, {})

    around = divided(hosts).rest_by_component

    assert {*around} == {"one", "two"}
    assert around["one"].stores == around["two"].stores == {("share", "/srv/activemq/two-mq01"): "one-mq01"}
    assert divided(two({}, {})).rest_by_component == {}


def test_waivers_of_brokers_come_first_then_of_agents_and_expired_ones_are_warned_of() -> None:
    def waiver(reason: str, **more: str) -> list[dict[str, str]]:
        return [{"rule": "T002", "reason": reason, **more}]

    hosts = two({"waivers": waiver("of a broker")}, {"waivers": waiver("old", until="2026-11-22")})
    hosts |= {"agent": AGENT | {"activemq_agent_group": "one", "activemq_waivers": waiver("of an agent")}}

    division = divided(hosts, {"activemq_agents": ["agent"]})

    assert [waiver.reason for waiver in division.waivers] == ["of a broker", "of an agent"]
    assert (
        "the waiver of rule T002 in activemq_waivers expired on 2026-11-22 (its reason: old): renew or remove "
        "the waiver" in division.warnings
    )
    assert len(divided(hosts, today=date(2026, 11, 22)).waivers) == 2


@pytest.mark.parametrize(
    ("variables", "kind", "text"),
    [
        (
            {"port_ofset": 3},
            SettingsError,
            "one-mq01-a.example.com, one-mq01-b.example.com: activemq_port_ofset is not",
        ),
        ({"release": "5.2"}, ReleaseError, "one-mq01-a.example.com, one-mq01-b.example.com: activemq_release: "),
        (
            {"release": None},
            SettingsError,
            "one-mq01-a.example.com, one-mq01-b.example.com: activemq_release is not set",
        ),
        ({"naming_pattern": "("}, InputError, "activemq_naming_pattern is not a valid regular expression"),
    ],
)
def test_a_mistake_of_many_hosts_is_one_line(variables: dict[str, Any], kind: type[FleetError], text: str) -> None:
    with pytest.raises(kind) as error:
        divided(two(variables, {}))

    assert str(error.value).startswith(text)
    assert "\n" not in str(error.value)


def test_a_fleet_of_two_patterns_and_one_without_brokers_are_refused() -> None:
    patterns = [{"naming_pattern": rf"^(?P<group>{group})-mq(?P<number>\d)1-(?P<node>[ab])"} for group in ("one", "t")]

    with pytest.raises(InputError, match="activemq_naming_pattern differs between hosts"):
        divided(two(*patterns))
    with pytest.raises(
        InputError, match="no host of this inventory is a broker: none of 1 host names matches the pattern"
    ):
        divided({"db.example.com": {}})


def test_a_name_that_is_nearly_a_brokers_is_warned_of() -> None:
    hosts, groups = tangled()

    assert any(
        text.startswith("foo-mq1.example.com: the host is not read as a broker")
        for text in divided(hosts, groups).warnings
    )
