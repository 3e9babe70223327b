"""Compute how long a pair had no working broker at a takeover: bounds, as far as logs and journals prove them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from activemq_fleet.audit.broker_runs import HANG_ROUNDING, ObservedBrokerRun, ProcessEnd
from activemq_fleet.audit.evidence import seconds_between, short_name
from activemq_fleet.audit.takeover_durations import TakeoverStart

_EQUAL_SECONDS = 1.0
"""Seconds up to which two durations are reported as equal."""
_SLOW_STOP_SECONDS = 10.0
"""Seconds from the beginning of a stop to the release of the lock from which the stop is slow."""
_LATE_LOCK_SECONDS = 15.0
"""Seconds from the release of the lock to its acquisition from which the lock was acquired late."""


@dataclass(frozen=True, slots=True)
class DowntimeLengthBounds:
    """The bounds of the downtime of a broker pair, in seconds.

    These are its shortest and its longest possible length. A pair is down while it has no working broker. A bound is
    None if it is unknown. ``note`` explains the bounds, and why a downtime is longer than its takeover, in sentences
    for the cause.
    """

    shortest: float | None = None
    longest: float | None = None
    note: str = ""


def takeover_downtime_bounds(
    run: ObservedBrokerRun,
    previous_run: ObservedBrokerRun | None,
    start: TakeoverStart,
    previous_end: ProcessEnd | None,
) -> DowntimeLengthBounds:
    """Return the DowntimeLengthBounds, in seconds, of the downtime that a takeover caused for a broker pair.

    Both bounds are None if the downtime is unknown. The takeover made the broker run ``run`` active after
    ``previous_run``; ``start`` is the start of the takeover. ``previous_end`` is what systemd journals show about the
    end of ``previous_run``. The downtime lasts from the last sign of service of the old active node until the new one
    has opened its connectors.
    """
    if run.started is None or previous_run is None or (start.began is not None and start.seconds is None):
        return DowntimeLengthBounds()
    sign = previous_end.last_sign if previous_end else previous_run.ended or previous_run.last
    longest = seconds_between(sign, run.started)
    proofs = [previous_run.ended, run.locked, run.started, previous_end.at if previous_end else None]
    if previous_end is not None and previous_end.hung_since is not None:
        proofs.append(previous_end.hung_since + HANG_ROUNDING)
    else:
        proofs.append(start.began)
    shortest = seconds_between(min(at for at in proofs if at is not None), run.started)
    if longest is None or shortest is None or sign is None or longest < shortest - _EQUAL_SECONDS:
        return DowntimeLengthBounds()
    longest = max(shortest, longest)
    bounds = _bounds_sentence(run, previous_run, previous_end, start, (shortest, longest), sign)
    return DowntimeLengthBounds(shortest, longest, bounds + _slow_steps(run, previous_run, previous_end))


def downtime_text(shortest: float, longest: float) -> str:
    """Return the shortest and the longest possible length of a downtime as text."""
    if longest - shortest <= _EQUAL_SECONDS:
        return f"{shortest:.1f} s"
    return f"between {shortest:.1f} and {longest:.1f} s"


def _bounds_sentence(
    run: ObservedBrokerRun,
    previous_run: ObservedBrokerRun,
    end: ProcessEnd | None,
    measured: TakeoverStart,
    bounds: tuple[float, float],
    sign: datetime,
) -> str:
    """Return a sentence about the downtime of a pair if it differs from the duration of the takeover, else ""."""
    if run.started is None or (measured.seconds is not None and bounds[1] - measured.seconds <= _EQUAL_SECONDS):
        return ""
    old, hung = short_name(previous_run.host), end.hung_since if end else None
    text = f" The downtime of the pair was {downtime_text(*bounds)}. The last log record of {old} before it "
    text += f"{'hung' if hung else 'ended'} is from {sign:%H:%M:%S} UTC"
    if bounds[1] - bounds[0] > _EQUAL_SECONDS:
        text += (
            f": the upper bound counts from this record, because no later one proves that {old} worked. The lower "
            "bound counts from the first record that proves its failure"
        )
    text += ". "
    if hung:
        text += f"{old} did not answer its watchdog from {hung:%H:%M:%S} UTC on. "
    return f"{text}{short_name(run.host)} was active from {run.started:%H:%M:%S} UTC on."


def _slow_steps(run: ObservedBrokerRun, previous_run: ObservedBrokerRun, end: ProcessEnd | None) -> str:
    """Return sentences about slow steps of a takeover: the stop of the old node, and the acquisition of the lock."""
    text = ""
    stop = seconds_between(previous_run.ended, previous_run.released)
    if stop is not None and stop >= _SLOW_STOP_SECONDS:
        text += f" {short_name(previous_run.host)} released its store {stop:.0f} s after its stop had begun."
    free = previous_run.released or previous_run.ended or (end.at if end else None)
    late = seconds_between(free, run.locked)
    if late is not None and late >= _LATE_LOCK_SECONDS:
        text += (
            f" {short_name(run.host)} acquired the lock {late:.0f} s after {short_name(previous_run.host)} had stopped."
        )
    return text
