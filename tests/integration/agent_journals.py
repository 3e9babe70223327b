"""Journals of agents as they grow, and what they say became of events."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

from activemq_fleet.agent_topics import is_barrier_topic

Record = dict[str, Any]


class Journal:
    """Reads the journal of an agent as it grows; every record once, in order, and none missing."""

    def __init__(self, directory: Path) -> None:
        self._kinds: dict[str, list[Record]] = {}
        self._directory = directory
        self._offsets: dict[Path, int] = {}
        self._jseq = 0
        self._epochs: set[str] = set()

    def read(self) -> None:
        """Take what is new. ``at`` is ``ts`` in seconds since the epoch."""
        for path in sorted(self._directory.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._offsets[path] = self._offsets.get(path, 0) + len(whole)
            for line in whole.splitlines():
                self._take(json.loads(line))

    def _take(self, record: Record) -> None:
        self._epochs.add(record["epoch"])
        assert len(self._epochs) == 1, "a second epoch: the store was made anew"
        if record["jseq"] <= self._jseq:
            return  # exported twice, around a kill
        assert record["jseq"] == self._jseq + 1, f"the journal misses records {self._jseq + 1} to {record['jseq'] - 1}"
        self._jseq = record["jseq"]
        record["at"] = datetime.fromisoformat(record["ts"]).timestamp()
        if record["kind"] == "barrier" or not is_barrier_topic(record.get("topic") or ""):
            self._kinds.setdefault(record["kind"], []).append(record)

    def of(self, *kinds: str) -> list[Record]:
        """The records of some kinds; those of barriers only if asked for."""
        self.read()
        found = [record for kind in dict.fromkeys(kinds) for record in self._kinds.get(kind, ())]
        return sorted(found, key=itemgetter("jseq")) if len(kinds) > 1 else found

    def ids(self, *kinds: str) -> list[str]:
        """Event ids of the records of some kinds, barriers left out."""
        return [str(record["event_id"]) for record in self.of(*kinds) if record.get("event_id")]


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the promised events of a run; ``copies`` are messages that the inbox had already."""

    accepted: int
    handled: int
    lost: tuple[str, ...]
    handled_twice: tuple[str, ...]
    copies: int
    silence: float
    """Longest time between two handled events, in seconds."""

    def __str__(self) -> str:
        return (
            f"{self.accepted} accepted, {self.handled} handled, {len(self.lost)} lost, "
            f"{len(self.handled_twice)} handled twice, {self.copies} copies dropped, longest pause {self.silence:.1f} s"
        )


def account(promised: Sequence[str], subscriber: Journal, since: float) -> Account:
    """Settle what was promised since a moment, in seconds since the epoch."""
    handled = [record for record in subscriber.of("handled") if record["at"] >= since]
    runs = Counter(record.get("event_id") for record in handled)
    assert None not in runs, "an event without an id was handled"
    moments = sorted(record["at"] for record in handled)
    return Account(
        accepted=len(set(promised)),
        handled=len(set(promised) & runs.keys()),
        lost=tuple(sorted(set(promised) - runs.keys())),
        handled_twice=tuple(str(name) for name, count in runs.items() if count > 1),
        copies=sum(record["at"] >= since for record in subscriber.of("duplicate")),
        silence=max((after - before for before, after in pairwise(moments)), default=0.0),
    )


def in_flight(publisher: Journal, moment: float) -> int:
    """How many events were on the wire at that moment, and had to be sent again on a later connection."""
    began = {record["conn"]: record["at"] for record in publisher.of("connected")}
    before: set[str] = set()
    after: set[str] = set()
    for record in publisher.of("sent"):
        (before if began[record["conn"]] < moment else after).add(record["event_id"])
    return len(before & after)
