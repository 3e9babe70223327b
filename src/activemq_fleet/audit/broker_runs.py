"""Find a broker's runs in its log: when each waited, got the lock and was active, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from activemq_fleet.audit.evidence import HostLogMinute, LogRecordEvidence
from activemq_fleet.node.log.broker_run import REACTIONS, BrokerRun
from activemq_fleet.node.log.kinds import LogEvent
from activemq_fleet.node.log.log_records import Record

End = Literal["open", "silent", "stopped", "lost_lock", "store", "failed"]
"""``open``: the log ends with the run. ``silent``: another run begins, and no record shows how this one ended."""

# The first records after a node acquired its lock. No release logs a record for the file lock itself.
_LOCK_ACQUIRED = frozenset(
    {"LOCK-DB-GOT", "LOCK-LEASE-GOT", "KDB-OPENING", "KDB-VERSION", "LIFE-PA-STARTED", "LIFE-STARTING"}
)
_UNCLEAN = frozenset({"KDB-PAGEFILE-UNCLEAN", "KDB-RECOVERING"})
_ENDS_WITHOUT_CRASH = frozenset(
    {"LOCK-LOST", "IO-STOP-BROKER", "PMS-SLAVE-LINK-LOST", "PMS-MASTER-CLEAN-STOP", "PMS-MASTER-SAW-SLAVE"}
    | {"KDB-STOPPED", "RLD-DEMOTED", "LOCK-LEASE-RELEASED", "LIFE-REFRESH", "LIFE-LISTEN"}
    | _LOCK_ACQUIRED
    | _UNCLEAN
)
KINDS = frozenset(REACTIONS) | _ENDS_WITHOUT_CRASH
"""The kinds of records that ``observed_broker_runs`` reads."""
# Records that only a starting process writes.
_START_FAILURES = frozenset({"LIFE-CONFIG-INVALID", "LIFE-START-FAILED"})
_START_DURATION = timedelta(minutes=3)
"""The longest time until a new process logs its store; its earlier records do not belong to the previous run."""
# A node acquires a free lease immediately. From 5.14 on, only the delay shows that the node waited.
_IMMEDIATE_SECONDS = 0.9


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
    lacks_end: bool = False
    """True if the log lacks records that may show how the run ended."""
    in_second_occurrence: bool = False
    """True if the broker acquired its store in an hour that the clocks showed twice, and only the log of the other node
    shows that this was the second occurrence of the hour.
    """

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
    evidence: Iterable[LogRecordEvidence], logged_minutes: Sequence[HostLogMinute] = ()
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


def mark_runs_with_missing_end(runs: Sequence[ObservedBrokerRun], times_before_gaps: Iterable[datetime]) -> None:
    """Set ``lacks_end`` of a broker's runs: whether their end is unknown and later log records are missing.

    ``times_before_gaps`` are the times of the last log records before missing parts of the log.
    """
    times = list(times_before_gaps)
    for index, run in enumerate(runs):
        following = runs[index + 1] if index + 1 < len(runs) else None
        until = (following.first or following.chosen) if following else None
        run.lacks_end = run.end in ("open", "silent") and any(
            (run.last is None or run.last <= at) and (until is None or at < until) for at in times
        )


class _RunReader:
    """A reader of a host's log evidence that collects the runs of the host's broker."""

    def __init__(self) -> None:
        self._broker_run = BrokerRun()
        self._finished_runs: list[ObservedBrokerRun] = []
        self._current_run: ObservedBrokerRun | None = None
        self._first_lock_attempt: datetime | None = None

    def take(self, record: LogRecordEvidence) -> None:
        if record.kind == "LIFE-STORE-CHOSEN" or self._is_another_start(record):
            self._begin_run(record)
        run = self._current_run or self._begin_run_without_start(record)
        previous_phase = self._broker_run.phase
        self._broker_run.apply_event(log_event_from_evidence(record))
        if record.kind in ("LIFE-STARTING", "LIFE-STARTED", "LIFE-STARTING-OLD", "LIFE-STARTED-OLD"):
            run.name = record.fields.get("broker", run.name)
        if run.end == "open":
            self._apply_record(run, record, previous_phase)
        if record.kind in ("KDB-STOPPED", "LOCK-LEASE-RELEASED", "LIFE-STOPPED", "LIFE-STOPPED-OLD"):
            run.released = run.released or record.at

    def close(self) -> list[ObservedBrokerRun]:
        if self._current_run is not None:
            self._finished_runs.append(self._current_run)
        return self._finished_runs

    def _is_another_start(self, record: LogRecordEvidence) -> bool:
        """Return whether a log record is of a new broker process, so that the previous run ended without a record."""
        if record.kind == "LIFE-REFRESH":
            return True
        return (
            record.kind in _START_FAILURES
            and self._current_run is not None
            and self._current_run.was_active
            and self._current_run.end == "open"
        )

    def _begin_run(self, record: LogRecordEvidence) -> None:
        """Begin a run of a broker, or continue a run that has only begun to read its files."""
        chosen = record.at if record.kind == "LIFE-STORE-CHOSEN" else None
        if self._current_run is not None and self._current_run.is_new:
            self._current_run.chosen, self._current_run.store = chosen, record.fields.get("adapter")
            self._current_run.is_new = chosen is None
            return
        if self._current_run is not None:
            if self._current_run.end == "open":
                self._current_run.end = "silent"
            self._finished_runs.append(self._current_run)
        self._broker_run = BrokerRun()
        self._current_run = ObservedBrokerRun(
            record.host, record.sequence, chosen=chosen, store=record.fields.get("adapter"), last=record.at
        )
        self._current_run.is_new, self._current_run.first = chosen is None, record.at
        self._first_lock_attempt = None

    def _begin_run_without_start(self, record: LogRecordEvidence) -> ObservedBrokerRun:
        """Begin a run of a broker whose beginning its log does not show."""
        self._current_run = ObservedBrokerRun(record.host, record.sequence, last=record.at)
        return self._current_run

    def _apply_record(self, run: ObservedBrokerRun, record: LogRecordEvidence, previous_phase: str) -> None:
        broker_run = self._broker_run
        run.pure |= broker_run.phase == "attached" or record.kind.startswith("PMS-") or broker_run.promoted
        run.unclean |= record.kind in _UNCLEAN
        if record.kind in ("PMS-SLAVE-LINK-LOST", "PMS-MASTER-CLEAN-STOP") and run.started is None:
            run.saw_loss = run.saw_loss or record.at
        run.retired |= record.kind == "LIFE-MASTERFAIL-STOP"
        self._record_wait(run, record)
        if run.pure and not broker_run.promoted:
            run.locked = None  # a pure slave opens its own store, which shows no lock
        if _ends_run(record, broker_run.phase, previous_phase, run):
            run.ended, run.end = record.at, _kind_of_end(record, broker_run.phase)
            run.was_active_before |= _was_active(run, record)
            return
        run.last = max(run.last or record.last_record_time, record.last_record_time)
        self._record_activity(run, record)

    def _record_wait(self, run: ObservedBrokerRun, record: LogRecordEvidence) -> None:
        """Record when the run began to wait for its lock, and when it acquired the lock."""
        if run.started is not None or run.was_active_before:
            return
        if record.kind in ("LOCK-FILE-WAIT", "LOCK-FILE-WAIT-OLD", "LOCK-DB-WAIT", "LOCK-LEASE-WAIT"):
            run.waited, run.certainly_waited = run.waited or self._first_lock_attempt or record.at, True
            run.locked = None
        elif record.kind in ("LOCK-DB-TRY", "LOCK-LEASE-TRY"):
            run.tried = self._first_lock_attempt = self._first_lock_attempt or record.at
        elif (
            record.kind in ("LOCK-DB-GOT", "LOCK-LEASE-GOT")
            and run.waited is None
            and self._has_waited_for_lock(record.at)
        ):
            run.waited = self._first_lock_attempt
        if self._broker_run.phase == "attached":
            run.waited, run.certainly_waited = run.waited or record.at, True
        if record.kind in _LOCK_ACQUIRED and run.locked is None and not run.pure:
            run.locked = record.at

    def _has_waited_for_lock(self, now: datetime) -> bool:
        return (
            self._first_lock_attempt is not None
            and (now - self._first_lock_attempt).total_seconds() >= _IMMEDIATE_SECONDS
        )

    def _record_activity(self, run: ObservedBrokerRun, record: LogRecordEvidence) -> None:
        """Record when the broker of the run became active."""
        if self._broker_run.phase == "started" and run.started is None:
            run.started = record.at
            run.promoted = self._broker_run.promoted
            if run.promoted:
                run.locked = record.at
        elif run.chosen is None and run.started is None and record.kind.startswith("NET-") and not run.waited:
            run.was_active_before = True


def log_event_from_evidence(evidence: LogRecordEvidence) -> LogEvent:
    """Return a piece of evidence from a broker's log as a LogEvent, the type from which broker runs are computed.

    The event has the kind, time, thread and fields of the evidence, but not the text of the log record.
    """
    record = Record(evidence.sequence, evidence.at, "", "", "", evidence.thread)
    return LogEvent(evidence.kind, record, evidence.fields)


def _ends_run(record: LogRecordEvidence, phase: str, previous_phase: str, run: ObservedBrokerRun) -> bool:
    if record.kind in ("LOCK-LOST", "RLD-DEMOTED", "LIFE-MASTERFAIL-STOP"):
        return True
    if record.kind == "IO-STOP-BROKER":
        return run.was_active
    return phase in ("stopping", "stopped", "failed") and phase != previous_phase


def _was_active(run: ObservedBrokerRun, record: LogRecordEvidence) -> bool:
    """Return whether the last record of a broker run shows that the broker was active before its log began."""
    if run.chosen is not None or run.started is not None or run.waited is not None:
        return False
    return record.kind in ("LOCK-LOST", "RLD-DEMOTED") or (
        record.kind == "LIFE-STOPPING" and record.fields.get("brokerId") != "null"
    )


def _kind_of_end(record: LogRecordEvidence, phase: str) -> End:
    if record.kind in ("LOCK-LOST", "RLD-DEMOTED"):
        return "lost_lock"
    if record.kind == "IO-STOP-BROKER":
        return "store"
    return "failed" if phase == "failed" else "stopped"


def _extend_runs(runs: Sequence[ObservedBrokerRun], logged_minutes: Sequence[HostLogMinute]) -> None:
    """Set the last record of each broker run to the last record that its host logged during the run.

    That record need not show a state.
    """
    for index, run in enumerate(runs):
        begin = run.chosen or run.first
        following = runs[index + 1].first if index + 1 < len(runs) else None
        until = run.ended or (following - _START_DURATION if following else None)
        record_times = [
            minute.last
            for minute in logged_minutes
            if minute.host == run.host
            and (begin is None or minute.first >= begin)
            and (until is None or minute.last < until)
        ]
        if record_times:
            run.last = max(run.last or max(record_times), *record_times)
