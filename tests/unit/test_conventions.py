"""Fleets with the names of seven conventions, which every command must handle in the same way."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.cli.main import main
from activemq_fleet.diagram import to_mermaid, to_svg
from activemq_fleet.errors import InputError
from activemq_fleet.explain import explanation_to_text
from activemq_fleet.explain.host_pages import explain_host_by_name
from activemq_fleet.inventory import load_fleet
from activemq_fleet.naming import STATED_PARTS
from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.render import render_hosts
from activemq_fleet.topology import Fleet, build_fleet
from tests.conventions import CONVENTIONS, Convention
from tests.situations import EVERY_SITUATION
from tests.unit.fleets import NETWORK
from tests.unit.pictures import Picture
from tests.unit.planning.components import context_of, plan_components, rows_of

SETTINGS = {"release": "6.3.1", "ha": "shared-file", **{k.removeprefix("activemq_"): v for k, v in NETWORK.items()}}
each_convention = pytest.mark.parametrize("convention", CONVENTIONS, ids=lambda convention: convention.name)
EXAMPLES = 10_000 if EVERY_SITUATION else 1_000


@pytest.fixture
def fleet(convention: Convention, tmp_path: Path) -> Fleet:
    return load_fleet([str(convention.write(tmp_path, **SETTINGS))])


@each_convention
def test_naming_convention_defines_name_master_and_slave_of_every_pair(convention: Convention, fleet: Fleet) -> None:
    hosts_by_pair = {
        name: tuple(broker.host for broker in pair.brokers_in_dialling_order)
        for name, pair in fleet.pairs_by_name.items()
    }

    assert hosts_by_pair == dict(convention.pairs)
    assert [finding for finding in fleet.findings if finding.severity == "error"] == []
    assert [pair.preferred_master.host for pair in fleet.pairs_by_name.values()] == [
        m for m, _ in hosts_by_pair.values()
    ]


@each_convention
def test_fleet_from_variables_has_same_identities_as_fleet_from_inventory(convention: Convention, fleet: Fleet) -> None:
    built = build_fleet(convention.variables_by_host(**SETTINGS), {})

    assert [broker.identity for broker in built.brokers] == [broker.identity for broker in fleet.brokers]


@each_convention
def test_both_nodes_of_pair_share_broker_name_and_store(fleet: Fleet) -> None:
    for name, pair in fleet.pairs_by_name.items():
        assert {broker.broker_name for broker in pair.brokers} == {name}
        assert {broker.store_directory for broker in pair.brokers} == {f"/srv/activemq/{name}"}
    documents = {host: tree[ACTIVEMQ_XML].decode() for host, tree in render_hosts(fleet).items()}
    for broker in fleet.brokers:
        assert f"(preferred {broker.role}) of pair {broker.pair}" in documents[broker.host]


@each_convention
def test_diagrams_of_each_naming_convention_name_every_pair_and_broker(fleet: Fleet) -> None:
    picture, chart = Picture(to_svg(fleet)), to_mermaid(fleet)

    for name in [*fleet.pairs_by_name, *(broker.identity.short_host_name for broker in fleet.brokers)]:
        assert name in picture.texts
        assert name in chart


@each_convention
def test_explain_page_of_every_host_names_role_pair_and_peer(fleet: Fleet) -> None:
    for broker in fleet.brokers:
        page = explanation_to_text(explain_host_by_name(fleet, broker.host))
        assert f"preferred {broker.role} of pair {broker.pair}" in page
        assert str(broker.peer) in page


@each_convention
def test_plan_of_each_naming_convention_has_same_brokers_as_fleet(convention: Convention, fleet: Fleet) -> None:
    hosts = convention.variables_by_host(**SETTINGS)
    components = plan_components(hosts, context_of(hosts))

    assert [component.error for component in components.values()] == [None] * len(fleet.groups)
    broker_rows = sorted(rows_of([*components.values()], "brokers"), key=lambda row: row["host"])
    fields = ("host", "group", "pair", "node", "role")
    assert [[row[name] for name in fields] for row in broker_rows] == [
        [broker.to_dict()[name] for name in fields] for broker in fleet.brokers
    ]


@each_convention
def test_commands_check_names_and_graph_accept_each_naming_convention(
    convention: Convention, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = str(convention.write(tmp_path / "inventory", **SETTINGS))

    assert main(["check", "-i", inventory, "--select", "T", "--format", "json"]) == 0
    assert main(["graph", "-i", inventory, "-o", str(tmp_path / "fleet.svg")]) == 0
    capsys.readouterr()
    assert main(["names", "-i", inventory, "--format", "json"]) == 0
    printed_hosts = json.loads(capsys.readouterr().out)["hosts"]
    assert {row["host"]: (row["pair"], row["role"]) for row in printed_hosts} == {
        host: (pair, role)
        for pair, hosts in convention.pairs.items()
        for host, role in zip(hosts, ("master", "slave"), strict=True)
    }


PARTS = ("orders", "ffm1", "mq", "amq", "-mq", "-", "_", "01", "1", "002", "a", "b", "A", "primary", ".x", "")
MARKS = ("a", "b", "1", "2", "primary", "odd", "even", "x-y", "", "{{ x }}")
PATTERNS = (
    r"^(?P<group>[a-z]+)",
    r"(?P<number>[0-9]+)(?P<node>[ab])",
    r"^(?P<group>[^.]+?)(?P<number>\d+)",
    r"^(?P<pair>(?P<group>.+)\d)(?P<node>[ab])?",
)


def random_hosts(rng: random.Random) -> dict[str, dict[str, Any]]:
    """Return some hosts of a convention with random changes of their names and variables."""
    convention = rng.choice(CONVENTIONS)
    common: dict[str, Any] = {"activemq_release": "6.3.1", "activemq_topology": "none", **convention.variables}
    if rng.random() < 0.2:
        common["activemq_naming_pattern"] = rng.choice(PATTERNS)
    if rng.random() < 0.1:
        common["activemq_naming_parity"] = rng.choice(("odd-even", "even-odd"))
    if rng.random() < 0.1:
        common["activemq_master_node"] = rng.choice(("a", "b", "1", "primary", "even"))
    hosts = {}
    for host in rng.sample(convention.hosts, rng.randint(2, 4)):
        name_parts = re.split(r"(?<=[a-z])(?=[0-9])|(?<=[0-9])(?=[a-zA-Z])|(?=[-.])", host)
        if rng.random() < 0.2:
            name_parts[rng.randrange(len(name_parts))] = rng.choice(PARTS)
        host_variables = dict(convention.host_variables.get(host, {}))
        host_variables |= {f"activemq_{part}": rng.choice(MARKS) for part in STATED_PARTS if rng.random() < 0.04}
        hosts["".join(name_parts)] = {**common, **host_variables}
    return hosts


def test_random_host_names_are_identified_or_error_names_host_or_pair() -> None:
    """Every broker is one node of one pair of two, or an error names its host or its pair."""
    rng = random.Random(20261124)
    brokers = refusals = 0
    for _ in range(EXAMPLES):
        hosts = random_hosts(rng)
        try:
            fleet = build_fleet(hosts, {})
        except InputError as error:
            error_text = str(error)
            assert any(host in error_text for host in hosts) or "activemq_naming_" in error_text, error_text
            refusals += 1
            continue
        read_hosts = {broker.host for broker in fleet.brokers}
        hosts_with_errors = {finding.host for finding in fleet.findings if finding.severity == "error"}
        for pair in fleet.pairs_by_name.values():
            roles = sorted(broker.role for broker in pair.brokers)
            is_complete = roles == ["master", "slave"] and len({broker.identity.node for broker in pair.brokers}) == 2
            # An error about a host without an identity is the cause of a pair that lacks this host.
            assert (
                is_complete
                or hosts_with_errors & {broker.host for broker in pair.brokers}
                or hosts_with_errors - read_hosts
            ), hosts
        hosts_with_identity = {
            host for host, variables in hosts.items() if variables.keys() & {"activemq_pair", "activemq_node"}
        }
        assert hosts_with_identity <= read_hosts | hosts_with_errors, hosts
        brokers += len(read_hosts)
    assert brokers > EXAMPLES
    assert refusals < EXAMPLES / 2
