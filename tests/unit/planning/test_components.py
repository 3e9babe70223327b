"""Tests of the components of a fleet: their groups, the facts that they need of other groups, and refused inputs."""

from __future__ import annotations

import random
from datetime import date
from typing import Any

import pytest

from activemq_fleet.errors import FleetError, InputError, ReleaseError, SettingsError
from activemq_fleet.topology import build_fleet
from activemq_fleet.topology.links import component_representative_by_name
from tests.unit.planning.components import divide_fleet
from tests.unit.planning.planned import AGENT, VIP, hosts_of_connected_groups, pairs


def components(hosts: dict[str, Any], groups: dict[str, list[str]] | None = None) -> set[frozenset[str]]:
    """Return the groups of each component."""
    groups_by_component: dict[str, set[str]] = {}
    for key, component in divide_fleet(hosts, groups or {}).component_of.items():
        if key.startswith("group "):
            groups_by_component.setdefault(component, set()).add(key.removeprefix("group "))
    return {frozenset(names) for names in groups_by_component.values()}


def three_groups(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return the hosts of the groups one and two with these variables, and of the group zero."""
    return pairs("one-mq01", **first) | pairs("two-mq01", **second) | pairs("zero-mq01")


CONNECTOR_XML = '<networkConnector name="out" uri="static:(tcp://{}:61616)"/>'


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"links": [{"from": "one", "to": "two"}]}, {}),
        ({"links": [{"from": "two-mq01", "to": "one-mq01"}]}, {}),
        ({"address": "10.0.0.1"}, {"address": "10.0.0.1"}),
        ({"xml_fragments": [{"parent": "broker", "xml": CONNECTOR_XML.format("two-mq01-a.example.com")}]}, {}),
        ({"xml_fragments": [{"parent": "broker", "xml": CONNECTOR_XML.format("TWO-mq01-B")}]}, {}),
        ({"extra_files": [{"path": "conf/x", "content": "10.0.0.7:61616"}]}, {"address": "10.0.0.7"}),
        ({"extra_files": [{"path": "conf/x", "content": "net-two:61616"}]}, {"address": "net-two.example.com"}),
        ({"extra_files": [{"path": "conf/x", "content": "net-two.example.com:61616"}]}, {"address": "net-two"}),
        ({"vip": "10.0.0.7", "vip_interface": "eth0"}, {"address": "10.0.0.7"}),
        ({"java_options": ["-Durl=multicast://default?group=two"]}, {}),
    ],
)
def test_connected_groups_of_fleet_are_single_component_of_plan(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert components(three_groups(first, second)) == {frozenset({"one", "two"}), frozenset({"zero"})}
    assert components(three_groups({}, {})) == {frozenset({"one"}), frozenset({"two"}), frozenset({"zero"})}


def test_agent_joins_its_group_and_group_of_its_machine_to_one_component() -> None:
    hosts = three_groups({}, {})
    hosts["one-mq01-a.example.com"] |= AGENT | {"activemq_agent_group": "two"}

    assert components(hosts, {"activemq_agents": ["one-mq01-a.example.com"]}) == {
        frozenset({"one", "two"}),
        frozenset({"zero"}),
    }


def test_groups_with_virtual_address_are_joined_only_with_balancer() -> None:
    hosts = three_groups({"vip": "10.9.9.1"}, {"vip": "10.9.9.2"}) | {"lb": dict(VIP)}

    assert frozenset({"one", "two"}) in components(hosts, {"activemq_loadbalancers": ["lb"]})
    assert frozenset({"one", "two"}) not in components(hosts)


def test_pair_whose_nodes_are_in_two_groups_joins_groups_to_one_component() -> None:
    pattern = r"^(?P<group>x-(?P<number>\d)-(?P<node>[ab]))"
    hosts = {f"x-1-{node}": {**pairs("p-mq01")["p-mq01-a.example.com"]} for node in "ab"}
    hosts["x-1-a"]["activemq_naming_pattern"] = pattern

    assert components(hosts) == {frozenset({"x-1-a", "x-1-b"})}


def test_host_without_broker_belongs_to_component_of_served_or_first_group() -> None:
    hosts, groups = hosts_of_connected_groups()
    division = divide_fleet(hosts, groups)
    component_of = division.component_of
    group = {name: component_of[f"group {name}"] for name in division.groups}

    assert component_of["host shop.example.com"] == group["north"]
    assert component_of["host lost.example.com"] == group[division.groups[0]]
    assert component_of["host lb1.example.com"] == group["served"]
    assert component_of["host odd.example.com"] == component_of["host foo-mq1.example.com"] == group["served"]
    assert "host db.example.com" not in component_of


def test_representative_of_component_is_least_name_that_edges_connect() -> None:
    random_numbers = random.Random(3)
    for _ in range(50):
        names = [f"n{number}" for number in range(random_numbers.randint(2, 12))]
        edges = [
            (random_numbers.choice(names), random_numbers.choice(names)) for _ in range(random_numbers.randint(0, 14))
        ]
        representative_by_name = component_representative_by_name(edges)
        for name in representative_by_name:
            connected_names = {name}
            for _ in names:
                connected_names |= {b for a, b in edges if a in connected_names} | {
                    a for a, b in edges if b in connected_names
                }
            assert representative_by_name[name] == min(connected_names)


def test_link_is_listed_once_with_its_first_host_in_component_of_ends() -> None:
    hosts = three_groups({}, {}) | pairs(
        "later-mq01", links=[{"from": "one", "to": "two"}, {"from": "two", "to": "zero"}]
    )
    hosts["zero-mq01-b.example.com"]["activemq_links"] = [{"from": "one", "to": "two"}]

    rest_by_component = divide_fleet(hosts).rest_by_component

    assert [(link.source, link.to, host, position) for link, host, position in rest_by_component["one"].links] == [
        ("one", "two", "later-mq01-a.example.com", 0),
        ("two", "zero", "later-mq01-a.example.com", 1),
    ]
    assert {*rest_by_component} == {"one"}


def test_unknown_end_of_link_is_finding_at_its_variable() -> None:
    hosts = three_groups({"links": [{"from": "one", "to": "twoo"}, {"from": "qqqqqq", "to": "one"}]}, {})

    target_finding, source_finding = divide_fleet(hosts).rest_by_component["one"].findings

    assert (target_finding.rule, target_finding.host) == ("T007", "one-mq01-a.example.com")
    assert "activemq_links[0].to is 'twoo'" in target_finding.message
    assert target_finding.fix.endswith("to two, or to another group or pair")
    assert (
        source_finding.fix
        == "set activemq_links[1].from to one of the groups and pairs one, one-mq01, two, two-mq01, zero, zero-mq01"
    )


def test_store_of_several_pairs_is_listed_in_components_of_all() -> None:
    hosts = three_groups({"store_directory": "/srv/activemq/two-mq01"}, {})

    rest_by_component = divide_fleet(hosts).rest_by_component

    assert {*rest_by_component} == {"one", "two"}
    assert (
        rest_by_component["one"].stores
        == rest_by_component["two"].stores
        == {("share", "/srv/activemq/two-mq01"): "one-mq01"}
    )
    assert divide_fleet(three_groups({}, {})).rest_by_component == {}


def test_broker_waivers_precede_agent_waivers_and_expired_waiver_is_warning() -> None:
    def waiver(reason: str, **more: str) -> list[dict[str, str]]:
        return [{"rule": "T002", "reason": reason, **more}]

    hosts = three_groups({"waivers": waiver("of a broker")}, {"waivers": waiver("old", until="2026-11-22")})
    hosts |= {"agent": AGENT | {"activemq_agent_group": "one", "activemq_waivers": waiver("of an agent")}}

    division = divide_fleet(hosts, {"activemq_agents": ["agent"]})

    assert [waiver.reason for waiver in division.waivers] == ["of a broker", "of an agent"]
    assert (
        "the waiver of rule T002 in activemq_waivers expired on 2026-11-22 (its reason: old): renew or remove "
        "the waiver" in division.warnings
    )
    assert len(divide_fleet(hosts, today=date(2026, 11, 22)).waivers) == 2


@pytest.mark.parametrize(
    ("variables", "kind", "text"),
    [
        (
            {"port_ofset": 3},
            SettingsError,
            "one-mq01-a.example.com, one-mq01-b.example.com: activemq_port_ofset is not",
        ),
        ({"release": "5.2"}, ReleaseError, "one-mq01-a.example.com, one-mq01-b.example.com: in activemq_release, "),
        (
            {"release": None},
            SettingsError,
            "one-mq01-a.example.com, one-mq01-b.example.com: activemq_release is not set",
        ),
        ({"naming_pattern": "("}, InputError, "activemq_naming_pattern is not a valid regular expression"),
    ],
)
def test_error_of_several_hosts_is_single_line(variables: dict[str, Any], kind: type[FleetError], text: str) -> None:
    with pytest.raises(kind) as error:
        divide_fleet(three_groups(variables, {}))

    assert str(error.value).startswith(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("host", "variables", "groups"),
    [
        ("one-mq01-a.example.com", {"activemq_heap": 3, "activemq_port_ofset": 1}, {}),
        ("one-mq01-a.example.com", {"activemq_release": "5.2"}, {}),
        ("one-mq01-a.example.com", {"activemq_pair": "a/b"}, {}),
        ("one-mq01-a.example.com", {"activemq_naming_pattern": "("}, {}),
        ("db.example.com", {"activemq_hepa": "1g"}, {}),
        ("odd.example.com", {"activemq_anything": 1}, {"activemq_brokers": ["odd.example.com"]}),
        ("x", {"activemq_pair": "p", "activemq_hepa": "1g"}, {}),
        ("shop.example.com", {"activemq_agent_grop": "one"}, {"activemq_agents": ["shop.example.com"]}),
        ("../x", {}, {"activemq_agents": ["../x"]}),
    ],
)
def test_plan_refuses_wrong_host_in_same_words_as_check(
    host: str, variables: dict[str, Any], groups: dict[str, list[str]]
) -> None:
    hosts = three_groups({}, {"release": None})
    hosts[host] = hosts.get(host, {}) | variables

    with pytest.raises(FleetError) as error_of_check:
        build_fleet(hosts, groups)
    with pytest.raises(type(error_of_check.value)) as error_of_plan:
        divide_fleet(hosts, groups)

    assert sorted(error_of_plan.value.lines) == sorted(error_of_check.value.lines)


@pytest.mark.parametrize("group", ["activemq_agents", "activemq_loadbalancers", "activemq_brokers"])
def test_host_of_role_group_is_not_reported_as_misspelled_broker(group: str) -> None:
    variables = AGENT | VIP | {"activemq_agent_group": "one"}
    division = divide_fleet(three_groups({}, {}) | {"lb-mq1": variables}, {group: ["lb-mq1"]})

    assert division.warnings == ()


def test_fleet_with_two_naming_patterns_or_without_brokers_is_refused() -> None:
    patterns = [{"naming_pattern": rf"^(?P<group>{group})-mq(?P<number>\d)1-(?P<node>[ab])"} for group in ("one", "t")]

    with pytest.raises(InputError, match="activemq_naming_pattern differs between hosts"):
        divide_fleet(three_groups(*patterns))
    with pytest.raises(
        InputError, match="no host of this inventory is a broker: none of 1 host names matches the pattern"
    ):
        divide_fleet({"db.example.com": {}})


def test_host_name_similar_to_broker_name_is_warning() -> None:
    hosts, groups = hosts_of_connected_groups()

    assert any(
        text.startswith("foo-mq1.example.com: the host is not read as a broker")
        for text in divide_fleet(hosts, groups).warnings
    )
