"""Call handlers with the messages of the inbox: in order, one message at a time per topic filter.

An event's name is the last segment of its topic. The handlers of an event are the entry points of group
``activemq_fleet.agent.handlers`` with that name, which are called with a ``HandlerEvent``, and the executable with that
name in the directory ``handlers``, which reads the event as JSON. All handlers must succeed. If a handler fails, all of
them run again after a pause that doubles; after ``handler.attempts`` runs the event is quarantined. An event without a
handler counts as handled.

Each filter has a thread, so that a slow handler delays only its own filter. The agent cannot kill a Python handler:
when one takes longer than ``handler.timeout``, the agent stops notifying systemd's watchdog, which then restarts the
agent. The number of attempts of the event is kept.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import entry_points
from operator import attrgetter
from typing import TYPE_CHECKING

from activemq_agent.agent_errors import AgentError, RequestRefusedError, error_with_type
from activemq_agent.executable_handlers import (
    HandlerEvent,
    ProgramRunner,
    event_name,
    find_event_program,
    raise_if_no_directory_of_handlers,
)
from activemq_agent.printable import count_with_noun
from activemq_agent.store import IncomingMessage
from activemq_agent.store.inbox import HandlerStatementError

if TYPE_CHECKING:
    from activemq_agent.config import Config
    from activemq_agent.logs import LogInterface
    from activemq_agent.store import Store

GROUP = "activemq_fleet.agent.handlers"
IDLE = 1.0
"""Seconds after which the loop of an idle worker runs again."""
INBOX_POLL_INTERVAL = 30.0
"""Seconds after which an idle worker reads the inbox again."""
PAGE = 50
PAGE_BYTES = 1 << 20
"""Largest number of messages, and of their bytes, that a worker reads ahead."""
LONGEST_PAUSE = 60.0
SLACK = 5.0
"""Seconds that stopping a handler may take after its timeout."""


Event = HandlerEvent
"""The name by which packages of handlers import the class."""

Handler = Callable[[HandlerEvent], object]


class MessageHandlerRunner:
    """A runner of an agent's message handlers.

    It has one worker thread for each topic filter, from ``start`` to ``close``. ``observe`` is called with an event's
    name and the seconds of each run. Raises AgentError for an entry point that cannot be loaded, and for a directory of
    handlers that cannot be read: their events would otherwise count as handled, or be quarantined.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        *,
        log: LogInterface,
        installed: Mapping[str, Sequence[Handler]] | None = None,
        observe: Callable[[str, float], None] = lambda _name, _seconds: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config, self.store, self.log, self.observe, self.clock = config, store, log, observe, clock
        self.installed = _load_installed_handlers() if installed is None else installed
        self.stop = threading.Event()
        self.handled = 0
        """Number of events whose handlers succeeded since the start."""
        self.without_handler = 0
        """Number of events that had no handler."""
        self.failures = 0
        """Number of failed handler runs."""
        unconfigured_lanes = [lane for lane in store.row_and_byte_counts().lanes if lane not in config.topics]
        self.workers = [HandlerWorker(self, (topic,)) for topic in config.topics]
        if unconfigured_lanes:
            self.workers.append(HandlerWorker(self, tuple(unconfigured_lanes)))  # lanes that are no longer configured
        if self.workers and config.handlers is not None:
            raise_if_no_directory_of_handlers(config.handlers)
        self._by_lane = {lane: worker for worker in self.workers for lane in worker.lanes}

    @property
    def slowest_worker_last_iteration_start(self) -> float:
        """The time at which the slowest worker thread for message handlers last began an iteration of its loop.

        The time is that of ``clock``. A worker whose handler is within its time limit counts as beginning its loop now.
        """
        return min((worker.last_loop_start for worker in self.workers), default=self.clock())

    @property
    def filters_with_overdue_handler(self) -> tuple[str, ...]:
        """The topic filters whose message handler has been running for longer than its timeout."""
        now = self.clock()
        return tuple(lane for worker in self.workers if worker.is_overdue(now) for lane in worker.lanes)

    def start(self) -> None:
        """Start the worker threads of the message handlers.

        They first handle the messages that are already in the inbox.
        """
        for worker in self.workers:
            worker.thread.start()

    def wake(self, lane: str) -> None:
        """Wake the worker thread that handles the messages of a lane, that is, of a topic filter.

        Call this after a message was stored, from any thread.
        """
        worker = self._by_lane.get(lane)
        if worker is not None:
            worker.woken.set()

    def close(self, wait: float) -> None:
        """Close the runner of message handlers: start no more handlers, and wait for running ones.

        It waits at most ``wait`` seconds, then kills executables that still run. Runs that it interrupts do not count
        as attempts, except the first run of a message. If ``handler.attempts`` is 1, the next start quarantines the
        message.
        """
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
        for worker in self.workers:
            worker.withdraw_interrupted_attempt()  # of a Python handler, which cannot be killed


class HandlerWorker:
    """A worker thread that runs an agent's handlers for the messages of one topic filter.

    One worker handles the messages of all filters that are no longer configured.
    """

    def __init__(self, handlers: MessageHandlerRunner, lanes: tuple[str, ...]) -> None:
        self._runner = handlers
        self.lanes = lanes
        self.programs = ProgramRunner()
        self.woken = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"handler {lanes[0]}", daemon=True)
        self._last_loop_start = handlers.clock()
        self._busy_until: float | None = None
        self._pending: deque[IncomingMessage] = deque()
        self._running_rx: int | None = None  # the message whose handlers run

    @property
    def last_loop_start(self) -> float:
        """The time at which a worker thread for message handlers last began an iteration of its loop.

        The time is that of the clock of ``MessageHandlerRunner``. The current time while its handler may still run.
        """
        busy_until = self._busy_until
        if busy_until is not None and (now := self._runner.clock()) <= busy_until:
            return now
        return self._last_loop_start

    def is_overdue(self, now: float) -> bool:
        """Return whether a worker's message handler is overdue: it has been running for longer than its timeout."""
        return self._busy_until is not None and now > self._busy_until

    def withdraw_interrupted_attempt(self) -> None:
        """Do not count the running attempt to handle a message, which the agent's stop interrupts, if there is one."""
        rx, self._running_rx = self._running_rx, None
        if rx is not None:
            with suppress(AgentError):  # the attempt then counts, as after a crash
                self._runner.store.withdraw_interrupted_attempt(rx)

    def _run(self) -> None:
        last_read_at = self._runner.clock()
        self.woken.set()
        while not self._runner.stop.is_set():
            now = self._last_loop_start = self._runner.clock()
            if self.woken.is_set() or now - last_read_at >= INBOX_POLL_INTERVAL:
                self.woken.clear()
                last_read_at = now
                try:
                    self._handle_pending_messages()
                except AgentError as error:  # an error of the disk: the message is still stored
                    self._runner.log.error(
                        "the agent cannot read the received messages in its inbox, for the reason in the field "
                        "`reason`, and tries again. Check the disk of the directory state.directory",
                        topic=self.lanes[0],
                        reason=str(error),
                    )
                    self._pending.clear()
                    self._runner.stop.wait(IDLE)
                    self.woken.set()
            else:
                self.woken.wait(IDLE)

    def _handle_pending_messages(self) -> None:
        """Handle the messages of the worker's filters until none is left or the agent stops."""
        while not self._runner.stop.is_set() and (message := self._next_message()) is not None:
            with suppress(RequestRefusedError):  # the inbox no longer contains the message
                self._handle_until_done(message)

    def _next_message(self) -> IncomingMessage | None:
        """Return the oldest message of the worker's filters, or None.

        Pages are read ahead: no other thread takes messages of these filters.
        """
        for lane in self.lanes:
            if not self._pending:
                self._pending.extend(self._runner.store.pending_messages(lane, PAGE, most_bytes=PAGE_BYTES))
        return self._pending.popleft() if self._pending else None

    def _handle_until_done(self, message: IncomingMessage) -> None:
        """Run a message's handlers until it is handled or quarantined, or the agent stops."""
        config, store, log = self._runner.config, self._runner.store, self._runner.log
        attempt = message.attempts
        reason = (
            f"the agent was stopped or killed, or crashed, {count_with_noun(attempt, 'time')} while it ran the "
            f"handlers of a message on the topic {message.topic!r}: check whether one of these handlers crashes the "
            "agent"
        )
        while not self._runner.stop.is_set():
            self._last_loop_start = self._runner.clock()
            if attempt >= config.handler_attempts:
                store.quarantine(message.rx, reason)
                log.error("event quarantined", topic=message.topic, event_id=_message_id(message), reason=reason)
                return
            handlers = self._handlers_of(message)
            if not handlers:
                self._record_messages_without_handler(message)
                return
            attempt = store.begin_handling_attempt(message.rx)
            self._running_rx = message.rx
            event = HandlerEvent(message.event_id, message.rx_id, message.topic, message.payload, attempt)
            try:
                self._run_handlers(handlers, event)
                self._record_handled(message, event)
            except _HandlerFailure as failure:
                reason = str(failure)
                if self._runner.stop.is_set():
                    self.withdraw_interrupted_attempt()
                    return
            else:
                self._runner.handled += 1
                return
            finally:
                self._running_rx = None
            self._runner.failures += 1
            log.warning(
                "handler failed", topic=message.topic, event_id=_message_id(message), attempt=attempt, reason=reason
            )
            if attempt < config.handler_attempts:
                pause = min(LONGEST_PAUSE, config.handler_pause * 2.0 ** (attempt - 1))
                with self._count_as_alive(pause):
                    self._runner.stop.wait(pause)

    def _handlers_of(self, message: IncomingMessage) -> list[Handler]:
        """Return the handlers of a message in the order in which they run.

        If the executable handler must not run, the first element is a function that raises AgentError instead.
        """
        name, config = event_name(message.topic), self._runner.config
        handlers = list(self._runner.installed.get(name, ()))
        try:
            program = find_event_program(config.handlers, name)
        except AgentError as error:
            return [partial(_raise_agent_error, str(error)), *handlers]
        if program is not None:
            handlers.append(partial(self.programs.run_handler_program, program, config.handler_timeout))
        return handlers

    def _record_messages_without_handler(self, first: IncomingMessage) -> None:
        """Record a message without a handler as handled, with the following messages of this kind, in one commit."""
        messages = [first]
        while self._pending and not self._pending[0].attempts and not self._handlers_of(self._pending[0]):
            messages.append(self._pending.popleft())
        for future in [self._runner.store.queue_handled_record(message.rx) for message in messages]:
            with suppress(RequestRefusedError):  # the inbox no longer contains the message
                future.result()
                self._runner.without_handler += 1
        self._last_loop_start = self._runner.clock()

    @contextmanager
    def _count_as_alive(self, seconds: float) -> Iterator[None]:
        """Count the worker as alive while a ``with`` block runs, for at most ``seconds`` and some slack."""
        self._busy_until = self._runner.clock() + seconds + SLACK
        try:
            yield
        finally:
            self._last_loop_start, self._busy_until = self._runner.clock(), None

    def _run_handlers(self, handlers: Sequence[Handler], event: HandlerEvent) -> None:
        """Run all handlers of an event. Raises _HandlerFailure for the first handler that fails."""
        started_at = self._runner.clock()
        try:
            with self._count_as_alive(len(handlers) * self._runner.config.handler_timeout):
                for handler in handlers:
                    handler(event)
        except AgentError as error:
            raise _HandlerFailure(str(error)) from error
        except BaseException as error:  # the code of a handler is unknown; sys.exit in it must not end this thread
            raise _HandlerFailure(error_with_type(error)) from error
        finally:
            self._runner.observe(event_name(event.topic), self._last_loop_start - started_at)

    def _record_handled(self, message: IncomingMessage, event: HandlerEvent) -> None:
        """Record an event as handled in the agent's store, and try again until the store has accepted the record.

        Raises _HandlerFailure if the statements that its handlers added fail.
        """
        while True:
            self._last_loop_start = self._runner.clock()
            try:
                self._runner.store.queue_handled_record(message.rx, event.statements).result()
                return
            except RequestRefusedError:
                raise
            except HandlerStatementError as error:
                raise _HandlerFailure(
                    f"the SQL statements of the handlers for the event {_message_id(message)} failed ({error}), so "
                    "the agent rolled them back: correct the SQL and its values in the handlers"
                ) from error
            except AgentError as error:
                if event.statements:
                    raise _HandlerFailure(
                        f"the agent rolled back the SQL statements of the handlers for the event "
                        f"{_message_id(message)}, because {error}"
                    ) from error
                self._runner.log.error(
                    "the agent cannot record in its store that a message was handled, for the reason in the "
                    "field `reason`, and tries again. Check the disk of the directory state.directory",
                    event_id=_message_id(message),
                    reason=str(error),
                )
                if self._runner.stop.wait(IDLE):
                    raise


def _raise_agent_error(reason: str, _event: HandlerEvent) -> None:
    raise AgentError(reason)


class _HandlerFailure(Exception):
    """A failed run of an event's handlers; its text is the reason."""


def _message_id(message: IncomingMessage) -> str:
    return message.event_id or message.rx_id


def _load_installed_handlers() -> dict[str, list[Handler]]:
    """Return the handlers that installed packages register, by event name, in the order of their entry points.

    Raises AgentError for an entry point that cannot be loaded.
    """
    handlers: dict[str, list[Handler]] = {}
    for point in sorted(entry_points(group=GROUP), key=attrgetter("name", "value")):
        try:
            handler = point.load()
        except (Exception, SystemExit) as error:  # the code of a handler is unknown
            raise AgentError(
                f"the handler {point.name} ({point.value}) cannot be loaded: {error}. Repair or uninstall its Python "
                "package"
            ) from error
        handlers.setdefault(point.name, []).append(handler)
    return handlers
