"""The hosts and pairs of an operation, and the ambiguous targets that it refuses."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from activemq_fleet.deployment import FleetFacts
from activemq_fleet.errors import InputError
from activemq_fleet.operations import OperationDecisionRequest, decide_operation
from activemq_fleet.operations.target import (
    PossibleTargetHost,
    TargetHostsAndPairs,
    operation_start_time_as_text_and_epoch,
    resolve_target,
)
from tests.support.facts_of_brokers import facts_of_broker

HOSTS = [f"{pair}-{node}.example.com" for pair in ("orders-mq01", "orders-mq02", "stock-mq01") for node in "ba"]
POSSIBLE_HOSTS = [
    PossibleTargetHost(host, host.split(".")[0][:-2], host.partition("-")[0], "master" if "-a." in host else "slave")
    for host in HOSTS
]
A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"


def target_of(name: str = "", **more: object) -> TargetHostsAndPairs:
    return resolve_target(POSSIBLE_HOSTS, name, **more)  # type: ignore[arg-type]


def test_empty_activemq_target_selects_whole_fleet() -> None:
    selection = target_of()
    assert (selection.kind, sorted(selection.hosts), selection.chosen) == ("fleet", sorted(HOSTS), selection.hosts)


def test_activemq_target_of_group_has_pairs_with_preferred_master_first() -> None:
    selection = target_of("orders")
    assert list(selection.pairs) == ["orders-mq01", "orders-mq02"]
    assert selection.pairs["orders-mq01"] == (A, B)
    assert selection.hosts == (*selection.pairs["orders-mq01"], *selection.pairs["orders-mq02"])


def test_activemq_target_of_pair_has_both_nodes() -> None:
    assert target_of("orders-mq01").hosts == (A, B)


@pytest.mark.parametrize("name", [B, "orders-mq01-b"])
def test_activemq_target_of_host_observes_peer_without_choosing_it(name: str) -> None:
    selection = target_of(name)
    assert (selection.kind, selection.hosts, selection.chosen) == ("host", (A, B), (B,))


def test_unknown_activemq_target_is_error_that_suggests_nearest_name() -> None:
    with pytest.raises(
        InputError, match=r"activemq_target is orders-mq1, which is not .*\. Did you mean orders-mq01\?"
    ):
        target_of("orders-mq1")


def test_activemq_target_that_is_label_of_two_hosts_is_refused() -> None:
    hosts_with_same_label = [
        PossibleTargetHost(f"x-mq01-a.{domain}", f"{domain}", "x", "master") for domain in ("one", "two")
    ]
    with pytest.raises(
        InputError, match=r"but 2 host names begin with this name\. Set it to one of x-mq01-a\.one, x-mq01-a\.two"
    ):
        resolve_target(hosts_with_same_label, "x-mq01-a")


def test_switchover_activates_preferred_masters_or_named_node() -> None:
    assert target_of("orders").to == {"orders-mq01": A, "orders-mq02": "orders-mq02-a.example.com"}
    assert target_of("orders", node_to_activate="orders-mq01-b").to == {"orders-mq01": B}


def test_switchover_refuses_first_label_of_both_nodes() -> None:
    nodes = [PossibleTargetHost(f"orders.{name}", "orders", "x", role) for name, role in (("a", "master"), ("b", ""))]
    with pytest.raises(InputError, match=r"^activemq_to is orders, but 2 host names .* one of orders\.a, orders\.b$"):
        resolve_target(nodes, node_to_activate="orders")


def test_switchover_refuses_node_outside_target() -> None:
    with pytest.raises(
        InputError,
        match=r"which is not a node of the pairs that activemq_target selects\. Set activemq_to to one of",
    ):
        target_of("orders-mq01", node_to_activate="stock-mq01-a")
    with pytest.raises(
        InputError, match=r"activemq_to is orders-mq01-c, which is not a broker .*\. Did you mean orders-mq01-"
    ):
        target_of("orders-mq01", node_to_activate="orders-mq01-c")


def test_limit_that_excludes_node_of_pair_is_refused() -> None:
    with pytest.raises(InputError, match=f"--limit excludes these hosts of pair orders-mq01: {B}"):
        target_of("orders-mq01", play_hosts=[A])
    with pytest.raises(InputError, match="--limit excludes these hosts of pair orders-mq01"):
        target_of(play_hosts=[host for host in HOSTS if host != B])


def test_limit_that_excludes_pair_of_target_is_refused() -> None:
    with pytest.raises(InputError, match=r"--limit excludes these hosts of the target \(the whole fleet\)"):
        target_of(play_hosts=[A, B])


def test_limit_that_includes_target_is_accepted() -> None:
    assert target_of("orders-mq01", play_hosts=[A, B]).hosts == (A, B)


def test_start_time_of_playbook_run_is_now_or_given_time() -> None:
    now = datetime(2026, 11, 21, 13, 45, 6, 700000, UTC).timestamp()
    assert operation_start_time_as_text_and_epoch("", now) == {"since": "2026-11-21T13:45:06Z", "since_epoch": int(now)}
    assert operation_start_time_as_text_and_epoch("2026-11-21T14:40:00+01:00", now)["since"] == "2026-11-21T13:40:00Z"


@pytest.mark.parametrize(
    ("start_time", "message"), [("soon", "which is not a time"), ("2026-11-21T13:45:09Z", "is in the future")]
)
def test_invalid_or_future_start_time_of_playbook_run_is_refused(start_time: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        operation_start_time_as_text_and_epoch(start_time, datetime(2026, 11, 21, 13, 45, 6, tzinfo=UTC).timestamp())


def test_decision_target_lists_nodes_that_require_resync() -> None:
    brokers = {
        possible_host.host: facts_of_broker(
            possible_host.host,
            pair=possible_host.pair,
            group=possible_host.group,
            role=possible_host.role,
            needs_resync=possible_host.group == "stock",
        )
        for possible_host in POSSIBLE_HOSTS
    }
    request = OperationDecisionRequest(fleet=FleetFacts(brokers=brokers), options={"reach": HOSTS})
    assert decide_operation("target", request)["target"]["needs_resync"] == [
        "stock-mq01-a.example.com",
        "stock-mq01-b.example.com",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"megabytes": "abc"}, "activemq_collect_megabytes is 'abc'. Set it to a whole number of 1 or more"),
        ({"megabytes": 0}, "activemq_collect_megabytes is '0'"),
        ({"timeout": "1.5"}, "activemq_collect_timeout is '1.5'"),
        ({"days": -1}, "activemq_collect_days is '-1'. Set it to a whole number of 0 or more"),
        ({"megabytes": float("inf")}, "activemq_collect_megabytes is 'inf'"),
        ({"days": ""}, "activemq_collect_days is ''"),
        ({"dumps": "some"}, "activemq_collect_dumps is 'some'. Set it to hung, always or never"),
    ],
)
def test_collect_refuses_value_that_its_module_would_reject(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        decide_operation("collect", collect_request(options))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"megabytes": None, "dumps": ""},
        {"megabytes": "50", "timeout": 1, "days": 0, "dumps": "never"},
        {"megabytes": 200.0, "timeout": "600.0", "days": "1e1"},
    ],
)
def test_collect_accepts_valid_and_missing_values(options: dict[str, object]) -> None:
    assert decide_operation("collect", collect_request(options))["hosts"] == [A]


def collect_request(options: dict[str, object]) -> OperationDecisionRequest:
    return OperationDecisionRequest(fleet=FleetFacts(brokers={A: facts_of_broker(A)}), options=options)
