"""Two guards of one store, in every order of their steps, with crashes, freezes and a lock that is given away.

The real ``StoreCopyingGuardState`` decides; the store, the locks and the brokers around it are a model of a few lines.
A freeze needs no step of its own: a guard or a broker is frozen while only others take steps, as often and as long as
it may be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from activemq_fleet.node.fence.decision import FenceEvidence, GuardAction, GuardStep, StoreClaim, StoreCopyingGuardState
from tests.situations import EVERY_SITUATION

MOST_CLAIMS, MOST_THEFTS, MOST_CRASHES = (3, 3, 2) if EVERY_SITUATION else (3, 2, 2)
NODES = ("a", "b")


@dataclass(frozen=True)
class Host:
    """A host: its guard (None while it does not run), what that decided and has not done yet, and its broker.

    ``broker`` is None without one, 0 at the gate, else the number of the generation that it was let into. ``copied`` is
    the number of brokers that had got leave to write into the newest generation when this guard copied it.
    """

    fence: StoreCopyingGuardState | None = None
    step: GuardStep | None = None
    broker: int | None = None
    copied: int = 0


@dataclass(frozen=True)
class World:
    """The store and both hosts: ``claims`` are the makers of the generations, ``lock`` is the host that has it.

    ``ended``: the generations whose brokers are recorded as dead. ``linked``: those of which the next was made
    without copies. ``leaves``: the number of decisions to let a broker into the newest generation. ``mistake``: the
    promise that a decision breaks.
    """

    hosts: tuple[Host, Host] = (Host(), Host())
    lock: int | None = None
    claims: tuple[int, ...] = ()
    ended: frozenset[int] = frozenset()
    linked: frozenset[int] = frozenset()
    leaves: int = 0
    mistake: str = ""
    thefts: int = 0
    crashes: int = 0

    def at(self, index: int, host: Host) -> World:
        hosts = list(self.hosts)
        hosts[index] = host
        return replace(self, hosts=(hosts[0], hosts[1]))

    @property
    def highest(self) -> StoreClaim | None:
        return StoreClaim(len(self.claims), NODES[self.claims[-1]], "") if self.claims else None

    def noted(self, index: int) -> World:
        """The world after the guard of a host has recorded that the brokers of the host's claims are dead."""
        own = {number for number, maker in enumerate(self.claims, 1) if maker == index}
        return replace(self, ended=self.ended | own)


def following(world: World, decide: type[StoreCopyingGuardState], most_claims: int = MOST_CLAIMS) -> Iterator[World]:
    """Every world that one step of one process, or one fault, makes of this one."""
    if world.lock is not None and world.thefts < MOST_THEFTS:
        yield replace(world, lock=None, thefts=world.thefts + 1)
    for index, host in enumerate(world.hosts):
        freed = replace(world, lock=None if world.lock == index else world.lock)
        if host.fence is None:
            if host.broker is not None:
                yield world.at(index, replace(host, broker=None))
            else:
                yield world.at(index, replace(host, fence=decide(NODES[index]), broker=0))
            continue
        if world.crashes < MOST_CRASHES:
            # The guard dies; its broker does a moment later, which may be long.
            crashed = replace(host, fence=None, step=None)
            yield replace(freed.at(index, crashed), crashes=world.crashes + 1)
        if host.step is None:
            step = host.fence.next_guard_step(
                FenceEvidence(world.lock == index, world.highest, len(world.claims) in world.ended)
            )
            decided = world.at(index, replace(host, step=step))
            if step.action is GuardAction.ADMIT:
                decided = replace(decided, leaves=world.leaves + 1)
            elif step.action is GuardAction.CLAIM and host.copied < world.leaves:
                decided = replace(decided, mistake=f"host {index} claims with a copy from before another got leave")
            yield decided
        else:
            after = carried_out(world, freed, index, host, host.fence, host.step)
            yield from (world for world in after if len(world.claims) <= most_claims)


def carried_out(
    world: World, freed: World, index: int, host: Host, fence: StoreCopyingGuardState, step: GuardStep
) -> Iterator[World]:
    """The decision may be old: the guard may have been frozen since its look."""
    done = replace(host, step=None)
    match step.action:
        case GuardAction.WAIT:
            dropped = world.at(index, replace(done, fence=fence.guard_state_after_claim_attempt())).noted(index)
            yield replace(dropped, lock=index if world.lock is None else world.lock)
        case GuardAction.BUILD:
            copied = replace(done, fence=fence.guard_state_after_copying_generation(step.number), copied=world.leaves)
            by_links = world.ended & {step.number}
            yield replace(world.at(index, copied), linked=world.linked | by_links)
        case GuardAction.CLAIM:
            if len(world.claims) != step.number - 1:
                yield freed.at(index, replace(done, fence=fence.guard_state_after_claim_attempt()))
            else:
                claimed = replace(
                    world.at(index, replace(done, fence=fence.guard_state_after_claim_attempt())), leaves=0
                )
                yield replace(claimed, claims=(*world.claims, index))
        case GuardAction.ADMIT:
            yield world.at(
                index, replace(done, fence=fence.guard_state_after_granting_access(step.number), broker=step.number)
            )
        case GuardAction.END:
            yield freed.at(index, replace(done, fence=None, broker=None)).noted(index)
        case GuardAction.STAY:
            yield world.at(index, done)


def broken(world: World) -> str:
    """Which promise a world breaks; empty for none."""
    brokers = [(index, host.broker) for index, host in enumerate(world.hosts) if host.broker]
    for index, number in brokers:
        if world.claims[number - 1] != index:
            return f"host {index} writes into generation {number}, which the other one claimed"
        if number in world.linked:
            return f"host {index} writes into files that have a second name in a later generation"
    if len({number for _, number in brokers}) < len(brokers):
        return "two brokers write into one generation"
    return world.mistake


def explored(decide: type[StoreCopyingGuardState], wanted: str = "") -> tuple[str, set[World]]:
    """The first broken promise of which the text holds ``wanted``, and all worlds that came about until then."""
    start = World()
    seen, waiting = {start}, deque([start])
    while waiting:
        world = waiting.popleft()
        promise = broken(world)
        if promise and wanted in promise:
            return promise, seen
        for after in following(world, decide):
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return "", seen


@pytest.fixture(scope="module")
def worlds() -> set[World]:
    promise, worlds = explored(StoreCopyingGuardState)
    assert not promise
    return worlds


def test_generation_in_force_never_has_two_writers_in_any_interleaving(worlds: set[World]) -> None:
    assert len(worlds) > 10_000, len(worlds)
    # They do meet: both brokers write, one of them into a generation that the other has replaced.
    assert any(all(host.broker for host in world.hosts) for world in worlds)


class TrustsItsLock(StoreCopyingGuardState):
    """Goes on with the generation in force, whoever claimed it, once it has the lock: as a broker without a guard."""

    def next_guard_step(self, evidence: FenceEvidence) -> GuardStep:
        if self.serves is None and evidence.holds_lock and evidence.highest:
            return GuardStep(GuardAction.ADMIT, evidence.newest_claim_number)
        return super().next_guard_step(evidence)


class TrustsItsNode(StoreCopyingGuardState):
    """Goes on with the generation that its node claimed, though its end is recorded."""

    def next_guard_step(self, evidence: FenceEvidence) -> GuardStep:
        return super().next_guard_step(replace(evidence, has_ended=False))


class TrustsItsCopy(TrustsItsNode):
    """Claims with what it built before it lost the lock, and has it again."""

    def guard_state_after_claim_attempt(self, number: int | None = None) -> StoreCopyingGuardState:
        return self


@pytest.mark.parametrize(
    ("guard", "promise"),
    [
        (TrustsItsNode, "files that have a second name"),
        (TrustsItsLock, "which the other one claimed"),
        (TrustsItsCopy, "claims with a copy from before another got leave"),
    ],
)
def test_a_guard_with_a_mistake_in_it_is_found_out(guard: type[StoreCopyingGuardState], promise: str) -> None:
    assert explored(guard, promise)[0]


@pytest.mark.parametrize("index", [0, 1])
def test_a_guard_that_is_left_alone_comes_to_serve_whatever_came_before(index: int, worlds: set[World]) -> None:
    open_worlds = sorted((world for world in worlds if len(world.claims) < MOST_CLAIMS), key=repr)
    for world in open_worlds[:: max(1, len(open_worlds) // 500)]:
        assert serves_in_the_end(world, index), world


def serves_in_the_end(world: World, index: int) -> bool:
    """Whether the host serves from what is in force, after some steps of its own, the other host being off."""
    world = replace(world.at(1 - index, Host()), lock=index if world.lock == index else None)
    for _ in range(30):
        host = world.hosts[index]
        if host.fence and host.broker and host.broker == host.fence.serves == len(world.claims):
            return True
        calm = replace(world, thefts=MOST_THEFTS, crashes=MOST_CRASHES)
        world = next(
            after
            for after in following(calm, StoreCopyingGuardState, 2 * MOST_CLAIMS)
            if after.hosts[1 - index] == Host()
        )
    return False
