"""Find the states of a node over time from its runs, for the time line of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from activemq_fleet.audit.broker_runs import ObservedBrokerRun

MAX_SPANS = 80
"""Largest number of spans of a host that are drawn; the newest ones are kept."""


@dataclass(frozen=True, slots=True)
class HostStateSpan:
    """A period in which a host was in one state, such as active or standby.

    ``ended`` is None for a state that lasts until now. The other states are starting and stopped.
    """

    host: str
    state: str
    began: datetime
    ended: datetime | None


def host_state_spans(runs: Sequence[ObservedBrokerRun]) -> list[HostStateSpan]:
    """Return the periods in which a host's broker was in one state, such as active, in order of time, from its runs.

    Only the last ``MAX_SPANS`` spans are returned.
    """
    spans = []
    for index, run in enumerate(runs):
        following = runs[index + 1].chosen if index + 1 < len(runs) else None
        moments = [*_state_changes(run)]
        # A run of which the log shows only the end can have no state change.
        ends = [*(moment for moment, _ in moments[1:]), following]
        for (began, state), ended in zip(moments, ends, strict=False):
            if ended is None or ended > began:
                spans.append(HostStateSpan(run.host, state, began, ended))
    return spans[-MAX_SPANS:]


def end_active_spans_at_takeovers(
    spans: Iterable[HostStateSpan], takeovers: Sequence[datetime]
) -> Iterator[HostStateSpan]:
    """Yield the periods of a host's states, where the peer's takeover ends a period in which the host was active.

    The log of a killed broker has no end.
    """
    for span in spans:
        ends = [at for at in takeovers if span.began < at and (span.ended is None or at < span.ended)]
        yield replace(span, ended=min(ends)) if span.state == "active" and ends else span


def _state_changes(run: ObservedBrokerRun) -> Iterator[tuple[datetime, str]]:
    """Yield the time and the new state of each change of state in a broker run."""
    if run.chosen is not None:
        yield run.chosen, "starting"
    elif run.was_active_before and run.last is not None and run.place == 1:
        yield run.last, "active"
    if run.waited is not None and (run.started is None or run.waited < run.started):
        yield run.waited, "standby"
    if run.locked is not None and run.waited is not None and run.locked > run.waited:
        yield run.locked, "starting"
    if run.started is not None:
        yield run.started, "active"
    if run.ended is not None:
        yield run.ended, "stopped"
