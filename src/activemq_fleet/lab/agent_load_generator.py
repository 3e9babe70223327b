"""A load generator over MQTT: a publishing and a subscribing agent, each a separate process, under steady load."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from activemq_agent.agent_errors import AgentError
from activemq_agent.client import Client
from activemq_fleet.lab.agent_process import AgentProcess
from activemq_fleet.lab.load_generator import LoadGenerator
from activemq_fleet.lab.polling import poll_for_true_result

STEADY = 10.5
"""Seconds for which both agents must keep their connection before the load counts as steady."""
BATCH = 5
"""Number of events that are handed to the agent in one batch."""
_THREADS = 2
_PATIENCE = 300.0  # Seconds. On an idle machine, each wait takes a few seconds.


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoAgentLoadSpec:
    """The specification of a load that two failover agents generate on a broker pair.

    It has topics, the event rate, and the keys of agent.conf of both agents. ``rate`` is in events per second.
    ``filters`` are the topic filters of the subscriber, which cover ``topic`` and the topics of barriers below the same
    prefix.
    """

    name: str
    topic: str
    filters: tuple[str, ...]
    rate: float
    publisher: Mapping[str, str] = field(repr=False)
    subscriber: Mapping[str, str] = field(repr=False)


class TwoAgentLoadGenerator(LoadGenerator):
    """A load generator that publishes events through one failover agent and receives them through another one."""

    def __init__(self, spec: TwoAgentLoadSpec, directory: Path, sockets: Path) -> None:
        super().__init__(spec.name, directory)
        self.spec = spec
        self.publisher = AgentProcess(
            f"the publisher of the test load {spec.name}", self.directory / "publisher", sockets, spec.publisher, ()
        )
        self.subscriber = AgentProcess(
            f"the subscriber of the test load {spec.name}",
            self.directory / "subscriber",
            sockets,
            spec.subscriber,
            spec.filters,
        )
        self.publisher_journal, self.subscriber_journal = self.publisher.tail, self.subscriber.tail

    def start_load(self, timeout: float = 60.0) -> None:
        """Start the subscriber and the publisher agent, wait until both are connected, and begin to publish events.

        The subscriber is started first. Raises AgentError when the subscriber has not subscribed or the publisher has
        not connected within ``timeout`` seconds each.
        """
        self.subscriber.start()
        if not poll_for_true_result(
            lambda: self.subscriber.record_count("subscribed") >= len(self.spec.filters), timeout
        ):
            raise AgentError(
                f"{self.subscriber.name} has no subscription after {timeout:g} s: check the logs of the brokers. "
                f"Its last output: {self.subscriber.last_output_line}"
            )
        self.publisher.start()
        if not poll_for_true_result(lambda: self.publisher.record_count("connected"), timeout):
            raise AgentError(
                f"{self.publisher.name} is not connected after {timeout:g} s: check the logs of the brokers. "
                f"Its last output: {self.publisher.last_output_line}"
            )
        for _ in range(_THREADS):
            self._start_thread(self._publish)

    def raise_if_ended(self) -> None:
        """Raise AgentError if an agent or a publishing thread of this load generator has ended unexpectedly."""
        for agent in (self.publisher, self.subscriber):
            agent.raise_if_ended()
        super().raise_if_ended()

    def has_stable_connections(self) -> bool:
        """Return whether the publishing and the subscribing agent have both been connected for at least 10.5 seconds.

        Their connections are then stable.
        """
        return all(agent.current_connection_seconds() >= STEADY for agent in (self.publisher, self.subscriber))

    def start_publishing_burst(self, message_count: int = 200) -> None:
        """Start to publish a burst of ``message_count`` events in the background, and return at once.

        Events of the burst are in flight at the drill's next fault.
        """

        def publish() -> None:
            with self._open_client() as client:
                self._accepted_ids.note(client.publish_all([(self.spec.topic, '{"burst": true}')] * message_count))

        self._start_thread(publish)

    def delete_durable_session(self) -> None:
        """Delete the durable session of the load's subscriber on its broker.

        Without a session no messages are stored for the subscriber.
        """
        self.subscriber.delete_durable_session()

    def _kill(self) -> None:
        for agent in (self.publisher, self.subscriber):
            agent.kill()

    def _is_sent(self) -> bool:
        counts = self.publisher_journal.counts
        return counts["accepted"] <= counts["acknowledged"] + counts["unconfirmed"] + counts["expired"]

    def _stop_publisher(self) -> None:
        self.publisher.stop()

    def _stop_subscriber(self) -> None:
        self.subscriber.stop()

    def _publish(self) -> None:
        pause, due, number = _THREADS * BATCH / self.spec.rate, time.monotonic(), 0
        with self._open_client() as client:
            while not self._end.wait(max(0.0, due - time.monotonic())):
                due = max(due + pause, time.monotonic() - 1)  # The generator catches up after a delay of at most 1 s.
                events = [(self.spec.topic, json.dumps({"drill": number + step})) for step in range(BATCH)]
                number += BATCH
                self._accepted_ids.note(client.publish_all(events))

    def _open_client(self) -> Client:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return Client(self.publisher.socket)
            except AgentError:
                self.publisher.raise_if_ended()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
