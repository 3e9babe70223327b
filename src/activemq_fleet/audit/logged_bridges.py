"""Find the bridges in a host's log: when each was up, why it ended, and whether it was rebuilt."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from activemq_fleet.audit.broker_runs import log_event_from_evidence
from activemq_fleet.audit.evidence import LogRecordEvidence
from activemq_fleet.node.log.broker_run import REACTIONS, BrokerRun, EstablishedBridge

_FLAP_DURATION = timedelta(seconds=1)
_STOP_RECORDS = frozenset({"LIFE-STOPPING", "LIFE-STOPPED", "LIFE-STOPPED-OLD"})
LASTS = timedelta(minutes=2)
"""Time after which a bridge that ended and was not rebuilt counts as lost; a failover takes less time."""
_ADDRESS = re.compile(r"//(?:[^/@]*@)?([^/:,()?\s]+):(\d+)")
_THREAD = re.compile(r"DiscoveryNetworkConnector:([^:]+):")
_LOSS_RECORDS = frozenset({"NET-REMOTE-ERR", "NET-LOCAL-ERR"})
_FAILED_ATTEMPTS = frozenset({"NET-START-FAIL", "NET-REMOTE-URI-ERR"})
_FAILED = frozenset({*_FAILED_ATTEMPTS, "NET-REMOTE-ERR", "NET-LOCAL-ERR"})
_CONNECTED_ADDRESS = re.compile(r"//(?P<host>[^/:@\s]*)(?:/[^/:\s]+)?:(?P<port>\d+)")
"""A connected socket as a bridge logs it."""
_MINIMUM_ATTEMPTS = 3
"""The failed attempts after which a link that is not up at the end of the log has failed."""
_MINIMUM_ATTEMPTS_OF_RUN = 10
"""The same for an earlier run of the broker, during which its peer can have been down for a while."""
_LONG_TIME = timedelta(minutes=5)
"""The time after its first attempt from which a link has failed, however many attempts it made."""


@dataclass(frozen=True, slots=True)
class _BridgeEnd:
    """The cause of a bridge's end, in words; where the bridge broke, also the logged error."""

    cause: str
    error: str | None = None


@dataclass(slots=True)
class LoggedBridge:
    """A network bridge between two brokers that a host's log shows.

    The period in which it was up is included. It is a row of the dataset ``bridges``, which also has links that never
    came up. ``state``: up at the end of the log, down, or failed where the link never came up. ``direction``: ``out``
    where this host dialled. ``flaps``: the number of vain attempts before the link was up again. ``rebuilt``: whether
    the link was up again later, None while it is up. ``seen_loss``: the host's log has an error of the connection,
    which shows that the peer was lost. Times are by the host's clock.
    """

    host: str
    link: str | None
    peer: str | None
    direction: str
    began: datetime | None
    ended: datetime | None = None
    state: str = "up"
    flaps: int = 0
    cause: str | None = None
    rebuilt: bool | None = None
    seen_loss: bool = False
    back: datetime | None = None
    dialled: datetime | None = None
    """The first attempt of a link that never came up."""
    ended_late: bool = False
    """Whether the host's broker stopped, or its log ends, too soon after the end of the bridge to judge the bridge."""
    is_broken: bool = False
    """Whether an error ended the bridge."""
    error: str = ""
    """The logged error that ended the bridge, or the last one of a link that never came up."""
    broken_handshake: datetime | None = None
    """The time at which the last attempt to connect again ended in the handshake, where none followed."""

    @property
    def is_not_rebuilt_by_running_broker(self) -> bool:
        """Whether the bridge broke and was not rebuilt although its broker kept running.

        The end of such a bridge is an error or a broken handshake.
        """
        is_lost = self.is_broken or self.broken_handshake is not None
        is_certain = not self.ended_late or self.broken_handshake is not None
        return self.state == "down" and self.rebuilt is False and is_lost and is_certain


@dataclass(slots=True)
class _OutgoingLink:
    """An address that a broker's network connector connects to: its attempts in one run of the broker."""

    first: datetime
    addresses: frozenset[tuple[str, int]]
    failures: int = 0
    error: str = ""
    is_up: bool = False
    handshake: datetime | None = None
    failed: datetime | None = None
    """The last failed attempt."""
    is_dialled: bool = True
    """Whether the log has the records of attempts; a log with warnings only has none, and none of links that are up."""

    def has_never_come_up(self, newest_record: datetime | None, log_end: datetime | None, enough_attempts: int) -> bool:
        """Return whether a link that a broker opens has never been established.

        It has never come up after ``enough_attempts`` or more attempts, or after attempts over a long time.
        ``newest_record`` is the time of the newest record of a link or a run, ``log_end`` that of the last record of
        the log.
        """
        if self.is_up or newest_record is None:
            return False
        if not self.is_dialled and (self.failed is None or (log_end or newest_record) - self.failed > LASTS):
            return False
        return self.failures >= enough_attempts or newest_record - self.first >= _LONG_TIME


@dataclass(slots=True)
class _OutgoingLinks:
    """The network links in a broker's log by address.

    The log names a network connector only after it connected to its addresses.
    """

    by_uri: dict[str, str] = field(default_factory=dict)
    pending: list[tuple[str, str]] = field(default_factory=list)
    dialled: set[tuple[str, int]] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    attempts: dict[str, _OutgoingLink] = field(default_factory=dict)

    def record_attempt(self, record: LogRecordEvidence) -> None:
        uri = record.fields.get("remote", "")
        link = self.attempts.get(uri)
        if link is None:
            link = self.attempts[uri] = _OutgoingLink(record.at, frozenset(_addresses_in(uri)))
            self.dialled |= link.addresses
        link.is_dialled = True
        link.handshake = None
        connector_match = _THREAD.search(record.thread)  # With multicast, the listener thread opens the connection.
        if connector_match:
            self.by_uri[uri] = connector_match[1]
        elif uri not in self.by_uri:
            self.pending.append((record.thread, uri))

    def record_connector(self, record: LogRecordEvidence) -> None:
        name = link_name_of_connector(record.fields.get("connector", ""))
        self.names.add(name)
        for thread, uri in self.pending:
            if thread == record.thread:
                self.by_uri[uri] = name
        self.pending = [(thread, uri) for thread, uri in self.pending if thread != record.thread]

    def count_failed_attempt(self, evidence: LogRecordEvidence) -> None:
        """Add a failed connection attempt in a broker's log to the failures of its network link.

        The log record names the link, or there is only one link.
        """
        remote = evidence.fields.get("remote", "")
        if evidence.kind in _FAILED_ATTEMPTS and remote not in self.attempts and not self.dialled:
            self.attempts[remote] = _OutgoingLink(evidence.at, frozenset(_addresses_in(remote)), is_dialled=False)
        for uri, link in self.attempts.items():
            if evidence.fields.get("remote") == uri or len(self.attempts) == 1:
                link.failures += 1
                link.error = _error_text(evidence)
                link.handshake = None
                link.failed = evidence.at

    def count_failover_attempts(self, evidence: LogRecordEvidence) -> None:
        """Update the links' numbers of failed connection attempts from a log record of ActiveMQ's failover transport.

        The record has the addresses of the links.
        """
        addresses = _addresses_in(evidence.fields.get("uris", ""))
        for link in self.attempts.values():
            if addresses & link.addresses:
                link.failures = max(link.failures, int(evidence.fields.get("n", 0)))
                link.error = link.error or evidence.fields.get("e", "")[:200]

    def record_broken_handshake(self, evidence: LogRecordEvidence) -> None:
        """Store the time at which the handshake of a network link's connection failed, from a log record.

        The connection ended before the other broker sent its name.
        """
        match = _CONNECTED_ADDRESS.search(evidence.fields.get("t", ""))
        for link in self.attempts.values():
            if match and (match["host"], int(match["port"])) in link.addresses:
                link.handshake = evidence.at

    def clear_broken_handshakes_since(self, since: datetime) -> None:
        """Delete recorded handshake failures of network links since a time, because the broker's stop explains them."""
        for link in self.attempts.values():
            if link.handshake is not None and link.handshake >= since:
                link.handshake = None

    def mark_link_up(self, bridge: EstablishedBridge) -> None:
        """Mark a broker's network link as up, because the log shows that its bridge was established.

        A name can be logged in place of the address of the link.
        """
        address = bridge.remote_host, bridge.remote_port
        links = list(self.attempts.values())
        exact = [link for link in links if address in link.addresses]
        of_port = [link for link in links if any(bridge.remote_port == port for _, port in link.addresses)]
        if not of_port and len(links) == 1:
            of_port = links
        for link in exact or of_port:
            link.is_up, link.handshake = True, None

    def link_name(self, bridge: EstablishedBridge) -> str | None:
        exact = {
            name for uri, name in self.by_uri.items() if (bridge.remote_host, bridge.remote_port) in _addresses_in(uri)
        }
        if len(exact) == 1:
            return exact.pop()
        port = {name for uri, name in self.by_uri.items() if bridge.remote_port in {p for _, p in _addresses_in(uri)}}
        if not exact and len(port) == 1:
            return port.pop()
        return next(iter(self.names)) if len(self.names) == 1 and not exact else None


def link_name_of_connector(connector: str) -> str:
    """Return the name of a link from the logged name of its network connector.

    It is ``ms`` for ``DiscoveryNetworkConnector:ms:BrokerService[N1]``.
    """
    parts = connector.split(":")
    return parts[1] if len(parts) > 2 else connector


def _addresses_in(uri: str) -> set[tuple[str, int]]:
    """Return host and port of each address in a URI."""
    return {(host, int(port)) for host, port in _ADDRESS.findall(uri)}


def bridges_from_log_evidence(
    evidence: Iterable[LogRecordEvidence], log_end: datetime | None = None
) -> list[LoggedBridge]:
    """Return the network bridges of a host that the evidence in its log shows.

    They are shown over time. They are in the order of the log, which ends at ``log_end``.
    """
    reader = _BridgeReader(log_end)
    for record in evidence:
        reader.take(record)
    reader.mark_rebuilt_and_add_never_up_links()
    return reader.bridges


class _BridgeReader:
    """A reader of a host's log evidence that collects the host's bridges."""

    def __init__(self, last: datetime | None) -> None:
        self.bridges: list[LoggedBridge] = []
        self._log_end = last
        self._broker_run = BrokerRun()
        self._links = _OutgoingLinks()
        self._bridges_up: dict[str, LoggedBridge] = {}
        self._last_ended: dict[tuple[str | None, ...], LoggedBridge] = {}
        self._accepted_links: list[str] = []
        self._newest_record: datetime | None = None
        self._host: str | None = None

    def take(self, record: LogRecordEvidence) -> None:
        previous_bridges = {bridge.local: bridge for bridge in self._broker_run.currently_established_bridges}
        if record.kind == "LIFE-STORE-CHOSEN":
            self._close_all_bridges(record, _BridgeEnd("the broker process ended without a log record"))
            self._add_failed_links(record.host, _MINIMUM_ATTEMPTS_OF_RUN)
            self._links = _OutgoingLinks()
        self._newest_record, self._host = record.at, record.host
        if record.kind in REACTIONS:
            self._broker_run.apply_event(log_event_from_evidence(record))
        current_bridges = {bridge.local: bridge for bridge in self._broker_run.currently_established_bridges}
        self._apply_link_record(record, previous_bridges)
        for local, bridge in current_bridges.items():
            if previous_bridges.get(local) != bridge:
                self._open_bridge(local, bridge, record)
        for local in previous_bridges.keys() - current_bridges.keys():
            self._close_bridge(local, record)

    def _apply_link_record(self, record: LogRecordEvidence, previous_bridges: dict[str, EstablishedBridge]) -> None:
        if record.kind == "NET-DIAL":
            self._links.record_attempt(record)
        elif record.kind == "NET-CONNECTOR-UP":
            self._links.record_connector(record)
        elif record.kind == "NET-DUPLEX-UP":
            self._accepted_links.append(record.fields.get("duplexId", "").partition("@")[0])
        elif record.kind in _STOP_RECORDS:
            for bridge in self._last_ended.values():
                bridge.ended_late = bridge.ended is not None and record.at - bridge.ended <= LASTS
            self._links.clear_broken_handshakes_since(record.at - LASTS)
        elif record.kind == "NET-PENDING-INFO" and record.fields.get("side") == "remote":
            self._links.record_broken_handshake(record)
        elif record.kind == "FO-STILL-TRYING":
            self._links.count_failover_attempts(record)
        elif record.kind in _FAILED and record.fields.get("local", "") not in previous_bridges:
            self._links.count_failed_attempt(record)
            self._count_failed_attempt(record)

    def _open_bridge(self, local: str, established: EstablishedBridge, record: LogRecordEvidence) -> None:
        if local in self._bridges_up:
            self._record_end(self._bridges_up.pop(local), record.at, _BridgeEnd("a new bridge replaced it"))
        # The log shows outgoing and incoming connections in the same form, so the known targets decide the direction.
        is_incoming = (
            established.responder and (established.remote_host, established.remote_port) not in self._links.dialled
        )
        link, direction = (
            (self._next_accepted_link(), "in") if is_incoming else (self._links.link_name(established), "out")
        )
        if not is_incoming:
            self._links.mark_link_up(established)
        bridge = LoggedBridge(record.host, link, established.peer, direction, record.at)
        self._bridges_up[local] = bridge
        self.bridges.append(bridge)

    def _next_accepted_link(self) -> str | None:
        return self._accepted_links.pop(0) if self._accepted_links else None

    def _close_bridge(self, local: str, record: LogRecordEvidence) -> None:
        bridge = self._bridges_up.pop(local, None)
        if bridge is None:
            return
        bridge.seen_loss = record.kind in _LOSS_RECORDS
        self._record_end(bridge, record.at, _bridge_end_of_record(record))

    def _close_all_bridges(self, record: LogRecordEvidence, end: _BridgeEnd) -> None:
        for bridge in self._bridges_up.values():
            # The log does not record the end. The bridge ended before the next run began.
            self._mark_predecessor_rebuilt(bridge, self._last_ended.get(_bridge_key(bridge)))
            bridge.state, bridge.rebuilt = "down", False
            _set_cause(bridge, end)
            self._last_ended[_bridge_key(bridge)] = bridge
        self._bridges_up.clear()

    def _record_end(self, bridge: LoggedBridge, at: datetime, end: _BridgeEnd) -> None:
        """Set the end of a bridge; count a bridge that was up only for a moment as a flap of its link."""
        key = _bridge_key(bridge)
        predecessor = self._last_ended.get(key)
        if bridge.began is not None and at - bridge.began <= _FLAP_DURATION:
            self.bridges.remove(bridge)
            if predecessor is None:
                predecessor = self._last_ended[key] = LoggedBridge(
                    bridge.host, bridge.link, bridge.peer, bridge.direction, None
                )
                predecessor.state, predecessor.rebuilt = "failed", False
                self.bridges.append(predecessor)
            predecessor.flaps += 1
            if predecessor.state == "failed":
                _set_cause(predecessor, end)
            return
        self._mark_predecessor_rebuilt(bridge, predecessor)
        bridge.ended, bridge.state, bridge.rebuilt = at, "down", False
        _set_cause(bridge, end)
        self._last_ended[key] = bridge

    def _mark_predecessor_rebuilt(self, bridge: LoggedBridge, predecessor: LoggedBridge | None) -> None:
        if predecessor is not None and not predecessor.rebuilt:
            predecessor.rebuilt, predecessor.back = True, bridge.began

    def _count_failed_attempt(self, record: LogRecordEvidence) -> None:
        """Count a failed connection attempt for the outgoing link that was lost, where one is known."""
        for bridge in self._last_ended.values():
            if bridge.direction == "out" and not bridge.rebuilt:
                bridge.flaps += 1
                return

    def mark_rebuilt_and_add_never_up_links(self) -> None:
        """At the end of a host's log, mark rebuilt network bridges, and record the links that never came up.

        A bridge that ended counts as rebuilt if a later bridge of its link is up at that time. An outgoing bridge that
        is not rebuilt gets the time of the last broken handshake of its link.
        """
        for bridge in self._bridges_up.values():
            self._mark_predecessor_rebuilt(bridge, self._last_ended.get(_bridge_key(bridge)))
        for bridge in self._last_ended.values():
            if bridge.direction == "out" and not bridge.rebuilt:
                handshakes = [
                    link.handshake
                    for uri, link in self._links.attempts.items()
                    if link.handshake and bridge.link in (None, self._links.by_uri.get(uri))
                ]
                bridge.broken_handshake = max(handshakes, default=None)
        if self._host is not None:
            self._add_failed_links(self._host, _MINIMUM_ATTEMPTS)

    def _add_failed_links(self, host: str, enough_attempts: int) -> None:
        """Add the network links of a broker run that never came up.

        A link is added after the given number of attempts, or after a long time.
        """
        for uri, link in self._links.attempts.items():
            if not link.has_never_come_up(self._newest_record, self._log_end, enough_attempts):
                continue
            names = self._links.names
            name = self._links.by_uri.get(uri) or (next(iter(names)) if len(names) == 1 else None)
            cause = f"{uri[:200]}: {link.error or 'no error in this log'}"
            if not link.is_dialled:
                cause += " (the log does not record links that come up: this link may have been up before)"
            bridge = LoggedBridge(host, name, None, "out", None, None, "failed", link.failures, cause, rebuilt=False)
            bridge.dialled, bridge.broken_handshake, bridge.error = link.first, link.handshake, link.error
            self.bridges.append(bridge)


def _bridge_key(bridge: LoggedBridge) -> tuple[str | None, ...]:
    """Return the key that a bridge shares with its successor. Incoming links of several peers may share a name."""
    return (bridge.link, bridge.direction, bridge.peer if bridge.direction == "in" else None)


def _set_cause(bridge: LoggedBridge, end: _BridgeEnd) -> None:
    """Set the cause of a bridge's end, and the error that broke the bridge, if any."""
    bridge.cause, bridge.is_broken, bridge.error = end.cause, end.error is not None, end.error or ""


def _bridge_end_of_record(record: LogRecordEvidence) -> _BridgeEnd:
    if record.kind in _LOSS_RECORDS:
        error = _error_text(record)
        side = "the other broker" if record.kind == "NET-REMOTE-ERR" else "this broker"
        return _BridgeEnd(f"error at {side}: {error}", error)
    if record.kind == "NET-DOWN":
        return _BridgeEnd("it was stopped")
    return _BridgeEnd("the broker stopped" if record.kind.startswith("LIFE-") else "the broker stopped serving")


def _error_text(record: LogRecordEvidence) -> str:
    return record.fields.get("e", "").split("\n", 1)[0][:200] or "unknown"
