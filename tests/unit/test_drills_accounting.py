"""What became of every event, from journals as agents write them, whole and doctored."""

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


def event(seq: int) -> str:
    return f"shop:{EPOCH}:{seq}"


def journal(owner: str, *entries: tuple[Any, ...]) -> list[Record]:
    """Entries are (kind, seq) with more fields; the last record says that the agent stopped."""
    return [
        {"agent": AGENTS[owner], "epoch": EPOCHS[owner], "jseq": number, "kind": kind, "at": float(number)}
        | ({"event_id": event(seq[0]), "topic": "a/b"} | (BARRIER if kind == "barrier" else {}) if seq else {})
        | (seq[1] if len(seq) > 1 else {})
        for number, (kind, *seq) in enumerate([*entries, ("stopped",)], 1)
    ]


def journal_of(owner: str, records: Sequence[Record]) -> AgentJournal:
    """The journal that is read where these records are written; ``at`` is in seconds since the epoch."""
    lines = [{**record, "ts": datetime.fromtimestamp(record["at"], UTC).isoformat()} for record in records]
    return AgentJournal.from_parsed_journal_lines(
        owner, [parse_event_journal_line(number, json.dumps(line)) for number, line in enumerate(lines, 1)]
    )


def published(count: int) -> list[Record]:
    """So many events accepted, sent and acknowledged, and a barrier behind them."""
    kinds = [(kind, seq) for seq in range(1, count + 1) for kind in ("accepted", "acknowledged")]
    return journal(
        "publisher", *kinds, ("accepted", count + 1, BARRIER), ("barrier", count + 1), ("acknowledged", count + 1)
    )


def consumed(handled: Sequence[int], *more: tuple[Any, ...], barrier: int | None) -> list[Record]:
    kinds = [(kind, seq) for seq in handled for kind in ("received", "handled")]
    return journal("subscriber", *kinds, *more, *([("barrier", barrier)] if barrier else []))


def settled(
    publisher: list[Record], subscriber: list[Record], promised: Sequence[str] | None = None
) -> PairEventCounts:
    known = [r["event_id"] for r in publisher if r["kind"] == "accepted" and r["event_id"] != event(4)]
    return count_event_outcomes(
        "orders-mq01",
        "MQTT",
        journal_of("the publisher", publisher),
        journal_of("the subscriber", subscriber),
        known if promised is None else promised,
    )


def verdicts(found: PairEventCounts) -> dict[str, str]:
    return {unit.event_id.rpartition(":")[2]: unit.verdict for unit in found.units}


def test_every_event_handled_once_is_delivered_and_the_barrier_is_no_event() -> None:
    found = settled(published(3), consumed([1, 2, 3], barrier=4))

    assert (found.accepted, found.acknowledged, found.handled) == (3, 3, 3)
    assert (found.lost, found.stuck, found.duplicate, found.indeterminate) == (0, 0, 0, 0)
    assert found.units == ()


def test_an_acknowledged_event_that_a_later_barrier_came_without_is_lost() -> None:
    found = settled(published(3), consumed([1, 3], barrier=4))

    assert found.lost == 1
    assert verdicts(found) == {"2": "lost"}


def test_without_a_later_barrier_it_is_stuck_and_not_lost() -> None:
    found = settled(published(3), consumed([1, 3], barrier=None))

    assert (found.lost, found.stuck) == (0, 1)


def test_first_event_counts_as_lost_when_subscriber_existed_before_it() -> None:
    assert verdicts(settled(published(3), consumed([2, 3], barrier=4))) == {"1": "lost"}
    assert settled(published(3), consumed([], barrier=4)).lost == 3


def test_events_of_which_nothing_came_at_all_are_stuck() -> None:
    found = settled(published(3), consumed([], barrier=None))

    assert (found.lost, found.stuck, found.indeterminate) == (0, 3, 0)


def test_an_event_that_was_received_and_not_handled_is_stuck() -> None:
    found = settled(published(3), consumed([1, 3], ("received", 2), barrier=4))

    assert verdicts(found) == {"2": "stuck"}


def test_an_event_that_no_broker_acknowledged_is_stuck() -> None:
    publisher = journal("publisher", ("accepted", 1), ("acknowledged", 1), ("accepted", 2))

    assert verdicts(settled(publisher, consumed([1], barrier=None))) == {"2": "stuck"}


def test_an_event_that_was_set_aside_is_delivered() -> None:
    found = settled(published(3), consumed([1, 3], ("received", 2), ("quarantined", 2), barrier=4))

    assert (found.lost, found.stuck) == (0, 0)


def test_an_event_handled_twice_is_a_duplicate_and_a_copy_that_was_dropped_is_none() -> None:
    found = settled(published(3), consumed([1, 2, 3], ("handled", 2), ("duplicate", 3), barrier=4))

    assert verdicts(found) == {"2": "duplicate"}
    assert (found.duplicate, found.copies) == (1, 1)


def test_an_id_that_the_agent_returned_and_does_not_know_is_lost() -> None:
    found = settled(published(3), consumed([1, 2, 3], barrier=4), [event(1), event(2), event(3), event(77)])

    assert verdicts(found) == {"77": "lost"}


def doctored(records: list[Record], leave_out: Callable[[Record], bool], *, renumber: bool) -> list[Record]:
    """The records without some; renumbered it is a journal of something else, not one with a hole."""
    kept = [record for record in records if not leave_out(record)]
    return [{**record, "jseq": number} for number, record in enumerate(kept, 1)] if renumber else kept


def is_of(seq: int) -> Callable[[Record], bool]:
    return lambda record: record.get("event_id") == event(seq)


def test_records_cut_out_of_a_journal_make_what_they_may_concern_indeterminate() -> None:
    found = settled(published(3), doctored(consumed([1, 2, 3], barrier=4), is_of(2), renumber=False))

    assert (found.lost, found.indeterminate) == (0, 1)
    assert found.gaps == (
        "the event journal of the subscriber lacks the records 3 to 4 of epoch subscriber-epoch (an epoch "
        "begins when the agent creates its store)",
    )


def test_the_same_journal_written_without_them_is_a_loss() -> None:
    found = settled(published(3), doctored(consumed([1, 2, 3], barrier=4), is_of(2), renumber=True))

    assert (found.lost, found.indeterminate, found.gaps) == (1, 0, ())


def test_a_journal_whose_end_is_missing_is_not_taken_for_a_whole_one() -> None:
    found = settled(published(3), consumed([1, 2, 3], barrier=4)[:-4])

    assert found.gaps == (
        "the event journal of the subscriber lacks the last records of epoch subscriber-epoch (an epoch "
        "begins when the agent creates its store)",
    )
    assert found.indeterminate == 1


def test_a_journal_that_is_not_there_is_a_gap() -> None:
    found = settled(published(3), [])

    assert found.gaps == ("the event journal of the subscriber is missing",)
    assert found.indeterminate == 3


def test_records_that_were_exported_twice_count_once() -> None:
    subscriber = consumed([1, 2, 3], barrier=4)

    assert settled(published(3), [*subscriber[:3], *subscriber]).duplicate == 0


def test_the_silence_of_a_fault_is_the_longest_that_ends_after_it() -> None:
    moments = [0.0, 1.0, 9.0, 10.0, 13.5, 14.0]

    assert longest_gap_begin_and_length(moments, 10.2, 14.0) == (10.0, 3.5)


def test_a_silence_that_began_long_after_the_fault_is_not_its() -> None:
    moments = [0.0, 10.0, 11.0, 20.0, 29.0]

    assert longest_gap_begin_and_length(moments, 10.2, 15.0) == (11.0, 9.0)
    assert longest_gap_begin_and_length(moments, 10.2, 10.5) == (10.0, 1.0)


def test_there_is_no_silence_to_measure_where_nothing_came_after_the_fault() -> None:
    assert longest_gap_begin_and_length([0.0, 1.0], 2.0, 10.0) is None


def test_a_clock_that_is_off_does_not_hide_the_silence() -> None:
    assert longest_gap_begin_and_length([9.0, 9.5, 10.0, 13.5, 14.0], 14.5, 20.0, skew=5.0) == (10.0, 3.5)


def test_in_flight_are_publishes_that_were_sent_again_on_a_later_connection() -> None:
    records = journal(
        "publisher",
        ("connected", 0, {"conn": 1}),
        ("sent", 1, {"conn": 1}),
        ("sent", 2, {"conn": 1}),
        ("connected", 0, {"conn": 2}),
        ("sent", 2, {"conn": 2}),
        ("sent", 3, {"conn": 2}),
    )

    assert count_interrupted_publishes(journal_of("the publisher", records), 3.5) == 1
    assert count_interrupted_publishes(journal_of("the publisher", records), 8.0) == 0
