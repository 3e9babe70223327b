"""Find the links of a lab that should be up and are not, with the reasons from the brokers' logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from activemq_fleet.lab.lab_brokers import BrokerSnapshot, LabBrokers
from activemq_fleet.lab.log_tail import log_records_of_broker_run
from activemq_fleet.lab.status import established_bridges_of_broker_run
from activemq_fleet.network.connectors import NetworkConnector
from activemq_fleet.node.judge import SERVING
from activemq_fleet.node.log.log_records import Record
from activemq_fleet.status.link_states import (
    bridge_carries_both_ways,
    connectors_with_expected_peers,
    is_certificate_refused,
    missing_link_reason,
    planned_network,
)
from activemq_fleet.topology import Broker

_POLL = 0.5


@dataclass(frozen=True, slots=True)
class MissingBrokerLink:
    """A network link of an active broker that is not up, although it should be.

    It should reach one of the active brokers ``peers``. ``expected`` is true when the inventory alone shows that the
    link cannot come up.
    """

    broker: Broker
    name: str
    peers: tuple[Broker, ...]
    expected: bool


class ExpectedLinks:
    """The network links between a lab's brokers that are expected to be up.

    They are compared with the bridges that the brokers' logs show as established.
    """

    def __init__(self, hosts: LabBrokers) -> None:
        self._hosts = hosts
        self._network = planned_network(hosts.fleet)
        self._refused = {
            (link.host, link.connector.name) for link in self._network.refused if link.refusal.is_certain_to_fail
        }

    def missing_links_after_wait(
        self, observe_brokers: Callable[[], Mapping[str, BrokerSnapshot]], timeout: float
    ) -> list[MissingBrokerLink]:
        """Wait until all expected network links of a lab are up, and return a list of the links that are missing.

        The list is empty if all links are up. The wait ends after ``timeout`` seconds, or earlier when no missing link
        can come up: a log shows the reason, such as a rejected certificate. ``observe_brokers`` returns new snapshots
        by host.
        """
        deadline = time.monotonic() + timeout
        while True:
            missing = list(self._missing_links(observe_brokers()))
            are_refusals_permanent = all(self._is_permanently_refused(link) for link in missing)
            if are_refusals_permanent or time.monotonic() > deadline:
                return missing
            time.sleep(_POLL)

    def _missing_links(self, snapshots: Mapping[str, BrokerSnapshot]) -> Iterator[MissingBrokerLink]:
        """Yield the links between active brokers that are not up, from one snapshot of every broker by host."""
        active = {host for host, snapshot in snapshots.items() if snapshot.state in SERVING}
        for broker in self._hosts.fleet.brokers:
            if broker.host not in active:
                continue
            bridges = established_bridges_of_broker_run(self._hosts, broker, snapshots[broker.host].broker_run)
            connected_hosts = {bridge.remote_host for bridge in bridges}
            responding_peers = {bridge.peer for bridge in bridges if bridge.responder}
            for connector, peers in connectors_with_expected_peers(self._network, broker, active):
                if not any(_is_up(connector, peer, connected_hosts, responding_peers) for peer in peers):
                    yield MissingBrokerLink(
                        broker, connector.name, peers, (broker.host, connector.name) in self._refused
                    )

    def missing_link_reason(self, link: MissingBrokerLink) -> str:
        """Return the reason why a network link is not up, from the brokers' logs.

        It is the refusal of the broker at the far end, else the error of the broker that connects. Returns an empty
        text while no log gives a reason.
        """
        return missing_link_reason(link.broker, link.peers, self._records_of_both_ends(link))

    def _is_permanently_refused(self, link: MissingBrokerLink) -> bool:
        if link.expected:
            return self.missing_link_reason(link) != ""
        return is_certificate_refused(link.broker, link.peers, self._records_of_both_ends(link))

    def describe_missing_link(self, link: MissingBrokerLink) -> str:
        """Return one line of text about a network link that is not up: its name, the reason, and the log file."""
        target = " or ".join(peer.host for peer in link.peers)
        reason = self.missing_link_reason(link) or "the logs of both brokers contain no reason"
        log = self._hosts.log_path(link.broker)
        return f"{link.broker.host}: link {link.name} to {target} is not up: {reason}. Read the log {log}"

    def _records_of_both_ends(self, link: MissingBrokerLink) -> dict[str, Sequence[Record]]:
        return {broker.host: self._records(broker) for broker in (link.broker, *link.peers)}

    def _records(self, broker: Broker) -> Sequence[Record]:
        run = self._hosts.last_broker_process_run(broker)
        records = log_records_of_broker_run(self._hosts.data_directory(broker), run) if run else ()
        return [replace(record, message=record.message_with_error) for record in records]


def _is_up(
    connector: NetworkConnector, peer: Broker, connected_hosts: set[str | None], responding_peers: set[str]
) -> bool:
    return peer.host in connected_hosts or (
        bridge_carries_both_ways(connector) and peer.broker_name in responding_peers
    )
