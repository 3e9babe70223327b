"""Sum up what tasks find into what the report shows: each task's figures are few, and those of all add up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from itertools import groupby, pairwise
from typing import Any, Generic, TypeVar, get_args

import pyarrow as pa
import pyarrow.compute as pc

from activemq_fleet.audit.advice import IncidentKind
from activemq_fleet.audit.bridges import Bridge
from activemq_fleet.audit.deliveries import Delivery, Outcome
from activemq_fleet.audit.evidence import Incident
from activemq_fleet.audit.picture import (
    BUCKETS,
    FINE,
    DeliverySlice,
    Latency,
    LineCounts,
    ShownBridge,
    ShownHost,
    Silence,
    latency_of,
)
from activemq_fleet.audit.samples import Sample, quantiles, sample_of
from activemq_fleet.audit.state_spans import Span
from activemq_fleet.audit.verdict_words import WORST

MOST_INCIDENTS, MOST_HOSTS, MOST_BRIDGES, MOST_SILENCES, MOST_EVENTS = 300, 160, 200, 60, 60
_GRAVEST = get_args(IncidentKind)
_EDGES = (0.0005, 0.9995)
"""A line with a wrong date must not stretch the time line: so much of both ends is no measure for it."""
_BEGINNING_OF_TIME = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)
_ERROR = "error at"
"""The beginning of the cause of a bridge that broke."""

_T = TypeVar("_T")


class Foremost(Generic[_T]):
    """The first ``most`` by ``key`` of all things that are added."""

    def __init__(self, most: int, key: Callable[[_T], Any]) -> None:
        self._most, self._key = most, key
        self._found: list[_T] = []

    def add(self, *things: _T) -> None:
        """Take things into account."""
        self._found += things
        if len(self._found) > 2 * self._most:
            self._found = self.in_order()

    def in_order(self) -> list[_T]:
        """Return the first of all things that were added, sorted."""
        return nsmallest(self._most, self._found, key=self._key)


def incident_gravity(incident: Incident) -> tuple[Any, ...]:
    """Return what incidents are sorted by: the gravest kind first, then the earliest end."""
    return _GRAVEST.index(incident.kind), incident.ended or _BEGINNING_OF_TIME, incident.id


def event_gravity(outcome: Outcome) -> tuple[int, str]:
    """Return what events are sorted by: the worst verdict first, then the id."""
    return WORST.index(outcome.verdict), outcome.event_id


def silence_length(silence: Silence) -> tuple[float, str]:
    """Return what silences are sorted by: the longest first, then the subscriber."""
    return -silence.seconds, silence.subscriber


def bridge_badness(bridge: ShownBridge) -> tuple[Any, ...]:
    """Return what links are sorted by: those that are not up first, then those that broke most often."""
    return bridge.state == "up", -bridge.broken, -bridge.flaps, bridge.host, bridge.link or ""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The time line of a report, and the length of its slices."""

    began: datetime
    ended: datetime

    @property
    def step(self) -> timedelta:
        """The length of a slice of time."""
        return max((self.ended - self.began) / BUCKETS, timedelta(milliseconds=1))

    def slice_of(self, moment: datetime) -> int:
        """Return the number of the slice that has a moment."""
        return (moment - self.began) // _MICROSECOND // (self.step // _MICROSECOND)


def time_range(times: Iterable[Sample], others: Iterable[datetime | None]) -> TimeRange:
    """Return from when to when there are events, by samples of their microseconds, and ``others``, as of incidents."""
    moments = [_BEGINNING_OF_TIME + timedelta(microseconds=int(at)) for at in quantiles(times, _EDGES)]
    moments += [at for at in others if at is not None]
    if not moments:
        return TimeRange(_BEGINNING_OF_TIME, _BEGINNING_OF_TIME + timedelta(seconds=1))
    return TimeRange(min(moments), max(max(moments), min(moments) + timedelta(seconds=1)))


def shown_incidents(incidents: Iterable[Incident]) -> list[Incident]:
    """Return incidents in the order of a report."""
    return sorted(incidents, key=lambda one: (one.ended or one.began or _BEGINNING_OF_TIME, one.id))


def shown_hosts(
    pair_of: Mapping[str, str | None],
    group_of: Mapping[str, str | None],
    spans: Iterable[Span],
    incidents: Iterable[Incident],
) -> tuple[list[ShownHost], int]:
    """Return the brokers of the time line in pairs, and how many are left out; those with incidents go first.

    ``pair_of`` and ``group_of`` have the hosts with logs.
    """
    pairs = {name: pair or name for name, pair in pair_of.items()}
    concerned = {pairs.get(one.host, one.host) for one in incidents}
    ordered = sorted(pairs, key=lambda name: (pairs[name] not in concerned, pairs[name], name))
    chosen = sorted(ordered[:MOST_HOSTS], key=lambda name: (group_of[name] or "", pairs[name], name))
    by_host: dict[str, list[Span]] = {}
    for span in spans:
        by_host.setdefault(span.host, []).append(span)
    hosts = [
        ShownHost(name, pair_of[name], tuple(sorted(by_host.get(name, ()), key=lambda span: span.began)))
        for name in chosen
    ]
    return hosts, len(ordered) - len(chosen)


def shown_bridges(bridges: Iterable[Bridge]) -> Iterator[ShownBridge]:
    """Yield the links of hosts, all of whose bridges are given."""

    def link_of(bridge: Bridge) -> tuple[str, str, str]:
        return bridge.host, bridge.link or "", bridge.direction

    def began(bridge: Bridge) -> datetime:
        return bridge.began or _BEGINNING_OF_TIME

    for _, of_link in groupby(sorted(bridges, key=link_of), key=link_of):
        mine = sorted(of_link, key=began)
        away = [
            (after.began - before.ended) / timedelta(seconds=1)
            for before, after in pairwise(mine)
            if after.began is not None and before.ended is not None
        ]
        newest = mine[-1]
        yield ShownBridge(
            host=newest.host,
            link=newest.link,
            peers=tuple(sorted({one.peer for one in mine if one.peer is not None})[:4]),
            direction=newest.direction,
            times=sum(one.began is not None for one in mine),
            broken=sum((one.cause or "").startswith(_ERROR) for one in mine),
            flaps=sum(one.flaps for one in mine),
            state=newest.state,
            cause=newest.cause,
            longest_down=max(away, default=None),
        )


def bridge_state(bridge: Bridge) -> str:
    """Return the state by which a bridge is counted: one that broke and was not rebuilt is ``not rebuilt``."""
    is_broken = bridge.state == "down" and bridge.rebuilt is False and (bridge.cause or "").startswith(_ERROR)
    return "not rebuilt" if is_broken else bridge.state


def silences_of(subscriber: str, moments: Iterable[datetime]) -> list[Silence]:
    """Return the longest times of a second and more between moments at which a subscriber handled events."""
    foremost = Foremost[Silence](MOST_SILENCES, silence_length)
    for before, after in pairwise(sorted(moments)):
        length = (after - before) / timedelta(seconds=1)
        if length >= 1:
            foremost.add(Silence(subscriber, before, length))
    return foremost.in_order()


def count_lines(times: pa.Array, levels: pa.Array, of: TimeRange) -> Counter[tuple[int, str]]:
    """Return the numbers of log lines by slice of time and level; both arrays have an entry for each line."""
    began, ended, step = (
        int(one / _MICROSECOND) for one in (of.began - _BEGINNING_OF_TIME, of.ended - _BEGINNING_OF_TIME, of.step)
    )
    table = pa.table({"time": times.cast(pa.int64()), "level": levels})
    inside = table.filter((pc.field("time") >= began) & (pc.field("time") <= ended))
    numbers = (inside["time"].to_numpy() - began) // step
    counted = (
        pa.table({"slice": numbers, "level": inside["level"]})
        .group_by(["slice", "level"])
        .aggregate([([], "count_all")])
    )
    return Counter({(row["slice"], row["level"]): row["count_all"] for row in counted.to_pylist()})


def line_counts(counts: Mapping[tuple[int, str], int], of: TimeRange) -> list[LineCounts]:
    """Return the numbers of lines, warnings and errors by slice of time, by those of each level."""
    return [
        LineCounts(
            of.began + number * of.step,
            sum(count for (at, _), count in counts.items() if at == number),
            counts.get((number, "WARN"), 0),
            counts.get((number, "ERROR"), 0) + counts.get((number, "FATAL"), 0),
        )
        for number in sorted({at for at, _ in counts})
    ]


@dataclass(slots=True)
class _Slice:
    handled: int = 0
    longest: float | None = None
    took: list[float] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


class EventFigures:
    """Figures of the outcomes and deliveries of events: numbers by verdict, how long events took, the worst events."""

    def __init__(self, of: TimeRange) -> None:
        self.messages: Counter[str] = Counter()
        self.deliveries: Counter[str] = Counter()
        self.worst = Foremost[Outcome](MOST_EVENTS, event_gravity)
        self._range = of
        self._slices: dict[int, _Slice] = {}
        self._latencies: dict[int | None, tuple[int, float]] = {}

    def add(self, outcome: Outcome | None, deliveries: Iterable[Delivery]) -> None:
        """Take an event into account; ``outcome`` is None for a barrier."""
        self.deliveries.update(one.verdict for one in deliveries)
        if outcome is None:
            return
        self.messages[outcome.verdict] += 1
        if outcome.verdict != "delivered":
            self.worst.add(outcome)
        if outcome.handled is None:
            return
        of_slice = self._slices.setdefault(self._range.slice_of(outcome.handled), _Slice())
        of_slice.handled += 1
        if outcome.accepted is not None:
            took = (outcome.handled - outcome.accepted) / timedelta(seconds=1)
            of_slice.took.append(took)
            of_slice.longest = took if of_slice.longest is None else max(of_slice.longest, took)
            fine = math.floor(FINE * math.log2(max(took * 1000, 0.5))) if took >= 0 else None
            count, longest = self._latencies.get(fine, (0, took))
            self._latencies[fine] = count + 1, max(longest, took)

    def close(self) -> EventFigures:
        """Keep of all times a sample alone, and return these figures."""
        for one in self._slices.values():
            if one.took:
                one.samples, one.took = [sample_of(one.took)], []
        return self

    def merge(self, other: EventFigures) -> None:
        """Add the closed figures of other events."""
        self.messages += other.messages
        self.deliveries += other.deliveries
        self.worst.add(*other.worst.in_order())
        for number, one in other._slices.items():
            mine = self._slices.setdefault(number, _Slice())
            mine.handled += one.handled
            mine.samples += one.samples
            mine.longest = max((at for at in (mine.longest, one.longest) if at is not None), default=None)
        for fine, (count, longest) in other._latencies.items():
            mine_count, mine_longest = self._latencies.get(fine, (0, longest))
            self._latencies[fine] = mine_count + count, max(mine_longest, longest)

    @property
    def latency(self) -> Latency:
        """How long events took from acceptance to handling."""
        return latency_of([(fine, *rest) for fine, rest in self._latencies.items()])

    @property
    def slices(self) -> list[DeliverySlice]:
        """The numbers of events that were handled, and how long they took, by slice of time."""
        return [
            DeliverySlice(
                self._range.began + number * self._range.step,
                one.handled,
                next(iter(quantiles(one.samples, [0.5])), None),
                one.longest,
            )
            for number, one in sorted(self._slices.items())[: 2 * BUCKETS]
        ]
