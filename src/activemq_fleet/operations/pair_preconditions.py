"""Check the preconditions for an operation on the nodes of a pair, from the evidence of ``broker_info``.

Each problem names host, state and remedy. A problem that may resolve without action has a patience: the operation
waits for that many seconds and collects evidence again before the problem ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from activemq_fleet.deployment import BrokerFacts
from activemq_fleet.errors import names_to_text
from activemq_fleet.node.host_paths import STORE_MARKER
from activemq_fleet.node.judge import SERVING
from activemq_fleet.node.state.broker_health import MIN_FREE_BYTES, STORE_REQUIRES_GUARD
from activemq_fleet.node.state.evidence import BrokerEvidence
from activemq_fleet.node.timeouts import HUNG, SETTLE
from activemq_fleet.pair_remedies import waiting_brokers_remedy
from activemq_fleet.pair_state import PairState, is_not_installed
from activemq_fleet.profiles import PROFILES, HighAvailabilityProfile

# Seconds. Nodes are observed one after the other, so their states may contradict each other for a moment.
_SHORT_PATIENCE = 4.0
_RETURN_PATIENCE = 30.0  # Seconds. An interrupted switchover leaves a broker stopped for a shorter time.
_LARGEST_SKEW = 2.0  # Seconds. The shortest lease that the settings permit is several times longer.


@dataclass(frozen=True, kw_only=True)
class ObservedNode(BrokerEvidence):
    """A node (broker) as observed on its host.

    It has the broker with the evidence of its host. It has the settings of the inventory on which operations decide.
    ``wanted`` is the release in the inventory, and ``fence`` its ``activemq_fence``. ``is_packaged`` is true if a
    system package installs the release. ``store`` is the directory of a shared store in the inventory.
    """

    host: str
    pair: str
    ha: str
    role: str = "master"
    service: str = "systemd"
    unit_name: str = "activemq.service"
    base: str = ""
    wanted: str | None = None
    is_packaged: bool = False
    version: str | None = "known"
    fence: str = "none"

    @property
    def gets_guard_by_upgrade(self) -> bool:
        """Whether the node's broker waits without the guard that its store requires, and its upgrade adds the guard."""
        return (
            self.store_access == STORE_REQUIRES_GUARD
            and self.fence == "guard"
            and not self.is_serving
            and self.release != self.wanted
        )

    @property
    def is_serving(self) -> bool:
        """Whether the observed node is serving clients.

        It has its pair's store, and is healthy or not.
        """
        return self.state in SERVING

    @property
    def ha_profile(self) -> HighAvailabilityProfile:
        """The high-availability profile of the node's broker (``activemq_ha``)."""
        return PROFILES[self.ha]

    @property
    def is_awaiting_systemd_start(self) -> bool:
        """Whether the node's broker is stopped and systemd is about to start it.

        Systemd does so by a job, after a crash or on request.
        """
        unit = self.unit or {}
        busy = unit.get("ActiveState") in ("activating", "deactivating", "reloading")
        return self.state == "stopped" and (
            busy or unit.get("Job", "0") not in ("", "0") or unit.get("Returns") == "active"
        )


@dataclass(frozen=True, slots=True)
class UnmetPrecondition:
    """A problem of a pair that prevents an operation on its nodes.

    The operation is a restart, upgrade or stop. The problem is one line for the operator. ``text`` begins with the name
    of the host. ``patience``: seconds within which the problem may resolve without action.
    """

    text: str
    patience: float = 0.0

    def __str__(self) -> str:
        return self.text


def observe_node(broker: BrokerFacts, evidence: BrokerEvidence) -> ObservedNode:
    """Return a broker's node as an ObservedNode, from its facts in the inventory and the evidence of its host."""
    return ObservedNode(
        **{
            **vars(evidence),
            "host": broker.host,
            "pair": broker.pair,
            "role": broker.role,
            "ha": broker.ha,
            "service": broker.service,
            "base": broker.base,
            # The inventory defines the directory of a shared store; the host reports what the directory holds.
            "store": broker.store,
            "unit_name": broker.unit_name,
            "wanted": broker.release.text,
            "is_packaged": broker.install == "package",
            "fence": broker.fence,
        }
    )


def unmet_pair_preconditions(
    nodes: Sequence[ObservedNode], *, window: float = 0.0, settle: float = SETTLE, upgrade: bool = False
) -> list[UnmetPrecondition]:
    """Return the problems of a pair that block a restart or stop of its nodes.

    The pair can be a single broker; the list is empty without problems. ``window`` is the time in seconds within which
    the evidence was collected. With ``upgrade`` a release that differs from the inventory's is no problem, because the
    run changes it.
    """
    problems = []
    for node in nodes:
        # A broker that is not installed is stopped and has no unit: only the cause is reported.
        checks = (_configuration_problems,) if is_not_installed(node.state, node.version) else _NODE_CHECKS
        problems += [problem for check in checks for problem in check(node, settle)]
        if not (upgrade and node.gets_guard_by_upgrade):
            problems += _store_access_problems(node, settle)
    if not upgrade:
        problems += [problem for node in nodes for problem in _release_problems(node)]
    return [
        *problems,
        *_active_node_problems(PairState(nodes), settle),
        *_different_stores_problems(nodes),
        *_clock_problems(nodes, window),
    ]


def _state_problems(node: ObservedNode, settle: float) -> Iterator[UnmetPrecondition]:
    if node.is_awaiting_systemd_start:
        yield UnmetPrecondition(
            f"{node.host}: systemd tries to start the broker, but it does not start ({node.how}). "
            f"Check journalctl -u {node.unit_name} for the reason, and correct it",
            settle + _RETURN_PATIENCE,
        )
    elif node.state == "stopped":
        yield UnmetPrecondition(
            f"{node.host}: the broker is stopped ({node.how}). Check journalctl -u {node.unit_name} for the reason, "
            f"then run systemctl start {node.unit_name}"
        )
    elif node.state == "starting":
        yield UnmetPrecondition(
            f"{node.host}: the broker is starting, so it is neither active nor standby ({node.how}). Check "
            f"{node.base}/data/activemq.log. If the broker still recovers its store, wait. Otherwise correct the error "
            f"in the log, and run systemctl kill -s KILL {node.unit_name}; systemd then starts the broker again",
            settle,
        )
    elif node.state == "hung":
        yield UnmetPrecondition(
            f"{node.host}: the broker is hung ({node.how}). If it was active, it holds the lock, so the standby cannot "
            f"take over. Run systemctl kill -s KILL {node.unit_name}; systemd then starts the broker again",
            _SHORT_PATIENCE if node.frozen else HUNG,
        )


def _service_problems(node: ObservedNode, _settle: float) -> Iterator[UnmetPrecondition]:
    if node.service != "systemd":
        yield UnmetPrecondition(
            f"{node.host}: activemq_service is {node.service}, but playbooks can restart only brokers that systemd "
            "runs. Restart this broker with the program that started it, or set activemq_service to systemd"
        )
        return
    unit = node.unit or {}
    if (load_state := unit.get("LoadState", "loaded")) != "loaded":
        remedy = (
            f"Run systemctl unmask {node.unit_name}"
            if load_state == "masked"
            else "Run the playbook site, which installs the unit"
        )
        yield UnmetPrecondition(
            f"{node.host}: systemd has not loaded the service unit {node.unit_name} (its LoadState is {load_state}). "
            f"{remedy}"
        )
    main = unit.get("MainPID")
    if node.pid is not None and main is not None and main not in (str(node.pid), str(node.guard)):
        yield UnmetPrecondition(
            f"{node.host}: process {node.pid} of the broker was started outside the service unit {node.unit_name}, so "
            f"systemd cannot restart it. Run kill {node.pid}, and systemctl start {node.unit_name} when the process "
            "has stopped",
            _SHORT_PATIENCE,
        )


def _configuration_problems(node: ObservedNode, _settle: float) -> Iterator[UnmetPrecondition]:
    if node.version is None:
        yield UnmetPrecondition(
            f"{node.host}: activemq.fleet has installed no configuration below {node.base}. Run the playbook site first"
        )
    elif not node.complete:
        yield UnmetPrecondition(
            f"{node.host}: the configuration of the broker below {node.base} is incomplete. Run the playbook site first"
        )
    if node.drift:
        yield UnmetPrecondition(
            f"{node.host}: files of the deployed configuration were changed on the host ({names_to_text(node.drift)}), "
            "and a restart would apply these changes. Add the changes that you want to keep to the inventory, and run "
            "the playbook site, which overwrites the files"
        )
    if node.restart_required and node.previous_intact is False:
        yield UnmetPrecondition(
            f"{node.host}: the configuration with which the broker was last started ({node.previous} in "
            f"{node.base}/versions) is incomplete or was changed, so a failing restart could not be rolled back. "
            "Check out the version of the inventory that was in use when the broker was last started, and run the "
            "playbook site. Then run the playbook site with the current inventory"
        )


def _disk_space_problems(node: ObservedNode, _settle: float) -> Iterator[UnmetPrecondition]:
    for directory, free in sorted((node.free or {}).items()):
        if free < MIN_FREE_BYTES:
            yield UnmetPrecondition(
                f"{node.host}: directory {directory} has {free >> 20} MiB of free space, less than "
                f"{MIN_FREE_BYTES >> 20} MiB, so a restart of the broker may fail. Free disk space in this directory"
            )


def _port_problems(node: ObservedNode, _settle: float) -> Iterator[UnmetPrecondition]:
    for taken_port in node.taken_ports:
        yield UnmetPrecondition(
            f"{node.host}: port {taken_port.port} of the standby is in use by {taken_port.port_holder_text}, so the "
            "standby could not serve clients after a failover. Stop this process, or set another port for the broker "
            "in the inventory, such as in activemq_connectors"
        )


def _store_access_problems(node: ObservedNode, settle: float) -> Iterator[UnmetPrecondition]:
    if _uses_shared_store_directory(node) and node.store_access:
        yield UnmetPrecondition(
            f"{node.host}: the broker cannot lock the store {node.store} ({node.store_access}). Correct this error, "
            "such as the mount options of the shared directory, or the owner of the files in it",
            min(settle, HUNG),
        )


def _store_marker_problems(node: ObservedNode, _settle: float) -> Iterator[UnmetPrecondition]:
    if not _uses_shared_store_directory(node) or node.store_access:
        return
    if node.store_marker is None:
        yield UnmetPrecondition(
            f"{node.host}: the store {node.store} has no file {STORE_MARKER}, so the service unit would not "
            "start the broker again. Check that the share is mounted, then run the playbook site"
        )
    elif node.pair not in node.store_marker:
        owner = (node.store_marker or ("(no name)",))[0]
        yield UnmetPrecondition(
            f"{node.host}: directory {node.store} contains the store of pair {owner}, not of pair {node.pair}. Mount "
            f"the store of {node.pair} there"
        )


def _uses_shared_store_directory(node: ObservedNode) -> bool:
    return node.ha_profile.shares_store_directory and node.store is not None and node.pid is not None


def _release_problems(node: ObservedNode) -> Iterator[UnmetPrecondition]:
    # A package of the operating system determines the release, which takes effect after a restart.
    if not node.is_packaged and node.release and node.wanted and node.release != node.wanted:
        yield UnmetPrecondition(
            f"{node.host}: the broker runs {node.release}, but activemq_release is {node.wanted}. Run the playbook "
            f"upgrade, or set activemq_release to {node.release}"
        )


def _active_node_problems(pair: PairState[ObservedNode], settle: float) -> Iterator[UnmetPrecondition]:
    nodes, active = pair.nodes, pair.serving
    both_are_active = f"{' and '.join(node.host for node in active)} are both active"
    if two_masters := pair.two_masters:
        guarded = next(node for node in nodes if node.guard)
        yield UnmetPrecondition(
            f"{guarded.host}: pair {guarded.pair} has two masters ({two_masters}), which can damage its store. "
            "Immediately stop the broker with fewer client connections, or either of the two if you cannot tell "
            f"(systemctl stop {guarded.unit_name} on its host). Before you start the stopped broker again, copy "
            f"{guarded.store}",
            _SHORT_PATIENCE,
        )
    elif len(active) > 1 and (pair.uses_different_stores or not pair.is_guarded):
        yield UnmetPrecondition(
            f"{active[0].host}: {both_are_active}, so they do not use the same lock. Immediately stop the "
            "broker with fewer client connections, or either of the two if you cannot tell (systemctl stop "
            f"{active[0].unit_name} on its host). Before you start the stopped broker again, check that both brokers "
            "use the same store",
            _SHORT_PATIENCE,
        )
    elif pair.unknown_writer_reason:
        yield UnmetPrecondition(
            f"{active[0].host}: {both_are_active}, and {pair.unknown_writer_reason}, so it is not known which of the "
            "two brokers writes to it. Check that both hosts can read the store, or stop the broker with fewer client "
            f"connections (systemctl stop {active[0].unit_name} on its host)",
            HUNG,
        )
    else:
        yield from _old_generation_problems(pair)
    if not active and all(node.state == "standby" for node in nodes):
        yield _waiting_brokers_problem(nodes, settle)


def _waiting_brokers_problem(nodes: Sequence[ObservedNode], settle: float) -> UnmetPrecondition:
    first, hosts = nodes[0], " and ".join(node.host for node in nodes)
    reason = "for a lock that another process holds"
    if first.fence != "none" and first.ha_profile.shares_store_directory:
        reason += ", or for their guards (activemq_fence), which cannot take over the store"
    remedy = waiting_brokers_remedy(first.ha_profile, first.store, hosts=hosts, unit=first.unit_name, fence=first.fence)
    wait = "wait" if len(nodes) > 1 else "waits"
    return UnmetPrecondition(
        f"{first.host}: no node is active, because {hosts} {wait} {reason}. To continue, {remedy}", settle
    )


def _old_generation_problems(pair: PairState[ObservedNode]) -> Iterator[UnmetPrecondition]:
    for node in pair.nodes_with_outdated_generation:
        if node.is_serving:
            yield UnmetPrecondition(
                f"{node.host}: the broker serves clients from generation {node.generation}, an old copy of its store. "
                f"A takeover has replaced this copy with generation {pair.newest_generation_of(node)}, which lacks "
                "the messages that this broker accepts now. The guard (activemq_fence: guard) usually kills such a "
                "broker within seconds. If the broker still runs, run systemctl kill --signal=KILL "
                f"{node.unit_name} on {node.host}",
                HUNG,
            )


def _different_stores_problems(nodes: Sequence[ObservedNode]) -> Iterator[UnmetPrecondition]:
    marked = [
        node for node in nodes if node.ha_profile.shares_store_directory and node.pair in (node.store_marker or ())
    ]
    if len({node.store_marker for node in marked}) > 1:
        yield UnmetPrecondition(
            f"{marked[1].host}: the store in {marked[1].store} is not the store of host {marked[0].host}, so both "
            "nodes could become active. Mount the same share on both nodes"
        )


def _clock_problems(nodes: Sequence[ObservedNode], window: float) -> Iterator[UnmetPrecondition]:
    known = [(node.clock, node.host) for node in nodes if node.clock is not None]
    if len(known) < 2 or not nodes[0].ha_profile.has_database_lease:
        return
    (early, behind), (late, ahead) = min(known), max(known)
    if late - early - window > _LARGEST_SKEW:
        yield UnmetPrecondition(
            f"{behind}: the clock of this host is {late - early - window:.0f} s or more behind the clock of host "
            f"{ahead}, but a database lease requires equal clocks. Synchronize the clocks of both hosts"
        )


_NODE_CHECKS: tuple[Callable[[ObservedNode, float], Iterator[UnmetPrecondition]], ...] = (
    _state_problems,
    _service_problems,
    _configuration_problems,
    _disk_space_problems,
    _port_problems,
    _store_marker_problems,
)
