"""Which task looks at a network: those of one kind go to one task, so that only one worker has to meet it. Pure.

What a worker finds out about a kind of variables (documents, routes, files) holds for all groups that say the same but
for their name, and takes as long as hundreds of brokers of it. By chance every worker would meet every kind.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from zlib import crc32

import pyarrow as pa

NO_KIND, SEVERAL_KINDS = 0, -1
_MEETING = 250  # brokers of known kinds that take as long as a new kind does


def slots_of(brokers: Mapping[int, int], tasks: int) -> dict[int, tuple[int, ...]]:
    """The tasks for each kind: the emptiest one, or several for a kind that is more than one task's share.

    ``brokers`` are the numbers of brokers by kind.
    """
    weights = {kind: number + _MEETING for kind, number in brokers.items()}
    share = sum(weights.values()) / tasks
    loads = [(0.0, task) for task in range(tasks)]
    slots = {}
    for kind, weight in sorted(weights.items(), key=lambda item: (-item[1], item[0])):
        number = min(tasks, max(1, round(weight / share)))
        chosen = [heapq.heappop(loads) for _ in range(number)]
        for load, task in chosen:
            heapq.heappush(loads, (load + weight / number, task))
        slots[kind] = tuple(sorted(task for _, task in chosen))
    return slots


@dataclass(frozen=True)
class Places:
    """Where groups go: ``components`` of groups that something joins, ``mixed`` groups of several kinds."""

    tasks: int
    components: Mapping[str, str]
    mixed: frozenset[str]
    slots: Mapping[int, tuple[int, ...]]

    def of(self, group: str | None, kind: int | None) -> tuple[str | None, int]:
        """Component and task. All rows of a component have the same task."""
        component = group if group is None else self.components.get(group, group)
        number = crc32((component or "").encode())
        alone = group not in self.components and group not in self.mixed
        slots = self.slots.get(kind or NO_KIND) if alone else None
        return component, slots[number % len(slots)] if slots else number % self.tasks


def placed(batches: Iterable[pa.RecordBatch], *, places: Places, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Rows with ``home`` and ``alike`` -> rows of ``columns``, and their ``task``."""
    for batch in batches:
        homes, kinds = (batch.column(name).to_pylist() for name in ("home", "alike"))
        found = [places.of(home, kind) for home, kind in zip(homes, kinds, strict=True)]
        arrays = {
            "component": pa.array([component for component, _ in found], pa.string()),
            "task": pa.array([task for _, task in found], pa.int32()),
        }
        names = [*columns, "task"]
        yield pa.RecordBatch.from_arrays(
            [arrays[name] if name in arrays else batch.column(name) for name in names], names=names
        )
