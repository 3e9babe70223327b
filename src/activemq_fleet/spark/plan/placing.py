"""Which task looks at a network: all groups of a component go to one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from zlib import crc32

import pyarrow as pa


@dataclass(frozen=True)
class Places:
    """The number of tasks, and the components of groups that something joins; any other group is a component."""

    tasks: int
    components: Mapping[str, str]

    def of(self, group: str | None) -> tuple[str | None, int]:
        """The component of a group and its task, which depends on the component's name only."""
        component = group if group is None else self.components.get(group, group)
        return component, crc32((component or "").encode()) % self.tasks


def placed(batches: Iterable[pa.RecordBatch], *, places: Places, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Rows with ``home`` -> rows of ``columns``, and their ``task``."""
    for batch in batches:
        found = [places.of(home) for home in batch.column("home").to_pylist()]
        arrays = {
            "component": pa.array([component for component, _ in found], pa.string()),
            "task": pa.array([task for _, task in found], pa.int32()),
        }
        names = [*columns, "task"]
        yield pa.RecordBatch.from_arrays(
            [arrays[name] if name in arrays else batch.column(name) for name in names], names=names
        )
