"""Prepare a lab of an inventory: fetch software, assign addresses, write Ansible's files, install broker files."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from activemq_fleet import artifacts
from activemq_fleet.artifacts import Progress
from activemq_fleet.deployment import files_to_deploy
from activemq_fleet.errors import ArtifactError, FleetError, InputError, LabError
from activemq_fleet.findings import merged_finding_lines
from activemq_fleet.inventory import InventoryData, fleet_from_inventory_data
from activemq_fleet.lab import loopback_overlay as over
from activemq_fleet.lab.address_reservation import AddressBlockReservations
from activemq_fleet.lab.lab_brokers import make_shared_store_directory
from activemq_fleet.lab.lab_paths import LabPaths, write_lab_file
from activemq_fleet.lab.lab_state_file import InstalledRelease, LabState, lab_json_text, load_lab_state_of_any_directory
from activemq_fleet.lab.loopback_overlay import ReplacedHostVariable
from activemq_fleet.node.config.configuration_archive import ConfigurationFile
from activemq_fleet.node.config.vendor_files import shipped_configuration_files
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.install import configuration_install
from activemq_fleet.releases import Release
from activemq_fleet.render import render_activemq_xml_documents_by_host
from activemq_fleet.render.broker_paths import paths_of_broker
from activemq_fleet.topology import Broker, Fleet
from activemq_fleet.topology.inventory_rules import inventory_warning_lines

_OLDEST_JAVA = 11  # The oldest LTS release with the option -Djdk.net.hosts.file, which Java 9 introduced.


def prepare_lab(
    lab_paths: LabPaths,
    data: InventoryData,
    claims: AddressBlockReservations,
    progress: Progress,
    sources: Sequence[str] = (),
    heap: str = over.HEAP,
    *,
    metrics: bool = False,
) -> tuple[LabState, tuple[ReplacedHostVariable, ...]]:
    """Prepare a lab from an inventory: fetch software, assign loopback addresses, and write its files.

    Ansible reads the files. Returns the lab's state and the variables that were substituted. Raises LabError for a
    fleet whose topology has errors or that a lab cannot run, ArtifactError when software cannot be fetched. Blocking
    findings of the rules are reported to ``progress``. ``metrics``: whether all brokers and agents have metrics,
    regardless of the inventory.
    """
    fleet = build_fleet_and_check_topology(data)
    for warning in inventory_warning_lines(fleet):
        progress(f"warning: {warning}")
    _report_findings(fleet, progress)
    before = None
    with suppress(InputError):  # Another version created this lab, so the lab is created again.
        before = load_lab_state_of_any_directory(lab_paths)
    executable = artifacts.java_executable(
        max([_OLDEST_JAVA, *(broker.release.java_minimum for broker in fleet.brokers)])
    )
    brokers = {broker.release.text: broker for broker in fleet.brokers}
    software = {text: _provide_software(broker, lab_paths, progress) for text, broker in sorted(brokers.items())}
    lab_paths.make_private_lab_directory()
    block = claims.reserve_address_block_number(lab_paths.directory, before.block if before else None)
    seed = before.seed if before else secrets.token_hex(16)
    addresses = over.assign_loopback_addresses(fleet, block, before.addresses if before else None)
    driver = ""
    if any(broker.ha_profile.has_database_lease for broker in fleet.brokers):
        driver = str(artifacts.postgresql_driver_jar_path(progress=progress))
    exporter = ""
    if metrics or any(broker.settings.metrics for broker in fleet.brokers):
        exporter = str(artifacts.prometheus_jmx_exporter_jar(progress=progress))
    state = LabState(
        block=block,
        seed=seed,
        java=str(executable),
        addresses=addresses,
        software=software,
        groups=dict(data.groups),
        hosts={},
        sources=list(sources),
        jdbc_driver=driver,
        exporter=exporter,
        directory=str(lab_paths.directory),
    )
    overlay = over.loopback_variables(fleet, data.hosts, lab_paths, state, heap, metrics=metrics)
    state = replace(state, hosts=over.variables_with_overlay(data.hosts, overlay))
    _write_lab_files(lab_paths, state, overlay)
    return state, over.replaced_variables_with_both_values(data.hosts, overlay)


def build_fleet_and_check_topology(data: InventoryData) -> Fleet:
    """Return the fleet of an inventory that a lab can run. Raises LabError for a fleet whose topology has errors."""
    fleet = fleet_from_inventory_data(data)
    if fleet.blocking_findings:
        raise LabError(*merged_finding_lines(fleet.blocking_findings))
    return fleet


def _report_findings(fleet: Fleet, progress: Progress) -> None:
    """Report the findings that would stop the commands ``render`` and ``site``, without stopping a lab.

    A lab may test what they are about.
    """
    # The import is here because rules load slowly, and commands that only inspect a lab do not use them.
    from activemq_fleet.validation import fleet_with_lint_findings

    checked = fleet_with_lint_findings(fleet, render_activemq_xml_documents_by_host(fleet))
    for line in merged_finding_lines(checked.blocking_findings):
        progress(f"warning: {line}")


def _provide_software(broker: Broker, lab_paths: LabPaths, progress: Progress) -> InstalledRelease:
    """Return the ActiveMQ software of a broker's release.

    It is that of ``activemq_archive`` if the archive is on this machine, else it is fetched.
    """
    if local := _local_software(broker, lab_paths, progress):
        return local
    release, home = broker.release, None
    try:
        home = artifacts.fetch_and_unpack_distribution(release, progress=progress)
    except FleetError as error:
        if not release.jars_available:
            raise ArtifactError(f"{error}. {artifacts.local_archive_hint(release)}") from None
        if not isinstance(error, artifacts.RecentDownloadFailureError):
            progress(
                f"{error}. The lab uses only the jars of release {release.text}, and not the complete distribution, so "
                "its brokers have no web console"
            )
    if home is not None:
        return InstalledRelease(str(home), whole=True)
    return _link_jars(release, artifacts.fetch_jar_directory(release, progress=progress), lab_paths)


def _local_software(broker: Broker, lab_paths: LabPaths, progress: Progress) -> InstalledRelease | None:
    """Return the ActiveMQ software in a broker's ``activemq_archive``.

    The result is None if the archive is not on this machine or is a tar archive of jars alone.
    """
    settings, release = broker.settings, broker.release
    configured = settings.release_archive_path_or_url()
    if configured is None:
        return None
    archive = Path(configured).expanduser().resolve()
    if archive.is_dir() and not (archive / "lib").is_dir():
        return _link_jars(release, artifacts.checked_jar_directory(archive, release), lab_paths)
    if archive.is_dir() or (archive.is_file() and settings.install != "jars"):
        home = artifacts.local_distribution_directory(
            archive, release, settings.release_archive_sha512(), progress=progress
        )
        return InstalledRelease(str(home), whole=True)
    return None


def _link_jars(release: Release, jars: Path, lab_paths: LabPaths) -> InstalledRelease:
    """Return a directory of ActiveMQ's jars as software for a lab.

    The lab has a link to it in the place of a distribution's libraries.
    """
    library = lab_paths.directory / "software" / release.text / "lib"
    library.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if library.is_symlink() and library.readlink() != jars:
        library.unlink()
    if not library.is_symlink():
        library.symlink_to(jars)
    return InstalledRelease(str(library.parent), whole=False)


def _write_lab_files(lab_paths: LabPaths, state: LabState, overlay: Mapping[str, Mapping[str, Any]]) -> None:
    fleet = state.fleet()
    if fleet.blocking_findings:
        raise LabError(
            "the fleet has errors with the addresses, directories and secrets of a lab: correct them in an inventory "
            "that only the lab uses",
            *merged_finding_lines(fleet.blocking_findings),
        )
    write_lab_file(lab_paths.names, over.jvm_hosts_file_content(fleet, state.addresses))
    layer: dict[str, Any] = {"all": {"hosts": {host: {} for host in overlay}}}
    write_lab_file(lab_paths.overlay_inventory_path, _HEAD + lab_json_text(layer))
    hosts_of_lab = {*(broker.host for broker in fleet.brokers), *(agent.host for agent in fleet.agents)}
    for host, variables in overlay.items():
        connection = _CONNECTION if host in hosts_of_lab else _NO_CONNECTION
        write_lab_file(lab_paths.host_vars / f"{host}.yml", _HEAD + lab_json_text({**connection, **variables}))
    for broker in fleet.brokers:
        make_shared_store_directory(broker)
    for path in lab_paths.host_vars.iterdir():
        if path.name.removesuffix(".yml") not in overlay:
            path.unlink()
    state.save(lab_paths)


_HEAD = """\
# activemq-fleet lab wrote this file as JSON, which is valid YAML. Use it after the inventory:
# ansible-playbook activemq.fleet.site -i INVENTORY -i inventory.yml
"""
_CONNECTION = {
    "ansible_connection": "local",
    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    "ansible_become": False,
}
# A playbook must not write addresses and passwords of a lab to hosts that the lab does not run, such as load balancers.
_NO_CONNECTION = {"ansible_host": "not-part-of-the-lab.invalid"}


def install_broker_configuration(broker: Broker, software: InstalledRelease) -> str:
    """Install a lab broker's configuration files, and return the name of the version of the configuration now in force.

    If the files have not changed, the current version stays. Raises LabError when the files cannot be written.
    """
    tree: dict[str, ConfigurationFile] = shipped_configuration_files(software.home) if software.whole else {}
    for path, file in files_to_deploy(broker).items():
        tree[path] = ConfigurationFile(file.content, file.mode, file.masked, file.hidden)
    base = paths_of_broker(broker).base
    try:
        return configuration_install.install_configuration(base, tree, configuration_install.Owners()).version
    except NodeError as error:
        raise LabError(
            f"{broker.host}: the files of this broker cannot be installed. Correct this error: {error}"
        ) from None
    except OSError as error:
        failed_path = error.filename or base
        raise LabError(
            f"{broker.host}: the file {failed_path} of this broker cannot be installed ({error.strerror or error}): "
            "check the permissions and the free space of its directory"
        ) from None
