"""What each single death strands, without solving the whole network once for each broker.

A way on which no broker has a choice is the only one, for messages and for demand: it is lost
exactly if the dead broker stood on it. Only pairs of brokers with a choice, and not joined by a
bridge of their own, are asked again without the dead one; and where every messageTTL is ample,
of those only the ones all of whose shortest ways pass it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from heapq import heapify, heappop, heappush

from activemq_fleet.routes.shape import UNLIMITED, BridgeGraph, bits


@dataclass(slots=True)
class UnreachablePairs:
    """The number of ordered pairs of brokers that no longer reach each other, and the first such pair."""

    count: int = 0
    example: tuple[int, int] | None = None

    def add(self, source: int, targets: int) -> None:
        """Count the pairs of one source and a set of targets."""
        if targets:
            self.count += targets.bit_count()
            if self.example is None:
                self.example = source, (targets & -targets).bit_length() - 1


@lru_cache(maxsize=512)
def unreachable_pairs_by_failure(shape: BridgeGraph) -> tuple[UnreachablePairs, ...]:
    """Return, for each broker, which other brokers are cut off from each other when it and its bridges are gone."""
    found = tuple(UnreachablePairs() for _ in range(shape.size))
    certain = _certain(shape, found)
    if shape.ample:
        for target in range(shape.size):
            sources = [source for source, targets in enumerate(certain) if targets >> target & 1]
            for dead, lost in _cut_off(shape, target, sources) if sources else ():
                for source in lost:
                    found[dead].add(source, 1 << target)
        return found
    for dead in range(shape.size):
        doubtful = {s: t & shape.spread[s].through.get(dead, 0) for s, t in enumerate(certain)}
        if any(doubtful.values()):
            left = shape.without(dead)
            for source, targets in doubtful.items():
                if targets:
                    found[dead].add(source, targets & ~left.spread_of(source, targets).arrives)
    return found


def _certain(shape: BridgeGraph, found: tuple[UnreachablePairs, ...]) -> list[int]:
    """Count what has one way only; returns for each source the targets that must be asked again."""
    certain = []
    for source, spread in enumerate(shape.spread):
        direct = 0
        for peer, _, mask in shape.onward[source]:
            direct |= mask & 1 << peer
        for dead, through in spread.through.items():
            found[dead].add(source, through & ~spread.forked)
        certain.append(spread.arrives & spread.forked & ~direct)
    return certain


def _cut_off(shape: BridgeGraph, target: int, sources: list[int]) -> Iterator[tuple[int, list[int]]]:
    """(dead broker, those of the sources to which demand from ``target`` then comes no more).

    Where no TTL stops a message that demand has called for, these are cut off. Only brokers all
    of whose shortest ways pass the dead one can be; for the others nothing changes.
    """
    hops = shape.demand_from(target)
    behind: dict[int, set[int]] = {}
    for broker, gates in _gates(shape, hops).items():
        for gate in bits(gates & ~(1 << broker | 1 << target)):
            behind.setdefault(gate, set()).add(broker)
    for dead, brokers in behind.items():
        wanted = brokers.intersection(sources)
        if wanted and (lost := wanted - _detoured(shape, hops, brokers, dead)):
            yield dead, sorted(lost)


def _gates(shape: BridgeGraph, hops: dict[int, int]) -> dict[int, int]:
    """Broker -> those that demand passes on all of its shortest ways there; ``hops``: nearest first."""
    gates: dict[int, int] = {}
    for broker, distance in hops.items():
        common = -1 if distance else 0
        for edge in shape.leaving[broker]:
            before = hops.get(edge.target)
            if before == distance - 1 and before < edge.consumer_ttl:
                common &= gates[edge.target]
        gates[broker] = common | 1 << broker
    return gates


def _detoured(shape: BridgeGraph, hops: dict[int, int], brokers: set[int], dead: int) -> set[int]:
    """Those of ``brokers`` to which demand finds a longer way without ``dead``."""
    waiting: list[tuple[int, int]] = []
    for broker in brokers:
        for edge in shape.leaving[broker]:
            before = hops.get(edge.target, UNLIMITED)
            if edge.target not in brokers and edge.target != dead and before < edge.consumer_ttl:
                waiting.append((before + 1, broker))
    heapify(waiting)
    reached: set[int] = set()
    while waiting:
        distance, broker = heappop(waiting)
        if broker not in reached:
            reached.add(broker)
            for source, ttl in shape.inward[broker]:
                if source in brokers and source not in reached and distance < ttl:
                    heappush(waiting, (distance + 1, source))
    return reached
