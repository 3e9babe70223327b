"""The store's writer thread: requests of many callers share one transaction and one fsync."""

from __future__ import annotations

import contextlib
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from activemq_agent.agent_errors import AgentError, OutboxFullError
from activemq_agent.store import inbox, outbox
from activemq_agent.store.clock import ElapsedTimeCounter, MachineClocks
from activemq_agent.store.rows import StoreLimits
from activemq_agent.store.schema import is_machine_failure
from activemq_agent.store.transaction import StoreCounters, Transaction

log = logging.getLogger(__name__)

T = TypeVar("T")
Job = Callable[[Transaction], Any]

GROUP = 1000
"""Largest number of jobs that share one transaction."""
WAITING = 100_000
"""Largest number of jobs that wait for the writer, which bounds memory."""
FORGET_EVERY = 60.0
"""Seconds between two deletions of ids that are too old to be remembered, and of barriers that cannot expire."""


class StoreWriter(threading.Thread):
    """The thread that writes to the agent's store.

    It runs queued jobs in order. Each job is atomic and runs at most once. A job's future is resolved only after the
    commit of its transaction returned. A job that refuses raises AgentError before it has written anything; after any
    other error the group is rolled back and its jobs run one by one, so that only the faulty one fails. Every ``sweep``
    seconds events expire and old ids are forgotten.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        counters: StoreCounters,
        elapsed: ElapsedTimeCounter,
        limits: StoreLimits,
        clock: MachineClocks,
        sweep: float | None,
    ) -> None:
        super().__init__(name="store-writer", daemon=True)
        self.elapsed = elapsed
        self.committed_counters = counters.copy_counters()
        """The counters as of the last commit."""
        self.last_loop_start = clock.seconds_since_boot()
        """Monotonic time of the last transaction."""
        self._db, self._counters, self._limits, self._clock = db, counters, limits, clock
        self._sweep = sweep
        self._queue: queue.SimpleQueue[tuple[Job, Future[Any]] | None] = queue.SimpleQueue()
        self._closing = False
        self._lock = threading.Lock()
        self._swept_at = time.monotonic()
        self._forgot_at = elapsed.seconds_since_outbox_creation()

    def submit(self, job: Callable[[Transaction], T]) -> Future[T]:
        """Submit a job to the thread that writes to an agent's store, and return a future of the job's result.

        Raises AgentError after ``stop``, OutboxFullError if too many jobs wait.
        """
        future: Future[T] = Future()
        if self._queue.qsize() > WAITING:
            raise OutboxFullError(
                f"the agent rejected the request, because it has not written {WAITING} earlier requests to disk yet: "
                "send the request again later. If this error repeats, check the disk of state.directory"
            )
        with self._lock:
            if self._closing:
                raise AgentError("the agent's store is closed, because the agent stopped: start the agent again")
            self._queue.put((job, future))
        return future

    def stop(self) -> None:
        """Stop the thread that writes to an agent's store, and close the database.

        Queued jobs run before.
        """
        with self._lock:
            if not self._closing:
                self._closing = True
                self._queue.put(None)
        self.join()
        self._db.close()

    def run(self) -> None:
        """Run queued jobs on an agent's store until ``stop`` is called.

        This is the writer thread's main function.
        """
        while True:
            group, is_last = self._next_group()
            # Jobs whose callers cancelled them are skipped.
            group = [queued_job for queued_job in group if queued_job[1].set_running_or_notify_cancel()]
            if group:
                self._run_group(group)
            self._expire_and_forget()
            if is_last:
                return

    def _next_group(self) -> tuple[list[tuple[Job, Future[Any]]], bool]:
        group: list[tuple[Job, Future[Any]]] = []
        try:
            queued_job = self._queue.get(timeout=self._sweep)
            while queued_job is not None:
                group.append(queued_job)
                if len(group) >= GROUP:
                    return group, False
                queued_job = self._queue.get_nowait()
        except queue.Empty:
            return group, False
        return group, True

    def _expire_and_forget(self) -> None:
        """Expire events and delete old event ids every ``sweep`` seconds.

        Store the clocks if the wall clock has stepped.
        """
        if self._sweep is None or time.monotonic() - self._swept_at < self._sweep:
            return
        self._swept_at, self.last_loop_start = time.monotonic(), self._clock.seconds_since_boot()
        now = self.elapsed.seconds_since_outbox_creation()
        try:
            due = self._db.execute("SELECT 1 FROM outbox WHERE deadline <= ? LIMIT 1", (now,)).fetchone()
            jobs: list[Job] = [outbox.move_or_drop_expired_events] if due else []
            if now - self._forgot_at >= FORGET_EVERY:
                self._forgot_at = now
                jobs.append(inbox.delete_old_event_ids)
                if due:
                    jobs.append(lambda transaction: outbox.delete_unsent_barriers(transaction, ("outbox",)))
            if jobs or self.elapsed.has_wall_clock_stepped():
                self._run_transaction(jobs)
        except (sqlite3.Error, AgentError) as error:
            log.warning(
                "%s. The agent tries again", _write_failure_text(error) if isinstance(error, sqlite3.Error) else error
            )

    def _run_group(self, group: list[tuple[Job, Future[Any]]]) -> None:
        try:
            results = self._run_transaction([job for job, _ in group])
        except Exception as error:  # noqa: BLE001 -- the caller of a job gets its error
            self._handle_group_failure(group, error)
            return
        for (_, future), result in zip(group, results, strict=True):
            if isinstance(result, AgentError):
                future.set_exception(result)
            else:
                future.set_result(result)

    def _handle_group_failure(self, group: list[tuple[Job, Future[Any]]], error: Exception) -> None:
        is_sqlite_error = isinstance(error, sqlite3.Error)
        if len(group) > 1 and not (isinstance(error, sqlite3.Error) and is_machine_failure(error)):
            for queued_job in group:
                self._run_group([queued_job])
            return
        for _, future in group:
            future.set_exception(AgentError(_write_failure_text(error)) if is_sqlite_error else error)

    def _run_transaction(self, jobs: list[Job]) -> list[Any]:
        """Run jobs in one transaction on the store; return their results, an AgentError for each job that refused.

        Raises what other errors a job or the commit raises, after a rollback.
        """
        self.last_loop_start = self._clock.seconds_since_boot()
        transaction = Transaction(self._db, self._counters, self._limits, self._clock, self.elapsed)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            results = [_run_job(job, transaction) for job in jobs]
            transaction.write_journal_and_counters()
            self._db.execute("COMMIT")
        except BaseException:
            self._counters.__dict__.update(self.committed_counters.copy_counters().__dict__)
            if self._db.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            raise
        self.committed_counters = self._counters.copy_counters()
        return results


def _write_failure_text(error: Exception) -> str:
    return f"the agent's store cannot be written ({error}): check the disk that contains state.directory"


def _run_job(job: Job, transaction: Transaction) -> Any:
    try:
        return job(transaction)
    except AgentError as error:
        return error
