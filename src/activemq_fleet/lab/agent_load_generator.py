"""A load generator over MQTT: a publishing and a subscribing agent, each a process of its own, under steady load."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from activemq_agent.client import Client
from activemq_agent.errors import AgentError
from activemq_agent.running import AgentProcess, JournalTail
from activemq_fleet.lab.polling import poll

STEADY = 10.5
"""Seconds without a new connection after which agents have settled: one that lasted 10 s has worked."""
BATCH = 5
"""Events that are handed over at once."""
_THREADS = 2
_PATIENCE = 300.0  # seconds for what takes a few on a machine that is not busy


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLoadSpec:
    """The settings of an AgentLoadGenerator: keys of agent.conf for both agents, but directory, socket and topics.

    ``rate`` is in events a second. ``filters`` are the topic filters of the subscriber, which cover ``topic`` and the
    topics of barriers below the same prefix.
    """

    name: str
    topic: str
    filters: tuple[str, ...]
    rate: float
    publisher: Mapping[str, str] = field(repr=False)
    subscriber: Mapping[str, str] = field(repr=False)


class AgentLoadGenerator:
    """A publishing and a subscribing agent with steady load between them; methods raise AgentError, in one line."""

    def __init__(self, spec: AgentLoadSpec, directory: Path, sockets: Path) -> None:
        self.spec = spec
        self.name = spec.name
        self.directory = directory / spec.name
        self.publisher = AgentProcess(
            f"the publisher of {spec.name}", self.directory / "publisher", sockets, spec.publisher, ()
        )
        self.subscriber = AgentProcess(
            f"the subscriber of {spec.name}", self.directory / "subscriber", sockets, spec.subscriber, spec.filters
        )
        self._promises = _Promises(self.directory / "promised")
        self._end = threading.Event()
        self._workers: list[threading.Thread] = []
        self._errors: list[AgentError] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for agent in (self.publisher, self.subscriber):
            agent.kill()
        for worker in self._workers:
            worker.join(70)

    def start(self, timeout: float = 60.0) -> None:
        """Start the subscriber, then the publisher, then the load; return when events are being published.

        The subscriber comes first, because a new subscription gets no earlier events. Raises AgentError when an agent
        is not connected or not subscribed within ``timeout`` seconds.
        """
        self.subscriber.start()
        if not poll(lambda: self.subscriber.count("subscribed") >= len(self.spec.filters), timeout):
            text = f"{self.subscriber.name} has no subscription after {timeout:g} s: {self.subscriber.last_line}"
            raise AgentError(text)
        self.publisher.start()
        if not poll(lambda: self.publisher.count("connected"), timeout):
            text = f"{self.publisher.name} is not connected after {timeout:g} s: {self.publisher.last_line}"
            raise AgentError(text)
        for _ in range(_THREADS):
            self._start_thread(self._publish)

    def check(self) -> None:
        """Raise AgentError when an agent or a publishing thread has ended by itself."""
        for agent in (self.publisher, self.subscriber):
            agent.check()
        if self._errors:
            raise self._errors[0]

    def is_steady(self) -> bool:
        """Return whether both agents have kept their connection for 10.5 seconds or longer."""
        return all(agent.settled_for() >= STEADY for agent in (self.publisher, self.subscriber))

    def rates(self, moment: float, seconds: float) -> tuple[float, float]:
        """Return (accepted, handled) events a second in the ``seconds`` before ``moment`` (epoch seconds)."""
        handled = self.subscriber.tail.read().between("handled", moment - seconds, moment)
        return self._promises.count(moment - seconds, moment) / seconds, handled / seconds

    def last_handled(self) -> float:
        """Return when an event was handled last, in seconds since the epoch; 0 if none was."""
        return self.subscriber.tail.read().last("handled")

    def burst(self, count: int = 200) -> None:
        """Publish ``count`` events at once in a background thread, so that a fault meets events in flight."""
        self._start_thread(self._burst, count)

    def finish(self, timeout: float = 120.0) -> None:
        """End the load, wait until all events and a last barrier are handled, and stop both agents.

        A wait ends early when nothing has moved for ``timeout`` seconds; the journals then show what is missing. Raises
        AgentError when a publishing thread failed or an agent does not end.
        """
        self._end.set()
        for worker in self._workers:
            worker.join(70)
        _while_it_moves(self.publisher.tail, self._is_sent, timeout)
        self.publisher.stop()
        _while_it_moves(self.subscriber.tail, self._is_handled, timeout)
        self.subscriber.stop()
        if self._errors:
            raise self._errors[0]

    def _is_sent(self) -> bool:
        counts = self.publisher.tail.counts
        return counts["accepted"] <= counts["acknowledged"] + counts["unconfirmed"] + counts["expired"]

    def _is_handled(self) -> bool:
        tail = self.subscriber.tail
        is_idle = tail.counts["received"] <= tail.counts["handled"] + tail.counts["quarantined"]
        return is_idle and self.publisher.tail.read().barriers <= tail.barriers

    def delete_durable_session(self) -> None:
        """Delete the subscriber's durable session on its broker, so that no messages are stored for it."""
        self.subscriber.delete_durable_session()

    def _start_thread(self, publish: Callable[..., None], *arguments: int) -> None:
        """Run a method with a client of the publishing agent in a thread; keep the error that ends it early."""

        def work() -> None:
            try:
                with self._client() as client:
                    publish(client, *arguments)
            except AgentError as error:
                if not self._end.is_set():
                    self._errors.append(error)

        worker = threading.Thread(target=work, name=f"load-{self.name}-{len(self._workers)}", daemon=True)
        self._workers.append(worker)
        worker.start()

    def _publish(self, client: Client) -> None:
        pause, due, number = _THREADS * BATCH / self.spec.rate, time.monotonic(), 0
        while not self._end.wait(max(0.0, due - time.monotonic())):
            due = max(due + pause, time.monotonic() - 1)  # what a busy moment held up is made good for
            events = [(self.spec.topic, json.dumps({"drill": number + step})) for step in range(BATCH)]
            number += BATCH
            self._promises.note(client.publish_all(events))

    def _burst(self, client: Client, count: int) -> None:
        self._promises.note(client.publish_all([(self.spec.topic, '{"burst": true}')] * count))

    def _client(self) -> Client:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return Client(self.publisher.socket)
            except AgentError:
                self.publisher.check()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


class _Promises:
    """Ids that the publishing agent has returned, on the disk as they come: ``SECONDS ID`` a line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()
        self._moments: deque[float] = deque(maxlen=50_000)

    def note(self, ids: Iterable[str]) -> None:
        with self._lock:
            now = time.time()
            known = list(ids)
            self._moments.extend([now] * len(known))
            self._file.write("".join(f"{now:.6f} {event_id}\n" for event_id in known))

    def count(self, began: float, ended: float) -> int:
        with self._lock:
            return sum(began <= at < ended for at in self._moments)


def _while_it_moves(tail: JournalTail, is_done: Callable[[], bool], timeout: float) -> None:
    deadline, seen = time.monotonic() + timeout, -1
    while time.monotonic() < deadline:
        moved = tail.read().counts.total()
        if is_done():
            return
        if moved > seen:
            deadline, seen = time.monotonic() + timeout, moved
        time.sleep(0.2)
