"""Put the records of agents' journals in order without duplicates, and find how many are missing between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from activemq_fleet.audit.verdict_words import MissingJournalPartKind

_EVENT_ID = re.compile(r"(.+):([^:]+):([1-9][0-9]{0,17})", re.DOTALL)
_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_JSEQ_BITS = 44
_JSEQ_LIMIT = 1 << _JSEQ_BITS

EpochKey = tuple[str, str]
"""An agent's name, and the epoch of its store."""


class EventJournalLine(NamedTuple):
    """A parsed line of an agent's event journal, with the record in it.

    The name and the epoch of the agent are known. ``kind`` is None where the rest of the line cannot be read. ``came``:
    the record names a broker or a connection.
    """

    agent: str
    epoch: str
    jseq: int
    ts: datetime | None
    kind: str | None
    event_id: str | None
    rx_id: str | None
    topic: str | None
    came: bool
    filters: list[str] | None
    reason: str | None


class JournalEpochPart(NamedTuple):
    """The records of one epoch (lifetime of an agent's store) that one file of the agent's event journal holds.

    ``agent`` and ``epoch`` are None where they are unknown. ``known``: the highest jseq. ``began``: the earliest time.
    ``line``: the last readable line. ``torn``: the last line after which records of an unknown epoch may be lost.
    """

    host: str
    file: str
    agent: str | None
    epoch: str | None
    known: int | None
    began: datetime | None
    line: int | None
    torn: int | None


class JournalEpoch(NamedTuple):
    """An epoch of an agent's event journal: the part that the agent wrote during the lifetime of one store database.

    A new database begins a new epoch. ``rank`` counts the agent's epochs by time, from 1. ``known`` is the highest
    jseq. ``is_torn``: unreadable lines follow the last record. ``received``: the highest SEQ of its events that any
    subscriber received, 0 for none.
    """

    rank: int
    known: int
    is_torn: bool
    received: int


class EventRecordWithJournalPosition(NamedTuple):
    """A journal record about an event, with its position among all records of its agent.

    ``place`` orders all records of an agent: epochs by time, jseq within an epoch. ``hole``: the number of the agent's
    missing records before it, so that records are missing between two others exactly when their holes differ.
    ``is_sent``: a barrier in its publisher's own journal.
    """

    event_id: str
    agent: str
    epoch: str
    kind: str
    place: int
    hole: int
    topic: str | None
    ts: datetime | None
    is_sent: bool
    reason: str | None


class AgentSubscriptionChange(NamedTuple):
    """A record in an agent's event journal that the agent subscribed to a topic filter or unsubscribed from it.

    The agent is the subscriber. The change has a position in the subscriber's journal. A start of the agent without the
    topic filter in its configuration is a change, too: it ends the subscription.
    """

    subscriber: str
    filter: str
    place: int
    is_subscribed: bool


class AgentJournalGap(NamedTuple):
    """A gap in an agent's journal: records that are missing.

    ``jseq`` is the number of the first missing record; ``records`` is how many are missing, None where unknown.
    """

    agent: str
    epoch: str
    jseq: int
    records: int | None
    missing_part: MissingJournalPartKind


class MissingRecordCount(NamedTuple):
    """The number of records that are missing from the journals of an agent.

    A missing end of a journal counts as one record.
    """

    agent: str
    records: int


JournalFinding = EventRecordWithJournalPosition | AgentSubscriptionChange | AgentJournalGap | MissingRecordCount


def is_barrier_sent_by_agent(line: EventJournalLine) -> bool:
    """Return whether a line of an event journal records a barrier (marker message) that the agent itself sent.

    Returns False for a barrier that the agent received.
    """
    has_own_id = line.event_id is not None and line.event_id.startswith(f"{line.agent}:")
    return line.kind == "barrier" and not line.came and has_own_id


def parse_event_id(event_id: str) -> tuple[str, str, int] | None:
    """Parse an event id, and return its agent, epoch and sequence number.

    Returns None for an id that the publisher chose.
    """
    id_match = _EVENT_ID.fullmatch(event_id)
    return (id_match[1], id_match[2], int(id_match[3])) if id_match else None


def merge_epoch_parts(
    parts: Iterable[JournalEpochPart], highest_seq_by_epoch: Mapping[EpochKey, int]
) -> dict[EpochKey, JournalEpoch]:
    """Return each epoch (lifetime of an agent's store), merged from its parts in one or more event journal files.

    ``highest_seq_by_epoch``: the highest SEQ that any subscriber received, by the agent and epoch in events' ids. An
    epoch without received events is absent.
    """
    parts = list(parts)
    newest_jseq, cut_after = dict[EpochKey, int](), dict[EpochKey, int]()
    began: dict[EpochKey, datetime | None] = {}
    for key, part, part_cut_after in _parts_with_cut_position(parts):
        newest_jseq[key] = max(newest_jseq.get(key, 0), part.known or 0)
        cut_after[key] = max(cut_after.get(key, -1), part_cut_after)
        began[key] = min((at for at in (began.get(key), part.began) if at is not None), default=None)
    by_time = sorted(newest_jseq, key=lambda key: (key[0], began[key] is not None, began[key], key[1]))
    return {
        key: JournalEpoch(rank, newest_jseq[key], cut_after[key] >= newest_jseq[key], highest_seq_by_epoch.get(key, 0))
        for _, keys in groupby(by_time, key=lambda key: key[0])
        for rank, key in enumerate(keys, 1)
    }


def _parts_with_cut_position(parts: Iterable[JournalEpochPart]) -> Iterator[tuple[EpochKey, JournalEpochPart, int]]:
    """Yield each part of a journal epoch with the jseq after which unreadable lines follow; -1 for none."""
    unreadable_ends = dict[tuple[str, str], int]()
    readable = set[tuple[str, str]]()
    for part in parts:
        file = part.host, part.file
        if part.torn is not None:
            unreadable_ends[file] = max(unreadable_ends.get(file, 0), part.torn)
        if part.line is not None:
            readable.add(file)
    # A file without a readable line can belong to any journal of its host.
    hosts_with_unreadable_files = {host for host, file in unreadable_ends if (host, file) not in readable}
    for part in parts:
        if part.agent is not None and part.epoch is not None:
            is_torn = part.line is not None and unreadable_ends.get((part.host, part.file), 0) > part.line
            after = _JSEQ_LIMIT if part.host in hosts_with_unreadable_files else (part.known or 0) if is_torn else -1
            yield (part.agent, part.epoch), part, after


def record_position(epoch: JournalEpoch, jseq: int) -> int:
    """Return the position of a journal record among all records of its agent.

    Positions are ordered by epoch, then by jseq (number within the epoch).
    """
    return (epoch.rank << _JSEQ_BITS) + jseq


def gaps_of_absent_journals(
    epochs_in_event_ids: Iterable[EpochKey], epochs: Mapping[EpochKey, JournalEpoch]
) -> Iterator[AgentJournalGap]:
    """Yield a gap for each epoch (lifetime of an agent's store) whose event journal was not collected.

    Only the ids of events name such an epoch. ``epochs`` are those of the collected journals.
    """
    for agent, epoch in sorted(epochs_in_event_ids):
        if (agent, epoch) not in epochs and _UUID.fullmatch(epoch):
            yield AgentJournalGap(agent, epoch, 1, None, MissingJournalPartKind.JOURNAL)


def records_and_gaps_in_order(
    lines: Iterable[EventJournalLine], epochs: Mapping[EpochKey, JournalEpoch]
) -> Iterator[JournalFinding]:
    """Yield the records of agents' event journals, and the gaps among them, in the order of agent, epoch and number.

    Subscription changes are also yielded. ``lines`` are sorted by agent, epoch and jseq.
    """
    for agent, of_agent in groupby(lines, key=lambda line: line.agent):
        missing, subscribed_filters = 0, set[str]()
        for epoch, of_epoch in groupby(of_agent, key=lambda line: line.epoch):
            reader = _EpochReader(agent, epoch, epochs[agent, epoch], missing, subscribed_filters)
            for line in of_epoch:
                yield from reader.read(line)
            yield from reader.end()
            missing = reader.missing
        yield MissingRecordCount(agent, missing)


@dataclass(slots=True)
class _EpochReader:
    """A reader of one epoch of an agent's journal: the lifetime of one store.

    ``missing`` counts the agent's missing records up to the last line. ``subscribed_filters``: the topic filters to
    which the agent is subscribed after the last line.
    """

    agent: str
    epoch: str
    about: JournalEpoch
    missing: int
    subscribed_filters: set[str]
    _gap_start: int = field(init=False)
    _previous: int = 0
    _newest_read: int = 0
    _newest_own: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._gap_start = self.missing

    def read(self, line: EventJournalLine) -> Iterator[JournalFinding]:
        is_copy = line.jseq == self._previous
        is_whole = line.kind is not None and not is_copy
        # The record of an unreadable line is itself missing.
        self.missing += line.jseq - self._previous - (1 if is_whole else 0)
        self._previous = line.jseq
        if not is_whole:
            return
        yield from self._gap_before(line.jseq)
        self._newest_read = line.jseq
        yield from self._records_in_line(line, record_position(self.about, line.jseq))

    def _records_in_line(self, line: EventJournalLine, place: int) -> Iterator[JournalFinding]:
        """Yield the record of a readable journal line, and the changes of subscriptions in it."""
        assert line.kind is not None  # noqa: S101 -- for the type alone
        if line.event_id is not None:
            is_sent = is_barrier_sent_by_agent(line)
            parts = parse_event_id(line.event_id)
            if parts and parts[:2] == (self.agent, self.epoch) and (line.kind == "accepted" or is_sent):
                self._newest_own = max(self._newest_own or (0, 0), (parts[2], self.missing))
            yield EventRecordWithJournalPosition(
                line.event_id, self.agent, self.epoch, line.kind, place, self.missing, line.topic, line.ts, is_sent,
                line.reason,
            )  # fmt: skip
        if line.kind in ("subscribed", "unsubscribed"):
            yield from self._subscription_changes(line.filters or (), place, is_subscribed=line.kind == "subscribed")
        elif line.kind == "started" and line.filters is not None:
            removed_filters = sorted(self.subscribed_filters.difference(line.filters))
            yield from self._subscription_changes(removed_filters, place, is_subscribed=False)

    def _subscription_changes(
        self, topic_filters: Iterable[str], place: int, *, is_subscribed: bool
    ) -> Iterator[AgentSubscriptionChange]:
        for topic_filter in topic_filters:
            if is_subscribed:
                self.subscribed_filters.add(topic_filter)
            else:
                self.subscribed_filters.discard(topic_filter)
            yield AgentSubscriptionChange(self.agent, topic_filter, place, is_subscribed)

    def end(self) -> Iterator[JournalFinding]:
        yield from self._gap_before(self.about.known + 1)
        # A subscriber received a later event than the journal's newest, and no record after the newest is missing.
        newest_seq, hole = self._newest_own or (0, 0)
        is_short = self.missing == (hole if self._newest_own else self._gap_start) and self.about.received > newest_seq
        if self.about.is_torn or is_short:
            self.missing += 1
            yield AgentJournalGap(self.agent, self.epoch, self.about.known + 1, None, MissingJournalPartKind.END)

    def _gap_before(self, next_number: int) -> Iterator[JournalFinding]:
        """Yield a journal gap if records before the one with the number ``next_number`` are missing."""
        if next_number > self._newest_read + 1:
            yield AgentJournalGap(
                self.agent,
                self.epoch,
                self._newest_read + 1,
                next_number - self._newest_read - 1,
                MissingJournalPartKind.RECORDS,
            )
