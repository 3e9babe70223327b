"""Decisions of a drill: which pairs get a fault, in which order, and what comes next. Pure.

A fleet is drilled only where a variable says that it may be. Only the node that is active now gets a
fault, and only while every pair of the drill is whole: one active node, one that stands by.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from activemq_fleet.errors import InputError
from activemq_fleet.host.timeouts import SETTLE
from activemq_fleet.operations.requests import Decision, Request, operation
from activemq_fleet.profiles import PROFILES, Profile

ALLOWED = "activemq_drill_allowed"
_PAUSE = 3  # seconds between two looks at what may pass by itself
Act = Literal["inject", "wait", "start", "resume", "done"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A pair of the inventory that a drill may inject faults into; ``nodes`` are preferred master first."""

    pair: str
    group: str
    ha: str
    nodes: tuple[str, ...]
    rivals: int = 0
    """The number of other pairs in the group."""

    @property
    def profile(self) -> Profile:
        return PROFILES[self.ha]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """The current state of a node; ``how`` is the reason for the conclusion."""

    host: str
    pair: str
    state: str
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillStep:
    """The next step of a drill: an act on ``host`` (inject a fault, start or resume the broker), or wait, or done.

    ``say`` describes the step in one line; ``seconds`` is how long to wait.
    """

    act: Act
    say: str
    host: str | None = None
    peer: str | None = None
    pair: str | None = None
    seconds: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the step as the dictionary that the playbook's loop of steps reads."""
        hosts = [] if self.host is None else [self.host]
        return {
            "act": self.act, "hosts": hosts, "peer": self.peer, "pair": self.pair, "seconds": self.seconds,
            "say": self.say,
        }  # fmt: skip


def is_allowed(value: Any) -> bool:
    """Return whether a value of ``activemq_drill_allowed`` is true; from a command line the value comes as text."""
    return value is True or str(value).strip().lower() in ("true", "yes", "1", "on")


def refuse_production(groups: Mapping[str, Any]) -> None:
    """Raise InputError where any group may not be drilled; ``groups`` maps names to ``activemq_drill_allowed``."""
    closed = sorted(name for name, value in groups.items() if not is_allowed(value))
    if closed:
        raise InputError(
            f"group {', '.join(closed)} may not be drilled: its brokers would be killed while clients use them; "
            f"set {ALLOWED}: true for a group that is there to be tried, or allow this run with -e {ALLOWED}=true"
        )


def schedule(candidates: Sequence[Candidate], faults: int, seed: int, what: str = "kill") -> tuple[str, ...]:
    """Return the pair of each fault, in order: every pair once before any twice; ``seed`` decides the order.

    A pure pair gets one fault, and one pair of its group none, because clients need a master.
    Raises InputError where no pair can be drilled, or fewer faults are possible than wanted.
    """
    fit = [one for one in candidates if refusal(one, what) is None]
    if not fit:
        reasons = [f"{one.pair} {refusal(one, what)}" for one in candidates]
        raise InputError(f"no pair can be drilled: {'; '.join(reasons) or 'there is none'}")
    chance = random.Random(seed)  # noqa: S311 -- an order that can be had again, no secret
    if all(one.profile.needs_resync for one in fit):
        return _once_each(fit, faults, chance)
    fit = [one for one in fit if not one.profile.needs_resync]
    order: list[str] = []
    while len(order) < faults:
        turn = [one.pair for one in fit]
        chance.shuffle(turn)
        if order and len(turn) > 1 and turn[0] == order[-1]:
            turn.append(turn.pop(0))
        order += turn
    return tuple(order[:faults])


def _once_each(fit: Sequence[Candidate], faults: int, chance: random.Random) -> tuple[str, ...]:
    by_group: dict[str, list[str]] = {}
    for one in fit:
        by_group.setdefault(one.group, []).append(one.pair)
    order: list[str] = []
    for pairs in by_group.values():
        chance.shuffle(pairs)
        order += pairs[: max(1, len(pairs) - 1)] if len(pairs) > 1 else pairs
    chance.shuffle(order)
    if faults > len(order):
        raise InputError(
            f"{len(order)} fault{'' if len(order) == 1 else 's'} at most: a pure pair gets one, because only a "
            "resync brings its dead node back, and one pair of each group is left for the clients"
        )
    return tuple(order[:faults])


def refusal(one: Candidate, what: str) -> str | None:
    """Return why a pair cannot be drilled, or None if it can."""
    if len(one.nodes) < 2 or not one.profile.has_peer:
        return "has no second node that could take over"
    if one.profile.needs_resync and what != "kill":
        return f"is pure: its brokers are never stopped but by SIGKILL, so --what {what} is not for it"
    if one.profile.replicates and not one.rivals:
        return "is the only pure pair of its group: its slave takes no clients, so nobody could tell"
    return None


def next_drill_step(
    pairs: Iterable[str],
    nodes: Sequence[NodeState],
    due: str | None,
    faulted: Collection[str] = (),
    *,
    waited: float = 0.0,
    settle: float = SETTLE,
) -> DrillStep:
    """Return the next step of a drill, from fresh evidence; ``due`` is the pair of the next fault, None after the last.

    No fault is injected before every pair is whole: one active node and one that stands by. Of nodes
    that are not well only those are touched that had a fault in this drill (``faulted``). ``waited``: seconds since
    the last act; after ``settle`` what has not passed by itself ends the drill.
    Raises InputError for a pair that is not whole and does not become so.
    """
    for pair in pairs:
        step = _heal(pair, [node for node in nodes if node.pair == pair], faulted)
        if step is not None and step.act == "wait" and waited >= settle:
            raise InputError(f"{step.say}; no (further) fault is injected: make it whole first")
        if step is not None:
            return step
    if due is None:
        return DrillStep(act="done", say="every fault was injected and every pair is whole")
    active = next(node for node in nodes if node.pair == due and node.state == "active")
    peer = next(node.host for node in nodes if node.pair == due and node.host != active.host)
    say = f"{active.host} is active and gets the fault; {peer} stands by"
    return DrillStep(act="inject", host=active.host, peer=peer, pair=due, say=say)


def _heal(pair: str, nodes: Sequence[NodeState], faulted: Collection[str]) -> DrillStep | None:
    if sorted(node.state for node in nodes) == ["active", "standby"]:
        return None
    said = f"{pair} is not whole: " + ", ".join(f"{node.host} is {node.state}" for node in nodes)
    for node in nodes:
        peer = next((other.host for other in nodes if other.host != node.host), None)
        if node.host in faulted and node.state == "hung":
            return DrillStep(act="resume", host=node.host, peer=peer, pair=pair, say=said)
        if node.host in faulted and node.state == "stopped":
            return DrillStep(act="start", host=node.host, peer=peer, pair=pair, say=said)
    return DrillStep(act="wait", pair=pair, say=said, seconds=_PAUSE)


@operation("drill")
def decide_drill(request: Request) -> Decision:
    """Return the next step of a drill. ``options``: the pair whose fault is ``due``, and the ``faulted`` hosts."""
    brokers, options = request.brokers, request.options
    nodes = [
        NodeState(host=host, pair=brokers[host]["pair"], state=found["state"], how=found["how"])
        for host, found in request.evidence.items()
    ]
    step = next_drill_step(
        dict.fromkeys(node.pair for node in nodes),
        nodes,
        options["due"],
        options["faulted"],
        waited=float(options["waited"]),
        settle=float(options["settle"]),
    )
    return {"step": step.to_dict()}
