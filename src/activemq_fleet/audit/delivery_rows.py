"""Pass journal records and the verdicts on events as Arrow record batches; needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple
from itertools import islice
from typing import Any

import pyarrow as pa

from activemq_fleet.audit.deliveries import Judge
from activemq_fleet.audit.event_records import events_of
from activemq_fleet.audit.journals import (
    Epoch,
    EpochKey,
    Found,
    JournalGap,
    JournalLine,
    MessageWithoutId,
    MissingRecords,
    OrderedRecord,
    SubscriptionChange,
    in_order,
)
from activemq_fleet.audit.reached_ranges import EventRange, RangeKey, Reach, Subscriber, reached_ranges

_TIME = pa.timestamp("us", tz="UTC")
_ROWS = 1 << 13  # rows of a batch

FOUND = pa.schema(
    {
        "what": pa.string(),
        "event_id": pa.string(),
        "agent": pa.string(),
        "epoch": pa.string(),
        "kind": pa.string(),
        "place": pa.int64(),
        "hole": pa.int64(),
        "topic": pa.string(),
        "ts": _TIME,
        "is_sent": pa.bool_(),
        "reason": pa.string(),
    }
)
"""What ``journals.in_order`` yields; ``what`` is record, change, gap, missing or nameless: see ``_found_row``."""
REACH = pa.schema(
    {
        "kind": pa.string(),
        "subscriber": pa.string(),
        "agent": pa.string(),
        "epoch": pa.string(),
        "name": pa.string(),
        "number": pa.int64(),
        "min_seq": pa.int64(),
        "max_seq": pa.int64(),
        "min_first": pa.int64(),
        "max_first": pa.int64(),
        "is_odd": pa.bool_(),
    }
)
"""What has reached whom, of some of the events: keys and values of ``reached_ranges.Reach``."""
JUDGED = pa.schema(
    {
        "event_id": pa.string(),
        "subscriber": pa.string(),
        "verdict": pa.string(),
        "reason": pa.string(),
        "attempts": pa.int32(),
        "topic": pa.string(),
        "accepted": _TIME,
        "handled": _TIME,
        "by": pa.list_(pa.string()),
    }
)
"""Units, and events, which have no ``subscriber``."""

Batches = Iterator[pa.RecordBatch]


def found_of(batches: Iterable[pa.RecordBatch], epochs: Mapping[EpochKey, Epoch]) -> Batches:
    """Yield journal lines in order as rows of ``FOUND``; the columns are the fields of ``JournalLine``."""
    lines = (JournalLine(*row) for row in _rows(batches))
    yield from _batches(map(_found_row, in_order(lines, epochs)), FOUND)


def reach_rows(
    batches: Iterable[pa.RecordBatch], subscribers: Mapping[str, Subscriber], missing: Mapping[str, int]
) -> Batches:
    """Yield the events that reached each subscriber as rows of ``REACH``, from records (``FOUND`` without ``what``)
    ordered by event.
    """
    found = reached_ranges(events_of(_records(batches)), subscribers, missing)
    yield from _batches(((key.kind, *key.stream, key.name, key.number, *astuple(one)) for key, one in found), REACH)


def reach_from(table: pa.Table) -> Reach:
    """Return the events that reached each subscriber from all rows of ``REACH``."""
    reach: Reach = {}
    for kind, subscriber, agent, epoch, name, number, *extremes in _rows(table.to_batches()):
        key = RangeKey(kind, (subscriber, agent, epoch), name, number)
        reach.setdefault(key, EventRange()).add(EventRange(*extremes))
    return reach


def judged_rows(batches: Iterable[pa.RecordBatch], make_judge: Callable[[], Judge]) -> Batches:
    """Yield deliveries and events with verdicts as rows of ``JUDGED``, from records (``FOUND`` without ``what``)
    ordered by event.
    """

    def rows() -> Iterator[tuple[Any, ...]]:
        for outcome, units in make_judge().outcomes_of(events_of(_records(batches))):
            yield from ((*unit, None, None, None, None) for unit in units)
            if outcome:
                event_id, topic, verdict, reason, accepted, handled, by = outcome
                yield event_id, None, verdict, reason, None, topic, accepted, handled, by

    yield from _batches(rows(), JUDGED)


def changes_and_missing(table: pa.Table) -> tuple[list[SubscriptionChange], dict[str, int]]:
    """Return the changes of subscriptions, and the number of missing records by agent, from rows of ``FOUND``."""
    changes, missing = list[SubscriptionChange](), dict[str, int]()
    for what, _, agent, _, _, place, hole, topic, _, is_sent, _ in _rows(table.to_batches()):
        if what == "change":
            changes.append(SubscriptionChange(agent, topic, place, is_sent))
        elif what == "missing":
            missing[agent] = hole
    return changes, missing


def _found_row(found: Found) -> tuple[Any, ...]:
    match found:
        case OrderedRecord():
            return ("record", *found)
        case SubscriptionChange():
            return "change", None, found.subscriber, None, None, found.place, None, found.filter, None, (
                found.is_subscribed
            ), None  # fmt: skip
        case JournalGap():
            return "gap", None, found.agent, found.epoch, None, found.jseq, found.records, None, None, None, found.what
        case MissingRecords():
            return "missing", None, found.agent, None, None, None, found.records, None, None, None, None
        case MessageWithoutId():
            return "nameless", None, found.subscriber, None, found.kind, None, None, None, None, None, None


def _records(batches: Iterable[pa.RecordBatch]) -> Iterator[OrderedRecord]:
    return (OrderedRecord(*row) for row in _rows(batches))


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _batches(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> Batches:
    rows = iter(rows)
    while some := list(islice(rows, _ROWS)):
        columns = [pa.array(column, field.type) for column, field in zip(zip(*some, strict=True), schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
