"""Decide which pairs of a drill get a fault, in which order, and the drill's next step; pure functions.

A group is drilled only if the variable ``activemq_drill_allowed`` of its hosts is true. Only the currently active
node of a pair gets a fault, and only while every pair of the drill has one active node and one standby.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from activemq_fleet.errors import InputError
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.node.timeouts import SETTLE
from activemq_fleet.operations.operation_decisions import (
    Decision,
    OperationDecisionRequest,
    OperationStep,
    register_operation,
)
from activemq_fleet.operations.pair_preconditions import observe_node
from activemq_fleet.pair_state import PairState, nodes_by_pair
from activemq_fleet.topology import Fleet, Pair

ALLOWED_VARIABLE = "activemq_drill_allowed"
_CHECK_PAUSE = 3  # Seconds between two checks of a state that may resolve without action.


@dataclass(frozen=True, slots=True)
class DrillStep(OperationStep):
    """A step of a drill, which is a test with injected faults.

    It injects a fault, starts or resumes a broker, waits, or is ``done``. ``pair`` is the pair of the host that the
    step changes, ``peer`` the other node of that pair.
    """

    peer: str | None = None
    pair: str | None = None


def is_drill_allowed(value: Any) -> bool:
    """Return whether a value of the variable ``activemq_drill_allowed`` allows drills (tests with injected faults).

    From a command line the value comes as text.
    """
    return value is True or str(value).strip().lower() in ("true", "yes", "1", "on")


def raise_for_groups_that_forbid_drills(groups: Mapping[str, Any]) -> None:
    """Raise InputError if a group of brokers forbids drills (failover tests with injected faults).

    ``groups`` maps names to their ``activemq_drill_allowed``.
    """
    closed = sorted(name for name, value in groups.items() if not is_drill_allowed(value))
    if closed:
        raise InputError(
            f"the drill is not allowed for group {', '.join(closed)}, because a drill kills brokers while clients use "
            f"them. Set {ALLOWED_VARIABLE}: true for a test group, or allow this run with -e {ALLOWED_VARIABLE}=true"
        )


def choose_pair_names_for_faults(
    fleet: Fleet, pairs: Sequence[Pair], faults: int, seed: int, fault_kind: str = "kill", *, resync: bool = False
) -> tuple[str, ...]:
    """Return the name of the broker pair that gets each fault of a drill (a test with faults), in order of the faults.

    Each pair is chosen once before any pair twice. ``seed`` decides the order. Unless a ``resync`` follows each fault,
    a pure pair gets at most one fault, and one pure pair of each group gets none, because clients need a master. Raises
    InputError where no pair can be drilled, or fewer faults are possible than wanted.
    """
    refused = {pair.name: drill_refusal_reason(fleet, pair, fault_kind) for pair in pairs}
    eligible = [pair for pair in pairs if refused[pair.name] is None]
    if not eligible:
        reasons = "; ".join(filter(None, refused.values())) or "no pair is selected"
        raise InputError(
            f"the drill cannot start, because it cannot inject the fault {fault_kind} into any selected pair: "
            f"{reasons}. Select other pairs (--target or activemq_target), or another fault (--what or "
            "activemq_drill_what)"
        )
    generator = random.Random(seed)  # noqa: S311 -- a reproducible order, no secret
    if not resync and all(pair.ha_profile.needs_resync for pair in eligible):
        return _order_without_repeats(eligible, faults, generator)
    names = [pair.name for pair in eligible if resync or not pair.ha_profile.needs_resync]
    order: list[str] = []
    while len(order) < faults:
        round_names = names.copy()
        generator.shuffle(round_names)
        if order and len(round_names) > 1 and round_names[0] == order[-1]:
            round_names.append(round_names.pop(0))
        order += round_names
    return tuple(order[:faults])


def _order_without_repeats(eligible: Sequence[Pair], faults: int, generator: random.Random) -> tuple[str, ...]:
    by_group: dict[str, list[str]] = {}
    for pair in eligible:
        by_group.setdefault(pair.group, []).append(pair.name)
    order: list[str] = []
    for names in by_group.values():
        generator.shuffle(names)
        order += names[: max(1, len(names) - 1)]
    generator.shuffle(order)
    if faults > len(order):
        raise InputError(
            f"--kills {faults}: the selected pairs allow at most {count_with_noun(len(order), 'fault')}. The drill "
            "injects at most one fault into a pure pair (activemq_ha: pure), and spares one pair of each group, which "
            "continues to serve the clients. Set a smaller --kills, or a --target with more pairs"
        )
    return tuple(order[:faults])


def drill_refusal_reason(fleet: Fleet, pair: Pair, fault_kind: str) -> str | None:
    """Return the reason why a drill (a test with injected faults) of a pair is refused, as a sentence, or None."""
    if len(pair.brokers) < 2 or not pair.ha_profile.has_peer:
        return f"pair {pair.name} has no second node that could take over"
    if pair.ha_profile.needs_resync and fault_kind not in ("kill", "crash"):
        return (
            f"pair {pair.name} is pure (activemq_ha: pure), and supports only the faults kill and crash, "
            f"not {fault_kind}"
        )
    if pair.ha_profile.replicates and sum(other.group == pair.group for other in fleet.pairs_by_name.values()) < 2:
        return (
            f"pair {pair.name} is the only pair of its group, and is pure (activemq_ha: pure). After a failover, the "
            "slave of a pure pair opens no port for clients, so the clients would have no broker"
        )
    return None


def next_drill_step(
    states: Mapping[str, Mapping[str, str]],
    next_pair: str | None,
    faulted_hosts: Collection[str] = (),
    *,
    waited: float = 0.0,
    settle: float = SETTLE,
) -> DrillStep:
    """Return the next step of a drill, which is a test with injected faults.

    ``states`` holds the state of each node, by pair. ``next_pair`` is the pair of the next fault, None after the last.
    A fault is injected only when every pair is healthy: one active node and one standby. The drill changes an unhealthy
    node only if it injected a fault there (``faulted_hosts``). ``waited``: seconds since the last act; a pair that is
    still unhealthy after ``settle`` seconds ends the drill. Raises InputError for a pair that stays unhealthy.
    """
    for pair, nodes in states.items():
        step = _healing_step(pair, nodes, faulted_hosts)
        if step is not None and step.act == "wait" and waited >= settle:
            raise InputError(
                f"the drill injects no further fault, because {step.say}. Check data/activemq.log of both nodes of "
                f"pair {pair}, and start the drill again when one of them is active and the other one is standby"
            )
        if step is not None:
            return step
    if next_pair is None:
        return DrillStep("done", "the drill has injected every fault, and every pair is healthy")
    active, peer = sorted(states[next_pair], key=lambda host: states[next_pair][host] != "active")
    text = f"the drill injects the next fault on host {active}, which is active; host {peer} is standby"
    return DrillStep("inject", text, (active,), peer, next_pair)


def _healing_step(pair: str, nodes: Mapping[str, str], faulted: Collection[str]) -> DrillStep | None:
    if sorted(nodes.values()) == ["active", "standby"]:
        return None
    text = f"pair {pair} is not healthy: " + ", ".join(f"host {host} is {state}" for host, state in nodes.items())
    for host, state in nodes.items():
        act = {"hung": "resume", "stopped": "start"}.get(state)
        if act and host in faulted:
            return DrillStep(act, text, (host,), next((other for other in nodes if other != host), None), pair)
    return DrillStep("wait", text, pair=pair, seconds=_CHECK_PAUSE)


@register_operation("drill")
def decide_drill_step(request: OperationDecisionRequest) -> Decision:
    """Return the next step of the playbook ``drill``, a test with injected faults, as ``{"step": dictionary}``.

    ``options``: the pair whose fault is ``due``, and the ``faulted`` hosts.
    """
    options = request.options
    nodes = [observe_node(request.broker_facts_by_host[host], evidence) for host, evidence in request.evidence.items()]
    pairs = nodes_by_pair(nodes)
    for pair, members in pairs.items():
        if two_masters := PairState(members).two_masters:
            unit = min(members, key=lambda node: node.host).unit_name
            raise InputError(
                f"pair {pair} has two masters ({two_masters}), which can damage its store. Immediately stop the broker "
                f"with fewer client connections (systemctl stop {unit} on its host). Copy the store before you start "
                "this broker again"
            )
    states = {pair: {node.host: node.state for node in members} for pair, members in pairs.items()}
    waited, settle = request.progress.waited, float(options["settle"])
    return request.show_notes_and_serialize_step(
        next_drill_step(states, options["due"], options["faulted"], waited=waited, settle=settle)
    )
