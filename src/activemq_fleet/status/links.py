"""Conclude which links of a fleet are up, from the bridges that brokers have and what their logs say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from activemq_fleet.addresses import join
from activemq_fleet.render.activemq_xml import activemq_xml
from activemq_fleet.routes.bridges import Network, NetworkConnector
from activemq_fleet.routes.documents import changes_network_connectors, connectors_of_documents
from activemq_fleet.status.model import LinkState, LinkStatus
from activemq_fleet.topology import Broker, Fleet

_LONGEST_REASON = 300  # characters
# A refused connection, or a refused login, of which INFO says the most.
_NOT_ACCEPTED = re.compile(
    r"(?:Could not accept connection\s*(?:from \S+)?\s*:\s*|Stopping \S+ because Failed with (?=SecurityException))"
    r"(?P<why>.*)"
)
_BRIDGE_ENDED = "shutdown due to a"
# What a look without TLS at a TLS port leaves: the lab's own.
_OWN_LOOK = re.compile(r"closing inbound before|not an SSL/TLS record|Unrecognized SSL message|plaintext connection")
_RESPONDER = re.compile(r"Started responder end of duplex bridge (?P<link>\S+?)@(?P<broker>\S+)")


class LogRecord(Protocol):
    """The parts of a broker's log record that name why a link failed; any log record with these attributes fits."""

    @property
    def level(self) -> str: ...
    @property
    def message(self) -> str: ...


def planned_network(fleet: Fleet) -> Network:
    """Return the network of a fleet's planned networkConnectors, including those that XML fragments add."""
    written = {broker.host: activemq_xml(broker) for broker in fleet.brokers if changes_network_connectors(broker)}
    return Network(fleet, connectors_of_documents(fleet, written), as_planned=True)


def expected_peers(
    network: Network, broker: Broker, active: Collection[str]
) -> Iterator[tuple[NetworkConnector, tuple[Broker, ...]]]:
    """Yield (networkConnector, brokers) of an active broker: a bridge to one of these active brokers has to be up now.

    ``masterslave:`` and ``failover:`` have one bridge, to whichever node answers; the others have one to each.
    ``active`` are the hosts of active brokers.
    """
    for connector, found in network.connectors(broker.host):
        serving = tuple(peer for peer in found if peer.host in active and peer.unit != broker.unit)
        for peers in [serving] if connector.way == "one" and serving else [(peer,) for peer in serving]:
            yield connector, peers


def carries_both_ways(connector: NetworkConnector) -> bool:
    """Return whether a networkConnector needs no bridge of its own once the other broker has bridged to this one.

    True for a duplex connector and for one that finds brokers by multicast.
    """
    return connector.duplex or connector.way == "multicast"


def missing_reason(broker: Broker, peers: Sequence[Broker], records: Mapping[str, Sequence[LogRecord]]) -> str:
    """Return why a link is not up, from the logs: the refusal of the broker at its far end, else the error of the
    dialling broker.

    ``records`` are those of each broker's log, by host. Empty where no log gives a reason.
    """
    for peer in peers:
        if said := _refusal_in(records.get(peer.host, ())):
            return f"{peer.host} says: {said[:_LONGEST_REASON]}"
    names = [join(name, port) for peer in peers for name, port in _names_of(peer)]
    said = _complaint_in(records.get(broker.host, ()), names)
    return f"{broker.host} says: {said[:_LONGEST_REASON]}" if said else ""


def _names_of(broker: Broker) -> Iterator[tuple[str, int]]:
    for connector in broker.connectors:
        for name in {broker.address, broker.host, broker.identity.host}:
            yield name, connector.port


def _refusal_in(records: Sequence[LogRecord]) -> str:
    """Return the refusal that a broker wrote most often, without the address of whom it refused."""
    said = (_NOT_ACCEPTED.match(record.message) for record in records)
    found = Counter(match["why"].strip() for match in said if match and not _OWN_LOOK.search(match["why"]))
    return found.most_common(1)[0][0] if found else ""


def _complaint_in(records: Sequence[LogRecord], names: Sequence[str]) -> str:
    """Return the last complaint of a broker about a peer, or about a bridge that ended before it was up."""
    complaints = [record.message for record in records if record.level in ("WARN", "ERROR")]
    named = [text for text in complaints if any(name in text for name in names) or _BRIDGE_ENDED in text]
    return " ".join(named[-1].split()) if named else ""


def links_of(
    broker: Broker,
    network: Network,
    usages: Mapping[str, Mapping[str, Any]],
    records: Mapping[str, Sequence[LogRecord]],
) -> tuple[LinkStatus, ...]:
    """Return the state of each link of an active broker.

    ``usages`` are by host what the active brokers' MBeans say, empty for one whose management view did not answer.
    """
    found = []
    for connector, peers in expected_peers(network, broker, usages):
        state, reason = _link_state(broker, connector, peers, usages, records)
        found.append(LinkStatus(connector.name, tuple(peer.host for peer in peers), state, reason))
    return tuple(found)


def _link_state(
    broker: Broker,
    connector: NetworkConnector,
    peers: Sequence[Broker],
    usages: Mapping[str, Mapping[str, Any]],
    records: Mapping[str, Sequence[LogRecord]],
) -> tuple[LinkState, str]:
    own = usages[broker.host].get("bridges")
    if own is None:
        return "unknown", "its management view does not answer"
    dialled = {one["peer"] for one in own if not one["responder"] and one["link"] == connector.name}
    answered = {one["peer"] for one in own if one["responder"]} if carries_both_ways(connector) else set()
    up = [peer for peer in peers if peer.broker_name in dialled | answered]
    if not up:
        return "down", missing_reason(broker, peers, records) or "no log says why"
    if not connector.duplex or up[0].broker_name not in dialled:
        return "up", ""
    peer, theirs = up[0], usages[up[0].host].get("bridges")
    if theirs is not None and not any(one["responder"] and one["peer"] == broker.broker_name for one in theirs):
        return "half", f"{peer.host} has no bridge back"
    if _lacks_id(records.get(peer.host, ()), connector.name):
        return "half", f"{peer.host} took it without the id of {broker.host} (seen on 5.5.1)"
    return "up", ""


def _lacks_id(records: Sequence[LogRecord], link: str) -> bool:
    """Return whether the last responder of a duplex link was made without the other broker's id.

    ``logs.BrokerRun.half_links`` describes the cause.
    """
    responders = [
        match["broker"] for one in records if (match := _RESPONDER.match(one.message)) and match["link"] == link
    ]
    return bool(responders) and responders[-1] == "null"
