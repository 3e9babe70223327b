"""Test connections to the brokers of an agent's configuration: TCP (and TLS), CONNACK, and one round trip."""

from __future__ import annotations

import queue
import ssl
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from activemq_agent.agent_errors import AgentError, ConfigError
from activemq_agent.agent_topics import canary_topic
from activemq_agent.config import DAY, KEYS, Config, format_value
from activemq_agent.config_values import Endpoint
from activemq_agent.connection_events import (
    ConnackReceived,
    ConnectionEnded,
    MessageReceived,
    SessionEvent,
    SubackReceived,
    TransportUp,
)
from activemq_agent.executable_handlers import handler_safety_problems
from activemq_agent.session import Session
from activemq_agent.tls import speaks_tls, tls_context

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class ConnectionTestOutcome:
    """The outcome of a test connection of an agent to one broker.

    It holds the steps that succeeded with their seconds, and the problem. ``steps`` are (name, seconds) in their order;
    ``problem`` is None if the broker serves.
    """

    broker: Endpoint
    steps: tuple[tuple[str, float], ...]
    problem: str | None = None

    @property
    def connection_outcome_line(self) -> str:
        """The outcome of a test connection to a broker, as one line of text.

        The line has the broker, then the time of each step, or the problem.
        """
        steps = ", ".join(f"{name} {1000 * seconds:.1f} ms" for name, seconds in self.steps)
        return f"{self.broker}  " + (
            f"connection test passed  ({steps})" if self.problem is None else f"connection test failed: {self.problem}"
        )


def effective_config_lines(config: Config) -> list[str]:
    """Return the effective configuration of the agent as lines ``key = value`` of agent.conf.

    Defaults are included, and secrets are masked.
    """
    return [f"{key.name} = {format_value(key.value_in(config))}".rstrip() for key in KEYS]


def raise_for_too_short_dedupe_period(config: Config) -> None:
    """Check that an agent remembers event ids long enough to recognize duplicates, else raise ConfigError.

    The period ``dedupe.days`` must be longer than the time in which a duplicate of an event can still arrive. That time
    is ``mb.publisher.timeout`` plus ``subscription.offline.limit``.
    """
    required = config.publisher_timeout + config.offline_limit
    if config.dedupe_days * DAY < required:
        raise ConfigError(
            f"the value {config.dedupe_days:g} of the key dedupe.days of agent.conf is too small. The agent may "
            f"handle an event twice, because a duplicate can arrive up to {required:g} s after the event "
            "(mb.publisher.timeout plus subscription.offline.limit). "
            f"Set dedupe.days to at least {required / DAY:.4g}"
        )


def raise_for_unsafe_handlers(config: Config) -> None:
    """Raise ConfigError if an executable among the agent's message handlers is unsafe to run.

    It is unsafe if users other than root and the agent's could have written it.
    """
    if problems := handler_safety_problems(config.handlers):
        raise ConfigError(*(f"handlers: {problem}" for problem in problems))


def try_brokers(config: Config) -> Iterator[ConnectionTestOutcome]:
    """Test a connection to each broker of an agent's configuration, and yield the outcomes.

    The brokers are tried one after the other; no running agent is disturbed. Raises ConfigError for TLS files that
    cannot be used.
    """
    tls = tls_context(config.tls) if any(broker.tls for broker in config.urls) else None
    for number, broker in enumerate(config.urls, 1):
        yield _ConnectionTest(config, broker, number).run(tls)


class _ConnectionTest:
    """A test connection to one broker."""

    def __init__(self, config: Config, broker: Endpoint, number: int) -> None:
        self._config, self._broker, self._number = config, broker, number
        self._events: queue.SimpleQueue[SessionEvent] = queue.SimpleQueue()
        self._client_id = f"{config.client_id}-check-{uuid.uuid4().hex[:8]}"
        self._topic = canary_topic("", f"{config.agent}-check")
        self._steps: list[tuple[str, float]] = []
        self._is_connack_received = False

    def run(self, tls: ssl.SSLContext | None) -> ConnectionTestOutcome:
        session = Session(
            self._broker, self._config, client_id=self._client_id, clean=True,
            on_event=self._events.put, conn=self._number, tls=tls,
        )  # fmt: skip
        session.start()
        try:
            self._connect()
            self._test_round_trip(session)
        except AgentError as error:
            return ConnectionTestOutcome(self._broker, tuple(self._steps), self._add_tls_advice(str(error)))
        finally:
            session.close(orderly=True)
        return ConnectionTestOutcome(self._broker, tuple(self._steps))

    def _connect(self) -> None:
        started_at, limit = time.monotonic(), self._config.policy.connack_timeout
        timeout_message = (
            f"the broker {self._broker.host_port_text} does not accept the TCP connection of activemq-agent check in "
            f"{limit:g} s: check the broker's process and the network"
        )
        if self._broker.tls:
            timeout_message = (
                f"the broker {self._broker.host_port_text} does not answer the TLS handshake in {limit:g} s: check "
                "the broker's process, and check that this port uses TLS"
            )
        wait_for_event(self._events, TransportUp, started_at + limit, timeout_message)
        self._steps.append(("TLS" if self._broker.tls else "TCP", time.monotonic() - started_at))
        started_at = time.monotonic()
        timeout_message = (
            f"the broker {self._broker.host_port_text} accepts TCP connections, but sends no CONNACK in {limit:g} s: "
            "check the broker's process, and check that this port uses MQTT"
        )
        answer = wait_for_event(self._events, ConnackReceived, started_at + limit, timeout_message)
        self._is_connack_received = True
        if answer.refused is not None:
            keys = (
                "mb.username and mb.password in agent.conf"
                if answer.bad_credentials
                else "the broker's log activemq.log"
            )
            raise AgentError(f"{answer.refused}: check {keys}")
        self._steps.append(("CONNACK", time.monotonic() - started_at))

    def _test_round_trip(self, session: Session) -> None:
        started_at, limit = time.monotonic(), self._config.policy.canary_timeout
        session.subscribe(self._topic, 0)
        suback_timeout = (
            f"the broker {self._broker.host_port_text} accepts the login, but does not answer the MQTT packet "
            f"SUBSCRIBE in {limit:g} s: check the broker's log activemq.log"
        )
        if wait_for_event(self._events, SubackReceived, started_at + limit, suback_timeout).refused:
            raise AgentError(
                f"the broker {self._broker.host_port_text} rejects the subscription to the topic {self._topic}: let "
                f"{self._config.login_user_description} read and write this topic in the broker's ACL"
            )
        body = uuid.uuid4().hex.encode()
        session.publish(self._topic, body)
        delivery_timeout = (
            f"the broker {self._broker.host_port_text} accepts the test message on the topic {self._topic}, but does "
            f"not deliver it in {limit:g} s: check that the broker's ACL lets {self._config.login_user_description} "
            "read this topic, and that the store is not full"
        )
        while wait_for_event(self._events, MessageReceived, started_at + limit, delivery_timeout).payload != body:
            pass
        self._steps.append(("round trip", time.monotonic() - started_at))

    def _add_tls_advice(self, problem: str) -> str:
        """Return the problem, or advice to write ``ssl://`` where a plain connection got no answer from a TLS port."""
        was_silent = bool(self._steps) and not self._is_connack_received
        if was_silent and not self._broker.tls and speaks_tls(self._broker.socket_address, 2.0):
            return (
                f"the port of the broker {self._broker.host_port_text} uses TLS, but the key mb.urls of agent.conf has "
                f"no ssl:// for this broker: write ssl://{self._broker} in mb.urls"
            )
        return problem


def wait_for_event(events: queue.SimpleQueue[SessionEvent], kind: type[E], deadline: float, timeout_message: str) -> E:
    """Wait until a deadline for an event of one kind on an MQTT connection to a broker, and return the event.

    ``kind`` is the class of the event, and ``deadline`` is in monotonic seconds. Raises AgentError with the reason if
    the connection ends, or with the text ``timeout_message`` at the deadline.
    """
    while True:
        try:
            event = events.get(timeout=max(0.001, deadline - time.monotonic()))
        except queue.Empty:
            raise AgentError(timeout_message) from None
        if isinstance(event, ConnectionEnded):
            raise AgentError(event.reason)
        if isinstance(event, kind):
            return event
