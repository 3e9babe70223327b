"""Decide the next step of restart, upgrade and switchover: one node of a pair at a time.

The only input is evidence that was just collected, so the decision is made again before every step, and an operator
continues a run that was killed by starting it again. Invariants: a node is changed only while its pair has no problem:
the same evidence shows one active node, and one standby that waits for the lock. The standby goes first. One step
changes one node. Every act completes one more node, so the operation terminates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from activemq_fleet.errors import InputError
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.node.timeouts import SETTLE
from activemq_fleet.operations.operation_decisions import (
    Decision,
    OperationDecisionRequest,
    OperationStep,
    RefusalError,
    register_operation,
    seconds_of_next_wait,
)
from activemq_fleet.operations.pair_preconditions import ObservedNode, observe_node, unmet_pair_preconditions
from activemq_fleet.pair_state import nodes_by_pair


@dataclass(frozen=True, slots=True)
class RollingStep(OperationStep):
    """A step of a rolling operation, such as the restart of one node of a pair, or a wait.

    It is an action on one node of a pair, a wait, or the end. ``peer`` is the node that serves meanwhile, None for a
    single broker. ``was`` is the state of the host before. ``notes`` are warnings. ``accept``: the states of a host
    that end an act.
    """

    peer: str | None = None
    was: str = ""
    notes: tuple[str, ...] = ()
    accept: tuple[str, ...] = ("active", "standby")


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingProgress:
    """The progress of a rolling operation: the hosts to act on, the hosts done, and the seconds waited.

    ``chosen`` are the hosts that may be changed. ``done`` are the hosts that need no further change. ``acted`` are the
    hosts that were changed in the run; if such a host is not done, repeating the act would not help. ``waited`` are the
    seconds since the last act; ``window`` the seconds within which the evidence was collected. ``act`` is the name of
    the action on a node.
    """

    act: str
    chosen: Collection[str]
    done: Collection[str] = ()
    acted: Collection[str] = ()
    waited: float = 0.0
    window: float = 0.0
    settle: float = SETTLE

    def refusal_error(self, *problems: str) -> RefusalError:
        """Return the error that stops a rolling operation because of problems, such as a pair without a standby.

        It reports whether any host was changed.
        """
        return RefusalError("no further host is changed:" if self.acted else "nothing was changed:", problems)

    def wait_step_for_problem(self, problem: str) -> RollingStep:
        """Return a step of a rolling operation that waits for a problem to resolve.

        It waits 1 to 10 s; the pause grows with the time already waited.
        """
        seconds = seconds_of_next_wait(self.waited, shortest=1)
        return RollingStep("wait", f"the playbook waits {seconds} s and checks again: {problem}", seconds=seconds)


def was_started_since(node: ObservedNode, since: float, observed_at: float) -> bool:
    """Return whether a node's broker process was started after a point in time.

    ``since`` is in epoch seconds by the controller's clock. The age of a process is measured by a monotonic clock, from
    the moment before the evidence was collected. So a wrong clock of a host has no effect, and a slow host makes a
    process appear too old, never too young.
    """
    return node.age is not None and observed_at - node.age >= since


def next_rolling_step(
    nodes: Sequence[ObservedNode],
    run: RollingProgress,
    step_of: Callable[[Sequence[ObservedNode]], RollingStep | None],
    done: Callable[[Sequence[Sequence[ObservedNode]]], str],
) -> RollingStep:
    """Return the next step of a rolling operation, such as the restart of one node of a pair, or a wait.

    The pairs are not ``pure``; the step is ``wait`` while a problem may still resolve. Otherwise the step is the first
    one that ``step_of`` returns for a pair, or, if it returns none, ``done`` with the text that ``done`` returns for
    all pairs. Raises RefusalError for a lasting problem, and when no pair is left.
    """
    pairs_by_name = pairs_of_run(nodes, run)
    notes = tuple(
        f"pair {pair} is pure (activemq_ha: pure), so this playbook does not change it. Run the playbook resync instead"
        for pair, members in pairs_by_name.items()
        if members[0].ha_profile.needs_resync
    )
    pairs = [members for members in pairs_by_name.values() if not members[0].ha_profile.needs_resync]
    if notes and not pairs:
        raise RefusalError("nothing was changed:", notes)
    upgrade = run.act == "upgrade"
    problems = [
        problem
        for pair in pairs
        for problem in unmet_pair_preconditions(pair, window=run.window, settle=run.settle, upgrade=upgrade)
    ]
    if any(problem.patience <= run.waited for problem in problems):
        waited = f". The playbook waited {run.waited:.0f} s for this to change"
        raise run.refusal_error(
            *(f"{problem}{waited if 0 < problem.patience <= run.waited else ''}" for problem in problems)
        )
    if problems:
        return run.wait_step_for_problem("; ".join(map(str, problems)))
    step = next((step for pair in pairs if (step := step_of(pair))), None) or RollingStep("done", done(pairs))
    return replace(step, notes=notes)


def next_restart_step(nodes: Sequence[ObservedNode], run: RollingProgress) -> RollingStep:
    """Return the next step of a rolling restart: the restart of the broker of one node, a wait, or the end.

    The pairs are not ``pure`` (those are restarted by a resync).

    Raises RefusalError when a problem of any pair does not resolve without action.
    """
    nodes = [node for node in nodes if not node.ha_profile.needs_resync]
    if not nodes:
        return RollingStep(
            "done",
            "no broker is restarted in this step, because all selected pairs are pure (activemq_ha: pure). The "
            "playbook restarts their brokers in its next step, a resync",
        )

    def step_of(pair: Sequence[ObservedNode]) -> RollingStep | None:
        pending_nodes = [node for node in pair if node.host in run.chosen and node.host not in run.done]
        if not pending_nodes:
            return None
        node = first_node_to_restart_or_upgrade(pending_nodes)
        if node.host in run.acted:
            raise run.refusal_error(
                f"{node.host}: the {run.act} of this broker had no effect. Check {node.base}/data/activemq.log for the "
                "cause, and run the same command again"
            )
        return step_for_node(node, pair, run.act)

    def done(pairs: Sequence[Sequence[ObservedNode]]) -> str:
        chosen = [node.host for pair in pairs for node in pair if node.host in run.chosen]
        return (
            f"{run.act} is done on {count_with_noun(len(chosen), 'broker')}; active hosts: {join_active_hosts(pairs)}"
        )

    return next_rolling_step(nodes, run, step_of, done)


def next_switchover_step(
    nodes: Sequence[ObservedNode], nodes_to_activate: Mapping[str, str], run: RollingProgress
) -> RollingStep:
    """Return the next step of a switchover, in which standby nodes take over.

    ``nodes_to_activate`` are the hosts that take over, by pair; ``done`` where they are active already.
    """

    def step_of(pair: Sequence[ObservedNode]) -> RollingStep | None:
        if len(pair) == 1:
            return None
        new_active_host, active = nodes_to_activate[pair[0].pair], next(node for node in pair if node.is_serving)
        if active.host == new_active_host:
            return None
        if active.host in run.acted:
            raise run.refusal_error(
                f"{active.host}: this broker acquired the lock again before the broker of {new_active_host} did. Check "
                f"data/activemq.log of {new_active_host}, and run the playbook switchover again"
            )
        text = f"{new_active_host} takes over from {active.host}, which stops and starts again as the standby"
        return RollingStep(run.act, text, (active.host,), new_active_host, active.state)

    return next_rolling_step(
        [node for node in nodes if node.pair in nodes_to_activate],
        run,
        step_of,
        lambda pairs: f"the switchover is done; active hosts: {join_active_hosts(pairs)}",
    )


def pairs_of_run(nodes: Sequence[ObservedNode], run: RollingProgress) -> dict[str, list[ObservedNode]]:
    """Return the pairs and single brokers of which a rolling operation may change a node, in the order of their names.

    A name that selects one of two single brokers also selects the evidence of the other one, which does not matter.
    """
    pairs = sorted(nodes_by_pair(nodes).items())
    return {name: members for name, members in pairs if any(node.host in run.chosen for node in members)}


def first_node_to_restart_or_upgrade(nodes: Sequence[ObservedNode]) -> ObservedNode:
    """Return the node of a pair to restart or upgrade first.

    It is a standby before the active node, then the slave.
    """
    return min(nodes, key=lambda node: (node.is_serving, node.role != "slave", node.host))


def join_active_hosts(pairs: Sequence[Sequence[ObservedNode]]) -> str:
    """Return the host names of active nodes, joined by commas."""
    return ", ".join(node.host for pair in pairs for node in pair if node.is_serving)


def step_for_node(node: ObservedNode, pair: Sequence[ObservedNode], act: str) -> RollingStep:
    """Return the step in which a rolling operation changes one node of a pair, for example restarts its broker.

    The step's text names the node that serves meanwhile, if any.
    """
    peer = next((other for other in pair if other.host != node.host), None)
    if peer is None:
        message = (
            f"the playbook {act}s {node.host}. It is a single broker, so its clients wait until it is active again"
        )
    elif node.is_serving:
        message = f"the playbook {act}s the active broker {node.host}, and {peer.host} takes over ({peer.how})"
    else:
        serves = "serves clients" if peer.is_serving else f"is {peer.state}"
        message = f"the playbook {act}s {node.host}, which is {node.state}. {peer.host} {serves} ({peer.how})"
    return RollingStep(act, message, (node.host,), peer.host if peer else None, node.state)


@register_operation("restart")
def decide_restart_step(request: OperationDecisionRequest) -> Decision:
    """Return the next step of the playbook ``restart``, which restarts brokers in turn, as ``{"step": dictionary}``."""
    return request.show_notes_and_serialize_step(
        next_restart_step(*observed_nodes_and_rolling_progress(request, "restart"))
    )


@register_operation("switchover")
def decide_switchover_step(request: OperationDecisionRequest) -> Decision:
    """Return the next step of a switchover, in which the standby nodes of pairs take over.

    Raises InputError if the target is a host, not a pair.
    """
    if request.target["kind"] == "host":
        # An operator who names a host may mean that this host becomes active, but the preferred master would.
        raise InputError(
            f"activemq_target is the host {request.target['name']}, but a switchover applies to a pair. Set "
            "activemq_target to the pair, and set the host that must become active with -e activemq_to=HOST"
        )
    nodes, run = observed_nodes_and_rolling_progress(request, "switch")
    return request.show_notes_and_serialize_step(next_switchover_step(nodes, request.target["to"], run))


def observed_nodes_and_rolling_progress(
    request: OperationDecisionRequest, act: str, **more: Any
) -> tuple[list[ObservedNode], RollingProgress]:
    """Return the observed nodes of a rolling operation's pairs, and its progress so far, as (nodes, progress)."""
    options, target = request.options, request.target
    nodes = [observe_node(request.broker_facts_by_host[host], evidence) for host, evidence in request.evidence.items()]
    acted = request.progress.hosts_acted_on(act)
    since, observed_at = float(target["since_epoch"]), float(options["looked_at"])
    done = {node.host for node in nodes if not node.restart_required and was_started_since(node, since, observed_at)}
    run = RollingProgress(
        act=act,
        chosen=target["chosen"],
        acted=acted,
        waited=request.progress.waited,
        window=time.time() - observed_at,
        settle=float(options["settle"]),
        **{"done": done | acted, **more},
    )
    return nodes, run
