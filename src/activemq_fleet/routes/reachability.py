"""Compute which brokers' messages can reach which other brokers of one network, with brokers as numbers.

The behavior of the brokers (source code of 5.5.1, 5.18.3 and 6.3.1; AMQ-4607 describes the change in 5.9):

- Demand. Broker Y announces a consumer by an advisory whose broker path is empty. A bridge B -> A
  receives the advisories of A. It ignores an advisory whose path contains B, or is as long as its
  consumerTTL (``path.length >= consumerTTL``, -1: no limit). For any other advisory, B creates a
  local subscription, and announces it with A at the end of the path
  (source: DemandForwardingBridgeSupport.serviceRemoteConsumerAdvisory). The k-th bridge from Y
  therefore requires a consumerTTL of k, and B subscribes for A exactly if A receives the demand
  on a route that does not include B.
- Messages. B may forward a message to A if B has that subscription, the message's broker path does
  not contain A, and the path is shorter than the bridge's messageTTL
  (source: NetworkBridgeFilter.matchesForwardingFilter). The path contains every broker that
  forwarded the message, so the k-th bridge of its route requires a messageTTL of k.

Both limits only increase with the length of a route, so a route without a loop requires less than one
with a loop: the shortest route decides whether any message arrives. This is exact, and is computed by
a breadth-first search. Brokers are numbers from 0; a set of brokers is an int with one bit for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from activemq_fleet.network.connectors import UNLIMITED


class BridgeEdge(NamedTuple):
    """One direction of a bridge as an edge of a graph.

    It leads from one broker number to another, and has its TTLs. ``near``: the nearer of two consumers is served first
    (decreaseNetworkConsumerPriority). ``always``: it subscribes without demand (staticallyIncludedDestinations).
    """

    source: int
    target: int
    consumer_ttl: int
    message_ttl: int
    near: bool = True
    always: bool = False


@dataclass(frozen=True)
class BridgeGraph:
    """A graph of the network bridges, with one vertex, called broker, for each pair or single broker.

    A broker is a number from 0, and a set of brokers an int used as a bit set. ``replays``: brokers that send a message
    back to its sender when no consumer is left (replayWhenNoConsumers). ``merges``: brokers whose bridges merge all
    demand from one peer into the subscription that came first (conduit subscriptions before 5.9). Both are sets of
    brokers as bits.
    """

    size: int
    edges: tuple[BridgeEdge, ...]
    replays: int = 0
    merges: int = 0

    @cached_property
    def all_brokers_mask(self) -> int:
        """The bit mask of all brokers: bit N is set for the broker with the number N."""
        return (1 << self.size) - 1

    @cached_property
    def demand_masks_by_bridge(self) -> tuple[int, ...]:
        """For each bridge, the bit mask of the brokers whose consumers subscribe over it (its demand)."""
        peers_by_ttl = _peers_by_ttl(self)
        return tuple(_demand_sources(self, edge, peers_by_ttl) for edge in self.edges)

    @cached_property
    def brokers_with_static_subscriptions_mask(self) -> int:
        """The bit mask of the brokers at which a bridge has a static subscription, which needs no consumer.

        Such a broker announces the subscription to its peers. The setting is staticallyIncludedDestinations.
        """
        subscribers = 0
        for edge in self.edges:
            if edge.always:
                subscribers |= 1 << edge.source
        return subscribers

    @cached_property
    def bridges_with_demand_by_broker(self) -> tuple[tuple[tuple[int, int, int], ...], ...]:
        """For each broker, its outgoing bridges with demand: those over which a consumer has subscribed.

        A bridge is (target broker, messageTTL, brokers of the consumers as bits).
        """
        bridges_by_source: list[list[tuple[int, int, int]]] = [[] for _ in range(self.size)]
        for edge, mask in zip(self.edges, self.demand_masks_by_bridge, strict=True):
            if mask and edge.message_ttl > 0:
                bridges_by_source[edge.source].append((edge.target, edge.message_ttl, mask))
        return tuple(map(tuple, bridges_by_source))

    @cached_property
    def multi_peer_demand_source_masks_by_broker(self) -> tuple[int, ...]:
        """For each broker, the bit mask of the brokers whose consumer subscriptions two or more peers forward to it.

        Messages to such a broker can go over each of these peers: their route forks.
        """
        forked = []
        for bridges in self.bridges_with_demand_by_broker:
            by_target: dict[int, int] = {}
            for target, _, mask in bridges:
                by_target[target] = by_target.get(target, 0) | mask
            received = received_repeatedly = 0
            for mask in by_target.values():
                received_repeatedly |= received & mask
                received |= mask
            forked.append(received_repeatedly)
        return tuple(forked)

    @cached_property
    def message_reach_by_broker(self) -> tuple[MessageReach, ...]:
        """For each broker, which other brokers its messages can reach."""
        return tuple(_reach_from(self, source) for source in range(self.size))

    @cached_property
    def reachable_broker_masks_by_source(self) -> tuple[int, ...]:
        """For each source broker, the bit mask of the other brokers that its messages can reach.

        It is equal to ``arrives`` of ``message_reach_by_broker``, which is computed only if the TTLs do not decide.
        """
        arrivals = _certain_arrivals(self)
        if arrivals == _possible_arrivals(self):
            return arrivals
        return tuple(reach.arrives for reach in self.message_reach_by_broker)

    @cached_property
    def outgoing_bridge_indices_by_broker(self) -> tuple[tuple[int, ...], ...]:
        """For each broker, the bridges that lead away from it.

        Each bridge is its index in ``edges``. Bridges without demand are included.
        """
        edges_by_source: list[list[int]] = [[] for _ in range(self.size)]
        for number, edge in enumerate(self.edges):
            edges_by_source[edge.source].append(number)
        return tuple(map(tuple, edges_by_source))

    def bridge_indices_of_shortest_route(self, source: int, target: int, *, within_limits: bool = True) -> list[int]:
        """Return the shortest route of messages between two brokers, as the indices of its bridges in ``edges``.

        It is empty if no route exists. ``within_limits``: only over bridges with demand from ``target``, and a
        messageTTL that lets messages pass.
        """
        bridge_to_broker: dict[int, int] = {}
        frontier, hops = [source], 0
        while frontier and target not in bridge_to_broker:
            next_frontier = []
            for number in (number for broker in frontier for number in self.outgoing_bridge_indices_by_broker[broker]):
                edge = self.edges[number]
                is_usable = not within_limits or (
                    hops < edge.message_ttl and self.demand_masks_by_bridge[number] >> target & 1
                )
                if is_usable and edge.target not in bridge_to_broker and edge.target != source:
                    bridge_to_broker[edge.target] = number
                    next_frontier.append(edge.target)
            frontier, hops = next_frontier, hops + 1
        route: list[int] = []
        while target in bridge_to_broker:
            route.append(bridge_to_broker[target])
            target = self.edges[bridge_to_broker[target]].source
        return route[::-1]

    @cached_property
    def incoming_sources_and_consumer_ttls_by_broker(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each broker, the bridges that lead to it, each as a tuple of source broker and consumerTTL."""
        sources_by_target: list[list[tuple[int, int]]] = [[] for _ in range(self.size)]
        for edge in self.edges:
            sources_by_target[edge.target].append((edge.source, edge.consumer_ttl))
        return tuple(map(tuple, sources_by_target))

    def demand_hops_by_broker(self, consumer_broker: int, avoided_broker: int = -1) -> dict[int, int]:
        """Return for each broker the minimum number of bridges that a consumer's subscription crosses to reach it.

        Brokers are numbers. A broker that the subscription (demand) does not reach is left out. Paths through
        ``avoided_broker`` are ignored.
        """
        hops_by_broker = {consumer_broker: 0}
        frontier = [consumer_broker]
        hops = 0
        while frontier:
            next_frontier = []
            for broker in frontier:
                for source, ttl in self.incoming_sources_and_consumer_ttls_by_broker[broker]:
                    if source not in hops_by_broker and hops < ttl and source != avoided_broker:
                        hops_by_broker[source] = hops + 1
                        next_frontier.append(source)
                if len(hops_by_broker) == self.size:
                    return hops_by_broker
            frontier = next_frontier
            hops += 1
        return hops_by_broker

    @cached_property
    def longest_limited_message_ttl(self) -> int:
        """The largest messageTTL of all bridges whose messageTTL is limited.

        It is 0 if no bridge has a limit. A message that has crossed this many bridges can cross no further bridge with
        a limit, so more need not be counted.
        """
        return max((edge.message_ttl for edge in self.edges if edge.message_ttl < UNLIMITED), default=0)

    @cached_property
    def has_ample_ttl(self) -> bool:
        """Whether the TTL of every bridge is ample: no message stops before it reaches a consumer.

        Every messageTTL is then at least as long as the longest route of demand, and every bridge serves the nearer
        consumers first and subscribes on demand only.
        """
        longest = min(max((edge.consumer_ttl for edge in self.edges), default=0), max(self.size - 1, 1))
        return all(edge.message_ttl >= longest and edge.near and not edge.always for edge in self.edges)


@dataclass(frozen=True, slots=True)
class MessageReach:
    """The reach of the messages that clients send to one broker: the brokers where they can arrive.

    ``arrives`` is the set of them, as bits. ``forked``: the brokers on the routes to which some broker has a choice.
    ``through`` maps a broker to the brokers whose shortest routes include it.
    """

    arrives: int
    forked: int
    through: dict[int, int]


def broker_numbers(mask: int) -> Iterator[int]:
    """Yield the numbers of the brokers in a bit mask, lowest first."""
    while mask:
        lowest_bit = mask & -mask
        yield lowest_bit.bit_length() - 1
        mask ^= lowest_bit


def _certain_arrivals(shape: BridgeGraph) -> tuple[int, ...]:
    """Return for each broker the brokers, as bits, where messages arrive because no TTL on a shortest route is too low.

    A shortest route among the bridges whose TTLs are all at least n carries messages if it has at most n bridges: the
    rest of the route never leads back, so that the demand takes it, too.
    """
    arrivals = [0] * shape.size
    for ttl in {min(edge.consumer_ttl, edge.message_ttl) for edge in shape.edges}:
        edges = [edge for edge in shape.edges if edge.consumer_ttl >= ttl and edge.message_ttl >= ttl]
        arrivals = [known | new for known, new in zip(arrivals, _brokers_within(shape.size, edges, ttl), strict=True)]
    return tuple(arrivals)


def _possible_arrivals(shape: BridgeGraph) -> tuple[int, ...]:
    """Return for each broker the brokers, as bits, where messages arrive unless a TTL on the route is too low.

    No route has more bridges than the largest messageTTL, or than the largest consumerTTL of the bridges that lead away
    from its source. With a static subscription anywhere, consumerTTLs do not limit a route.
    """
    hops_by_broker = [0] * shape.size
    for edge in shape.edges:
        ttl = UNLIMITED if shape.brokers_with_static_subscriptions_mask else edge.consumer_ttl
        hops_by_broker[edge.source] = max(hops_by_broker[edge.source], ttl)
    longest = max((edge.message_ttl for edge in shape.edges), default=0)
    masks_by_hops = {hops: _brokers_within(shape.size, shape.edges, min(hops, longest)) for hops in set(hops_by_broker)}
    return tuple(masks_by_hops[hops][broker] for broker, hops in enumerate(hops_by_broker))


def _brokers_within(size: int, edges: Iterable[BridgeEdge], hops: int) -> list[int]:
    """Return for each broker the bit mask of the other brokers to which a number of bridges leads, or fewer."""
    peers_by_broker: list[list[int]] = [[] for _ in range(size)]
    for edge in edges:
        peers_by_broker[edge.source].append(edge.target)
    masks = [1 << broker for broker in range(size)]
    for _ in range(min(hops, size)):
        wider_masks = []
        for mask, peers in zip(masks, peers_by_broker, strict=True):
            for peer in peers:
                mask |= masks[peer]
            wider_masks.append(mask)
        if wider_masks == masks:
            break
        masks = wider_masks
    return [mask ^ 1 << broker for broker, mask in enumerate(masks)]


_PeersByTtl = list[dict[int, int]]


def _peers_by_ttl(shape: BridgeGraph) -> _PeersByTtl:
    """Return for each broker the peers to which its bridges lead, by consumerTTL.

    Peers are a set of bits.
    """
    peers_by_ttl: _PeersByTtl = [{} for _ in range(shape.size)]
    for edge in shape.edges:
        peers_by_ttl[edge.source][edge.consumer_ttl] = (
            peers_by_ttl[edge.source].get(edge.consumer_ttl, 0) | 1 << edge.target
        )
    return peers_by_ttl


def _demand_sources(shape: BridgeGraph, edge: BridgeEdge, peers_by_ttl: _PeersByTtl) -> int:
    """Return the brokers (as bits) whose demand arrives at ``edge``.

    The search starts at the edge and follows the demand backwards, but never over the source of the edge. It visits
    brokers in the order of the longest path that demand may have there, so that it visits each broker once.
    """
    if edge.always:
        return shape.all_brokers_mask & ~(1 << edge.source)
    if edge.consumer_ttl <= 0:
        return 0
    if edge.consumer_ttl == 1:
        return 1 << edge.target
    visited = 1 << edge.source
    all_brokers = shape.all_brokers_mask
    hops_left = min(edge.consumer_ttl, shape.size) - 1
    pending_by_hops = {hops_left: 1 << edge.target}
    while pending_by_hops:
        hops_left = max(pending_by_hops)
        new_brokers = pending_by_hops.pop(hops_left) & ~visited
        if not new_brokers:
            continue
        visited |= new_brokers
        if visited == all_brokers:
            break
        if hops_left == 0:
            continue
        if new_brokers & shape.brokers_with_static_subscriptions_mask and _receives_static_subscription(
            shape, new_brokers & shape.brokers_with_static_subscriptions_mask, edge.source
        ):
            return all_brokers & ~(1 << edge.source)
        for broker in broker_numbers(new_brokers):
            for ttl, peers in peers_by_ttl[broker].items():
                remaining_hops = min(hops_left, ttl) - 1
                if remaining_hops >= 0:
                    pending_by_hops[remaining_hops] = pending_by_hops.get(remaining_hops, 0) | peers
    return visited & ~(1 << edge.source)


def _receives_static_subscription(shape: BridgeGraph, brokers: int, avoided: int) -> bool:
    """Return whether one of the brokers receives a static subscription over a bridge, and may forward it."""
    return any(edge.always and brokers >> edge.source & 1 and edge.target != avoided for edge in shape.edges)


def _reach_from(shape: BridgeGraph, source: int) -> MessageReach:
    """Return the reach of messages that are sent to one broker.

    It is a breadth-first search for the brokers of all consumers at once.
    """
    arrives = forked = 0
    targets = shape.all_brokers_mask & ~(1 << source)
    visited = {source: targets}
    frontier = {source: targets}
    hops = 0
    bridges_by_broker, forked_masks = (
        shape.bridges_with_demand_by_broker,
        shape.multi_peer_demand_source_masks_by_broker,
    )
    while frontier:
        next_frontier: dict[int, int] = {}
        for broker, consumers in frontier.items():
            forked |= consumers & forked_masks[broker]
            for target, ttl, mask in bridges_by_broker[broker]:
                new_consumers = consumers & mask
                if new_consumers and hops < ttl:
                    new_consumers &= ~visited.get(target, 0)
                    if new_consumers:
                        next_frontier[target] = next_frontier.get(target, 0) | new_consumers
        frontier = {}
        for target, consumers in next_frontier.items():
            visited[target] = visited.get(target, 0) | consumers
            arrives |= consumers & 1 << target
            if remaining := consumers & ~(1 << target):
                frontier[target] = remaining
        frontier = {broker: remaining for broker, consumers in frontier.items() if (remaining := consumers & ~arrives)}
        hops += 1
    del visited[source]
    through = {
        broker: crossing for broker, consumers in visited.items() if (crossing := consumers & arrives & ~(1 << broker))
    }
    return MessageReach(arrives, forked, through)
