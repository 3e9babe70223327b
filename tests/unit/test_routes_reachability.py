"""Who reaches whom on small networks, beside a slow simulation of advisories and messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activemq_fleet.network.connectors import UNLIMITED
from activemq_fleet.routes.forwarding_choices import outcome_of_bridge_choices
from activemq_fleet.routes.reachability import BridgeEdge, BridgeGraph

Path = tuple[int, ...]


@dataclass(frozen=True)
class Subscription:
    """What a bridge's consumer holds at the bridge's own broker: demand's path, its last broker the peer."""

    edge: BridgeEdge
    path: Path

    @property
    def priority(self) -> int:
        if not self.edge.near:
            return 0
        return -5 if len(self.path) == 1 else -5 - (len(self.path) + 1)


def simulate(shape: BridgeGraph, consumer: int) -> dict[int, list[Subscription]]:
    """Every subscription that a consumer at one broker leads to: each advisory is passed on, one by one."""
    held: dict[int, list[Subscription]] = {broker: [] for broker in range(shape.size)}
    advisories: list[tuple[int, Path]] = [(consumer, ())]
    while advisories:
        broker, path = advisories.pop()
        for edge in shape.edges:
            if edge.target != broker or len(path) >= edge.consumer_ttl or edge.source in path:
                continue
            subscription = Subscription(edge, (*path, broker))
            held[edge.source].append(subscription)
            advisories.append((edge.source, subscription.path))
    return held


def ends(held: dict[int, list[Subscription]], source: int, consumer: int, *, usual: bool) -> Iterator[bool]:
    """For each way that messages can take, whether it ends at the consumer's broker."""
    waiting: list[tuple[int, Path]] = [(source, ())]
    while waiting:
        broker, path = waiting.pop()
        if broker == consumer:
            yield True
            continue
        may = [s for s in held[broker] if s.edge.target not in path and len(path) < s.edge.message_ttl]
        if not may:
            yield False
        elif usual:
            highest = max(s.priority for s in may)
            may = [s for s in may if s.priority == highest]
        waiting += {(s.edge.target, (*path, broker)) for s in may}


TTL = st.one_of(st.integers(0, 4), st.just(UNLIMITED))


@st.composite
def shapes(draw: st.DrawFn) -> BridgeGraph:
    size = draw(st.integers(2, 5))
    alike: bool = draw(st.booleans())
    limit, near = draw(st.integers(1, 4)), draw(st.booleans())
    edges: list[BridgeEdge] = []
    for source in range(size):
        for target in range(size):
            if source != target and draw(st.booleans()):
                consumer, message = (limit, limit) if alike else (draw(TTL), draw(TTL))
                edges.append(BridgeEdge(source, target, consumer, message, near if alike else draw(st.booleans())))
    doubled: bool = draw(st.booleans())
    if edges and doubled:
        twin: BridgeEdge = draw(st.sampled_from(edges))
        edges.append(twin._replace(consumer_ttl=draw(TTL), message_ttl=draw(TTL)))
    return BridgeGraph(size, tuple(edges))


@settings(deadline=None, max_examples=400)
@given(shapes())
def test_what_arrives_and_what_strands_is_what_the_simulation_says(shape: BridgeGraph) -> None:
    for consumer in range(shape.size):
        held = simulate(shape, consumer)
        for source in set(range(shape.size)) - {consumer}:
            every = set(ends(held, source, consumer, usual=False))
            assert (shape.message_reach_by_broker[source].arrives >> consumer & 1 == 1) == (True in every)
            if True in every:
                usual = set(ends(held, source, consumer, usual=True))
                expected = "arrives" if every == {True} else "strands" if False in usual else "full"
                assert outcome_of_bridge_choices(shape, source, consumer) == expected


@settings(deadline=None, max_examples=200)
@given(shapes())
def test_death_cuts_off_consumers_whose_only_route_passes_the_broker(
    shape: BridgeGraph,
) -> None:
    for dead in range(shape.size):
        left = BridgeGraph(shape.size, tuple(edge for edge in shape.edges if dead not in edge[:2]))
        for source in set(range(shape.size)) - {dead}:
            before = shape.message_reach_by_broker[source]
            lost = before.arrives & ~left.message_reach_by_broker[source].arrives & ~(1 << dead)
            through = before.through.get(dead, 0)
            assert not lost & ~through
            assert not through & ~before.forked & ~lost


def line(size: int, ttl: int, *, consumer: int | None = None, replays: int = 0, merges: int = 0) -> BridgeGraph:
    """A chain of duplex bridges."""
    edges = [
        BridgeEdge(a, b, ttl if consumer is None else consumer, ttl)
        for near in range(size - 1)
        for a, b in ((near, near + 1), (near + 1, near))
    ]
    return BridgeGraph(size, tuple(edges), replays, merges)


def circle(size: int, ttl: int, *, near: bool = True, replays: int = 0, merges: int = 0) -> BridgeGraph:
    """A ring of duplex bridges."""
    edges = [BridgeEdge(a, (a + step) % size, ttl, ttl, near) for a in range(size) for step in (1, -1)]
    return BridgeGraph(size, tuple(edges), replays, merges)


@pytest.mark.parametrize(("ttl", "furthest"), [(1, 1), (2, 2), (3, 3)])
def test_the_ttl_is_the_number_of_bridges_that_a_message_passes(ttl: int, furthest: int) -> None:
    shape = line(5, ttl)

    assert [hop for hop in range(1, 5) if shape.message_reach_by_broker[0].arrives >> hop & 1] == list(
        range(1, furthest + 1)
    )


def test_demand_that_ends_early_keeps_messages_whose_own_limit_is_large() -> None:
    assert line(4, UNLIMITED, consumer=1).message_reach_by_broker[0].arrives == 0b0010


def test_no_broker_of_a_chain_has_a_choice() -> None:
    assert all(spread.forked == 0 for spread in line(6, UNLIMITED).message_reach_by_broker)


def test_a_ttl_longer_than_half_a_ring_opens_the_long_way_round_to_the_near_peer() -> None:
    assert outcome_of_bridge_choices(circle(4, 2), 0, 1) == "arrives"
    assert outcome_of_bridge_choices(circle(5, 3), 0, 2) == "arrives"
    assert outcome_of_bridge_choices(circle(6, 4), 0, 2) == "arrives"


def mesh(size: int, ttl: int, *, near: bool = True) -> BridgeGraph:
    """One way from each to each."""
    return BridgeGraph(
        size, tuple(BridgeEdge(a, b, ttl, ttl, near) for a in range(size) for b in range(size) if a != b)
    )


def test_a_long_way_that_the_ttl_cuts_is_taken_only_when_the_near_bridge_is_full() -> None:
    assert outcome_of_bridge_choices(mesh(4, 3), 0, 3) == "arrives"
    assert outcome_of_bridge_choices(mesh(5, 3), 0, 3) == "full"


def test_without_priorities_messages_are_dealt_out_to_the_long_ways_too() -> None:
    assert outcome_of_bridge_choices(mesh(5, 3, near=False), 0, 3) == "strands"


def test_a_message_that_may_go_back_uses_up_its_ttl_on_a_ring() -> None:
    assert outcome_of_bridge_choices(circle(4, 3), 0, 1) == "arrives"
    assert outcome_of_bridge_choices(circle(4, 3, replays=0b1111), 0, 1) == "full"


def test_demand_that_was_merged_is_uncertain_where_two_ways_lead() -> None:
    assert outcome_of_bridge_choices(circle(4, 3), 0, 2) == "arrives"
    assert outcome_of_bridge_choices(circle(4, 3, merges=0b1111), 0, 2) != "arrives"


def test_a_bridge_with_a_static_destination_needs_no_demand() -> None:
    shape = BridgeGraph(3, (BridgeEdge(0, 1, 0, 2, always=True), BridgeEdge(1, 2, 1, 2)))

    assert shape.message_reach_by_broker[0].arrives == 0b110


def test_a_static_subscription_is_announced_like_a_consumer() -> None:
    """The second bridge subscribes for what the first one takes, though no consumer is known."""
    shape = BridgeGraph(3, (BridgeEdge(1, 2, 0, UNLIMITED, always=True), BridgeEdge(0, 1, 2, UNLIMITED)))

    assert shape.message_reach_by_broker[0].arrives == 0b110
    assert (
        BridgeGraph(3, (BridgeEdge(1, 2, 0, 9, always=True), BridgeEdge(0, 1, 1, 9))).message_reach_by_broker[0].arrives
        == 0b010
    )


def test_a_mesh_of_many_brokers_is_solved_at_once() -> None:
    shape = mesh(60, 3)

    assert all(spread.arrives.bit_count() == 59 for spread in shape.message_reach_by_broker)
    assert outcome_of_bridge_choices(shape, 0, 1) == "full"
