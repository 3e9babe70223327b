"""Find the incidents of a pair: takeovers, failed takeovers, split brains and flapping."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from activemq_fleet.audit import advice
from activemq_fleet.audit.broker_runs import ObservedBrokerRun, ProcessEnd
from activemq_fleet.audit.evidence import (
    SKEW,
    ConnectionLoss,
    Incident,
    PairNode,
    new_incident,
    seconds_between,
    short_name,
)
from activemq_fleet.audit.operation_records import PlannedOperation
from activemq_fleet.audit.process_ends import describe_process_end
from activemq_fleet.audit.takeover_downtimes import takeover_downtime_bounds
from activemq_fleet.audit.takeover_durations import (
    TakeoverStart,
    agents_and_bridges_with_correct_clocks,
    takeover_start_and_duration,
)
from activemq_fleet.audit.takeover_order import (
    ClockCorrections,
    active_runs_in_takeover_order,
    clock_corrections,
    to_common_clock,
)
from activemq_fleet.node.fence.store_writers import WritableAndNewestGenerationNumbers, two_masters_message

FLAPS = 3
WITHIN = timedelta(minutes=10)
_MINIMUM_STOP_TIME = timedelta(minutes=1)
"""The shortest time after the stop of a node after which its lock is certainly free."""
SLOW = 30.0
"""Seconds from which a takeover counts as slow."""
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_OBJECT_ADDRESS = re.compile(r"@[0-9a-f]+")
_FINAL_RECORDS_TIME = timedelta(seconds=30)
"""Records in so short a time before a lost lock do not prove that the node was active."""


_CLOCK_SLACK = timedelta(seconds=1)
"""The largest difference between clocks that counts as none."""
_SLACK = timedelta(seconds=5)
"""The longest time between the end of a playbook and the record that the broker is active."""

_Takeover = tuple[ObservedBrokerRun, Incident]
"""The run of the node that took over."""


def takeover_incidents_of_pair(
    nodes: Sequence[PairNode],
    runs: Mapping[str, Sequence[ObservedBrokerRun]],
    losses: Sequence[ConnectionLoss] = (),
    skew: timedelta = SKEW,
    operations: Sequence[PlannedOperation] = (),
) -> list[Incident]:
    """Return the incidents of a broker pair that the runs of its brokers show together, such as takeovers.

    Others are failed takeovers, split brains and flapping. ``losses`` are those that agents and bridges saw. Takeovers
    during ``operations``, the planned work on the pair's nodes, are planned, and do not count as flapping. Neither do
    takeovers after an orderly stop.
    """
    corrections = clock_corrections(runs, skew)
    order = active_runs_in_takeover_order(runs, corrections)
    by_host = {node.host: node for node in nodes}
    splits = [*_split_brains(by_host, runs, skew)]
    split_terms = {(host, place) for host, place, _ in splits}
    takeover_runs = [
        (run, previous_run or _killed_master_run(run, runs))
        for previous_run, run in zip([None, *order], order, strict=False)
        if (run.host, run.place) not in split_terms and _is_takeover(run, previous_run, by_host, runs)
    ]
    right = agents_and_bridges_with_correct_clocks(losses, [run.started for run, _ in takeover_runs if run.started])
    takeovers: list[_Takeover] = []
    for run, previous_run in takeover_runs:
        end = _process_end_before(run, previous_run, skew)
        measured = takeover_start_and_duration(run, previous_run, losses, skew, right, end)
        incident = _incident_of_takeover(run, previous_run, by_host, measured, end)
        takeovers.append((run, _mark_planned(incident, operations)))
    incidents = [incident for _, incident in takeovers]
    incidents += [incident for _, _, incident in splits]
    incidents += _failed_takeovers(by_host, runs, order)
    orderly = {
        (run.host, run.place)
        for run, previous_run in takeover_runs
        if previous_run is not None and previous_run.end == "stopped"
    }
    unplanned = [
        (run, incident) for run, incident in takeovers if not incident.planned and (run.host, run.place) not in orderly
    ]
    incidents += _flapping_incidents(unplanned, corrections)
    incidents += _subscriptions_at_risk(nodes)
    incidents += _outage_incidents(by_host, runs)
    return incidents


def _outage_incidents(
    nodes: Mapping[str, PairNode], runs: Mapping[str, Sequence[ObservedBrokerRun]]
) -> Iterator[Incident]:
    """Yield an incident for a broker pair or single broker that is not active at the end of its logs.

    Its nodes wait for the lock.

    A node that had been stopped before the other one began to wait is not active either, nor is one whose broker did
    not run when its logs were collected, although its log has no end.
    """
    newest = {host: runs[host][-1] for host in nodes if runs.get(host)}
    waiting_runs = {host: run for host, run in sorted(newest.items()) if run.still_waiting_for_lock_since is not None}
    if not waiting_runs or len(newest) < len(nodes) or not all(node.complete for node in nodes.values()):
        return
    stopped_hosts = {host for host, run in newest.items() if host not in waiting_runs and _is_dead(nodes[host], run)}
    if stopped_hosts and not all(
        _waits_long_after(nodes[host], [newest[other] for other in stopped_hosts]) for host in waiting_runs
    ):
        return
    if not all(
        host in waiting_runs or host in stopped_hosts or _ended_before(run, waiting_runs.values())
        for host, run in newest.items()
    ):
        return
    if len(nodes) == 1 and not _is_surely_single(runs[next(iter(nodes))]):
        return
    host, run = next(iter(waiting_runs.items()))
    began = _outage_begin({host: runs[host] for host in waiting_runs})
    ends = [newest[host].last for host in stopped_hosts]
    if stopped_hosts:
        began = max([began, *ends], key=lambda at: at or _EARLIEST)
    yield new_incident(
        "outage",
        nodes[host],
        advice.OUTAGE,
        began=began,
        began_from="log",
        certainty="possible" if len(nodes) == 1 or any(run.lacks_end for run in newest.values()) else "proved",
        cause=f"No node has been active since {began:%Y-%m-%d %H:%M:%S} UTC: "
        f"{_describe_outage(waiting_runs, stopped_hosts)}. The lock is stale, or another process holds it.",
        recorded=began,
        store=store_name_without_object_address(run.store) if run.store and not nodes[host].pair else "",
    )


def _describe_outage(waiting_hosts: Iterable[str], stopped_hosts: Collection[str]) -> str:
    hosts = " and ".join(map(short_name, waiting_hosts))
    if stopped_hosts:
        stopped = " and ".join(map(short_name, sorted(stopped_hosts)))
        return (
            f"{hosts} waits for the lock of its store, and the broker of {stopped} did not run when the logs were "
            "collected, although its log shows no stop"
        )
    if " and " in hosts:
        return f"{hosts} wait for the lock of their store, and no collected log shows a broker that has the lock"
    return f"{hosts} waits for the lock of its store, and no collected log shows a broker that has the lock"


def _outage_begin(runs: Mapping[str, Sequence[ObservedBrokerRun]]) -> datetime | None:
    """Return the time at which a pair's last active node began to wait.

    Without such a node, it is the time at which the last of the nodes began to wait.
    """
    active: list[tuple[datetime, datetime]] = []
    waits: list[datetime] = []
    for host_runs in runs.values():
        places = [place for place, run in enumerate(host_runs) if run.was_active]
        since = [run.waited or run.still_waiting_for_lock_since for run in host_runs[places[-1] + 1 if places else 0 :]]
        first = min((at for at in since if at is not None), default=None)
        last_active = host_runs[places[-1]].end_or_last_record_time if places else None
        if first is not None:
            waits.append(first)
        if first is not None and last_active is not None:
            active.append((last_active, first))
    return max(active)[1] if active else max(waits, default=None)


def _is_dead(node: PairNode, run: ObservedBrokerRun) -> bool:
    """Return whether a broker did not run when its log, which shows no end, was collected."""
    return node.state == "stopped" and run.end == "open" and run.last is not None


def _waits_long_after(node: PairNode, ended_runs: Iterable[ObservedBrokerRun]) -> bool:
    """Return whether a broker still waited for its lock a while after the last records of other nodes.

    Its log was collected then.
    """
    return node.collected is not None and all(
        run.last is not None and node.collected - run.last >= _MINIMUM_STOP_TIME for run in ended_runs
    )


def _ended_before(run: ObservedBrokerRun, waiting_runs: Iterable[ObservedBrokerRun]) -> bool:
    """Return whether a broker run had ended a while before each of the runs that wait began."""
    begins = [other.first or other.chosen for other in waiting_runs]
    return run.ended is not None and all(
        begin is not None and begin - run.ended >= _MINIMUM_STOP_TIME for begin in begins
    )


def _is_surely_single(runs: Sequence[ObservedBrokerRun]) -> bool:
    """Return whether the broker of a host without a known peer was active and had never been standby before."""
    active = [index for index, run in enumerate(runs) if run.was_active]
    return bool(active) and not any(run.waited for run in runs[: active[-1] + 1])


def _subscriptions_at_risk(nodes: Sequence[PairNode]) -> Iterator[Incident]:
    """Yield an incident for each subscription risk in the stores of a pair.

    Nodes that share a store have the same records.
    """
    reported_risks: set[tuple[datetime, str]] = set()
    for node in nodes:
        for risk in node.risks:
            name = risk.path.rpartition("/")[2]
            if (risk.time, name) in reported_risks:
                continue
            reported_risks.add((risk.time, name))
            yield new_incident(
                "subscriptions_at_risk",
                node,
                advice.SUBSCRIPTIONS_AT_RISK,
                began=risk.time,
                ended=risk.time,
                began_from="log",
                cause=f"A broker of {node.pair or short_name(node.host)} started without a usable index of its store, "
                f"so durable subscriptions can have lost messages: {risk.description}. The file {risk.path} records "
                "this.",
                recorded=risk.time,
                mark=name,
            )


def _killed_master_run(
    run_of_promoted: ObservedBrokerRun, runs: Mapping[str, Sequence[ObservedBrokerRun]]
) -> ObservedBrokerRun | None:
    """Return the last run of a promoted slave's master that was killed before it logged its start; None if unknown."""
    others = [run for host, host_runs in runs.items() for run in host_runs if host != run_of_promoted.host]
    return others[-1] if run_of_promoted.promoted and others else None


def _is_takeover(
    run: ObservedBrokerRun,
    previous_run: ObservedBrokerRun | None,
    nodes: Mapping[str, PairNode],
    runs: Mapping[str, Sequence[ObservedBrokerRun]],
) -> bool:
    """Return whether a node became active as the standby of another node, which may be unknown."""
    if run.started is None:
        return False
    if run.promoted:
        return True
    stood_by = run.waited is not None or run.promoted or (run.chosen is None and run.locked is not None)
    if not stood_by:
        return False
    if previous_run is not None:
        return previous_run.host != run.host
    others = [host for host in nodes if host != run.host]
    return any(not nodes[host].complete or _lacks_first_run(runs.get(host, ())) for host in others) or not others


def _lacks_first_run(runs: Sequence[ObservedBrokerRun]) -> bool:
    return not runs or runs[0].chosen is None


def _process_end_before(
    run: ObservedBrokerRun, previous_run: ObservedBrokerRun | None, skew: timedelta
) -> ProcessEnd | None:
    """Return the process end of the previous active node; None for an end long after the takeover.

    Its systemd journals show it.

    An exit after the other node had acquired the lock is that of a later start, which failed before it logged anything.
    """
    end = previous_run.process_end if previous_run else None
    if end is None or run.started is None:
        return None
    first = end.at or end.hung_since
    if end.kind == "UNIT-EXITED" and end.at is not None and end.at > (run.locked or run.started) + _CLOCK_SLACK:
        return None
    return end if first is None or first <= run.started + skew else None


def _incident_of_takeover(
    run: ObservedBrokerRun,
    previous_run: ObservedBrokerRun | None,
    nodes: Mapping[str, PairNode],
    measured: TakeoverStart,
    end: ProcessEnd | None,
) -> Incident:
    kind_of_end = "unknown" if previous_run is None else "pure" if run.promoted else previous_run.end
    lacks_end = previous_run is not None and previous_run.lacks_end and end is None
    if lacks_end and not run.promoted:
        kind_of_end = "unknown"
    advised = advice.TAKEOVERS["silent" if kind_of_end == "open" else kind_of_end]
    if end is not None and not run.promoted:
        advised = advice.TAKEOVERS_BY_END.get(end.kind, advised)
    downtime = takeover_downtime_bounds(run, previous_run, measured, end)
    if measured.seconds is not None and measured.seconds > SLOW:
        advised = advice.Remedy(advised.remedy + advice.SLOW.remedy, (*advised.rules, *advice.SLOW.rules))
    certain = previous_run is not None and (run.certainly_waited or run.promoted or run.waited is not None)
    return new_incident(
        "takeover",
        nodes[run.host],
        advised,
        began=measured.began,
        ended=run.started,
        seconds=measured.seconds,
        downtime_min=downtime.shortest,
        downtime_max=downtime.longest,
        began_from=measured.source,
        certainty="proved" if certain and not lacks_end and not run.in_second_occurrence else "possible",
        cause=_cause_of_takeover(run, previous_run, measured, end) + downtime.note,
        recorded=run.started,
    )


def _cause_of_takeover(
    run: ObservedBrokerRun, previous_run: ObservedBrokerRun | None, measured: TakeoverStart, end: ProcessEnd | None
) -> str:
    if previous_run is None:
        event = f"{short_name(run.host)} was standby and became active; the log of the previous active node is missing"
    else:
        old = short_name(previous_run.host)
        ending = {
            "silent": f"{old} ended without a log record, as after kill -9, an out-of-memory kill or a power cut",
            "open": f"{old} stopped logging: it was killed (kill -9, out of memory), or its machine failed",
            "stopped": f"{old} was stopped cleanly",
            "lost_lock": f"{old} lost its lock and stopped serving",
            "store": f"{old} stopped itself because of an error of its store",
            "failed": f"{old} failed",
        }[previous_run.end]
        if end is not None:
            ending = describe_process_end(old, end)
        elif previous_run.lacks_end:
            ending = f"the end of the log of {old} is missing, so it is unknown why {old} stopped"
        who = (
            f"{short_name(run.host)}, its slave, was promoted" if run.promoted else f"{short_name(run.host)} took over"
        )
        event = f"{ending}; {who}"
    recovered = " after its store had been recovered" if run.unclean else ""
    occurrence = (
        f" The local time of {short_name(run.host)} occurred twice in that night. The audit uses the second "
        "occurrence, because the other node was still active at the first one."
        if run.in_second_occurrence
        else ""
    )
    return f"{event}{recovered}.{measured.note}{occurrence}"


def _failed_takeovers(
    nodes: Mapping[str, PairNode], runs: Mapping[str, Sequence[ObservedBrokerRun]], order: Sequence[ObservedBrokerRun]
) -> Iterator[Incident]:
    """Yield an incident for each standby that acquired the lock and did not become active."""
    for host, host_runs in runs.items():
        for index, run in enumerate(host_runs):
            if run.started is not None or not (run.retired or (run.waited and run.locked)):
                continue
            if run.end == "open":
                continue  # The log may have been collected in the meantime.
            ended = run.ended or (host_runs[index + 1].chosen if index + 1 < len(host_runs) else None)
            advised = advice.RETIRED if run.retired else advice.FAILED_TAKEOVER
            reason = (
                "stopped when its master failed, because shutdownOnMasterFailure is set"
                if run.retired
                else "acquired the lock, but stopped before it was active"
            )
            began = run.saw_loss if run.retired else run.locked
            yield new_incident(
                "failed_takeover",
                nodes[host],
                advised,
                began=began,
                ended=ended,
                seconds=seconds_between(began, ended),
                began_from="log" if began else "unknown",
                certainty="possible" if run.lacks_end else "proved",
                cause=f"{short_name(host)} was standby. It {reason}.",
                recorded=began or ended,
            )


def _split_brains(
    nodes: Mapping[str, PairNode], runs: Mapping[str, Sequence[ObservedBrokerRun]], skew: timedelta
) -> Iterator[tuple[str, int, Incident]]:
    """Yield (host, later run's position, incident) where two nodes used one store at the same time.

    They used it for longer than clocks can differ.
    """
    locks = any(term.certainly_waited for host_runs in runs.values() for term in host_runs)
    active = [term for host_runs in runs.values() for term in host_runs if term.was_active and not term.pure]
    active.sort(key=lambda term: (term.store_acquired_at is None, term.store_acquired_at, term.host))
    for index, first in enumerate(active):
        for second in active[index + 1 :]:
            until = _both_active(first, second, skew)
            if until is not None and first.host != second.host and _share_store(first, second, nodes, locks):
                yield second.host, second.place, _incident_of_split(first, second, until, nodes)


def _both_active(first: ObservedBrokerRun, second: ObservedBrokerRun, skew: timedelta) -> datetime | None:
    """Return the time until which two nodes were both active, by the first node's clock.

    It is None where the difference of the clocks can explain it.
    """
    first_last, begin, second_last = (
        last_active_record_time(first),
        second.store_acquired_at,
        last_active_record_time(second),
    )
    if first_last is None or begin is None or second_last is None or first.store_acquired_at is None:
        return None
    if first_last <= begin + skew:
        return None
    if first.store_acquired_at + skew < begin or second_last > begin + skew:
        return first_last
    return None


def last_active_record_time(run: ObservedBrokerRun) -> datetime | None:
    """Return the time of the last log record of a broker run that shows that the broker was active, or None."""
    if run.end == "lost_lock" and run.ended and run.last and run.last > run.ended - _FINAL_RECORDS_TIME:
        return (
            None
            if run.store_acquired_at is None
            else max(run.store_acquired_at, min(run.last, run.ended - _FINAL_RECORDS_TIME))
        )
    return run.last


def _share_store(
    first: ObservedBrokerRun, second: ObservedBrokerRun, nodes: Mapping[str, PairNode], locks: bool
) -> bool:
    """Return whether two broker runs can write to one store.

    The hosts' inventory shows it, else the store's path and its lock. Separate disks of two hosts can have the same
    path. With guards, the store in use is the newest generation.
    """
    numbers = {run.host: nodes[run.host].fencing_generation_at(run.store_acquired_at) for run in (first, second)}
    if all(numbers.values()):
        return bool(
            two_masters_message(
                {host: WritableAndNewestGenerationNumbers(number, number) for host, number in numbers.items()}
            )
        )
    first_store, second_store = nodes[first.host].store, nodes[second.host].store
    if first_store and second_store:
        return first_store == second_store
    return locks and (
        not first.store
        or not second.store
        or store_name_without_object_address(first.store) == store_name_without_object_address(second.store)
    )


def store_name_without_object_address(store: str) -> str:
    """Return the name of a store in a broker's log without the address ``@1a2b3c`` of a Java object in it.

    The address differs in each run.
    """
    return _OBJECT_ADDRESS.sub("", store)


def _incident_of_split(
    first: ObservedBrokerRun, second: ObservedBrokerRun, until: datetime, nodes: Mapping[str, PairNode]
) -> Incident:
    return new_incident(
        "split_brain",
        nodes[second.host],
        advice.SPLIT_BRAIN,
        began=second.store_acquired_at,
        ended=until,
        seconds=seconds_between(second.store_acquired_at, until),
        began_from="log",
        cause=(
            f"{short_name(first.host)} continued to write to the store after {short_name(second.host)} had become "
            "active with the same store. The overlap is longer than the largest assumed difference between the "
            "clocks of both hosts."
        ),
        recorded=second.store_acquired_at,
    )


def _flapping_incidents(takeovers: Sequence[_Takeover], corrections: ClockCorrections) -> Iterator[Incident]:
    """Yield an incident for each series of at least three unplanned takeovers of a pair in ten minutes."""
    moments = [(to_common_clock(term.started, corrections[term.host]), incident) for term, incident in takeovers]
    timed_incidents = [(at, incident) for at, incident in moments if at is not None]
    begin = 0
    while begin + FLAPS <= len(timed_incidents):
        end = begin + FLAPS - 1
        if timed_incidents[end][0] - timed_incidents[begin][0] > WITHIN:
            begin += 1
            continue
        while (
            end + 1 < len(timed_incidents)
            and timed_incidents[end + 1][0] - timed_incidents[end + 2 - FLAPS][0] <= WITHIN
        ):
            end += 1
        yield _incident_of_flapping(
            [incident for _, incident in timed_incidents[begin : end + 1]],
            (timed_incidents[end][0] - timed_incidents[begin][0]).total_seconds(),
        )
        begin = end + 1


def _incident_of_flapping(chain: Sequence[Incident], seconds: float) -> Incident:
    return replace(
        chain[0],
        kind="flapping",
        began=chain[0].ended,
        ended=chain[-1].ended,
        seconds=round(seconds, 3),
        began_from="log",
        certainty="possible" if any(takeover.certainty == "possible" for takeover in chain) else "proved",
        cause=f"{len(chain)} takeovers in {_minutes_text(seconds)}: clients reconnect each time, and no node "
        "stays active.",
        remedy=advice.FLAPPING.remedy,
        rules=advice.FLAPPING.rules,
    )


def _minutes_text(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"


def _mark_planned(incident: Incident, operations: Sequence[PlannedOperation]) -> Incident:
    """Return a takeover incident, marked as planned where its node became active during a planned operation."""
    for operation in operations:
        is_within = incident.ended is not None and operation.began <= incident.ended <= operation.ended + _SLACK
        if operation.host == incident.host and is_within:
            sentence = f" The takeover was planned: {operation.operation[:40]}, by {operation.by[:80]}."
            return replace(
                incident,
                planned=True,
                cause=incident.cause + sentence,
                remedy=("No action is required: the takeover was planned."),
            )
    return incident
