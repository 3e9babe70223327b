"""Which shared stores ``site`` may mark."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.operations import RefusalError
from activemq_fleet.operations.stores import ObservedSharedStore, hosts_of_unmarked_stores_by_pair


def seen(host: str, **more: Any) -> ObservedSharedStore:
    values = {"exists": True, "mounted": True, "used": False} | more
    return ObservedSharedStore(host=host, pair="x-mq01", directory="/srv/x", **values)


def stores(*looks: ObservedSharedStore) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """The stores to mark, and what is refused."""
    try:
        return hosts_of_unmarked_stores_by_pair(looks, {"x-mq01": 2}), ()
    except RefusalError as error:
        return {}, error.problems


def test_a_new_store_is_claimed_by_one_node_and_found_by_the_other() -> None:
    assert stores(seen("b"), seen("a")) == ({"x-mq01": ("a", "b")}, ())


def test_a_store_that_both_see_marked_is_fine() -> None:
    assert stores(seen("a", marked=("x-mq01",), used=True), seen("b", marked=("x-mq01", "w"), used=True)) == ({}, ())


@pytest.mark.parametrize(
    ("looks", "problem"),
    [
        (
            (seen("a", marked=("y-mq09",)), seen("b")),
            "a: directory /srv/x contains the store of pair y-mq09, not of pair x-mq01",
        ),
        (
            (seen("a", marked=("x-mq01",)), seen("b")),
            "b: directory /srv/x is not the store of host a, so",
        ),
        ((seen("a", used=True), seen("b")), "a: the store /srv/x contains messages, but no file .activemq-fleet"),
        (
            (seen("a"), seen("b", exists=False, mounted=False)),
            "b: the store directory /srv/x does not exist, and it is not on a mounted file",
        ),
        (
            (seen("a", exists=False, mounted=False), seen("b", exists=False, mounted=False)),
            "a, b: the store directory /srv/x does not exist, and it is not on a mounted file",
        ),
        ((seen("a"),), "a: the store of pair x-mq01 is new. Only a run with both nodes can check"),
        (
            (seen("a"), seen("b", broker_pid=77)),
            "b: the broker runs (process 77), but the store /srv/x is new. After a restart, clients would not receive",
        ),
        ((seen("a", marked=()), seen("b", marked=())), "a: directory /srv/x contains the store of pair (no name)"),
    ],
)
def test_a_store_in_doubt_is_not_touched(looks: tuple[ObservedSharedStore, ...], problem: str) -> None:
    claims, problems = stores(*looks)
    assert claims == {}
    assert len(problems) == 1
    assert problems[0].startswith(problem)


def test_one_node_of_a_marked_store_may_be_looked_at_alone() -> None:
    assert stores(seen("a", marked=("x-mq01",), used=True)) == ({}, ())


@pytest.mark.parametrize("fence", ["none", "command"])
def test_a_store_of_guards_is_given_to_no_broker_without_generations(fence: str) -> None:
    used = {"marked": ("x-mq01",), "used": True}
    (problem,) = stores(seen("a", fenced=True, fence=fence, **used))[1]
    assert "a broker without this setting waits indefinitely for its lock. Set activemq_fence to guard" in problem
    assert "run the playbook unfence for pair x-mq01 first" in problem


@pytest.mark.parametrize("fenced", [True, False])
def test_guards_take_a_store_over_whoever_used_it(fenced: bool) -> None:
    assert stores(seen("a", fenced=fenced, fence="guard", marked=("x-mq01",), used=True)) == ({}, ())
