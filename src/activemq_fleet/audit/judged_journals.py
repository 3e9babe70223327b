"""Judge the events of a few whole journals in memory; ``spark.deliveries`` does so for journals of any size."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from activemq_fleet.audit.deliveries import DeliveryJudge, EventOutcome
from activemq_fleet.audit.event_records import events_from_records
from activemq_fleet.audit.journal_lines import (
    EventJournalFileSummary,
    ParsedEventJournalLine,
    journal_epochs_by_agent_and_id,
)
from activemq_fleet.audit.journals import (
    AgentJournalGap,
    AgentSubscriptionChange,
    EpochKey,
    EventJournalLine,
    EventRecordWithJournalPosition,
    MissingRecordCount,
    records_and_gaps_in_order,
)
from activemq_fleet.audit.reached_ranges import received_event_ranges_with_keys, subscriptions_by_subscriber_name


class EventJournalEvaluation(NamedTuple):
    """An evaluation of agents' event journals: the outcomes of events, the ordered records, and the gaps.

    Barriers (marker messages) have no outcome.
    """

    outcomes: list[EventOutcome]
    records: list[EventRecordWithJournalPosition]
    gaps: list[AgentJournalGap]


def evaluate_journals(
    lines: Collection[EventJournalLine],
    *,
    truncated_epochs: Collection[EpochKey] = (),
    subscribed_before_events: Collection[str] = (),
) -> EventJournalEvaluation:
    """Evaluate lines of agents' event journals, and return the events' delivery outcomes, the records and the gaps.

    The lines may come in any order and more than once. ``truncated_epochs``: the epochs whose journals lack their end.
    ``subscribed_before_events``: the agents that are known to have subscribed to all events before the first; one of
    them without a journal is taken to lack records.
    """
    epochs, _ = journal_epochs_by_agent_and_id(_summaries(lines, truncated_epochs))
    ordered = sorted(lines, key=lambda line: (line.agent, epochs[line.agent, line.epoch].rank, line.jseq))
    journal_findings = list(records_and_gaps_in_order(ordered, epochs))
    records = [record for record in journal_findings if isinstance(record, EventRecordWithJournalPosition)]
    missing = dict.fromkeys(subscribed_before_events, 1)
    missing |= {count.agent: count.records for count in journal_findings if isinstance(count, MissingRecordCount)}
    subscribers = subscriptions_by_subscriber_name(
        change for change in journal_findings if isinstance(change, AgentSubscriptionChange)
    )
    events = list(events_from_records(sorted(records, key=lambda record: record.event_id)))
    reach = dict(received_event_ranges_with_keys(events, subscribers, missing))
    judge = DeliveryJudge(subscribers, missing, reach, subscribed_before_events)
    outcomes = [outcome for outcome, _ in judge.outcomes_with_deliveries(events) if outcome]
    return EventJournalEvaluation(
        outcomes, records, [gap for gap in journal_findings if isinstance(gap, AgentJournalGap)]
    )


def _summaries(
    lines: Iterable[EventJournalLine], truncated_epochs: Collection[EpochKey]
) -> list[EventJournalFileSummary]:
    """Return a summary of each epoch's journal, as of a file in which nothing readable follows what is cut off."""
    summaries: dict[EpochKey, EventJournalFileSummary] = {}
    for line in lines:
        key = line.agent, line.epoch
        summaries.setdefault(key, EventJournalFileSummary(*key)).count_line(ParsedEventJournalLine(1, line, None))
    for key in truncated_epochs:
        summaries[key].parts[key] = summaries[key].parts[key]._replace(torn=2)
    return list(summaries.values())
