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
from typing import Any

from activemq_fleet.addresses import Address
from activemq_fleet.agent_topics import BARRIER
from activemq_fleet.errors import LabError
from activemq_fleet.lab.load_generator import LoadGenerator
from activemq_fleet.lab.stomp import RETRY_PAUSE, Credentials, StompConnection, StompPublisher

_STEADY = 5.0
_ANSWER_TIMEOUT = 5.0


class JournalWriteError(LabError):
    """An error of a file system, such as a full disk: a record cannot be written to an event journal."""


class EventJournalWriter:
    """A writer of an event journal: a file with JSON lines about sent and received messages.

    The format is that of the failover agent's journal.
    """

    def __init__(self, owner: str, directory: Path) -> None:
        (directory / "agent").mkdir(parents=True)
        self._path = directory / "agent" / "journal-000000001.jsonl"
        self._file = self._path.open("w", encoding="utf-8", buffering=1)
        self._owner, self._epoch = owner, str(uuid.uuid4())
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def add_record(self, kind: str, **fields: Any) -> None:
        """Append a record about a sent or received message to the event journal.

        The record has the kind, the further fields and the current time. Raises JournalWriteError.
        """
        with self._lock:
            time_text = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            head = {"v": 1, "agent": self._owner, "epoch": self._epoch, "jseq": next(self._numbers), "ts": time_text}
            try:
                self._file.write(json.dumps({**head, "kind": kind, **fields}) + "\n")
            except OSError as error:
                raise JournalWriteError(
                    f"the event journal {self._path} cannot be written ({error.strerror}): free space on this file "
                    "system, or correct the error, and run the drill again"
                ) from error

    def event_id(self, seq: int) -> str:
        """Return the id of the test message numbered ``seq``: ``OWNER:EPOCH:SEQ``, as the event journal has it."""
        return f"{self._owner}:{self._epoch}:{seq}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StompLoadSpec:
    """The specification of a load that is generated over STOMP: its queue, rate and account.

    ``rate`` is in messages per second. Without a username, clients connect without a login.
    """

    name: str
    addresses: tuple[Address, ...]
    destination: str
    rate: float
    username: str | None = None
    password: str = field(default="", repr=False)


class StompLoadGenerator(LoadGenerator):
    """A load generator that publishes to a queue and consumes from it over STOMP.

    Exactly one message is in flight at any time.
    """

    def __init__(self, spec: StompLoadSpec, directory: Path) -> None:
        super().__init__(spec.name, directory)
        self._spec = spec
        self._credentials = Credentials(spec.username, spec.password) if spec.username is not None else None
        self._sent_journal = EventJournalWriter(f"{spec.name}-publisher", self.directory / "publisher")
        self._received_journal = EventJournalWriter(f"{spec.name}-subscriber", self.directory / "subscriber")
        # The audit requires topics: the topic of a barrier closes the prefix of the events before it.
        self._barrier_topic = f"{spec.destination.rpartition('/')[0] or spec.destination}/{BARRIER}"
        self._consumer = threading.Thread(target=self._consume, name=f"consume-{spec.name}", daemon=True)
        self._stop_consuming, self._is_subscribed = threading.Event(), threading.Event()
        self._sequence, self._connections = itertools.count(1), itertools.count(1)
        self._last_disturbance = time.time()

    def start_load(self, timeout: float = 60.0) -> None:
        """Start to publish messages to a queue and to consume them (the load) over STOMP.

        The consumer is started first, then the publisher. Raises LabError if no broker accepts the consumer in time.
        """
        self._consumer.start()
        if not self._is_subscribed.wait(timeout):
            self.raise_if_ended()
            raise LabError(
                f"test load {self.name}: no broker accepted its STOMP consumer within {timeout:g} s: check the logs of "
                "the brokers"
            )
        self._start_thread(self._publish)

    def has_stable_connections(self) -> bool:
        """Return whether publisher and consumer of test messages have kept their STOMP connections for 5 seconds."""
        return time.time() - self._last_disturbance >= _STEADY

    def _kill(self) -> None:
        self._stop_consuming.set()
        if self._consumer.ident is not None:
            self._consumer.join(70)

    def _is_sent(self) -> bool:
        # A barrier may reach the consumer through another broker, and must not overtake events.
        return self.publisher_journal.counts["acknowledged"] <= self.subscriber_journal.counts["handled"]

    def _stop_publisher(self) -> None:
        with self._publisher() as publisher:
            barrier = self._sent_journal.event_id(next(self._sequence))
            self._sent_journal.add_record("barrier", event_id=barrier, topic=self._barrier_topic)
            publisher.publish_until_confirmed(self._spec.destination, json.dumps({"eventId": barrier, "barrier": True}))
        self._sent_journal.add_record("stopped")

    def _stop_subscriber(self) -> None:
        self._kill()
        self._received_journal.add_record("stopped")

    def _publisher(self) -> StompPublisher:
        return StompPublisher(self._spec.addresses, self._credentials)

    def _publish(self) -> None:
        due, connection = time.monotonic(), next(self._connections)
        self._sent_journal.add_record("connected", conn=connection)
        with self._publisher() as publisher:
            while not self._end.wait(max(0.0, due - time.monotonic())):
                due = max(due + 1 / self._spec.rate, time.monotonic() - 1)
                event = self._sent_journal.event_id(next(self._sequence))
                event_fields = {"event_id": event, "topic": self._spec.destination}
                self._sent_journal.add_record("accepted", **event_fields)
                self._sent_journal.add_record("sent", **event_fields, conn=connection)
                attempts = publisher.publish_until_confirmed(
                    self._spec.destination, json.dumps({"eventId": event}), timeout=120
                )
                if attempts > 1:
                    self._last_disturbance = time.time()
                    connection = next(self._connections)
                    self._sent_journal.add_record("connected", conn=connection)
                    self._sent_journal.add_record("sent", **event_fields, conn=connection)
                self._sent_journal.add_record("acknowledged", **event_fields)
                self._accepted_ids.note([event])

    def _consume(self) -> None:
        handled = set[str]()
        for address in itertools.cycle(self._spec.addresses):
            if self._stop_consuming.is_set():
                return
            try:
                with StompConnection(address, self._credentials, timeout=_ANSWER_TIMEOUT) as connection:
                    connection.subscribe(self._spec.destination)
                    self._received_journal.add_record("subscribed", filters=[self._spec.destination])
                    self._last_disturbance = time.time()
                    self._is_subscribed.set()
                    while not self._stop_consuming.is_set():
                        self._handle_next(connection, handled)
            except JournalWriteError as error:
                self._errors.append(error)
                return
            except (OSError, LabError):
                self._stop_consuming.wait(RETRY_PAUSE)

    def _handle_next(self, connection: StompConnection, handled: set[str]) -> None:
        message = connection.receive(0.5)
        if message is None:
            return
        body = json.loads(message.body)
        event = str(body["eventId"])
        event_fields = {"event_id": event, "topic": self._spec.destination}
        if body.get("barrier"):
            self._received_journal.add_record("barrier", event_id=event, topic=self._barrier_topic)
        elif event in handled:
            self._received_journal.add_record("duplicate", **event_fields)
        else:
            self._received_journal.add_record("received", **event_fields)
            self._received_journal.add_record("handled", **event_fields)
        handled.add(event)
        connection.acknowledge(message)
