"""Judge the events of a few whole journals in memory; ``spark.deliveries`` does the same for journals of any size."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from activemq_fleet.audit.deliveries import Judge, Outcome
from activemq_fleet.audit.event_records import events_of
from activemq_fleet.audit.journals import (
    EpochKey,
    EpochPart,
    JournalGap,
    JournalLine,
    MissingRecords,
    OrderedRecord,
    SubscriptionChange,
    epochs_of,
    id_parts,
    in_order,
)
from activemq_fleet.audit.reached_ranges import EventRange, Reach, reached_ranges, subscribers_of


class JudgedJournals(NamedTuple):
    """The outcome of every event but barriers, the journals' records about events in order, and their gaps."""

    outcomes: list[Outcome]
    records: list[OrderedRecord]
    gaps: list[JournalGap]


def judge_journals(
    lines: Collection[JournalLine],
    *,
    truncated_epochs: Collection[EpochKey] = (),
    subscribed_before_events: Collection[str] = (),
) -> JudgedJournals:
    """Return what became of the events of journals, whose lines may come in any order and several times.

    ``truncated_epochs``: the epochs whose journals lack their end. ``subscribed_before_events``: the agents that are
    known to have subscribed to all events before the first; one of them without a journal is taken to lack records.
    """
    epochs = epochs_of(_parts(lines, frozenset(truncated_epochs)), _received(lines))
    ordered = sorted(lines, key=lambda line: (line.agent, epochs[line.agent, line.epoch].rank, line.jseq))
    found = list(in_order(ordered, epochs))
    records = [one for one in found if isinstance(one, OrderedRecord)]
    missing = dict.fromkeys(subscribed_before_events, 1)
    missing |= {one.agent: one.records for one in found if isinstance(one, MissingRecords)}
    subscribers = subscribers_of(one for one in found if isinstance(one, SubscriptionChange))
    events = list(events_of(sorted(records, key=lambda record: record.event_id)))
    reach: Reach = {}
    for key, extremes in reached_ranges(events, subscribers, missing):
        reach.setdefault(key, EventRange()).add(extremes)
    judge = Judge(subscribers, missing, reach, subscribed_before_events)
    outcomes = [outcome for outcome, _ in judge.outcomes_of(events) if outcome]
    return JudgedJournals(outcomes, records, [one for one in found if isinstance(one, JournalGap)])


def _parts(lines: Iterable[JournalLine], truncated_epochs: frozenset[EpochKey]) -> Iterator[EpochPart]:
    by_epoch = sorted(lines, key=lambda line: (line.agent, line.epoch))
    for key, of_epoch in groupby(by_epoch, key=lambda line: (line.agent, line.epoch)):
        mine = list(of_epoch)
        known = max(line.jseq for line in mine)
        began = min((line.ts for line in mine if line.ts is not None), default=None)
        # All of an epoch is one file here, in which nothing readable follows what is cut off.
        yield EpochPart(key[0], key[1], *key, known, began, line=1, torn=2 if key in truncated_epochs else None)


def _received(lines: Iterable[JournalLine]) -> dict[EpochKey, int]:
    """Return the highest SEQ that another agent received, by the agent and epoch in events' ids."""
    found: dict[EpochKey, int] = {}
    for line in lines:
        parts = id_parts(line.event_id or "")
        if parts is None:
            continue
        agent, epoch, seq = parts
        found[agent, epoch] = max(found.get((agent, epoch), 0), seq if line.agent != agent else 0)
    return found
