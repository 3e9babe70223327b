"""Measure how long a takeover took, and name the source whose clock shows it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from activemq_fleet.audit.broker_runs import ObservedBrokerRun, ProcessEnd
from activemq_fleet.audit.evidence import BeganFrom, ConnectionLoss, seconds_between, short_name

_SLACK = timedelta(seconds=1)
_BURST = timedelta(seconds=10)
"""The longest time between two losses that have one cause."""
_MAXIMUM_DURATION = timedelta(minutes=15)
"""The longest time between a loss and the takeover that it belongs to."""
_LOCK_INTERVAL = timedelta(seconds=60)
"""The longest interval between two attempts to get the lock that is in use anywhere."""
_DIFFERENT_CLOCKS_SENTENCE = (
    " The clocks of {} and {} differ, so the duration of the takeover is unknown: check the time synchronization of "
    "both hosts."
)


@dataclass(frozen=True, slots=True)
class TakeoverStart:
    """The start of a takeover of a broker pair, in which a standby became active.

    It has a time, and the source from which the time is known. ``note`` is a sentence for the incident's cause. It also
    has the duration of the takeover.
    """

    began: datetime | None = None
    seconds: float | None = None
    source: BeganFrom = "unknown"
    note: str = ""


def takeover_start_and_duration(
    run: ObservedBrokerRun,
    previous_run: ObservedBrokerRun | None,
    losses: Sequence[ConnectionLoss],
    skew: timedelta,
    correct_witnesses: Collection[str] = (),
    previous_end: ProcessEnd | None = None,
) -> TakeoverStart:
    """Return a TakeoverStart: the begin and the duration of the takeover by which the broker of ``run`` became active.

    Begin and duration are None if they are unknown. The source of the begin is the watchdog of a hung broker, else an
    agent's journal, else a bridge, else a log or systemd. ``skew`` is the largest difference between clocks;
    ``correct_witnesses`` names the witnesses whose clocks agree with those of the pair; ``previous_end`` is what
    systemd journals show about the end of ``previous_run``.
    """
    if run.started is None:
        return TakeoverStart()
    if previous_run is not None and previous_end is not None and previous_end.hung_since is not None:
        return _start_by_log(run, previous_run, previous_end.hung_since, previous_end.at, "watchdog")
    previous_host = None if previous_run is None else previous_run.host
    near_losses = [
        loss for loss in losses if _concerns_hosts(loss, previous_host, run.host) and _is_near(loss, run.started, skew)
    ]
    for find, seen in (
        (_start_by_agreeing_clock, near_losses),
        (_start_by_witness_clock, [loss for loss in near_losses if loss.witness not in correct_witnesses]),
    ):
        for source in ("agent", "bridge"):
            start = find(run.started, [loss for loss in seen if loss.source == source])
            if start is not None:
                return start
    if run.saw_loss is not None:
        return TakeoverStart(run.saw_loss, seconds_between(run.saw_loss, run.started), "log")
    # A guard kills a broker after the other node has taken over, so the time of the kill is not that of the start.
    if (
        previous_run is not None
        and previous_end is not None
        and previous_end.at is not None
        and previous_end.kind != "GUARD-KILLED"
    ):
        return _start_by_log(run, previous_run, previous_end.at, previous_end.at, "systemd")
    if previous_run is not None and previous_run.ended is not None:
        return _start_by_log(run, previous_run, previous_run.ended, previous_run.released or previous_run.ended, "log")
    return TakeoverStart(
        note=(
            " The start time of the takeover is unknown: neither an agent's journal nor the log of a bridge "
            "records the lost connection."
        )
    )


def agents_and_bridges_with_correct_clocks(
    connection_losses: Iterable[ConnectionLoss], starts: Collection[datetime]
) -> frozenset[str]:
    """Return the names of the agents and network bridges whose recorded connection losses indicate correct clocks.

    A clock is taken as correct if a recorded connection loss fits a takeover.
    """
    return frozenset(
        loss.witness for loss in connection_losses if any(_fits_start(loss, started) for started in starts)
    )


def _concerns_hosts(loss: ConnectionLoss, old: str | None, new: str) -> bool:
    return loss.lost_host in (None, old) and loss.back_host in (None, new)


def _start_by_agreeing_clock(started: datetime, near: Sequence[ConnectionLoss]) -> TakeoverStart | None:
    """Return the takeover's start according to witnesses whose clocks agree with the node's.

    They lost a connection before the node was active, and reconnected afterwards.
    """
    losses = [loss for loss in near if _fits_start(loss, started)]
    if not losses:
        return None
    latest = max(loss.lost for loss in losses)
    first = min((loss for loss in losses if loss.lost >= latest - _BURST), key=lambda loss: loss.lost)
    began = min(first.lost, started)
    return TakeoverStart(began, seconds_between(began, started), first.source, _witness_sentence(first))


def _start_by_witness_clock(started: datetime, near: Sequence[ConnectionLoss]) -> TakeoverStart | None:
    """Return the takeover's start according to a witness with a different clock.

    The time is that from its loss to its reconnection, both by its clock.
    """
    complete_losses = [loss for loss in near if loss.back is not None]
    if not complete_losses:
        return None
    best = min(complete_losses, key=lambda loss: abs((loss.back or started) - started))
    seconds = seconds_between(best.lost, best.back)
    if seconds is None:
        return None
    note = (
        f"{_witness_sentence(best)} The clock of {short_name(best.witness)} differs from the clock of the new active "
        f"node. Therefore, the duration is measured with the clock of {short_name(best.witness)} alone, from the lost "
        "connection to the next connection."
    )
    return TakeoverStart(started - timedelta(seconds=seconds), seconds, best.source, note)


def _is_near(loss: ConnectionLoss, started: datetime, skew: timedelta) -> bool:
    if loss.back is None:
        return started - _MAXIMUM_DURATION <= loss.lost <= started + skew
    return loss.back - loss.lost <= _MAXIMUM_DURATION and loss.lost - skew <= started <= loss.back + skew


def _fits_start(loss: ConnectionLoss, started: datetime) -> bool:
    return started - _MAXIMUM_DURATION <= loss.lost <= started + _SLACK and (
        loss.back is None or started <= loss.back + _SLACK
    )


def _witness_sentence(loss: ConnectionLoss) -> str:
    return (
        f" {'The agent on' if loss.source == 'agent' else 'The bridge of'} {short_name(loss.witness)} recorded the "
        "lost connection."
    )


def _start_by_log(
    run: ObservedBrokerRun, previous_run: ObservedBrokerRun, began: datetime, free: datetime | None, source: BeganFrom
) -> TakeoverStart:
    """Return the takeover's start according to the node that was active before.

    It has no duration if the lock shows that the clocks differ. A standby gets a lock soon after it is ``free``, and
    never before.
    """
    lock_acquired = run.locked or run.started
    is_apart = run.started is None or lock_acquired is None or run.started < began
    if lock_acquired is not None and free is not None and run.waited is not None:
        is_apart |= not -_SLACK <= lock_acquired - free <= _LOCK_INTERVAL
    if is_apart:
        return TakeoverStart(
            began, None, source, _DIFFERENT_CLOCKS_SENTENCE.format(short_name(previous_run.host), short_name(run.host))
        )
    return TakeoverStart(began, seconds_between(began, run.started), source)
