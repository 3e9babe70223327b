"""Decide when to connect to which broker, and when to leave it: a state machine without sockets or clocks.

A machine manages one connection at a time. Its caller reports events, each with the time in seconds of a monotonic
clock, and carries out the returned actions in their order. ``next_tick_time`` is the time of the next required
``TimePassedEvent``.

Behavior
- A *walk* tries the brokers in the order of the list. The first broker that accepts (CONNACK, code 0) within
  ``connack_timeout`` is used. The first walk, and the first walk after the loss of a working connection, starts at
  once, without pauses between brokers.
- A connection has *worked* once a canary (a message of the agent to itself) was received and the connection has been
  up for ``stable``. A connection that was lost earlier also counts, unless the previous one was lost as early. For
  ``fast_phase`` after the loss of a working connection, walks are ``fast_pause`` apart. A broker that opens the
  connection but sends nothing extends this phase, to at most ``hung_phase`` after the loss: a frozen master keeps its
  lock, and no standby can take over before it is gone.
- After that there is a pause before every attempt, so that the rate of an agent does not grow with the length of its
  list. The pauses have full jitter below a ceiling that doubles from ``base`` to ``cap``. Right after a fast phase,
  when all agents of a fleet are at the same point, the first ceiling is ``cap``. Full jitter at the cap would let
  attempts bunch (50 agents: 12 attempts in a second, the mean is 3.3). So after the first pause has spread the agents
  over ``cap``, an agent keeps its place with pauses of ``steady`` to 1 times ``cap`` (2,000 simulated fleets of 50
  agents: at most 10 attempts in a second, the mean is 1.7).
- The loss of a working connection resets the ceiling. Until a connection has worked, the ceiling keeps growing, so
  that two agents that evict each other, or a broker that closes every connection, cause no fast retries.
- Refused credentials raise an alarm and a pause of ``refused_pause``; then the walk continues.
- A canary is sent at once and then every ``canary_interval``. A canary that is not received within
  ``canary_timeout`` is a miss; a received canary resets the count. ``canary_misses`` consecutive misses end the
  connection.

Invariants
1. There are never two connections: between two ``OpenConnection`` actions is the ``CloseConnection`` of the first
   connection. Each connection gets exactly one ``CloseConnection``; ``ReportConnectionUpAction`` and
   ``ReportConnectionDownAction`` come in pairs before it.
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
class ConnectionPolicy:
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


# -- what happens ---------------------------------------------------------------------------------


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


# -- what is to be done ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenConnection:
    """Action of an agent's broker selection state machine: open a connection to a broker.

    ``conn`` is the number of the connection, ``broker`` an index of the configured list.
    """

    broker: int
    conn: int


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Action of an agent's broker selection state machine: close a connection to a broker.

    The messages in flight on connection ``conn`` are dropped.
    """

    conn: int
    reason: str


@dataclass(frozen=True, slots=True)
class SendCanary:
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
    """Action of an agent's broker selection state machine: report that a connection to a broker is up.

    ``conn`` is the number of the connection, ``broker`` an index of the configured list.
    """

    broker: int
    conn: int


@dataclass(frozen=True, slots=True)
class ReportConnectionDownAction:
    """Action of an agent's broker selection state machine: report that a connection to a broker is down.

    Connection ``conn`` was up before.
    """

    conn: int
    reason: str


Action = (
    OpenConnection
    | CloseConnection
    | SendCanary
    | ReportConnectionAlarmAction
    | ReportConnectionUpAction
    | ReportConnectionDownAction
)


# -- between --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Connection:
    """The connection of a broker selection state machine, from its ``OpenConnection`` to its ``CloseConnection``."""

    broker: int
    conn: int
    deadline: float  # for CONNACK while it is opened; then when the next canary goes out
    opened: bool = False
    up_at: float | None = None
    answers: bool = False  # a canary came back
    number: int = 0  # of the last canary
    misses: int = 0
    answer_by: float | None = None  # for the canary that is out

    @property
    def due(self) -> float:
        return self.deadline if self.answer_by is None else min(self.deadline, self.answer_by)


@dataclass(slots=True)
class BrokerSelectionStateMachine:
    """The state machine of an agent's connections, which decides which broker to connect to, and when.

    It also decides when to leave a broker. It opens no sockets. ``brokers``: length of the list, at least 1;
    ``random``: a function, uniform in [0, 1). ``numbers`` yields the number of each connection; two machines that write
    one journal share it. Raises ValueError without brokers.
    """

    brokers: int
    policy: ConnectionPolicy
    random: Callable[[], float] = field(compare=False)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), compare=False)
    _phase: Literal["new", "running", "stopped"] = "new"
    _connection: _Connection | None = None
    _walk: tuple[int, ...] = ()  # brokers that this walk has not tried yet
    _resume_at: float = 0.0  # when the next attempt begins, while there is no connection
    _lost_at: float = _NEVER  # when the last fast phase began
    _fast_until: float = _NEVER
    _quick: bool = True  # this walk tries one broker right after the other
    _was_short: bool = False  # the last fast phase was for a connection that was not stable
    _level: int = 0  # slow pauses since a connection that worked

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
        return self._connection.due if self._connection else self._resume_at

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
                return self._close("stopped")
            case TimePassedEvent() if self._phase == "running":
                return self._tick(now)
            case AgentStartedEvent() | AgentStoppingEvent() | TimePassedEvent():
                return ()
        connection = self._connection
        if connection is None or connection.conn != event.conn:
            return ()
        return self._connection_event(event, connection, now)

    def _connection_event(
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
                return self._accepted(connection, now)
            case ConnackReceived(refused=str(reason), bad_credentials=True) if not is_up:
                self._resume_at = now + self.policy.refused_pause
                return (*self._close(reason), ReportConnectionAlarmAction(reason))
            case ConnackReceived(refused=str(reason)) | ConnectionEnded(reason=reason) if not is_up:
                return (*self._close(reason), *self._next_attempt(now))
            case ConnectionEnded(reason=reason):
                return self._lost(connection, reason, event.silent or event.hostile, now)
            case CanaryReceived() if is_up and 0 < event.number <= connection.number:
                connection.answers, connection.misses, connection.answer_by = True, 0, None
        return ()

    def _tick(self, now: float) -> tuple[Action, ...]:
        connection = self._connection
        if now < (self._resume_at if connection is None else connection.due):
            return ()
        if connection is None:
            return self._dial(now) if self._walk else self._start_walk(0, now)
        if connection.up_at is None:
            if connection.opened and connection.deadline - self.policy.connack_timeout < self._fast_until:
                hung_until = min(now + self.policy.fast_phase, self._lost_at + self.policy.hung_phase)
                self._fast_until = max(self._fast_until, hung_until)
            reason = (
                f"the broker sent no CONNACK in {self.policy.connack_timeout:g} s after the agent's login: check the "
                "broker's process, and check that mb.urls in agent.conf names its MQTT port"
            )
            return (*self._close(reason), *self._next_attempt(now))
        return self._watch(connection, now)

    # -- attempts ---------------------------------------------------------------------------------

    def _start_walk(self, first: int, now: float) -> tuple[Action, ...]:
        self._walk = self._order(first)
        return self._dial(now)

    def _order(self, first: int) -> tuple[int, ...]:
        """Return the indices of all brokers in the order of the list, beginning at ``first`` and wrapping round."""
        return tuple((first + step) % self.brokers for step in range(self.brokers))

    def _dial(self, now: float) -> tuple[Action, ...]:
        broker, self._walk = self._walk[0], self._walk[1:]
        self._connection = _Connection(broker, next(self.numbers), now + self.policy.connack_timeout)
        return (OpenConnection(broker, self._connection.conn),)

    def _next_attempt(self, now: float) -> tuple[Action, ...]:
        """Return the ``OpenConnection`` of the next broker of a quick walk.

        At the end of a quick walk, and in a slow one, set a pause and return no action.
        """
        if self._quick and self._walk:
            return self._dial(now)
        self._resume_at = now + self._pause(now)
        return ()

    def _pause(self, now: float) -> float:
        policy = self.policy
        low, high = policy.fast_pause
        pause = low + (high - low) * self.random()
        self._quick = now + pause <= self._fast_until
        if self._quick:
            return pause
        top = math.ceil(math.log2(policy.cap / policy.base))
        if self._fast_until > _NEVER:
            self._level = max(self._level, top)
        if self._level > top:
            return policy.cap * (policy.steady + (1 - policy.steady) * self.random())
        ceiling = min(policy.cap, policy.base * 2.0**self._level)
        self._level += 1
        return ceiling * (1 - self.random())

    # -- a connection that is up ------------------------------------------------------------------

    def _accepted(self, connection: _Connection, now: float) -> tuple[Action, ...]:
        connection.up_at = now
        return (ReportConnectionUpAction(connection.broker, connection.conn), self._canary(connection, now))

    def _canary(self, connection: _Connection, now: float) -> SendCanary:
        connection.number += 1
        connection.answer_by = now + self.policy.canary_timeout
        connection.deadline = now + self.policy.canary_interval
        return SendCanary(connection.conn, connection.number)

    def _watch(self, connection: _Connection, now: float) -> tuple[Action, ...]:
        if connection.answer_by is not None and now >= connection.answer_by:
            connection.answer_by = None
            connection.misses += 1
            if connection.misses >= self.policy.canary_misses:
                reason = (
                    f"the broker did not return {connection.misses} test messages (canaries) in a row within "
                    f"{self.policy.canary_timeout:g} s each: check whether the broker hangs"
                )
                return self._lost(connection, reason, True, now)
        return (self._canary(connection, now),) if now >= connection.deadline else ()

    def _lost(self, connection: _Connection, reason: str, unanswered: bool, now: float) -> tuple[Action, ...]:
        """Return the actions after the loss of a connection that was up.

        If the connection had worked, the agent tries the brokers of its list immediately, without a pause.
        """
        first = 0 if connection.answers and not unanswered else (connection.broker + 1) % self.brokers
        up_at, closed = connection.up_at, self._close(reason)
        is_short = up_at is None or now - up_at < self.policy.stable
        if connection.answers and not (is_short and self._was_short):
            self._was_short = is_short
            self._lost_at, self._fast_until = now, now + self.policy.fast_phase
            self._level, self._quick = 0, True
            return (*closed, *self._start_walk(first, now))
        self._walk = self._order(first)
        self._resume_at = now + self._pause(now)
        return closed

    def _close(self, reason: str) -> tuple[Action, ...]:
        connection, self._connection = self._connection, None
        if connection is None:
            return ()
        close = CloseConnection(connection.conn, reason)
        return (close,) if connection.up_at is None else (close, ReportConnectionDownAction(connection.conn, reason))
