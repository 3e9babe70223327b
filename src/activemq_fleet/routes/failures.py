"""What each single death strands, without solving the whole network once for each broker.

A way on which no broker has a choice is the only one, for messages and for demand: it is lost
exactly if the dead broker stood on it. Only pairs of brokers with a choice, and not joined by a
bridge of their own, are asked again without the dead one; and where every messageTTL is ample,
of those only the ones all of whose shortest ways pass it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from activemq_fleet.routes.shape import Shape, bits


@dataclass(slots=True)
class Loss:
    """How many ordered pairs of brokers are cut off, and the first of them."""

    count: int = 0
    example: tuple[int, int] | None = None

    def add(self, source: int, targets: int) -> None:
        """Count the pairs from one source."""
        if targets:
            self.count += targets.bit_count()
            if self.example is None:
                self.example = source, (targets & -targets).bit_length() - 1


@lru_cache(maxsize=512)
def losses(shape: Shape) -> tuple[Loss, ...]:
    """For each broker, what is cut off between the others when it and its bridges are gone."""
    found = tuple(Loss() for _ in range(shape.size))
    asked: dict[int, dict[int, int]] = {}  # dead broker -> source -> targets
    ample = shape.ample
    for source, spread in enumerate(shape.spread):
        direct = 0
        for peer, _, mask in shape.onward[source]:
            direct |= mask & 1 << peer
        for dead, through in spread.through.items():
            found[dead].add(source, through & ~spread.forked)
            if not ample and (doubtful := through & spread.forked & ~direct):
                asked.setdefault(dead, {})[source] = doubtful
        if ample:
            for target in bits(spread.arrives & spread.forked & ~direct):
                for dead in bits(_gates(shape, target)[source] & ~(1 << source | 1 << target)):
                    if source not in shape.demand_from(target, avoided=dead):
                        found[dead].add(source, 1 << target)
    for dead, sources in asked.items():
        left = without(shape, dead)
        for source, targets in sources.items():
            found[dead].add(source, targets & ~left.spread[source].arrives)
    return found


@lru_cache(maxsize=1024)
def _gates(shape: Shape, consumer: int) -> dict[int, int]:
    """Broker -> those that demand from ``consumer`` passes on all of its shortest ways there."""
    hops = shape.demand_from(consumer)
    gates = {consumer: 1 << consumer}
    for broker in list(hops)[1:]:  # nearest first
        common = -1
        for edge in shape.leaving[broker]:
            before = hops.get(edge.target)
            if before == hops[broker] - 1 and before < edge.consumer_ttl:
                common &= gates[edge.target]
        gates[broker] = common | 1 << broker
    return gates


def without(shape: Shape, dead: int) -> Shape:
    """The network when one broker is gone."""
    edges = tuple(edge for edge in shape.edges if dead not in (edge.source, edge.target))
    return Shape(shape.size, edges, shape.replays, shape.merges)
