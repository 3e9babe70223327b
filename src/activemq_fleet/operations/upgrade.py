"""Decide the next step of an upgrade: the standby, then a switchover, then the node that was active.

The active node never changes its release: it stops with its old release, and its peer takes over with the new release
and must become active. If the peer fails, the old node serves again. The invariants of ``rolling`` apply. In addition,
the whole target is checked before the first change, and again before every step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields

from activemq_fleet.deployment import StoreFacts
from activemq_fleet.errors import ReleaseError, names_to_text
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.node.state.evidence import BrokerEvidence
from activemq_fleet.operations.operation_decisions import Decision, OperationDecisionRequest, register_operation
from activemq_fleet.operations.pair_preconditions import ObservedNode
from activemq_fleet.operations.release_changes import (
    ReleaseChangeEffects,
    release_change_effects,
    store_downgrade_possibility,
)
from activemq_fleet.operations.restart_and_switchover import (
    RollingProgress,
    RollingStep,
    first_node_to_restart_or_upgrade,
    join_active_hosts,
    next_rolling_step,
    observed_nodes_and_rolling_progress,
    pairs_of_run,
)
from activemq_fleet.pair_state import PairState, pair_or_host
from activemq_fleet.releases import Release

_MAX_SWITCHOVERS = 3  # Number of switchovers. The stopped broker may acquire the lock again before its peer does.


@dataclass(frozen=True, slots=True)
class StoreBeforeAndAfterUpgrade:
    """The message store of a broker before an upgrade (``now``) and after it (``then``).

    ``install`` is how the release was installed.
    """

    now: StoreFacts = field(default_factory=StoreFacts)
    then: StoreFacts = field(default_factory=StoreFacts)
    install: str = "archive"


def upgrade_effects_by_pair(
    nodes: Sequence[ObservedNode], stores: Mapping[str, StoreBeforeAndAfterUpgrade], run: RollingProgress
) -> dict[str, ReleaseChangeEffects]:
    """Return what an upgrade changes for each pair or single broker, and how to roll back, as a dictionary by name.

    A pair without an active broker cannot be judged and is left out: it is waited for or refused
    elsewhere. Raises RefusalError with one line for each pair or host that cannot be upgraded.
    """
    effects_by_pair: dict[str, ReleaseChangeEffects] = {}
    refusals: list[str] = []
    for name, pair in pairs_of_run(nodes, run).items():
        active = PairState(pair).serving
        lines = list(_upgrade_obstacles(pair, stores, run))
        if not lines and len(active) == 1 and any(node.release not in (None, node.wanted) for node in pair):
            try:
                effects_by_pair[name] = _release_change(pair, active[0], stores[active[0].host])
                lines = [effects_by_pair[name].refusal] if effects_by_pair[name].refusal else []
            except ReleaseError:
                releases = names_to_text(sorted({node.release for node in pair if node.release}))
                lines = [
                    f"the pair runs a release that this version of activemq-fleet does not know ({releases}). "
                    "Upgrade activemq-fleet, or install a known release on the host by hand"
                ]
            lines = [f"{active[0].host}: {line}" for line in lines]
        refusals += lines
    if refusals:
        raise run.refusal_error(*refusals)
    return effects_by_pair


def pair_health_step_before_upgrade(nodes: Sequence[ObservedNode], run: RollingProgress) -> RollingStep:
    """Return the step ``wait`` as long as a pair is not healthy enough for an upgrade, otherwise the step ``done``.

    The function is called before anything is installed, after ``upgrade_effects_by_pair`` has refused no pair. Raises
    RefusalError for a problem that does not resolve.
    """
    return next_rolling_step(
        nodes, run, lambda _pair: None, lambda pairs: f"{_brokers_checked(pairs)}: nothing prevents the upgrade"
    )


def next_upgrade_step(
    nodes: Sequence[ObservedNode],
    stores: Mapping[str, StoreBeforeAndAfterUpgrade],
    run: RollingProgress,
    switched: Mapping[str, int] | None = None,
) -> RollingStep:
    """Return the next step of an upgrade to another ActiveMQ release, decided from the observed nodes and stores.

    ``switched`` counts the switchovers of each host in the run. ``act`` is ``upgrade`` (the host gets the inventory's
    release) or ``switch`` (the host stops, ``peer`` takes over, and the host starts again with its old release). Raises
    RefusalError for a change of release that is refused, and for a problem that does not resolve.
    """
    effects_by_pair = upgrade_effects_by_pair(nodes, stores, run)
    return next_rolling_step(
        nodes,
        run,
        lambda pair: _next_pair_step(pair, effects_by_pair.get(pair_or_host(pair[0])), run, switched or {}),
        lambda pairs: f"{_brokers_checked(pairs)}: all run activemq_release; active hosts: {join_active_hosts(pairs)}",
    )


def _brokers_checked(pairs: Sequence[Sequence[ObservedNode]]) -> str:
    return f"{count_with_noun(sum(map(len, pairs)), 'broker')} checked"


def may_roll_back(host: str, nodes: Sequence[ObservedNode], stores: Mapping[str, StoreBeforeAndAfterUpgrade]) -> bool:
    """Return whether the broker of a host may roll back to its old release during an upgrade.

    This applies if the new release does not start. It may while its peer runs the old release, because then no broker
    has opened the store with the new release, whatever kind of store it is. It may not when its peer has the store open
    as a release whose store the old one cannot read: it would be a standby that cannot take over, or takes over without
    the messages. A broker without a peer may have opened the store itself before it failed.
    """
    node = next(node for node in nodes if node.host == host)
    peer = next((other for other in nodes if pair_or_host(other) == pair_or_host(node) and other.host != host), None)
    if peer is not None and peer.release == node.release:
        return True
    opener = node.wanted if peer is None else peer.release
    store_change = stores[host]
    return (
        store_downgrade_possibility(
            Release.of(node.release or ""), Release.of(opener or ""), store_change.now, store_change.then
        )
        != "closed"
    )


def _next_pair_step(
    pair: Sequence[ObservedNode],
    effects: ReleaseChangeEffects | None,
    run: RollingProgress,
    switched: Mapping[str, int],
) -> RollingStep | None:
    pending_nodes = [node for node in pair if node.release != node.wanted]
    if not pending_nodes:
        return None
    node = first_node_to_restart_or_upgrade(pending_nodes)
    peer = next((other for other in pair if other.host != node.host), None)
    if node.is_serving and peer is not None:
        if switched.get(node.host, 0) >= _MAX_SWITCHOVERS:
            raise run.refusal_error(
                f"{node.host}: the pair did not fail over to {peer.host}. The playbook stopped the broker of "
                f"{node.host} {_MAX_SWITCHOVERS} times, but each time this broker acquired the lock again before the "
                f"broker of {peer.host} did. Check {peer.base}/data/activemq.log on {peer.host}, and run the playbook "
                "upgrade again"
            )
        closing = ": after this step no rollback is possible" if effects and effects.back == "closed" else ""
        message = f"{peer.host} takes over from {node.host} and opens the store with {peer.release}{closing}"
        return RollingStep("switch", message, (node.host,), peer.host, node.state)
    if node.host in run.acted:
        raise run.refusal_error(
            f"{node.host}: this run has upgraded the broker, but it still runs {node.release}. Check "
            f"{node.base}/data/activemq.log, and run the playbook upgrade again"
        )
    reason = (
        f"it is the standby, and {peer.host} serves clients"
        if peer
        else "it is a single broker, so its clients wait until it is active again"
    )
    message = f"the playbook upgrades {node.host} from {node.release} to {node.wanted}: {reason}"
    return RollingStep("upgrade", message, (node.host,), peer.host if peer else None, node.state)


def _upgrade_obstacles(
    pair: Sequence[ObservedNode], stores: Mapping[str, StoreBeforeAndAfterUpgrade], run: RollingProgress
) -> Iterator[str]:
    """Yield the reasons that prevent any upgrade of a pair, whatever its releases are."""
    running = [node for node in pair if node.pid is not None]
    left_out = [node.host for node in pair if node.host not in run.chosen]
    if left_out:
        yield (
            f"pair {pair[0].pair}: both nodes of a pair must run the same release, but {', '.join(left_out)} would "
            f"keep its release. Select both nodes with -e activemq_target={pair[0].pair}"
        )
    for node in pair:
        if node.release == node.wanted:
            continue
        if stores[node.host].install == "package":
            yield (
                f"{node.host}: the playbook upgrade does not upgrade packages of the operating system "
                "(activemq_install: package). Upgrade the package on the standby, and run the playbook restart. "
                "Then do the same on the other node"
            )
    for node in running:
        # A broker that was just started has not opened its store yet; another check waits for it.
        if node.release is None and (node.is_serving or node.state == "standby"):
            yield (
                f"{node.host}: the release that process {node.pid} of the broker runs is not known, because "
                "no jar of ActiveMQ with a release was found among its open files. List them with ls -l "
                f"/proc/{node.pid}/fd. If the jars of ActiveMQ were renamed, restore their names, and restart the "
                "broker. Then run the playbook upgrade again"
            )
    if len({node.wanted for node in pair}) > 1:
        releases_text = ", ".join(f"{node.host} {node.wanted}" for node in pair)
        yield (
            f"pair {pair[0].pair}: activemq_release differs within the pair ({releases_text}). Set activemq_release "
            "once, for the pair or the group"
        )
    others = {node.release for node in running if node.release and node.release != node.wanted}
    if len(others) > 1:
        releases_text = ", ".join(f"{node.host} {node.release}" for node in running)
        yield (
            f"pair {pair[0].pair}: the nodes run two releases ({releases_text}), and neither of them is "
            f"activemq_release ({pair[0].wanted}). Set activemq_release to the release of the active node, and run the "
            f"playbook upgrade. Then upgrade to {pair[0].wanted}"
        )


def _release_change(
    pair: Sequence[ObservedNode], active: ObservedNode, stores: StoreBeforeAndAfterUpgrade
) -> ReleaseChangeEffects:
    """Return the release change of a pair without obstacles (``_upgrade_obstacles``): at most one release differs."""
    other = next(node.release for node in pair if node.release not in (None, node.wanted))
    old_release, new_release, holder = (Release.of(text or "") for text in (other, active.wanted, active.release))
    return release_change_effects(old_release, new_release, stores.now, stores.then, holder=holder)


@register_operation("jumps", has_table=False)
def report_upgrade_effects_by_pair(request: OperationDecisionRequest) -> Decision:
    """Return, as a dictionary, what an ActiveMQ upgrade changes for each pair, such as the required Java version.

    The result also has a step, which waits while a pair has a problem.
    """
    nodes, stores, run = _read_upgrade(request)
    effects_by_pair = upgrade_effects_by_pair(nodes, stores, run)
    return {
        **request.show_notes_and_serialize_step(pair_health_step_before_upgrade(nodes, run)),
        "jumps": {pair: effects.to_dict() for pair, effects in effects_by_pair.items()},
    }


@register_operation("upgrade")
def decide_upgrade_step(request: OperationDecisionRequest) -> Decision:
    """Return the next step of the playbook ``upgrade``, such as an upgrade of one host, as ``{"step": dictionary}``.

    ``put_back`` in the step is whether the host may be rolled back when the new release does not start.
    """
    nodes, stores, run = _read_upgrade(request)
    switched = {host: record.acted.count("switch") for host, record in request.progress.hosts.items()}
    step = next_upgrade_step(nodes, stores, run, switched)
    can_roll_back = step.act != "upgrade" or may_roll_back(step.hosts[0], nodes, stores)
    return {"step": {**request.show_notes_and_serialize_step(step)["step"], "put_back": can_roll_back}}


def _running_store(evidence: BrokerEvidence) -> StoreFacts:
    names = {attribute.name for attribute in fields(StoreFacts)}
    settings = {name: setting for name, setting in evidence.persistence.items() if name in names}
    return StoreFacts(**{"kind": None, **settings, "directory": evidence.store})


def _read_upgrade(
    request: OperationDecisionRequest,
) -> tuple[list[ObservedNode], dict[str, StoreBeforeAndAfterUpgrade], RollingProgress]:
    nodes, run = observed_nodes_and_rolling_progress(request, "upgrade", done=set())
    stores = {
        host: StoreBeforeAndAfterUpgrade(
            now=_running_store(evidence),
            then=broker.persistence or StoreFacts(kind=None),
            install=broker.install,
        )
        for host, evidence in request.evidence.items()
        for broker in (request.broker_facts_by_host[host],)
    }
    return nodes, stores, run
