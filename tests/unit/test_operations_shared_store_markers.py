"""The shared stores that the playbook site may mark."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.operations import RefusalError
from activemq_fleet.operations.shared_store_markers import SharedStoreObservedOnHost, hosts_of_unmarked_stores_by_pair


def observed_store(host: str, **more: Any) -> SharedStoreObservedOnHost:
    evidence_values = {"exists": True, "mounted": True, "used": False} | more
    return SharedStoreObservedOnHost(host=host, pair="x-mq01", directory="/srv/x", **evidence_values)


def stores_to_mark_and_problems(
    *observations: SharedStoreObservedOnHost,
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Return the hosts of the stores to mark, by pair, and the problems of a refusal."""
    try:
        return hosts_of_unmarked_stores_by_pair(observations, {"x-mq01": 2}), ()
    except RefusalError as error:
        return {}, error.problems


def test_new_store_of_both_nodes_is_marked() -> None:
    assert stores_to_mark_and_problems(observed_store("b"), observed_store("a")) == ({"x-mq01": ("a", "b")}, ())


def test_marked_store_of_both_nodes_requires_no_mark() -> None:
    assert stores_to_mark_and_problems(
        observed_store("a", marked=("x-mq01", "w"), used=True), observed_store("b", marked=("x-mq01", "w"), used=True)
    ) == ({}, ())


@pytest.mark.parametrize(
    ("observations", "problem"),
    [
        (
            (observed_store("a", marked=("y-mq09",)), observed_store("b")),
            "a: directory /srv/x contains the store of pair y-mq09, not of pair x-mq01",
        ),
        (
            (observed_store("a", marked=("x-mq01",)), observed_store("b")),
            "b: directory /srv/x is not the store of host a, so",
        ),
        (
            (observed_store("a", marked=("x-mq01", "run1")), observed_store("b", marked=("x-mq01", "run2"))),
            "b: directory /srv/x is not the store of host a, so",
        ),
        (
            (observed_store("a", used=True), observed_store("b")),
            "a: the store /srv/x contains messages, but no file .activemq-fleet",
        ),
        (
            (observed_store("a"), observed_store("b", exists=False, mounted=False)),
            "b: the store directory /srv/x does not exist, and it is not on a mounted file",
        ),
        (
            (observed_store("a", exists=False, mounted=False), observed_store("b", exists=False, mounted=False)),
            "a, b: the store directory /srv/x does not exist, and it is not on a mounted file",
        ),
        ((observed_store("a"),), "a: the store of pair x-mq01 is new. Only a run with both nodes can check"),
        (
            (observed_store("a"), observed_store("b", broker_pid=77)),
            "b: the broker runs (process 77), but the store /srv/x is new. After a restart, clients would not receive",
        ),
        (
            (observed_store("a", marked=()), observed_store("b", marked=())),
            "a: directory /srv/x contains the store of pair (no name)",
        ),
    ],
)
def test_store_with_problem_is_not_marked(observations: tuple[SharedStoreObservedOnHost, ...], problem: str) -> None:
    stores_to_mark, problems = stores_to_mark_and_problems(*observations)
    assert stores_to_mark == {}
    assert len(problems) == 1
    assert problems[0].startswith(problem)


def test_marked_store_of_single_observed_node_is_no_problem() -> None:
    assert stores_to_mark_and_problems(observed_store("a", marked=("x-mq01",), used=True)) == ({}, ())


@pytest.mark.parametrize("fence", ["none", "command"])
def test_store_with_generations_is_refused_for_broker_without_guard(fence: str) -> None:
    used = {"marked": ("x-mq01",), "used": True}
    (problem,) = stores_to_mark_and_problems(observed_store("a", fenced=True, fence=fence, **used))[1]
    assert "a broker without this setting waits indefinitely for its lock. Set activemq_fence to guard" in problem
    assert "run the playbook unfence for pair x-mq01 first" in problem


@pytest.mark.parametrize("fenced", [True, False])
def test_guard_accepts_used_store_with_and_without_generations(fenced: bool) -> None:
    assert stores_to_mark_and_problems(
        observed_store("a", fenced=fenced, fence="guard", marked=("x-mq01",), used=True)
    ) == ({}, ())
