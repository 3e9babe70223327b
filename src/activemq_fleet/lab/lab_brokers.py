"""Start, observe and stop single brokers of a lab. The module ``startup`` decides the order of starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import ParseError

import psutil

from activemq_fleet.errors import LabError
from activemq_fleet.lab import processes
from activemq_fleet.lab.connector_and_port_checks import make_connector_probe
from activemq_fleet.lab.lab_paths import LabPaths, write_lab_file
from activemq_fleet.lab.lab_state_file import InstalledRelease, LabState
from activemq_fleet.lab.log_tail import LogTail, explain_failed_run
from activemq_fleet.lab.processes import ProcessRun
from activemq_fleet.node.config.broker_configuration import DeployedBrokerSettings, read_deployed_broker_settings
from activemq_fleet.node.config.versions import ConfigurationPaths
from activemq_fleet.node.fence.store_writers import (
    WritableAndNewestGenerationNumbers,
    newest_claimed_generation_number,
    writable_generation_number,
)
from activemq_fleet.node.host_paths import BROKER_LOG, STORE_MARKER
from activemq_fleet.node.judge import BrokerState, conclude_state
from activemq_fleet.node.log.broker_run import BrokerRun
from activemq_fleet.node.observer import observe_broker
from activemq_fleet.node.process.held_by_process import process_account_listens_on_one_of
from activemq_fleet.node.process.proc import Process, open_files_with_descriptors, read_process
from activemq_fleet.node.timeouts import LAB_PROBE
from activemq_fleet.render.broker_paths import paths_of_broker
from activemq_fleet.render.environment_file import environment_variables
from activemq_fleet.render.java_command import arguments_after_java_options, java_options
from activemq_fleet.render.systemd_units import (
    commands_before_start,
    copy_store_index_command_words,
    guard_command_words,
    repair_store_command_words,
)
from activemq_fleet.topology import Broker, Fleet
from activemq_fleet.topology.brokers_by_address import BrokersByAddress

_GUARD_COMMAND = (sys.executable, "-m", "activemq_fleet.node.fence.guard_cli")
_LONGEST_REASON, _REASON_BEGIN = 400, 120  # Characters. Error messages of Spring can have several pages.


@dataclass(frozen=True, slots=True)
class BrokerSnapshot:
    """A snapshot of a lab's broker: its observed state at one moment.

    It includes the reason for the state, the process, and the latest run in the log.
    """

    state: BrokerState
    broker_run: BrokerRun
    process: psutil.Process | None = None
    run: ProcessRun | None = None
    reason: str = ""
    java: Process | None = None
    """The broker's own process, which a guard may have started."""


class LabBrokers:
    """The brokers of a lab, which are real brokers on loopback addresses.

    Their processes, logs and files are included. May be used from several threads.
    """

    def __init__(self, lab_paths: LabPaths, state: LabState) -> None:
        self.lab_paths = lab_paths
        self.lab = state
        self.fleet: Fleet = state.fleet()
        self._tails: dict[str, tuple[ProcessRun, LogTail]] = {}
        self._configurations: dict[tuple[str, str], DeployedBrokerSettings] = {}
        self._locks = {broker.host: threading.Lock() for broker in self.fleet.brokers}
        loopback_addresses = {host: (address,) for host, address in state.addresses.items()}
        self.brokers_by_address = BrokersByAddress(self.fleet.brokers, loopback_addresses)

    def loopback_address(self, host: str) -> str:
        """Return the loopback address of a host of the lab."""
        return self.lab.addresses[host]

    def data_directory(self, broker: Broker) -> Path:
        """Return the data directory of a broker of the lab."""
        return Path(paths_of_broker(broker).data)

    def log_path(self, broker: Broker) -> Path:
        """Return the path of the log file of a broker of the lab."""
        return self.data_directory(broker) / BROKER_LOG

    def observe_broker(self, broker: Broker, *, timeout: float = LAB_PROBE) -> BrokerSnapshot:
        """Observe a broker of the lab, and return a snapshot of its state.

        The state comes from the broker's process, its log and its connectors. The function sends a message to the
        broker, which must return within ``timeout`` seconds.
        """
        with self._locks[broker.host]:
            run = self.last_broker_process_run(broker)
            if run is None:
                return BrokerSnapshot("stopped", BrokerRun())
            process = processes.find_process(self.lab_paths, run)
            java = processes.guarded_broker_process(process) if process and broker.has_guard else process
            running = read_process(java.pid) if java else None
            evidence = observe_broker(
                running,
                self._read_deployed_settings(broker, run.version) if running else DeployedBrokerSettings(),
                make_connector_probe(broker, timeout),
                lambda _process: self._read_broker_run(broker, run).logged_phase,
            )
            broker_run = self._read_broker_run(broker, run)
        conclusion = conclude_state(evidence)
        return BrokerSnapshot(conclusion.state, broker_run, process, run, conclusion.reason, evidence.process)

    def observe_all_brokers(self) -> dict[str, BrokerSnapshot]:
        """Observe all brokers of the lab, and return snapshots of their states.

        The snapshots are by inventory name, in the order of the inventory.
        """
        brokers = self.fleet.brokers
        with ThreadPoolExecutor(max_workers=max(1, len(brokers))) as pool:
            return dict(zip([broker.host for broker in brokers], pool.map(self.observe_broker, brokers), strict=True))

    def _read_deployed_settings(self, broker: Broker, version: str) -> DeployedBrokerSettings:
        """Return the installed configuration of a version. Raises LabError when it cannot be read."""
        key = broker.host, version
        if key not in self._configurations:
            installed = ConfigurationPaths(paths_of_broker(broker).base)
            try:
                self._configurations[key] = read_deployed_broker_settings(installed, version)
            except (OSError, ParseError) as error:
                raise LabError(
                    f"{broker.host}: the installed activemq.xml (version {version}) cannot be read ({error}). Run "
                    "`lab down` and `lab up` for this lab, which installs the file again"
                ) from None
        return self._configurations[key]

    def writable_and_newest_store_generations(self, broker: Broker) -> WritableAndNewestGenerationNumbers:
        """Return the numbers of the fenced store's copy that a broker can write to, and of its newest copy.

        A generation is a numbered copy of a fenced store; the newest one is in force. The first number is None if the
        broker has no file of the store open.
        """
        shared = str(broker.shared_store_directory)
        process = self.running_process(broker)
        if process and broker.has_guard:
            process = processes.guarded_broker_process(process)
        try:
            paths = [path for _, path in open_files_with_descriptors(process.pid)] if process else []
        except OSError:
            paths = []  # The process has just ended.
        return WritableAndNewestGenerationNumbers(
            writable_generation_number(paths, shared), newest_claimed_generation_number(shared)
        )

    def state_from_log(self, broker: Broker) -> BrokerRun:
        """Return the state of a broker according to its log.

        The state is that of the current or the last run.
        """
        with self._locks[broker.host]:
            run = self.last_broker_process_run(broker)
            return self._read_broker_run(broker, run) if run else BrokerRun()

    def last_broker_process_run(self, broker: Broker) -> ProcessRun | None:
        """Return the record of the last process that ran a broker; None if the broker was never started.

        The process may have ended.
        """
        return processes.last_broker_process_run(self.lab_paths, broker.host)

    def running_process(self, broker: Broker) -> psutil.Process | None:
        """Return the broker's process, or None if it does not run."""
        return processes.running_process(self.lab_paths, broker.host)

    def require_running_process(self, broker: Broker) -> psutil.Process:
        """Return the running process of a broker, and raise LabError if the broker does not run."""
        process = self.running_process(broker)
        if process is None:
            raise LabError(f"{broker.host} does not run: start it with `lab start {broker.host}`")
        return process

    def is_alive(self, broker: Broker) -> bool:
        """Return whether the broker's process runs."""
        return self.running_process(broker) is not None

    def listens_on_port(self, broker: Broker, port: int) -> bool:
        """Return whether the broker runs and listens on the given TCP port of its loopback address."""
        process = self.running_process(broker)
        return process is not None and process_account_listens_on_one_of(
            process.pid, [(self.loopback_address(broker.host), port)]
        )

    def installed_configuration_version(self, broker: Broker) -> str | None:
        """Return the name of the installed version of a broker's configuration; None if none is installed."""
        try:
            return os.path.basename(os.readlink(paths_of_broker(broker).current))
        except OSError:
            return None

    def launch_process(self, broker: Broker) -> None:
        """Launch the process of a broker of the lab.

        Returns at once. Raises LabError if it cannot be started, or if a command fails that its unit runs before java.
        """
        version = self.installed_configuration_version(broker)
        if version is None:
            raise LabError(
                f"{broker.host}: this broker is not installed in the lab: run `lab up` for this lab, which installs it"
            )
        # The command of a pure slave uses a name that only JVMs of the lab resolve. FleetStartup waits for the master.
        if not broker.ha_profile.replicates:
            for preparation in commands_before_start(broker):
                processes.run_command_before_start(broker.host, preparation)
        _, *repair_arguments = repair_store_command_words(broker) or ("",)
        if repair_arguments:
            result = subprocess.run(
                [*_GUARD_COMMAND, *repair_arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            if result.returncode and broker.settings.index_rebuild == "refuse":
                raise LabError(
                    f"{broker.host}: the broker is not started, because the check of its store failed. Correct this "
                    f"error, and start the broker again: {result.stdout.strip()}"
                )
        java = [self.lab.java, *java_options(broker), *_java_arguments(broker, self.lab.software)]
        _, *guard_arguments = guard_command_words(broker) or ("",)
        command = [*_GUARD_COMMAND, *guard_arguments, *java] if guard_arguments else java
        run = processes.launch_broker(
            self.lab_paths,
            broker.host,
            command,
            environment_variables(broker),
            self.data_directory(broker),
            version,
            broker.release.text,
        )
        _, *copy_index_arguments = copy_store_index_command_words(broker) or ("",)
        if copy_index_arguments:
            devnull = subprocess.DEVNULL
            subprocess.run(
                [*_GUARD_COMMAND, *copy_index_arguments, str(run.pid)],
                stdin=devnull,
                stdout=devnull,
                stderr=devnull,
                check=False,
            )

    def failure_reason(self, broker: Broker) -> str:
        """Return the reason why the last run of a broker failed.

        The reason is the end of a sentence: the last error in the broker's log, the exit status if this process started
        the broker and the broker has ended, and the path of the log.
        """
        run = self.last_broker_process_run(broker)
        reason = explain_failed_run(self.data_directory(broker), run) if run else ""
        status = processes.exit_status_of_run(run) if run else None
        status_text = "" if status is None else f"exit status {status if status >= 0 else 128 - status}, "
        # The end of the reason is the root cause.
        is_short = len(reason) <= _LONGEST_REASON
        short = reason if is_short else f"{reason[:_REASON_BEGIN]} … {reason[_REASON_BEGIN - _LONGEST_REASON :]}"
        return f"{short or 'unknown, because the log contains no error'} ({status_text}log: {self.log_path(broker)})"

    def delete_data_of_stopped_brokers(self, brokers: Iterable[Broker]) -> None:
        """Delete all data of the given brokers. They must be stopped.

        The data are their stores, delayed messages, logs and run records.
        """
        for broker in brokers:
            shutil.rmtree(self.data_directory(broker), ignore_errors=True)
            shutil.rmtree(broker.store_directory, ignore_errors=True)
            scheduler = broker.settings.scheduler
            if scheduler and scheduler.directory:  # In a lab, the directory is always one of the lab.
                shutil.rmtree(scheduler.directory, ignore_errors=True)
            make_shared_store_directory(broker)
            processes.delete_broker_run_record(self.lab_paths, broker.host)
            self._tails.pop(broker.host, None)

    def _read_broker_run(self, broker: Broker, run: ProcessRun) -> BrokerRun:
        tail_of_run = self._tails.get(broker.host)
        if tail_of_run is None or tail_of_run[0] != run:
            tail_of_run = self._tails[broker.host] = run, LogTail(self.data_directory(broker), run)
        return tail_of_run[1].read_run_state()


def _java_arguments(broker: Broker, software: Mapping[str, InstalledRelease]) -> Iterator[str]:
    """Yield the arguments of java in a broker's service unit, adapted to the lab's software.

    A class path of jars replaces the start jar if the software is not a complete distribution.
    """
    broker_software = software[broker.release.text]
    for argument in arguments_after_java_options(broker):
        if broker_software.whole:
            yield argument
        elif argument == "start":
            yield from ("--noDefExt", argument)
        else:
            yield argument.replace(
                f"{broker_software.home}/{broker.release.start_jar}", f"{broker_software.home}/lib/*"
            )


def make_shared_store_directory(broker: Broker) -> None:
    """Make the store directory that a broker shares with the other node of its pair.

    It has the marker file that the brokers require. Nothing is done for a broker without a shared store.
    """
    if broker.shared_store_directory is None:
        return
    store = Path(broker.shared_store_directory)
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker = store / STORE_MARKER
    if not marker.exists():
        write_lab_file(marker, f"{broker.pair}\n", 0o644)
