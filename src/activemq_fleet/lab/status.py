"""Compute the status of brokers and their bridges, as ``lab status`` shows them."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from activemq_fleet.addresses import Address
from activemq_fleet.lab.lab_brokers import BrokerSnapshot, LabBrokers
from activemq_fleet.naming import Role
from activemq_fleet.node.judge import BrokerState
from activemq_fleet.node.log.bridge_breaks import flapping_bridges
from activemq_fleet.node.log.broker_log import read_log_records
from activemq_fleet.node.log.broker_run import BrokerRun, EstablishedBridge
from activemq_fleet.topology import Broker


@dataclass(frozen=True, slots=True)
class RunningBridge:
    """A running network bridge of a broker, as the broker's log shows it.

    ``link`` is the name of the networkConnector, of either end, and empty where it is unknown. ``peer`` is the
    brokerName of the peer, which both nodes of a pair with a shared store have. ``remote_address`` is the connected
    address; ``remote_host`` is the inventory name of the broker there. A ``responder`` is the passive end of a duplex
    link: its ``remote_address`` is the port from which the peer connected, and ``remote_host`` is None. ``since`` is
    local time.
    """

    link: str
    peer: str
    remote_address: Address
    remote_host: str | None
    responder: bool
    since: datetime


@dataclass(frozen=True, slots=True)
class HostStatus:
    """The status of one broker of a lab: its role, state, process and bridges.

    ``role`` is preferred master or slave; ``uptime`` is in seconds. ``pid`` and ``uptime`` are None for a broker that
    does not run. ``breaking`` are the names of the brokers to which its bridges break repeatedly, each time soon after
    they came up.
    """

    host: str
    address: str
    ports: dict[str, int]
    role: Role
    state: BrokerState
    pid: int | None
    uptime: int | None
    bridges: tuple[RunningBridge, ...]
    breaking: tuple[str, ...] = ()
    has_peer: bool = True
    """False for a single broker, whose role has no meaning."""

    @property
    def preferred_role_or_single(self) -> str:
        """The role that the inventory prefers for the broker: ``master`` or ``slave`` of its pair, or ``single``."""
        return self.role if self.has_peer else "single"

    @property
    def established_bridge_peers(self) -> tuple[str, ...]:
        """The names of the remote brokers to which the broker has established network bridges, each once."""
        return tuple(dict.fromkeys(bridge.peer for bridge in self.bridges))

    def to_dict(self) -> dict[str, Any]:
        """Return the status of a lab's broker (state, process, bridges) as a dictionary for JSON.

        ``lab status --format json`` prints it.
        """
        columns = {**asdict(self), "bridges": list(self.established_bridge_peers), "breaking": list(self.breaking)}
        del columns["has_peer"]
        return columns


def broker_status_from_snapshot(hosts: LabBrokers, broker: Broker, snapshot: BrokerSnapshot) -> HostStatus:
    """Return the status of a broker of a lab, from a snapshot of its observed state."""
    alive = snapshot.process is not None
    return HostStatus(
        host=broker.host,
        address=hosts.loopback_address(broker.host),
        ports=dict(broker.ports),
        role=broker.role,
        state=snapshot.state,
        pid=snapshot.process.pid if snapshot.process else None,
        uptime=int(max(0.0, time.time() - snapshot.run.created)) if alive and snapshot.run else None,
        bridges=established_bridges_of_broker_run(hosts, broker, snapshot.broker_run) if alive else (),
        breaking=_peers_of_breaking_bridges(hosts, broker, snapshot) if alive else (),
        has_peer=broker.ha_profile.has_peer,
    )


def _peers_of_breaking_bridges(hosts: LabBrokers, broker: Broker, snapshot: BrokerSnapshot) -> tuple[str, ...]:
    """Return the names of the brokers to which a running broker's bridges break repeatedly, from its log."""
    if snapshot.run is None or not (broker.links or broker.settings.xml_fragments):
        return ()
    records = read_log_records(str(hosts.data_directory(broker)), snapshot.run.created)
    return tuple(str(bridge["peer"]) for bridge in flapping_bridges(records, time.time()))


def established_bridges_of_broker_run(
    hosts: LabBrokers, broker: Broker, broker_run: BrokerRun
) -> tuple[RunningBridge, ...]:
    """Return the network bridges that are established in a run of a lab's broker, according to the broker's log.

    The brokers at their far ends have the inventory's names.
    """
    bridges = []
    for bridge in broker_run.currently_established_bridges:
        remote = (
            None if bridge.responder else hosts.brokers_by_address.broker_at(bridge.remote_host, bridge.remote_port)
        )
        address = hosts.loopback_address(remote.host) if remote else bridge.remote_host
        link = _responding_link_name(hosts, broker, bridge) if bridge.responder else _link_name(broker, bridge)
        remote_address = address, bridge.remote_port
        bridges.append(
            RunningBridge(
                link, bridge.peer, remote_address, remote.host if remote else None, bridge.responder, bridge.since
            )
        )
    return tuple(bridges)


def _link_name(broker: Broker, bridge: EstablishedBridge) -> str:
    """Return the name of the network link by which a broker opened a bridge.

    It is the link with the bridge's address, else one with discovery.
    """
    remote_address = (bridge.remote_host, bridge.remote_port)
    matching_names = [link.name for link in broker.links if remote_address in link.addresses]
    link_names = matching_names or [link.name for link in broker.links if not link.addresses]
    return link_names[0] if link_names else ""


def _responding_link_name(hosts: LabBrokers, broker: Broker, bridge: EstablishedBridge) -> str:
    """Return the name of the peer's duplex link to which a broker's bridge belongs; empty without one."""
    for peer in hosts.fleet.brokers:
        if peer.broker_name == bridge.peer:
            for link in peer.links:
                if link.duplex and link.target in (
                    broker.name_in_links,
                    broker.pair,
                    broker.group,
                    broker.identity.short_host_name,
                ):
                    return link.name
    return ""
