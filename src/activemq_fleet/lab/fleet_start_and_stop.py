"""Start and stop all brokers of a lab together, and write the files of its clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from activemq_fleet.errors import LabLinksDownError
from activemq_fleet.lab import processes
from activemq_fleet.lab.connector_and_port_checks import require_usable_broker_ports
from activemq_fleet.lab.database import LabDatabase
from activemq_fleet.lab.expected_links import ExpectedLinks
from activemq_fleet.lab.lab_brokers import LabBrokers
from activemq_fleet.lab.lab_paths import LabPaths, write_lab_file
from activemq_fleet.lab.startup import FleetStartup, Progress, require_equal_stores_of_pure_pair
from activemq_fleet.node.config.versions import ConfigurationPaths, read_installed_configuration
from activemq_fleet.node.fence.fence_setup_and_removal import unfence_store
from activemq_fleet.render import render_agent, render_java_client_files
from activemq_fleet.render.broker_paths import paths_of_broker
from activemq_fleet.topology import Broker, Fleet, Pair

_NAMED_FILES = 4  # Number of changed files that the message about a restart names.
_DOWN_GRACE = 10.0  # Seconds. A service unit waits longer, but here a user waits at a terminal.


def start_fleet(hosts: LabBrokers, database: LabDatabase | None, timeout: float, progress: Progress) -> None:
    """Start all stopped brokers of a lab, and wait until they are ready and all links are up.

    The database is started first. ``timeout`` in seconds is for each broker, and for all links together. Raises
    LabError, LabLinksDownError.
    """
    pairs = list(hosts.fleet.pairs_by_name.values())
    for pair in pairs:
        require_equal_stores_of_pure_pair(hosts, pair)
        _remove_fence(hosts, pair)
    for broker in hosts.fleet.brokers:
        if not hosts.is_alive(broker):
            require_usable_broker_ports(broker, hosts.loopback_address(broker.host))
    if database:
        database.start(pair.name for pair in pairs if pair.ha_profile.has_database_lease)
    startup = FleetStartup(hosts, timeout, progress)
    startup.start_all_brokers(pairs)
    links = ExpectedLinks(hosts)
    if missing := links.missing_links_after_wait(hosts.observe_all_brokers, timeout):
        raise LabLinksDownError(*map(links.describe_missing_link, missing))
    startup.check_brokers_alive(hosts.fleet.brokers)


def _remove_fence(hosts: LabBrokers, pair: Pair) -> None:
    """Remove the fence from the shared store of a pair that has no guards any more and does not run.

    The newest generation (a numbered directory) becomes the store itself again.
    """
    broker = pair.brokers[0]
    is_fenced = broker.shared_store_directory and broker.settings.fence != "guard"
    if is_fenced and not any(hosts.is_alive(node) for node in pair.brokers):
        unfence_store(broker.store_directory)


def stop_outdated_and_unknown_brokers(
    hosts: LabBrokers,
    versions: Mapping[str, str],
    database: LabDatabase | None,
    kept: Iterable[int],
    progress: Progress,
) -> None:
    """Stop the brokers of a lab that run with another configuration than the installed one.

    The peers of pure brokers, and processes of unknown brokers, are stopped, too. ``versions`` are the installed
    configurations by host, ``kept`` the pids of other processes that stay.
    """
    outdated = {
        broker.host
        for broker in hosts.fleet.brokers
        if hosts.is_alive(broker)
        and (run := hosts.last_broker_process_run(broker))
        and run.version != versions[broker.host]
    }
    for broker in hosts.fleet.brokers:
        if broker.host in outdated and broker.ha_profile.replicates and broker.peer:
            outdated.add(broker.peer)
    for host in sorted(outdated):
        broker = hosts.fleet.broker(host)
        progress(f"{host} is restarted: {_describe_change(hosts, broker, versions[host])}")
    terminate_running_brokers(hosts, (broker for broker in hosts.fleet.brokers if broker.host in outdated))
    running = [process for broker in hosts.fleet.brokers if (process := hosts.running_process(broker))]
    pids_to_keep = {
        process.pid for leader in running for process in (leader, processes.guarded_broker_process(leader)) if process
    }
    pids_to_keep.update(kept)
    if database and (server := database.process()):
        pids_to_keep.add(server.pid)
    processes.terminate_processes(
        [p for p in processes.lab_processes(hosts.lab_paths) if p.pid not in pids_to_keep], grace=_DOWN_GRACE
    )


def _describe_change(hosts: LabBrokers, broker: Broker, version: str) -> str:
    """Return what differs between a broker's last run and its installed configuration, as the end of a sentence."""
    run = hosts.last_broker_process_run(broker)
    if run is None or run.version == version:
        return (
            f"its peer {broker.peer} is restarted, and both nodes of a pair with activemq_ha: pure must "
            "restart together"
        )
    if run.release not in ("", broker.release.text):
        return f"the release of {broker.host} changes from {run.release} to {broker.release.text}"
    configuration_paths = ConfigurationPaths(paths_of_broker(broker).base)
    before, after = (
        read_installed_configuration(configuration_paths.directory(name)) for name in (run.version, version)
    )
    if before is None or after is None:
        return f"the configuration of {broker.host} has changed"
    changed = sorted({path for path, _ in before.manifest.items() ^ after.manifest.items()})
    if not changed:
        return f"the permissions of configuration files of {broker.host} have changed"
    rest = f" and {len(changed) - _NAMED_FILES} more files" if len(changed) > _NAMED_FILES else ""
    return f"the configuration of {broker.host} has changed ({', '.join(changed[:_NAMED_FILES])}{rest})"


def terminate_running_brokers(hosts: LabBrokers, brokers: Iterable[Broker]) -> int:
    """Terminate those of the given lab brokers that are running, and return how many were terminated.

    Both nodes of a pure pair are killed at the same time.
    """
    running = [
        (b.ha_profile.needs_resync, process) for b in brokers if (process := hosts.running_process(b)) is not None
    ]
    processes.kill_simultaneously(process for is_simultaneous, process in running if is_simultaneous)
    processes.terminate_processes(
        (process for is_simultaneous, process in running if not is_simultaneous), grace=_DOWN_GRACE
    )
    return len(running)


def write_client_and_agent_files(lab_paths: LabPaths, loopback_fleet: Fleet) -> None:
    """Write the configuration files of clients and agents of a lab, with loopback addresses.

    They are ``clients/GROUP/…``, and ``clients/HOST/…`` of agents.
    """
    for path, content in render_java_client_files(loopback_fleet).items():
        write_lab_file(lab_paths.directory / path, content, 0o644)
    for agent in loopback_fleet.agents:
        directory = lab_paths.clients / agent.host
        settings = agent.settings.model_copy(update={"agent_config": str(directory)})
        for path, content in render_agent(replace(agent, settings=settings), reveal=True).items():
            write_lab_file(directory / path, content)
