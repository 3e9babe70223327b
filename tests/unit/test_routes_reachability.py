"""Reachability in small networks, compared with a slow simulation of advisories and messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activemq_fleet.network.connectors import UNLIMITED
from activemq_fleet.routes.forwarding_choices import message_outcome_for_all_bridge_choices
from activemq_fleet.routes.reachability import BridgeEdge, BridgeGraph

Path = tuple[int, ...]


@dataclass(frozen=True)
class Subscription:
    """The subscription of a bridge at its source broker; the last broker of the path of its demand is the peer."""

    edge: BridgeEdge
    path: Path

    @property
    def priority(self) -> int:
        if not self.edge.near:
            return 0
        return -5 if len(self.path) == 1 else -5 - (len(self.path) + 1)


def simulated_subscriptions(graph: BridgeGraph, consumer: int) -> dict[int, list[Subscription]]:
    """Return, by broker, every subscription that a consumer at a broker causes; forward each advisory separately."""
    subscriptions: dict[int, list[Subscription]] = {broker: [] for broker in range(graph.size)}
    advisories: list[tuple[int, Path]] = [(consumer, ())]
    while advisories:
        broker, path = advisories.pop()
        for edge in graph.edges:
            if edge.target != broker or len(path) >= edge.consumer_ttl or edge.source in path:
                continue
            subscription = Subscription(edge, (*path, broker))
            subscriptions[edge.source].append(subscription)
            advisories.append((edge.source, subscription.path))
    return subscriptions


def simulated_outcomes(
    subscriptions: dict[int, list[Subscription]], source: int, consumer: int, *, by_priority: bool
) -> Iterator[bool]:
    """Yield, for each route that messages can take, whether the route ends at the broker of the consumer."""
    pending: list[tuple[int, Path]] = [(source, ())]
    while pending:
        broker, path = pending.pop()
        if broker == consumer:
            yield True
            continue
        usable = [s for s in subscriptions[broker] if s.edge.target not in path and len(path) < s.edge.message_ttl]
        if not usable:
            yield False
        elif by_priority:
            highest = max(s.priority for s in usable)
            usable = [s for s in usable if s.priority == highest]
        pending += {(s.edge.target, (*path, broker)) for s in usable}


TTL = st.one_of(st.integers(0, 4), st.just(UNLIMITED))


@st.composite
def bridge_graphs(draw: st.DrawFn) -> BridgeGraph:
    size = draw(st.integers(2, 5))
    uniform: bool = draw(st.booleans())
    limit, near = draw(st.integers(1, 4)), draw(st.booleans())
    edges: list[BridgeEdge] = []
    for source in range(size):
        for target in range(size):
            if source != target and draw(st.booleans()):
                consumer, message = (limit, limit) if uniform else (draw(TTL), draw(TTL))
                edges.append(BridgeEdge(source, target, consumer, message, near if uniform else draw(st.booleans())))
    has_parallel_edge: bool = draw(st.booleans())
    if edges and has_parallel_edge:
        parallel_edge: BridgeEdge = draw(st.sampled_from(edges))
        edges.append(parallel_edge._replace(consumer_ttl=draw(TTL), message_ttl=draw(TTL)))
    return BridgeGraph(size, tuple(edges))


@settings(deadline=None, max_examples=400)
@given(bridge_graphs())
def test_reachable_brokers_and_outcomes_of_messages_agree_with_simulation(graph: BridgeGraph) -> None:
    for consumer in range(graph.size):
        subscriptions = simulated_subscriptions(graph, consumer)
        for source in set(range(graph.size)) - {consumer}:
            outcomes = set(simulated_outcomes(subscriptions, source, consumer, by_priority=False))
            assert (graph.message_reach_by_broker[source].arrives >> consumer & 1 == 1) == (True in outcomes)
            assert (graph.reachable_broker_masks_by_source[source] >> consumer & 1 == 1) == (True in outcomes)
            if True in outcomes:
                priority_outcomes = set(simulated_outcomes(subscriptions, source, consumer, by_priority=True))
                expected = "arrives" if outcomes == {True} else "strands" if False in priority_outcomes else "full"
                assert message_outcome_for_all_bridge_choices(graph, source, consumer) == expected


@settings(deadline=None, max_examples=200)
@given(bridge_graphs())
def test_failure_cuts_off_consumers_whose_only_route_passes_broker(
    graph: BridgeGraph,
) -> None:
    for failed in range(graph.size):
        remaining = BridgeGraph(graph.size, tuple(edge for edge in graph.edges if failed not in edge[:2]))
        for source in set(range(graph.size)) - {failed}:
            reach_before = graph.message_reach_by_broker[source]
            lost = reach_before.arrives & ~remaining.message_reach_by_broker[source].arrives & ~(1 << failed)
            through = reach_before.through.get(failed, 0)
            assert not lost & ~through
            assert not through & ~reach_before.forked & ~lost


def chain_graph(size: int, ttl: int, *, consumer: int | None = None, replays: int = 0, merges: int = 0) -> BridgeGraph:
    """Return a chain of duplex bridges."""
    edges = [
        BridgeEdge(a, b, ttl if consumer is None else consumer, ttl)
        for near in range(size - 1)
        for a, b in ((near, near + 1), (near + 1, near))
    ]
    return BridgeGraph(size, tuple(edges), replays, merges)


def ring_graph(size: int, ttl: int, *, near: bool = True, replays: int = 0, merges: int = 0) -> BridgeGraph:
    """Return a ring of duplex bridges."""
    edges = [BridgeEdge(a, (a + step) % size, ttl, ttl, near) for a in range(size) for step in (1, -1)]
    return BridgeGraph(size, tuple(edges), replays, merges)


@pytest.mark.parametrize(("ttl", "furthest"), [(1, 1), (2, 2), (3, 3)])
def test_ttl_is_number_of_bridges_that_message_passes(ttl: int, furthest: int) -> None:
    graph = chain_graph(5, ttl)

    assert [hop for hop in range(1, 5) if graph.message_reach_by_broker[0].arrives >> hop & 1] == list(
        range(1, furthest + 1)
    )


def test_consumer_ttl_limits_messages_with_unlimited_message_ttl() -> None:
    assert chain_graph(4, UNLIMITED, consumer=1).message_reach_by_broker[0].arrives == 0b0010


def test_chain_of_brokers_offers_no_choice_of_bridges() -> None:
    assert all(spread.forked == 0 for spread in chain_graph(6, UNLIMITED).message_reach_by_broker)


def test_messages_arrive_on_ring_with_ttl_of_at_least_half_of_ring() -> None:
    assert message_outcome_for_all_bridge_choices(ring_graph(4, 2), 0, 1) == "arrives"
    assert message_outcome_for_all_bridge_choices(ring_graph(5, 3), 0, 2) == "arrives"
    assert message_outcome_for_all_bridge_choices(ring_graph(6, 4), 0, 2) == "arrives"


def mesh_graph(size: int, ttl: int, *, near: bool = True) -> BridgeGraph:
    """Return a mesh with a one-way bridge from each broker to each other broker."""
    return BridgeGraph(
        size, tuple(BridgeEdge(a, b, ttl, ttl, near) for a in range(size) for b in range(size) if a != b)
    )


def test_detour_that_ttl_cuts_is_used_only_if_near_bridge_is_full() -> None:
    assert message_outcome_for_all_bridge_choices(mesh_graph(4, 3), 0, 3) == "arrives"
    assert message_outcome_for_all_bridge_choices(mesh_graph(5, 3), 0, 3) == "full"


def test_messages_without_bridge_priorities_take_detours_and_strand() -> None:
    assert message_outcome_for_all_bridge_choices(mesh_graph(5, 3, near=False), 0, 3) == "strands"


def test_replayed_message_uses_up_its_ttl_on_ring() -> None:
    assert message_outcome_for_all_bridge_choices(ring_graph(4, 3), 0, 1) == "arrives"
    assert message_outcome_for_all_bridge_choices(ring_graph(4, 3, replays=0b1111), 0, 1) == "full"


def test_arrival_is_uncertain_with_merged_demand_and_two_routes() -> None:
    assert message_outcome_for_all_bridge_choices(ring_graph(4, 3), 0, 2) == "arrives"
    assert message_outcome_for_all_bridge_choices(ring_graph(4, 3, merges=0b1111), 0, 2) != "arrives"


def test_bridge_with_static_destination_needs_no_demand() -> None:
    graph = BridgeGraph(3, (BridgeEdge(0, 1, 0, 2, always=True), BridgeEdge(1, 2, 1, 2)))

    assert graph.message_reach_by_broker[0].arrives == 0b110


def test_static_subscription_of_bridge_is_announced_like_consumer() -> None:
    """The second bridge subscribes to the destination of the first bridge, although no consumer is known."""
    graph = BridgeGraph(3, (BridgeEdge(1, 2, 0, UNLIMITED, always=True), BridgeEdge(0, 1, 2, UNLIMITED)))

    assert graph.message_reach_by_broker[0].arrives == 0b110
    assert (
        BridgeGraph(3, (BridgeEdge(1, 2, 0, 9, always=True), BridgeEdge(0, 1, 1, 9))).message_reach_by_broker[0].arrives
        == 0b010
    )


def test_mesh_of_60_brokers_reaches_all_brokers() -> None:
    graph = mesh_graph(60, 3)

    assert all(spread.arrives.bit_count() == 59 for spread in graph.message_reach_by_broker)
    assert message_outcome_for_all_bridge_choices(graph, 0, 1) == "full"
