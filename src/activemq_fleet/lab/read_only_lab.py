"""Read the states, bridges and logs of a running lab, and the data that clients need to connect."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import psutil

from activemq_fleet import uris
from activemq_fleet.addresses import Address
from activemq_fleet.errors import InputError, LabError
from activemq_fleet.lab import loopback_overlay
from activemq_fleet.lab.connector_and_port_checks import credentials_for_lab_connection
from activemq_fleet.lab.lab_brokers import LabBrokers
from activemq_fleet.lab.lab_paths import LabPaths
from activemq_fleet.lab.lab_state_file import require_lab_state
from activemq_fleet.lab.polling import poll_for_true_result
from activemq_fleet.lab.status import (
    HostStatus,
    RunningBridge,
    broker_status_from_snapshot,
    established_bridges_of_broker_run,
)
from activemq_fleet.lab.stomp import Credentials
from activemq_fleet.node.fence.store_writers import two_masters_message
from activemq_fleet.node.judge import BrokerState
from activemq_fleet.node.timeouts import LAB_READY
from activemq_fleet.render.broker_paths import paths_of_broker
from activemq_fleet.topology import Broker, Connector, Fleet, Pair
from activemq_fleet.topology.named_hosts import find_named_hosts, selectable_brokers


class ReadOnlyLab:
    """Read-only access to a lab (real brokers on loopback addresses): it can be observed, but not changed.

    Hosts are named by inventory name or its first label. Times are in seconds. Every method raises LabError, with a
    message of one line, if it fails, and InputError for a directory without a lab and an unknown host or pair.
    """

    def __init__(self, lab_paths: LabPaths) -> None:
        self._lab_paths = lab_paths

    @property
    def content_paths(self) -> list[Path]:
        """The paths of all files and directories that a lab reads and writes."""
        return self._lab_paths.content_paths

    @property
    def directory(self) -> Path:
        """The directory with all files of a lab (real brokers on loopback addresses)."""
        return self._lab_paths.directory

    @property
    def exists(self) -> bool:
        """Whether a lab (real brokers on loopback addresses) was prepared, running or not."""
        return self._lab_paths.state.exists()

    @property
    def overlay_inventory_path(self) -> Path:
        """The path of the lab's overlay inventory, which sets variables of a lab for the hosts of the user's inventory.

        Pass it to Ansible after the user's inventory.
        """
        return self._lab_paths.overlay_inventory_path

    @property
    def fleet(self) -> Fleet:
        """The fleet (brokers, pairs and links) that a lab runs on loopback addresses.

        It has the brokers' own host names. Raises InputError if no lab was prepared.
        """
        return self._hosts.fleet

    @cached_property
    def client_fleet(self) -> Fleet:
        """The fleet of a lab for clients: its brokers have the loopback addresses to which clients connect."""
        return loopback_overlay.fleet_for_clients(self.fleet, self._hosts.lab.addresses)

    @cached_property
    def _hosts(self) -> LabBrokers:
        return LabBrokers(self._lab_paths, require_lab_state(self._lab_paths))

    def status(self) -> tuple[HostStatus, ...]:
        """Return the current status of every broker of a lab.

        The brokers are in the order of the inventory.
        """
        hosts, snapshots = self._hosts, self._hosts.observe_all_brokers()
        return tuple(
            broker_status_from_snapshot(hosts, broker, snapshots[broker.host]) for broker in hosts.fleet.brokers
        )

    def state(self, host: str) -> BrokerState:
        """Return the current state of a broker of a lab, such as ``active`` or ``standby``."""
        return self._hosts.observe_broker(self.fleet.broker(host)).state

    def describe_two_masters(self, pair: str) -> str:
        """Describe in a sentence that both nodes of a pair are masters; return "" if at most one is.

        Both nodes can then write to the store. Always empty for a pair that shares no directory. Both nodes are checked
        twice, because a node that ends while the other one is checked is no second master.
        """
        brokers = self._pair(pair).brokers
        if brokers[0].shared_store_directory is None:
            return ""
        messages = [
            two_masters_message(
                {broker.host: self._hosts.writable_and_newest_store_generations(broker) for broker in brokers}
            )
            for _ in range(2)
        ]
        return messages[0] and messages[1]

    def is_alive(self, host: str) -> bool:
        """Return whether a broker's process is alive.

        The process of its guard counts, too.
        """
        return self._hosts.is_alive(self.fleet.broker(host))

    def bridges(self, host: str) -> tuple[RunningBridge, ...]:
        """Return the established network bridges of a broker.

        The log of the current run shows them; () for a stopped broker.
        """
        broker = self.fleet.broker(host)
        snapshot = self._hosts.observe_broker(broker)
        return established_bridges_of_broker_run(self._hosts, broker, snapshot.broker_run) if snapshot.process else ()

    def one_way_duplex_link_names(self, host: str) -> tuple[str, ...]:
        """Return the names of a host's faulty duplex links: messages flow over them in one direction only.

        The links are those to the host. They are faulty until the connecting broker restarts. This occurred on 5.5.1
        only; ``BrokerRun.one_way_duplex_link_names`` describes the cause.
        """
        return self._hosts.state_from_log(self.fleet.broker(host)).one_way_duplex_link_names

    def started_at(self, host: str) -> float | None:
        """Return the time at which a broker started, in epoch seconds; None if it is not started.

        The time comes from the broker's log.
        """
        run = self._hosts.state_from_log(self.fleet.broker(host))
        return run.since.timestamp() if run.phase == "started" and run.since else None

    def log(self, host: str) -> Path:
        """Return the path of a broker's log file."""
        return self._hosts.log_path(self.fleet.broker(host))

    def active(self, pair: str) -> str | None:
        """Return the inventory name of the active node of a pair; None while there is none."""
        return next(
            (
                b.host
                for b in self._pair(pair).brokers_in_dialling_order
                if self._hosts.observe_broker(b).state == "active"
            ),
            None,
        )

    def wait_active(self, pair: str, timeout: float = LAB_READY) -> str:
        """Wait until a node of a pair is active, and return its inventory name.

        Raises LabError after ``timeout`` s, and as soon as the brokers of all nodes have stopped.
        """
        brokers = self._pair(pair).brokers_in_dialling_order

        def find_active() -> str | None:
            host = self.active(pair)
            if host is None and not any(map(self._hosts.is_alive, brokers)):
                errors = "; ".join(f"{b.host}: {self._hosts.failure_reason(b)}" for b in brokers)
                raise LabError(
                    f"no node of pair {pair} can become active, because all brokers of the pair have stopped. The last "
                    f"error of each is: {errors}. Correct the cause, and start them with `lab up`"
                )
            return host

        active_host = poll_for_true_result(find_active, timeout)
        if active_host is None:
            states = ", ".join(f"{b.host} is {self._hosts.observe_broker(b).state}" for b in brokers)
            raise LabError(
                f"no node of pair {pair} is active after {timeout:g} s ({states}): read the logs of its brokers"
            )
        return active_host

    def wait_state(self, host: str, state: BrokerState, timeout: float = LAB_READY) -> None:
        """Wait until a broker of a lab is in a given state, such as ``active``.

        Raises LabError after ``timeout`` seconds.
        """
        if not poll_for_true_result(lambda: self.state(host) == state, timeout):
            broker = self.fleet.broker(host)
            raise LabError(
                f"{broker.host}: the broker is {self.state(host)} after {timeout:g} s, but should be {state}. Correct "
                f"the last error of the broker: {self._hosts.failure_reason(broker)}"
            )

    def wait_bridge(self, host: str, to: str, timeout: float = LAB_READY) -> RunningBridge:
        """Wait until a broker has a network bridge to another host, and return the bridge.

        Broker ``host`` opened the bridge to host ``to``. Raises LabError after ``timeout`` seconds.
        """
        target = self.fleet.broker(to).host

        def find_bridge() -> RunningBridge | None:
            return next((b for b in self.bridges(host) if b.remote_host == target and not b.responder), None)

        bridge = poll_for_true_result(find_bridge, timeout)
        if bridge is None:
            peers = ", ".join(str(bridge.remote_host) for bridge in self.bridges(host)) or "none"
            raise LabError(
                f"{self.fleet.broker(host).host} has no bridge to {target} after {timeout:g} s, but bridges to: "
                f"{peers}. {self.fleet.broker(host).host} is {self.state(host)}, and {target} is {self.state(to)}. "
                f"Read {self.log(host)}"
            )
        return bridge

    def addresses(self, name: str, protocol: str) -> tuple[Address, ...]:
        """Return the listening addresses of a host, pair or group for one protocol: one address per broker.

        Each has the port. The protocol is stomp, mqtt, openwire, amqp or ws. ``name`` is a host, a pair (whose
        preferred master comes first) or a group. Brokers without the protocol are omitted.
        """
        connectors = self._connectors(name, protocol)
        return tuple((self._hosts.loopback_address(broker.host), connector.port) for broker, connector in connectors)

    def uris(self, name: str, protocol: str = "openwire") -> tuple[str, ...]:
        """Return the URIs at which a host, pair or group offers one protocol: one URI per broker.

        They are for clients on this machine, such as ``tcp://127.16.1.1:61616``. The scheme is ``ssl`` for a listener
        with TLS. ``name`` and ``protocol`` are those of ``addresses``.
        """
        return tuple(
            uris.connection_uri((self._hosts.loopback_address(broker.host), connector.port), connector.scheme)
            for broker, connector in self._connectors(name, protocol)
        )

    def data_directory(self, host: str) -> Path:
        """Return the data directory of a broker of a lab.

        It has the log, and the store where the pair does not share one.
        """
        return self._hosts.data_directory(self.fleet.broker(host))

    def store_directory(self, host: str) -> Path:
        """Return the directory of a broker's message store.

        Both nodes of a pair with a shared store have the same one.
        """
        return Path(self.fleet.broker(host).store_directory)

    def configuration_directory(self, host: str) -> Path:
        """Return the directory of a broker's configuration files, such as ``activemq.xml``."""
        return Path(paths_of_broker(self.fleet.broker(host)).conf)

    def credentials(self, name: str) -> Credentials | None:
        """Return credentials for the brokers of a host, pair or group, or None if no account has a readable password.

        ``name`` is that of the host, pair or group.
        """
        return credentials_for_lab_connection(self._named_brokers(name)[0])

    def _connectors(self, name: str, protocol: str) -> Iterator[tuple[Broker, Connector]]:
        for broker in self._named_brokers(name):
            connector = broker.openwire if protocol == "openwire" else broker.connector(protocol)
            if connector:
                yield broker, connector

    def _named_brokers(self, name: str) -> tuple[Broker, ...]:
        hosts = find_named_hosts(name, selectable_brokers(self.fleet), option="the name").hosts
        return tuple(
            broker
            for group in self.fleet.groups
            for pair in group.pairs
            for broker in pair.brokers_in_dialling_order
            if broker.host in hosts
        )

    def _running_process(self, host: str) -> psutil.Process:
        return self._hosts.require_running_process(self.fleet.broker(host))

    def _pair(self, name: str) -> Pair:
        if name not in self.fleet.pairs_by_name:
            raise InputError(f"{name} is not a pair of this lab: use one of {', '.join(self.fleet.pairs_by_name)}")
        return self.fleet.pairs_by_name[name]
