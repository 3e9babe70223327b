"""Compare the journals of a publisher and a subscriber, and conclude the outcome of every event.

*Lost* is only what was acknowledged and did not arrive although a later barrier did; a journal with a gap makes the
events it may concern indeterminate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from sys import intern
from typing import Any

from activemq_fleet.drills.model import DeliveryAccount, EventOutcome, EventVerdict

Record = Mapping[str, Any]
"""One line of a journal. ``at`` is its ``ts`` in seconds since the epoch."""
_SHOWN = 100
_WORST: tuple[EventVerdict, ...] = ("lost", "stuck", "indeterminate", "duplicate", "delivered")


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """The fields of one journal record that the accounting needs; ``at`` is in seconds since the epoch."""

    kind: str
    at: float
    event_id: str
    conn: int


@dataclass(slots=True)
class Journal:
    """The journal of one agent: ``entries`` are its records, each once and in order.

    ``gaps`` holds one sentence for each run of missing records.
    """

    owner: str
    entries: list[JournalEntry] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, owner: str, lines: Iterable[Record]) -> Journal:
        """Return the journal that consists of exported records (dictionaries with epoch, jseq, kind and ``at``).

        A record that was exported twice, around a kill, is counted once; missing records become gaps.
        """
        journal = cls(owner)
        last: dict[str, int] = {}
        ends: dict[str, str] = {}
        for record in lines:
            epoch, jseq = str(record["epoch"]), int(record["jseq"])
            before = last.get(epoch, 0)
            if jseq <= before:
                continue
            if jseq > before + 1:
                journal.gaps.append(f"{owner}: records {before + 1} to {jseq - 1} of epoch {epoch} are missing")
            last[epoch], ends[epoch] = jseq, record["kind"]
            journal.entries.append(
                JournalEntry(
                    kind=intern(str(record["kind"])),
                    at=float(record["at"]),
                    event_id=intern(str(record.get("event_id") or "")),
                    conn=int(record.get("conn") or 0),
                )
            )
        journal.gaps += [f"{owner}: the end of epoch {e} is missing" for e, kind in ends.items() if kind != "stopped"]
        if not journal.entries:
            journal.gaps.append(f"{owner}: there is no journal")
        return journal

    def ids(self, *kinds: str) -> Counter[str]:
        """Return event id -> number of records about the event, for records of the given kinds."""
        return Counter(entry.event_id for entry in self.entries if entry.kind in kinds and entry.event_id)

    def moments(self, kind: str, ids: Collection[str]) -> list[float]:
        """Return the times (seconds since the epoch) of a kind's records about the given events, sorted."""
        return sorted(entry.at for entry in self.entries if entry.kind == kind and entry.event_id in ids)


def account_for_events(
    pair: str, protocol: str, publisher: Journal, subscriber: Journal, promised: Sequence[str]
) -> DeliveryAccount:
    """Return the outcome of every event of a pair's load: the counts of each verdict, and the first bad events.

    ``promised`` are the ids that the publishing agent returned: an id unknown to its journal was lost by the agent,
    unless the journal has a gap.
    """
    gaps = (*publisher.gaps, *subscriber.gaps)
    known = publisher.ids("accepted")
    barriers = publisher.ids("barrier")  # accepted like any other, and no event
    accepted = [event_id for event_id in dict.fromkeys([*promised, *known]) if event_id not in barriers]
    facts = _Facts.of(publisher, subscriber, bool(gaps))
    counts: Counter[EventVerdict] = Counter()
    units: list[EventOutcome] = []
    for event_id in accepted:
        verdict, reason = facts.verdict(event_id, event_id in known)
        counts[verdict] += 1
        if verdict != "delivered":
            units.append(EventOutcome(event_id, verdict, reason))
    units.sort(key=lambda unit: _WORST.index(unit.verdict))
    return DeliveryAccount(
        pair=pair,
        protocol=protocol,
        accepted=len(accepted),
        acknowledged=len(facts.acknowledged.keys() & set(accepted)),
        handled=len(facts.handled.keys() & set(accepted)),
        lost=counts["lost"],
        duplicate=counts["duplicate"],
        stuck=counts["stuck"],
        indeterminate=counts["indeterminate"],
        copies=subscriber.ids("duplicate").total(),
        gaps=gaps,
        units=tuple(units[:_SHOWN]),
    )


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the journals of publisher and subscriber record, by event id."""

    acknowledged: Counter[str]
    expired: Counter[str]
    received: Counter[str]
    handled: Counter[str]
    quarantined: Counter[str]
    barriers: Mapping[str, int]
    """By epoch, the highest SEQ of a barrier that the subscriber received."""
    has_gaps: bool

    @classmethod
    def of(cls, publisher: Journal, subscriber: Journal, has_gaps: bool) -> _Facts:
        barriers: dict[str, int] = {}
        for event_id in subscriber.ids("barrier"):
            epoch, seq = _place(event_id)
            barriers[epoch] = max(seq, barriers.get(epoch, 0))
        return cls(
            acknowledged=publisher.ids("acknowledged", "unconfirmed"),
            expired=publisher.ids("expired"),
            received=subscriber.ids("received"),
            handled=subscriber.ids("handled"),
            quarantined=subscriber.ids("quarantined"),
            barriers=barriers,
            has_gaps=has_gaps,
        )

    def verdict(self, event_id: str, known: bool) -> tuple[EventVerdict, str]:
        """Return the verdict of an event and its reason ("" where it was delivered)."""
        times = self.handled[event_id]
        if times:
            return ("delivered", "") if times == 1 else ("duplicate", f"handled {times} times")
        if self.has_gaps:
            return "indeterminate", "not handled as far as is known, and a journal has a gap"
        if not known:
            return "lost", "the agent returned its id, and its journal does not know it"
        if self.quarantined[event_id]:
            return "delivered", ""
        if self.received[event_id]:
            return "stuck", "received and neither handled nor set aside"
        if self.expired[event_id]:
            return "stuck", "expired before a broker took it, and kept"
        if not self.acknowledged[event_id]:
            return "stuck", "accepted, and no broker has acknowledged it"
        epoch, seq = _place(event_id)
        if self.barriers.get(epoch, 0) > seq:
            return "lost", "acknowledged, and a later barrier came without it"
        return "stuck", "acknowledged, and no later barrier has come"


def _place(event_id: str) -> tuple[str, int]:
    """Return epoch and SEQ of an id ``AGENT:EPOCH:SEQ``; an id that a caller chose has SEQ 0."""
    _, _, rest = event_id.partition(":")
    epoch, _, seq = rest.rpartition(":")
    return (epoch, int(seq)) if seq.isdigit() else (event_id, 0)


def longest_silence(
    moments: Sequence[float], fault: float, until: float, *, skew: float = 0.0
) -> tuple[float, float] | None:
    """Return (begin, length) in seconds of the longest gap between ``moments`` (sorted) that a fault can have caused.

    The gap ends after the fault and begins before ``until``. ``skew`` is the possible error of the clock that timed the
    fault, in seconds. Returns None where nothing came after the fault.
    """
    around = [(a, b - a) for a, b in pairwise(moments) if b > fault - skew and a < until]
    return max(around, key=lambda silence: silence[1], default=None)


def in_flight(publisher: Journal, moment: float) -> int:
    """Return how many publishes were in flight at ``moment`` (epoch seconds) and had to be sent again later."""
    began = {entry.conn: entry.at for entry in publisher.entries if entry.kind == "connected"}
    before: set[str] = set()
    after: set[str] = set()
    for entry in publisher.entries:
        if entry.kind == "sent":
            (before if began.get(entry.conn, 0.0) < moment else after).add(entry.event_id)
    return len(before & after)
