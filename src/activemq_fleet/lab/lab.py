"""A fleet on loopback addresses: the interface for tests, demo, drill and the command line."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Self

from activemq_fleet.errors import LabError
from activemq_fleet.inventory import InventoryData, read_inventory
from activemq_fleet.lab import loopback_overlay, processes
from activemq_fleet.lab.address_reservation import AddressBlockReservations
from activemq_fleet.lab.connector_and_port_checks import require_usable_broker_ports
from activemq_fleet.lab.database import LabDatabase
from activemq_fleet.lab.fleet_start_and_stop import (
    start_fleet,
    stop_outdated_and_unknown_brokers,
    terminate_running_brokers,
    write_client_and_agent_files,
)
from activemq_fleet.lab.lab_paths import LabPaths, absolute_sources, lab_paths_for
from activemq_fleet.lab.lab_state_file import DamagedLabStateError, load_lab_state, require_lab_state
from activemq_fleet.lab.loopback_overlay import ReplacedHostVariable
from activemq_fleet.lab.monitoring import Monitoring, check_monitoring_programs_installed
from activemq_fleet.lab.operation_recording import record_operation_begin_and_end
from activemq_fleet.lab.polling import poll_for_true_result
from activemq_fleet.lab.preparation import build_fleet_and_check_topology, install_broker_configuration, prepare_lab
from activemq_fleet.lab.read_only_lab import ReadOnlyLab
from activemq_fleet.lab.startup import FleetStartup, Progress, check_pure_start_order
from activemq_fleet.lab.status import HostStatus
from activemq_fleet.naming import PATTERN_VARIABLE
from activemq_fleet.node.timeouts import LAB_READY
from activemq_fleet.render.systemd_units import STOP_TIMEOUT
from activemq_fleet.topology import AGENTS, BALANCERS, Fleet

_HANDOVER_TIMEOUT = 10.0


class Lab(ReadOnlyLab):
    """A lab: a fleet of real brokers on loopback addresses.

    Its methods start, stop and observe the brokers. Create one by ``Lab.open(inventory)`` or ``Lab.of_fleet(fleet,
    directory)``, and start its brokers by ``up()``. Leaving the lab as a context manager stops every process of it by
    process id, also after an exception. Hosts are named by their inventory name or its first label. Times are in
    seconds. Every method raises LabError, with a message of one line, if it fails, and InputError for an inventory,
    directory, host or pair that a lab cannot use.

    >>> from activemq_fleet.lab import Lab
    >>> with Lab.of_fleet(fleet, "/tmp/orders-lab") as lab:                                     # doctest: +SKIP
    ...     lab.up()
    ...     lab.uris("orders-mq01")
    ...     lab.kill(lab.active("orders-mq01"))
    ...     lab.wait_active("orders-mq01")
    ('tcp://127.16.1.1:61616', 'tcp://127.16.1.2:61616')
    'orders-mq01-b'
    """

    def __init__(
        self,
        lab_paths: LabPaths,
        read: Callable[[], InventoryData] | None = None,
        *,
        sources: Sequence[str] = (),
        claims: AddressBlockReservations | None = None,
        progress: Progress | None = None,
        heap: str = loopback_overlay.HEAP,
    ) -> None:
        super().__init__(lab_paths)
        self._heap = heap
        self._sources = tuple(sources)
        self._read_inventory = read
        self._claims = claims or AddressBlockReservations()
        self._progress: Progress = progress or (lambda _line: None)
        self._warnings: set[str] = set()

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
        """Open the lab of an inventory. A lab runs a fleet as real brokers on loopback addresses.

        No files are read or written. ``directory`` is by default one below the user's state directory, always the same
        for the same inventory. ``progress`` is called with one line for each step. ``heap`` is that of each broker: the
        inventory's value is for one broker per machine.
        """
        source_list = [sources] if isinstance(sources, str | Path) else list(sources)
        texts = [str(source) for source in source_list]

        def read() -> InventoryData:
            return read_inventory(
                texts, extra_vars=extra_vars, vault_ids=vault_ids, vault_password_files=vault_password_files
            )

        return cls(lab_paths_for(texts, directory), read, sources=absolute_sources(texts), progress=progress, heap=heap)

    @classmethod
    def of_fleet(
        cls,
        fleet: Fleet,
        directory: str | Path,
        *,
        progress: Progress | None = None,
        heap: str = loopback_overlay.HEAP,
    ) -> Self:
        """Return the lab of a fleet: the fleet as real brokers on loopback addresses.

        The fleet is one that ``build_fleet`` or ``load_fleet`` made. No files are read or written. The lab builds the
        fleet again from ``Fleet.variables`` and the variables that it substitutes. ``directory`` holds all files of the
        lab. ``progress`` and ``heap`` are those of ``open``.
        """
        groups = {
            AGENTS: [agent.host for agent in fleet.agents],
            BALANCERS: [balancer.host for balancer in fleet.balancers],
        }
        hosts = {
            host: {**variables, PATTERN_VARIABLE: fleet.naming_pattern} for host, variables in fleet.variables.items()
        }
        return cls(lab_paths_for((), directory), lambda: InventoryData(hosts, groups), progress=progress, heap=heap)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    @cached_property
    def database(self) -> LabDatabase | None:
        """The database server of the lab; None where the fleet has no shared-jdbc pairs."""
        return LabDatabase(self._lab_paths, self._hosts.lab) if self._hosts.lab.jdbc_driver else None

    @cached_property
    def monitoring(self) -> Monitoring:
        """The monitoring of the lab: Prometheus with Alertmanager and node exporter.

        ``up(prometheus=True)`` starts them.
        """
        return Monitoring(self._lab_paths, self._hosts.lab)

    # -- all brokers --------------------------------------------------------------------------

    def read_usable_inventory(self) -> InventoryData:
        """Read the inventory of the lab, and return its data if the lab can use it. Nothing is written.

        Raises InputError, SettingsError or ReleaseError for an inventory with errors, and LabError for a fleet whose
        topology has errors and for a lab that was opened without its inventory.
        """
        if self._read_inventory is None:
            raise LabError(
                f"{self._lab_paths.directory}: the brokers of this lab cannot be started, because it was opened "
                "without its inventory: run `activemq-fleet lab up -i INVENTORY`"
            )
        data = self._read_inventory()
        build_fleet_and_check_topology(data)
        return data

    def prepare(self, *, prometheus: bool = False) -> tuple[ReplacedHostVariable, ...]:
        """Prepare the lab for its start: fetch software, claim addresses, and write its inventory.

        The addresses are loopback addresses, and the inventory for Ansible is ``inventory.yml``. No broker is started.
        With ``prometheus`` all brokers have metrics, as with ``up(prometheus=True)``. Returns the variables that the
        lab substitutes. Raises InputError, SettingsError, ReleaseError, ArtifactError or LabError.
        """
        data = self.read_usable_inventory()  # before the lock, which creates the directory
        with self._lab_paths.hold_lab_lock():
            return self._prepare(data, metrics=prometheus)

    def up(
        self, *, timeout: float = LAB_READY, fresh: bool = False, prometheus: bool = False
    ) -> tuple[HostStatus, ...]:
        """Start all brokers of the lab, and wait until they are ready and all links are up.

        Returns the status of the brokers. Brokers that run with another configuration are restarted. ``fresh`` begins
        with empty stores; ``timeout`` is for each broker, and for all links together. If anything fails while brokers
        or monitoring programs start, the whole lab is taken down. With ``prometheus`` all brokers have metrics, and
        Prometheus and Alertmanager run as well; their ports are checked before brokers are stopped or started. Raises
        LabLinksDownError for links that are not up, with the reasons from the brokers' logs.
        """
        if prometheus:
            check_monitoring_programs_installed()
        data = self.read_usable_inventory()  # before the lock, which creates the directory
        with self._lab_paths.hold_lab_lock():
            self._prepare(data, metrics=prometheus)
            hosts = self._hosts
            versions = {
                broker.host: install_broker_configuration(broker, hosts.lab.software[broker.release.text])
                for broker in hosts.fleet.brokers
            }
            write_client_and_agent_files(self._lab_paths, self.client_fleet)
            if prometheus:
                # Before brokers are stopped or started, and after the files of their metrics have been installed.
                self.monitoring.require_free_ports()
            if fresh:
                self._stop_all()
                hosts.delete_data_of_stopped_brokers(hosts.fleet.brokers)
                if self.database:
                    self.database.delete_files()
            try:
                with self._record_operation("lab up", [broker.host for broker in hosts.fleet.brokers]):
                    pids_to_keep = self.monitoring.running_pids() if prometheus else ()
                    stop_outdated_and_unknown_brokers(hosts, versions, self.database, pids_to_keep, self._progress)
                    start_fleet(hosts, self.database, timeout, self._progress)
                if prometheus:
                    self.monitoring.start_programs()
            except BaseException:
                self._stop_and_release_addresses()
                raise
        return self.status()

    def down(self) -> int:
        """Stop every process of the lab, and release its addresses.

        Stores and logs stay. Returns the number of processes that ran: a broker and its guard count as one. Processes
        of a lab whose directory was deleted or moved are also stopped.
        """
        if not (self.exists or self._lab_paths.runs.is_dir()):
            count = processes.kill_lab_processes(self._lab_paths)
            if count:
                self._claims.release_address_block(self._lab_paths.directory)
            return count
        with self._lab_paths.hold_lab_lock():
            return self._stop_and_release_addresses()

    def original_sources_if_different(self) -> tuple[str, ...]:
        """Return the paths of the inventories from which the lab was made, or () if it was not opened with others."""
        state = load_lab_state(self._lab_paths)
        original_sources = tuple(state.sources) if state else ()
        return original_sources if self._sources and original_sources != self._sources else ()

    # -- one host -----------------------------------------------------------------------------

    def start(self, host: str, *, timeout: float = LAB_READY, wait: bool = True) -> None:
        """Start a stopped broker of the lab, and wait until it is ready.

        With ``wait`` false it returns at once. A pure master counts as ready when its slave may attach, because it is
        never ready alone. Raises LabError for a broker that runs already or does not start.
        """
        require_lab_state(self._lab_paths)  # before the lock, which creates the directory
        with self._lab_paths.hold_lab_lock():
            hosts, broker = self._hosts, self.fleet.broker(host)
            if hosts.is_alive(broker):
                raise LabError(
                    f"{broker.host} already runs: to restart it, first run `activemq-fleet lab stop {broker.host}`"
                )
            if self._claims.reserve_address_block_number(self._lab_paths.directory, hosts.lab.block) != hosts.lab.block:
                raise LabError(
                    f"another lab now uses the addresses 127.{hosts.lab.block}.* of this lab: run `activemq-fleet lab "
                    "up` for this lab, which reserves different addresses"
                )
            check_pure_start_order(hosts, broker, self._progress)
            require_usable_broker_ports(broker, hosts.loopback_address(broker.host))
            if self.database:
                self.database.start()
            with self.record_operation_begin_and_end("lab start", host):
                if wait:
                    FleetStartup(hosts, timeout, self._progress).start_broker(broker)
                else:
                    hosts.launch_process(broker)

    def stop(self, host: str) -> None:
        """Stop a broker of the lab.

        If its peer runs, it returns once the peer is active, or after 10 s. A broker that does not stop within 60 s is
        killed. A pure broker is killed at once, because its orderly stop loses messages (AMQ-3364).
        """
        broker = self.fleet.broker(host)
        with self.record_operation_begin_and_end("lab stop", host):
            peer = self.fleet.broker(broker.peer) if broker.peer else None
            hands_over = peer is not None and self._hosts.is_alive(peer)
            grace = 0 if broker.ha_profile.needs_resync else STOP_TIMEOUT
            processes.terminate_processes([self._hosts.require_running_process(broker)], grace=grace)
            if peer is not None and hands_over:
                poll_for_true_result(lambda: self._hosts.observe_broker(peer).state == "active", _HANDOVER_TIMEOUT)

    def kill(self, host: str) -> float:
        """Kill all processes of a broker of the lab by SIGKILL, and return the time of the signal in epoch seconds.

        The processes are Java and, with fencing, the guard. The method returns after they have terminated.
        """
        process = self._running_process(host)
        at = time.time()
        processes.terminate_processes([process], grace=0)
        return at

    def crash(self, host: str) -> float:
        """Kill only a broker's Java process by SIGKILL, like the out-of-memory killer; return the time of the signal.

        The time is in epoch seconds. A guard outlives the Java process, records its death, and terminates. For a broker
        without a guard, the method does the same as ``kill``. Raises LabError if the guard runs no broker.
        """
        process = self._running_process(host)
        if not self.fleet.broker(host).has_guard:
            return self.kill(host)
        java = processes.guarded_broker_process(process)
        if java is None:
            raise LabError(
                f"{host}: the guard (the program that starts the broker and protects the store) currently runs no "
                "broker, so no fault was injected: try again when the broker runs"
            )
        at = time.time()
        java.kill()
        if not processes.ends_within(process, LAB_READY):
            raise LabError(
                f"{host}: the guard (the program that starts the broker, process {process.pid}) still runs "
                f"{LAB_READY:g} s after its broker was killed, so the broker cannot start again. Check that the shared "
                f"store answers, and read {self.log(host)}"
            )
        return at

    def pause(self, host: str) -> None:
        """Pause (freeze) a broker of the lab by SIGSTOP.

        It keeps its lock and connections, and does not answer.
        """
        processes.freeze_or_resume_process(self._running_process(host), True)

    def resume(self, host: str) -> None:
        """Resume a paused (frozen) broker of the lab by SIGCONT."""
        processes.freeze_or_resume_process(self._running_process(host), False)

    def operations_file_path(self, host: str) -> Path:
        """Return the path of the file that records operations on a host's broker in the lab, such as stops.

        The command ``audit`` reads it.
        """
        return self._lab_paths.operations_file_path(self.fleet.broker(host).host)

    def record_operation_begin_and_end(self, operation: str, host: str) -> AbstractContextManager[None]:
        """Return a context manager that records the begin and the end of an operation on a host's broker.

        The operation lasts as long as the ``with`` block. It is recorded on both nodes of the host's pair.
        """
        return self._record_operation(
            operation, [broker.host for broker in self._pair(self.fleet.broker(host).pair).brokers_in_dialling_order]
        )

    # -- private ------------------------------------------------------------------------------

    def _record_operation(self, operation: str, hosts: Sequence[str]) -> AbstractContextManager[None]:
        measured = [self.fleet.broker(host) for host in hosts]
        labels = {broker.host: broker.metric_labels for broker in measured if broker.settings.metrics}
        return record_operation_begin_and_end(self._lab_paths, hosts, operation, self._progress, labels)

    def _prepare(self, data: InventoryData, *, metrics: bool = False) -> tuple[ReplacedHostVariable, ...]:
        _, substitutions = prepare_lab(
            self._lab_paths,
            data,
            self._claims,
            self._report_once,
            self._sources,
            self._heap,
            metrics=metrics,
        )
        self._clear_cached_properties()
        return substitutions

    def _report_once(self, line: str) -> None:
        """Report a line of the preparation, each warning once: a drill prepares the lab twice."""
        if line not in self._warnings:
            self._progress(line)
        if line.startswith("warning: "):
            self._warnings.add(line)

    def _clear_cached_properties(self) -> None:
        for name in ("_hosts", "client_fleet", "database", "monitoring"):
            self.__dict__.pop(name, None)

    def _stop_all(self) -> int:
        count = 0
        try:
            brokers = self._hosts.fleet.brokers if self._is_state_readable() else ()
            with self._record_operation("lab down", [broker.host for broker in brokers]):
                count = terminate_running_brokers(self._hosts, brokers) if brokers else 0
                if brokers:
                    self.monitoring.stop_programs()
                if brokers and self.database:
                    self.database.stop()
        finally:
            # These processes did not stop, or a command was killed after it started them and before it recorded them.
            stray_count = processes.kill_lab_processes(self._lab_paths)
        return count + stray_count

    def _is_state_readable(self) -> bool:
        """Return whether the state of the lab exists and is undamaged.

        Raises InputError if its file cannot be read, or if the directory of the lab was moved or copied.
        """
        try:
            return load_lab_state(self._lab_paths) is not None
        except DamagedLabStateError:
            return False

    def _stop_and_release_addresses(self) -> int:
        try:
            return self._stop_all()
        finally:
            self._claims.release_address_block(self._lab_paths.directory)
