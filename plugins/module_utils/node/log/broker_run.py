# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Tracks a broker's state through its log: its phase (starting, waiting, started …) and the bridges that are up.

No other module determines phases. Sockets and answers of the broker always take precedence over its log.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from .kinds import LogEvent, parse_log_event
from .log_records import Record

PhaseName = Literal["starting", "waiting", "attached", "started", "stopping", "stopped", "failed"]

# Forms of a connected socket: tcp:///127.0.0.1:47178@61616, tcp://name/127.0.0.1:61616, tcp://name:61616. Only a socket
# that the remote end opened has no name before its address.
_REMOTE_SOCKET = re.compile(r"\w[\w+.-]*://(?P<name>[^/]*?)(?:/(?P<address>[^/]+))?:(?P<port>\d+)(?:@\d+)?(?:\?.*)?")


@dataclass(frozen=True)
class LoggedBrokerPhase:
    """The phase of a broker's run that its log shows, such as starting or started.

    ``name``: one of ``PhaseName``, or unknown. ``message`` is the record that shows the phase, ``time`` its local time.
    ``has_started``: the same process has logged before that it is started or attached.
    """

    name: str
    message: str = ""
    time: datetime | None = None
    has_started: bool = False


UNKNOWN = LoggedBrokerPhase("unknown")


@dataclass(frozen=True)
class EstablishedBridge:
    """A bridge to a peer that a broker's log shows as established.

    ``local`` is the broker's own end (``vm://orders-mq01#0``), which distinguishes two bridges to one peer. ``peer`` is
    the remote broker's brokerName, ``remote`` the other end as logged, ``remote_host`` and ``remote_port`` the
    address to which the broker connected. For a ``responder``, the passive end of a duplex link, these hold the port
    from which the remote broker connected. ``since`` is the local time of the broker's host.
    """

    local: str
    peer: str
    remote: str
    remote_host: str
    remote_port: int
    responder: bool
    since: datetime


class BrokerRun:
    """One run of a broker's process as its log shows it: its phase and since when, and its bridges.

    The state is computed from the log events applied so far. Only records of this run count, in their order. A broker
    that lost its lock and restarts within its process (5.9 and later) returns to the phase "starting".
    """

    def __init__(self) -> None:
        self.phase: PhaseName = "starting"
        self.since: datetime | None = None
        """The local time at which the broker entered its phase; None while its log shows none."""
        self.has_started = False
        """Whether the broker was started, or attached to its master, at any time of the process."""
        self.promoted = False
        """Whether the broker is a pure slave that took over from its master."""
        self.lost_slave = False
        """Whether the broker is a pure master that continues without its slave, so that their stores differ."""
        self._phase_record: Record | None = None
        self._is_connecting_to_master = False
        self._bridges: dict[str, EstablishedBridge] = {}
        self._failed_bridges_by_peer: Counter[str] = Counter()
        self._is_one_way_by_link: dict[str, bool] = {}

    @property
    def one_way_duplex_link_names(self) -> tuple[str, ...]:
        """The names of duplex network connectors to a broker that forward messages in one direction only.

        They are connectors of other brokers. They were established without the other broker's id, and forward nothing
        in the reverse direction. The remote broker permanently counts such a link as established. Measured on 5.5.1:
        the passive end is logged as ``LINK@null``, the first message to the remote broker ends it with a
        NullPointerException, and the remote failover transport connects again without opening a new passive end.
        Restart the owner of the link.
        """
        return tuple(link for link, is_one_way in self._is_one_way_by_link.items() if is_one_way)

    @property
    def currently_established_bridges(self) -> tuple[EstablishedBridge, ...]:
        """The established network bridges of a broker.

        The oldest is first. They have not stopped since.
        """
        return tuple(self._bridges.values())

    @property
    def logged_phase(self) -> LoggedBrokerPhase:
        """The phase, such as starting or started, that a broker's log shows, with the log record; else ``UNKNOWN``.

        The newest log record counts.
        """
        record = self._phase_record
        return LoggedBrokerPhase(self.phase, record.message, record.time, self.has_started) if record else UNKNOWN

    def apply_records(self, records: Iterable[Record]) -> BrokerRun:
        """Update the state of this run of a broker by its next log records, in order, and return this object."""
        for record in records:
            event = parse_log_event(record)
            if event is not None:
                self.apply_event(event)
        return self

    def apply_event(self, event: LogEvent) -> None:
        """Apply the next log event to the state of the broker's run.

        Kinds of events without effect on it are ignored.
        """
        reaction = REACTIONS.get(event.kind)
        if reaction is not None:
            reaction(self, event)

    def _enter_phase(self, phase: PhaseName, event: LogEvent) -> None:
        self._phase_record = event.record
        if phase != self.phase or self.since is None:
            self.phase, self.since = phase, event.record.time

    def _begin_run(self, event: LogEvent) -> None:
        self._clear_bridges()
        self._is_connecting_to_master = self.promoted = self.lost_slave = False
        self._enter_phase("starting", event)

    def _clear_bridges(self) -> None:
        self._bridges.clear()
        self._is_one_way_by_link.clear()
        self._failed_bridges_by_peer.clear()

    def _enter_starting_with_lock(self, event: LogEvent) -> None:
        if self.phase in ("waiting", "stopped", "failed") or self._phase_record is None:
            self._enter_phase("starting", event)

    def _record_start(self, event: LogEvent) -> None:
        self.has_started = True
        self._enter_phase("attached" if self._is_connecting_to_master else "started", event)

    def _record_master_connection(self, event: LogEvent) -> None:
        self._is_connecting_to_master = True

    def _record_attachment(self, event: LogEvent) -> None:
        self.has_started = True
        self._enter_phase("attached", event)

    def _record_missing_master(self, event: LogEvent) -> None:
        self._is_connecting_to_master = False

    def _record_promotion(self, event: LogEvent) -> None:
        self._is_connecting_to_master, self.promoted, self.has_started = False, True, True
        self._enter_phase("started", event)

    def _record_lost_slave(self, event: LogEvent) -> None:
        self.lost_slave = True

    def _record_stop(self, event: LogEvent) -> None:
        self._clear_bridges()
        self._enter_phase("stopped", event)

    def _add_bridge(self, event: LogEvent) -> None:
        match = _REMOTE_SOCKET.fullmatch(event.fields["remote"])
        name, address, port = match.group("name", "address", "port") if match else ("", None, "0")
        self._bridges[event.fields["local"]] = EstablishedBridge(
            local=event.fields["local"],
            peer=event.fields["peer"],
            remote=event.fields["remote"],
            remote_host=name or address or "",
            remote_port=int(port),
            responder=match is not None and not name,
            since=event.record.time,
        )

    def _remove_failed_bridge(self, event: LogEvent) -> None:
        bridge = self._bridges.pop(event.fields["local"], None)
        if bridge is not None:
            self._failed_bridges_by_peer[bridge.peer] += 1  # the later record of its stop contains only the peer

    def _remove_stopped_bridge(self, event: LogEvent) -> None:
        peer = event.fields["peer"]
        if self._failed_bridges_by_peer[peer]:
            self._failed_bridges_by_peer[peer] -= 1
            return
        oldest = next((local for local, bridge in self._bridges.items() if bridge.peer == peer), None)
        if oldest is not None:
            del self._bridges[oldest]

    def _add_duplex_link(self, event: LogEvent) -> None:
        link, _separator, broker_id = event.fields["duplexId"].partition("@")
        self._is_one_way_by_link[link] = broker_id == "null"


def _phase_reaction(phase: PhaseName) -> Callable[[BrokerRun, LogEvent], None]:
    return lambda run, event: run._enter_phase(phase, event)


REACTIONS: dict[str, Callable[[BrokerRun, LogEvent], None]] = {
    "LIFE-STORE-CHOSEN": BrokerRun._begin_run,
    "LOCK-FILE-WAIT": _phase_reaction("waiting"),
    "LOCK-FILE-WAIT-OLD": _phase_reaction("waiting"),
    # From 5.14 on, waiting for a lease is logged only at DEBUG; other levels log only the attempt.
    "LOCK-DB-TRY": _phase_reaction("waiting"),
    "LOCK-DB-WAIT": _phase_reaction("waiting"),
    "LOCK-LEASE-TRY": _phase_reaction("waiting"),
    "LOCK-LEASE-WAIT": _phase_reaction("waiting"),
    "LOCK-DB-GOT": BrokerRun._enter_starting_with_lock,
    "LOCK-LEASE-GOT": BrokerRun._enter_starting_with_lock,
    # No release logs that it acquired a file lock: these are the first records after it.
    "KDB-OPENING": BrokerRun._enter_starting_with_lock,
    "KDB-VERSION": BrokerRun._enter_starting_with_lock,
    "LIFE-PA-STARTED": BrokerRun._enter_starting_with_lock,
    "LIFE-STARTING": BrokerRun._enter_starting_with_lock,
    "LIFE-STARTING-OLD": BrokerRun._enter_starting_with_lock,
    "LIFE-STARTED": BrokerRun._record_start,
    "LIFE-STARTED-OLD": BrokerRun._record_start,
    "PMS-SLAVE-CONNECTING": BrokerRun._record_master_connection,
    "PMS-SLAVE-ATTACHED": BrokerRun._record_attachment,
    "PMS-SLAVE-REATTACHED": BrokerRun._record_attachment,
    "PMS-SLAVE-NO-MASTER": BrokerRun._record_missing_master,
    "LIFE-MASTERFAIL-PROMOTE": BrokerRun._record_promotion,
    "LIFE-MASTERFAIL-STOP": _phase_reaction("stopping"),
    "PMS-SLAVE-FAILED": BrokerRun._record_lost_slave,
    "LOCK-LOST": _phase_reaction("stopping"),
    "LIFE-STOPPING": _phase_reaction("stopping"),
    "LIFE-STOPPED": BrokerRun._record_stop,
    "LIFE-STOPPED-OLD": BrokerRun._record_stop,
    "LIFE-START-FAILED": _phase_reaction("failed"),
    "LIFE-CONFIG-INVALID": _phase_reaction("failed"),
    "NET-UP": BrokerRun._add_bridge,
    "NET-REMOTE-ERR": BrokerRun._remove_failed_bridge,
    "NET-LOCAL-ERR": BrokerRun._remove_failed_bridge,
    "NET-DOWN": BrokerRun._remove_stopped_bridge,
    "NET-DUPLEX-UP": BrokerRun._add_duplex_link,
}
"""The function that applies each kind of event to a BrokerRun; other kinds do not affect its state."""
