"""Find a broker's runs in its log: when each waited, got the lock and was active, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from activemq_fleet.audit.evidence import LoggedMinute, LogRecordEvidence
from activemq_fleet.node.log.broker_run import REACTIONS, BrokerRun
from activemq_fleet.node.log.kinds import LogEvent
from activemq_fleet.node.log.log_records import Record

End = Literal["open", "silent", "stopped", "lost_lock", "store", "failed"]
"""``open``: the log ends with the run. ``silent``: another run begins, and no record shows how this one ended."""

# The first lines after a node got its lock. No release has a line for a file lock itself.
_LOCKED = frozenset({"LOCK-DB-GOT", "LOCK-LEASE-GOT", "KDB-OPENING", "KDB-VERSION", "LIFE-PA-STARTED", "LIFE-STARTING"})
_UNCLEAN = frozenset({"KDB-PAGEFILE-UNCLEAN", "KDB-RECOVERING"})
_OWN = frozenset(
    {"LOCK-LOST", "IO-STOP-BROKER", "PMS-SLAVE-LINK-LOST", "PMS-MASTER-CLEAN-STOP", "PMS-MASTER-SAW-SLAVE"}
    | {"KDB-STOPPED", "RLD-DEMOTED", "LOCK-LEASE-RELEASED", "LIFE-REFRESH", "LIFE-LISTEN"}
    | _LOCKED
    | _UNCLEAN
)
KINDS = frozenset(REACTIONS) | _OWN
"""The kinds of records that ``observed_broker_runs`` reads."""
# What only a process that starts writes.
_OF_STARTS = frozenset({"LIFE-CONFIG-INVALID", "LIFE-START-FAILED"})
_STARTS = timedelta(minutes=3)
"""The longest time until a new process logs its store; its earlier records do not belong to the previous run."""
# A node gets a free lease at once; from 5.14 on, only the delay shows that it waited.
_AT_ONCE = 0.9


HANG_ROUNDING = timedelta(seconds=0.5)
"""The largest error of ``ProcessEnd.hung_since``: the watchdog rounds the time for which a broker has hung."""


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The end of a broker's process, as the systemd journals of its host show it.

    ``kind`` is that of the record. ``at``: the time of the end, None if only a hang was recorded. ``hung_since``: the
    first failed check of the watchdog. ``observed`` is its observation, or the reason of the end. ``last_sign``: the
    last log record that shows a broker that worked.
    """

    kind: str
    at: datetime | None = None
    hung_since: datetime | None = None
    observed: str = ""
    last_sign: datetime | None = None


@dataclass(slots=True)
class ObservedBrokerRun:
    """One run of a broker, as the broker's log shows it.

    The run lasts from the choice of its store to its end. ``chosen`` is None for a run whose beginning is not in the
    log. ``waited``: when it became standby; ``locked``: when it acquired the lock; ``started``: when it became active;
    each None if the log does not show it. ``saw_loss``: when a pure slave lost its master. ``ended``: the record that
    ends the run.
    """

    host: str
    place: int
    chosen: datetime | None = None
    waited: datetime | None = None
    certainly_waited: bool = False
    locked: datetime | None = None
    started: datetime | None = None
    saw_loss: datetime | None = None
    ended: datetime | None = None
    released: datetime | None = None
    end: End = "open"
    store: str | None = None
    name: str | None = None
    promoted: bool = False
    pure: bool = False
    unclean: bool = False
    last: datetime | None = None
    """The last known log record of the run, apart from the records of its end."""
    was_active_before: bool = False
    """True if the log lacks the beginning of the run, and contains records that only an active node writes."""
    is_new: bool = False
    """True if the run has begun and the broker has not chosen a store yet."""
    first: datetime | None = None
    """The first log record of the run; None if it is not in the log."""
    retired: bool = False
    """True if the broker is a pure slave that is configured to stop when its master stops."""
    tried: datetime | None = None
    """The time at which the broker tried to acquire a lock in a database; later releases do not log the wait."""
    process_end: ProcessEnd | None = None
    """What the systemd journals show about the end of the run; None if they show nothing."""

    @property
    def was_active(self) -> bool:
        """Whether the broker was active at any time during the run."""
        return self.started is not None or self.was_active_before

    @property
    def still_waiting_for_lock_since(self) -> datetime | None:
        """The time since which the broker has been waiting for its lock at the end of its log; None if it is not
        waiting.
        """
        is_waiting = self.end == "open" and not self.was_active and not self.pure and self.locked is None
        return (self.waited or self.tried) if is_waiting else None

    @property
    def store_acquired_at(self) -> datetime | None:
        """The time at which the broker acquired its store; None if its log does not show it."""
        return self.locked or self.started or self.last

    @property
    def end_or_last_record_time(self) -> datetime | None:
        """The time at which the broker's run ended, or the time of its last log record if the log shows no end."""
        return self.released or self.ended or self.last


def observed_broker_runs(
    evidence: Iterable[LogRecordEvidence], logged_minutes: Sequence[LoggedMinute] = ()
) -> list[ObservedBrokerRun]:
    """Return the runs of a broker that its log evidence shows, in the order of the log.

    ``logged_minutes`` are the minutes in which the broker logged anything.
    """
    reader = _RunReader()
    for record in evidence:
        reader.take(record)
    runs = reader.close()
    _extend_runs(runs, logged_minutes)
    return runs


class _RunReader:
    """A reader of a host's log evidence that collects the runs of the host's broker."""

    def __init__(self) -> None:
        self._story = BrokerRun()
        self._terms: list[ObservedBrokerRun] = []
        self._term: ObservedBrokerRun | None = None
        self._tried: datetime | None = None

    def take(self, seen: LogRecordEvidence) -> None:
        if seen.kind == "LIFE-STORE-CHOSEN" or self._is_another_start(seen):
            self._begin(seen)
        term = self._term or self._begin_unseen(seen)
        before = self._story.phase
        self._story.apply_event(log_event_from_evidence(seen))
        if seen.kind in ("LIFE-STARTING", "LIFE-STARTED", "LIFE-STARTING-OLD", "LIFE-STARTED-OLD"):
            term.name = seen.fields.get("broker", term.name)
        if term.end == "open":
            self._apply_record(term, seen, before)
        if seen.kind in ("KDB-STOPPED", "LOCK-LEASE-RELEASED", "LIFE-STOPPED", "LIFE-STOPPED-OLD"):
            term.released = term.released or seen.at

    def close(self) -> list[ObservedBrokerRun]:
        if self._term is not None:
            self._terms.append(self._term)
        return self._terms

    def _is_another_start(self, seen: LogRecordEvidence) -> bool:
        """Return whether a log record is of a new broker process, so that the previous run ended without a record."""
        if seen.kind == "LIFE-REFRESH":
            return True
        return seen.kind in _OF_STARTS and self._term is not None and self._term.was_active and self._term.end == "open"

    def _begin(self, seen: LogRecordEvidence) -> None:
        """Begin a run of a broker, or continue a run that has only begun to read its files."""
        chosen = seen.at if seen.kind == "LIFE-STORE-CHOSEN" else None
        if self._term is not None and self._term.is_new:
            self._term.chosen, self._term.store = chosen, seen.fields.get("adapter")
            self._term.is_new = chosen is None
            return
        if self._term is not None:
            if self._term.end == "open":
                self._term.end = "silent"
            self._terms.append(self._term)
        self._story = BrokerRun()
        self._term = ObservedBrokerRun(
            seen.host, seen.sequence, chosen=chosen, store=seen.fields.get("adapter"), last=seen.at
        )
        self._term.is_new, self._term.first = chosen is None, seen.at
        self._tried = None

    def _begin_unseen(self, seen: LogRecordEvidence) -> ObservedBrokerRun:
        """Begin a run of a broker whose beginning its log does not show."""
        self._term = ObservedBrokerRun(seen.host, seen.sequence, last=seen.at)
        return self._term

    def _apply_record(self, term: ObservedBrokerRun, seen: LogRecordEvidence, before: str) -> None:
        story = self._story
        term.pure |= story.phase == "attached" or seen.kind.startswith("PMS-") or story.promoted
        term.unclean |= seen.kind in _UNCLEAN
        if seen.kind in ("PMS-SLAVE-LINK-LOST", "PMS-MASTER-CLEAN-STOP") and term.started is None:
            term.saw_loss = term.saw_loss or seen.at
        term.retired |= seen.kind == "LIFE-MASTERFAIL-STOP"
        self._note_wait(term, seen)
        if term.pure and not story.promoted:
            term.locked = None  # a pure slave opens its own store, which shows no lock
        if _ends_run(seen, story.phase, before, term):
            term.ended, term.end = seen.at, _end_of(seen, story.phase)
            term.was_active_before |= _was_active(term, seen)
            return
        term.last = max(term.last or seen.last_record_time, seen.last_record_time)
        self._note_activity(term, seen)

    def _note_wait(self, term: ObservedBrokerRun, seen: LogRecordEvidence) -> None:
        """Note when the run began to wait for its lock, and when it got the lock."""
        if term.started is not None or term.was_active_before:
            return
        if seen.kind in ("LOCK-FILE-WAIT", "LOCK-FILE-WAIT-OLD", "LOCK-DB-WAIT", "LOCK-LEASE-WAIT"):
            term.waited, term.certainly_waited = term.waited or self._tried or seen.at, True
            term.locked = None
        elif seen.kind in ("LOCK-DB-TRY", "LOCK-LEASE-TRY"):
            term.tried = self._tried = self._tried or seen.at
        elif seen.kind in ("LOCK-DB-GOT", "LOCK-LEASE-GOT") and term.waited is None and self._has_tried_long(seen.at):
            term.waited = self._tried
        if self._story.phase == "attached":
            term.waited, term.certainly_waited = term.waited or seen.at, True
        if seen.kind in _LOCKED and term.locked is None and not term.pure:
            term.locked = seen.at

    def _has_tried_long(self, now: datetime) -> bool:
        return self._tried is not None and (now - self._tried).total_seconds() >= _AT_ONCE

    def _note_activity(self, term: ObservedBrokerRun, seen: LogRecordEvidence) -> None:
        """Note when the broker of the run became active."""
        if self._story.phase == "started" and term.started is None:
            term.started = seen.at
            term.promoted = self._story.promoted
            if term.promoted:
                term.locked = seen.at
        elif term.chosen is None and term.started is None and seen.kind.startswith("NET-") and not term.waited:
            term.was_active_before = True


def log_event_from_evidence(evidence: LogRecordEvidence) -> LogEvent:
    """Return a piece of evidence from a broker's log as a LogEvent, the type from which broker runs are computed.

    The event has the kind, time, thread and fields of the evidence, but not the text of the log record.
    """
    record = Record(evidence.sequence, evidence.at, "", "", "", evidence.thread)
    return LogEvent(evidence.kind, record, evidence.fields)


def _ends_run(seen: LogRecordEvidence, phase: str, before: str, term: ObservedBrokerRun) -> bool:
    if seen.kind in ("LOCK-LOST", "RLD-DEMOTED", "LIFE-MASTERFAIL-STOP"):
        return True
    if seen.kind == "IO-STOP-BROKER":
        return term.was_active
    return phase in ("stopping", "stopped", "failed") and phase != before


def _was_active(term: ObservedBrokerRun, seen: LogRecordEvidence) -> bool:
    """Return whether the last record of a broker run shows that the broker was active before its log began."""
    if term.chosen is not None or term.started is not None or term.waited is not None:
        return False
    return seen.kind in ("LOCK-LOST", "RLD-DEMOTED") or (
        seen.kind == "LIFE-STOPPING" and seen.fields.get("brokerId") != "null"
    )


def _end_of(seen: LogRecordEvidence, phase: str) -> End:
    if seen.kind in ("LOCK-LOST", "RLD-DEMOTED"):
        return "lost_lock"
    if seen.kind == "IO-STOP-BROKER":
        return "store"
    return "failed" if phase == "failed" else "stopped"


def _extend_runs(runs: Sequence[ObservedBrokerRun], logged_minutes: Sequence[LoggedMinute]) -> None:
    """Set the last record of each broker run to the last record that its host logged during the run.

    That record need not show a state.
    """
    for index, term in enumerate(runs):
        begin = term.chosen or term.first
        following = runs[index + 1].first if index + 1 < len(runs) else None
        until = term.ended or (following - _STARTS if following else None)
        inside = [
            minute.last
            for minute in logged_minutes
            if minute.host == term.host
            and (begin is None or minute.first >= begin)
            and (until is None or minute.last < until)
        ]
        if inside:
            term.last = max(term.last or max(inside), *inside)
