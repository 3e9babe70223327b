"""Find the incidents of a pair: take-overs, failed take-overs, split brains and flapping."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from activemq_fleet.audit import advice
from activemq_fleet.audit.broker_runs import ObservedRun
from activemq_fleet.audit.evidence import (
    SKEW,
    ConnectionLoss,
    Incident,
    PairNode,
    incident_of,
    seconds_between,
    short_name,
)
from activemq_fleet.audit.operation_records import Operation
from activemq_fleet.audit.takeover_durations import TakeoverStart, right_clocks, takeover_start
from activemq_fleet.audit.takeover_order import Offset, clock_offsets, runs_in_order, shifted_time
from activemq_fleet.node.fence.store_access import StoreAccess, two_masters

FLAPS = 3
WITHIN = timedelta(minutes=10)
SLOW = 30.0
"""Seconds after which a take-over is called slow."""
_OBJECT = re.compile(r"@[0-9a-f]+")
_LAST_WORDS = timedelta(seconds=30)
"""What a node says so shortly before it finds its lock lost is no proof that it served all the time."""


_SLACK = timedelta(seconds=5)
"""A broker may log that it serves so long after the playbook has seen that it does."""

_Takeover = tuple[ObservedRun, Incident]
"""The run of the node that took over."""


def pair_incidents(
    nodes: Sequence[PairNode],
    runs: Mapping[str, Sequence[ObservedRun]],
    losses: Sequence[ConnectionLoss] = (),
    skew: timedelta = SKEW,
    operations: Sequence[Operation] = (),
) -> list[Incident]:
    """Return the take-overs (also failed ones), split brains and flapping of one pair as incidents.

    ``losses`` are those that agents and bridges saw. Take-overs during ``operations``, the planned work on the pair's
    nodes, are planned, and so is flapping that consists of planned take-overs alone.
    """
    offset = clock_offsets(runs, skew)
    order = runs_in_order(runs, offset)
    by_host = {node.host: node for node in nodes}
    splits = [*_split_brains(by_host, runs, skew)]
    split_terms = {(host, place) for host, place, _ in splits}
    taken = [
        (term, before or _master(term, runs))
        for before, term in zip([None, *order], order, strict=False)
        if (term.host, term.place) not in split_terms and _took_over(term, before, by_host, runs)
    ]
    right = right_clocks(losses, [term.started for term, _ in taken if term.started])
    takeovers: list[_Takeover] = []
    for term, before in taken:
        incident = _takeover(term, before, by_host, takeover_start(term, before, losses, skew, right))
        takeovers.append((term, _mark_planned(incident, operations)))
    found = [incident for _, incident in takeovers]
    found += [incident for _, _, incident in splits]
    found += _failed(by_host, runs, order)
    found += _flapping(takeovers, offset)
    found += _subscriptions_at_risk(nodes)
    return found


def _subscriptions_at_risk(nodes: Sequence[PairNode]) -> Iterator[Incident]:
    """Yield an incident for each record in the stores of a pair; nodes that share a store have the same records."""
    seen: set[tuple[datetime, str]] = set()
    for node in nodes:
        for risk in node.risks:
            name = risk.path.rpartition("/")[2]
            if (risk.time, name) in seen:
                continue
            seen.add((risk.time, name))
            yield incident_of(
                "subscriptions_at_risk",
                node,
                advice.SUBSCRIPTIONS_AT_RISK,
                began=risk.time,
                ended=risk.time,
                began_from="log",
                cause=f"A broker of {node.pair or short_name(node.host)} started without a usable index of its store, "
                f"so durable subscriptions can have lost messages: {risk.description}. {risk.path} has the record.",
                told=risk.time,
                mark=name,
            )


def _master(term: ObservedRun, runs: Mapping[str, Sequence[ObservedRun]]) -> ObservedRun | None:
    """The master of a promoted slave, where it was killed before it said that it was started."""
    others = [one for host, mine in runs.items() for one in mine if host != term.host]
    return others[-1] if term.promoted and others else None


def _took_over(
    term: ObservedRun,
    before: ObservedRun | None,
    nodes: Mapping[str, PairNode],
    runs: Mapping[str, Sequence[ObservedRun]],
) -> bool:
    """It stood by and then was active; who was active before it was another node, or is not known."""
    if term.started is None:
        return False
    if term.promoted:
        return True
    stood_by = term.waited is not None or term.promoted or (term.chosen is None and term.locked is not None)
    if not stood_by:
        return False
    if before is not None:
        return before.host != term.host
    others = [host for host in nodes if host != term.host]
    return any(not nodes[host].complete or _begins_late(runs.get(host, ())) for host in others) or not others


def _begins_late(runs: Sequence[ObservedRun]) -> bool:
    return not runs or runs[0].chosen is None


def _takeover(
    term: ObservedRun, before: ObservedRun | None, nodes: Mapping[str, PairNode], measured: TakeoverStart
) -> Incident:
    how = "unknown" if before is None else "pure" if term.promoted else before.end
    advised = advice.TAKEOVERS["silent" if how == "open" else how]
    if measured.seconds is not None and measured.seconds > SLOW:
        advised = advice.Advice(advised.remedy + advice.SLOW.remedy, (*advised.rules, *advice.SLOW.rules))
    certain = before is not None and (term.certainly_waited or term.promoted or term.waited is not None)
    return incident_of(
        "takeover",
        nodes[term.host],
        advised,
        began=measured.began,
        ended=term.started,
        seconds=measured.seconds,
        began_from=measured.source,
        certainty="proved" if certain else "possible",
        cause=_cause(term, before, measured),
        told=term.started,
    )


def _cause(term: ObservedRun, before: ObservedRun | None, measured: TakeoverStart) -> str:
    if before is None:
        what = f"{short_name(term.host)} had stood by and became active; the log of the node before it is missing"
    else:
        old = short_name(before.host)
        said = {
            "silent": f"{old} ended without a word, as after kill -9, an out-of-memory kill or a power cut",
            "open": f"{old} writes no more: it was killed (kill -9, out of memory), or its machine is gone",
            "stopped": f"{old} was stopped in good order",
            "lost_lock": f"{old} lost its lock and gave up",
            "store": f"{old} stopped itself because of an error of its store",
            "failed": f"{old} failed",
        }[before.end]
        who = (
            f"{short_name(term.host)}, its slave, was promoted"
            if term.promoted
            else f"{short_name(term.host)} took over"
        )
        what = f"{said}; {who}"
    recovered = " after its store had been recovered" if term.unclean else ""
    return f"{what}{recovered}.{measured.note}"


def _failed(
    nodes: Mapping[str, PairNode], runs: Mapping[str, Sequence[ObservedRun]], order: Sequence[ObservedRun]
) -> Iterator[Incident]:
    """A node that stood by, got the lock, and did not become active."""
    for host, mine in runs.items():
        for index, term in enumerate(mine):
            if term.started is not None or not (term.retired or (term.waited and term.locked)):
                continue
            if term.end == "open":
                continue  # perhaps the log was taken in between
            ended = term.ended or (mine[index + 1].chosen if index + 1 < len(mine) else None)
            advised = advice.RETIRED if term.retired else advice.FAILED_TAKEOVER
            why = (
                "its master failed, and it is set to stop then"
                if term.retired
                else "it got the lock and ended before it was active"
            )
            began = term.saw_loss if term.retired else term.locked
            yield incident_of(
                "failed_takeover",
                nodes[host],
                advised,
                began=began,
                ended=ended,
                seconds=seconds_between(began, ended),
                began_from="log" if began else "unknown",
                cause=f"{short_name(host)} had stood by; {why}.",
                told=began or ended,
            )


def _split_brains(
    nodes: Mapping[str, PairNode], runs: Mapping[str, Sequence[ObservedRun]], skew: timedelta
) -> Iterator[tuple[str, int, Incident]]:
    """Two nodes that both show activity on one store, longer than clocks can differ; with the later run's place."""
    locks = any(term.certainly_waited for mine in runs.values() for term in mine)
    active = [term for mine in runs.values() for term in mine if term.is_active and not term.pure]
    active.sort(key=lambda term: (term.begin is None, term.begin, term.host))
    for index, first in enumerate(active):
        for second in active[index + 1 :]:
            until = _both_active(first, second, skew)
            if until is not None and first.host != second.host and _one_store(first, second, nodes, locks):
                yield second.host, second.place, _split(first, second, until, nodes)


def _both_active(first: ObservedRun, second: ObservedRun, skew: timedelta) -> datetime | None:
    """Until when, by the first node's clock, both were active; None where the clocks can explain it."""
    first_last, begin, second_last = _last_sign(first), second.begin, _last_sign(second)
    if first_last is None or begin is None or second_last is None or first.begin is None:
        return None
    if first_last <= begin + skew:
        return None
    if first.begin + skew < begin or second_last > begin + skew:
        return first_last
    return None


def _last_sign(term: ObservedRun) -> datetime | None:
    """The last line that shows a node at work."""
    if term.end == "lost_lock" and term.ended and term.last and term.last > term.ended - _LAST_WORDS:
        return None if term.begin is None else max(term.begin, min(term.last, term.ended - _LAST_WORDS))
    return term.last


def _one_store(first: ObservedRun, second: ObservedRun, nodes: Mapping[str, PairNode], locks: bool) -> bool:
    """Whether both can write to one store: by what is known of the hosts, else by its path and because a node waited.

    Two hosts' own disks have the same paths as well. Behind guards the store in force is the newest generation.
    """
    numbers = {run.host: nodes[run.host].generation_at(run.begin) for run in (first, second)}
    if all(numbers.values()):
        return bool(two_masters({host: StoreAccess(number, number) for host, number in numbers.items()}))
    mine, other = nodes[first.host].store, nodes[second.host].store
    if mine and other:
        return mine == other
    return locks and (not first.store or not second.store or _path(first.store) == _path(second.store))


def _path(store: str) -> str:
    """Without the address of the object, which every run has another of."""
    return _OBJECT.sub("", store)


def _split(first: ObservedRun, second: ObservedRun, until: datetime, nodes: Mapping[str, PairNode]) -> Incident:
    return incident_of(
        "split_brain",
        nodes[second.host],
        advice.SPLIT_BRAIN,
        began=second.begin,
        ended=until,
        seconds=seconds_between(second.begin, until),
        began_from="log",
        cause=(
            f"{short_name(first.host)} went on working on the store after {short_name(second.host)} had become "
            "active on it: both wrote for longer than clocks can differ."
        ),
        told=second.begin,
    )


def _flapping(takeovers: Sequence[_Takeover], offset: Offset) -> Iterator[Incident]:
    """Three take-overs of a pair in ten minutes, and all that follow as closely: one incident."""
    moments = [(shifted_time(term.started, offset[term.host]), incident) for term, incident in takeovers]
    known = [(at, incident) for at, incident in moments if at is not None]
    begin = 0
    while begin + FLAPS <= len(known):
        end = begin + FLAPS - 1
        if known[end][0] - known[begin][0] > WITHIN:
            begin += 1
            continue
        while end + 1 < len(known) and known[end + 1][0] - known[end + 2 - FLAPS][0] <= WITHIN:
            end += 1
        yield _flaps([one for _, one in known[begin : end + 1]], (known[end][0] - known[begin][0]).total_seconds())
        begin = end + 1


def _flaps(chain: Sequence[Incident], seconds: float) -> Incident:
    return replace(
        chain[0],
        kind="flapping",
        planned=all(one.planned for one in chain),
        began=chain[0].ended,
        ended=chain[-1].ended,
        seconds=round(seconds, 3),
        began_from="log",
        certainty="possible" if any(one.certainty == "possible" for one in chain) else "proved",
        cause=f"{len(chain)} take-overs in {_minutes(seconds)}: clients are sent to and fro, and nothing is settled.",
        remedy=advice.FLAPPING.remedy,
        rules=advice.FLAPPING.rules,
    )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"


def _mark_planned(incident: Incident, operations: Sequence[Operation]) -> Incident:
    """Return the take-over, marked and explained as planned where its node became active during an operation."""
    for one in operations:
        is_within = incident.ended is not None and one.began <= incident.ended <= one.ended + _SLACK
        if one.host == incident.host and is_within:
            why = f" It was planned: {one.operation[:40]}, by {one.by[:80]}."
            return replace(incident, planned=True, cause=incident.cause + why, remedy="None: it was planned.")
    return incident
