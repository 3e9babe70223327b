"""Find takeovers that the audit reads an hour too early, because the clocks of their night show an hour twice.

A log has no zone. A standby that wrote nothing for hours and takes over in the hour that occurs twice does not show in
which of both it took over, so its times are first read as those of the first occurrence. If the other node was active
for up to an hour longer, the takeover was in the second occurrence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from activemq_fleet.audit.broker_runs import KINDS, ObservedBrokerRun, observed_broker_runs
from activemq_fleet.audit.evidence import SKEW, HostLogMinute, LogRecordEvidence, PairNode
from activemq_fleet.audit.pair_incidents import last_active_record_time
from activemq_fleet.logs.zones import first_occurrence_of_repeated_time

_NO_TIME = timedelta(0)


@dataclass(frozen=True, slots=True)
class PeriodReadTooEarly:
    """A period (UTC) of a host's log whose times were read ``shift`` too early, when daylight saving time ended.

    The local time of the host occurred twice in that night, and the first occurrence was assumed.
    """

    host: str
    begin: datetime
    end: datetime
    shift: timedelta

    def shift_of(self, host: str, at: datetime) -> timedelta:
        """Return the correction to add to the time of a host's log record: zero outside of the period."""
        return self.shift if host == self.host and self.begin <= at < self.end else _NO_TIME

    def was_moved(self, host: str, at: datetime | None) -> bool:
        """Return whether ``at``, the time of a log record after the correction, differs from the uncorrected time."""
        return at is not None and bool(self.shift_of(host, at - self.shift))

    def correct_record(self, record: LogRecordEvidence) -> LogRecordEvidence:
        """Return a log record with its times corrected by ``shift`` if it is in the period, else unchanged."""
        shift = self.shift_of(record.host, record.at)
        return (
            replace(record, at=record.at + shift, last=None if record.last is None else record.last + shift)
            if shift
            else record
        )

    def correct_minute(self, minute: HostLogMinute) -> HostLogMinute:
        """Return a HostLogMinute with its times corrected by ``shift`` if they are in the period, else unchanged."""
        shift = self.shift_of(minute.host, minute.first)
        return HostLogMinute(minute.host, minute.first + shift, minute.last + shift) if shift else minute


def periods_read_too_early(
    nodes: Sequence[PairNode],
    evidence_by_host: Mapping[str, Sequence[LogRecordEvidence]],
    logged_minutes: Sequence[HostLogMinute],
) -> list[PeriodReadTooEarly]:
    """Return the periods of repeated local time in which log times of a pair's host mean the second occurrence.

    Read as the first occurrence, the log shows that both nodes were active at once. ``evidence_by_host``: the log
    records of each host, in the order of its log.
    """
    of_runs = {
        host: [record for record in records if record.kind in KINDS] for host, records in evidence_by_host.items()
    }
    if not any(
        first_occurrence_of_repeated_time(node.timezone, record.at)
        for node in nodes
        for record in of_runs.get(node.host, ())
    ):
        return []
    runs = {host: observed_broker_runs(records, logged_minutes) for host, records in of_runs.items()}
    active = [run for host_runs in runs.values() for run in host_runs if run.was_active and not run.pure]
    periods = (
        _misread_period(node, run, active, logged_minutes) for node in nodes for run in active if run.host == node.host
    )
    return list(dict.fromkeys(period for period in periods if period is not None))


def _misread_period(
    node: PairNode, run: ObservedBrokerRun, active: Iterable[ObservedBrokerRun], logged_minutes: Iterable[HostLogMinute]
) -> PeriodReadTooEarly | None:
    acquired = run.store_acquired_at
    occurrence = acquired and first_occurrence_of_repeated_time(node.timezone, acquired)
    if acquired is None or not occurrence:
        return None
    begin, end = occurrence
    shift = end - begin
    # A log with records of both occurrences shows the step back between them, so its times are certain.
    if any(minute.host == node.host and end <= minute.first < end + shift for minute in logged_minutes):
        return None
    is_misread = any(
        other.host != run.host
        and other.store_acquired_at is not None
        and other.store_acquired_at < acquired
        and until is not None
        and acquired + SKEW < until <= acquired + shift + SKEW
        for other in active
        for until in [other.ended if other.end == "stopped" else last_active_record_time(other)]
    )
    return PeriodReadTooEarly(node.host, begin, end, shift) if is_misread else None
