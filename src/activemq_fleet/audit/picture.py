"""The data that an audit's report shows: a few hundred rows at most, whatever the fleet's size."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from activemq_fleet.audit.deliveries import Outcome
from activemq_fleet.audit.evidence import Incident
from activemq_fleet.audit.state_spans import Span

BUCKETS = 240
"""Slices of time in a chart."""
FINE = 8


@dataclass(frozen=True, slots=True)
class ShownHost:
    """A broker on the report's time line."""

    host: str
    pair: str | None
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class ShownBridge:
    """All periods in which one link of a host was up. ``broken`` of them ended with an error."""

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
class Silence:
    """A period in which a subscriber handled no event, by its own clock."""

    subscriber: str
    began: datetime
    seconds: float


@dataclass(frozen=True, slots=True)
class DeliverySlice:
    """A slice of time: the number of events handled, and seconds from acceptance to handling (median, longest)."""

    began: datetime
    handled: int
    median: float | None = None
    longest: float | None = None


@dataclass(frozen=True, slots=True)
class LineCounts:
    """A slice of time: the numbers of log lines, and of the warnings and errors among them."""

    began: datetime
    all: int
    warnings: int
    errors: int


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds from acceptance to handling. ``counts``: events by the power of two of milliseconds. ``backwards``:
    events with fewer than 0.
    """

    counts: Mapping[int, int] = field(default_factory=dict)
    median: float | None = None
    most: float | None = None
    longest: float | None = None
    backwards: int = 0


def latency_of(rows: Collection[tuple[int | None, int, float]]) -> Latency:
    """Return the latency from counts by ``FINE`` parts of a power of two of ms (None: below 0), each with its longest,
    in seconds.

    Median and 99th percentile are exact to one part: 9 %.
    """
    known = sorted((fine, count, longest) for fine, count, longest in rows if fine is not None)
    total = sum(count for _, count, _ in known)
    counts: dict[int, int] = {}
    for fine, count, _ in known:
        counts[fine // FINE] = counts.get(fine // FINE, 0) + count
    backwards = sum(count for fine, count, _ in rows if fine is None)
    if not known:
        return Latency(backwards=backwards)
    return Latency(counts, _share(known, total * 0.5), _share(known, total * 0.99), known[-1][2], backwards)


def _share(known: Sequence[tuple[int, int, float]], wanted: float) -> float:
    """The longest of the part in which the event stands that so many are not after."""
    seen = 0
    for _, count, longest in known:
        seen += count
        if seen >= wanted:
            return longest
    return known[-1][2]


@dataclass(frozen=True, slots=True)
class Picture:
    """All data of an audit's report. ``…_left`` are the numbers of rows that are not shown."""

    began: datetime
    ended: datetime
    incidents: Sequence[Incident] = ()
    incidents_left: int = 0
    hosts: Sequence[ShownHost] = ()
    hosts_left: int = 0
    bridges: Sequence[ShownBridge] = ()
    more_bridges: bool = False
    lines: Sequence[LineCounts] = ()
    slices: Sequence[DeliverySlice] = ()
    latency: Latency = field(default_factory=Latency)
    silences: Sequence[Silence] = ()
    events: Sequence[Outcome] = ()

    @property
    def seconds(self) -> float:
        """The length of the time line in seconds."""
        return (self.ended - self.began).total_seconds()
