"""Decide the next step of a resync of pure pairs: stop both nodes, copy the store, start the master, then the slave.

The decision is a pure function of the evidence of both nodes, and is made again before every step. So an operator
continues a run that was killed at any point by starting it again; only the copy itself is kept between runs.

Invariants: no store is copied while a process of either node runs or holds its lock. The store that is kept is never
written to. The slave is started only when both stores have the same contents and its master waits for it. The stores
are compared again once both brokers have stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from activemq_fleet.errors import InputError
from activemq_fleet.naming import hosts_with_full_or_short_name
from activemq_fleet.node.judge import SERVING
from activemq_fleet.node.state.evidence import BrokerEvidence
from activemq_fleet.operations.operation_decisions import (
    Decision,
    OperationDecisionRequest,
    OperationStep,
    register_operation,
    seconds_of_next_wait,
)
from activemq_fleet.operations.resync_source_choice import (
    PurePairNodeStore,
    ResyncRefusedError,
    StoreChoice,
    choose_store_to_keep,
    store_difference_sentence,
)
from activemq_fleet.pair_remedies import two_pure_masters_remedy
from activemq_fleet.topology.named_hosts import only_host_with_name

_INACTIVE = ("", "inactive", "failed")
_SHORTEST_WAIT = 2
_PATIENCE = 300
_SPARE_BYTES = 64 << 20


@dataclass(frozen=True)
class PurePairNode:
    """A node of a pure pair, in which the master replicates its messages to the slave.

    It has its broker's state and its store. ``state`` is the state from ``broker_info``; ``unit`` is systemd's
    ActiveState, empty if the broker has no unit. ``phase`` is the phase that the log shows, ``age`` the age of the
    process in seconds. ``returned`` is whether a probe completed a round trip, None if none was tried. ``locked`` is
    whether a process holds the lock of the store. ``unfinished`` is true if moving a copied store into place was
    interrupted. ``obstacle`` is the reason why the store cannot be replaced.
    """

    store: PurePairNodeStore
    state: str
    unit: str = ""
    phase: str = ""
    returned: bool | None = None
    listening: bool = False
    age: float | None = None
    restart_required: bool = False
    locked: bool = False
    unfinished: bool = False
    obstacle: str = ""

    @classmethod
    def pure_pair_node_from_store(
        cls, store: PurePairNodeStore, broker: BrokerEvidence, store_info: Mapping[str, Any], needed_bytes: int = 0
    ) -> PurePairNode:
        """Return the node of a pure master/slave pair, from its message store and the facts observed of its broker.

        ``store_info`` is the result of this module; ``needed_bytes``: the size of the peer's store.
        """
        obstacle = store_info["obstacle"]
        if not obstacle and store_info["free"] < needed_bytes + _SPARE_BYTES:
            obstacle = (
                f"the file system of the store has {store_info['free'] >> 20} MiB free (including the "
                "space of interrupted copies), but the copy requires "
                f"{needed_bytes + _SPARE_BYTES >> 20} MiB. Free disk space"
            )
        return cls(
            store=store,
            state=broker.state,
            unit=(broker.unit or {}).get("ActiveState", ""),
            phase=str(broker.log["phase"]),
            returned=broker.message_returned,
            listening="replication" in broker.answering_connectors,
            age=broker.age,
            restart_required=broker.restart_required,
            locked=store_info["locked"],
            unfinished=store_info["unfinished"],
            obstacle=obstacle,
        )

    @property
    def host_name(self) -> str:
        """The name in the inventory of the host on which a node of a pure master/slave pair runs."""
        return self.store.host

    @property
    def is_down(self) -> bool:
        """Whether a node of a pure master/slave pair is down: it has no broker process.

        Systemd is not about to start one either.
        """
        return self.state == "stopped" and self.unit in _INACTIVE

    @property
    def is_master_waiting_for_slave(self) -> bool:
        """Whether a node is a master that waits for its slave.

        It has opened its store and accepts no clients yet.
        """
        return self.state == "starting" and self.phase == "starting"


@dataclass(frozen=True, slots=True)
class ResyncStep(OperationStep):
    """A step of a resync, which makes both message stores of a replicating (``pure``) pair of brokers equal.

    ``winner`` is the host whose store is kept, set with ``reasons`` where the stores differ. ``accept``: the states of
    a started host that end the act.
    """

    winner: str = ""
    accept: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


def next_resync_step(
    pairs: Mapping[str, Sequence[PurePairNode]],
    *,
    chosen: str = "",
    restart_older: float | None = None,
    waited: float = 0.0,
) -> ResyncStep:
    """Return the next step of a resync, which makes both message stores of a replicating pair of brokers equal.

    The pairs have ``activemq_ha: pure``. They are (master, slave), and are done one after the other, by name.
    ``chosen`` is the host of ``activemq_resync_from``, ``waited`` the seconds since the last act. Brokers whose process
    is older than ``restart_older`` seconds are restarted; with None no healthy broker is restarted. Raises
    ResyncRefusedError with what to check, and InputError if ``chosen`` is not a node of the only pair.
    """
    if not pairs:
        raise InputError(
            "no selected pair is pure (activemq_ha: pure), but only pure pairs require a resync. Set "
            "activemq_target to a pure pair"
        )
    winner = _chosen_host(pairs, chosen) if chosen else None
    summaries = []
    for name in sorted(pairs):
        master, slave = pairs[name]
        step = _next_pair_step(name, master, slave, winner, restart_older)
        if step.act == "wait" and waited > _PATIENCE:
            raise ResyncRefusedError(
                f"pair {name}: the resync waited {waited:g} s and stopped ({step.say}). Check "
                "data/activemq.log of both nodes, and run the playbook resync again"
            )
        if step.act == "wait":
            return replace(step, seconds=seconds_of_next_wait(waited, shortest=_SHORTEST_WAIT))
        if step.act != "done":
            return step
        summaries.append(step.say)
    return ResyncStep("done", "; ".join(summaries))


def _chosen_host(pairs: Mapping[str, Sequence[PurePairNode]], chosen: str) -> str:
    hosts = [node.host_name for nodes in pairs.values() for node in nodes]
    matching_hosts = hosts_with_full_or_short_name(chosen, hosts)
    if len(pairs) != 1:
        raise InputError(
            f"activemq_resync_from applies to one pair, but {len(pairs)} pairs are selected. Set activemq_target to "
            "one pair"
        )
    if not matching_hosts:
        raise InputError(
            f"activemq_resync_from is {chosen}, which is not a node of the selected pair. Set activemq_resync_from to "
            f"one of {', '.join(hosts)}"
        )
    return only_host_with_name(chosen, matching_hosts, "activemq_resync_from")


def _next_pair_step(
    pair: str, master: PurePairNode, slave: PurePairNode, chosen: str | None, restart_older: float | None
) -> ResyncStep:
    nodes = (master, slave)
    if healthy_step := _healthy_pair_step(pair, master, slave, restart_older):
        return healthy_step
    for node in nodes:
        if node.unfinished and node.is_down:
            return ResyncStep("finish", f"{node.host_name}: the playbook installs the copied store", (node.host_name,))
    if starting_step := _starting_pair_step(master, slave):
        return starting_step
    choice = _choose_store(pair, master, slave, chosen)
    if not master.is_down or not slave.is_down:
        return _stop_step(master, slave, choice)
    for node in nodes:
        if node.locked:
            raise ResyncRefusedError(
                f"{node.host_name}: the broker is stopped, but another process holds the lock of its store. Find this "
                "process with fuser on the file named lock in the store directory, and stop the process"
            )
    if choice.equal:
        text = f"{master.host_name}: the playbook starts the master, because {choice.reasons[0]}"
        return ResyncStep("start", text, (master.host_name,), accept=("starting",), winner=choice.winner)
    loser = slave if choice.winner == master.host_name else master
    text = f"the playbook copies the store of {choice.winner} to {loser.host_name}: {'; '.join(choice.reasons)}"
    return ResyncStep("copy", text, (choice.winner, loser.host_name), winner=choice.winner, reasons=choice.reasons)


def _healthy_pair_step(
    pair: str, master: PurePairNode, slave: PurePairNode, restart_older: float | None
) -> ResyncStep | None:
    """Return the step of a pair that needs at most a restart; None for a pair that needs a resync."""
    if master.state not in SERVING or slave.state != "standby" or slave.phase != "attached":
        return None
    if master.returned is False:
        return ResyncStep("wait", f"{master.host_name}: no message has completed a round trip through the broker yet")
    nodes_to_restart = [
        node
        for node in (master, slave)
        if node.restart_required or (restart_older is not None and node.age is not None and node.age > restart_older)
    ]
    if nodes_to_restart:
        reason = f"{' and '.join(node.host_name for node in nodes_to_restart)} must be restarted"
        return ResyncStep(
            "stop", f"{slave.host_name}: the playbook stops the slave first, because {reason}", (slave.host_name,)
        )
    if store_difference_sentence(master.store, slave.store):
        return None
    return ResyncStep(
        "done", f"pair {pair} requires no change: {master.host_name} has started, and {slave.host_name} is attached"
    )


def _starting_pair_step(master: PurePairNode, slave: PurePairNode) -> ResyncStep | None:
    """Return the step of a pair that is starting with equal stores; None for any other pair."""
    attached = slave.state == "standby" and slave.phase == "attached"
    if attached and master.state == "starting":
        return ResyncStep(
            "wait", f"{master.host_name}: the master has not started yet, although {slave.host_name} is attached"
        )
    if not master.is_master_waiting_for_slave or slave.locked or master.store.state != slave.store.state:
        return None
    if not master.listening:
        return ResyncStep("wait", f"{master.host_name}: the master does not listen for its slave yet")
    if slave.is_down:
        text = (
            f"{slave.host_name}: the playbook starts the slave: {master.host_name} waits for it, and both stores are "
            "equal"
        )
        return ResyncStep("start", text, (slave.host_name,), accept=("standby",))
    if slave.state in ("starting", "stopped"):
        return ResyncStep("wait", f"{slave.host_name}: the slave has not connected to {master.host_name} yet")
    return None


def _choose_store(pair: str, master: PurePairNode, slave: PurePairNode, chosen: str | None) -> StoreChoice:
    if chosen is None and master.state in SERVING and slave.state in SERVING:
        raise ResyncRefusedError(
            f"{master.host_name} and {slave.host_name}: both brokers serve clients, and each has messages that the "
            f"other does not have. To keep all messages, {two_pure_masters_remedy(pair)}"
        )
    choice = choose_store_to_keep(master.store, slave.store, chosen)
    loser = slave if choice.winner == master.host_name else master
    if not choice.equal and loser.obstacle:
        raise ResyncRefusedError(
            f"{loser.host_name}: nothing was changed, because the store of this host cannot be replaced. Correct this "
            f"problem: {loser.obstacle}"
        )
    return choice


def _stop_step(master: PurePairNode, slave: PurePairNode, choice: StoreChoice) -> ResyncStep:
    """Stop the node whose store is overwritten first; a slave that loses its master would begin to serve."""
    order = (slave, master) if choice.winner == master.host_name else (master, slave)
    host = next(node.host_name for node in order if not node.is_down)
    reason = "both stores have the same contents" if choice.equal else f"{choice.winner} has the newer store"
    if not choice.equal and (details := store_difference_sentence(master.store, slave.store)):
        reason += f" ({details})"
    return ResyncStep("stop", f"{host}: the playbook stops the broker, because {reason}", (host,), winner=choice.winner)


@register_operation("resync")
def decide_resync_step(request: OperationDecisionRequest) -> Decision:
    """Return the next step of a resync, which makes both stores of a pure pair equal, as ``{"step": dictionary}``.

    The pairs are those of the target that have ``activemq_ha: pure``, which replicates. ``options``: ``stores`` by
    host, ``chosen``, ``restart``, ``check``, ``looked_at``.
    """
    brokers, options, target = request.broker_facts_by_host, request.options, request.target
    pure, others = {}, []
    for pair, hosts in target["pairs"].items():
        if not brokers[hosts[0]].needs_resync:
            others.append(pair)
        elif len(hosts) == 2:
            pure[pair] = (
                _observed_pair_node(request, hosts[0], hosts[1]),
                _observed_pair_node(request, hosts[1], hosts[0]),
            )
        else:
            raise InputError(
                f"pair {pair} has only the node {hosts[0]}, but a pair with activemq_ha: pure requires two nodes. Add "
                "the second node to the inventory"
            )
    # In the playbook restart, an earlier step has restarted the other pairs.
    if pure and others and not options["restart"] and not request.progress.hosts_acted_on():
        request.warn(
            f"the resync skips the pairs {', '.join(others)}, because only pure pairs (activemq_ha: pure) require it"
        )
    older = float(options["looked_at"]) - target["since_epoch"]
    step = next_resync_step(
        pure,
        chosen=options["chosen"],
        restart_older=older if options["restart"] else None,
        waited=request.progress.waited,
    )
    if options["check"] and step.act != "done":
        return {"step": {"act": "done", "hosts": [], "say": f"nothing was changed; the next step would be: {step.say}"}}
    return request.show_notes_and_serialize_step(step)


def _observed_pair_node(request: OperationDecisionRequest, host: str, peer: str) -> PurePairNode:
    broker, stores = request.broker_facts_by_host[host], request.options["stores"]
    if broker.service != "systemd":
        raise InputError(
            f"{host}: activemq_service is {broker.service}, but the playbook resync can stop and start only brokers "
            "that systemd runs. Set activemq_service to systemd, or set activemq_target to another pair"
        )
    store = PurePairNodeStore.node_store_from_store_info(host, broker.role, stores[host])
    return PurePairNode.pure_pair_node_from_store(
        store, request.evidence[host], stores[host], stores[peer]["allocated"]
    )
