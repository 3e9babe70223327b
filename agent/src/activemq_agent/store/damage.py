"""Describes the damage of a store and how many of its rows were kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from activemq_agent.printable import counted


@dataclass(frozen=True, slots=True)
class Gap:
    """A range of outbox positions, ``first`` to ``last``, whose events could not be read from a damaged store.

    ``after_id`` and ``before_id`` are the ids of the readable neighbours, None at an end. Some of the places may
    have been acknowledged before, and be no loss.
    """

    first: int
    last: int
    after_id: str | None
    before_id: str | None

    def __str__(self) -> str:
        return (
            f"{self.first} to {self.last} (after {self.after_id or 'the start'}, before {self.before_id or 'the end'})"
        )


@dataclass(frozen=True, slots=True)
class Damage:
    """The damage found in a store: ``reasons``, ``directory`` of the damaged files, and number of rows ``kept`` by
    table.

    ``missing``: how many events of the outbox could not be read, None if the file no longer says; ``epoch``: the
    new epoch if the old one could not go on, else None.
    """

    reasons: tuple[str, ...]
    directory: Path
    kept: dict[str, int]
    missing: int | None
    gaps: tuple[Gap, ...]
    epoch: str | None

    def __str__(self) -> str:
        missing = "an unknown number of" if self.missing is None else str(self.missing)
        gaps = "; ".join(map(str, self.gaps[:5])) + ("; …" if len(self.gaps) > 5 else "")
        return (
            f"the store was damaged ({self.reasons[0]}): {counted(self.kept['outbox'], 'event')} of the outbox kept, "
            f"{missing} not readable{f', in places {gaps}' if self.gaps else ''}; its files are in {self.directory}"
        )


def gaps_between(readable: dict[int, str], first: int, last: int) -> Iterable[Gap]:
    """Yield a gap for each range of positions from ``first`` to ``last`` that ``readable`` (position -> event id)
    lacks.
    """
    before, before_id = first - 1, None
    for place in sorted(place for place in readable if first <= place <= last):
        if place > before + 1:
            yield Gap(before + 1, place - 1, before_id, readable[place])
        before, before_id = place, readable[place]
    if before < last:
        yield Gap(before + 1, last, before_id, None)
