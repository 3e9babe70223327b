"""Calls handlers with the messages of the inbox: in order, one message at a time per topic filter.

The handlers of an event are the entry points of group ``activemq_fleet.agent.handlers`` that have its name (the last
segment of its topic), called with a ``HandlerEvent``, and the executable of that name in the directory ``handlers``,
which reads the event as JSON. All of them have to end well; if one fails, all run again after a pause that doubles,
and after ``handler.attempts`` runs the event goes into quarantine. An event without a handler counts as handled.

Each filter has a thread, so that a slow handler delays only its own filter. A handler that is Python code cannot be
killed: when one takes longer than ``handler.timeout``, the agent stops telling systemd's watchdog that it is well,
and the watchdog starts the agent again; the attempts of the event are remembered.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol

from activemq_agent.errors import AgentError, Refused
from activemq_agent.programs import Programs, event_name, find_program
from activemq_agent.store import Incoming
from activemq_agent.store.inbox import lane_of

if TYPE_CHECKING:
    from concurrent.futures import Future
    from contextlib import AbstractContextManager
    from pathlib import Path

    from activemq_agent.config import Config
    from activemq_agent.link import Log
    from activemq_agent.store import Counts, Statements

GROUP = "activemq_fleet.agent.handlers"
IDLE = 1.0
"""Seconds after which a worker without work turns its loop all the same."""
LOOK_AGAIN = 30.0
"""Seconds after which a worker that was not woken reads the inbox all the same."""
PAGE = 50
PAGE_BYTES = 1 << 20
"""Messages, and bytes of them, that a worker has read ahead at most."""
LONGEST_PAUSE = 60.0
SLACK = 5.0
"""Seconds that ending a handler may take after its time is over."""


@dataclass(frozen=True, slots=True)
class HandlerEvent:
    """The event that a Python handler is called with: topic, payload, attempt (from 1) and ids.

    ``event_id`` is None for a message that came without an id; ``rx_id``, the agent's own id of the message, is never
    None. ``statements`` holds what ``execute`` added.
    """

    event_id: str | None
    rx_id: str
    topic: str
    payload: bytes
    attempt: int
    statements: list[tuple[str, Sequence[Any]]] = field(default_factory=list)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Add an SQL statement on the agent's store.

        The statement takes effect together with the record that the event was handled, or not at all. Statements run
        after the last handler of the event has ended well; tables of handlers begin with ``x_``.
        """
        self.statements.append((sql, values))


Event = HandlerEvent
"""The name by which packages of handlers import the class."""

Handler = Callable[[HandlerEvent], object]


class Inbox(Protocol):
    """The methods of a ``Store`` that handling calls."""

    def pending(
        self, topic_filter: str, limit: int = 100, after: int = 0, most_bytes: int | None = None
    ) -> list[Incoming]: ...
    def handling(self, rx: int) -> int: ...
    def handled(self, rx: int) -> None: ...
    def handled_later(self, rx: int) -> Future[None]: ...
    def failed(self, rx: int, reason: str) -> None: ...
    def quarantine(self, rx: int, reason: str) -> None: ...
    def transaction(self, rx: int) -> AbstractContextManager[Statements]: ...
    def counts(self) -> Counts: ...


class Handlers:
    """Runs the handlers of stored messages: one worker thread per topic filter, from ``start`` to ``close``.

    ``observe`` is called with an event's name and the seconds of each run. Raises AgentError for an entry point that
    cannot be loaded: its events would otherwise count as handled.
    """

    def __init__(
        self,
        config: Config,
        store: Inbox,
        *,
        log: Log,
        installed: Mapping[str, Sequence[Handler]] | None = None,
        observe: Callable[[str, float], None] = lambda _name, _seconds: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config, self.store, self.log, self.observe, self.clock = config, store, log, observe, clock
        self.installed = load_installed() if installed is None else installed
        self.stop = threading.Event()
        self.handled = 0
        """Events whose handlers have ended well since the start."""
        self.without_handler = 0
        """Events that had no handler."""
        self.failures = 0
        """Runs that failed."""
        left = [lane for lane in store.counts().lanes if lane not in config.topics]
        self.workers = [Worker(self, (topic,)) for topic in config.topics]
        if left:
            self.workers.append(Worker(self, tuple(left)))  # of topics that the configuration has no more
        self._by_lane = {lane: worker for worker in self.workers for lane in worker.lanes}

    @property
    def tick(self) -> float:
        """The time, by ``clock``, of the oldest among the last turns of all workers.

        A worker whose handler is within its time counts as turning now.
        """
        return min((worker.tick for worker in self.workers), default=self.clock())

    @property
    def overdue(self) -> tuple[str, ...]:
        """The topic filters whose handler has been running for longer than its timeout."""
        now = self.clock()
        return tuple(lane for worker in self.workers if worker.is_overdue(now) for lane in worker.lanes)

    def start(self) -> None:
        """Start the worker threads; they begin with the messages that are in the inbox."""
        for worker in self.workers:
            worker.thread.start()

    def wake(self, lane: str) -> None:
        """Tell the worker of the filter ``lane`` that a message was stored. May be called from any thread."""
        worker = self._by_lane.get(lane)
        if worker is not None:
            worker.woken.set()

    def close(self, wait: float) -> None:
        """Start no more handlers, wait at most ``wait`` seconds for running ones, then kill those that are programs."""
        self.stop.set()
        deadline = time.monotonic() + wait
        for worker in self.workers:
            worker.woken.set()
        for worker in self.workers:
            if worker.thread.is_alive():
                worker.thread.join(max(0.0, deadline - time.monotonic()))
        for worker in self.workers:
            worker.programs.kill()
        for worker in self.workers:
            if worker.thread.is_alive():
                worker.thread.join(1.0)


class Worker:
    """The thread that handles the messages of one topic filter, or of all filters no longer configured."""

    def __init__(self, handlers: Handlers, lanes: tuple[str, ...]) -> None:
        self._all = handlers
        self.lanes = lanes
        self.programs = Programs()
        self.woken = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"handler {lanes[0]}", daemon=True)
        self._turned = handlers.clock()
        self._busy_until: float | None = None
        self._page: deque[Incoming] = deque()

    @property
    def tick(self) -> float:
        """The time, by the clock of ``Handlers``, of the worker's last turn.

        The current time while its handler may still run.
        """
        busy_until = self._busy_until
        if busy_until is not None and (now := self._all.clock()) <= busy_until:
            return now
        return self._turned

    def is_overdue(self, now: float) -> bool:
        """Return whether the worker's handler has been running for longer than its timeout."""
        return self._busy_until is not None and now > self._busy_until

    def _run(self) -> None:
        looked = self._all.clock()
        self.woken.set()
        while not self._all.stop.is_set():
            now = self._turned = self._all.clock()
            if self.woken.is_set() or now - looked >= LOOK_AGAIN:
                self.woken.clear()
                looked = now
                try:
                    self._work()
                except AgentError as error:  # the disk: the message is still there
                    self._all.log.error("the inbox cannot be used", topic=self.lanes[0], reason=str(error))
                    self._page.clear()
                    self._all.stop.wait(IDLE)
                    self.woken.set()
            else:
                self.woken.wait(IDLE)

    def _work(self) -> None:
        """Handle the messages of the worker's filters until none is left or the agent stops."""
        while not self._all.stop.is_set():
            message = self._next()
            if message is None:
                return
            if self._is_nobodys(message):
                self._pass(message)
                continue
            with suppress(Refused):  # not there any more
                self._see_through(message)

    def _is_nobodys(self, message: Incoming) -> bool:
        """Return whether a message has no handler and was never given to one."""
        name = event_name(message.topic)
        return not message.attempts and not self._all.installed.get(name) and self._program(name) == (None, None)

    def _pass(self, first: Incoming) -> None:
        """Record an event without a handler as handled, with those directly behind it: they share a commit."""
        nobodys = [first]
        while self._page and self._is_nobodys(self._page[0]):
            nobodys.append(self._page.popleft())
        for recorded in [self._all.store.handled_later(message.rx) for message in nobodys]:
            with suppress(Refused):  # not there any more
                recorded.result()
                self._all.without_handler += 1
        self._turned = self._all.clock()

    def _next(self) -> Incoming | None:
        """Return the oldest message of the worker's filters, or None.

        Pages are read ahead: no other thread takes messages of these filters.
        """
        topics = self._all.config.topics
        for lane in self.lanes:
            after = 0
            while not self._page:
                rows = self._all.store.pending(lane, PAGE, after, PAGE_BYTES)
                if not rows:
                    break
                after = rows[-1].rx
                # A filter also matches lanes of other filters, which have their own threads.
                self._page.extend(row for row in rows if lane_of(row.topic, topics) == lane)
        return self._page.popleft() if self._page else None

    def _see_through(self, message: Incoming) -> None:
        """Run a message's handlers until it is handled, in quarantine, or the agent stops."""
        config, store = self._all.config, self._all.store
        name = event_name(message.topic)
        attempt = message.attempts
        reason = f"its handler ended with the agent {attempt} times"
        while not self._all.stop.is_set():
            self._turned = self._all.clock()
            if attempt >= config.handler_attempts:
                store.quarantine(message.rx, reason)
                self._all.log.error("event quarantined", topic=message.topic, event_id=_id(message), reason=reason)
                return
            installed = self._all.installed.get(name, ())
            program, unusable = self._program(name)
            if not installed and program is None and unusable is None:
                store.handled(message.rx)  # its handler was taken away between two tries
                self._all.without_handler += 1
                return
            attempt = store.handling(message.rx)
            event = HandlerEvent(message.event_id, message.rx_id, message.topic, message.payload, attempt)
            try:
                if unusable is not None:
                    raise _Failure(unusable)
                self._run_all(installed, program, event, message)
                self._record(message, event)
            except _Failure as failure:
                reason = str(failure)
            else:
                self._all.handled += 1
                return
            if not self._all.stop.is_set():  # a run that ended with the agent is not the handler's failure
                self._failed(message, attempt, reason)

    def _program(self, name: str) -> tuple[Path | None, str | None]:
        """Return the executable for an event, or None and why it must not run.

        (None, None) if there is no such file.
        """
        try:
            return find_program(self._all.config.handlers, name), None
        except AgentError as error:
            return None, str(error)

    def _failed(self, message: Incoming, attempt: int, reason: str) -> None:
        self._all.failures += 1
        self._all.store.failed(message.rx, reason)
        self._all.log.warning(
            "handler failed", topic=message.topic, event_id=_id(message), attempt=attempt, reason=reason
        )
        if attempt < self._all.config.handler_attempts:
            self._pause(min(LONGEST_PAUSE, self._all.config.handler_pause * 2.0 ** (attempt - 1)))

    def _pause(self, seconds: float) -> None:
        self._busy_until = self._all.clock() + seconds + SLACK
        self._all.stop.wait(seconds)
        self._turned, self._busy_until = self._all.clock(), None

    def _run_all(
        self, installed: Sequence[Handler], program: Path | None, event: HandlerEvent, message: Incoming
    ) -> None:
        """Run all handlers of an event. Raises _Failure for the first handler that fails."""
        config, began = self._all.config, self._all.clock()
        runs = len(installed) + (program is not None)
        self._busy_until = began + runs * config.handler_timeout + SLACK
        try:
            for handler in installed:
                handler(event)
            if program is not None:
                self.programs.run(program, message, event.attempt, config.handler_timeout)
        except AgentError as error:
            raise _Failure(str(error)) from error
        except Exception as error:  # a handler is anybody's code
            raise _Failure(f"{type(error).__name__}: {error}") from error
        finally:
            self._turned, self._busy_until = self._all.clock(), None
            self._all.observe(event_name(event.topic), self._turned - began)

    def _record(self, message: Incoming, event: HandlerEvent) -> None:
        """Record an event as handled, trying again until the store has taken it.

        Raises _Failure if the statements that its handlers added fail.
        """
        if event.statements:
            try:
                with self._all.store.transaction(message.rx) as statements:
                    for sql, values in event.statements:
                        statements.execute(sql, values)
            except (AgentError, sqlite3.Error) as error:
                raise _Failure(f"its statements had no effect: {error}") from error
            return
        while True:
            try:
                self._all.store.handled(message.rx)
                return
            except Refused:
                raise
            except AgentError as error:
                self._all.log.error("what was handled cannot be recorded", event_id=_id(message), reason=str(error))
                if self._all.stop.wait(IDLE):
                    raise


class _Failure(Exception):
    """A failed run of an event's handlers; its text is the reason."""


def _id(message: Incoming) -> str:
    return message.event_id or message.rx_id


def load_installed() -> dict[str, list[Handler]]:
    """Return event name -> the handlers that installed packages register under it, in the order of their entry points.

    Raises AgentError for an entry point that cannot be loaded.
    """
    found: dict[str, list[Handler]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda one: (one.name, one.value)):
        try:
            handler = point.load()
        except Exception as error:  # a handler is anybody's code
            raise AgentError(f"handler {point.name} ({point.value}) cannot be loaded: {error}") from error
        found.setdefault(point.name, []).append(handler)
    return found
