"""Explain how broker runs ended by the systemd journals of their hosts: the watchdog, the guard or the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from activemq_fleet.audit import advice
from activemq_fleet.audit.broker_runs import HANG_ROUNDING, ObservedBrokerRun, ProcessEnd
from activemq_fleet.audit.evidence import (
    HostLogMinute,
    Incident,
    PairNode,
    SystemdJournalRecord,
    new_incident,
    seconds_between,
    short_name,
)

_END_RECORDS = ("GUARD-KILLED", "UNIT-OUT-OF-MEMORY", "UNIT-EXITED")
"""The kinds of records that explain an end, the most specific first."""
_SLACK = timedelta(seconds=1)
_REMINDERS = timedelta(minutes=15)
"""The watchdog reports a hang every 10 minutes; one that it no longer reports is over."""
_ROUNDING = timedelta(seconds=5)
"""The longest difference between the first failed checks of two reports about one hang: their seconds are rounded."""


@dataclass(slots=True)
class Hang:
    """A hang of a broker that the watchdog on its host reported.

    It has the first and the last report of the watchdog, and how the hang ended. The watchdog reports a kill before the
    kill, because it may stop together with its broker.
    """

    since: datetime
    observed: str
    reported: datetime
    last_reported: datetime
    killed: datetime | None = None
    healthy: datetime | None = None


def hangs_from_watchdog_records(records: Sequence[SystemdJournalRecord]) -> list[Hang]:
    """Return the hangs of a broker that the watchdog on its host recorded, in the order of time."""
    hangs: list[Hang] = []
    for record in sorted(records, key=lambda record: (record.at, record.number)):
        last = hangs[-1] if hangs else None
        if record.kind in ("WATCHDOG-HUNG", "WATCHDOG-KILLS"):
            since = record.at - timedelta(seconds=int(record.fields["seconds"]))
            if last is None or last.killed or last.healthy or abs(since - last.since) > _ROUNDING:
                last = Hang(since, record.fields["reason"], record.at, record.at)
                hangs.append(last)
            last.last_reported = record.at
            last.killed = record.at if record.kind == "WATCHDOG-KILLS" else None
        elif last is not None and record.kind == "WATCHDOG-KILL-FAILED":
            last.killed = None
        elif last is not None and record.kind == "WATCHDOG-HEALTHY" and not last.killed:
            last.healthy = last.healthy or record.at
    return hangs


def set_unlogged_process_ends(
    runs: Sequence[ObservedBrokerRun],
    records: Sequence[SystemdJournalRecord],
    hangs: Sequence[Hang],
    logged_minutes: Sequence[HostLogMinute],
) -> None:
    """Set ``process_end`` of broker runs whose log shows no end, from recorded hangs and the host's systemd journal.

    These are runs that ended without a record, or whose log has no end. ``logged_minutes`` are the minutes in which the
    host logged anything.
    """
    for index, run in enumerate(runs):
        begin = run.chosen or run.first or run.last
        following = runs[index + 1] if index + 1 < len(runs) else None
        until = (following.first or following.chosen) if following else None
        if begin is None or run.end not in ("silent", "open"):
            continue
        hang = next((hang for hang in reversed(hangs) if _is_within(hang.since, begin, until)), None)
        if hang is not None and not _has_recovered(hang, until):
            sign = _last_record_before_hang(run, begin, hang.since - HANG_ROUNDING, logged_minutes)
            kind = "WATCHDOG-KILLS" if hang.killed else "WATCHDOG-HUNG"
            run.process_end = ProcessEnd(kind, hang.killed, hang.since, hang.observed, sign)
            continue
        after = (run.last or begin) - _SLACK
        ends = [record for record in records if record.kind in _END_RECORDS and _is_within(record.at, after, until)]
        end = min(ends, key=lambda record: (_END_RECORDS.index(record.kind), record.at), default=None)
        if end is not None:
            reason = end.fields.get("reason") or end.fields.get("status") or ""
            run.process_end = ProcessEnd(end.kind, end.at, observed=reason, last_sign=run.last)


def _has_recovered(hang: Hang, ended: datetime | None) -> bool:
    """Return whether a broker had recovered from a hang before its run ended."""
    if hang.killed:
        return False
    return hang.healthy is not None or (ended is not None and ended - hang.last_reported > _REMINDERS)


def _is_within(moment: datetime, begin: datetime, until: datetime | None) -> bool:
    return begin <= moment and (until is None or moment < until)


def _last_record_before_hang(
    run: ObservedBrokerRun, begin: datetime, hung: datetime, logged_minutes: Sequence[HostLogMinute]
) -> datetime | None:
    """Return the time of the last log record of a broker run before the broker hung."""
    moments = [at for minute in logged_minutes if minute.host == run.host for at in (minute.first, minute.last)]
    moments += [at for at in (run.started, run.last) if at is not None]
    return max((at for at in moments if begin <= at <= hung), default=None)


def hang_incidents(node: PairNode, hangs: Sequence[Hang], runs: Sequence[ObservedBrokerRun]) -> Iterator[Incident]:
    """Yield an incident for each hang of a broker that the watchdog reported."""
    for hang in hangs:
        next_run = min((at for run in runs if (at := run.first or run.chosen) and at > hang.since), default=None)
        ended = hang.killed or hang.healthy or next_run
        outcome = (
            "Its watchdog killed it."
            if hang.killed
            else "It answered again later."
            if hang.healthy
            else "Its watchdog reported the hang, and did not kill the broker."
        )
        yield new_incident(
            "hung_broker",
            node,
            advice.HUNG_BROKER,
            began=hang.since,
            ended=ended,
            seconds=seconds_between(hang.since, ended),
            began_from="watchdog",
            cause=f"The broker of {short_name(node.host)} hung: {hang.observed}. {outcome}",
            recorded=hang.reported,
        )


def describe_process_end(host: str, end: ProcessEnd) -> str:
    """Return a clause that describes how a broker's process ended."""
    return _CLAUSES[end.kind].format(host=host, observed=end.observed, at=end.at)


_CLAUSES: Mapping[str, str] = {
    "WATCHDOG-KILLS": "{host} hung ({observed}), and its watchdog killed it at {at:%H:%M:%S} UTC",
    "WATCHDOG-HUNG": "{host} hung ({observed}), and ended without a log record",
    "GUARD-KILLED": "the guard of {host}, which protects the store, killed its broker at {at:%H:%M:%S} UTC, because "
    "{observed}",
    "UNIT-OUT-OF-MEMORY": "the kernel killed the broker of {host} at {at:%H:%M:%S} UTC, because memory was exhausted",
    "UNIT-EXITED": "{host} ended without a log record, and systemd recorded {observed} at {at:%H:%M:%S} UTC",
}
