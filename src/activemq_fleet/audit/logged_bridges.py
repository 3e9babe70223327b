"""Find the bridges in a host's log: when each was up, why it ended, and whether it was rebuilt."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from activemq_fleet.audit.broker_runs import log_event_from_evidence
from activemq_fleet.audit.evidence import LogRecordEvidence
from activemq_fleet.node.log.broker_run import REACTIONS, BrokerRun, EstablishedBridge

BROKE = "error at"
"""The beginning of the cause of a bridge that broke."""
_ALIVE = timedelta(seconds=1)
_STOPS = frozenset({"LIFE-STOPPING", "LIFE-STOPPED", "LIFE-STOPPED-OLD"})
LASTS = timedelta(minutes=2)
"""Time after which a bridge that ended and was not rebuilt counts as lost; a failover takes less time."""
_ADDRESS = re.compile(r"//(?:[^/@]*@)?([^/:,()?\s]+):(\d+)")
_THREAD = re.compile(r"DiscoveryNetworkConnector:([^:]+):")
_LOST = frozenset({"NET-REMOTE-ERR", "NET-LOCAL-ERR"})
_FAILED_ATTEMPTS = frozenset({"NET-START-FAIL", "NET-REMOTE-URI-ERR"})
_FAILED = frozenset({*_FAILED_ATTEMPTS, "NET-REMOTE-ERR", "NET-LOCAL-ERR"})
_CONNECTED = re.compile(r"//(?P<host>[^/:@\s]*)(?:/[^/:\s]+)?:(?P<port>\d+)")
"""A connected socket as a bridge logs it."""
_ATTEMPTS = 3
"""The failed attempts after which a link that is not up at the end of the log has failed."""
_ATTEMPTS_OF_RUN = 10
"""The same for an earlier run of the broker, during which its peer can have been down for a while."""
_LONG = timedelta(minutes=5)
"""The time after its first attempt from which a link has failed, however many attempts it made."""


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
    back_peer: str | None = None
    dialled: datetime | None = None
    """The first attempt of a link that never came up."""
    ended_late: bool = False
    """Whether the host's broker stopped, or its log ends, too soon after the end of the bridge to judge the bridge."""
    broken_handshake: datetime | None = None
    """The time at which the last attempt to connect again ended in the handshake, where none followed."""

    @property
    def is_not_rebuilt_by_running_broker(self) -> bool:
        """Whether the bridge broke and was not rebuilt although its broker kept running.

        The end of such a bridge is an error or a broken handshake.
        """
        is_lost = (self.cause or "").startswith(BROKE) or self.broken_handshake is not None
        is_certain = not self.ended_late or self.broken_handshake is not None
        return self.state == "down" and self.rebuilt is False and is_lost and is_certain


@dataclass(slots=True)
class _DialledLink:
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
        return self.failures >= enough_attempts or newest_record - self.first >= _LONG


@dataclass(slots=True)
class _Links:
    """The network links in a broker's log by address.

    The log names a network connector only after it connected to its addresses.
    """

    by_uri: dict[str, str] = field(default_factory=dict)
    pending: list[tuple[str, str]] = field(default_factory=list)
    dialled: set[tuple[str, int]] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    attempts: dict[str, _DialledLink] = field(default_factory=dict)

    def dial(self, seen: LogRecordEvidence) -> None:
        uri = seen.fields.get("remote", "")
        link = self.attempts.get(uri)
        if link is None:
            link = self.attempts[uri] = _DialledLink(seen.at, frozenset(_addresses_in(uri)))
            self.dialled |= link.addresses
        link.is_dialled = True
        link.handshake = None
        connector_match = _THREAD.search(seen.thread)  # multicast: its listener opens the connection
        if connector_match:
            self.by_uri[uri] = connector_match[1]
        elif uri not in self.by_uri:
            self.pending.append((seen.thread, uri))

    def connector(self, seen: LogRecordEvidence) -> None:
        name = link_name_of_connector(seen.fields.get("connector", ""))
        self.names.add(name)
        for thread, uri in self.pending:
            if thread == seen.thread:
                self.by_uri[uri] = name
        self.pending = [(thread, uri) for thread, uri in self.pending if thread != seen.thread]

    def count_failed_attempt(self, evidence: LogRecordEvidence) -> None:
        """Add a failed connection attempt in a broker's log to the failures of its network link.

        The log record names the link, or there is only one link.
        """
        remote = evidence.fields.get("remote", "")
        if evidence.kind in _FAILED_ATTEMPTS and remote not in self.attempts and not self.dialled:
            self.attempts[remote] = _DialledLink(evidence.at, frozenset(_addresses_in(remote)), is_dialled=False)
        for uri, link in self.attempts.items():
            if evidence.fields.get("remote") == uri or len(self.attempts) == 1:
                link.failures += 1
                link.error = _error_text(evidence)
                link.handshake = None
                link.failed = evidence.at

    def count_failover_attempts(self, evidence: LogRecordEvidence) -> None:
        """Update the links' numbers of failed attempts from a log record, in which a failover transport reports them.

        The record has the addresses of the links.
        """
        addresses = _addresses_in(evidence.fields.get("uris", ""))
        for link in self.attempts.values():
            if addresses & link.addresses:
                link.failures = max(link.failures, int(evidence.fields.get("n", 0)))
                link.error = link.error or evidence.fields.get("e", "")[:200]

    def record_broken_handshake(self, evidence: LogRecordEvidence) -> None:
        """Record the time at which the handshake of a broker's network link broke, from a log record.

        The connection ended before the other broker sent its name.
        """
        match = _CONNECTED.search(evidence.fields.get("t", ""))
        for link in self.attempts.values():
            if match and (match["host"], int(match["port"])) in link.addresses:
                link.handshake = evidence.at

    def clear_broken_handshakes_since(self, since: datetime) -> None:
        """Clear handshakes of network links that broke since a time, because the stop of the broker explains them."""
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

    def of(self, bridge: EstablishedBridge) -> str | None:
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
    reader.mark_rebuilt_and_add_failed_links()
    return reader.bridges


class _BridgeReader:
    """A reader of a host's log evidence that collects the host's bridges."""

    def __init__(self, last: datetime | None) -> None:
        self.bridges: list[LoggedBridge] = []
        self._end = last
        self._story = BrokerRun()
        self._links = _Links()
        self._up: dict[str, LoggedBridge] = {}
        self._last: dict[tuple[str | None, ...], LoggedBridge] = {}
        self._passive: list[str] = []
        self._newest: datetime | None = None
        self._host: str | None = None

    def take(self, seen: LogRecordEvidence) -> None:
        before = {bridge.local: bridge for bridge in self._story.established_bridges}
        if seen.kind == "LIFE-STORE-CHOSEN":
            self._close_all_bridges(seen, "the broker process ended without a log record")
            self._add_failed_links(seen.host, _ATTEMPTS_OF_RUN)
            self._links = _Links()
        self._newest, self._host = seen.at, seen.host
        if seen.kind in REACTIONS:
            self._story.apply_event(log_event_from_evidence(seen))
        now = {bridge.local: bridge for bridge in self._story.established_bridges}
        self._read_other(seen, had=before)
        for local, bridge in now.items():
            if before.get(local) != bridge:
                self._open_bridge(local, bridge, seen)
        for local in before.keys() - now.keys():
            self._close_bridge(local, seen)

    def _read_other(self, seen: LogRecordEvidence, had: dict[str, EstablishedBridge]) -> None:
        if seen.kind == "NET-DIAL":
            self._links.dial(seen)
        elif seen.kind == "NET-CONNECTOR-UP":
            self._links.connector(seen)
        elif seen.kind == "NET-DUPLEX-UP":
            self._passive.append(seen.fields.get("duplexId", "").partition("@")[0])
        elif seen.kind in _STOPS:
            for bridge in self._last.values():
                bridge.ended_late = bridge.ended is not None and seen.at - bridge.ended <= LASTS
            self._links.clear_broken_handshakes_since(seen.at - LASTS)
        elif seen.kind == "NET-PENDING-INFO" and seen.fields.get("side") == "remote":
            self._links.record_broken_handshake(seen)
        elif seen.kind == "FO-STILL-TRYING":
            self._links.count_failover_attempts(seen)
        elif seen.kind in _FAILED and seen.fields.get("local", "") not in had:
            self._links.count_failed_attempt(seen)
            self._count_failed_attempt(seen)

    def _open_bridge(self, local: str, up: EstablishedBridge, seen: LogRecordEvidence) -> None:
        if local in self._up:
            self._record_end(self._up.pop(local), seen.at, "a new bridge replaced it")
        # The log shows an address that this host dialled in the same form as the address of a broker that dialled it.
        passive = up.responder and (up.remote_host, up.remote_port) not in self._links.dialled
        link, direction = (self._next_accepted_link(), "in") if passive else (self._links.of(up), "out")
        if not passive:
            self._links.mark_link_up(up)
        bridge = LoggedBridge(seen.host, link, up.peer, direction, seen.at)
        self._up[local] = bridge
        self.bridges.append(bridge)

    def _next_accepted_link(self) -> str | None:
        return self._passive.pop(0) if self._passive else None

    def _close_bridge(self, local: str, seen: LogRecordEvidence) -> None:
        bridge = self._up.pop(local, None)
        if bridge is None:
            return
        bridge.seen_loss = seen.kind in _LOST
        self._record_end(bridge, seen.at, _cause_of_end(seen))

    def _close_all_bridges(self, seen: LogRecordEvidence, cause: str) -> None:
        for bridge in self._up.values():
            # The log does not record the end: the bridge ended before the next run began.
            self._mark_predecessor_rebuilt(bridge, self._last.get(_bridge_key(bridge)))
            bridge.state, bridge.cause, bridge.rebuilt = "down", cause, False
            self._last[_bridge_key(bridge)] = bridge
        self._up.clear()

    def _record_end(self, bridge: LoggedBridge, at: datetime, cause: str) -> None:
        """Set the end of a bridge; count a bridge that was up only for a moment as a flap of its link."""
        key = _bridge_key(bridge)
        known = self._last.get(key)
        if bridge.began is not None and at - bridge.began <= _ALIVE:
            self.bridges.remove(bridge)
            if known is None:
                known = self._last[key] = LoggedBridge(bridge.host, bridge.link, bridge.peer, bridge.direction, None)
                known.state, known.rebuilt = "failed", False
                self.bridges.append(known)
            known.flaps += 1
            known.cause = known.cause or cause
            if known.state == "failed":
                known.cause = cause
            return
        self._mark_predecessor_rebuilt(bridge, known)
        bridge.ended, bridge.state, bridge.cause, bridge.rebuilt = at, "down", cause, False
        self._last[key] = bridge

    def _mark_predecessor_rebuilt(self, bridge: LoggedBridge, known: LoggedBridge | None) -> None:
        if known is not None and not known.rebuilt:
            known.rebuilt, known.back, known.back_peer = True, bridge.began, bridge.peer

    def _count_failed_attempt(self, seen: LogRecordEvidence) -> None:
        """Count a failed connection attempt for the outgoing link that was lost, where one is known."""
        for known in self._last.values():
            if known.direction == "out" and not known.rebuilt:
                known.flaps += 1
                return

    def mark_rebuilt_and_add_failed_links(self) -> None:
        """Complete a host's network bridges at the end of its log: mark rebuilt ones, and add links that never came up.

        A bridge that ended counts as rebuilt if a later bridge of its link is up at that time. An outgoing bridge that
        is not rebuilt gets the time of the last broken handshake of its link.
        """
        for bridge in self._up.values():
            self._mark_predecessor_rebuilt(bridge, self._last.get(_bridge_key(bridge)))
        for bridge in self._last.values():
            if bridge.direction == "out" and not bridge.rebuilt:
                handshakes = [
                    link.handshake
                    for uri, link in self._links.attempts.items()
                    if link.handshake and bridge.link in (None, self._links.by_uri.get(uri))
                ]
                bridge.broken_handshake = max(handshakes, default=None)
        if self._host is not None:
            self._add_failed_links(self._host, _ATTEMPTS)

    def _add_failed_links(self, host: str, least: int) -> None:
        """Add the network links of a broker run that never came up.

        A link is added after the given number of attempts, or after a long time.
        """
        for uri, link in self._links.attempts.items():
            if not link.has_never_come_up(self._newest, self._end, least):
                continue
            names = self._links.names
            name = self._links.by_uri.get(uri) or (next(iter(names)) if len(names) == 1 else None)
            cause = f"{uri[:200]}: {link.error or 'no error in this log'}"
            if not link.is_dialled:
                cause += " (the log does not record links that come up: this link may have been up before)"
            bridge = LoggedBridge(host, name, None, "out", None, None, "failed", link.failures, cause, rebuilt=False)
            bridge.dialled, bridge.broken_handshake = link.first, link.handshake
            self.bridges.append(bridge)


def _bridge_key(bridge: LoggedBridge) -> tuple[str | None, ...]:
    """Return the key that a bridge shares with its successor. Incoming links of several peers may share a name."""
    return (bridge.link, bridge.direction, bridge.peer if bridge.direction == "in" else None)


def _cause_of_end(seen: LogRecordEvidence) -> str:
    if seen.kind == "NET-REMOTE-ERR":
        return f"{BROKE} the other broker: {_error_text(seen)}"
    if seen.kind == "NET-LOCAL-ERR":
        return f"{BROKE} this broker: {_error_text(seen)}"
    if seen.kind == "NET-DOWN":
        return "it was stopped"
    return "the broker stopped" if seen.kind.startswith("LIFE-") else "the broker stopped serving"


def _error_text(seen: LogRecordEvidence) -> str:
    return seen.fields.get("e", "").split("\n", 1)[0][:200] or "unknown"
