"""Account for the events of a drill by the verdicts of ``audit``, and measure how long no event was handled.

A drill has more information than an audit: the ids that the publishing agent returned, that the subscriber subscribed
before the first event, and that the last record of each complete journal shows that the agent was stopped.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

from activemq_fleet.audit.deliveries import EventOutcome
from activemq_fleet.audit.journal_lines import ParsedEventJournalLine
from activemq_fleet.audit.journals import AgentJournalGap, EpochKey, EventJournalLine
from activemq_fleet.audit.judged_journals import evaluate_journals
from activemq_fleet.audit.verdict_words import PUBLISHER_GAP, WORST, MissingJournalPartKind
from activemq_fleet.drills.model import EventVerdict, FaultyEvent, PairEventCounts

_MAXIMUM_FAULTY_EVENTS = 100
_UNKNOWN_REASON = "the agent accepted the event, but the event journal of the agent does not contain the event"


@dataclass(slots=True)
class AgentJournal:
    """The event journal of one failover agent in a drill.

    ``lines`` are its records in the order in which they were read; ``owner`` describes the agent. ``connections`` holds
    (number, record) of each record that names a connection.
    """

    owner: str
    lines: list[EventJournalLine] = field(default_factory=list)
    connections: list[tuple[int, EventJournalLine]] = field(default_factory=list)

    @classmethod
    def from_parsed_journal_lines(cls, owner: str, lines: Iterable[ParsedEventJournalLine]) -> AgentJournal:
        """Return the event journal of an agent, made from the parsed lines of the journal's files.

        Lines without an agent or a time are left out.
        """
        journal = cls(owner)
        for _, record, _, _, conn in lines:
            if record is not None and record.ts is not None:
                journal.lines.append(record)
                if conn is not None:
                    journal.connections.append((conn, record))
        return journal

    @property
    def journal_agent_name(self) -> str:
        """The name of the agent that wrote the event journal.

        The name is the description ``owner`` if the journal has no records.
        """
        return self.lines[0].agent if self.lines else self.owner

    @property
    def epochs_not_ending_with_stop_record(self) -> set[EpochKey]:
        """The epochs (lifetimes of an agent's store) whose last record in the agents' journals is no stop record.

        Each epoch is a key (agent, epoch). Later records may be missing.
        """
        last_records: dict[EpochKey, EventJournalLine] = {}
        for line in self.lines:
            key = line.agent, line.epoch
            last_records[key] = max(line, last_records.get(key, line), key=lambda record: record.jseq)
        return {key for key, line in last_records.items() if line.kind != "stopped"}

    def event_ids_in_records_of_kinds(self, *kinds: str) -> set[str]:
        """Return the ids of the events about which the agent's journal has a record of one of the given kinds."""
        return {line.event_id for line in self.lines if line.kind in kinds and line.event_id}

    def sorted_times_of_event_journal_records(self, kind: str, event_ids: Collection[str]) -> list[float]:
        """Return the sorted times of those event journal records that have the given kind and one of the event ids.

        The times are in epoch seconds; a kind is such as ``handled``.
        """
        records = (line for line in self.lines if line.kind == kind and line.event_id in event_ids)
        return sorted(line.ts.timestamp() for line in records if line.ts is not None)


def count_event_outcomes(
    pair: str, protocol: str, publisher: AgentJournal, subscriber: AgentJournal, promised: Sequence[str]
) -> PairEventCounts:
    """Return how many of the events that a drill's load published on a broker pair have each outcome, such as lost.

    The first events that failed are included. ``promised`` are the ids that the publishing agent returned: an id
    unknown to its journal was lost by the agent, unless the journal has a gap.
    """
    evaluation = evaluate_journals(
        [*publisher.lines, *subscriber.lines],
        truncated_epochs=publisher.epochs_not_ending_with_stop_record | subscriber.epochs_not_ending_with_stop_record,
        subscribed_before_events=[subscriber.journal_agent_name],
    )
    owners = {journal.journal_agent_name: journal.owner for journal in (publisher, subscriber)}
    gaps = [
        f"the event journal of {journal.owner} is missing" for journal in (publisher, subscriber) if not journal.lines
    ]
    gaps += [_gap_sentence(owners[gap.agent], gap) for gap in evaluation.gaps]
    publisher_has_gaps = not publisher.lines or any(
        gap.agent == publisher.journal_agent_name for gap in evaluation.gaps
    )
    barriers = publisher.event_ids_in_records_of_kinds(
        "barrier"
    )  # A barrier is accepted like an event, but is no event.
    accepted_ids = publisher.event_ids_in_records_of_kinds("accepted")
    accepted = dict.fromkeys(i for i in (*promised, *sorted(accepted_ids)) if i not in barriers)
    outcomes = {outcome.event_id: outcome for outcome in evaluation.outcomes}
    counts: Counter[EventVerdict] = Counter()
    units: list[FaultyEvent] = []
    for event_id in accepted:
        verdict, reason = _event_verdict(outcomes.get(event_id), event_id in accepted_ids, publisher_has_gaps)
        counts[verdict] += 1
        if verdict != "delivered":
            units.append(FaultyEvent(event_id, verdict, reason))
    units.sort(key=lambda unit: WORST.index(unit.verdict))
    return PairEventCounts(
        pair=pair,
        protocol=protocol,
        accepted=len(accepted),
        acknowledged=len(publisher.event_ids_in_records_of_kinds("acknowledged", "unconfirmed") & accepted.keys()),
        handled=len(subscriber.event_ids_in_records_of_kinds("handled") & accepted.keys()),
        lost=counts["lost"],
        duplicate=counts["duplicate"],
        stuck=counts["stuck"],
        indeterminate=counts["indeterminate"],
        copies=sum(record.kind == "duplicate" for record in evaluation.records),
        gaps=tuple(gaps),
        units=tuple(units[:_MAXIMUM_FAULTY_EVENTS]),
    )


def _event_verdict(outcome: EventOutcome | None, is_known: bool, publisher_has_gaps: bool) -> tuple[EventVerdict, str]:
    if outcome and (is_known or outcome.handled_by):
        return outcome.verdict, outcome.reason
    return PUBLISHER_GAP if publisher_has_gaps else ("lost", _UNKNOWN_REASON)


def _gap_sentence(owner: str, gap: AgentJournalGap) -> str:
    if gap.missing_part is MissingJournalPartKind.RECORDS and gap.records:
        last = gap.jseq + gap.records - 1
        return (
            f"the event journal of {owner} lacks the records {gap.jseq} to {last} of epoch {gap.epoch} (an epoch "
            "begins when the agent creates its store)"
        )
    return (
        f"the event journal of {owner} lacks the last records of epoch {gap.epoch} (an epoch begins when the agent "
        "creates its store)"
    )


def longest_gap_begin_and_length(
    moments: Sequence[float], fault: float, until: float, *, skew: float = 0.0, next_fault: float = math.inf
) -> tuple[float, float] | None:
    """Return the begin and the length of the longest gap between moments, such as times of handled events.

    Begin and length are in seconds. A fault of a drill may have caused the gap. The moments are sorted. The gap must
    begin before ``until``, and end after the fault. If it begins after the fault, it must end before ``next_fault``,
    which may have caused later gaps.
    ``skew`` is the possible error of the clock that timed the faults, in seconds. Returns None if no moment is after
    the fault.
    """
    gaps = [
        (a, b - a)
        for a, b in pairwise(moments)
        if fault - skew < b and a < until and (a <= fault + skew or b < next_fault + skew)
    ]
    return max(gaps, key=lambda gap: gap[1], default=None)


def count_interrupted_publishes(publisher: AgentJournal, moment: float) -> int:
    """Return the number of events that an agent had to publish again, because a fault interrupted their transmission.

    They were unacknowledged at ``moment``, the time of the fault in epoch seconds, and had to be sent again later.
    """
    fault_time = datetime.fromtimestamp(moment, UTC)
    later_connections = {
        conn for conn, line in publisher.connections if line.kind == "connected" and line.ts and line.ts >= fault_time
    }
    sent_before: set[str | None] = set()
    sent_after: set[str | None] = set()
    for conn, line in publisher.connections:
        if line.kind == "sent":
            (sent_after if conn in later_connections else sent_before).add(line.event_id)
    return len(sent_before & sent_after)
