"""What an operation is meant for, and what it refuses to guess."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from activemq_fleet.deployment import FleetFacts
from activemq_fleet.errors import InputError
from activemq_fleet.operations import OperationDecisionRequest, decide_operation
from activemq_fleet.operations.target import (
    PossibleTargetHost,
    TargetHostsAndPairs,
    resolve_target,
    run_start_time,
)
from tests.support.facts_of_brokers import facts_of_broker

HOSTS = [f"{pair}-{node}.example.com" for pair in ("orders-mq01", "orders-mq02", "stock-mq01") for node in "ba"]
PLACES = [
    PossibleTargetHost(host, host.split(".")[0][:-2], host.partition("-")[0], "master" if "-a." in host else "slave")
    for host in HOSTS
]
A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"


def target(name: str = "", **more: object) -> TargetHostsAndPairs:
    return resolve_target(PLACES, name, **more)  # type: ignore[arg-type]


def test_no_target_is_the_whole_fleet() -> None:
    found = target()
    assert (found.kind, sorted(found.hosts), found.chosen) == ("fleet", sorted(HOSTS), found.hosts)


def test_a_group_is_all_its_pairs_in_order_with_the_preferred_master_first() -> None:
    found = target("orders")
    assert list(found.pairs) == ["orders-mq01", "orders-mq02"]
    assert found.pairs["orders-mq01"] == (A, B)
    assert found.hosts == (*found.pairs["orders-mq01"], *found.pairs["orders-mq02"])


def test_a_pair_is_its_two_nodes() -> None:
    assert target("orders-mq01").hosts == (A, B)


@pytest.mark.parametrize("name", [B, "orders-mq01-b"])
def test_of_one_host_the_peer_is_looked_at_and_not_chosen(name: str) -> None:
    found = target(name)
    assert (found.kind, found.hosts, found.chosen) == ("host", (A, B), (B,))


def test_an_unknown_target_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(
        InputError, match=r"activemq_target is orders-mq1, which is not .*\. Did you mean orders-mq01\?"
    ):
        target("orders-mq1")


def test_a_label_of_two_hosts_is_refused() -> None:
    twins = [PossibleTargetHost(f"x-mq01-a.{domain}", f"{domain}", "x", "master") for domain in ("one", "two")]
    with pytest.raises(
        InputError, match=r"but 2 host names begin with this name\. Set it to one of x-mq01-a\.one, x-mq01-a\.two"
    ):
        resolve_target(twins, "x-mq01-a")


def test_the_preferred_masters_are_to_be_active_unless_another_node_is_named() -> None:
    assert target("orders").to == {"orders-mq01": A, "orders-mq02": "orders-mq02-a.example.com"}
    assert target("orders", node_to_activate="orders-mq01-b").to == {"orders-mq01": B}


def test_a_node_of_another_pair_cannot_become_active_here() -> None:
    with pytest.raises(
        InputError,
        match=r"which is not a node of the pairs that activemq_target selects\. Set activemq_to to one of",
    ):
        target("orders-mq01", node_to_activate="stock-mq01-a")
    with pytest.raises(
        InputError, match=r"activemq_to is orders-mq01-c, which is not a broker .*\. Did you mean orders-mq01-"
    ):
        target("orders-mq01", node_to_activate="orders-mq01-c")


def test_a_limit_that_cuts_a_pair_is_refused() -> None:
    with pytest.raises(InputError, match=f"--limit excludes these hosts of pair orders-mq01: {B}"):
        target("orders-mq01", play_hosts=[A])
    with pytest.raises(InputError, match="--limit excludes these hosts of pair orders-mq01"):
        target(play_hosts=[host for host in HOSTS if host != B])


def test_a_limit_that_leaves_out_a_whole_pair_of_the_target_is_refused_too() -> None:
    with pytest.raises(InputError, match=r"--limit excludes these hosts of the target \(the whole fleet\)"):
        target(play_hosts=[A, B])


def test_a_limit_that_holds_the_target_is_none_of_its_business() -> None:
    assert target("orders-mq01", play_hosts=[A, B]).hosts == (A, B)


def test_a_run_lasts_since_now_or_since_the_time_that_is_given() -> None:
    now = datetime(2026, 11, 21, 13, 45, 6, 700000, UTC).timestamp()
    assert run_start_time("", now) == {"since": "2026-11-21T13:45:06Z", "since_epoch": int(now)}
    assert run_start_time("2026-11-21T14:40:00+01:00", now)["since"] == "2026-11-21T13:40:00Z"


@pytest.mark.parametrize(
    ("text", "why"), [("soon", "which is not a time"), ("2026-11-21T13:45:09Z", "is in the future")]
)
def test_a_time_that_no_run_can_have_said_is_refused(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        run_start_time(text, datetime(2026, 11, 21, 13, 45, 6, tzinfo=UTC).timestamp())


def test_the_nodes_that_only_a_resync_brings_back_are_named_for_the_playbooks() -> None:
    brokers = {
        place.host: facts_of_broker(
            place.host, pair=place.pair, group=place.group, role=place.role, needs_resync=place.group == "stock"
        )
        for place in PLACES
    }
    request = OperationDecisionRequest(fleet=FleetFacts(brokers=brokers), options={"reach": HOSTS})
    assert decide_operation("target", request)["target"]["needs_resync"] == [
        "stock-mq01-a.example.com",
        "stock-mq01-b.example.com",
    ]
