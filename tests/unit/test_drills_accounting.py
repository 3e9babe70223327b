"""Outcome of every event, from complete and altered journals in the format of agents."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from activemq_fleet.audit.journal_lines import parse_event_journal_line
from activemq_fleet.drills.accounting import (
    AgentJournal,
    count_event_outcomes,
    count_interrupted_publishes,
    longest_gap_begin_and_length,
)
from activemq_fleet.drills.model import PairEventCounts

EPOCH = "fdcf1c27-659f-430e-a21c-32ab4cc31e10"
AGENTS = {"publisher": "shop", "subscriber": "ledger"}
BARRIER = {"topic": "a/__barrier__/shop"}
EPOCHS = {"publisher": EPOCH, "subscriber": "subscriber-epoch"}
Record = dict[str, Any]


def event_id(seq: int) -> str:
    return f"shop:{EPOCH}:{seq}"


def journal_records(owner: str, *entries: tuple[Any, ...]) -> list[Record]:
    """Return a journal of entries (kind, seq) with more fields; the last record is the stop of the agent."""
    return [
        {"agent": AGENTS[owner], "epoch": EPOCHS[owner], "jseq": number, "kind": kind, "at": float(number)}
        | ({"event_id": event_id(seq[0]), "topic": "a/b"} | (BARRIER if kind == "barrier" else {}) if seq else {})
        | (seq[1] if len(seq) > 1 else {})
        for number, (kind, *seq) in enumerate([*entries, ("stopped",)], 1)
    ]


def parse_journal(owner: str, records: Sequence[Record]) -> AgentJournal:
    """Return the parsed journal of these records; ``at`` is in seconds since the epoch."""
    lines = [{**record, "ts": datetime.fromtimestamp(record["at"], UTC).isoformat()} for record in records]
    return AgentJournal.from_parsed_journal_lines(
        owner, [parse_event_journal_line(number, json.dumps(line)) for number, line in enumerate(lines, 1)]
    )


def publisher_records(count: int) -> list[Record]:
    """Return the records of ``count`` accepted and acknowledged events and of a barrier after them."""
    kinds = [(kind, seq) for seq in range(1, count + 1) for kind in ("accepted", "acknowledged")]
    return journal_records(
        "publisher", *kinds, ("accepted", count + 1, BARRIER), ("barrier", count + 1), ("acknowledged", count + 1)
    )


def subscriber_records(handled: Sequence[int], *more: tuple[Any, ...], barrier: int | None) -> list[Record]:
    kinds = [(kind, seq) for seq in handled for kind in ("received", "handled")]
    return journal_records("subscriber", *kinds, *more, *([("barrier", barrier)] if barrier else []))


def count_outcomes(
    publisher: list[Record], subscriber: list[Record], returned_ids: Sequence[str] | None = None
) -> PairEventCounts:
    accepted_ids = [r["event_id"] for r in publisher if r["kind"] == "accepted" and r["event_id"] != event_id(4)]
    return count_event_outcomes(
        "orders-mq01",
        "MQTT",
        parse_journal("the publisher", publisher),
        parse_journal("the subscriber", subscriber),
        accepted_ids if returned_ids is None else returned_ids,
    )


def verdicts_by_number(counts: PairEventCounts) -> dict[str, str]:
    return {delivery.event_id.rpartition(":")[2]: delivery.verdict for delivery in counts.units}


def test_event_handled_once_is_delivered_and_barrier_is_not_counted() -> None:
    counts = count_outcomes(publisher_records(3), subscriber_records([1, 2, 3], barrier=4))

    assert (counts.accepted, counts.acknowledged, counts.handled) == (3, 3, 3)
    assert (counts.lost, counts.stuck, counts.duplicate, counts.indeterminate) == (0, 0, 0, 0)
    assert counts.units == ()


def test_acknowledged_event_not_received_before_later_barrier_is_lost() -> None:
    counts = count_outcomes(publisher_records(3), subscriber_records([1, 3], barrier=4))

    assert counts.lost == 1
    assert verdicts_by_number(counts) == {"2": "lost"}


def test_acknowledged_event_without_later_barrier_is_stuck() -> None:
    counts = count_outcomes(publisher_records(3), subscriber_records([1, 3], barrier=None))

    assert (counts.lost, counts.stuck) == (0, 1)


def test_first_event_counts_as_lost_when_subscriber_existed_before_it() -> None:
    assert verdicts_by_number(count_outcomes(publisher_records(3), subscriber_records([2, 3], barrier=4))) == {
        "1": "lost"
    }
    assert count_outcomes(publisher_records(3), subscriber_records([], barrier=4)).lost == 3


def test_events_are_stuck_when_subscriber_received_nothing() -> None:
    counts = count_outcomes(publisher_records(3), subscriber_records([], barrier=None))

    assert (counts.lost, counts.stuck, counts.indeterminate) == (0, 3, 0)


def test_received_but_unhandled_event_is_stuck() -> None:
    counts = count_outcomes(publisher_records(3), subscriber_records([1, 3], ("received", 2), barrier=4))

    assert verdicts_by_number(counts) == {"2": "stuck"}


def test_unacknowledged_event_is_stuck() -> None:
    publisher = journal_records("publisher", ("accepted", 1), ("acknowledged", 1), ("accepted", 2))

    assert verdicts_by_number(count_outcomes(publisher, subscriber_records([1], barrier=None))) == {"2": "stuck"}


def test_quarantined_event_is_delivered() -> None:
    counts = count_outcomes(
        publisher_records(3), subscriber_records([1, 3], ("received", 2), ("quarantined", 2), barrier=4)
    )

    assert (counts.lost, counts.stuck) == (0, 0)


def test_event_handled_twice_is_duplicate_and_dropped_copy_is_not() -> None:
    counts = count_outcomes(
        publisher_records(3), subscriber_records([1, 2, 3], ("handled", 2), ("duplicate", 3), barrier=4)
    )

    assert verdicts_by_number(counts) == {"2": "duplicate"}
    assert (counts.duplicate, counts.copies) == (1, 1)


def test_accepted_event_id_without_journal_record_is_lost() -> None:
    counts = count_outcomes(
        publisher_records(3),
        subscriber_records([1, 2, 3], barrier=4),
        [event_id(1), event_id(2), event_id(3), event_id(77)],
    )

    assert verdicts_by_number(counts) == {"77": "lost"}


def without_records(records: list[Record], is_removed: Callable[[Record], bool], *, renumber: bool) -> list[Record]:
    """Return the records that remain; with ``renumber``, the journal is complete and has no missing numbers."""
    kept = [record for record in records if not is_removed(record)]
    return [{**record, "jseq": number} for number, record in enumerate(kept, 1)] if renumber else kept


def is_record_of(seq: int) -> Callable[[Record], bool]:
    return lambda record: record.get("event_id") == event_id(seq)


def test_events_of_missing_journal_records_are_indeterminate() -> None:
    counts = count_outcomes(
        publisher_records(3), without_records(subscriber_records([1, 2, 3], barrier=4), is_record_of(2), renumber=False)
    )

    assert (counts.lost, counts.indeterminate) == (0, 1)
    assert counts.gaps == (
        "the event journal of the subscriber lacks the records 3 to 4 of epoch subscriber-epoch (an epoch "
        "begins when the agent creates its store)",
    )


def test_event_without_records_in_complete_journal_is_lost() -> None:
    counts = count_outcomes(
        publisher_records(3), without_records(subscriber_records([1, 2, 3], barrier=4), is_record_of(2), renumber=True)
    )

    assert (counts.lost, counts.indeterminate, counts.gaps) == (1, 0, ())


def test_journal_without_last_records_is_reported_as_incomplete() -> None:
    counts = count_outcomes(publisher_records(3), subscriber_records([1, 2, 3], barrier=4)[:-4])

    assert counts.gaps == (
        "the event journal of the subscriber lacks the last records of epoch subscriber-epoch (an epoch "
        "begins when the agent creates its store)",
    )
    assert counts.indeterminate == 1


def test_missing_journal_makes_events_indeterminate() -> None:
    counts = count_outcomes(publisher_records(3), [])

    assert counts.gaps == ("the event journal of the subscriber is missing",)
    assert counts.indeterminate == 3


def test_journal_records_exported_twice_count_once() -> None:
    subscriber = subscriber_records([1, 2, 3], barrier=4)

    assert count_outcomes(publisher_records(3), [*subscriber[:3], *subscriber]).duplicate == 0


def test_interruption_by_fault_is_longest_gap_that_ends_after_fault() -> None:
    moments = [0.0, 1.0, 9.0, 10.0, 13.5, 14.0]

    assert longest_gap_begin_and_length(moments, 10.2, 14.0) == (10.0, 3.5)


def test_interruption_by_fault_begins_before_end_of_its_window() -> None:
    moments = [0.0, 10.0, 11.0, 20.0, 29.0]

    assert longest_gap_begin_and_length(moments, 10.2, 15.0) == (11.0, 9.0)
    assert longest_gap_begin_and_length(moments, 10.2, 10.5) == (10.0, 1.0)


def test_interruption_that_outlasts_next_fault_counts_for_fault_that_began_it() -> None:
    assert longest_gap_begin_and_length([9.5, 10.0, 90.0, 90.5], 10.05, 135.05, next_fault=55.05) == (10.0, 80.0)


def test_interruption_by_next_fault_does_not_count_for_previous_fault() -> None:
    moments = [9.5, 10.0, 40.0, 41.0, 54.5, 55.0, 87.0, 87.5]

    assert longest_gap_begin_and_length(moments, 10.05, 135.05) == (55.0, 32.0)
    assert longest_gap_begin_and_length(moments, 10.05, 135.05, next_fault=55.05) == (10.0, 30.0)
    assert longest_gap_begin_and_length(moments, 15.05, 135.05, next_fault=60.05, skew=5.0) == (10.0, 30.0)
    assert longest_gap_begin_and_length(moments, 55.05, 180.05) == (55.0, 32.0)


def test_interruption_is_unknown_without_events_after_fault() -> None:
    assert longest_gap_begin_and_length([0.0, 1.0], 2.0, 10.0) is None


def test_clock_skew_does_not_hide_interruption() -> None:
    assert longest_gap_begin_and_length([9.0, 9.5, 10.0, 13.5, 14.0], 14.5, 20.0, skew=5.0) == (10.0, 3.5)


def test_publishes_sent_again_on_later_connection_were_interrupted() -> None:
    records = journal_records(
        "publisher",
        ("connected", 0, {"conn": 1}),
        ("sent", 1, {"conn": 1}),
        ("sent", 2, {"conn": 1}),
        ("connected", 0, {"conn": 2}),
        ("sent", 2, {"conn": 2}),
        ("sent", 3, {"conn": 2}),
    )

    assert count_interrupted_publishes(parse_journal("the publisher", records), 3.5) == 1
    assert count_interrupted_publishes(parse_journal("the publisher", records), 8.0) == 0
