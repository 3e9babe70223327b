"""A fleet on loopback addresses: the interface for tests, demo, drill and the command line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Self

import psutil

from activemq_fleet.addresses import Address
from activemq_fleet.errors import LabError, LinksDownError
from activemq_fleet.fence.in_place import unfence
from activemq_fleet.fence.store_access import two_masters
from activemq_fleet.host.judge import BrokerState
from activemq_fleet.host.timeouts import LAB_READY
from activemq_fleet.inventory import InventoryData, read_inventory
from activemq_fleet.lab import loopback_overlay, processes
from activemq_fleet.lab.database import Database
from activemq_fleet.lab.hosts import BrokerSnapshot, Hosts
from activemq_fleet.lab.install import install
from activemq_fleet.lab.layout import Layout, layout_for, resolve_sources, write_file
from activemq_fleet.lab.links import Links
from activemq_fleet.lab.loopback_overlay import Substitution
from activemq_fleet.lab.monitoring import Monitoring, find_programs
from activemq_fleet.lab.operations import record_operation
from activemq_fleet.lab.polling import poll
from activemq_fleet.lab.port_reservation import PortReservations
from activemq_fleet.lab.readiness import credentials_of
from activemq_fleet.lab.startup import Progress, Startup, check_pair, check_start
from activemq_fleet.lab.state import load, load_existing, prepare
from activemq_fleet.lab.status import Bridge, HostStatus, bridges_of, status_of
from activemq_fleet.lab.stomp import Credentials
from activemq_fleet.render import render_agent, render_clients, service
from activemq_fleet.topology import Broker, Fleet, Pair

_DOWN_GRACE = 10.0  # shorter than a unit's: whoever takes a lab down waits for it at a terminal
_HANDOVER = 10.0


class Lab:
    """A fleet on loopback addresses, with methods to start, stop and observe its brokers.

    Leaving the lab as a context manager ends every process of it. Hosts are named by their inventory name or its first
    label. Times are in seconds. Every method raises LabError, in one line, for what cannot be done.
    """

    def __init__(
        self,
        layout: Layout,
        read: Callable[[], InventoryData] | None = None,
        *,
        sources: Sequence[str] = (),
        claims: PortReservations | None = None,
        progress: Progress | None = None,
        heap: str = loopback_overlay.HEAP,
    ) -> None:
        self._layout = layout
        self._heap = heap
        self._sources = tuple(sources)
        self._read = read
        self._claims = claims or PortReservations()
        self._progress: Progress = progress or (lambda _line: None)

    @classmethod
    def open(
        cls,
        sources: str | Path | Sequence[str | Path],
        directory: str | Path | None = None,
        *,
        extra_vars: Sequence[str] = (),
        vault_ids: Sequence[str] = (),
        vault_password_files: Sequence[str] = (),
        progress: Progress | None = None,
        heap: str = loopback_overlay.HEAP,
    ) -> Self:
        """Return the lab of an inventory, without reading or writing files.

        ``directory`` is by default one below the user's state directory, always the same for the same inventory.
        ``progress`` is called with one line for each step. ``heap`` is that of each broker: the inventory's is for a
        machine of its own.
        """
        named = [sources] if isinstance(sources, str | Path) else list(sources)
        texts = [str(source) for source in named]

        def read() -> InventoryData:
            return read_inventory(
                texts, extra_vars=extra_vars, vault_ids=vault_ids, vault_password_files=vault_password_files
            )

        return cls(layout_for(texts, directory), read, sources=resolve_sources(texts), progress=progress, heap=heap)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    @property
    def directory(self) -> Path:
        """The directory that holds all files of the lab."""
        return self._layout.directory

    @property
    def inventory(self) -> Path:
        """The path of the inventory file that the lab adds after the user's inventory."""
        return self._layout.inventory

    @property
    def fleet(self) -> Fleet:
        """The fleet with the brokers' own host names. Raises LabError if no lab was prepared."""
        return self._hosts.fleet

    @cached_property
    def client_fleet(self) -> Fleet:
        """The fleet with loopback addresses, as clients on this machine dial it."""
        return loopback_overlay.fleet_for_clients(self.fleet, self._hosts.lab.addresses)

    @cached_property
    def _hosts(self) -> Hosts:
        return Hosts(self._layout, load_existing(self._layout))

    @cached_property
    def database(self) -> Database | None:
        """The database server of the lab's shared-jdbc pairs; None where the fleet has none."""
        return Database(self._layout, self._hosts.lab) if self._hosts.lab.jdbc_driver else None

    @cached_property
    def monitoring(self) -> Monitoring:
        """The lab's Prometheus with Alertmanager and node exporter, which ``up(prometheus=True)`` starts."""
        return Monitoring(self._layout, self._hosts.lab)

    # -- the whole of it ----------------------------------------------------------------------

    def prepare(self, *, prometheus: bool = False) -> tuple[Substitution, ...]:
        """Fetch software, claim loopback addresses, and write ``inventory.yml`` for Ansible.

        With ``prometheus`` all brokers have metrics, as ``up(prometheus=True)`` has it. Returns the variables that the
        lab substitutes. Raises InputError, SettingsError, ReleaseError, ArtifactError or LabError.
        """
        with self._layout.locked():
            return self._prepare(metrics=prometheus)

    def up(
        self, *, timeout: float = LAB_READY, fresh: bool = False, prometheus: bool = False
    ) -> tuple[HostStatus, ...]:
        """Start the fleet of the inventory; return every broker's status once all brokers are ready and all links up.

        Brokers that run with another configuration are restarted. ``fresh`` begins with empty stores; ``timeout`` is
        for each broker, and for all links together. If anything fails while brokers start, the whole lab is taken down.
        With ``prometheus`` all brokers have metrics, and Prometheus and Alertmanager run beside them.
        Raises LinksDownError for links that are not up, with the reasons from the brokers' logs.
        """
        if prometheus:
            find_programs()
        with self._layout.locked():
            self._prepare(metrics=prometheus)
            hosts = self._hosts
            if fresh:
                self._end_all()
                hosts.wipe(hosts.fleet.brokers)
                if self.database:
                    self.database.remove()
            versions = {
                broker.host: install(broker, hosts.lab.software[broker.release.text]) for broker in hosts.fleet.brokers
            }
            self._write_clients()
            with self._record_operation("lab up", [broker.host for broker in hosts.fleet.brokers]):
                self._end_outdated(versions, keep=self.monitoring.running() if prometheus else ())
                self._start_all(timeout)
            if prometheus:
                self.monitoring.start()
        return self.status()

    def down(self) -> int:
        """End every process of the lab and release its addresses; return the number of processes that ran.

        Stores and logs stay. Returns 0 where there is no lab.
        """
        if not self._layout.directory.is_dir():
            return 0
        with self._layout.locked():
            return self._down()

    def status(self) -> tuple[HostStatus, ...]:
        """Return the current status of every broker, in the order of the inventory."""
        hosts, snapshots = self._hosts, self._observe_all()
        return tuple(status_of(hosts, broker, snapshots[broker.host]) for broker in hosts.fleet.brokers)

    def other_sources(self) -> tuple[str, ...]:
        """Return the inventories that the lab was made from, if they are not those it was opened with; else ()."""
        state = load(self._layout)
        made = tuple(state.sources) if state else ()
        return made if self._sources and made != self._sources else ()

    # -- one host -----------------------------------------------------------------------------

    def start(self, host: str, *, timeout: float = LAB_READY, wait: bool = True) -> None:
        """Start a stopped broker, and return when it is ready (with ``wait`` false, at once).

        A pure master counts as ready when its slave may attach, because it is never ready alone. Raises LabError for a
        broker that runs already or does not start.
        """
        with self._layout.locked():
            hosts, broker = self._hosts, self.fleet.broker(host)
            if hosts.is_alive(broker):
                raise LabError(f"{broker.host} runs already")
            if self._claims.reserve(self._layout.directory, hosts.lab.block) != hosts.lab.block:
                raise LabError(f"another lab has taken the addresses 127.{hosts.lab.block}.*: run lab up")
            check_start(hosts, broker)
            hosts.check_ports(broker)
            if self.database:
                self.database.start()
            with self.record_operation("lab start", host):
                if wait:
                    Startup(hosts, timeout, self._progress).start(broker)
                else:
                    hosts.launch(broker)

    def stop(self, host: str) -> None:
        """Stop a broker; if its peer runs, return once the peer is active, or after 10 s.

        A broker that does not end within the unit's 60 s is killed, a pure one at once: its controlled stop loses
        messages (AMQ-3364).
        """
        broker = self.fleet.broker(host)
        with self.record_operation("lab stop", host):
            peer = self.fleet.broker(broker.peer) if broker.peer else None
            hands_over = peer is not None and self._hosts.is_alive(peer)
            grace = 0 if broker.profile.needs_resync else service.STOP_TIMEOUT
            processes.end([self._hosts.living_process(broker)], grace=grace)
            if peer is not None and hands_over:
                poll(lambda: self._hosts.observe(peer).state == "active", _HANDOVER)

    def kill(self, host: str) -> float:
        """Send SIGKILL to the broker's process group; return when it was sent (epoch seconds), after the broker has
        ended.
        """
        process = self._living_process(host)
        at = time.time()
        processes.end([process], grace=0)
        return at

    def crash(self, host: str) -> float:
        """Send SIGKILL to a broker's Java process only, as the out-of-memory killer does; return the time (epoch
        seconds).

        The time is in epoch seconds. A guard outlives it, records the death and ends; without a guard this is ``kill``.
        """
        process = self._living_process(host)
        if not self.fleet.broker(host).has_guard:
            return self.kill(host)
        java = processes.guarded_broker(process)
        if java is None:
            raise LabError(f"{host}: the guard has no broker at this moment: no fault was injected")
        at = time.time()
        java.kill()
        poll(lambda: not process.is_running(), LAB_READY)
        return at

    def pause(self, host: str) -> None:
        """Freeze a broker by SIGSTOP: it keeps its lock and connections, and answers nobody."""
        processes.set_frozen(self._living_process(host), True)

    def resume(self, host: str) -> None:
        """Resume a frozen broker by SIGCONT."""
        processes.set_frozen(self._living_process(host), False)

    def state(self, host: str) -> BrokerState:
        """Return the current state of a broker."""
        return self._hosts.observe(self.fleet.broker(host)).state

    def describe_two_masters(self, pair: str) -> str:
        """Return a sentence that names both nodes of a pair if both can write to the store's newest copy; else empty.

        Always empty for a pair that shares no directory. A node that ends while the other one is looked at is no second
        master: both are looked at twice.
        """
        brokers = self._pair(pair).brokers
        if brokers[0].shared_directory is None:
            return ""
        looks = [two_masters({one.host: self._hosts.store_access(one) for one in brokers}) for _ in range(2)]
        return looks[0] and looks[1]

    def is_alive(self, host: str) -> bool:
        """Return whether the process of a broker runs, or that of its guard."""
        return self._hosts.is_alive(self.fleet.broker(host))

    def bridges(self, host: str) -> tuple[Bridge, ...]:
        """Return the bridges that the log of a broker's current run shows as established; () for a stopped broker."""
        broker = self.fleet.broker(host)
        snapshot = self._hosts.observe(broker)
        return bridges_of(self._hosts, broker, snapshot.broker_run) if snapshot.process else ()

    def half_links(self, host: str) -> tuple[str, ...]:
        """Return the names of duplex links to a host that carry messages one way until the dialling broker restarts.

        Seen on 5.5.1 only; ``logs.BrokerRun.half_links`` describes the cause.
        """
        return self._hosts.broker_run(self.fleet.broker(host)).half_links

    def started_at(self, host: str) -> float | None:
        """Return when the broker's log says that it started, in epoch seconds; None if it is not started."""
        story = self._hosts.broker_run(self.fleet.broker(host))
        return story.since.timestamp() if story.phase == "started" and story.since else None

    def operations_file(self, host: str) -> Path:
        """Return the path of the file in which operations on a broker are recorded for ``audit``."""
        return self._layout.operations_file(self.fleet.broker(host).host)

    def record_operation(self, operation: str, host: str) -> AbstractContextManager[None]:
        """Return a context manager that records the begin and end of an operation on both nodes of a host's pair."""
        return self._record_operation(
            operation, [broker.host for broker in self._pair(self.fleet.broker(host).pair).in_order]
        )

    def log(self, host: str) -> Path:
        """Return the path of a broker's log."""
        return self._hosts.log_path(self.fleet.broker(host))

    # -- waiting ------------------------------------------------------------------------------

    def active(self, pair: str) -> str | None:
        """Return the inventory name of the pair's active node; None while there is none."""
        return next((b.host for b in self._pair(pair).in_order if self._hosts.observe(b).state == "active"), None)

    def wait_active(self, pair: str, timeout: float = LAB_READY) -> str:
        """Wait until a node of the pair is active; return its inventory name. Raises LabError after ``timeout`` s."""
        found = poll(lambda: self.active(pair), timeout)
        if found is None:
            states = ", ".join(f"{b.host} is {self._hosts.observe(b).state}" for b in self._pair(pair).in_order)
            raise LabError(f"no node of {pair} is active after {timeout:g} s: {states}")
        return found

    def wait_state(self, host: str, state: BrokerState, timeout: float = LAB_READY) -> None:
        """Wait until a broker is in a state. Raises LabError after ``timeout`` seconds."""
        if not poll(lambda: self.state(host) == state, timeout):
            broker = self.fleet.broker(host)
            raise LabError(
                f"{broker.host} is {self.state(host)}, not {state}, after {timeout:g} s: {self._hosts.failure(broker)}"
            )

    def wait_bridge(self, host: str, to: str, timeout: float = LAB_READY) -> Bridge:
        """Wait until broker ``host`` has a bridge that it dialled to host ``to``; return the bridge.

        Raises LabError after ``timeout`` seconds.
        """
        target = self.fleet.broker(to).host

        def found() -> Bridge | None:
            return next((b for b in self.bridges(host) if b.remote_host == target and not b.responder), None)

        bridge = poll(found, timeout)
        if bridge is None:
            peers = ", ".join(str(bridge.remote_host) for bridge in self.bridges(host)) or "nobody"
            raise LabError(
                f"{self.fleet.broker(host).host} has no bridge to {target} after {timeout:g} s, but to {peers}; "
                f"it is {self.state(host)}, and {target} is {self.state(to)}"
            )
        return bridge

    # -- for clients --------------------------------------------------------------------------

    def addresses(self, name: str, protocol: str) -> tuple[Address, ...]:
        """Return (address, port) of each broker that offers a protocol: stomp, mqtt, openwire, amqp or ws.

        ``name`` is a host, a pair (whose preferred master comes first) or a group.
        """
        found = []
        for broker in self._members(name):
            connector = broker.openwire if protocol == "openwire" else broker.connector(protocol)
            if connector:
                found.append((self._hosts.address(broker.host), connector.port))
        return tuple(found)

    def credentials(self, name: str) -> Credentials | None:
        """Return credentials for the brokers of a host, pair or group; None if no account has a readable password."""
        return credentials_of(self._members(name)[0])

    def _members(self, name: str) -> tuple[Broker, ...]:
        groups = {group.name: group for group in self.fleet.groups}
        if name in self.fleet.pairs:
            return self.fleet.pairs[name].in_order
        if name in groups:
            return tuple(broker for pair in groups[name].pairs for broker in pair.in_order)
        return (self.fleet.broker(name),)

    def _living_process(self, host: str) -> psutil.Process:
        return self._hosts.living_process(self.fleet.broker(host))

    def _pair(self, name: str) -> Pair:
        if name not in self.fleet.pairs:
            raise LabError(f"{name} is no pair of this lab: {', '.join(self.fleet.pairs)}")
        return self.fleet.pairs[name]

    # -- inside -------------------------------------------------------------------------------

    def _record_operation(self, operation: str, hosts: Sequence[str]) -> AbstractContextManager[None]:
        measured = [self.fleet.broker(host) for host in hosts]
        labels = {broker.host: broker.labels for broker in measured if broker.settings.metrics}
        return record_operation(self._layout, hosts, operation, self._progress, labels)

    def _start_all(self, timeout: float) -> None:
        hosts = self._hosts
        for pair in hosts.fleet.pairs.values():
            check_pair(hosts, pair)
            self._remove_fence(pair)
        for broker in hosts.fleet.brokers:
            if not hosts.is_alive(broker):
                hosts.check_ports(broker)
        try:
            if self.database:
                pairs = self.fleet.pairs.values()
                self.database.start(pair.name for pair in pairs if pair.profile.has_database_lease)
            Startup(hosts, timeout, self._progress).run(list(hosts.fleet.pairs.values()))
            links = Links(hosts)
            if missing := links.wait_until_up(self._observe_all, timeout):
                raise LinksDownError(*map(links.describe, missing))
        except BaseException:
            self._down()
            raise

    def _remove_fence(self, pair: Pair) -> None:
        """Make generations the store itself again, for a pair that has no guards any more and does not run."""
        broker = pair.brokers[0]
        is_fenced = broker.shared_directory and broker.settings.fence != "guard"
        if is_fenced and not any(self._hosts.is_alive(node) for node in pair.brokers):
            unfence(broker.store_directory)

    def _observe_all(self) -> dict[str, BrokerSnapshot]:
        """Return a snapshot of every broker, by inventory name, in the order of the inventory."""
        hosts = self._hosts
        brokers = hosts.fleet.brokers
        with ThreadPoolExecutor(max_workers=max(1, len(brokers))) as pool:
            snapshots = pool.map(hosts.observe, brokers)
        return {broker.host: snapshot for broker, snapshot in zip(brokers, snapshots, strict=True)}

    def _prepare(self, *, metrics: bool = False) -> tuple[Substitution, ...]:
        if self._read is None:
            raise LabError(f"{self._layout.directory}: no inventory was named")
        _, substitutions = prepare(
            self._layout, self._read(), self._claims, self._progress, self._sources, self._heap, metrics=metrics
        )
        self._forget()
        return substitutions

    def _forget(self) -> None:
        for name in ("_hosts", "client_fleet", "database", "monitoring"):
            self.__dict__.pop(name, None)

    def _write_clients(self) -> None:
        """Write clients' files with loopback addresses: ``clients/GROUP/…`` and ``clients/HOST/…`` of agents."""
        for path, content in render_clients(self.client_fleet).items():
            write_file(self._layout.directory / path, content, 0o644)
        for agent in self.client_fleet.agents:
            directory = self._layout.clients / agent.host
            settings = agent.settings.model_copy(update={"agent_config": str(directory)})
            for path, content in render_agent(replace(agent, settings=settings), reveal=True).items():
                write_file(directory / path, content)

    def _end_outdated(self, versions: dict[str, str], keep: Iterable[int] = ()) -> None:
        """End brokers that run with another configuration than is in force now, and pairs of pure ones."""
        hosts = self._hosts
        outdated = {
            broker.host
            for broker in hosts.fleet.brokers
            if hosts.is_alive(broker) and (run := hosts.last_run(broker)) and run.version != versions[broker.host]
        }
        for broker in hosts.fleet.brokers:
            if broker.host in outdated and broker.profile.replicates and broker.peer:
                outdated.add(broker.peer)
        for host in sorted(outdated):
            self._progress(f"{host} is restarted: its configuration has changed")
        self._end(broker for broker in hosts.fleet.brokers if broker.host in outdated)
        living = [process for broker in hosts.fleet.brokers if (process := hosts.process(broker))]
        mine = {process.pid for leader in living for process in (leader, processes.guarded_broker(leader)) if process}
        mine.update(keep)
        if self.database and (server := self.database.process()):
            mine.add(server.pid)
        processes.end([p for p in processes.lab_processes(self._layout) if p.pid not in mine], grace=_DOWN_GRACE)

    def _end(self, brokers: Iterable[Broker]) -> int:
        living = [(b.profile.needs_resync, process) for b in brokers if (process := self._hosts.process(b)) is not None]
        processes.kill_together(process for at_once, process in living if at_once)
        processes.end((process for at_once, process in living if not at_once), grace=_DOWN_GRACE)
        return len(living)

    def _end_all(self) -> int:
        brokers = self._hosts.fleet.brokers if load(self._layout) else ()
        with self._record_operation("lab down", [broker.host for broker in brokers]):
            count = self._end(brokers)
            if brokers:
                self.monitoring.stop()
            if brokers and self.database:
                self.database.stop()
        # What is left was started by a command that was killed before it could write it down.
        strays = processes.lab_processes(self._layout)
        processes.end(strays, grace=0)
        return count + len(strays)

    def _down(self) -> int:
        try:
            return self._end_all()
        finally:
            self._claims.release(self._layout.directory)
