"""Determine whether a broker may forward a message to another broker from which it cannot reach its consumer.

A queue dispatches each message to one subscription: of those that are not full, one with the highest priority, in turn
among equal priorities (source: Queue.doActualDispatch). With decreaseNetworkConsumerPriority, the priority of a
bridge's subscription decreases with the number of bridges to the consumer (-5, then -8, -9 …). Without it, all
priorities are equal. Messages therefore use the longer of two routes while the shorter one is full, which means that
its peer has not acknowledged 1,000 messages. Both routes are examined here; ``usual`` distinguishes them.

A message stays at its broker if its path already contains all next brokers, or if every messageTTL is too small. With
replayWhenNoConsumers, a broker can send it back to an earlier broker, and does so while all other bridges are full.
This lengthens the path of the message, so it is one more choice and does not prevent that the message gets stuck.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from activemq_fleet.network.connectors import UNLIMITED
from activemq_fleet.routes.reachability import BridgeGraph

_MAXIMUM_STATES = 20_000

ChoiceOutcome = Literal["arrives", "full", "strands", "unknown"]
"""``arrives``: always. ``strands``: the message can get stuck. ``full``: it gets stuck only if a nearer bridge is full.
``unknown``: there are too many ways to examine.
"""


class _State(NamedTuple):
    """A message at ``broker``; ``path`` is the set of those that forwarded it, in ``hops`` bridges."""

    broker: int
    path: int
    hops: int


def message_outcome_for_all_bridge_choices(
    graph: BridgeGraph, source: int, target: int, *, patience: int = _MAXIMUM_STATES
) -> ChoiceOutcome:
    """Return whether a message from ``source`` reaches ``target``, whichever bridges the brokers choose for it.

    ``arrives``: it arrives after all choices. ``strands``: it gets stuck after some choices. ``full``: it gets stuck
    only if a nearer bridge is full. ``patience``: how many states of a message to examine before the outcome is
    ``unknown``.
    """
    if not graph.message_reach_by_broker[source].forked >> target & 1:
        return "arrives"
    search = _RouteSearch(graph, target, patience)
    if search.forwarders_have_direct_bridges(source):
        return "arrives"
    # If messageTTLs are large enough, each step on the shortest route is closer to the consumer.
    is_stuck_usually = not (graph.has_ample_ttl and not graph.merges) and search.can_message_get_stuck(
        source, usual=True
    )
    can_get_stuck = search.can_message_get_stuck(source, usual=False)
    if can_get_stuck is False:
        return "arrives"
    if is_stuck_usually:
        return "strands"
    return "unknown" if can_get_stuck is None or is_stuck_usually is None else "full"


class _RouteSearch:
    """A search over all routes by which messages can reach the broker of one consumer."""

    def __init__(self, shape: BridgeGraph, target: int, patience: int) -> None:
        self.shape = shape
        self.patience = patience
        self.target = target
        self._distances: dict[int, dict[int, int]] = {}
        self._bridges: dict[int, list[tuple[int, int]]] = {}

    def bridges_forwarding_to_consumer(self, broker: int) -> list[tuple[int, int]]:
        """Return the bridges over which a broker forwards messages to one consumer's broker.

        Each is (peer, messageTTL). The consumer is on the broker ``target``.
        """
        if broker not in self._bridges:
            bridges = self.shape.bridges_with_demand_by_broker[broker]
            self._bridges[broker] = [(peer, ttl) for peer, ttl, mask in bridges if mask >> self.target & 1]
        return self._bridges[broker]

    def forwarders_have_direct_bridges(self, source: int) -> bool:
        """Return whether each broker on a route from ``source`` has a direct bridge to the consumer's broker.

        All TTLs must permit the route.
        """
        visited, pending = {source, self.target}, [source]
        while pending:
            bridges = self.bridges_forwarding_to_consumer(pending.pop())
            if not any(peer == self.target and ttl >= self._ample_ttl for peer, ttl in bridges):
                return False
            new_brokers = {peer for peer, _ in bridges} - visited
            visited |= new_brokers
            pending += new_brokers
        return True

    def can_message_get_stuck(self, source: int, *, usual: bool) -> bool | None:
        """Return whether brokers can choose bridges such that a message from ``source`` stops before it arrives.

        The result is None if there are too many choices to test.
        """
        pending = [_State(source, 0, 0)]
        visited = set(pending)
        while pending:
            state = pending.pop()
            next_brokers = self._possible_next_brokers(state)
            if not next_brokers:
                return True
            if usual:
                next_brokers = self._next_brokers_with_highest_priority(state.broker, next_brokers)
            elif self.shape.replays >> state.broker & 1:
                next_brokers |= {
                    peer for peer, _ in self.bridges_forwarding_to_consumer(state.broker) if state.path >> peer & 1
                }
            if self._may_merge_demand(state, next_brokers):
                return True
            path, hops = state.path | 1 << state.broker, min(state.hops + 1, self.shape.longest_limited_message_ttl)
            for peer in next_brokers - {self.target}:
                next_state = _State(peer, path, hops)
                if next_state not in visited:
                    visited.add(next_state)
                    pending.append(next_state)
            if len(visited) > self.patience:
                return None
        return False

    @property
    def _ample_ttl(self) -> int:
        """A messageTTL that is larger than any path. A path has no limit where brokers send messages back."""
        return UNLIMITED if self.shape.replays else self.shape.size

    def _possible_next_brokers(self, state: _State) -> set[int]:
        return {
            peer
            for peer, ttl in self.bridges_forwarding_to_consumer(state.broker)
            if ttl > state.hops and not state.path >> peer & 1
        }

    def _may_merge_demand(self, state: _State, next_brokers: set[int]) -> bool:
        """Return whether demand may arrive by another route first, so that no subscription here is certain."""
        if self.target in next_brokers or not self.shape.merges >> state.broker & 1:
            return False
        return not any(self._has_single_demand_route(peer) for peer in next_brokers)

    def _has_single_demand_route(self, peer: int) -> bool:
        """Return whether demand has only one route to ``peer``."""
        for _ in range(self.shape.size):
            if peer == self.target:
                return True
            peers = {next_peer for next_peer, _ in self.bridges_forwarding_to_consumer(peer)}
            if len(peers) != 1:
                return False
            (peer,) = peers
        return False

    def _next_brokers_with_highest_priority(self, broker: int, next_brokers: set[int]) -> set[int]:
        """Return the next brokers whose subscriptions have the highest priority.

        If the broker merges demand, the priorities are not known, and all next brokers are returned unless the
        consumer's broker is one of them.
        """
        if self.shape.merges >> broker & 1 and self.target not in next_brokers:
            return next_brokers
        distances = self._distances.get(broker)
        if distances is None:
            distances = self._distances[broker] = self.shape.demand_hops_by_broker(self.target, broker)
        rank_by_broker: dict[int, int] = {}
        for edge in (self.shape.edges[number] for number in self.shape.outgoing_bridge_indices_by_broker[broker]):
            if edge.target in next_brokers:
                hops = distances.get(edge.target, self.shape.size)
                if hops < edge.consumer_ttl or edge.always:
                    rank = 0 if not edge.near else 5 if hops == 0 or edge.always else hops + 7
                    rank_by_broker[edge.target] = min(rank_by_broker.get(edge.target, rank), rank)
        if not rank_by_broker:  # demand of a static subscription, whose route is unknown
            return next_brokers
        best_rank = min(rank_by_broker.values())
        return {peer for peer, rank in rank_by_broker.items() if rank == best_rank}
