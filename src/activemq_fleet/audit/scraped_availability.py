"""Find when each pair had an active node according to scrapes of its metrics, independent of its logs."""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import Any

from activemq_fleet.audit.evidence import Incident
from activemq_fleet.audit.result import InputGap
from activemq_fleet.documentation_links import page_address_or_command
from activemq_fleet.errors import InputError

QUERY = 'activemq:broker_active or up{job="activemq-brokers"} * 0'
"""The range query whose answer is read: 1 for a host that is active, 0 for a host that is not, or cannot be scraped."""
_LATEST_TIME = 253402300799.0  # the end of the year 9999
_NEAR_SECONDS = 30.0
"""Seconds by which an incident may be away from what scrapes show: two of Prometheus' usual 15 s."""


@dataclass(frozen=True, slots=True)
class ActivePeriod:
    """A period in which metrics scrapes showed that a host was active.

    It lasts from the first to the last of these scrapes, in epoch seconds.
    """

    pair: str
    host: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class UnservedPeriod:
    """A period in which metrics scrapes showed no active node of a pair.

    It lasts from the last scrape that showed one to the next, in epoch seconds.
    """

    pair: str
    began: float
    ended: float

    @property
    def downtime_seconds(self) -> float:
        """The length, in seconds, of the period in which no node of a broker pair was active."""
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class ScrapedAvailability:
    """The availability of hosts and pairs according to scraped metrics.

    It has the times at which hosts were active, and at which pairs had no active node. ``interval`` is in seconds. A
    pair is unserved only where it was scraped: while Prometheus did not run, nothing is known.
    """

    interval: float
    active: tuple[ActivePeriod, ...]
    unserved: tuple[UnservedPeriod, ...]

    def longest_seconds_without_active_node(
        self, pair: str, after: float, until: float, *, ended_before: float = math.inf
    ) -> float | None:
        """Return the length, in seconds, of a pair's longest period without an active node, between two times.

        The period begins before ``until``, and ends later than ``after``. If it begins later than ``after``, it ends
        before ``ended_before``. Returns 0 where scrapes saw a node active all the time, and None for a pair without
        metrics.
        """
        if all(period.pair != pair for period in self.active):
            return None
        unserved = [
            period
            for period in self.unserved
            if period.pair == pair
            and after < period.ended
            and period.began < until
            and (period.began <= after or period.ended < ended_before)
        ]
        return max((period.downtime_seconds for period in unserved), default=0.0)


def read_availability(answer: str | bytes, source: str) -> ScrapedAvailability:
    """Read the availability of broker hosts and pairs from an answer of Prometheus.

    It is the JSON answer of ``/api/v1/query_range`` to the query ``QUERY``. ``source`` names the answer in messages.
    Raises InputError for any other text.
    """
    try:
        samples = sorted(_samples(json.loads(answer)["data"]["result"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(
            f"{source} is not the JSON answer of Prometheus to a range query (/api/v1/query_range) of {QUERY}: save "
            f"such an answer, as `{page_address_or_command('audit')}` describes"
        ) from None
    times = sorted({at for _, at, _, _ in samples})
    interval = min((after - before for before, after in pairwise(times)), default=0.0)
    active: list[ActivePeriod] = []
    unserved: list[UnservedPeriod] = []
    for pair, pair_samples in groupby(samples, key=lambda sample: sample[0]):
        states_by_time = [
            (at, {host for _, _, host, is_active in same_time_samples if is_active})
            for at, same_time_samples in groupby(pair_samples, key=lambda sample: sample[1])
        ]
        active += _active_periods(pair, states_by_time, interval)
        unserved += _unserved_periods(pair, states_by_time)
    return ScrapedAvailability(interval, tuple(active), tuple(unserved))


def _samples(series: Iterable[Any]) -> Iterator[tuple[str, float, str, bool]]:
    """Yield pair, time, host, and whether the host is active, for each value of Prometheus' answer."""
    for time_series in series:
        pair, host = str(time_series["metric"]["pair"]), str(time_series["metric"]["host"])
        for time, value in time_series["values"]:
            if not 0 <= float(time) <= _LATEST_TIME:
                raise ValueError
            yield pair, float(time), host, float(value) > 0


def _active_periods(pair: str, states_by_time: list[tuple[float, set[str]]], interval: float) -> Iterator[ActivePeriod]:
    for host in sorted({host for _, hosts in states_by_time for host in hosts}):
        began = ended = None
        for at, hosts in states_by_time:
            goes_on = host in hosts and ended is not None and at - ended <= 2.5 * interval
            if began is not None and ended is not None and not goes_on:
                yield ActivePeriod(pair, host, began, ended)
                began = ended = None
            if host in hosts:
                began, ended = began if began is not None else at, at
        if began is not None and ended is not None:
            yield ActivePeriod(pair, host, began, ended)


def _unserved_periods(pair: str, states_by_time: list[tuple[float, set[str]]]) -> Iterator[UnservedPeriod]:
    runs = [
        (serves, [at for at, _ in run]) for serves, run in groupby(states_by_time, key=lambda state: bool(state[1]))
    ]
    for number, (serves, times) in enumerate(runs):
        if not serves:
            began = runs[number - 1][1][-1] if number else times[0]
            ended = runs[number + 1][1][0] if number + 1 < len(runs) else times[-1]
            yield UnservedPeriod(pair, began, ended)


def unexplained_downtime_gaps(
    scraped: ScrapedAvailability, explained: Container[UnservedPeriod], began: datetime, ended: datetime
) -> list[InputGap]:
    """Return an InputGap (missing audit input) for each downtime of a pair in metrics that no incident explains.

    A downtime is a period without an active node of a pair, within the audited time. Such a gap is an event that the
    collected logs do not show. ``explained``: the periods near which any incident of the audit is.
    """
    periods = [
        period for period in scraped.unserved if began.timestamp() <= period.began and period.ended <= ended.timestamp()
    ]
    return [InputGap(period.pair, _describe_gap(period)) for period in periods if period not in explained]


def incident_near_period(period: UnservedPeriod, incidents: Iterable[Incident]) -> Incident | None:
    """Return the first incident of a pair near a period without an active node; None if there is none.

    Near means within 30 s.
    """
    for incident in incidents:
        first, last = incident.began or incident.ended, incident.ended or incident.began
        if incident.pair != period.pair or first is None or last is None:
            continue
        if first.timestamp() - _NEAR_SECONDS <= period.ended and last.timestamp() + _NEAR_SECONDS >= period.began:
            return incident
    return None


def _describe_gap(period: UnservedPeriod) -> str:
    at = datetime.fromtimestamp(period.began, UTC)
    return (
        f"Prometheus shows no active node of the pair for {period.downtime_seconds:.1f} s from {at:%Y-%m-%d %H:%M:%S} "
        "UTC, but the logs show no incident at that time: check whether Prometheus could scrape the brokers"
    )
