"""Find what is wrong with a pair before an operation changes one of its nodes, from the evidence of ``broker_info``.

Each problem names host, state and remedy. A problem that may resolve without action has a patience: the operation
waits for that many seconds and collects evidence again before the problem ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

from activemq_fleet.deployment import BrokerFacts
from activemq_fleet.node.fence.store_access import StoreAccess, two_masters_message, writers_in_force
from activemq_fleet.node.judge import SERVING
from activemq_fleet.node.state.evidence import BrokerEvidence
from activemq_fleet.node.state.health import MIN_FREE_BYTES
from activemq_fleet.node.timeouts import HUNG, SETTLE
from activemq_fleet.profiles import PROFILES, Profile

_BLINK = 4.0  # clocks that are read at one moment are read one after the other
_RETURN = 30.0  # longer than an interrupted switchover leaves a broker stopped
_SKEW = 2.0  # seconds; the shortest lease that is not refused elsewhere is several times that


@dataclass(frozen=True, kw_only=True)
class Node(BrokerEvidence):
    """A broker with the data that operations decide on: the evidence of its host, and settings of the inventory.

    ``wanted`` is the release in the inventory. ``is_packaged`` is true if a system package installs the release.
    ``store`` is the directory of a shared store in the inventory.
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

    @property
    def is_serving(self) -> bool:
        """Whether the node has its pair's store and accepts clients, healthy or not."""
        return self.state in SERVING

    @property
    def profile(self) -> Profile:
        """The high-availability profile of the broker, by ``activemq_ha``."""
        return PROFILES[self.ha]

    @property
    def generation_access(self) -> StoreAccess:
        """The generation (numbered copy) of its store that the broker can write to, and the newest generation."""
        return StoreAccess(self.generation, self.generation_in_force)

    @property
    def is_coming_up(self) -> bool:
        """True for a stopped broker that systemd is about to start: by a job, after a crash or on request."""
        unit = self.unit or {}
        busy = unit.get("ActiveState") in ("activating", "deactivating", "reloading")
        return self.state == "stopped" and (
            busy or unit.get("Job", "0") not in ("", "0") or unit.get("Returns") == "active"
        )


@dataclass(frozen=True, slots=True)
class PairProblem:
    """A reason why no node of a pair may be restarted, upgraded or stopped now; one line for the operator.

    ``patience``: seconds within which the problem may resolve without action.
    """

    host: str
    text: str
    patience: float = 0.0

    def __str__(self) -> str:
        return f"{self.host}: {self.text}"


def node_of(broker: BrokerFacts, evidence: BrokerEvidence) -> Node:
    """Return the node of a broker from its facts and its evidence."""
    observed = {known.name: getattr(evidence, known.name) for known in fields(evidence)}
    return Node(
        **{
            **observed,
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
        }
    )


def problems_of(
    nodes: Sequence[Node], *, window: float = 0.0, settle: float = SETTLE, upgrade: bool = False
) -> list[PairProblem]:
    """Return the reasons why no node of a pair (or a single broker) may be restarted or stopped now; empty if none.

    ``window`` is the time in seconds within which the evidence was collected. With ``upgrade`` a release
    that differs from the inventory's is no problem, because the run changes it.
    """
    problems = [problem for node in nodes for check in _OF_NODES for problem in check(node, settle)]
    if not upgrade:
        problems += [problem for node in nodes for problem in _release(node)]
    if len(nodes) > 1:
        problems += [*_who_serves(nodes, settle), *_one_store(nodes), *_clocks(nodes, window)]
    return problems


def _runs(node: Node, settle: float) -> Iterator[PairProblem]:
    kill = f"systemctl kill -s KILL {node.unit_name}"
    if node.is_coming_up:
        see = f"check journalctl -u {node.unit_name}"
        yield PairProblem(node.host, f"the broker does not start ({node.how}): {see}", settle + _RETURN)
    elif node.state == "stopped":
        see = f"check journalctl -u {node.unit_name} for the reason, then run systemctl start {node.unit_name}"
        yield PairProblem(node.host, f"the broker is stopped ({node.how}): {see}")
    elif node.state == "starting":
        see = f"check {node.base}/data/activemq.log and correct what the broker waits for, or run {kill}"
        yield PairProblem(
            node.host, f"the broker is starting, and neither active nor standby ({node.how}): {see}", settle
        )
    elif node.state == "hung":
        what = "if the broker was active, it holds the lock and the standby cannot take over; "
        patience = _BLINK if node.frozen else HUNG
        yield PairProblem(
            node.host,
            f"the broker is hung ({node.how}): {what}kill the broker with {kill}, and systemd starts it again",
            patience,
        )


def _is_ours(node: Node, _settle: float) -> Iterator[PairProblem]:
    if node.service != "systemd":
        yield PairProblem(
            node.host,
            f"activemq_service is {node.service}: playbooks can restart only brokers that systemd runs. Restart this "
            "broker with the program that started it, or set activemq_service to systemd",
        )
        return
    unit = node.unit or {}
    if unit.get("LoadState", "loaded") != "loaded":
        yield PairProblem(
            node.host, f"the service unit {node.unit_name} is {unit['LoadState']}: run the playbook site first"
        )
    main = unit.get("MainPID")
    if node.pid is not None and main is not None and main not in (str(node.pid), str(node.guard)):
        yield PairProblem(
            node.host,
            f"process {node.pid} was not started by {node.unit_name}, so systemd cannot restart it: "
            f"kill that process and run systemctl start {node.unit_name}",
            _BLINK,
        )


def _configuration(node: Node, _settle: float) -> Iterator[PairProblem]:
    if node.version is None or not node.complete:
        what = (
            f"activemq.fleet has installed no configuration below {node.base}"
            if node.version is None
            else f"the configuration of the broker below {node.base} is not complete"
        )
        yield PairProblem(node.host, f"{what}: run the playbook site first")
    if node.drift:
        more = f" and {len(node.drift) - 3} more" if len(node.drift) > 3 else ""
        yield PairProblem(
            node.host,
            f"{', '.join(node.drift[:3])}{more}: a restart would apply this change; add it to the inventory "
            "and run the playbook site, which overwrites the file",
        )
    if node.restart_required and node.previous_intact is False:
        yield PairProblem(
            node.host,
            f"the broker would start with a new configuration, but {node.previous or 'its current configuration'} is "
            f"incomplete below {node.base}/versions, so no rollback is possible: run the playbook site with the "
            "previous "
            "inventory, then with the current one",
        )


def _room(node: Node, _settle: float) -> Iterator[PairProblem]:
    for directory, free in sorted((node.free or {}).items()):
        if free < MIN_FREE_BYTES:
            yield PairProblem(
                node.host,
                f"{directory} has {free >> 20} MiB of free space, less than {MIN_FREE_BYTES >> 20} MiB, so "
                "the broker may not start again: free disk space",
            )


def _store(node: Node, settle: float) -> Iterator[PairProblem]:
    if not node.profile.shares_store_directory or node.store is None or node.pid is None:
        return
    if node.store_access:
        yield PairProblem(
            node.host,
            f"the account of the broker cannot lock the store {node.store} ({node.store_access}): correct the mount "
            "options of the shared directory, or the owner of the files in it",
            min(settle, HUNG),
        )
    elif node.store_marker is None:
        yield PairProblem(
            node.host,
            f"the store {node.store} has no marker, so the service unit would not start again: check that the share is "
            "mounted, then run the playbook site",
        )
    elif node.pair not in node.store_marker:
        named = (node.store_marker or ("nobody",))[0]
        yield PairProblem(
            node.host, f"{node.store} is the store of {named}, not of {node.pair}: mount the store of {node.pair}"
        )


def _release(node: Node) -> Iterator[PairProblem]:
    # A package of the system brings its release itself, and a restart is what then puts it in force.
    if not node.is_packaged and node.release and node.wanted and node.release != node.wanted:
        yield PairProblem(
            node.host,
            f"the broker runs {node.release}, but activemq_release is {node.wanted}, which requires an upgrade: "
            f"run the playbook upgrade, or set activemq_release to {node.release}",
        )


def _who_serves(nodes: Sequence[Node], settle: float) -> Iterator[PairProblem]:
    active = [node for node in nodes if node.is_serving]
    guarded = [node for node in nodes if node.guard]
    if guarded and (both := two_masters_message({node.host: node.generation_access for node in nodes})):
        text = f"{both}: stop the broker without clients immediately, and keep a copy of {guarded[0].store}"
        yield PairProblem(guarded[0].host, text, _BLINK)
    elif guarded and len(active) > 1:
        yield from _serves_from_an_old_generation(active)
    elif len(active) > 1:
        names = " and ".join(node.host for node in active)
        yield PairProblem(
            active[0].host,
            f"{names} are both active: they do not use the same lock; stop the broker without clients immediately, and "
            "check that both have the same store",
            _BLINK,
        )
    if not active and all(node.state == "standby" for node in nodes):
        yield PairProblem(
            nodes[0].host,
            f"no node is active, and {' and '.join(node.host for node in nodes)} wait for the lock, which another "
            f"process holds: find the process that has {nodes[0].store or 'the lease'} open",
            settle,
        )


def _serves_from_an_old_generation(active: Sequence[Node]) -> Iterator[PairProblem]:
    writers = writers_in_force({node.host: node.generation_access for node in active})
    newest = max((node.generation_in_force for node in active if node.generation_in_force is not None), default=None)
    for node in active:
        if node.host not in writers:
            yield PairProblem(
                node.host,
                f"the broker serves clients from generation {node.generation} of its store, but a takeover has "
                f"replaced it with generation {newest}. The guard (activemq_fence: guard) kills the "
                f"broker at its next check; if it does not, run systemctl kill --signal=KILL {node.unit_name}",
                HUNG,
            )


def _one_store(nodes: Sequence[Node]) -> Iterator[PairProblem]:
    marked = [node for node in nodes if node.profile.shares_store_directory and node.pair in (node.store_marker or ())]
    if len({node.store_marker for node in marked}) > 1:
        yield PairProblem(
            marked[1].host,
            f"the store in {marked[1].store} is not the store of {marked[0].host}: mount the same share on both nodes",
        )


def _clocks(nodes: Sequence[Node], window: float) -> Iterator[PairProblem]:
    known = [(node.clock, node.host) for node in nodes if node.clock is not None]
    if len(known) < 2 or not nodes[0].profile.has_database_lease:
        return
    (early, behind), (late, ahead) = min(known), max(known)
    if late - early - window > _SKEW:
        yield PairProblem(
            behind,
            f"the clock of {behind} is {late - early - window:.0f} s or more behind the clock of {ahead}, but a "
            "database lease requires equal clocks: synchronize the clocks of both hosts",
        )


_OF_NODES: tuple[Callable[[Node, float], Iterator[PairProblem]], ...] = (_runs, _is_ours, _configuration, _room, _store)
