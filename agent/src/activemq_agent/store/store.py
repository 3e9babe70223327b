"""The agent's durable store: outbox, inbox and journal in one SQLite file, written by one thread."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from activemq_agent.errors import AgentError, Refused
from activemq_agent.store import inbox, outbox
from activemq_agent.store.clock import Clock, Elapsed, SystemClock
from activemq_agent.store.damage import Damage
from activemq_agent.store.locking import lock
from activemq_agent.store.opening import check_and_salvage, open_database
from activemq_agent.store.reader import Reader
from activemq_agent.store.rows import Counts, Incoming, JournalRecord, Limits, Outgoing, Receipt, Sent
from activemq_agent.store.schema import FILE
from activemq_agent.store.statements import Statements
from activemq_agent.store.transaction import Counters, Transaction
from activemq_agent.store.writer import Job, Writer

FORGET_EVERY = 60.0
MOST_IN_FLIGHT = 100_000
SWEEP = 0.5
"""Seconds between checks for events that expire and ids to forget: expiry is noticed within 1 s."""


class Store:
    """The agent's durable store. Made by ``Store.open``; every method may be called from any thread.

    Methods that change something return after the commit and its fsync. Those named ``_later``
    return a future of the result instead, and share a transaction with other requests of that moment. All raise
    AgentError if the disk fails, and then nothing has changed.
    """

    def __init__(
        self, directory: Path, lock_descriptor: int, db: sqlite3.Connection, counters: Counters, elapsed: Elapsed,
        limits: Limits, clock: Clock, sweep: float | None,
    ) -> None:  # fmt: skip
        self._lock = lock_descriptor
        self._db = db
        self._counters = counters
        self._elapsed = elapsed
        self._limits = limits
        self._clock = clock
        self._reader = Reader(directory / FILE)
        self._sent: dict[int, Sent] = {}
        self._attempts: dict[int, int] = {}
        self._conn = 0
        self.tick = clock.monotonic()
        """Monotonic time of the writer's last transaction."""
        self._forgot = elapsed.now()
        self.on_outgoing: Callable[[], None] = lambda: None
        """Called, by any thread, when the outbox may have something new; it must not wait."""
        self.damage: Damage | None = None
        """The damage that was found and salvaged when the store was opened; None if it was sound."""
        self._writer = Writer(self._transaction, self._look_around, sweep, counters)
        self._writer.start()

    @classmethod
    def open(
        cls, directory: Path, *, agent: str, limits: Limits | None = None, clock: Clock | None = None,
        synchronous: str = "FULL", sweep: float | None = SWEEP,
    ) -> Store:  # fmt: skip
        """Lock the state directory and return the store in it; one is made, with a new epoch, if there is none.

        ``sweep``: seconds, of real time, between checks for expired events; None leaves expiry to ``expire``. With
        ``synchronous`` NORMAL an accepted event may be lost with the machine's power.
        Raises AgentError if another agent uses the directory, or if it cannot be used.
        """
        limits, clock = limits or Limits(), clock or SystemClock()
        descriptor = lock(directory)
        try:
            damage = check_and_salvage(directory, agent, clock)
            db, counters, elapsed = open_database(
                directory / FILE, agent=agent, limits=limits, clock=clock, synchronous=synchronous
            )
            store = cls(directory, descriptor, db, counters, elapsed, limits, clock, sweep)
            store.damage = damage
            return store
        except (OSError, sqlite3.Error) as error:
            os.close(descriptor)
            raise AgentError(f"{directory}: the store cannot be opened: {error}") from error
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def epoch(self) -> str:
        """The UUID that was made with the outbox; it is part of the event ids that the agent makes."""
        return self._counters.epoch

    @property
    def alive(self) -> bool:
        """Whether the writer thread still runs: without it every call would wait for ever."""
        return self._writer.is_alive()

    def close(self) -> None:
        """Finish queued requests, close the files and release the lock on the directory. A second call does nothing."""
        if self._lock < 0:
            return
        self._writer.stop()
        self._reader.close()
        self._db.close()
        os.close(self._lock)
        self._lock = -1

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _transaction(self) -> Transaction:
        self.tick = self._clock.monotonic()
        return Transaction(self._db, self._counters, self._limits, self._clock, self._elapsed)

    def _look_around(self, transaction: Transaction) -> None:
        due = transaction.db.execute("SELECT 1 FROM outbox WHERE deadline <= ? LIMIT 1", (transaction.now,)).fetchone()
        jobs: list[Job] = [outbox.expire] if due else []
        if transaction.now - self._forgot >= FORGET_EVERY:
            self._forgot = transaction.now
            jobs.append(inbox.forget)
        if jobs or self._elapsed.has_stepped():
            self._writer.transact(jobs)

    # The publisher's side

    def accept(self, topic: str, payload: bytes, *, event_id: str | None = None, timeout: float | None = None) -> str:
        """Put an event into the outbox; return its event id once the event is on the disk.

        An id of the caller's own, in the argument or as member ``eventId`` of the payload, is kept; if it was
        accepted before, it is returned and nothing is stored. ``timeout``: elapsed seconds until the event expires.
        Raises Full if there is no room, Refused if the event could never be sent.
        """
        return self.accept_later(topic, payload, event_id=event_id, timeout=timeout).result()

    def accept_later(
        self, topic: str, payload: bytes, *, event_id: str | None = None, timeout: float | None = None
    ) -> Future[str]:
        """Queue an event for the outbox; return a future of its event id. Raises Refused if it could never be sent."""
        own = outbox.check_event(topic, payload, event_id)
        if timeout is not None and not timeout >= 0:
            raise Refused(f"a timeout is a number of seconds from 0, not {timeout}")
        future = self._writer.submit(lambda transaction: outbox.accept(transaction, topic, payload, own, timeout))
        future.add_done_callback(self._tell)
        return future

    def accept_all(self, events: Sequence[tuple[str, bytes]]) -> list[str]:
        """Put (topic, payload) events into the outbox in their order, in few transactions; return their event ids.

        Raises the error of the first event that was refused; the others, if there was room, are accepted then.
        """
        futures = [self.accept_later(topic, payload) for topic, payload in events]
        return [future.result() for future in futures]

    def outgoing(self, limit: int, after: int = 0) -> list[Outgoing]:
        """Return at most ``limit`` unexpired events to be sent whose place is after ``after``, in order."""
        return self._reader.outgoing(limit, after, self._elapsed.now(), lambda place: self._attempts.get(place, 0))

    def sent(self, events: Iterable[Sent | tuple[int, int, int, str]]) -> None:
        """Record that events were sent: (seq, conn, mid, broker) each."""
        self.sent_later(events).result()

    def sent_later(self, events: Iterable[Sent | tuple[int, int, int, str]]) -> Future[None]:
        """Queue the record that events were sent, (seq, conn, mid, broker) each.

        Return a future, done after the commit.
        """
        known = [event if isinstance(event, Sent) else Sent(*event) for event in events]
        newest = max((event.conn for event in known), default=self._conn)
        if newest > self._conn or len(self._attempts) > MOST_IN_FLIGHT:
            # Nothing is acknowledged in a connection that is gone.
            self._conn = newest
            self._sent.clear()
        if len(self._attempts) > MOST_IN_FLIGHT:
            self._attempts.clear()
        for event in known:
            self._sent[event.seq] = event
            self._attempts[event.seq] = self._attempts.get(event.seq, 0) + 1
        return self._writer.submit(lambda transaction: outbox.sent(transaction, known))

    def acknowledged(self, seqs: Iterable[int], proved: bool) -> None:
        """Process PUBACKs for places of the outbox.

        Proved events are deleted, others kept as unconfirmed, within bounds.
        """
        self.acknowledged_later(seqs, proved).result()

    def acknowledged_later(self, seqs: Iterable[int], proved: bool) -> Future[None]:
        """Queue PUBACKs for places of the outbox; return a future that is done after the commit."""
        places = list(seqs)
        wire = {place: self._sent.pop(place) for place in places if place in self._sent}
        for place in places:
            self._attempts.pop(place, None)
        return self._writer.submit(lambda transaction: outbox.acknowledged(transaction, places, proved, wire))

    def prove(self, prefix: str, conn: int | None = None) -> int:
        """Confirm the events below a topic prefix that connection ``conn`` (by default the latest) got acknowledged.

        Called when the prefix's canary (test message) came back. Returns how many unconfirmed events were deleted.
        """
        return self._writer.submit(
            lambda transaction: outbox.prove(transaction, prefix, self._conn if conn is None else conn)
        ).result()

    def expire(self) -> int:
        """Take events whose time is over out of the outbox, kept apart as expired or dropped; return how many.

        The store does so by itself within 1 s, unless ``sweep`` is None.
        """
        return self._writer.submit(outbox.expire).result()

    def requeue(self, event_ids: Sequence[str] | None = None) -> int:
        """Send expired events again with the same ids: all, or those named (unconfirmed ones may be named too).

        Returns how many; fewer than wanted if the outbox is full. Raises Refused for an id of neither kind.
        """
        future = self._writer.submit(lambda transaction: outbox.requeue(transaction, event_ids))
        future.add_done_callback(self._tell)
        return future.result()

    def _tell(self, _future: Future[Any]) -> None:
        self.on_outgoing()

    # The subscriber's side

    def received(self, topic: str, payload: bytes, *, broker: str, conn: int) -> Receipt:
        """Store a message and return its receipt.

        Acknowledge the message to the broker unless the receipt says ``full``.
        """
        return self.received_later(topic, payload, broker=broker, conn=conn).result()

    def received_later(
        self, topic: str, payload: bytes, *, broker: str, conn: int, head: bool = True
    ) -> Future[Receipt]:
        """Queue a message to be stored; return a future of its receipt.

        ``head`` is false while an older message of the same topic filter is still being stored.
        """
        return self._writer.submit(lambda transaction: inbox.received(transaction, topic, payload, broker, conn, head))

    def pending(
        self, topic_filter: str, limit: int = 100, after: int = 0, most_bytes: int | None = None
    ) -> list[Incoming]:
        """Return messages to be handled of a filter or topic, in the order of receipt, those being handled among them.

        A message whose handler ran when the agent was killed is returned again, with its attempts. ``most_bytes``
        bounds all payloads together; the first message is returned whatever its size.
        """
        return self._reader.pending(topic_filter, limit, after, self._counters.rx_id, most_bytes)

    def next_for(self, topic_filter: str, after: int = 0) -> Incoming | None:
        """Return the first message to be handled of a filter or topic, or None."""
        return next(iter(self.pending(topic_filter, 1, after)), None)

    def handling(self, rx: int) -> int:
        """Record that a handler begins with a message; return the number of the attempt, from 1.

        Raises Refused if the message is not in the inbox.
        """
        return self._writer.submit(lambda transaction: inbox.handling(transaction, rx)).result()

    def handled(self, rx: int) -> None:
        """Record that a message's handlers ended well, so that it never runs again.

        Raises Refused if it is not in the inbox.
        """
        self.handled_later(rx).result()

    def handled_later(self, rx: int) -> Future[None]:
        return self._writer.submit(lambda transaction: inbox.handled(transaction, rx))

    def failed(self, rx: int, reason: str) -> None:
        """Do nothing.

        A message whose handler failed stays first of its lane, and the journal has no record for a failure.
        """

    def quarantine(self, rx: int, reason: str) -> None:
        """Move a message from the inbox to the quarantine for good. Raises Refused if it is not in the inbox."""
        self._writer.submit(lambda transaction: inbox.quarantine(transaction, rx, reason)).result()

    @contextmanager
    def transaction(self, rx: int) -> Iterator[Statements]:
        """Context manager: record message ``rx`` as handled and run the statements added in the block, all or nothing.

        They run at the end of the block, in the store's file; tables of handlers begin with ``x_``. Raises AgentError
        for a statement that is wrong or not allowed, Refused if the message is not there.
        """
        statements = Statements()
        yield statements

        def job(transaction: Transaction) -> None:
            inbox.handled(transaction, rx)
            statements.run(transaction.db)

        self._writer.submit(job).result()

    # Journal and numbers

    def note(self, kind: str, **fields: Any) -> None:
        """Write a journal record that changes no event, of kind connected, subscribed, barrier, started and so on."""
        self.note_later(kind, **fields).result()

    def note_later(self, kind: str, **fields: Any) -> Future[None]:
        """Queue a journal record such as connected or barrier; return a future that is done after the commit."""
        return self._writer.submit(lambda transaction: transaction.record(kind, **fields))

    def journal_after(self, position: int, limit: int) -> list[JournalRecord]:
        """Return journal records to be exported, in order, of at most ``limit`` positions after ``position``."""
        return self._reader.journal(position, limit)

    def journal_exported(self, position: int) -> None:
        """Delete journal records up to a position: they are on the disk in the exported files."""
        self._writer.submit(
            lambda transaction: transaction.db.execute("DELETE FROM journal WHERE position <= ?", (position,)) and None
        ).result()

    def counts(self) -> Counts:
        """Return the numbers of committed rows and bytes in the store."""
        counters = self._writer.committed_counters
        oldest, remembered, journal = self._reader.rows(
            "SELECT (SELECT min(accepted) FROM (SELECT accepted FROM outbox ORDER BY place LIMIT 1)), "
            "(SELECT coalesce(max(n) - min(n) + 1, 0) FROM remembered), "
            "(SELECT coalesce(max(position) - min(position) + 1, 0) FROM journal)"
        )[0]
        return Counts(
            outbox_rows=counters.outbox_rows,
            outbox_bytes=counters.outbox_bytes,
            oldest_age=None if oldest is None else self._elapsed.now() - oldest,
            expired=counters.expired_rows,
            expired_bytes=counters.expired_bytes,
            unconfirmed=counters.unconfirmed_rows,
            unconfirmed_bytes=counters.unconfirmed_bytes,
            unconfirmed_dropped=counters.unconfirmed_dropped,
            inbox_rows=counters.inbox_rows,
            inbox_bytes=counters.inbox_bytes,
            quarantined=counters.quarantined,
            duplicates=counters.duplicates,
            remembered=remembered,
            journal_rows=journal,
            damaged=self._reader.damaged,
            lanes=dict(counters.lanes),
        )
