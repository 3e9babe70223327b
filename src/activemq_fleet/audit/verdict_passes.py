"""Judge events in three passes over journal records: first sorted by agent, then twice sorted by event."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

from activemq_fleet.audit.deliveries import Delivery, DeliveryJudge, EventOutcome
from activemq_fleet.audit.event_records import events_from_records
from activemq_fleet.audit.finality import EvidenceEnds
from activemq_fleet.audit.journal_lines import is_agent_journal_on_host, parse_event_journal_lines
from activemq_fleet.audit.journals import (
    EpochKey,
    EventJournalLine,
    EventRecordWithJournalPosition,
    JournalEpoch,
    JournalFinding,
    record_position,
    records_and_gaps_in_order,
)
from activemq_fleet.audit.reached_ranges import EventRange, Reach
from activemq_fleet.audit.report_figures import EventFigures, PeriodWithoutHandledEvents, longest_idle_periods

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


class EventJournalLineWithAgentPosition(NamedTuple):
    """A line of an agent's event journal with its position among all lines of the agent."""

    agent: str
    place: int
    file: tuple[str, str, int]
    line: EventJournalLine


def journal_lines_with_agent_positions(
    host: str, file: str, content: memoryview, epochs: Mapping[EpochKey, JournalEpoch], host_by_agent: Mapping[str, str]
) -> Iterator[EventJournalLineWithAgentPosition]:
    """Yield the lines of a journal file, each with its position in its agent's journal, which can have several files.

    Only lines up to the last record that ``epochs`` knows are returned. Records of an agent whose journal another host
    has, by ``host_by_agent``, are left out.
    """
    for number, line, *_ in parse_event_journal_lines(content):
        about = line and epochs.get((line.agent, line.epoch))
        if line and about and line.jseq <= about.known and is_agent_journal_on_host(line.agent, host, host_by_agent):
            yield EventJournalLineWithAgentPosition(
                line.agent, record_position(about, line.jseq), (host, file, number), line
            )


def iterate_records_gaps_and_idle_periods(
    lines: Iterable[EventJournalLineWithAgentPosition], epochs: Mapping[EpochKey, JournalEpoch]
) -> Iterator[JournalFinding | PeriodWithoutHandledEvents]:
    """Yield each agent's event records and journal gaps in order, and after them the agent's longest idle periods.

    An idle period is a period in which the agent handled no event. ``lines`` are sorted by agent and position.
    """
    for agent, agent_lines in groupby(lines, key=lambda placed: placed.agent):
        handled = array("q")
        for finding in records_and_gaps_in_order(_sort_copies(agent_lines), epochs):
            if (
                isinstance(finding, EventRecordWithJournalPosition)
                and finding.kind == "handled"
                and finding.ts is not None
            ):
                _append_microseconds(handled, (finding.ts - _EPOCH) // _MICROSECOND)
            yield finding
        yield from longest_idle_periods(agent, (_EPOCH + timedelta(microseconds=at) for at in handled))


def _sort_copies(lines: Iterable[EventJournalLineWithAgentPosition]) -> Iterator[EventJournalLine]:
    """Yield journal lines whose copies at each position are sorted: readable copies first, always in the same order."""
    for _, copies in groupby(lines, key=lambda placed: placed.place):
        yield from (placed.line for placed in sorted(copies, key=_copy_preference))


def _copy_preference(placed: EventJournalLineWithAgentPosition) -> tuple[Any, ...]:
    line = placed.line
    return line.kind is None, line.kind or "", line.event_id or "", line.ts or _EPOCH, placed.file


def _append_microseconds(moments: array[int], at: int) -> None:
    """Add a moment in microseconds to an array.

    Of consecutive moments in one second only the first and the last are kept.
    """
    second = at // 1_000_000
    if len(moments) > 1 and moments[-1] // 1_000_000 == second == moments[-2] // 1_000_000:
        moments[-1] = at
    else:
        moments.append(at)


def merge_received_event_ranges(parts: Iterable[Reach]) -> Reach:
    """Merge dictionaries of ranges of received events, each computed for a part of the events, into one dictionary.

    The keys are ReceivedRangeKeys (the publisher's epoch, the subscriber, and the kind of range), the values the
    ranges, as in each of ``parts``.
    """
    reach: Reach = {}
    for part in parts:
        for key, extremes in part.items():
            reach.setdefault(key, EventRange()).extend_to_include_range(extremes)
    return reach


class JudgedEvent(NamedTuple):
    """A judged event: its delivery outcome and its deliveries to subscribers.

    The outcome is None for a barrier (marker message). A flag shows whether outcome and deliveries are final.
    """

    outcome: EventOutcome | None
    deliveries: list[Delivery]
    is_final: bool


def events_with_delivery_outcomes(
    records: Iterable[EventRecordWithJournalPosition],
    judge: DeliveryJudge,
    figures: EventFigures,
    evidence_ends: EvidenceEnds | None,
) -> Iterator[JudgedEvent]:
    """Yield each event in records of agents' event journals with its delivery outcome.

    Each event is counted in ``figures``. With ``evidence_ends`` None every outcome is final.
    """
    last: dict[str, datetime] = {}

    def watched() -> Iterator[EventRecordWithJournalPosition]:
        for record in records:
            if evidence_ends and record.ts is not None:
                last[record.event_id] = max(record.ts, last.get(record.event_id, record.ts))
            yield record

    for event in events_from_records(watched()):
        for outcome, deliveries in judge.outcomes_with_deliveries([event]):
            figures.count_event(outcome, deliveries)
            is_final = evidence_ends is None or evidence_ends.is_event_final(last.pop(event.event_id, None))
            yield JudgedEvent(outcome, deliveries, is_final)
