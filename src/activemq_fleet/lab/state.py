"""Store what a lab consists of in its directory, so that later commands need not read the inventory again."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from activemq_fleet import artifacts
from activemq_fleet.artifacts import Progress
from activemq_fleet.errors import FleetError, LabError
from activemq_fleet.inventory import InventoryData
from activemq_fleet.lab import loopback_overlay as over
from activemq_fleet.lab.layout import LabLayout, write_file
from activemq_fleet.lab.loopback_overlay import Software, Substitution
from activemq_fleet.lab.port_reservation import PortReservations
from activemq_fleet.releases import Release
from activemq_fleet.render import render_documents
from activemq_fleet.render.service import STORE_MARKER
from activemq_fleet.topology import Broker, Fleet, build_fleet

_FORMAT = 1
_JAVA = 17  # the oldest on which every release was run; 9 brought -Djdk.net.hosts.file


@dataclass(frozen=True)
class LabState:
    """The addresses, software, groups and variables of a lab; it holds secrets.

    ``block`` is the number of its block of addresses, ``seed`` the text that its own secrets are derived from, ``java``
    the path of java. ``addresses`` are by host, ``software`` by release. ``hosts`` are the variables of each host with
    the overlay on top. ``sources`` are the inventories that the lab was made from, empty where that is unknown;
    ``jdbc_driver`` is the path of PostgreSQL's driver, empty without a shared-jdbc pair; ``exporter`` that of the
    metrics exporter, empty without metrics.
    """

    block: int
    seed: str = field(repr=False)
    java: str
    addresses: dict[str, str]
    software: dict[str, Software]
    groups: dict[str, list[str]]
    hosts: dict[str, dict[str, Any]] = field(repr=False)
    sources: list[str] = field(default_factory=list)
    jdbc_driver: str = ""
    exporter: str = ""

    def fleet(self) -> Fleet:
        """Return the fleet with the brokers' own host names, which only their JVMs can resolve."""
        return build_fleet(self.hosts, self.groups)

    def save(self, layout: LabLayout) -> None:
        """Write the state as JSON to the layout's state file, readable by its owner alone."""
        text = json.dumps({"format": _FORMAT, **asdict(self)}, indent=1, default=str)
        write_file(layout.state, text + "\n")


def load_existing(layout: LabLayout) -> LabState:
    """Return the state stored in a lab's directory. Raises LabError where there is none, or one of another version."""
    state = load(layout)
    if state is None:
        raise LabError(f"there is no lab in {layout.directory}: start one with lab up")
    return state


def load(layout: LabLayout) -> LabState | None:
    """Return the state stored in a lab's directory, or None if there is none.

    Raises LabError for a file that another version wrote.
    """
    try:
        known = json.loads(layout.state.read_bytes())
        if known.pop("format") != _FORMAT:
            raise ValueError
        known["software"] = {release: Software(**software) for release, software in known["software"].items()}
        return LabState(**known)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LabError(f"{layout.state} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise LabError(f"{layout.state} cannot be read: take the lab down and remove its directory") from None


def prepare(
    layout: LabLayout,
    data: InventoryData,
    claims: PortReservations,
    progress: Progress,
    sources: Sequence[str] = (),
    heap: str = over.HEAP,
    *,
    metrics: bool = False,
) -> tuple[LabState, tuple[Substitution, ...]]:
    """Make a lab from an inventory: fetch software, assign addresses, and write the files that Ansible reads.

    Returns the lab's state and the variables that were substituted. Raises LabError for a fleet whose topology has
    errors or that a lab cannot run, ArtifactError when software cannot be fetched. Blocking findings of the rules are
    reported to ``progress``. ``metrics``: whether all brokers and agents have metrics, whatever the inventory says.
    """
    fleet = build_fleet(data.hosts, data.groups)
    _refuse_findings(fleet)
    _tell_findings(fleet, progress)
    before = None
    with suppress(LabError):  # of a lab that another version made, which is made anew
        before = load(layout)
    executable = artifacts.java(_JAVA)
    software = {text: _software(text, layout, progress) for text in sorted({b.release.text for b in fleet.brokers})}
    layout.make()
    block = claims.reserve(layout.directory, before.block if before else None)
    seed = before.seed if before else secrets.token_hex(16)
    addresses = over.assign_addresses(fleet, block, before.addresses if before else None)
    driver = ""
    if any(broker.profile.has_database_lease for broker in fleet.brokers):
        driver = str(artifacts.postgresql_driver(progress=progress))
    exporter = ""
    if metrics or any(broker.settings.metrics for broker in fleet.brokers):
        exporter = str(artifacts.metrics_exporter(progress=progress))
    groups = dict(data.groups)
    state = LabState(block, seed, str(executable), addresses, software, groups, {}, list(sources), driver, exporter)
    own = over.overlay(fleet, data.hosts, layout, state, heap, metrics=metrics)
    state = replace(state, hosts=over.apply_overlay(data.hosts, own))
    _write(layout, state, own)
    return state, over.list_substitutions(data.hosts, own)


def _refuse_findings(fleet: Fleet) -> None:
    wrong = fleet.blocking
    if wrong:
        first = wrong[0]
        more = f" (and {len(wrong) - 1} more: activemq-fleet check lists them)" if len(wrong) > 1 else ""
        raise LabError(f"{first.rule} {first.host} {first.message}: {first.fix}{more}")


def _tell_findings(fleet: Fleet, progress: Progress) -> None:
    """Report findings that stop ``render`` and ``site``; in a lab they may be the very thing to be tried."""
    # Imported here: commands that only look at a lab need no rules, which take a while to load.
    from activemq_fleet.validation import with_lint_findings

    for finding in with_lint_findings(fleet, render_documents(fleet)).blocking:
        progress(f"warning: {finding.to_line()}")


def _software(text: str, layout: LabLayout, progress: Progress) -> Software:
    release = Release.of(text)
    try:
        home = artifacts.distribution_for(release, progress=progress)
    except FleetError as error:
        if not release.jars_available:
            raise
        if not isinstance(error, artifacts.RememberedRefusalError):
            progress(f"{error}: its jars in its place, which have no web console")
        home = None
    if home is not None:
        return Software(str(home), whole=True)
    jars = artifacts.jars_for(release, progress=progress)
    library = layout.directory / "software" / text / "lib"
    library.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if library.is_symlink() and library.readlink() != jars:
        library.unlink()
    if not library.is_symlink():
        library.symlink_to(jars)
    return Software(str(library.parent), whole=False)


def _write(layout: LabLayout, state: LabState, own: Mapping[str, Mapping[str, Any]]) -> None:
    fleet = state.fleet()
    write_file(layout.names, over.jvm_hosts_file(fleet, state.addresses))
    layer: dict[str, Any] = {"all": {"hosts": {host: {} for host in own}}}
    write_file(layout.inventory, _HEAD + json.dumps(layer, indent=1) + "\n")
    for host, variables in own.items():
        text = json.dumps({**_CONNECTION, **variables}, indent=1, default=str)
        write_file(layout.host_vars / f"{host}.yml", f"{_HEAD}{text}\n")
    for broker in fleet.brokers:
        make_store(broker)
    for path in layout.host_vars.iterdir():
        if path.name.removesuffix(".yml") not in own:
            path.unlink()
    state.save(layout)


_HEAD = """\
# Written by activemq-fleet lab (JSON is YAML), to go after the inventory:
# ansible-playbook activemq.fleet.site -i INVENTORY -i inventory.yml
"""
_CONNECTION = {
    "ansible_connection": "local",
    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    "ansible_become": False,
}


def make_store(broker: Broker) -> None:
    """Create the store directory that the nodes of a pair share, with the marker file that its brokers require.

    Nothing is done for a broker without a shared store.
    """
    if broker.shared_directory is None:
        return
    store = Path(broker.shared_directory)
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker = store / STORE_MARKER
    if not marker.exists():
        write_file(marker, f"{broker.pair}\n", 0o644)
