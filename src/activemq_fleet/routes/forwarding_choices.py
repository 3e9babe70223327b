"""Find out whether a broker may forward a message to another broker from which it cannot reach its consumer.

A queue gives each message to one of the subscriptions that may have it: the one with the highest priority that is not
full, in turn among equals (source: Queue.doActualDispatch). Bridges' subscriptions rank by the length of demand's way
(-5, then -8, -9 …) where decreaseNetworkConsumerPriority is set, and are all equal where it is not. So of two bridges
the longer way is taken when the shorter one is full: 1,000 messages that its peer has not acknowledged. Both count
here; ``usual`` distinguishes them.

A message stays at its broker if its path already contains all next brokers, or if every messageTTL is too small. With
replayWhenNoConsumers it may go back to a broker it came from, and does when all bridges onward are full; its path grows
by that, so this is one more choice and no rescue.
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


def outcome_of_bridge_choices(
    graph: BridgeGraph, source: int, target: int, *, patience: int = _MAXIMUM_STATES
) -> ChoiceOutcome:
    """Return the outcome for a message from ``source`` to ``target`` over all bridges that brokers can choose for it.

    ``arrives``: it arrives after all choices. ``strands``: it gets stuck after some choices. ``full``: it gets stuck
    only if a nearer bridge is full. ``patience``: how many states of a message to examine before the outcome is
    ``unknown``.
    """
    if not graph.message_reach_by_broker[source].forked >> target & 1:
        return "arrives"
    walk = _RouteSearch(graph, target, patience)
    if walk.forwarders_have_direct_bridges(source):
        return "arrives"
    # If messageTTLs are large enough, each step on the shortest route is closer to the consumer.
    usually = not (graph.has_ample_ttl and not graph.merges) and walk.can_message_get_stuck(source, usual=True)
    stuck = walk.can_message_get_stuck(source, usual=False)
    if stuck is False:
        return "arrives"
    if usually:
        return "strands"
    return "unknown" if stuck is None or usually is None else "full"


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
            onward = self.shape.bridges_with_demand_by_broker[broker]
            self._bridges[broker] = [(peer, ttl) for peer, ttl, mask in onward if mask >> self.target & 1]
        return self._bridges[broker]

    def forwarders_have_direct_bridges(self, source: int) -> bool:
        """Return whether each broker on a route from ``source`` has a direct bridge to the consumer's broker.

        All TTLs must permit the route.
        """
        visited, waiting = {source, self.target}, [source]
        while waiting:
            bridges = self.bridges_forwarding_to_consumer(waiting.pop())
            if not any(peer == self.target and ttl >= self._ample_ttl for peer, ttl in bridges):
                return False
            fresh = {peer for peer, _ in bridges} - visited
            visited |= fresh
            waiting += fresh
        return True

    def can_message_get_stuck(self, source: int, *, usual: bool) -> bool | None:
        """Return whether brokers can choose bridges such that a message from ``source`` stops before it arrives.

        The result is None if there are too many choices to test.
        """
        waiting = [_State(source, 0, 0)]
        visited = set(waiting)
        while waiting:
            state = waiting.pop()
            moves = self._moves(state)
            if not moves:
                return True
            if usual:
                moves = self._highest_priority(state.broker, moves)
            elif self.shape.replays >> state.broker & 1:
                moves |= {
                    peer for peer, _ in self.bridges_forwarding_to_consumer(state.broker) if state.path >> peer & 1
                }
            if self._may_merge_demand(state, moves):
                return True
            path, hops = state.path | 1 << state.broker, min(state.hops + 1, self.shape.longest_limited_message_ttl)
            for peer in moves - {self.target}:
                following = _State(peer, path, hops)
                if following not in visited:
                    visited.add(following)
                    waiting.append(following)
            if len(visited) > self.patience:
                return None
        return False

    @property
    def _ample_ttl(self) -> int:
        """A messageTTL that no path can use up: where messages go back, a path has no end."""
        return UNLIMITED if self.shape.replays else self.shape.size

    def _moves(self, state: _State) -> set[int]:
        return {
            peer
            for peer, ttl in self.bridges_forwarding_to_consumer(state.broker)
            if ttl > state.hops and not state.path >> peer & 1
        }

    def _may_merge_demand(self, state: _State, moves: set[int]) -> bool:
        """Return whether demand may arrive by another route first, so that no subscription here is certain."""
        if self.target in moves or not self.shape.merges >> state.broker & 1:
            return False
        return not any(self._has_single_way(peer) for peer in moves)

    def _has_single_way(self, peer: int) -> bool:
        """Return whether demand has only one route to ``peer``."""
        for _ in range(self.shape.size):
            if peer == self.target:
                return True
            peers = {next_peer for next_peer, _ in self.bridges_forwarding_to_consumer(peer)}
            if len(peers) != 1:
                return False
            (peer,) = peers
        return False

    def _highest_priority(self, broker: int, moves: set[int]) -> set[int]:
        """Return the moves with the highest subscription priority; of merged demand only the nearest is known."""
        if self.shape.merges >> broker & 1 and self.target not in moves:
            return moves
        distances = self._distances.get(broker)
        if distances is None:
            distances = self._distances[broker] = self.shape.demand_hops_by_broker(self.target, broker)
        best: dict[int, int] = {}
        for edge in (self.shape.edges[number] for number in self.shape.outgoing_bridges_by_broker[broker]):
            if edge.target in moves:
                hops = distances.get(edge.target, self.shape.size)
                if hops < edge.consumer_ttl or edge.always:
                    rank = 0 if not edge.near else 5 if hops == 0 or edge.always else hops + 7
                    best[edge.target] = min(best.get(edge.target, rank), rank)
        if not best:  # demand of a static subscription, whose route is unknown
            return moves
        first = min(best.values())
        return {peer for peer, rank in best.items() if rank == first}
