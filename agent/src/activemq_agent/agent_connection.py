"""Keep one MQTT connection to the first broker that answers, and test it with canaries (messages to itself).

An ``AgentMqttConnection`` carries out the actions of the state machine in ``connecting`` with sessions and a clock. The
publisher and the subscriber each use one, from a single thread. Sessions put their events into its queue, and
``run_once_and_yield_events`` yields the events that the connection does not process.
"""

from __future__ import annotations

import itertools
import queue
import random
import secrets
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from activemq_agent.agent_topics import LARGEST_CANARY, canary_topic
from activemq_agent.connecting import (
    Action,
    AgentStartedEvent,
    AgentStoppingEvent,
    BrokerSelectionStateMachine,
    CanaryReceived,
    CloseConnectionAction,
    Event,
    OpenConnectionAction,
    ReportConnectionAlarmAction,
    ReportConnectionDownAction,
    ReportConnectionUpAction,
    SendCanaryAction,
    TimePassedEvent,
)
from activemq_agent.connection_events import (
    ConnackReceived,
    ConnectionEnded,
    MessageReceived,
    OversizedMessageReceived,
    PubackReceived,
    SessionEvent,
    SubackReceived,
    TransportUp,
)
from activemq_agent.logs import DroppedMqttMessageCounters, LogInterface
from activemq_agent.packet_limits import ReceiveMemoryLimit
from activemq_agent.session import Session
from activemq_agent.tls import RenewedTlsContext

if TYPE_CHECKING:
    from activemq_agent.config import Config
    from activemq_agent.store import Store

MAX_EVENTS = 500
"""Largest number of events that one call of ``run_once_and_yield_events`` processes, so that its caller can do its
other work."""
MAX_CANARIES = 8
"""Number of unanswered canaries that are remembered, so that a late answer counts; two misses end a connection."""
PUBLISHERS_PACKET = 1 << 17
"""Largest number of bytes of a packet that a publisher receives: a canary with a topic of 65,535 bytes."""
PREFETCH = 100
"""Number of unacknowledged messages of a topic filter after which the broker sends no more of its messages."""
WITHHELD_MESSAGES_ALARM = PREFETCH // 2
"""Number of messages that are dropped without an acknowledgement, on one connection, at which an alarm is raised."""
FRUITLESS = 2
"""Consecutive connections without a received canary after which the PUBACK of a canary counts as its answer."""


Open = Callable[[int, int, Callable[[Any], None]], Session]
"""(index of the broker in the list, number of the connection, callback of events) -> a connection being opened."""


class ConnectionDependencies(TypedDict, total=False):
    """What an agent's MQTT connection depends on: random numbers, the numbering of connections, and the network.

    ``draw`` returns the random numbers in [0, 1) that vary its pauses, and ``numbers`` yields the number of each
    connection in the journal. The connections of an agent share ``numbers``, because they write to one event journal.
    ``open_session`` replaces the network in tests.
    """

    draw: Callable[[], float]
    numbers: Iterator[int]
    open_session: Open


class AgentMqttConnection:
    """The MQTT connection of an agent to the brokers of its list.

    It moves to another broker when one fails, and is tested by canaries (messages of the agent to itself). ``session``
    is the current connection, None without one. ``names``: the brokers as ``host:port``, in order. Raises ConfigError
    for TLS files that cannot be used.

    A canary counts as returned when its message is received. If the broker rejects the canary topic, or two consecutive
    connections acknowledged canaries and returned none (a permission to read or write is missing), the PUBACK counts
    instead: it proves that the broker answers, but not that it delivers messages.
    """

    def __init__(
        self,
        config: Config,
        role: Literal["publisher", "subscriber"],
        *,
        store: Store,
        log: LogInterface,
        clock: Callable[[], float] = time.monotonic,
        **dependencies: Unpack[ConnectionDependencies],
    ) -> None:
        self.names = tuple(broker.host_port_text for broker in config.urls)
        self.session: Session | None = None
        self.conn = 0
        self.broker: str | None = None
        """The broker that is connected, as ``host:port``; None without a connection."""
        self.connections = 0
        """Number of successful connections since the start."""
        self.losses: dict[str, int] = {}
        """How often a connection was lost, by reason."""
        self.alarm: str | None = None
        """The problem that an operator must fix, such as refused credentials; None once a new connection is up."""
        self.failure_reasons: dict[str, str] = {}
        """The reason why the last attempt failed, by broker as ``host:port``, since a connection was up."""
        self.round_trip: float | None = None
        """Seconds of the last canary's round trip; None before the first."""
        self.dropped = DroppedMqttMessageCounters(log, clock)
        """Messages from brokers that were discarded, by reason."""
        draw, numbers = dependencies.get("draw", random.random), dependencies.get("numbers") or itertools.count(1)
        self._machine = BrokerSelectionStateMachine(len(config.urls), config.policy, draw, numbers)
        self._open_session = dependencies.get("open_session") or _session_opener(config, role, log)
        self._canary_topic = canary_topic("", f"{config.agent}-{role}")
        self._client_id = config.client_id
        self._login = config.login_user_description
        # In a durable session, QoS 1 would create a durable subscription, which outlives the agent.
        self._canary_qos = 0 if role == "subscriber" else 1
        self._store = store
        self._log = log
        self._clock = clock
        self._role = role
        self._withheld_count = 0  # messages of this connection that were dropped without an acknowledgement
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._unreported_changes: list[
            ReportConnectionUpAction | ReportConnectionDownAction
        ] = []  # state changes to report to the caller
        self._broker_index = 0  # index in names of the broker of this connection
        self._canary_number_by_mid: dict[int, int] = {}  # canaries of this connection: number by packet number
        self._canary_sent_at: dict[int, float] = {}
        self._canary_number_by_payload: dict[bytes, int] = {}  # numbers of this connection's canaries, by payload
        self._canary_mid: int | None = None
        self._canary_topic_refused = self._canary_returned = self._canary_acknowledged = False
        self._connections_without_canary = 0  # consecutive connections that returned no canary

    def queue_for_connection_loop(self, item: Any) -> None:
        """Queue an object, such as a callback, for the next iteration of the agent's connection loop.

        That is the next ``run_once_and_yield_events``, which yields the object to its caller. This method may be called
        from any thread.
        """
        self._queue.put(item)

    def start(self) -> None:
        """Start to connect to the first of the agent's configured MQTT brokers, in a separate thread."""
        self._process_machine_event(AgentStartedEvent())

    def stop(self) -> None:
        """Stop the agent's connection: close it permanently."""
        self._process_machine_event(AgentStoppingEvent())

    def switch_to_next_broker(self, reason: str) -> None:
        """Switch the agent's MQTT connection from a broker that does not respond to the next of the configured brokers.

        The connection is ended.
        """
        self._process_machine_event(ConnectionEnded(self.conn, reason, silent=True))

    def reconnect_to_first_broker(self, reason: str) -> None:
        """End a working connection to a broker, and connect again, to the first broker of the list.

        That broker then delivers unacknowledged messages again.
        """
        self._process_machine_event(ConnectionEnded(self.conn, reason))

    def acknowledge(self, message: MessageReceived) -> None:
        """Acknowledge a message of the agent's current connection.

        This does nothing at QoS 0 or without a connection.
        """
        if message.qos and self.session is not None:
            self.session.acknowledge(message.mid)

    def raise_alarm_about_removed_filter(self, topic: str) -> None:
        """Raise an alarm about a durable subscription to a topic filter that is no longer configured.

        The broker sent a message on ``topic``, which no configured filter matches. It restores the subscription on each
        connection, so that the offline timeout of subscriptions never deletes it. An existing alarm is kept.
        """
        if self.alarm is not None:
            return
        self.alarm = (
            f"the broker {self.broker} sends messages on the topic {topic[:200]!r}, which matches no topic filter in "
            f"the setting `topics` of agent.conf. A durable subscription of the client id {self._client_id} to an "
            "earlier filter still exists, and its messages fill the broker's store: add the earlier filter to `topics` "
            "again, and restart the agent. Or stop the agent, delete this subscription in the web console of the "
            "broker (Subscribers), and start the agent"
        )
        self._log.error(
            "the broker keeps messages of a topic filter that is no longer configured, until you follow the field "
            "`reason` of this record",
            reason=self.alarm,
            broker=self.broker,
        )

    def run_once_and_yield_events(self, wait: float) -> Iterator[Any]:
        """Run one iteration of an agent's MQTT connection loop; yield state changes, MQTT packets and queued objects.

        It waits at most ``wait`` s for activity. Queued objects were passed to ``queue_for_connection_loop``. State
        changes are ``ReportConnectionUpAction`` and ``ReportConnectionDownAction``. The connection processes CONNACK,
        canaries and timeouts, and does not yield them. Ends when the queue is empty or after about ``MAX_EVENTS``
        events.
        """
        if self._unreported_changes:
            wait = 0.0
        yield from self._yield_state_changes()
        due = self._machine.next_tick_time
        if due is not None:
            wait = min(wait, due - self._clock())
        try:
            item = self._queue.get(timeout=wait) if wait > 0 else self._queue.get_nowait()
            for _ in range(MAX_EVENTS):
                yield from self._process_item(item)
                item = self._queue.get_nowait()
            yield from self._process_item(item)
        except queue.Empty:
            pass
        due = self._machine.next_tick_time
        if due is not None and due <= self._clock():
            self._process_machine_event(TimePassedEvent())
            yield from self._yield_state_changes()

    def handle_event_or_drop_on_error(self, event: Any, handler: Callable[[Any], bool | None]) -> bool:
        """Pass an MQTT connection event to a handler; if it fails on a packet from the broker, discard the packet.

        Return True if the event needs no more processing: it was dropped, or the function returned True. Only a packet
        that the broker sent is dropped: it is counted and logged as a dropped message, so that a broker's data cannot
        end the thread. Errors on other events are raised.
        """
        try:
            return bool(handler(event))
        except Exception as error:
            if not isinstance(event, PubackReceived | MessageReceived | SubackReceived):
                raise
            self.dropped.count_dropped_message(type(error).__name__, error=error, event_kind=type(event).__name__)
            if isinstance(event, MessageReceived) and event.qos:
                self._count_withheld_message()
            return True

    # -- events of sessions -----------------------------------------------------------------------

    def _process_item(self, item: Any) -> Iterator[Any]:
        match item:
            case PubackReceived() | MessageReceived() | SubackReceived() if (
                item.conn == self.conn and self.session is not None
            ):
                if not self.handle_event_or_drop_on_error(item, self._process_canary_event):
                    yield item
            case PubackReceived() | MessageReceived() | SubackReceived():
                pass  # an event of an earlier connection
            case OversizedMessageReceived():
                self.dropped.count_dropped_message("larger than packet.bytes", broker=self.broker)
                if item.qos and item.conn == self.conn:
                    self._count_withheld_message()
            case TransportUp() | ConnackReceived() | ConnectionEnded():
                if not isinstance(item, TransportUp):
                    self._record_failure(item)
                self._process_machine_event(item)
                yield from self._yield_state_changes()
            case _:
                yield item

    def _count_withheld_message(self) -> None:
        """Count a message that was dropped without an acknowledgement; raise an alarm before the broker sends no more.

        The broker keeps the message, and it takes one place of the prefetch of its topic filter.
        """
        self._withheld_count += 1
        if self._role == "subscriber" and self._withheld_count == WITHHELD_MESSAGES_ALARM:
            self.alarm = (
                f"the agent discarded {self._withheld_count} messages of the broker {self.broker} without an "
                "acknowledgement, because they are larger than packet.bytes or cannot be processed. After "
                f"{PREFETCH} such messages of one topic filter, the broker sends no more messages of this filter: "
                "increase packet.bytes in agent.conf or delete these messages on the broker, then restart the agent"
            )
            self._log.error(
                "messages of a topic filter stay on the broker until you correct the cause that the field `reason` of "
                "this record names",
                reason=self.alarm,
                broker=self.broker,
                dropped=dict(self.dropped.counts),
            )

    def _record_failure(self, item: ConnackReceived | ConnectionEnded) -> None:
        """Keep the reason why a connection attempt failed, and log it once per broker and reason."""
        reason = item.refused if isinstance(item, ConnackReceived) else item.reason
        if reason is None or self.broker is not None or item.conn != self.conn:
            return
        name = self.names[self._broker_index]
        if self.failure_reasons.get(name) != reason:
            self.failure_reasons[name] = reason
            self._log.warning(
                f"the agent cannot connect to the broker {name}, and tries again: correct the cause that the "
                "field `reason` of this record names",
                broker=name,
                reason=reason,
            )

    def _process_canary_event(self, item: PubackReceived | MessageReceived | SubackReceived) -> bool:
        """Process a connection event that belongs to a canary (test message); return whether it did."""
        if isinstance(item, MessageReceived):
            if item.topic != self._canary_topic:
                return False
            self.acknowledge(item)
            number = self._canary_number_by_payload.get(item.payload) if len(item.payload) <= LARGEST_CANARY else None
            if number is None:
                self.dropped.count_dropped_message("test message (canary) of another sender", topic=item.topic)
                return True
            self._canary_returned, self._connections_without_canary = True, 0
            self._process_returned_canary(number)
            return True
        if isinstance(item, SubackReceived):
            if item.mid != self._canary_mid:
                return False
            if item.refused:
                self._canary_topic_refused = True
                self._log.warning(
                    f"the broker {self.broker} rejects the subscription to the agent's test topic: let {self._login} "
                    f"read and write {self._canary_topic} in the broker's ACL",
                    topic=self._canary_topic,
                    broker=self.broker,
                )
            return True
        number_sent = self._canary_number_by_mid.pop(item.mid, None)
        if number_sent is None:
            return False
        self._canary_acknowledged = True
        if self._canary_topic_refused or self._connections_without_canary >= FRUITLESS:
            self._process_returned_canary(number_sent)
        return True

    def _process_returned_canary(self, number: int) -> None:
        sent_at = self._canary_sent_at.pop(number, None)
        if sent_at is not None:
            self.round_trip = self._clock() - sent_at
        self._process_machine_event(CanaryReceived(self.conn, number))

    # -- state machine ----------------------------------------------------------------------------

    def _process_machine_event(self, event: Event) -> None:
        for action in self._machine.process_event(event, self._clock()):
            self._execute_action(action)

    def _yield_state_changes(self) -> Iterator[ReportConnectionUpAction | ReportConnectionDownAction]:
        changes, self._unreported_changes = self._unreported_changes, []
        yield from changes

    def _execute_action(self, action: Action) -> None:
        match action:
            case OpenConnectionAction():
                self._start_connection(action)
            case CloseConnectionAction():
                if self.session is not None:
                    self.session.close(orderly=action.reason == "stopped")
                self.session = None
            case ReportConnectionUpAction():
                self._record_connection_up(action)
            case ReportConnectionDownAction():
                self._record_connection_down(action)
            case SendCanaryAction():
                self._send_canary(action)
            case ReportConnectionAlarmAction():
                self.alarm = action.reason
                self._log.error(
                    "the agent cannot connect to its brokers until you correct the cause that the field `reason` of "
                    "this record names",
                    reason=action.reason,
                )

    def _start_connection(self, action: OpenConnectionAction) -> None:
        self.conn, self._broker_index = action.conn, action.broker
        try:
            self.session = self._open_session(action.broker, action.conn, self._queue.put)
        except Exception as error:  # noqa: BLE001 -- an invalid entry of one broker must not stop the walk
            self._queue.put(ConnectionEnded(action.conn, str(error)))

    def _record_connection_up(self, action: ReportConnectionUpAction) -> None:
        self.broker, self.alarm = self.names[action.broker], None
        self.failure_reasons.clear()
        self._withheld_count = 0  # the broker sends these messages again
        self.connections += 1
        self._canary_topic_refused = self._canary_returned = self._canary_acknowledged = False
        self._canary_number_by_mid.clear()
        self._canary_sent_at.clear()
        self._canary_number_by_payload.clear()
        self._log.info("connected", broker=self.broker, conn=action.conn)
        self._store.queue_journal_record("connected", broker=self.broker, conn=action.conn)
        if self.session is not None:
            self._canary_mid = self.session.subscribe(self._canary_topic, self._canary_qos)
        self._unreported_changes.append(action)

    def _record_connection_down(self, action: ReportConnectionDownAction) -> None:
        if self._canary_acknowledged and not self._canary_returned and not self._canary_topic_refused:
            self._connections_without_canary += 1
        self.losses[action.reason] = self.losses.get(action.reason, 0) + 1
        self._log.warning("connection lost", broker=self.broker, conn=action.conn, reason=action.reason)
        self._store.queue_journal_record("connection_lost", broker=self.broker, conn=action.conn, reason=action.reason)
        self.broker = None
        self._unreported_changes.append(action)

    def _send_canary(self, action: SendCanaryAction) -> None:
        if self.session is None:
            return
        now = self._clock()
        payload = secrets.token_hex(16).encode()  # random: only a client that received it can send it
        while len(self._canary_number_by_payload) >= MAX_CANARIES:
            del self._canary_number_by_payload[next(iter(self._canary_number_by_payload))]
        self._canary_number_by_payload[payload] = action.number
        mid = self.session.publish(self._canary_topic, payload)
        self._canary_sent_at = {action.number: now}
        if mid is not None:
            self._canary_number_by_mid[mid] = action.number


def _session_opener(config: Config, role: Literal["publisher", "subscriber"], log: LogInterface) -> Open:
    """Return a function that starts MQTT sessions with the configuration's brokers; they share one limit of memory.

    The subscriber's sessions are durable. The publisher receives only canaries, so its packets have a smaller limit.
    """
    intake = ReceiveMemoryLimit()
    tls = RenewedTlsContext(config.tls, log) if any(url.tls for url in config.urls) else None
    is_publisher = role == "publisher"
    client_id = f"{config.client_id}-publisher" if is_publisher else config.client_id

    def open_session(broker: int, conn: int, on_event: Callable[[SessionEvent], None]) -> Session:
        session = Session(
            config.urls[broker], config, client_id=client_id, clean=is_publisher, on_event=on_event, conn=conn,
            tls=tls.current_context() if tls else None, intake=intake,
            largest=PUBLISHERS_PACKET if is_publisher else None,
        )  # fmt: skip
        session.start()
        return session

    return open_session
