"""How long a take-over took, and by whose clock that is known. Pure.

Best is one clock alone. So where a witness's clock and that of the node that took over contradict
each other, the witness's own (from losing one node to having the next) counts; and where nobody saw
both ends and the clocks contradict the lock, no duration is given at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from activemq_fleet.pipeline.audit.evidence import BeganFrom, Loss, label, seconds_between
from activemq_fleet.pipeline.audit.terms import Term

_SLACK = timedelta(seconds=1)
_BURST = timedelta(seconds=10)
"""Losses so close to each other are of one cause."""
_LONGEST = timedelta(minutes=15)
"""A loss longer before the next node was there is not of this take-over."""
_LOOK = timedelta(seconds=60)
"""The longest time between two looks for a free lock that anybody sets."""
_APART = " The clocks of {} and {} contradict each other, so how long it took is not known."


@dataclass(frozen=True, slots=True)
class Measured:
    """``note`` is a sentence to add to the cause, with its space."""

    began: datetime | None = None
    seconds: float | None = None
    source: BeganFrom = "unknown"
    note: str = ""


def measure(term: Term, before: Term | None, losses: Sequence[Loss], skew: timedelta) -> Measured:
    """When the take-over by ``term`` began: by an agent, else a bridge, else a log."""
    if term.started is None:
        return Measured()
    old = None if before is None else before.host
    for source in ("agent", "bridge"):
        mine = [loss for loss in losses if loss.source == source and _concerns(loss, old, term.host)]
        found = _by_witness(term.started, mine, skew)
        if found is not None:
            return found
    if term.saw_loss is not None:
        return Measured(term.saw_loss, seconds_between(term.saw_loss, term.started), "log")
    if before is not None and before.ended is not None:
        return _by_log(term, before, before.ended)
    return Measured(note=" Nobody saw when: no agent's journal and no bridge's log tells of the loss.")


def _concerns(loss: Loss, old: str | None, new: str) -> bool:
    return loss.lost_host in (None, old) and loss.back_host in (None, new)


def _by_witness(started: datetime, losses: Iterable[Loss], skew: timedelta) -> Measured | None:
    near = [loss for loss in losses if _is_near(loss, started, skew)]
    if not near:
        return None
    agreeing = [loss for loss in near if _agrees(loss, started)]
    if agreeing:
        latest = max(loss.lost for loss in agreeing)
        first = min((loss for loss in agreeing if loss.lost >= latest - _BURST), key=lambda loss: loss.lost)
        began = min(first.lost, started)
        return Measured(began, seconds_between(began, started), first.source, _seen_by(first))
    whole = [loss for loss in near if loss.back is not None]
    if not whole:
        return None
    best = min(whole, key=lambda loss: abs((loss.back or started) - started))
    took = seconds_between(best.lost, best.back)
    if took is None:
        return None
    note = f"{_seen_by(best)} Its clock and this node's differ, so the time is that until it was connected again."
    return Measured(started - timedelta(seconds=took), took, best.source, note)


def _is_near(loss: Loss, started: datetime, skew: timedelta) -> bool:
    if loss.back is None:
        return started - _LONGEST <= loss.lost <= started + skew
    return loss.back - loss.lost <= _LONGEST and loss.lost - skew <= started <= loss.back + skew


def _agrees(loss: Loss, started: datetime) -> bool:
    return loss.lost <= started + _SLACK and (loss.back is None or started <= loss.back + _SLACK)


def _seen_by(loss: Loss) -> str:
    return f" {'The agent on' if loss.source == 'agent' else 'The bridge of'} {label(loss.witness)} saw the loss."


def _by_log(term: Term, before: Term, ended: datetime) -> Measured:
    """The old node says when it ended, by its clock; the lock tells whether the clocks can be right.

    Who stands by has a lock soon after it is free, and never before.
    """
    free = before.released or ended
    had = term.locked or term.started
    if term.started is None or had is None or term.started < ended:
        return Measured(ended, None, "log", _APART.format(label(before.host), label(term.host)))
    if term.waited is not None and not -_SLACK <= had - free <= _LOOK:
        return Measured(ended, None, "log", _APART.format(label(before.host), label(term.host)))
    return Measured(ended, seconds_between(ended, term.started), "log")
