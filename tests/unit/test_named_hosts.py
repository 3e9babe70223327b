"""Names of hosts, pairs and groups: one name means the same hosts in all commands."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.lab.lab_paths import LabPaths
from activemq_fleet.lab.read_only_lab import ReadOnlyLab
from activemq_fleet.operations.target import PossibleTargetHost, resolve_target
from activemq_fleet.status.selection import select_hosts
from activemq_fleet.topology import Fleet, build_fleet
from activemq_fleet.topology.named_hosts import HostsSelectedByName, SelectableHost, find_named_hosts
from tests.unit.fleets import hosts

SINGLE, PAIR_OF_GROUP = "stock.example.com", hosts("stock-mq01")


def broker(group: str, pair: str, node: str = "a", **variables: Any) -> dict[str, Any]:
    """Return the variables of a broker whose name states neither its group nor its pair."""
    values = {"release": "5.18.3", "network_username": "net", "network_password": "a secret"}
    values |= {"group": group, "pair": pair, "node": node, **variables}
    return {f"activemq_{name}": value for name, value in values.items()}


BROKER_NAMED_LIKE_GROUP = {SINGLE: broker("orders", "stock", ha="none"), **PAIR_OF_GROUP}
PAIR_NAMED_LIKE_GROUP = {
    "n1.example.com": broker("orders", "orders"),
    "n2.example.com": broker("orders", "orders", "b"),
    "n3.example.com": broker("orders", "other"),
    "n4.example.com": broker("orders", "other", "b"),
}
LABEL_LIKE_FULL_NAME = {"n1": broker("orders", "first", ha="none"), "n1.example.com": broker("a", "b", ha="none")}


def hosts_of_operation(fleet: Fleet, name: str) -> tuple[str, ...]:
    possible_hosts = [PossibleTargetHost(b.host, b.pair, b.group, b.role) for b in fleet.brokers]
    return resolve_target(possible_hosts, name).chosen


def hosts_of_lab(fleet: Fleet, name: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    lab_brokers = SimpleNamespace(fleet=fleet, loopback_address=lambda host: host)
    monkeypatch.setattr(ReadOnlyLab, "_hosts", lab_brokers)
    return tuple(host for host, _ in ReadOnlyLab(LabPaths(directory)).addresses(name, "openwire"))


def test_group_is_selected_if_first_labels_of_hosts_are_ambiguous() -> None:
    brokers = [SelectableHost(host, "", "stock") for host in ("stock.a.example", "stock.b.example")]
    assert find_named_hosts("stock", brokers, option="--target") == HostsSelectedByName(
        "group", ("stock.a.example", "stock.b.example")
    )


def test_ambiguous_first_label_is_refused_if_no_group_has_this_name() -> None:
    brokers = [SelectableHost(host, "", "orders") for host in ("stock.a.example", "stock.b.example")]
    with pytest.raises(InputError, match="2 host names begin with this name"):
        find_named_hosts("stock", brokers, option="--target")


@pytest.mark.parametrize(
    ("variables", "name", "named_hosts"),
    [
        (BROKER_NAMED_LIKE_GROUP, "stock", (SINGLE,)),
        (PAIR_NAMED_LIKE_GROUP, "orders", ("n1.example.com", "n2.example.com")),
        (LABEL_LIKE_FULL_NAME, "n1", ("n1",)),
    ],
    ids=["host and group", "pair and group", "host and first label"],
)
def test_name_means_same_hosts_in_operations_status_and_lab(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, dict[str, Any]],
    name: str,
    named_hosts: tuple[str, ...],
) -> None:
    fleet = build_fleet(variables, {})

    assert hosts_of_operation(fleet, name) == named_hosts
    assert select_hosts(fleet, name) == named_hosts
    assert hosts_of_lab(fleet, name, tmp_path, monkeypatch) == named_hosts


def test_agent_named_like_group_does_not_hide_brokers_of_group_in_status() -> None:
    agent = "stock.example.com"
    variables = PAIR_OF_GROUP | {agent: {"activemq_agent_pair": "stock-mq01"}}

    fleet = build_fleet(variables, {"activemq_agents": [agent]})

    assert select_hosts(fleet, "stock") == hosts_of_operation(fleet, "stock") == tuple(PAIR_OF_GROUP)
    assert select_hosts(fleet, agent) == (agent,)


def test_unknown_name_has_same_error_in_operations_status_and_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = build_fleet(PAIR_OF_GROUP, {})
    error = r"is stock-mq1, which is not a host, pair or group of the inventory\. Did you mean stock-mq01\?"

    with pytest.raises(InputError, match=f"activemq_target {error}"):
        hosts_of_operation(fleet, "stock-mq1")
    with pytest.raises(InputError, match=f"the name {error}"):
        select_hosts(fleet, "stock-mq1")
    with pytest.raises(InputError, match=f"the name {error}"):
        hosts_of_lab(fleet, "stock-mq1", tmp_path, monkeypatch)
