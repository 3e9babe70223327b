"""Which brokers ``site`` starts and restarts, and in which order.

Invariants: one node of a pair at a time; the node that serves is touched last, whatever its
preferred role; a pure pair is started only when neither of its stores was ever used, and never
restarted, because which of its two stores is the newer one must be known first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from activemq_fleet.host.judge import BrokerState
from activemq_fleet.operations.requests import Decision, Request, operation
from activemq_fleet.operations.table import outcome_table
from activemq_fleet.printable import counted
from activemq_fleet.profiles import PROFILES

Act = Literal["start", "restart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was found on one host. ``role`` is the preferred one; ``store_used`` None: not known."""

    host: str
    pair: str
    role: str
    ha: str
    state: BrokerState
    how: str = ""
    restart_required: bool = False
    store_used: bool | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One act on one host.

    ``accept`` are the states that end it. With ``port_only`` it ends when the replication port
    listens: a pure master is ready only once its slave is attached.
    """

    host: str
    act: Act
    accept: tuple[BrokerState, ...] = ("active", "standby")
    port_only: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As playbooks read it."""
        return asdict(self) | {"accept": list(self.accept)}


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order; ``notes`` say what is left to somebody else, one line each."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()


def plan_roll(looks: Iterable[Look]) -> Plan:
    """Steps for all pairs: pair after pair by name, so that a bad change hurts one pair only."""
    pairs: dict[str, list[Look]] = defaultdict(list)
    for look in looks:
        pairs[look.pair].append(look)
    plans = [_plan_pair(pairs[name]) for name in sorted(pairs)]
    return Plan(
        tuple(step for plan in plans for step in plan.steps), tuple(note for plan in plans for note in plan.notes)
    )


def _plan_pair(nodes: Sequence[Look]) -> Plan:
    nodes = sorted(nodes, key=lambda look: (look.role != "master", look.host))
    return _plan_pure(nodes) if PROFILES[nodes[0].ha].needs_resync else _plan_shared(nodes)


def _plan_pure(nodes: Sequence[Look]) -> Plan:
    new = [look.state == "stopped" and look.store_used is not True for look in nodes]
    if all(new) and len(nodes) == 2:
        master, slave = nodes
        return Plan((Step(master.host, "start", ("active", "starting"), port_only=True), Step(slave.host, "start")))
    notes = []
    for look in nodes:
        if look.state == "stopped":
            notes.append(f"{look.host} is stopped: a pure pair comes back by the playbook resync only")
        elif look.restart_required:
            notes.append(
                f"{look.host} has yet to read its new configuration: a pure broker is not restarted, "
                "the playbook resync does it"
            )
    return Plan((), tuple(notes))


def _plan_shared(nodes: Sequence[Look]) -> Plan:
    """Stopped nodes first: they become the standby that lets the active one go."""
    active = [look for look in nodes if look.state == "active"]
    starts = [Step(look.host, "start") for look in nodes if look.state == "stopped"]
    owed = [look for look in nodes if look.restart_required and look.state != "stopped"]
    restarts = [Step(look.host, "restart") for look in owed if look not in active]
    restarts += [Step(look.host, "restart") for look in owed if look in active]
    notes = [
        f"{look.host} is {look.state} ({look.how}) and is left alone: nothing of its configuration changed"
        for look in nodes
        if look.state == "hung" and not look.restart_required
    ]
    return Plan((*starts, *restarts), tuple(notes))


@operation("roll")
def decide_roll(request: Request) -> Decision:
    """Return the order of starts and restarts of ``site``, with the step of each host."""
    evidence = dict(request.evidence)
    # In check mode the hosts cannot know what the files that were not installed would need.
    owing = {host for host, result in request.configured.items() if result["restart_required"]}
    for host in owing & evidence.keys():
        evidence[host] = {**evidence[host], "restart_required": True}
    looks = [
        Look(
            host=host,
            **{key: request.brokers[host][key] for key in ("pair", "role", "ha")},
            **{key: found[key] for key in ("state", "how", "restart_required", "store_used")},
        )
        for host, found in evidence.items()
    ]
    plan = plan_roll(looks)
    for note in plan.notes:
        request.warn(note)
    return {
        "order": [step.host for step in plan.steps],
        "steps": {step.host: step.to_dict() for step in plan.steps},
        "notes": list(plan.notes),
    }


@operation("outcome")
def decide_outcome(request: Request) -> Decision:
    """Return the table of ``site``; ``evidence`` is that from before the first start.

    ``options``: ``after``, by host the results of later looks, the last first; ``rolled``, the hosts that were
    started or restarted; ``steps``, as the operation ``roll`` returned them.
    """
    options, configured = request.options, request.configured
    after: dict[str, Any] = {
        host: next((look for look in looks if look.get("state")), {}) for host, looks in options["after"].items()
    }
    acts = {
        host: [
            *(["files"] if result.get("changed") else []),
            *([options["steps"][host]["act"]] if host in options["rolled"] else []),
        ]
        for host, result in configured.items()
    }
    say = f"site is done on {counted(len(configured), 'broker')}"
    return {"say": say, "table": outcome_table(configured, request.evidence, after, acts, {})}
