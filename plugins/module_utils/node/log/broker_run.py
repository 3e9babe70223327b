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
_REMOTE = re.compile(r"\w[\w+.-]*://(?P<name>[^/]*?)(?:/(?P<address>[^/]+))?:(?P<port>\d+)(?:@\d+)?(?:\?.*)?")


@dataclass(frozen=True)
class Phase:
    """The phase of a broker's run that its log shows, such as starting or started.

    ``name``: one of ``PhaseName``, or unknown. ``message`` is the record that shows the phase, ``time`` its local time.
    ``has_started``: the same process has logged before that it is started or attached.
    """

    name: str
    message: str = ""
    time: datetime | None = None
    has_started: bool = False


UNKNOWN = Phase("unknown")


@dataclass(frozen=True)
class EstablishedBridge:
    """A bridge to a peer that a broker's log shows as established.

    ``local`` is the broker's own end (``vm://orders-mq01#0``), which distinguishes two bridges to one peer. ``peer`` is
    the remote broker's brokerName, ``remote`` the other end as logged, ``remote_host`` and ``remote_port`` the dialled
    address. For a ``responder``, the passive end of a duplex link, these hold the port from which the remote broker
    dialled. ``since`` is the local time of the broker's host.
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
        self._shown_by: Record | None = None
        self._dials_master = False
        self._bridges: dict[str, EstablishedBridge] = {}
        self._ended: Counter[str] = Counter()
        self._responders: dict[str, bool] = {}

    @property
    def one_way_duplex_link_names(self) -> tuple[str, ...]:
        """The names of duplex network connectors to a broker that forward messages in one direction only.

        They are connectors of other brokers. They were established without the other broker's id, and forward nothing
        in the reverse direction. The remote broker permanently counts such a link as established. Measured on 5.5.1:
        the passive end is logged as ``LINK@null``, the first message to the remote broker ends it with a
        NullPointerException, and the remote failover transport connects again without opening a new passive end.
        Restart the owner of the link.
        """
        return tuple(link for link, half in self._responders.items() if half)

    @property
    def established_bridges(self) -> tuple[EstablishedBridge, ...]:
        """The established network bridges of a broker.

        The oldest is first. They have not stopped since.
        """
        return tuple(self._bridges.values())

    @property
    def logged_phase(self) -> Phase:
        """The phase of a broker that its log shows; unknown while the log shows none.

        The newest log record counts.
        """
        record = self._shown_by
        return Phase(self.phase, record.message, record.time, self.has_started) if record else UNKNOWN

    def apply_records(self, records: Iterable[Record]) -> BrokerRun:
        """Apply the next log records, in order, to the state of the broker's run, and return it."""
        for record in records:
            event = parse_log_event(record)
            if event is not None:
                self.apply_event(event)
        return self

    def apply_event(self, event: LogEvent) -> None:
        """Apply the next log event to the state of the broker's run.

        Kinds of events without effect on it are ignored.
        """
        react = REACTIONS.get(event.kind)
        if react is not None:
            react(self, event)

    def _enter(self, phase: PhaseName, event: LogEvent) -> None:
        self._shown_by = event.record
        if phase != self.phase or self.since is None:
            self.phase, self.since = phase, event.record.time

    def _begin(self, event: LogEvent) -> None:
        self._clear()
        self._dials_master = self.promoted = self.lost_slave = False
        self._enter("starting", event)

    def _clear(self) -> None:
        self._bridges.clear()
        self._responders.clear()
        self._ended.clear()

    def _got_lock(self, event: LogEvent) -> None:
        if self.phase in ("waiting", "stopped", "failed") or self._shown_by is None:
            self._enter("starting", event)

    def _started(self, event: LogEvent) -> None:
        self.has_started = True
        self._enter("attached" if self._dials_master else "started", event)

    def _dial_master(self, event: LogEvent) -> None:
        self._dials_master = True

    def _attached(self, event: LogEvent) -> None:
        self.has_started = True
        self._enter("attached", event)

    def _no_master(self, event: LogEvent) -> None:
        self._dials_master = False

    def _promoted(self, event: LogEvent) -> None:
        self._dials_master, self.promoted, self.has_started = False, True, True
        self._enter("started", event)

    def _slave_failed(self, event: LogEvent) -> None:
        self.lost_slave = True

    def _stopped(self, event: LogEvent) -> None:
        self._clear()
        self._enter("stopped", event)

    def _bridge_up(self, event: LogEvent) -> None:
        match = _REMOTE.fullmatch(event.fields["remote"])
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

    def _bridge_error(self, event: LogEvent) -> None:
        bridge = self._bridges.pop(event.fields["local"], None)
        if bridge is not None:
            self._ended[bridge.peer] += 1  # its "stopped" names only the peer

    def _bridge_down(self, event: LogEvent) -> None:
        peer = event.fields["peer"]
        if self._ended[peer]:
            self._ended[peer] -= 1
            return
        oldest = next((local for local, bridge in self._bridges.items() if bridge.peer == peer), None)
        if oldest is not None:
            del self._bridges[oldest]

    def _duplex_up(self, event: LogEvent) -> None:
        link, _separator, broker_id = event.fields["duplexId"].partition("@")
        self._responders[link] = broker_id == "null"


def _into(phase: PhaseName) -> Callable[[BrokerRun, LogEvent], None]:
    return lambda run, event: run._enter(phase, event)


REACTIONS: dict[str, Callable[[BrokerRun, LogEvent], None]] = {
    "LIFE-STORE-CHOSEN": BrokerRun._begin,
    "LOCK-FILE-WAIT": _into("waiting"),
    "LOCK-FILE-WAIT-OLD": _into("waiting"),
    # From 5.14 on a lease's waiting is logged at DEBUG only: all that shows is the attempt.
    "LOCK-DB-TRY": _into("waiting"),
    "LOCK-DB-WAIT": _into("waiting"),
    "LOCK-LEASE-TRY": _into("waiting"),
    "LOCK-LEASE-WAIT": _into("waiting"),
    "LOCK-DB-GOT": BrokerRun._got_lock,
    "LOCK-LEASE-GOT": BrokerRun._got_lock,
    # No release logs that it got a file lock: these are the first lines after it.
    "KDB-OPENING": BrokerRun._got_lock,
    "KDB-VERSION": BrokerRun._got_lock,
    "LIFE-PA-STARTED": BrokerRun._got_lock,
    "LIFE-STARTING": BrokerRun._got_lock,
    "LIFE-STARTING-OLD": BrokerRun._got_lock,
    "LIFE-STARTED": BrokerRun._started,
    "LIFE-STARTED-OLD": BrokerRun._started,
    "PMS-SLAVE-CONNECTING": BrokerRun._dial_master,
    "PMS-SLAVE-ATTACHED": BrokerRun._attached,
    "PMS-SLAVE-REATTACHED": BrokerRun._attached,
    "PMS-SLAVE-NO-MASTER": BrokerRun._no_master,
    "LIFE-MASTERFAIL-PROMOTE": BrokerRun._promoted,
    "LIFE-MASTERFAIL-STOP": _into("stopping"),
    "PMS-SLAVE-FAILED": BrokerRun._slave_failed,
    "LOCK-LOST": _into("stopping"),
    "LIFE-STOPPING": _into("stopping"),
    "LIFE-STOPPED": BrokerRun._stopped,
    "LIFE-STOPPED-OLD": BrokerRun._stopped,
    "LIFE-START-FAILED": _into("failed"),
    "LIFE-CONFIG-INVALID": _into("failed"),
    "NET-UP": BrokerRun._bridge_up,
    "NET-REMOTE-ERR": BrokerRun._bridge_error,
    "NET-LOCAL-ERR": BrokerRun._bridge_error,
    "NET-DOWN": BrokerRun._bridge_down,
    "NET-DUPLEX-UP": BrokerRun._duplex_up,
}
"""How a BrokerRun reacts to each kind of event; other kinds do not affect its state."""
