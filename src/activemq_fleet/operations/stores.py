"""Which shared stores may be used, and which may be marked as a pair's own.

A share that is not mounted must never become two masters on two local directories. So each
shared store holds a marker file with its pair's name, which the unit looks for before it starts
a broker. The marker is written once, and only to an empty store that both nodes are shown to
see: one writes it with a word nobody else knows, the other must find that word.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from activemq_fleet.operations.requests import Decision, RefusalError, Request, operation
from activemq_fleet.render.service import STORE_MARKER


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLook:
    """A shared store as one host sees it.

    ``marked`` holds the lines of the marker, None where there is none. ``mounted``: the directory,
    or one above it other than the root, is a mount point. ``fenced``: it holds generations; ``guard``: it shall.
    """

    host: str
    pair: str
    directory: str
    exists: bool
    mounted: bool
    used: bool
    marked: tuple[str, ...] | None = None
    fenced: bool = False
    guard: bool = False


@dataclass(frozen=True, slots=True)
class StorePlan:
    """Which stores get a marker; ``claims`` maps a pair to the host that writes it and those that must find it."""

    claims: dict[str, tuple[str, ...]]
    problems: tuple[str, ...]


def plan_stores(looks: Iterable[StoreLook], sizes: dict[str, int]) -> StorePlan:
    """Return which shared stores to mark, and problems; ``sizes`` is the number of nodes of each pair."""
    pairs: dict[str, list[StoreLook]] = defaultdict(list)
    for look in looks:
        pairs[look.pair].append(look)
    claims, problems = {}, []
    for pair, seen in sorted(pairs.items()):
        seen = sorted(seen, key=lambda look: look.host)
        problem = _problem(pair, seen, sizes.get(pair, len(seen)))
        if problem:
            problems.append(problem)
        elif seen[0].marked is None:
            claims[pair] = tuple(look.host for look in seen)
    return StorePlan(claims, tuple(problems))


def _problem(pair: str, seen: Sequence[StoreLook], size: int) -> str | None:
    marked = [look for look in seen if look.marked is not None]
    for look in marked:
        if pair not in (look.marked or ()):
            named = (look.marked or ("nobody",))[0]
            return f"{look.host}: {look.directory} is the store of {named}, not of {pair}: set activemq_store_directory"
    for look in seen:
        if look.fenced and not look.guard:
            return (
                f"{look.host}: guards made the store in {look.directory}, and a broker without one waits for ever: "
                "set activemq_fence to guard"
            )
        if look.used and look.guard and not look.fenced:
            return (
                f"{look.host}: {look.directory} holds a store that no guard made, which is not taken over: "
                "set activemq_fence to none, or activemq_store_directory to a new directory"
            )
    if marked and len(marked) < len(seen):
        other = next(look for look in seen if look.marked is None)
        return f"{other.host}: {other.directory} is not what {marked[0].host} has there: mount the share on both nodes"
    if marked:
        return None
    for look in seen:
        if look.used:
            return (
                f"{look.host}: {look.directory} holds messages and no marker: if it is the store of {pair}, "
                f"write {pair} into the file {STORE_MARKER} in it"
            )
        if not look.exists and not look.mounted:
            return (
                f"{look.host}: {look.directory} is not there and nothing is mounted above it: mount the share, "
                "or make the directory where both nodes see it"
            )
    if len(seen) < size:
        return (
            f"{seen[0].host}: the store of {pair} is new, and only a run with both nodes can tell that they share it: "
            "run without --limit"
        )
    return None


@operation("stores")
def decide_stores(request: Request) -> Decision:
    """Return which shared stores may be marked, and by which host. Raises RefusalError for one that is not its own."""
    looks = [
        StoreLook(
            host=host,
            pair=request.brokers[host]["pair"],
            directory=request.brokers[host]["store"],
            marked=None if found["marked"] is None else tuple(found["marked"]),
            guard=request.brokers[host].get("guard", False),
            **{key: found[key] for key in ("exists", "mounted", "used", "fenced")},
        )
        for host, found in request.evidence.items()
    ]
    plan = plan_stores(looks, Counter(broker["pair"] for broker in request.brokers.values()))
    if plan.problems:
        raise RefusalError("no broker is started, because of a shared store:", plan.problems)
    firsts = {hosts[0]: list(hosts[1:]) for hosts in plan.claims.values()}
    return {"claims": firsts, "hosts": [host for hosts in plan.claims.values() for host in hosts]}
