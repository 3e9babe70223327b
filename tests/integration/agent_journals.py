"""Journals of running agents, and the outcome of events according to them."""

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
    """A reader of the journal of a running agent: it reads every record once and in order, and misses none."""

    def __init__(self, directory: Path) -> None:
        self._kinds: dict[str, list[Record]] = {}
        self._directory = directory
        self._offsets: dict[Path, int] = {}
        self._jseq = 0
        self._epochs: set[str] = set()

    def read(self) -> None:
        """Read the new records, and add ``at`` to each: ``ts`` in seconds since the epoch."""
        for path in sorted(self._directory.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                journal_bytes = file.read()
            complete_lines = journal_bytes[: journal_bytes.rfind(b"\n") + 1]
            self._offsets[path] = self._offsets.get(path, 0) + len(complete_lines)
            for line in complete_lines.splitlines():
                self._add(json.loads(line))

    def _add(self, record: Record) -> None:
        self._epochs.add(record["epoch"])
        assert len(self._epochs) == 1, "the journal has a second epoch, so the agent created its store again"
        if record["jseq"] <= self._jseq:
            return  # the agent exported the record twice, before and after a kill
        assert record["jseq"] == self._jseq + 1, f"the journal misses records {self._jseq + 1} to {record['jseq'] - 1}"
        self._jseq = record["jseq"]
        record["at"] = datetime.fromisoformat(record["ts"]).timestamp()
        if record["kind"] == "barrier" or not is_barrier_topic(record.get("topic") or ""):
            self._kinds.setdefault(record["kind"], []).append(record)

    def of(self, *kinds: str) -> list[Record]:
        """Return the records of some kinds; barriers only if ``kinds`` contains them."""
        self.read()
        records = [record for kind in dict.fromkeys(kinds) for record in self._kinds.get(kind, ())]
        return sorted(records, key=itemgetter("jseq")) if len(kinds) > 1 else records

    def ids(self, *kinds: str) -> list[str]:
        """Return the event ids of the records of some kinds, without barriers."""
        return [str(record["event_id"]) for record in self.of(*kinds) if record.get("event_id")]


@dataclass(frozen=True, slots=True)
class Account:
    """The outcome of the promised events of a run; ``copies`` counts messages that the inbox contained already."""

    accepted: int
    handled: int
    lost: tuple[str, ...]
    handled_twice: tuple[str, ...]
    copies: int
    longest_pause: float
    """Longest time between two handled events, in seconds."""

    def __str__(self) -> str:
        return (
            f"{self.accepted} accepted, {self.handled} handled, {len(self.lost)} lost, "
            f"{len(self.handled_twice)} handled twice, {self.copies} copies dropped, "
            f"longest pause {self.longest_pause:.1f} s"
        )


def account(promised: Sequence[str], subscriber: Journal, since: float) -> Account:
    """Return the outcome of the events that were promised since a time, in seconds since the epoch."""
    handled = [record for record in subscriber.of("handled") if record["at"] >= since]
    runs = Counter(record.get("event_id") for record in handled)
    assert None not in runs, "the agent handled an event without an id"
    moments = sorted(record["at"] for record in handled)
    return Account(
        accepted=len(set(promised)),
        handled=len(set(promised) & runs.keys()),
        lost=tuple(sorted(set(promised) - runs.keys())),
        handled_twice=tuple(str(name) for name, count in runs.items() if count > 1),
        copies=sum(record["at"] >= since for record in subscriber.of("duplicate")),
        longest_pause=max((after - before for before, after in pairwise(moments)), default=0.0),
    )


def in_flight(publisher: Journal, moment: float) -> int:
    """Return how many events were in flight at a time, and were sent again on a later connection."""
    began = {record["conn"]: record["at"] for record in publisher.of("connected")}
    before: set[str] = set()
    after: set[str] = set()
    for record in publisher.of("sent"):
        (before if began[record["conn"]] < moment else after).add(record["event_id"])
    return len(before & after)
