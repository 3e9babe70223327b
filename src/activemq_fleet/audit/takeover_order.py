"""Sort the runs of a pair's nodes by the order in which they got the lock, even if the nodes' clocks differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from activemq_fleet.audit.broker_runs import ObservedBrokerRun

_NO_OFFSET = timedelta(0)
_STEP = timedelta(milliseconds=1)
_MAXIMUM_OFFSETS = 4000
"""So many offsets are tried at most: a pair with more runs than that has other troubles."""

ClockCorrections = Mapping[str, timedelta]
"""The correction that is added to the times of a host's clock, by host."""


def clock_corrections(by_host: Mapping[str, Sequence[ObservedBrokerRun]], skew: timedelta) -> ClockCorrections:
    """Return a dictionary from each host of a broker pair to the time to add to its clock: zero for the first host.

    The correction of the second host is the one, up to ``skew``, with which the broker runs of both nodes contradict
    each other least. All corrections are zero without two hosts.
    """
    hosts = sorted(by_host)
    if len(hosts) != 2:
        return dict.fromkeys(hosts, _NO_OFFSET)
    first, second = hosts
    a, b = ([term for term in by_host[host] if term.was_active] for host in hosts)
    best = min(
        _candidate_offsets(a, b, skew),
        key=lambda offset: (*_contradictions(a, b, offset), abs(offset)),
        default=_NO_OFFSET,
    )
    return {first: _NO_OFFSET, second: best}


def active_runs_in_takeover_order(
    by_host: Mapping[str, Sequence[ObservedBrokerRun]], corrections: ClockCorrections
) -> list[ObservedBrokerRun]:
    """Return the broker runs of a pair that became active, in the order in which their brokers acquired the store."""
    timed_runs = [
        (to_common_clock(term.store_acquired_at, corrections[host]), term)
        for host, host_runs in by_host.items()
        for term in host_runs
    ]
    runs_with_time = [(at, term) for at, term in timed_runs if term.was_active and at is not None]
    return [term for _, term in sorted(runs_with_time, key=lambda pair: (pair[0], pair[1].host, pair[1].place))]


def to_common_clock(moment: datetime | None, correction: timedelta) -> datetime | None:
    """Return a time of a node's clock converted to the clock of its pair's first node, or None for None.

    ``correction`` is added to the time.
    """
    return None if moment is None else moment + correction


def _candidate_offsets(
    runs_a: Sequence[ObservedBrokerRun], runs_b: Sequence[ObservedBrokerRun], skew: timedelta
) -> Iterator[timedelta]:
    """Yield zero, and the clock offsets at which the order of two nodes' runs changes."""
    yield _NO_OFFSET
    count = 0
    for run_a in runs_a:
        for run_b in runs_b:
            for time_a, time_b in (
                (run_a.end_or_last_record_time, run_b.store_acquired_at),
                (run_a.store_acquired_at, run_b.end_or_last_record_time),
                (run_a.store_acquired_at, run_b.store_acquired_at),
            ):
                if time_a is None or time_b is None:
                    continue
                for offset in (time_a - time_b - _STEP, time_a - time_b + _STEP):
                    if abs(offset) <= skew:
                        yield offset
                        count += 1
            if count > _MAXIMUM_OFFSETS:
                return


def _contradictions(
    a: Sequence[ObservedBrokerRun], b: Sequence[ObservedBrokerRun], offset: timedelta
) -> tuple[int, timedelta]:
    """Return the contradictions of an offset between two nodes' clocks.

    They are the number of runs that waited for a lock that no other node had, and how long both nodes had it.
    """
    runs = sorted(
        [*_shifted_spans(a, _NO_OFFSET), *_shifted_spans(b, offset)],
        key=lambda run: (run[0], run[2].host, run[2].place),
    )
    alone, before = 0, None
    for _, _, term in runs:
        if term.certainly_waited and (before is None or before.host == term.host):
            alone += 1
        before = term
    overlap = sum((_overlap_with_later(runs, index) for index in range(len(runs))), _NO_OFFSET)
    return alone, overlap


def _overlap_with_later(runs: Sequence[tuple[datetime, datetime, ObservedBrokerRun]], index: int) -> timedelta:
    begin, end, run = runs[index]
    total = _NO_OFFSET
    for other_begin, other_end, other in runs[index + 1 :]:
        if other_begin >= end:
            break
        if other.host != run.host:
            total += min(end, other_end) - max(begin, other_begin)
    return total


def _shifted_spans(
    runs: Iterable[ObservedBrokerRun], offset: timedelta
) -> Iterator[tuple[datetime, datetime, ObservedBrokerRun]]:
    for run in runs:
        begin, end = (
            to_common_clock(run.store_acquired_at, offset),
            to_common_clock(run.end_or_last_record_time, offset),
        )
        if begin is not None and end is not None:
            yield begin, max(begin, end), run
