"""Determine which links of a fleet are up, from the bridges and logs of its brokers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from activemq_fleet.network.connectors import NetworkConnector
from activemq_fleet.node.log.bridge_breaks import is_frame_size_error
from activemq_fleet.node.probe.jmx import encode_object_name_part
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.routes.bridges import (
    FleetNetworkConnectors,
    has_network_connector_fragments,
    network_connectors_of_brokers_with_fragments,
)
from activemq_fleet.schema import XmlDocument
from activemq_fleet.status.host_evidence import BrokerStatistics
from activemq_fleet.status.model import LinkState, LinkStatus
from activemq_fleet.topology import Broker, Fleet

_LONGEST_REASON = 300  # Characters.
# A refused connection or login. The INFO record has the most details.
_NOT_ACCEPTED = re.compile(
    r"(?:Could not accept connection\s*(?:from \S+)?\s*:\s*|Stopping \S+ because Failed with (?=SecurityException))"
    r"(?P<why>.*)"
)
# The message of a broker whose certificate the peer refused; the peer's log has the reason.
_ALERT = re.compile(r"Received fatal alert")
_CERTIFICATE = re.compile(r"PKIX|certificate|No (?:name|subject alternative)", re.IGNORECASE)
# Messages of a broker about a connection that one end has refused, without the reason.
_CONSEQUENCE = re.compile(r"EOFException|Broken pipe|bound has closed|Socket closed|TimeoutException")
_LAST_COMPLAINTS = 4
"""The number of complaints about a peer, the newest ones, in one of which is the reason for the others."""
_BRIDGE_ENDED = "shutdown due to a"
# Messages that a probe of the lab without TLS causes at a TLS port.
_PROBE_TRACE = re.compile(r"closing inbound before|not an SSL/TLS record|Unrecognized SSL message|plaintext connection")
_RESPONDER = re.compile(r"Started responder end of duplex bridge (?P<link>\S+?)@(?P<broker>\S+)")


class LogRecord(Protocol):
    """A record of a broker's log, which may explain why a link failed.

    Any log record with these attributes fits.
    """

    @property
    def level(self) -> str: ...
    @property
    def message(self) -> str: ...


def planned_network(fleet: Fleet) -> FleetNetworkConnectors:
    """Return the planned network of a fleet: the network connectors of all brokers, and their targets.

    Connectors that XML fragments add are included, and so are those that a peer refuses.
    """
    written = {
        broker.host: XmlDocument(render_activemq_xml_bytes(broker))
        for broker in fleet.brokers
        if has_network_connector_fragments(broker)
    }
    return FleetNetworkConnectors(fleet, network_connectors_of_brokers_with_fragments(fleet, written), as_planned=True)


def connectors_with_expected_peers(
    network: FleetNetworkConnectors, broker: Broker, active_hosts: Collection[str]
) -> Iterator[tuple[NetworkConnector, tuple[Broker, ...]]]:
    """Yield (networkConnector, target brokers) for each network bridge that an active broker should have.

    A bridge to one of these peers, which are active brokers, must be up. ``masterslave:`` and ``failover:`` have one
    bridge, to whichever node answers; the others have one to each. ``active_hosts`` are the hosts of active brokers.
    """
    for connector, candidates in network.connectors_to_other_pairs(broker.host):
        serving = tuple(
            peer for peer in candidates if peer.host in active_hosts and peer.name_in_links != broker.name_in_links
        )
        for peers in [serving] if connector.way == "one" and serving else [(peer,) for peer in serving]:
            yield connector, peers


def bridge_carries_both_ways(connector: NetworkConnector) -> bool:
    """Return whether a bridge of a network connector carries messages both ways.

    Then no bridge is needed once the other broker has one to this broker. True for a duplex connector and for one that
    finds brokers by multicast.
    """
    return bool(connector.duplex) or connector.way == "multicast"


def missing_link_reason(broker: Broker, peers: Sequence[Broker], records: Mapping[str, Sequence[LogRecord]]) -> str:
    """Return the reason why a network link is not up, from the logs of both ends, or "" if no log has a reason.

    It is the message of the end that refused the connection. That is the connecting broker if its log reports a problem
    with a certificate; else a broker at the far end whose log names the refused broker; else the connecting broker with
    any problem in its log. ``records`` are those of each broker's log, by host.
    """
    complaint = _logged_complaint_about(broker, peers, records)
    candidates = [(peer.host, _most_frequent_refusal(records.get(peer.host, ()))) for peer in peers]
    candidates.insert(0 if _CERTIFICATE.search(complaint) else len(candidates), (broker.host, complaint))
    explanations = [(host, text) for host, text in candidates if text]
    reasons = [(host, text) for host, text in explanations if not _ALERT.search(text)] or explanations
    return f"the log of {reasons[0][0]} reports: {reasons[0][1][:_LONGEST_REASON]}" if reasons else ""


def is_certificate_refused(broker: Broker, peers: Sequence[Broker], records: Mapping[str, Sequence[LogRecord]]) -> bool:
    """Return whether one end of a network link refuses the certificate of the other, so that the link is down.

    A retry does not change this. The log of a far end does not name the broker whose certificate it refused. The
    refusal counts for each broker whose connections to it are closed.
    """
    complaint = _logged_complaint_about(broker, peers, records)
    is_closed = bool(_CONSEQUENCE.search(complaint) or _ALERT.search(complaint))
    return bool(_CERTIFICATE.search(missing_link_reason(broker, peers, records) if is_closed else complaint))


def _logged_complaint_about(broker: Broker, peers: Sequence[Broker], records: Mapping[str, Sequence[LogRecord]]) -> str:
    names = [f"{name}{end}" for peer in peers for name, port in _names_and_ports(peer) for end in ("/", f":{port}")]
    return _last_complaint(records.get(broker.host, ()), names)


def _names_and_ports(broker: Broker) -> Iterator[tuple[str, int]]:
    for connector in broker.connectors:
        for name in {broker.address, broker.host, broker.identity.short_host_name}:
            yield name, connector.port


def _most_frequent_refusal(records: Sequence[LogRecord]) -> str:
    """Return the refusal that a broker logged most often, without the address of the refused client.

    TLS alerts about refusals by the other end count only if there are no other refusals.
    """
    refusal_matches = (_NOT_ACCEPTED.match(record.message) for record in records)
    refusals = [match["why"].strip() for match in refusal_matches if match and not _PROBE_TRACE.search(match["why"])]
    refusal_counts = Counter([refusal for refusal in refusals if not _ALERT.search(refusal)] or refusals)
    return refusal_counts.most_common(1)[0][0] if refusal_counts else ""


def _last_complaint(records: Sequence[LogRecord], names: Sequence[str]) -> str:
    """Return the last log message of a broker about a peer, else about a bridge that ended before it was up.

    ``names`` are the peer's names in the messages. A message with a cause is preferred to later ones that follow from
    it.
    """
    complaints = [record.message for record in records if record.level in ("WARN", "ERROR")]
    complaints_about_peer = [text for text in complaints if any(name in text for name in names)]
    recent_complaints = (complaints_about_peer or [text for text in complaints if _BRIDGE_ENDED in text])[
        -_LAST_COMPLAINTS:
    ]
    reasons = [text for text in recent_complaints if not _CONSEQUENCE.search(text)] or recent_complaints
    return " ".join(reasons[-1].split()) if reasons else ""


def link_statuses_of_broker(
    broker: Broker,
    network: FleetNetworkConnectors,
    usages: Mapping[str, BrokerStatistics | None],
    records: Mapping[str, Sequence[LogRecord]],
    breaking: Collection[str] = (),
) -> tuple[LinkStatus, ...]:
    """Return the status of each network link of an active broker.

    ``usages`` are the values of the active brokers' MBeans by host, None for one whose management view did not answer.
    ``breaking`` are the brokerNames of peers whose bridges to this broker break repeatedly.
    """
    links = []
    for connector, peers in connectors_with_expected_peers(network, broker, usages):
        breaking_peer = next((peer for peer in peers if peer.broker_name in breaking), None)
        if breaking_peer is not None:
            reason = _last_frame_refusal(records.get(breaking_peer.host, ()))
            hosts = tuple(peer.host for peer in peers)
            links.append(LinkStatus(connector.name, hosts, "down", reason, breaking_peer.broker_name))
            continue
        state, reason = _link_state(broker, connector, peers, usages, records)
        links.append(LinkStatus(connector.name, tuple(peer.host for peer in peers), state, reason))
    return tuple(links)


def _last_frame_refusal(records: Sequence[LogRecord]) -> str:
    """Return the last record of a broker that refused a frame as too large; up to 5.16.3 the sender does not log it."""
    refused = (record.message for record in reversed(records) if is_frame_size_error(record.message))
    return " ".join(next(refused, "").split())[:_LONGEST_REASON]


def _link_state(
    broker: Broker,
    connector: NetworkConnector,
    peers: Sequence[Broker],
    usages: Mapping[str, BrokerStatistics | None],
    records: Mapping[str, Sequence[LogRecord]],
) -> tuple[LinkState, str]:
    usage = usages[broker.host]
    if usage is None:
        return "unknown", "the management view (JMX) of the broker does not answer"
    name = encode_object_name_part(connector.name)
    connected_peers = {bridge.peer for bridge in usage.bridges if not bridge.responder and bridge.link == name}
    responding_peers = (
        {bridge.peer for bridge in usage.bridges if bridge.responder} if bridge_carries_both_ways(connector) else set()
    )
    up = [peer for peer in peers if peer.broker_name in connected_peers | responding_peers]
    if not up:
        return "down", missing_link_reason(broker, peers, records) or "no log contains a reason"
    if not connector.duplex or up[0].broker_name not in connected_peers:
        return "up", ""
    peer, peer_usage = up[0], usages[up[0].host]
    if peer_usage is not None and not any(
        bridge.responder and bridge.peer == broker.broker_name for bridge in peer_usage.bridges
    ):
        return "half", f"{peer.host} has no connection for the opposite direction of this duplex link"
    if _lacks_broker_id(records.get(peer.host, ()), connector.name):
        text = (
            f"{peer.host} did not receive the broker id of {broker.host} when it accepted this duplex link, so "
            f"{peer.host} sends no messages over the link"
        )
        return "half", text
    return "up", ""


def _lacks_broker_id(records: Sequence[LogRecord], link: str) -> bool:
    """Return whether the last responder of a duplex link was made without the other broker's id.

    ``BrokerRun.one_way_duplex_link_names`` describes the cause.
    """
    responders = [
        match["broker"] for record in records if (match := _RESPONDER.match(record.message)) and match["link"] == link
    ]
    return bool(responders) and responders[-1] == "null"
