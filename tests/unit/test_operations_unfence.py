"""The brokers that the playbook unfence stops: only those of selected pairs with a fence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.deployment import FleetFacts
from activemq_fleet.errors import InputError
from activemq_fleet.operations import OperationDecisionRequest, RefusalError, decide_operation
from activemq_fleet.operations.target import PossibleTargetHost, resolve_target
from tests.support.facts_of_brokers import facts_of_broker
from tests.support.played_sites import A, B, make_local_site

PAIRS = {"x-mq01": ("x-mq01-a", "x-mq01-b"), "x-mq02": ("x-mq02-a", "x-mq02-b"), "x-mq03": ("x-mq03-a",)}
BROKERS = {host: facts_of_broker(host, pair=pair) for pair, hosts in PAIRS.items() for host in hosts}
FENCED = {"exists": True, "mounted": True, "used": True, "fenced": True}
NOT_FENCED = {**FENCED, "fenced": False, "marked": ["x-mq01", "1"]}
NOT_MOUNTED = {"exists": False, "mounted": False, "used": False, "fenced": False, "marked": None}


def decide_hosts_and_notes(name: str, evidence: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the brokers that the playbook stops for this ``activemq_target``, and the notes that it shows."""
    possible_hosts = [PossibleTargetHost(host, pair, "x", "") for pair, hosts in PAIRS.items() for host in hosts]
    notes = list[str]()
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=BROKERS),
        evidence=evidence,
        target=resolve_target(possible_hosts, name).to_dict(),
        warn=notes.append,
    )
    return decide_operation("unfence", request)["hosts"], notes


def test_unfence_stops_both_brokers_of_selected_pair_with_fence() -> None:
    stores = dict.fromkeys(PAIRS["x-mq01"], FENCED)
    assert decide_hosts_and_notes("x-mq01", stores) == (["x-mq01-a", "x-mq01-b"], [])


def test_unfence_of_group_stops_only_brokers_of_pairs_with_fence() -> None:
    stores = dict.fromkeys(PAIRS["x-mq02"], FENCED) | dict.fromkeys(PAIRS["x-mq01"], NOT_FENCED)
    hosts, notes = decide_hosts_and_notes("x", stores)
    assert hosts == ["x-mq02-a", "x-mq02-b"]
    assert [note.partition(",")[0] for note in notes] == ["pair x-mq01 has no fence", "pair x-mq03 has no fence"]


@pytest.mark.parametrize(
    ("store_of_a", "problem"),
    [
        (NOT_MOUNTED, "is not the store of pair x-mq01, because it contains no file .activemq-fleet-pair"),
        ({**NOT_MOUNTED, "exists": True}, "is not the store of pair x-mq01, because it contains no file"),
        (NOT_FENCED, "is not the store of host x-mq01-b, because only the store of x-mq01-b has a fence"),
        ({**FENCED, "marked": ["y-mq07", "1"]}, "contains the store of pair y-mq07, not of pair x-mq01"),
    ],
)
def test_unfence_refuses_pair_of_which_one_node_sees_fence(store_of_a: dict[str, Any], problem: str) -> None:
    with pytest.raises(RefusalError) as error:
        decide_hosts_and_notes("x-mq01", {"x-mq01-a": store_of_a, "x-mq01-b": FENCED})
    [line] = error.value.problems
    assert line.startswith("x-mq01-a: directory ")
    assert problem in line


def test_unfence_refuses_nodes_with_different_stores_of_pair() -> None:
    stores = {host: {**FENCED, "marked": ["x-mq01", host]} for host in PAIRS["x-mq01"]}
    with pytest.raises(RefusalError) as error:
        decide_hosts_and_notes("x-mq01", stores)
    [line] = error.value.problems
    assert "is not the store of host x-mq01-a, because their files .activemq-fleet-pair differ" in line


def test_unfence_refuses_pair_whose_store_no_node_sees() -> None:
    with pytest.raises(RefusalError) as error:
        decide_hosts_and_notes("x-mq01", dict.fromkeys(PAIRS["x-mq01"], NOT_MOUNTED))
    assert [line.partition(":")[0] for line in error.value.problems] == ["x-mq01-a", "x-mq01-b"]


def test_unfence_refuses_pair_that_systemd_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a lab all hosts are this machine, whose systemd unit belongs to another broker."""
    for host in PAIRS["x-mq01"]:
        monkeypatch.setitem(BROKERS, host, facts_of_broker(host, pair="x-mq01", service="none"))
    with pytest.raises(InputError, match="x-mq01-a: activemq_service is none, but the playbook unfence can stop only"):
        decide_hosts_and_notes("x-mq01", dict.fromkeys(PAIRS["x-mq01"], FENCED))


def test_unfence_refuses_empty_target() -> None:
    with pytest.raises(InputError, match=r"^activemq_target is not set, but .* with -e activemq_target=PAIR$"):
        decide_hosts_and_notes("", dict.fromkeys(BROKERS, FENCED))


def test_unfence_refuses_single_node_of_pair() -> None:
    with pytest.raises(InputError, match=r"To stop x-mq01-a and x-mq01-b, set -e activemq_target=x-mq01$"):
        decide_hosts_and_notes("x-mq01-b", dict.fromkeys(BROKERS, FENCED))
    assert decide_hosts_and_notes("x-mq03-a", {"x-mq03-a": FENCED}) == (["x-mq03-a"], [])


def test_playbook_unfence_stops_no_broker_without_target_or_fence(tmp_path: Path) -> None:
    site = make_local_site(tmp_path)
    store = tmp_path / "store"
    site.write_inventory(A, B, ha="shared-file", store_directory=str(store), service="systemd")
    status, output = site.play("unfence")
    assert status == 2
    assert "activemq_target is not set, but the playbook unfence stops only" in output
    status, output = site.play("unfence", "-e", "activemq_target=orders-mq01")
    assert status == 2
    assert "no broker is stopped, because a node does not see the store of its pair" in output
    store.mkdir()
    (store / ".activemq-fleet-pair").write_text("orders-mq01\n1\n")
    status, output = site.play("unfence", "-e", "activemq_target=orders-mq01")
    assert status == 0, output
    assert "pair orders-mq01 has no fence, so this run of the playbook unfence does not stop its brokers" in output
    assert "no longer has a fence" not in output
