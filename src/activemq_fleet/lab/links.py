"""Find the links of a lab that should be up and are not, with the reasons from the brokers' logs."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from activemq_fleet.addresses import join
from activemq_fleet.lab.hosts import BrokerSnapshot, Hosts
from activemq_fleet.lab.log_tail import records_of
from activemq_fleet.lab.status import bridges_of
from activemq_fleet.logs import Record
from activemq_fleet.render.activemq_xml import activemq_xml
from activemq_fleet.routes.bridges import Network, NetworkConnector
from activemq_fleet.routes.documents import changes_network_connectors, connectors_of_documents
from activemq_fleet.topology import Broker

_LONGEST_REASON = 300  # characters
_POLL = 0.5
# A refused connection, or a refused login, of which INFO says the most.
_NOT_ACCEPTED = re.compile(
    r"(?:Could not accept connection\s*(?:from \S+)?\s*:\s*|Stopping \S+ because Failed with (?=SecurityException))"
    r"(?P<why>.*)"
)
_BRIDGE_ENDED = "shutdown due to a"
# What a look without TLS at a TLS port leaves: the lab's own.
_OWN_LOOK = re.compile(r"closing inbound before|not an SSL/TLS record|Unrecognized SSL message|plaintext connection")


@dataclass(frozen=True, slots=True)
class MissingLink:
    """A link of an active broker that is not up; ``peers`` are the active brokers that it should lead to.

    ``expected`` is true when the inventory alone shows that the link cannot come up.
    """

    broker: Broker
    name: str
    peers: tuple[Broker, ...]
    expected: bool


class Links:
    """The links that a lab's fleet should have, compared with the established bridges in the brokers' logs."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        fleet = hosts.fleet
        written = {broker.host: activemq_xml(broker) for broker in fleet.brokers if changes_network_connectors(broker)}
        self._network = Network(fleet, connectors_of_documents(fleet, written), as_planned=True)
        self._refused = {(one.host, one.connector.name) for one in self._network.refused if one.refusal.is_certain}

    def wait_until_up(self, look: Callable[[], Mapping[str, BrokerSnapshot]], timeout: float) -> list[MissingLink]:
        """Wait until every link is up; return the links that are not after ``timeout`` seconds.

        ``look`` returns fresh snapshots by host. The wait ends early when every missing link is one that the inventory
        shows cannot come up and whose reason is in a log.
        """
        deadline = time.monotonic() + timeout
        while True:
            missing = list(self._missing_links(look()))
            known = all(link.expected and self.missing_reason(link) for link in missing)
            if known or time.monotonic() > deadline:
                return missing
            time.sleep(_POLL)

    def _missing_links(self, snapshots: Mapping[str, BrokerSnapshot]) -> Iterator[MissingLink]:
        """Yield the links between active brokers that are not up, from one snapshot of every broker by host."""
        for broker in self._hosts.fleet.brokers:
            if snapshots[broker.host].state != "active":
                continue
            bridges = bridges_of(self._hosts, broker, snapshots[broker.host].broker_run)
            dialled = {bridge.remote_host for bridge in bridges}
            answered = {bridge.peer for bridge in bridges if bridge.responder}
            for connector, found in self._network.connectors(broker.host):
                expected = (broker.host, connector.name) in self._refused
                serving = [p for p in found if snapshots[p.host].state == "active" and p.unit != broker.unit]
                # masterslave: and failover: have one bridge, to whichever node answers; the others one to each.
                for peers in [serving] if connector.way == "one" and serving else [[peer] for peer in serving]:
                    if not any(_is_up(connector, peer, dialled, answered) for peer in peers):
                        yield MissingLink(broker, connector.name, tuple(peers), expected)

    def missing_reason(self, link: MissingLink) -> str:
        """Return why a link is not up, from the logs: the far end's refusal, else the dialling broker's complaint.

        Returns an empty text while no log gives a reason.
        """
        for peer in link.peers:
            said = _refusal_in(self._records(peer))
            if said:
                return f"{peer.host} says: {said[:_LONGEST_REASON]}"
        names = [join(name, port) for peer in link.peers for name, port in _names_of(peer)]
        said = _complaint_in(self._records(link.broker), names)
        return f"{link.broker.host} says: {said[:_LONGEST_REASON]}" if said else ""

    def describe(self, link: MissingLink) -> str:
        """Return one line that names a link that is not up, with its reason and the path of the log."""
        target = " or ".join(peer.host for peer in link.peers)
        why = self.missing_reason(link) or "no log says why"
        log = self._hosts.log_path(link.broker)
        return f"{link.broker.host}: link {link.name} to {target} is not up: {why} (log: {log})"

    def _records(self, broker: Broker) -> Sequence[Record]:
        run = self._hosts.last_run(broker)
        return records_of(self._hosts.data_directory(broker), run) if run else ()


def _is_up(connector: NetworkConnector, peer: Broker, dialled: set[str | None], answered: set[str]) -> bool:
    both_ways = connector.duplex or connector.way == "multicast"
    return peer.host in dialled or (both_ways and peer.broker_name in answered)


def _names_of(broker: Broker) -> Iterator[tuple[str, int]]:
    for connector in broker.connectors:
        for name in {broker.address, broker.host, broker.identity.host}:
            yield name, connector.port


def _refusal_in(records: Sequence[Record]) -> str:
    """Return the refusal that a broker wrote most often, without the address of whom it refused."""
    said = (_NOT_ACCEPTED.match(record.message) for record in records)
    found = Counter(match["why"].strip() for match in said if match and not _OWN_LOOK.search(match["why"]))
    return found.most_common(1)[0][0] if found else ""


def _complaint_in(records: Sequence[Record], names: Sequence[str]) -> str:
    """Return the last complaint of a broker about a peer, or about a bridge that ended before it was up."""
    complaints = [record.message for record in records if record.level in ("WARN", "ERROR")]
    named = [text for text in complaints if any(name in text for name in names) or _BRIDGE_ENDED in text]
    return " ".join(named[-1].split()) if named else ""
