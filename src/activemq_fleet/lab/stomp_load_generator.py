"""Generate load over STOMP and write the journals of two agents, for releases without a usable MQTT.

The publisher and the consumer write the journal records that agents would, so that a drill is accounted for in the same
way on every release.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from activemq_fleet.addresses import Address
from activemq_fleet.errors import LabError
from activemq_fleet.lab.stomp import RETRY_PAUSE, Credentials, StompConnection, StompPublisher

_STEADY = 5.0
_ANSWER = 5.0


class JournalWriter:
    """A journal in memory, in the format of agents, which ``write`` stores in a file."""

    def __init__(self, owner: str, directory: Path) -> None:
        self._owner, self._directory = owner, directory
        self._epoch = str(uuid.uuid4())
        self._lock = threading.Lock()
        self.records: list[dict[str, Any]] = []

    def add(self, kind: str, **fields: Any) -> None:
        """Append a record of a kind with further fields, timed now."""
        with self._lock:
            now = time.time()
            text = datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            record = {"v": 1, "agent": self._owner, "epoch": self._epoch, "jseq": len(self.records) + 1, "ts": text}
            self.records.append({**record, "kind": kind, **fields, "at": now})

    def event_id(self, seq: int) -> str:
        """Return the event id ``OWNER:EPOCH:SEQ`` for a sequence number."""
        return f"{self._owner}:{self._epoch}:{seq}"

    def write(self) -> None:
        """Write the records as lines of JSON below the directory, as an agent does."""
        directory = self._directory / "agent"
        directory.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({k: v for k, v in record.items() if k != "at"}) for record in self.records]
        (directory / "journal-000000001.jsonl").write_text("".join(f"{line}\n" for line in lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class StompLoadSpec:
    """The settings of a StompLoadGenerator; ``rate`` is in messages a second.

    Without a username no login is sent.
    """

    name: str
    addresses: tuple[Address, ...]
    destination: str
    rate: float
    username: str | None = None
    password: str = field(default="", repr=False)


class StompLoadGenerator:
    """A publisher and a consumer of one queue over STOMP; its methods are those of AgentLoadGenerator."""

    def __init__(self, spec: StompLoadSpec, directory: Path) -> None:
        name = spec.name
        self.name = name
        self.directory = directory / name
        self.directory.mkdir(parents=True)
        self._addresses, self._destination, self._rate = spec.addresses, spec.destination, spec.rate
        self._credentials = Credentials(spec.username, spec.password) if spec.username is not None else None
        self._sent = JournalWriter(f"{name}-publisher", self.directory / "publisher")
        self._taken = JournalWriter(f"{name}-subscriber", self.directory / "subscriber")
        self._end, self._leave = threading.Event(), threading.Event()
        self._workers: list[threading.Thread] = []
        self._errors: list[LabError] = []
        # The audit asks for topics: a barrier's closes the prefix of the events before it.
        self._barrier_topic = f"{spec.destination.rpartition('/')[0] or spec.destination}/__barrier__"
        self._seq, self._connection = 0, 1
        self._lock = threading.Lock()
        self._handled: set[str] = set()
        self._disturbed = time.time()
        self._listens = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._leave.set()
        for worker in self._workers:
            worker.join(70)

    def start(self, timeout: float = 60.0) -> None:
        """Start the consumer, then the publisher. Raises LabError if no broker accepts the consumer in time."""
        self._work(self._consume, "consume")
        if not self._listens.wait(timeout):
            raise LabError(f"{self.name}: no broker lets the consumer in, after {timeout:g} s")
        self._sent.add("connected", conn=self._connection)
        self._work(self._publish, "publish")

    def check(self) -> None:
        """Raise LabError when the publisher has ended by itself."""
        if self._errors:
            raise self._errors[0]

    def is_steady(self) -> bool:
        """Return whether no connection was disturbed for 5 seconds or longer."""
        return time.time() - self._disturbed >= _STEADY

    def rates(self, moment: float, seconds: float) -> tuple[float, float]:
        """Return (accepted, handled) events a second in the ``seconds`` before ``moment`` (epoch seconds)."""
        accepted, handled = (
            sum(r["kind"] == kind and moment - seconds <= r["at"] < moment for r in notes.records[-20_000:])
            for notes, kind in ((self._sent, "accepted"), (self._taken, "handled"))
        )
        return accepted / seconds, handled / seconds

    def last_handled(self) -> float:
        """Return when a message was handled last, in seconds since the epoch; 0 if none was."""
        return next((r["at"] for r in reversed(self._taken.records) if r["kind"] == "handled"), 0.0)

    def burst(self, count: int = 0) -> None:
        """Do nothing: over STOMP one message at a time is in flight, and always one."""

    def finish(self, timeout: float = 60.0) -> None:
        """End the load, wait until all events and a barrier are handled, and write the journals.

        A wait ends when no more events were handled for ``timeout`` seconds. Raises LabError when the publisher failed.
        """
        self._end.set()
        self._workers[-1].join(70)
        promised = {r["event_id"] for r in self._sent.records if r["kind"] == "accepted"}
        self._wait_for(promised, timeout)
        self.check()
        with StompPublisher(self._addresses, self._credentials) as publisher:
            barrier = self._next_id()
            self._sent.add("barrier", event_id=barrier, topic=self._barrier_topic)
            publisher.publish(self._destination, json.dumps({"eventId": barrier, "barrier": True}))
        self._wait_for({barrier}, timeout)
        self._leave.set()
        for worker in self._workers:
            worker.join(70)
        for notes in (self._sent, self._taken):
            notes.add("stopped")
            notes.write()
        lines = [f"{r['at']:.6f} {r['event_id']}\n" for r in self._sent.records if r["kind"] == "acknowledged"]
        (self.directory / "promised").write_text("".join(lines))

    def delete_durable_session(self) -> None:
        """Do nothing: a queue needs no durable session."""

    def _wait_for(self, ids: set[str], timeout: float) -> None:
        deadline, left = time.monotonic() + timeout, len(ids)
        while time.monotonic() < deadline:
            missing = len(ids - self._handled)
            if not missing:
                return
            if missing < left:
                deadline, left = time.monotonic() + timeout, missing
            time.sleep(0.2)

    def _work(self, target: Any, name: str) -> None:
        worker = threading.Thread(target=target, name=f"{name}-{self.name}", daemon=True)
        self._workers.append(worker)
        worker.start()

    def _next_id(self) -> str:
        self._seq += 1
        return self._sent.event_id(self._seq)

    def _publish(self) -> None:
        due = time.monotonic()
        try:
            with StompPublisher(self._addresses, self._credentials) as publisher:
                while not self._end.wait(max(0.0, due - time.monotonic())):
                    due = max(due + 1 / self._rate, time.monotonic() - 1)
                    event = self._next_id()
                    what = {"event_id": event, "topic": self._destination}
                    self._sent.add("accepted", **what)
                    self._sent.add("sent", **what, conn=self._connection)
                    attempts = publisher.publish(self._destination, json.dumps({"eventId": event}), timeout=120)
                    if attempts > 1:
                        self._disturbed = time.time()
                        self._connection += 1
                        self._sent.add("connected", conn=self._connection)
                        self._sent.add("sent", **what, conn=self._connection)
                    self._sent.add("acknowledged", **what)
        except LabError as error:
            self._errors.append(error)

    def _consume(self) -> None:
        for address in itertools.cycle(self._addresses):
            if self._leave.is_set():
                return
            try:
                with StompConnection(address, self._credentials, timeout=_ANSWER) as connection:
                    connection.subscribe(self._destination)
                    self._taken.add("subscribed", filters=[self._destination])
                    self._disturbed = time.time()
                    self._listens.set()
                    self._take(connection)
            except (OSError, LabError):
                self._leave.wait(RETRY_PAUSE)

    def _take(self, connection: StompConnection) -> None:
        while not self._leave.is_set():
            message = connection.receive(0.5)
            if message is None:
                continue
            body = json.loads(message.body)
            event = str(body["eventId"])
            what = {"event_id": event, "topic": self._destination}
            if body.get("barrier"):
                self._taken.add("barrier", event_id=event, topic=self._barrier_topic)
            elif event in self._handled:
                self._taken.add("duplicate", **what)
            else:
                self._taken.add("received", **what)
                self._taken.add("handled", **what)
            self._handled.add(event)
            connection.acknowledge(message)
