"""Define the base class of the load generators of a drill: publishing threads, event journals, and the orderly end."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from activemq_agent.agent_errors import AgentError
from activemq_fleet.errors import LabError
from activemq_fleet.lab.agent_process import JournalTail


class LoadGenerator(ABC):
    """A generator of steady load on a broker pair: it publishes events (numbered messages) and consumes them.

    This is the base class of the load generators. Each has a publisher and a subscriber. Methods raise AgentError or
    LabError with a message of one line.

    The files of both are below ``directory``: ``publisher/agent/*.jsonl`` and ``subscriber/agent/*.jsonl`` are their
    journals, and ``promised`` lists the ids of the accepted events.
    """

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory / name
        self.directory.mkdir(parents=True)
        self.publisher_journal = JournalTail(self.directory / "publisher" / "agent")
        self.subscriber_journal = JournalTail(self.directory / "subscriber" / "agent")
        self._accepted_ids = _AcceptedEventIds(self.directory / "promised")
        self._end = threading.Event()
        self._publishers: list[threading.Thread] = []
        self._errors: list[AgentError | LabError] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._kill()
        self._join_publishers()

    @abstractmethod
    def start_load(self, timeout: float = 60.0) -> None:
        """Start the subscriber of the test messages, wait until it has subscribed, and begin to publish messages.

        The subscriber is started first, because a new subscription gets no earlier events. Raises AgentError or
        LabError when it has not subscribed within ``timeout`` seconds.
        """

    def raise_if_ended(self) -> None:
        """Raise AgentError or LabError if the publisher or subscriber of a load generator has ended unexpectedly."""
        if self._errors:
            raise self._errors[0]

    @abstractmethod
    def has_stable_connections(self) -> bool:
        """Return whether publisher and subscriber of test messages have kept their connections for some seconds."""

    def accepted_and_handled_rates(self, moment: float, seconds: float) -> tuple[float, float]:
        """Return the rates at which brokers accepted and the subscriber handled test messages, in messages per second.

        The rates are those of the ``seconds`` before ``moment``, which is in epoch seconds.
        """
        handled = self.subscriber_journal.add_counts_of_new_journal_records().count_records_between(
            "handled", moment - seconds, moment
        )
        return self._accepted_ids.count(moment - seconds, moment) / seconds, handled / seconds

    def last_handled_time(self) -> float:
        """Return the time, in epoch seconds, at which the subscriber last handled a test message; 0 without one."""
        return self.subscriber_journal.add_counts_of_new_journal_records().last_record_time("handled")

    def start_publishing_burst(self, message_count: int = 200) -> None:  # noqa: B027 -- some load generators cannot publish a burst
        """Start to publish a burst of ``message_count`` messages in the background, and return at once.

        Messages of the burst are in flight at the drill's next fault. The base class does nothing: some load generators
        cannot publish a burst.
        """

    def finish_load(self, timeout: float = 120.0) -> None:
        """Stop publishing test messages, wait until the subscriber has handled all of them, and stop the subscriber.

        Publisher and subscriber are stopped at the end. The publisher sends a barrier after its last event: a message
        that proves that all events before it arrived. This method also waits until the subscriber has handled the
        barrier. A wait ends early when nothing has moved for ``timeout`` seconds; the journals then show what is
        missing. Raises AgentError or LabError when a part of the load failed or does not end.
        """
        self._end.set()
        self._join_publishers()
        self._wait_while_progressing(self._is_sent, timeout)
        self._stop_publisher()
        self._wait_while_progressing(self._is_handled, timeout)
        self._stop_subscriber()
        if self._errors:
            raise self._errors[0]

    def delete_durable_session(self) -> None:  # noqa: B027 -- some load generators have no session
        """Delete the durable MQTT session of a load's subscriber on its broker.

        Without a session no messages are stored for the subscriber. Some subscribers have none.
        """

    @abstractmethod
    def _kill(self) -> None:
        """Kill the publisher and the subscriber of a load at once."""

    @abstractmethod
    def _is_sent(self) -> bool:
        """Return whether the publisher has sent all its messages except the barrier."""

    @abstractmethod
    def _stop_publisher(self) -> None:
        """Make the publisher send a barrier after all messages, and stop it."""

    @abstractmethod
    def _stop_subscriber(self) -> None:
        """Stop the subscriber of a load."""

    def _is_handled(self) -> bool:
        counts = self.subscriber_journal.counts
        is_idle = counts["received"] <= counts["handled"] + counts["quarantined"]
        return is_idle and self.publisher_journal.barriers <= self.subscriber_journal.barriers

    def _wait_while_progressing(self, is_done: Callable[[], bool], timeout: float) -> None:
        deadline, last_count = time.monotonic() + timeout, -1
        while time.monotonic() < deadline:
            record_count = sum(
                tail.add_counts_of_new_journal_records().counts.total()
                for tail in (self.publisher_journal, self.subscriber_journal)
            )
            if is_done():
                return
            if record_count > last_count:
                deadline, last_count = time.monotonic() + timeout, record_count
            time.sleep(0.2)

    def _start_thread(self, work: Callable[[], None]) -> None:
        """Run a publishing function in a thread, and keep the error that ends it early."""

        def run() -> None:
            try:
                work()
            except (AgentError, LabError, OSError) as error:
                if isinstance(error, OSError):
                    error = LabError(f"test load {self.name}: its files cannot be written: {error}")
                if not self._end.is_set():
                    self._errors.append(error)

        thread = threading.Thread(target=run, name=f"load-{self.name}-{len(self._publishers)}", daemon=True)
        self._publishers.append(thread)
        thread.start()

    def _join_publishers(self) -> None:
        for thread in self._publishers:
            thread.join(70)


class _AcceptedEventIds:
    """The file with the ids of accepted events, written as each is accepted, in lines ``SECONDS ID``."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()
        self._moments: deque[float] = deque(maxlen=50_000)

    def note(self, ids: Iterable[str]) -> None:
        with self._lock:
            now = time.time()
            new_ids = list(ids)
            self._moments.extend([now] * len(new_ids))
            self._file.write("".join(f"{now:.6f} {event_id}\n" for event_id in new_ids))

    def count(self, began: float, ended: float) -> int:
        with self._lock:
            return sum(began <= at < ended for at in self._moments)
