"""Decide when to connect to which broker, and when to leave it: a state machine without sockets or clocks.

A machine manages one connection at a time. Its caller reports events, each with the time in seconds of a monotonic
clock, and carries out the returned actions in their order. ``next_tick_time`` is the time of the next required
``TimePassedEvent``.

Behavior
- A *walk* tries the brokers in the order of the list. The first broker that accepts (CONNACK, code 0) within
  ``connack_timeout`` is used. The first walk, and the first walk after the loss of a working connection, starts
  immediately, without pauses between brokers.
- A connection has *worked* once a canary (a message of the agent to itself) was received and the connection has been
  up for ``stable``. A connection that was lost earlier also counts, unless the previous one was lost as early. For
  ``fast_phase`` after the loss of a working connection, walks are ``fast_pause`` apart. A broker that opens the
  connection but sends nothing extends this phase, to at most ``hung_phase`` after the loss: a frozen master keeps its
  lock, and no standby can take over before this lock is released.
- After that there is a pause before every attempt, so that the rate of an agent does not grow with the length of its
  list. The pauses have full jitter below a ceiling that doubles from ``base`` to ``cap``. Right after a fast phase,
  when all agents of a fleet are at the same point, the first ceiling is ``cap``. Full jitter at the cap would let
  attempts bunch (50 agents: 12 attempts in a second, the mean is 3.3). So after the first pause has spread the agents
  over ``cap``, an agent keeps its place with pauses of ``steady`` to 1 times ``cap`` (2,000 simulated fleets of 50
  agents: at most 10 attempts in a second, the mean is 1.7).
- The loss of a working connection resets the ceiling. Until a connection has worked, the ceiling keeps growing, so
  that two agents that evict each other, or a broker that closes every connection, cause no fast retries.
- Refused credentials raise an alarm and a pause of ``refused_pause``; then the walk continues.
- A canary is sent immediately and then every ``canary_interval``. A canary that is not received within
  ``canary_timeout`` is a miss; a received canary resets the count. ``canary_misses`` consecutive misses end the
  connection.

Invariants
1. There are never two connections: a ``CloseConnectionAction`` of the first connection comes before the next
   ``OpenConnectionAction``. Each connection gets exactly one ``CloseConnectionAction``;
   ``ReportConnectionUpAction`` and ``ReportConnectionDownAction`` come in pairs before it.
2. A tick is always due, except before ``AgentStartedEvent`` and after ``AgentStoppingEvent``. Once a
   ``TimePassedEvent`` was processed, ``next_tick_time`` is in the future, so the caller does not spin.
3. A walk tries the brokers in the order of the list, each once. It begins with the first broker of the list. After a
   connection without an answer, or one that never worked, it begins after that broker; otherwise a broker that
   accepts connections but does not work would keep the agent from the others.
4. Events of a closed connection have no effect, and nothing follows ``AgentStoppingEvent``.
5. The machine never gives up, and its memory does not grow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from activemq_agent.connection_events import ConnackReceived, ConnectionEnded, TransportUp

_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """The settings of an agent's connections: timeouts, pauses and intervals in seconds, and counts.

    These are the keys ``connecting.*`` of agent.conf. The state machine does not use ``keepalive`` (of MQTT) and
    ``puback_timeout``: session and publisher do.
    """

    connack_timeout: float = 5.0
    fast_phase: float = 30.0
    hung_phase: float = 120.0
    fast_pause: tuple[float, float] = (0.2, 1.0)
    base: float = 0.5
    cap: float = 30.0
    steady: float = 0.95
    refused_pause: float = 60.0
    keepalive: int = 10
    canary_interval: float = 15.0
    canary_timeout: float = 5.0
    canary_misses: int = 2
    stable: float = 5.0
    puback_timeout: float = 30.0


# -- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentStartedEvent:
    """Event for an agent's broker selection state machine: the agent has started.

    The state machine then begins to connect to brokers.
    """


@dataclass(frozen=True, slots=True)
class CanaryReceived:
    """Event for an agent's broker selection state machine: a canary (test message of the agent to itself) was received.

    It is the canary ``number``, on connection ``conn``.
    """

    conn: int
    number: int


@dataclass(frozen=True, slots=True)
class TimePassedEvent:
    """Event for an agent's broker selection state machine: time has passed, so that a timeout may be due.

    Send it to the state machine at the time ``BrokerSelectionStateMachine.next_tick_time``.
    """


@dataclass(frozen=True, slots=True)
class AgentStoppingEvent:
    """Event for an agent's broker selection state machine: the agent stops.

    The state machine then closes its connection permanently.
    """


Event = (
    AgentStartedEvent
    | TransportUp
    | ConnackReceived
    | ConnectionEnded
    | CanaryReceived
    | TimePassedEvent
    | AgentStoppingEvent
)
"""An event for ``BrokerSelectionStateMachine.process_event``; ``connection_events`` defines those of a connection."""


# -- actions --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenConnectionAction:
    """Action of an agent's broker selection state machine: open a connection to a broker.

    ``conn`` is the number of the connection, ``broker`` an index of the configured list.
    """

    broker: int
    conn: int


@dataclass(frozen=True, slots=True)
class CloseConnectionAction:
    """Action of an agent's broker selection state machine: close a connection to a broker.

    The messages in flight on connection ``conn`` are dropped.
    """

    conn: int
    reason: str


@dataclass(frozen=True, slots=True)
class SendCanaryAction:
    """Action of an agent's broker selection state machine: send a canary (test message of the agent to itself).

    ``number`` counts from 1 on each connection.
    """

    conn: int
    number: int


@dataclass(frozen=True, slots=True)
class ReportConnectionAlarmAction:
    """Action of an agent's broker selection state machine: report an alarm about failed connections.

    An operator must fix the cause. ``reason`` names the cause, such as refused credentials.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class ReportConnectionUpAction:
    """Action of an agent's broker selection state machine: report to the agent that a connection to a broker is up.

    ``conn`` is the number of the connection, ``broker`` an index of the configured list.
    """

    broker: int
    conn: int


@dataclass(frozen=True, slots=True)
class ReportConnectionDownAction:
    """Action of an agent's broker selection state machine: report to the agent that a connection to a broker is down.

    Connection ``conn`` was up before.
    """

    conn: int
    reason: str


Action = (
    OpenConnectionAction
    | CloseConnectionAction
    | SendCanaryAction
    | ReportConnectionAlarmAction
    | ReportConnectionUpAction
    | ReportConnectionDownAction
)


# -- state machine --------------------------------------------------------------------------------


@dataclass(slots=True)
class _Connection:
    """The connection of a broker selection state machine, from the action that opens it to the one that closes it."""

    broker: int
    conn: int
    deadline: float  # of CONNACK while the connection is opened; then the time of the next canary
    opened: bool = False
    up_at: float | None = None
    canary_received: bool = False  # whether a canary was received on this connection
    number: int = 0  # number of the last canary
    misses: int = 0
    canary_deadline: float | None = None  # of the unanswered canary

    @property
    def next_deadline(self) -> float:
        return self.deadline if self.canary_deadline is None else min(self.deadline, self.canary_deadline)


@dataclass(slots=True)
class BrokerSelectionStateMachine:
    """The state machine of an agent's connections, which decides which broker to connect to, and when.

    It also decides when to leave a broker. It opens no sockets. ``brokers``: length of the list, at least 1;
    ``random``: a function, uniform in [0, 1). ``numbers`` yields the number of each connection; two machines that write
    one journal share it. Raises ValueError without brokers.
    """

    brokers: int
    policy: ConnectionSettings
    random: Callable[[], float] = field(compare=False)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), compare=False)
    _phase: Literal["new", "running", "stopped"] = "new"
    _connection: _Connection | None = None
    _untried_brokers: tuple[int, ...] = ()  # brokers that this walk has not tried yet
    _resume_at: float = 0.0  # when the next attempt begins, while there is no connection
    _lost_at: float = _NEVER  # when the last fast phase began
    _fast_until: float = _NEVER
    _is_quick_walk: bool = True  # this walk has no pauses between brokers
    _was_unstable: bool = False  # the last fast phase followed an unstable connection
    _backoff_level: int = 0  # number of slow pauses since a connection worked

    def __post_init__(self) -> None:
        if self.brokers < 1:
            raise ValueError("no broker is configured: name at least one broker in the key mb.urls of agent.conf")

    @property
    def next_tick_time(self) -> float | None:
        """The time at which the broker selection state machine needs its next ``TimePassedEvent``, in seconds.

        It is None before the start and after the end.
        """
        if self._phase != "running":
            return None
        return self._connection.next_deadline if self._connection else self._resume_at

    def process_event(self, event: Event, now: float) -> tuple[Action, ...]:
        """Process one event of an agent's connection, and return the actions to carry out, in order.

        ``now`` is the time of the event in seconds, which never goes back.
        """
        match event:
            case AgentStartedEvent() if self._phase == "new":
                self._phase = "running"
                return self._start_walk(0, now)
            case AgentStoppingEvent() if self._phase != "stopped":
                self._phase = "stopped"
                return self._close_connection("stopped")
            case TimePassedEvent() if self._phase == "running":
                return self._process_tick(now)
            case AgentStartedEvent() | AgentStoppingEvent() | TimePassedEvent():
                return ()
        connection = self._connection
        if connection is None or connection.conn != event.conn:
            return ()
        return self._process_connection_event(event, connection, now)

    def _process_connection_event(
        self,
        event: TransportUp | ConnackReceived | ConnectionEnded | CanaryReceived,
        connection: _Connection,
        now: float,
    ) -> tuple[Action, ...]:
        is_up = connection.up_at is not None
        match event:
            case TransportUp():
                connection.opened = True
            case ConnackReceived(refused=None) if not is_up:
                return self._process_accepted_login(connection, now)
            case ConnackReceived(refused=str(reason), bad_credentials=True) if not is_up:
                self._resume_at = now + self.policy.refused_pause
                return (*self._close_connection(reason), ReportConnectionAlarmAction(reason))
            case ConnackReceived(refused=str(reason)) | ConnectionEnded(reason=reason) if not is_up:
                return (*self._close_connection(reason), *self._connect_or_pause(now))
            case ConnectionEnded(reason=reason):
                return self._process_loss(connection, reason, event.silent or event.hostile, now)
            case CanaryReceived() if is_up and 0 < event.number <= connection.number:
                connection.canary_received, connection.misses, connection.canary_deadline = True, 0, None
        return ()

    def _process_tick(self, now: float) -> tuple[Action, ...]:
        connection = self._connection
        if now < (self._resume_at if connection is None else connection.next_deadline):
            return ()
        if connection is None:
            return self._open_next_connection(now) if self._untried_brokers else self._start_walk(0, now)
        if connection.up_at is None:
            if connection.opened and connection.deadline - self.policy.connack_timeout < self._fast_until:
                hung_until = min(now + self.policy.fast_phase, self._lost_at + self.policy.hung_phase)
                self._fast_until = max(self._fast_until, hung_until)
            reason = (
                f"the broker sent no CONNACK in {self.policy.connack_timeout:g} s after the agent's login: check the "
                "broker's process, and check that mb.urls in agent.conf names its MQTT port"
            )
            return (*self._close_connection(reason), *self._connect_or_pause(now))
        return self._check_canary(connection, now)

    # -- attempts ---------------------------------------------------------------------------------

    def _start_walk(self, first: int, now: float) -> tuple[Action, ...]:
        self._untried_brokers = self._brokers_from(first)
        return self._open_next_connection(now)

    def _brokers_from(self, first: int) -> tuple[int, ...]:
        """Return the indices of all brokers in the order of the list, beginning at ``first`` and wrapping round."""
        return tuple((first + step) % self.brokers for step in range(self.brokers))

    def _open_next_connection(self, now: float) -> tuple[Action, ...]:
        broker, self._untried_brokers = self._untried_brokers[0], self._untried_brokers[1:]
        self._connection = _Connection(broker, next(self.numbers), now + self.policy.connack_timeout)
        return (OpenConnectionAction(broker, self._connection.conn),)

    def _connect_or_pause(self, now: float) -> tuple[Action, ...]:
        """Return the ``OpenConnectionAction`` of the next broker of a quick walk.

        At the end of a quick walk, and in a slow one, set a pause and return no action.
        """
        if self._is_quick_walk and self._untried_brokers:
            return self._open_next_connection(now)
        self._resume_at = now + self._choose_pause(now)
        return ()

    def _choose_pause(self, now: float) -> float:
        policy = self.policy
        low, high = policy.fast_pause
        pause = low + (high - low) * self.random()
        self._is_quick_walk = now + pause <= self._fast_until
        if self._is_quick_walk:
            return pause
        highest_level = math.ceil(math.log2(policy.cap / policy.base))
        if self._fast_until > _NEVER:
            self._backoff_level = max(self._backoff_level, highest_level)
        if self._backoff_level > highest_level:
            return policy.cap * (policy.steady + (1 - policy.steady) * self.random())
        ceiling = min(policy.cap, policy.base * 2.0**self._backoff_level)
        self._backoff_level += 1
        return ceiling * (1 - self.random())

    # -- a connection that is up ------------------------------------------------------------------

    def _process_accepted_login(self, connection: _Connection, now: float) -> tuple[Action, ...]:
        connection.up_at = now
        return (ReportConnectionUpAction(connection.broker, connection.conn), self._next_canary(connection, now))

    def _next_canary(self, connection: _Connection, now: float) -> SendCanaryAction:
        connection.number += 1
        connection.canary_deadline = now + self.policy.canary_timeout
        connection.deadline = now + self.policy.canary_interval
        return SendCanaryAction(connection.conn, connection.number)

    def _check_canary(self, connection: _Connection, now: float) -> tuple[Action, ...]:
        if connection.canary_deadline is not None and now >= connection.canary_deadline:
            connection.canary_deadline = None
            connection.misses += 1
            if connection.misses >= self.policy.canary_misses:
                reason = (
                    f"the broker did not return {connection.misses} test messages (canaries) in a row within "
                    f"{self.policy.canary_timeout:g} s each: check whether the broker hangs"
                )
                return self._process_loss(connection, reason, True, now)
        return (self._next_canary(connection, now),) if now >= connection.deadline else ()

    def _process_loss(self, connection: _Connection, reason: str, unanswered: bool, now: float) -> tuple[Action, ...]:
        """Return the actions after the loss of a connection that was up.

        If the connection had worked, the agent tries the brokers of its list immediately, without a pause.
        """
        first = 0 if connection.canary_received and not unanswered else (connection.broker + 1) % self.brokers
        up_at, closed = connection.up_at, self._close_connection(reason)
        is_unstable = up_at is None or now - up_at < self.policy.stable
        if connection.canary_received and not (is_unstable and self._was_unstable):
            self._was_unstable = is_unstable
            self._lost_at, self._fast_until = now, now + self.policy.fast_phase
            self._backoff_level, self._is_quick_walk = 0, True
            return (*closed, *self._start_walk(first, now))
        self._untried_brokers = self._brokers_from(first)
        self._resume_at = now + self._choose_pause(now)
        return closed

    def _close_connection(self, reason: str) -> tuple[Action, ...]:
        connection, self._connection = self._connection, None
        if connection is None:
            return ()
        close = CloseConnectionAction(connection.conn, reason)
        return (close,) if connection.up_at is None else (close, ReportConnectionDownAction(connection.conn, reason))
