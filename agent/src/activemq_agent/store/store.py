"""The agent's durable store: outbox, inbox and journal in one SQLite file, written by one thread."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from activemq_agent.agent_errors import AgentError, RequestRefusedError
from activemq_agent.store import inbox, outbox
from activemq_agent.store.clock import MachineClocks
from activemq_agent.store.damage import store_damage_descriptions
from activemq_agent.store.opening import open_database
from activemq_agent.store.reader import StoreReader
from activemq_agent.store.rows import (
    InboxStorageOutcome,
    IncomingMessage,
    JsonJournalRecord,
    OutgoingEvent,
    SentEvent,
    StoreCounts,
    StoreLimits,
)
from activemq_agent.store.salvage import StoreDamage, finish_interrupted_salvage, salvage_store
from activemq_agent.store.schema import FILE
from activemq_agent.store.state_directory import lock_state_directory
from activemq_agent.store.transaction import Transaction
from activemq_agent.store.writer import StoreWriter

SWEEP = 0.5
"""Seconds between checks for events that expire and ids to forget: expiry is noticed within 1 s."""
LONGEST_REQUEUE = 30.0
"""Seconds after which a call queues no more of all expired events: its caller waits 60 s for the answer."""
LAST_PLACE = (1 << 63) - 1
"""Largest place that a row of the outbox can have."""
MAX_JOURNAL_BYTES = 4 << 20
"""Bytes of the journal that are read at once: senders choose how long topics, and so records, are."""


class Store:
    """The durable store of an agent: events to send, messages to handle and the event journal, in SQLite.

    They are the outbox, the inbox and the journal. Made by ``Store.open``; its methods are for any thread. Methods that
    change something return after the commit and its fsync. Those named ``queue_…`` or ``…_later`` return a future of
    the result instead, and share a transaction with other requests of that moment. All raise AgentError if the disk
    fails, and then nothing has changed.
    """

    def __init__(self, directory: Path, lock_descriptor: int, writer: StoreWriter, damage: StoreDamage | None) -> None:
        self._lock = lock_descriptor
        self._writer = writer
        self._reader = StoreReader(directory / FILE)
        self.epoch = writer.committed_counters.epoch
        """The UUID that was made with the outbox; it is part of the event ids that the agent makes."""
        self.damage = damage
        """The damage that was found and salvaged when the store was opened; None if it was sound."""
        self.on_outgoing: Callable[[], None] = lambda: None
        """A function that any thread calls when the outbox may have new events; it must not wait."""
        writer.start()

    @classmethod
    def open(
        cls, directory: Path, *, agent: str, limits: StoreLimits | None = None, clock: MachineClocks | None = None,
        synchronous: str = "FULL", sweep: float | None = SWEEP,
    ) -> Store:  # fmt: skip
        """Open the store in the state directory of an agent, and return it.

        Locks the directory; a missing store is created, with a new epoch. ``sweep``: seconds, of real time,
        between checks for expired events; None leaves expiry to ``move_or_drop_expired_events``. With
        ``synchronous`` NORMAL an accepted event may be lost with the machine's power. Raises AgentError if another
        agent uses the directory, or if it cannot be used.
        """
        limits, clock = limits or StoreLimits(), clock or MachineClocks()
        descriptor = lock_state_directory(directory)
        try:
            finish_interrupted_salvage(directory)
            reasons = store_damage_descriptions(directory)
            damage = salvage_store(directory, agent=agent, reasons=reasons, now=clock.utc_now()) if reasons else None
            db, counters, elapsed = open_database(
                directory / FILE, agent=agent, limits=limits, clock=clock, synchronous=synchronous
            )
            return cls(directory, descriptor, StoreWriter(db, counters, elapsed, limits, clock, sweep), damage)
        except (OSError, sqlite3.Error) as error:
            os.close(descriptor)
            raise AgentError(
                f"{directory}: the agent's store cannot be opened ({error}): check the disk and the owner of this "
                "directory"
            ) from error
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def is_alive(self) -> bool:
        """Whether an agent's store is alive, that is, its writer thread is running.

        Without this thread, calls would wait indefinitely.
        """
        return self._writer.is_alive()

    @property
    def last_transaction_monotonic_time(self) -> float:
        """The time of the last transaction that was written to an agent's store, by the monotonic clock."""
        return self._writer.last_loop_start

    def close(self) -> None:
        """Close an agent's store, and release the lock on its directory.

        Queued requests are processed before. A second call does nothing.
        """
        if self._lock < 0:
            return
        self._reader.close()
        self._writer.stop()
        os.close(self._lock)
        self._lock = -1

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The publisher's side

    def accept_event(
        self, topic: str, payload: bytes, *, event_id: str | None = None, timeout: float | None = None
    ) -> str:
        """Accept an event into an agent's outbox, and return its event id.

        When this returns, the event is on the disk. An id of the caller's own, in the argument or as member ``eventId``
        of the payload, is kept; if it was accepted before, it is returned and nothing is stored. ``timeout``: elapsed
        seconds until the event expires, above 0. Raises OutboxFullError if there is no room, RequestRefusedError if the
        event could never be sent.
        """
        return self.accept_event_later(topic, payload, event_id=event_id, timeout=timeout).result()

    def accept_event_later(
        self, topic: str, payload: bytes, *, event_id: str | None = None, timeout: float | None = None
    ) -> Future[str]:
        """Queue an event to be accepted into an agent's outbox, and return a future of its event id.

        Raises RequestRefusedError for an event that can never be sent.
        """
        chosen_id = outbox.event_id_chosen_by_publisher(
            topic, payload, event_id, self._writer.committed_counters.agent
        )  # fmt: skip
        if timeout is not None and not outbox.is_valid_event_timeout(timeout):
            raise RequestRefusedError(
                f"the timeout {timeout} of the event is not valid: write a number of seconds above 0"
            )
        future = self._writer.submit(
            lambda transaction: outbox.accept_event(transaction, topic, payload, chosen_id, timeout)
        )
        future.add_done_callback(self._notify_sender)
        return future

    def outgoing_events(self, limit: int, after: int = 0, most_bytes: int | None = None) -> list[OutgoingEvent]:
        """Return the next outgoing events of an agent's outbox, at most ``limit``, after a position.

        Expired events are left out. They are in sending order. ``most_bytes`` bounds all events together; the first one
        is returned whatever its size.
        """
        # The plus keeps SQLite from using the index of deadlines, by which it would have to sort. If all events are
        # past their deadline, the index shows it, and the first place to read is after all events.
        now = self._writer.elapsed.seconds_since_outbox_creation()
        rows = self._reader.undamaged_rows(
            "outbox",
            "place > CASE WHEN EXISTS (SELECT 1 FROM outbox WHERE deadline > ?) THEN ? ELSE ? END AND +deadline > ?",
            now,
            after,
            LAST_PLACE,
            now,
            limit=limit,
            most_bytes=most_bytes,
        )
        return [OutgoingEvent(*row[:4]) for row in rows]

    def queue_journal_records_for_sent_events(self, sent_events: Sequence[SentEvent]) -> Future[None]:
        """Queue an event journal record ``sent`` per event, to be written to the agent's database; return a future.

        The future is done after the commit.
        """
        return self._writer.submit(lambda transaction: outbox.journal_sent_events(transaction, sent_events))

    def queue_removal_of_acknowledged_events(
        self, events: Sequence[SentEvent], is_delivery_proved: bool
    ) -> Future[None]:
        """Queue the removal of acknowledged events from the agent's outbox by its writer thread, and return a future.

        The future is done after the commit. The events are deleted if ``is_delivery_proved``: a canary (a test message)
        proved that their topic prefix works. Others are kept as unconfirmed, within limits.
        """
        return self._writer.submit(
            lambda transaction: outbox.move_or_delete_acknowledged_events(transaction, events, is_delivery_proved)
        )

    def confirm_and_delete_events_below_prefix(self, topic_prefix: str, conn: int, after: int = 0) -> int:
        """Delete an agent's unconfirmed events with a topic prefix, because they are delivered; return their number.

        Called when the prefix's canary (a test message of the agent to itself) came back. The canary confirms the
        unconfirmed events that were sent after it on its connection ``conn`` since the store was opened, that is, those
        with a position in the outbox greater than ``after``, and whose topic without its last level is
        ``topic_prefix``.
        """
        return self._writer.submit(
            lambda transaction: outbox.confirm_and_delete_events_below_prefix(transaction, topic_prefix, conn, after)
        ).result()

    def move_or_drop_expired_events(self) -> int:
        """Take the events that are past their deadline out of an agent's outbox, and return their number.

        They are dropped if the limit ``drop_expired`` is set, else kept as expired. The store calls this automatically
        within 1 s of a deadline, unless ``sweep`` is None.
        """
        return self._writer.submit(outbox.move_or_drop_expired_events).result()

    def requeue_expired_events(self, event_ids: Sequence[str] | None = None) -> int:
        """Queue expired events again, as many as the agent's outbox has room for, and return their number.

        These are all, as many as ``LONGEST_REQUEUE`` allows, or those with the given ids. Unconfirmed events may be
        named too. Expired events that are still in the outbox, because no more can be kept separately, count as
        expired. Raises RequestRefusedError for an id that is neither expired nor unconfirmed.
        """
        if event_ids is not None:
            return self._requeue(lambda transaction: outbox.requeue_events(transaction, event_ids))
        self._writer.submit(lambda transaction: outbox.delete_unsent_barriers(transaction, ("outbox",))).result()
        last_place, requeued = self._writer.committed_counters.place, 0
        end = time.monotonic() + LONGEST_REQUEUE
        while count := self._requeue(lambda job: outbox.requeue_some_expired_events(job, last_place)):
            requeued += count
            if time.monotonic() >= end:
                break
        return requeued

    def _requeue(self, job: Callable[[Transaction], int]) -> int:
        future = self._writer.submit(job)
        future.add_done_callback(self._notify_sender)
        return future.result()

    def _notify_sender(self, _future: Future[Any]) -> None:
        self.on_outgoing()

    # The subscriber's side

    def queue_message_for_inbox(
        self, topic: str, payload: bytes, *, broker: str, conn: int, head: bool = True
    ) -> Future[InboxStorageOutcome]:
        """Queue a received message, to be stored in an agent's inbox, and return a future of the outcome.

        The store's writer thread stores the message. Acknowledge it to the broker unless the outcome is ``full``.
        ``head`` is false while an older message of the same topic filter is still being stored.
        """
        return self._writer.submit(
            lambda transaction: inbox.store_message_and_return_outcome(transaction, topic, payload, broker, conn, head)
        )

    def pending_messages(
        self, lane: str, limit: int = 100, after: int = 0, most_bytes: int | None = None
    ) -> list[IncomingMessage]:
        """Return the pending messages of a lane, which is the part of the inbox for a topic filter.

        They are in the order of receipt. Their handlers have not ended. A lane is a topic filter of the configuration,
        or a topic that none matches. A message whose handler ran when the agent was killed is returned again, with its
        attempts. ``most_bytes`` bounds all messages together; the first one is returned whatever its size.
        """
        rows = self._reader.undamaged_rows(
            "inbox", "lane = ? AND rx > ?", lane, after, limit=limit, most_bytes=most_bytes
        )
        rx_id = self._writer.committed_counters.make_received_message_id
        return [IncomingMessage(row[0], row[1], rx_id(row[0]), row[2], row[3], row[6]) for row in rows]

    def begin_handling_attempt(self, inbox_position: int) -> int:
        """Begin an attempt to handle a message of an agent's inbox, and return the attempt's number.

        The number is recorded. The first is 1. Raises RequestRefusedError if the message is not in the inbox.
        """
        return self._writer.submit(
            lambda transaction: inbox.begin_handling_attempt(transaction, inbox_position)
        ).result()

    def withdraw_interrupted_attempt(self, rx: int) -> None:
        """Withdraw the last attempt to handle a message of an agent's inbox, because the agent's stop interrupted it.

        One attempt stays recorded, so that the next run is not the first. This does nothing if the message is not in
        the inbox.
        """
        self._writer.submit(lambda transaction: inbox.withdraw_interrupted_attempt(transaction, rx)).result()

    def record_handled(self, rx: int) -> None:
        """Record that a message of an agent's inbox was handled.

        Its handlers ended without an error, so they never run again for that message. Raises RequestRefusedError if it
        is not in the inbox.
        """
        self.queue_handled_record(rx).result()

    def queue_handled_record(self, rx: int, statements: Sequence[inbox.Statement] = ()) -> Future[None]:
        """Queue the database update that marks a message of an agent's inbox as handled, and return a future.

        The handlers of the message ended without an error. The future is done after the commit. The SQL statements
        of its handlers take effect with the record, or neither does; tables of handlers begin with ``x_``. The future
        raises RequestRefusedError if the message is not in the inbox, HandlerStatementError for a statement that is
        wrong or not allowed, or has a value that cannot be stored.
        """
        return self._writer.submit(lambda transaction: inbox.record_handled(transaction, rx, statements))

    def quarantine(self, rx: int, reason: str) -> None:
        """Move a message that could not be handled from an agent's inbox to the quarantine, where it is kept.

        The message is never handled again. Raises RequestRefusedError if it is not in the inbox.
        """
        self._writer.submit(lambda transaction: inbox.quarantine_message(transaction, rx, reason)).result()

    # Journal and numbers

    def write_journal_record(self, kind: str, **fields: Any) -> None:
        """Write a record to an agent's event journal, such as that it connected or started.

        The record is about no event. Kinds are such as connected, subscribed, barrier or started.
        """
        self.queue_journal_record(kind, **fields).result()

    def queue_journal_record(self, kind: str, **fields: Any) -> Future[None]:
        """Queue a record for an agent's event journal, such as that it connected.

        Returns a future. Kinds are such as connected or barrier. The future is done after the commit.
        """
        return self._writer.submit(lambda transaction: transaction.add_journal_record(kind, **fields))

    def oldest_journal_records(self, limit: int) -> list[JsonJournalRecord]:
        """Return the oldest records of the event journal in the agent's database, each with its position and JSON text.

        They are not yet exported to files. These are the records of at most ``limit`` rows of the store. Records of a
        damaged row are left out, which shows as a gap in jseq.
        """
        rows = self._reader.undamaged_rows("journal", "true", limit=limit, most_bytes=MAX_JOURNAL_BYTES)
        return [JsonJournalRecord(row[0], line) for row in rows for line in row[1].split("\n")]

    def delete_exported_journal_records(self, position: int) -> None:
        """Delete the exported records of the agent's event journal, up to a position.

        They are in files on the disk.
        """
        self._writer.submit(
            lambda transaction: transaction.db.execute("DELETE FROM journal WHERE position <= ?", (position,)) and None
        ).result()

    def row_and_byte_counts(self) -> StoreCounts:
        """Return the numbers of rows and bytes in an agent's store.

        Only committed rows count.
        """
        counters = self._writer.committed_counters
        rows, sizes = counters.rows, counters.sizes
        oldest, remembered, journal = self._reader.first_row(
            "SELECT (SELECT min(accepted) FROM (SELECT accepted FROM outbox ORDER BY place LIMIT 1)), "
            "(SELECT coalesce(max(n) - min(n) + 1, 0) FROM remembered), "
            "(SELECT coalesce(max(position) - min(position) + 1, 0) FROM journal)"
        )
        return StoreCounts(
            outbox_rows=rows["outbox"],
            outbox_bytes=sizes["outbox"],
            oldest_age=None if oldest is None else self._writer.elapsed.seconds_since_outbox_creation() - oldest,
            expired=rows["expired"],
            expired_bytes=sizes["expired"],
            unconfirmed=rows["unconfirmed"],
            unconfirmed_bytes=sizes["unconfirmed"],
            unconfirmed_dropped=counters.unconfirmed_dropped,
            inbox_rows=rows["inbox"],
            inbox_bytes=sizes["inbox"],
            quarantined=rows["quarantine"],
            duplicates=counters.duplicates,
            remembered=remembered,
            journal_rows=journal,
            damaged=self._reader.damaged_rows_read_count,
            lanes=dict(counters.lanes),
        )
