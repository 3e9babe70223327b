"""Read the files of a drill's load generators, and derive the brokers' states over time from their logs."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from activemq_fleet.audit.journal_lines import parse_event_journal_lines
from activemq_fleet.audit.scraped_availability import ScrapedAvailability
from activemq_fleet.drills.accounting import (
    AgentJournal,
    count_event_outcomes,
    count_interrupted_publishes,
    longest_gap_begin_and_length,
)
from activemq_fleet.drills.model import BrokerStateSpan, Fault, ObservedState, PairEventCounts
from activemq_fleet.node.log.broker_run import BrokerRun
from activemq_fleet.node.log.log_records import parse_log
from activemq_fleet.node.text_lines import split_lines

_AFTER = 5.0
_LONGEST = 120.0

_STATES: dict[str, ObservedState] = {
    "starting": "starting",
    "waiting": "standby",
    "attached": "standby",
    "started": "active",
    "stopping": "stopped",
    "stopped": "stopped",
    "failed": "stopped",
}


def read_agent_journal(directory: Path, agent_description: str) -> AgentJournal:
    """Return the event journal of an agent as an AgentJournal, read from the JSON Lines files below a directory.

    A line that cannot be read becomes a gap. ``agent_description`` names the agent in texts.
    """
    files = sorted((directory / "agent").glob("*.jsonl"))
    return AgentJournal.from_parsed_journal_lines(
        agent_description, (line for path in files for line in parse_event_journal_lines(memoryview(path.read_bytes())))
    )


def pair_outcomes_and_faults(
    directory: Path, pair: str, protocol: str, faults: Sequence[Fault], *, skew: float = 0.0
) -> tuple[PairEventCounts, list[Fault]]:
    """Return a pair's test message counts by outcome (such as lost) in a drill, and its faults with measured effects.

    The effects are those that the agents' journals show. A completed fault has the begin (epoch seconds) and the length
    (seconds) of the longest time without a handled event. It also has the longest time in seconds without an
    acknowledged publish, and the number of publishes that were in flight at the fault and had to be sent again.
    ``directory`` holds the load generators' files. ``skew`` is the number of seconds by which the clocks of the
    brokers' hosts and of this machine may differ.
    """
    load_directory = directory / pair
    publisher = read_agent_journal(load_directory / "publisher", f"the publisher of the test load on {pair}")
    subscriber = read_agent_journal(load_directory / "subscriber", f"the subscriber of the test load on {pair}")
    promised_ids = _read_promised_ids(load_directory / "promised")
    account = count_event_outcomes(pair, protocol, publisher, subscriber, promised_ids)
    event_ids = publisher.event_ids_in_records_of_kinds("accepted") | set(promised_ids)
    handled, acknowledged = (
        subscriber.sorted_times_of_event_journal_records("handled", event_ids),
        publisher.sorted_times_of_event_journal_records("acknowledged", event_ids),
    )

    def fault_with_effects(fault: Fault) -> Fault:
        latest_begin, next_fault = _latest_silence_begin(fault) + skew, _time_of_next_fault(fault, faults)
        silence, unacknowledged = (
            longest_gap_begin_and_length(moments, fault.at, latest_begin, skew=skew, next_fault=next_fault)
            for moments in (handled, acknowledged)
        )
        return replace(
            fault,
            silent_from=silence[0] if silence else None,
            silence=silence[1] if silence else None,
            publish_gap=unacknowledged[1] if unacknowledged else None,
            in_flight=count_interrupted_publishes(publisher, fault.at),
        )

    return account, [fault_with_effects(fault) for fault in faults]


def _read_promised_ids(path: Path) -> list[str]:
    try:
        lines = split_lines(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return [line.partition(" ")[2] for line in lines if " " in line]


def fault_with_scraped_downtime(fault: Fault, scraped: ScrapedAvailability, faults: Sequence[Fault]) -> Fault:
    """Return a copy of an injected fault that includes the resulting downtime of its broker pair, from scraped metrics.

    The downtime is the longest time, in seconds, in which scrapes showed no active node. ``faults`` are all faults of
    the drill: a downtime that a later fault of the pair may have caused does not count.
    """
    return replace(
        fault,
        unserved=scraped.longest_seconds_without_active_node(
            fault.pair, fault.at, _latest_silence_begin(fault), ended_before=_time_of_next_fault(fault, faults)
        ),
    )


def _time_of_next_fault(fault: Fault, faults: Sequence[Fault]) -> float:
    """Return the time (epoch seconds) of the next fault of the same pair; infinity after the last fault."""
    times = (later_fault.at for later_fault in faults if later_fault.pair == fault.pair and later_fault.at > fault.at)
    return min(times, default=math.inf)


def _latest_silence_begin(fault: Fault) -> float:
    """Return the latest time (epoch seconds) at which a silence can begin that the fault has caused."""
    return fault.at + (_LONGEST if fault.takeover is None else fault.takeover) + _AFTER


def broker_state_changes_since(log_text: str, start_time: float) -> list[tuple[float, ObservedState]]:
    """Return the changes of a broker's state that its log shows from ``start_time`` (epoch seconds) on.

    Each change is a tuple of its time in epoch seconds and the new state, such as ``active``. The list is in order of
    time.
    """
    run, changes = BrokerRun(), list[tuple[float, ObservedState]]()
    for record in parse_log(log_text):
        run.apply_records([record])
        state = _STATES[run.phase]
        if run.since is not None and run.since.timestamp() >= start_time and (not changes or changes[-1][1] != state):
            changes.append((run.since.timestamp(), state))
    return changes


def state_spans(
    pair: str,
    host: str,
    first: ObservedState,
    changes: Iterable[tuple[float, ObservedState]],
    began: float,
    ended: float,
) -> list[BrokerStateSpan]:
    """Return the time spans in each of which a host's broker was in one state, such as active, as BrokerStateSpans.

    The spans cover the period from ``began`` to ``ended`` without gaps. ``first`` is the state at ``began``;
    ``changes`` are (epoch seconds, new state) in any order.
    """
    spans: list[BrokerStateSpan] = []
    at, state = began, first
    for moment, following in sorted(changes, key=lambda change: change[0]):
        moment = min(max(moment, began), ended)
        if following != state:
            if moment > at:
                spans.append(BrokerStateSpan(pair, host, state, at, moment))
            at, state = moment, following
    return [*spans, BrokerStateSpan(pair, host, state, at, ended)] if ended > at else spans


def describe_machine() -> dict[str, Any]:
    """Return a dictionary of texts about the local machine: system, processors, memory, load and Python version.

    The description maps a name to a text.
    """
    load = os.getloadavg()
    memory = psutil.virtual_memory().total / 2**30
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": f"{os.cpu_count()}",
        "memory": f"{memory:.0f} GiB",
        "load average": f"{load[0]:.1f} (1 min), {load[1]:.1f} (5 min)",
        "python": platform.python_version(),
    }
