"""Run the agent: create its parts, start their threads, watch them, and stop them.

Every part has a thread. If a thread ends unexpectedly, the agent logs the reason and its process ends, because an agent
with a missing part would appear to work. systemd restarts it, and all accepted events and received messages are in the
store. The service also sends systemd the line that ``systemctl status`` shows.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from activemq_agent import __version__
from activemq_agent.agent_errors import AgentError
from activemq_agent.handling import MessageHandlerRunner
from activemq_agent.journal_files import DIRECTORY, ExportedJournalFiles
from activemq_agent.local_request_server import LocalRequestServer
from activemq_agent.logs import LogInterface, make_log
from activemq_agent.metrics import Metrics
from activemq_agent.publishing import Publisher
from activemq_agent.store import Store
from activemq_agent.subscribing import InboxSubscriber
from activemq_agent.systemd_watchdog import StallDetector, SystemdNotifier

if TYPE_CHECKING:
    from activemq_agent.agent_connection import AgentMqttConnection
    from activemq_agent.config import Config

LOOK = 1.0
"""Seconds between two checks of the parts."""
EXPORT = 1.0
"""Seconds between two exports of the journal."""
FAREWELL = 5.0
"""Seconds that a part may take to end."""


class Service:
    """The service of an agent: all its running parts, such as publisher and subscriber.

    They have one configuration. Each object runs once. ``run`` returns the exit code, ``stop`` has the effect of
    SIGTERM.
    """

    def __init__(
        self, config: Config, *, log: LogInterface | None = None, notifier: SystemdNotifier | None = None
    ) -> None:
        self.config = config
        self._log: LogInterface = log or make_log(config)
        self._notifier = notifier or SystemdNotifier()
        self._stop = threading.Event()
        self._check_requested = threading.Event()
        self._failures: list[str] = []
        self._watched_threads: list[threading.Thread] = []
        self._is_stopping = False
        self.began = time.monotonic()

    def stop(self) -> None:
        """Stop the service of an agent, so that ``run`` returns.

        It refuses further events, and sends those in the outbox before.
        """
        self._stop.set()
        self._check_requested.set()

    def run(self) -> int:
        """Run the agent, a service that publishes and receives MQTT messages, until it is stopped.

        ``stop``, SIGTERM or SIGINT stop it. A second signal ends the process at once. Returns the exit code: 0, or 1 if
        a part of the agent died. Raises AgentError if the agent cannot start.
        """
        with ExitStack() as cleanups:
            self._create_parts(cleanups)
            self._handle_signals(cleanups)
            self._log_thread_failures(cleanups)
            self._start_threads()
            self._watch_parts()
            if self._failures:
                self._log.error(
                    "the agent stops, because one of its threads failed for the reason in the field `reason`. "
                    "systemd starts the agent again. If this happens again, report it with the agent's log",
                    reason="; ".join(self._failures),
                )
                self._notifier.send_assignments_to_systemd("STOPPING=1", f"STATUS={self._failures[0]}")
                self.handlers.close(0.0)
                return 1
            self._drain()
        self._log.info("stopped")
        return 0

    def status(self) -> dict[str, Any]:
        """Return the status of the agent as a dictionary: the data that ``activemq-agent status`` prints.

        Ages and times are in seconds.
        """
        damage = self.store.damage
        state: dict[str, Any] = {
            "agent": self.config.agent,
            "version": __version__,
            "pid": os.getpid(),
            "epoch": self.store.epoch,
            "uptime": round(time.monotonic() - self.began, 3),
            "stopping": self.control.stopping,
            "publisher": {
                **_connection_status(self.publisher.link),
                "sent": self.publisher.sent,
                "acknowledged": self.publisher.acknowledged,
                "refused": self.control.refused,
                "unproved": list(self.publisher.topic_prefixes_without_received_canary),
            },
        }
        if self.subscriber is not None:
            state["subscriber"] = {
                **_connection_status(self.subscriber.link),
                "received": self.subscriber.received,
                "subscribed": sorted(self.subscriber.granted),
                "denied": sorted(self.subscriber.refused),
                "full": list(self.subscriber.filters_with_full_inbox),
            }
        return state | {
            "handlers": {
                "handled": self.handlers.handled,
                "without_handler": self.handlers.without_handler,
                "failures": self.handlers.failures,
                "overdue": list(self.handlers.filters_with_overdue_handler),
            },
            "store": dataclasses.asdict(self.store.row_and_byte_counts()),
            "damage": None if damage is None else str(damage),
        }

    # -- parts ------------------------------------------------------------------------------------

    def _create_parts(self, cleanups: ExitStack) -> None:
        """Create all parts of the agent before any thread runs; everything that can fail at the start does so here."""
        config, log = self.config, self._log
        self.store = Store.open(config.state_directory, agent=config.agent, limits=config.store_limits)
        cleanups.callback(self._close_store)
        if self.store.damage is not None:
            log.error(
                "the agent's store on disk was damaged, so events may be lost. The agent continues with the readable "
                "data. Check the disk of state.directory. The field `reason` shows which events the agent kept and "
                "lost, and where the damaged files are",
                reason=str(self.store.damage),
            )
        numbers = itertools.count(1)  # shared, because publisher and subscriber write to one journal
        self.publisher = Publisher(config, self.store, log=log, numbers=numbers)
        metrics = Metrics(self.status)
        self.handlers = MessageHandlerRunner(config, self.store, log=log, observe=metrics.record_handler_time)
        self.subscriber = (
            InboxSubscriber(config, self.store, log=log, numbers=numbers, on_stored=self.handlers.wake)
            if config.topics
            else None
        )
        self.control = LocalRequestServer(
            config.socket, self.store, self.status, log=log, on_accepted=self.publisher.wake
        )
        cleanups.callback(self.control.close)
        if config.metrics_address:
            metrics.serve(config.metrics_address)
            cleanups.callback(metrics.close)
        self._journal = ExportedJournalFiles(self.store, config.state_directory / DIRECTORY)

    def _start_threads(self) -> None:
        self._publisher_stop, self._subscriber_stop, self._journal_stop = (threading.Event() for _ in range(3))
        self.store.write_journal_record("started", filters=self.config.topics)
        self.publisher_thread = self._start_main_thread("publisher", lambda: self.publisher.run(self._publisher_stop))
        subscriber = self.subscriber
        if subscriber is not None:
            self.subscriber_thread = self._start_main_thread(
                "subscriber", lambda: subscriber.run(self._subscriber_stop)
            )
        self.journal_thread = self._start_main_thread("journal", self._export_journal)
        self.handlers.start()
        self.control.start()
        self._watched_threads += [self.control.thread, *(worker.thread for worker in self.handlers.workers)]
        self._log.info(
            "started", agent=self.config.agent, epoch=self.store.epoch, version=__version__,
            brokers=",".join(map(str, self.config.urls)), topics=",".join(self.config.topics),
        )  # fmt: skip

    def _start_main_thread(self, name: str, target: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            reason = "the thread ended"
            try:
                target()
            except Exception as error:  # noqa: BLE001 -- the process must not continue without this thread
                reason = f"{type(error).__name__}: {error}"
                self._log.error(
                    "a main thread of the agent failed, so the agent stops and systemd starts it again. This is "
                    "a bug of the agent: report it with the field `reason`",
                    part=name,
                    reason=reason,
                    exc_info=True,
                )
            if not self._is_stopping:
                self._failures.append(f"{name}: {reason}")
                self._check_requested.set()

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def _export_journal(self) -> None:
        """Export the agent's event journal from the store to files every second.

        An error of the disk is logged once, and the export tried again.
        """
        is_failing = False
        while True:
            is_last = self._journal_stop.wait(EXPORT)
            try:
                self._journal.export_new_journal_records()
                is_failing = False
            except AgentError as error:
                if not is_failing:
                    self._log.error(
                        "the agent cannot write its event journal, for the reason in the field `reason`, and "
                        "tries again. Check the disk of state.directory",
                        reason=str(error),
                    )
                is_failing = True
            if is_last:
                return

    # -- watching ---------------------------------------------------------------------------------

    def _handle_signals(self, cleanups: ExitStack) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # a test, or a program that embeds the agent, calls stop instead

        def on_signal(number: int, _frame: Any) -> None:
            for handled_signal in (signal.SIGTERM, signal.SIGINT):
                signal.signal(handled_signal, signal.SIG_DFL)  # a second signal terminates the process
            self.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            cleanups.callback(signal.signal, number, signal.signal(number, on_signal))

    def _log_thread_failures(self, cleanups: ExitStack) -> None:
        """Log exceptions that end other threads: those of workers, the store's writer and callers."""
        previous_hook = threading.excepthook

        def log_failure(failure: threading.ExceptHookArgs) -> None:
            name = failure.thread.name if failure.thread else "?"
            reason = f"{failure.exc_type.__name__}: {failure.exc_value}"
            self._log.error(
                "a worker thread of the agent failed. This is a bug of the agent: report it with the field `reason`",
                part=name,
                reason=reason,
            )
            self._check_requested.set()

        threading.excepthook = log_failure
        cleanups.callback(setattr, threading, "excepthook", previous_hook)

    def last_loop_starts(self) -> dict[str, float]:
        """Return the times at which the loops of the agent's parts last started an iteration, by name.

        The parts are publisher, storage, handlers and subscriber; each time is that of the loop's clock.
        """
        ticks = {
            "publisher": self.publisher.last_loop_start,
            "storage": self.store.last_transaction_monotonic_time,
            "handlers": self.handlers.slowest_worker_last_iteration_start,
        }
        if self.subscriber:
            ticks["subscriber"] = self.subscriber.last_loop_start
        return ticks

    def _watch_parts(self) -> None:
        """Check the agent's parts every second and report to systemd, until the agent stops or a main thread fails."""
        stall_detector, is_ready, last_status = StallDetector(), False, ""
        interval = self._notifier.interval or 10.0
        notified_at = time.monotonic() - interval
        while not self._stop.is_set() and not self._failures:
            self._record_ended_threads()
            if not is_ready and self._is_ready():
                is_ready = True
                self._notifier.send_assignments_to_systemd("READY=1")
            now = time.monotonic()
            if now - notified_at >= interval:
                notified_at = now
                stalled = stall_detector.stalled_loops(self.last_loop_starts())
                if stalled:
                    self._log.error(
                        "threads of the agent make no progress, so the agent may not send or handle events. "
                        "Check the disk of state.directory and the handlers in the field `overdue`",
                        loops=",".join(stalled),
                        overdue=",".join(self.handlers.filters_with_overdue_handler),
                        hint="if the threads make no progress for longer, systemd's watchdog restarts the agent",
                    )
                else:
                    self._notifier.send_assignments_to_systemd("WATCHDOG=1")
            if (status := self._systemctl_status_line()) != last_status:
                last_status = status
                self._notifier.send_assignments_to_systemd(f"STATUS={status}")
            self._check_requested.wait(LOOK)
            self._check_requested.clear()

    def _record_ended_threads(self) -> None:
        self._failures += [
            f"{thread.name}: the thread ended" for thread in self._watched_threads if not thread.is_alive()
        ]
        if not self.store.is_alive:
            self._failures.append("store: the writer thread ended")

    def _is_ready(self) -> bool:
        return self.config.ready == "outbox" or self.subscriber is None or bool(self.subscriber.granted)

    def _systemctl_status_line(self) -> str:
        """Return the line that ``systemctl status`` shows: the connected broker, or why none is connected."""
        link = self.publisher.link
        if link.broker:
            return f"connected to {link.broker}"
        return link.alarm or "; ".join(["no broker is connected", *link.failure_reasons.values()])

    # -- stopping ---------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Accept no more events, let outbox and handlers work for at most ``drain.seconds``, and end the threads."""
        self._is_stopping = True
        self._notifier.send_assignments_to_systemd("STOPPING=1", "STATUS=emptying the outbox")
        deadline = time.monotonic() + self.config.drain_seconds
        self.control.stopping = True
        self._subscriber_stop.set()
        with suppress(AgentError):
            self.publisher.add_barriers_to_outbox()
        while (
            self.store.outgoing_events(1)  # expired events in the outbox are not sent
            and time.monotonic() < deadline
            and self.publisher_thread.is_alive()
        ):
            time.sleep(0.05)
        self.handlers.close(max(0.0, deadline - time.monotonic()))
        remaining = self.store.row_and_byte_counts()
        if remaining.outbox_rows or remaining.inbox_rows:
            self._log.warning(
                "the agent stops before it has sent all events and handled all messages. It sends and handles the rest "
                "after its next start",
                outbox=remaining.outbox_rows,
                inbox=remaining.inbox_rows,
            )
        self._publisher_stop.set()
        self.publisher_thread.join(FAREWELL)
        if self.subscriber is not None:
            self.subscriber_thread.join(FAREWELL)
        with suppress(AgentError):
            self.store.write_journal_record("stopped")
        self._journal_stop.set()
        self.journal_thread.join(FAREWELL)

    def _close_store(self) -> None:
        """Close the agent's store in a thread, and wait 5 s at most.

        A dead writer or a busy thread must not delay the end of the agent.
        """
        if self.store.is_alive:
            closing = threading.Thread(target=self.store.close, name="store-close", daemon=True)
            closing.start()
            closing.join(FAREWELL)


def _connection_status(link: AgentMqttConnection) -> dict[str, Any]:
    return {
        "broker": link.broker,
        "brokers": list(link.names),
        "alarm": link.alarm,
        "failure_reasons": dict(link.failure_reasons),
        "connections": link.connections,
        "losses": dict(link.losses),
        "dropped": dict(link.dropped.counts),
        "round_trip": None if link.round_trip is None else round(link.round_trip, 6),
    }
