"""Aggregate results of tasks into figures for a report: a few numbers per task, which add up to the totals.

Figures have ``add``, which adds a result of a task, and ``merge``, which adds the figures of another task.
A report has at most a few hundred rows, for a fleet of any size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from typing import Any, ClassVar, get_args

import pyarrow as pa
import pyarrow.compute as pc

from activemq_fleet.audit.advice import IncidentKind
from activemq_fleet.audit.aggregates import DurationHistogram, FirstItemsBySortKey, SortedSample, quantiles
from activemq_fleet.audit.deliveries import Delivery, EventOutcome
from activemq_fleet.audit.evidence import Incident
from activemq_fleet.audit.logged_bridges import LoggedBridge
from activemq_fleet.audit.scraped_availability import ScrapedAvailability, UnservedPeriod, incident_near_period
from activemq_fleet.audit.state_spans import MAX_SPANS, HostStateSpan
from activemq_fleet.audit.unexplained_records import UnexplainedRecordGroup
from activemq_fleet.audit.verdict_words import WORST

MAX_INCIDENTS, MAX_HOSTS, MAX_BRIDGES, MAX_IDLE_PERIODS, MAX_EVENTS, MAX_WORDINGS = 300, 160, 200, 60, 60, 60
BUCKETS = 240
"""Number of time slices in a chart."""
_KINDS_BY_SEVERITY = get_args(IncidentKind)
_PERIOD_QUANTILES = (0.0005, 0.9995)
"""A line with a wrong date must not stretch the time line: so much of both ends is no measure for it."""
_BEGINNING_OF_TIME = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class TimeLineHost:
    """A broker host on the time line of an audit report.

    It has its states over time.
    """

    host: str
    pair: str | None
    spans: tuple[HostStateSpan, ...]


@dataclass(frozen=True, slots=True)
class LinkSummary:
    """A summary of one network link in an audit report.

    It has how often the bridge of the link was up, and how many of these periods (``broken``) ended in an error.
    """

    host: str
    link: str | None
    peers: tuple[str, ...]
    direction: str
    times: int
    broken: int
    flaps: int
    state: str
    cause: str | None
    longest_down: float | None


@dataclass(frozen=True, slots=True)
class PeriodWithoutHandledEvents:
    """An idle period of a subscriber: a period in which it handled no event.

    The subscriber's own clock measures it.
    """

    subscriber: str
    began: datetime
    seconds: float


def _incident_sort_key(incident: Incident) -> tuple[Any, ...]:
    """Return the key by which an audit report sorts incidents.

    The gravest kind comes first, then the earliest end.
    """
    return _KINDS_BY_SEVERITY.index(incident.kind), incident.ended or _BEGINNING_OF_TIME, incident.incident_id


def _incident_time_key(incident: Incident) -> tuple[datetime, str]:
    """Return the key by which an audit report lists the incidents that it shows: the earliest end comes first."""
    return incident.ended or incident.began or _BEGINNING_OF_TIME, incident.incident_id


def _newest_first_key(at: datetime) -> float:
    return -at.timestamp()


def _outcome_sort_key(outcome: EventOutcome) -> tuple[int, str]:
    """Return the key by which an audit report sorts the outcomes of events.

    The worst verdict comes first, then the event id decides.
    """
    return WORST.index(outcome.verdict), outcome.event_id


def _idle_period_sort_key(period: PeriodWithoutHandledEvents) -> tuple[float, str]:
    """Return the key by which an audit report sorts idle periods of subscribers.

    The longest period comes first, then the subscriber decides.
    """
    return -period.seconds, period.subscriber


def _link_sort_key(bridge: LinkSummary) -> tuple[Any, ...]:
    """Return the key by which an audit report sorts network links.

    Links that are down come first, then those that broke most often.
    """
    return bridge.state == "up", -bridge.broken, -bridge.flaps, bridge.host, bridge.link or ""


@dataclass(frozen=True, slots=True)
class ReportPeriod:
    """The period that an audit report covers.

    It is divided into time slices of equal length.
    """

    began: datetime
    ended: datetime

    @property
    def slice_length(self) -> timedelta:
        """The duration (a timedelta) of each of the equal time slices into which the report's period is divided.

        A bar of its charts covers one slice. It is at least 1 ms.
        """
        return max((self.ended - self.began) / BUCKETS, timedelta(milliseconds=1))

    def slice_index(self, moment: datetime) -> int:
        """Return the index of the report's time slice in which a moment lies."""
        return (moment - self.began) // _MICROSECOND // (self.slice_length // _MICROSECOND)


def period_spanning_times(time_samples: Iterable[SortedSample], times: Iterable[datetime | None]) -> ReportPeriod:
    """Return the period of an audit report, from the earliest to the latest of all given times.

    It lasts at least 1 s, and begins in 1970 if no time is given. ``time_samples`` are sorted samples of times in
    microseconds since the epoch; a None in ``times`` is ignored.
    """
    moments = [
        _BEGINNING_OF_TIME + timedelta(microseconds=int(at)) for at in quantiles(time_samples, _PERIOD_QUANTILES)
    ]
    moments += [at for at in times if at is not None]
    if not moments:
        return ReportPeriod(_BEGINNING_OF_TIME, _BEGINNING_OF_TIME + timedelta(seconds=1))
    return ReportPeriod(min(moments), max(max(moments), min(moments) + timedelta(seconds=1)))


class IncidentFigures:
    """The figures of an audit report about incidents.

    They are the numbers of incidents by kind, the number of planned ones, and the gravest incidents. Only the gravest
    incidents are listed in a report: compute every number that is about all incidents in ``count_incident``.
    """

    def __init__(self, unserved: Iterable[UnservedPeriod] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self.planned = 0
        self.gravest = FirstItemsBySortKey[Incident](MAX_INCIDENTS, _incident_sort_key)
        self.longest_takeover_seconds: float | None = None
        """The duration of the longest takeover, in seconds; None if no duration is known."""
        self.longest_downtime_bounds: tuple[float, float] | None = None
        """The bounds of the longest proved downtime of a pair at a takeover, in seconds; None if none is known."""
        self.period_bounds: tuple[datetime, datetime] | None = None
        """The earliest and the latest time of an incident; None if no time is known."""
        self.hosts: set[str] = set()
        """The hosts that have an incident."""
        self.incident_by_unserved_period: dict[UnservedPeriod, Incident] = {}
        """The first incident near each of the periods ``unserved``, in which scrapes showed no active node."""
        self._takeover_times: dict[str, FirstItemsBySortKey[datetime]] = {}
        self._unserved_by_pair: dict[str, list[UnservedPeriod]] = {}
        for period in unserved:
            self._unserved_by_pair.setdefault(period.pair, []).append(period)

    def count_incident(self, incident: Incident) -> None:
        """Count an incident in the figures of an audit report."""
        self.counts[incident.kind] += 1
        self.planned += incident.planned
        self.gravest.add_items_keeping_smallest_keys(incident)
        self.hosts.add(incident.host)
        times = [at for at in (incident.began, incident.ended) if at is not None]
        self._extend_period(times)
        if incident.kind == "takeover":
            self._extend_maxima(incident.seconds, _known_downtime(incident))
            self._newest_takeovers(incident.host).add_items_keeping_smallest_keys(*times[:1])
        for period in self._unserved_by_pair.get(incident.pair or "", ()):
            if incident_near_period(period, [incident]):
                self._explain_period(period, incident)

    def merge_incident_figures(self, other: IncidentFigures) -> None:
        """Add the figures about incidents that a Spark task of the audit computed to these figures."""
        self.counts += other.counts
        self.planned += other.planned
        self.gravest.merge_items_with_smallest_keys(other.gravest)
        self.hosts |= other.hosts
        self._extend_period(other.period_bounds or ())
        self._extend_maxima(other.longest_takeover_seconds, other.longest_downtime_bounds)
        for host, times in other._takeover_times.items():
            self._newest_takeovers(host).merge_items_with_smallest_keys(times)
        for period, incident in other.incident_by_unserved_period.items():
            self._explain_period(period, incident)

    @property
    def gravest_incidents_to_show(self) -> list[Incident]:
        """The incidents that an audit report shows: the gravest ones, sorted by the time at which they ended."""
        return sorted(self.gravest.items_with_smallest_keys(), key=_incident_time_key)

    def newest_takeover_times(self, host: str) -> list[datetime]:
        """Return the times of the newest takeovers by a host, the newest first, at most ``MAX_SPANS``."""
        times = self._takeover_times.get(host)
        return times.items_with_smallest_keys() if times else []

    def _newest_takeovers(self, host: str) -> FirstItemsBySortKey[datetime]:
        return self._takeover_times.setdefault(host, FirstItemsBySortKey[datetime](MAX_SPANS, _newest_first_key))

    def _extend_period(self, times: Iterable[datetime]) -> None:
        """Extend the period of the incidents, so that it contains the given times."""
        all_times = [*times, *(self.period_bounds or ())]
        if all_times:
            self.period_bounds = min(all_times), max(all_times)

    def _extend_maxima(self, seconds: float | None, downtime: tuple[float, float] | None) -> None:
        """Raise the longest takeover and the longest downtime to the given values, if these are longer."""
        takeovers = [known for known in (self.longest_takeover_seconds, seconds) if known is not None]
        downtimes = [known for known in (self.longest_downtime_bounds, downtime) if known is not None]
        self.longest_takeover_seconds = max(takeovers, default=None)
        self.longest_downtime_bounds = max(downtimes, default=None)

    def _explain_period(self, period: UnservedPeriod, incident: Incident) -> None:
        """Record an incident near a period without an active node; of several incidents, the first one is kept."""
        known = self.incident_by_unserved_period.get(period, incident)
        self.incident_by_unserved_period[period] = min(known, incident, key=_incident_time_key)


def _known_downtime(incident: Incident) -> tuple[float, float] | None:
    """Return the bounds of the downtime of a takeover, in seconds; None unless both are known."""
    if incident.downtime_min is None or incident.downtime_max is None:
        return None
    return incident.downtime_min, incident.downtime_max


def time_line_hosts(
    pair_of: Mapping[str, str | None],
    group_of: Mapping[str, str | None],
    spans: Iterable[HostStateSpan],
    incidents: IncidentFigures,
) -> tuple[list[TimeLineHost], int]:
    """Return the broker hosts that the time line of an audit report shows.

    The second value is the number of hosts left out. Pairs stay together. Hosts with an incident that the report shows
    are preferred, then hosts with another incident. ``pair_of`` and ``group_of`` have the hosts with logs.
    """
    pairs = {name: pair or name for name, pair in pair_of.items()}
    shown = {pairs.get(incident.host, incident.host) for incident in incidents.gravest_incidents_to_show}
    concerned = {pairs.get(host, host) for host in incidents.hosts}

    def sort_key(name: str) -> tuple[bool, bool, str, str]:
        return pairs[name] not in shown, pairs[name] not in concerned, pairs[name], name

    ordered = sorted(pairs, key=sort_key)
    chosen = sorted(ordered[:MAX_HOSTS], key=lambda name: (group_of[name] or "", pairs[name], name))
    by_host: dict[str, list[HostStateSpan]] = {}
    for span in spans:
        by_host.setdefault(span.host, []).append(span)
    hosts = [
        TimeLineHost(name, pair_of[name], tuple(sorted(by_host.get(name, ()), key=lambda span: span.began)))
        for name in chosen
    ]
    return hosts, len(ordered) - len(chosen)


def _link_summaries(bridges: Iterable[LoggedBridge]) -> Iterator[LinkSummary]:
    """Yield a summary of each network link, given its bridges.

    ``bridges`` must hold all bridges of the hosts that it names.
    """

    def link_of(bridge: LoggedBridge) -> tuple[str, str, str]:
        return bridge.host, bridge.link or "", bridge.direction

    def began(bridge: LoggedBridge) -> datetime:
        return bridge.began or _BEGINNING_OF_TIME

    for _, of_link in groupby(sorted(bridges, key=link_of), key=link_of):
        bridges_of_link = sorted(of_link, key=began)
        downtimes = [
            (after.began - before.ended) / timedelta(seconds=1)
            for before, after in pairwise(bridges_of_link)
            if after.began is not None and before.ended is not None
        ]
        newest = bridges_of_link[-1]
        yield LinkSummary(
            host=newest.host,
            link=newest.link,
            peers=tuple(sorted({bridge.peer for bridge in bridges_of_link if bridge.peer is not None})[:4]),
            direction=newest.direction,
            times=sum(bridge.began is not None for bridge in bridges_of_link),
            broken=sum(bridge.is_broken for bridge in bridges_of_link),
            flaps=sum(bridge.flaps for bridge in bridges_of_link),
            state=newest.state,
            cause=newest.cause,
            longest_down=max(downtimes, default=None),
        )


class BridgeFigures:
    """The figures of an audit report about network bridges.

    They are the numbers of bridges by state, and the links in the worst state.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.links = FirstItemsBySortKey[LinkSummary](MAX_BRIDGES, _link_sort_key)

    def count_bridges(self, bridges: Iterable[LoggedBridge]) -> None:
        """Count network bridges in the figures of an audit report.

        The bridges must be all bridges of their hosts.
        """
        bridges = list(bridges)
        self.counts.update(map(_bridge_state, bridges))
        self.links.add_items_keeping_smallest_keys(*_link_summaries(bridges))

    def add_bridge_figures(self, other: BridgeFigures) -> None:
        """Add the figures about the network bridges of a pair to these figures."""
        self.counts += other.counts
        self.links.merge_items_with_smallest_keys(other.links)


def _bridge_state(bridge: LoggedBridge) -> str:
    """Return the state of a network bridge, as an audit report counts it.

    It is ``not rebuilt`` if the bridge broke permanently, else its state.
    """
    return "not rebuilt" if bridge.is_not_rebuilt_by_running_broker else bridge.state


class UnexplainedRecordFigures:
    """The figures of an audit report about unexplained log records.

    No incident explains these warnings and errors. They are the number of these records, and the wordings that come
    first.
    """

    def __init__(self) -> None:
        self.count = 0
        self.wordings = FirstItemsBySortKey[UnexplainedRecordGroup](MAX_WORDINGS, _unexplained_record_sort_key)

    def count_unexplained_records(self, records: Iterable[UnexplainedRecordGroup]) -> None:
        """Add groups of log records that no incident explains to these figures of an audit report."""
        for wording in records:
            self.count += wording.count
            self.wordings.add_items_keeping_smallest_keys(wording)

    def add_unexplained_figures(self, other: UnexplainedRecordFigures) -> None:
        """Add the figures about unexplained log records that another Spark task of the audit computed to these."""
        self.count += other.count
        self.wordings.merge_items_with_smallest_keys(other.wordings)


def _unexplained_record_sort_key(wording: UnexplainedRecordGroup) -> tuple[Any, ...]:
    """Return the key by which an audit report sorts unexplained log records.

    Errors come first, then the records that came most often.
    """
    return wording.level == "WARN", -wording.count, wording.host, wording.message


def longest_idle_periods(subscriber: str, moments: Iterable[datetime]) -> list[PeriodWithoutHandledEvents]:
    """Return the longest idle periods of a subscriber: periods in which it handled no event.

    ``moments`` are those at which it handled events. Only periods of a second or more are returned.
    """
    foremost = FirstItemsBySortKey[PeriodWithoutHandledEvents](MAX_IDLE_PERIODS, _idle_period_sort_key)
    for before, after in pairwise(sorted(moments)):
        length = (after - before) / timedelta(seconds=1)
        if length >= 1:
            foremost.add_items_keeping_smallest_keys(PeriodWithoutHandledEvents(subscriber, before, length))
    return foremost.items_with_smallest_keys()


@dataclass(frozen=True, slots=True)
class LogLineCountsOfTimeSlice:
    """The counts of log lines in one time slice.

    The counts of warnings and errors are included. The slice begins at ``began``.
    """

    began: datetime
    all: int
    warnings: int
    errors: int


class LogLineFigures:
    """The figures of an audit report about log lines.

    They are the numbers of log lines by time slice and level.
    """

    COLUMNS: ClassVar = ("time", "level")
    """The columns of the dataset ``events`` that ``count_lines`` reads."""

    def __init__(self, of: ReportPeriod) -> None:
        self._period = of
        self._counts: Counter[tuple[int, str]] = Counter()

    def count_lines(self, batch: pa.RecordBatch) -> None:
        """Count a batch of log lines in the figures of an audit report.

        They are counted by time slice and level. Lines without a time are left out. The batch has the columns
        ``COLUMNS``.
        """
        began, ended, step = (
            int(duration / _MICROSECOND)
            for duration in (
                self._period.began - _BEGINNING_OF_TIME,
                self._period.ended - _BEGINNING_OF_TIME,
                self._period.slice_length,
            )
        )
        table = pa.table({"time": batch.column("time").cast(pa.int64()), "level": batch.column("level")})
        rows_in_period = table.filter((pc.field("time") >= began) & (pc.field("time") <= ended))
        numbers = (rows_in_period["time"].to_numpy() - began) // step
        counted = pa.table({"slice": numbers, "level": rows_in_period["level"]}).group_by(["slice", "level"])
        for row in counted.aggregate([([], "count_all")]).to_pylist():
            self._counts[row["slice"], row["level"]] += row["count_all"]

    def add_line_figures(self, other: LogLineFigures) -> None:
        """Add the figures about log lines that another Spark task of the audit computed to these figures."""
        self._counts += other._counts

    @property
    def line_warning_error_counts_by_slice(self) -> list[LogLineCountsOfTimeSlice]:
        """The counts of log lines in each time slice of the report.

        Each has the numbers of lines, warnings and errors. Slices without lines are left out.
        """
        return [
            LogLineCountsOfTimeSlice(
                self._period.began + number * self._period.slice_length,
                sum(count for (at, _), count in self._counts.items() if at == number),
                self._counts[number, "WARN"],
                self._counts[number, "ERROR"] + self._counts[number, "FATAL"],
            )
            for number in sorted({at for at, _ in self._counts})
        ]


@dataclass(slots=True)
class HandledEventsSlice:
    """A time slice of an audit report, with the number of events handled in it and a histogram of their durations.

    A duration lasts from the acceptance of an event to its handling.
    """

    began: datetime
    handled: int = 0
    handling_times: DurationHistogram = field(default_factory=DurationHistogram)


class EventFigures:
    """The figures of an audit report about events and their deliveries.

    Numbers by verdict, the worst events, by slice of time how many were handled and how long they took, and the longest
    times in which a subscriber handled nothing.
    """

    def __init__(self, of: ReportPeriod) -> None:
        self.messages: Counter[str] = Counter()
        self.deliveries: Counter[str] = Counter()
        self.worst = FirstItemsBySortKey[EventOutcome](MAX_EVENTS, _outcome_sort_key)
        self.idle_periods = FirstItemsBySortKey[PeriodWithoutHandledEvents](MAX_IDLE_PERIODS, _idle_period_sort_key)
        self._period = of
        self._slices: dict[int, HandledEventsSlice] = {}

    def count_event(self, outcome: EventOutcome | None, deliveries: Iterable[Delivery]) -> None:
        """Count an event and its deliveries in the figures of an audit report.

        ``outcome`` is None for a barrier (marker message).
        """
        self.deliveries.update(delivery.verdict for delivery in deliveries)
        if outcome is None:
            return
        self.messages[outcome.verdict] += 1
        if outcome.verdict != "delivered":
            self.worst.add_items_keeping_smallest_keys(outcome)
        if outcome.handled is not None:
            of_slice = self._slice(self._period.slice_index(outcome.handled))
            of_slice.handled += 1
            if outcome.accepted is not None:
                of_slice.handling_times.count_duration((outcome.handled - outcome.accepted) / timedelta(seconds=1))

    def add_event_figures(self, other: EventFigures) -> None:
        """Add the figures about events that another Spark task of the audit computed to these figures."""
        self.messages += other.messages
        self.deliveries += other.deliveries
        self.worst.merge_items_with_smallest_keys(other.worst)
        self.idle_periods.merge_items_with_smallest_keys(other.idle_periods)
        for number, other_slice in other._slices.items():
            event_slice = self._slice(number)
            event_slice.handled += other_slice.handled
            event_slice.handling_times.add_counts_of_histogram(other_slice.handling_times)

    def _slice(self, number: int) -> HandledEventsSlice:
        return self._slices.setdefault(
            number, HandledEventsSlice(self._period.began + number * self._period.slice_length)
        )

    @property
    def handling_duration_histogram(self) -> DurationHistogram:
        """The histogram of the durations from an event's acceptance by its publisher to its handling by a subscriber.

        It is the sum over all time slices.
        """
        durations = DurationHistogram()
        for event_slice in self._slices.values():
            durations.add_counts_of_histogram(event_slice.handling_times)
        return durations

    @property
    def time_slices_with_handled_events(self) -> list[HandledEventsSlice]:
        """The time slices of an audit report in which subscribers handled events, as a list in order of time.

        Each has the number and the durations of its events.
        """
        return [event_slice for _, event_slice in sorted(self._slices.items())[: 2 * BUCKETS]]


@dataclass(frozen=True, slots=True)
class AuditReportData:
    """The data of an audit report, such as its incidents, bridges, events and hosts.

    ``hosts_left`` is the number of hosts left out of the time line. ``scraped``: the availability in Prometheus, None
    without ``--metrics``. ``unexplained``: warnings and errors that no incident explains.
    """

    times: ReportPeriod
    incidents: IncidentFigures
    hosts: list[TimeLineHost]
    hosts_left: int
    bridges: BridgeFigures
    lines: LogLineFigures
    events: EventFigures
    scraped: ScrapedAvailability | None = None
    unexplained: UnexplainedRecordFigures = field(default_factory=UnexplainedRecordFigures)
