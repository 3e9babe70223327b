"""Two guards of one store, in every order of their steps, with crashes, freezes and a stolen lock.

The tests run the real ``StoreCopyingGuardState``. A small model replaces the store, the locks and the brokers. A freeze
requires no separate step: a guard or a broker is frozen while only others take steps. A generation is a numbered copy
of the store, which a guard creates and claims at a takeover.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from activemq_fleet.node.fence.decision import FenceEvidence, GuardAction, GuardStep, StoreClaim, StoreCopyingGuardState
from tests.situations import EVERY_SITUATION

MAX_CLAIMS, MAX_THEFTS, MAX_CRASHES = (3, 3, 2) if EVERY_SITUATION else (3, 2, 2)
NODES = ("a", "b")


@dataclass(frozen=True)
class Host:
    """A host: its guard (None while it does not run), the pending step of the guard, and its broker.

    ``broker`` is None without a broker, 0 while the broker waits for access, and then the number of the generation that
    it may write. ``copied_accesses``: how many brokers had access to the newest generation when this guard copied it.
    """

    fence: StoreCopyingGuardState | None = None
    step: GuardStep | None = None
    broker: int | None = None
    copied_accesses: int = 0


@dataclass(frozen=True)
class World:
    """The store and both hosts: ``claims`` are the creators of the generations, ``lock`` is the host that holds it.

    ``ended``: the generations whose brokers are recorded as dead. ``linked``: the generations whose successor was made
    of hard links instead of copies. ``accesses``: the number of decisions to grant access to the newest generation.
    ``mistake``: the promise that a decision breaks.
    """

    hosts: tuple[Host, Host] = (Host(), Host())
    lock: int | None = None
    claims: tuple[int, ...] = ()
    ended: frozenset[int] = frozenset()
    linked: frozenset[int] = frozenset()
    accesses: int = 0
    mistake: str = ""
    thefts: int = 0
    crashes: int = 0

    def with_host(self, index: int, host: Host) -> World:
        hosts = list(self.hosts)
        hosts[index] = host
        return replace(self, hosts=(hosts[0], hosts[1]))

    @property
    def highest(self) -> StoreClaim | None:
        return StoreClaim(len(self.claims), NODES[self.claims[-1]], "") if self.claims else None

    def with_recorded_ends(self, index: int) -> World:
        """Return the world in which the guard of a host recorded that the brokers of its claims are dead."""
        claims_of_host = {number for number, maker in enumerate(self.claims, 1) if maker == index}
        return replace(self, ended=self.ended | claims_of_host)


def next_worlds(world: World, decide: type[StoreCopyingGuardState], most_claims: int = MAX_CLAIMS) -> Iterator[World]:
    """Yield every world that results from one step of one process or from one fault."""
    if world.lock is not None and world.thefts < MAX_THEFTS:
        yield replace(world, lock=None, thefts=world.thefts + 1)
    for index, host in enumerate(world.hosts):
        freed = replace(world, lock=None if world.lock == index else world.lock)
        if host.fence is None:
            if host.broker is not None:
                yield world.with_host(index, replace(host, broker=None))
            else:
                yield world.with_host(index, replace(host, fence=decide(NODES[index]), broker=0))
            continue
        if world.crashes < MAX_CRASHES:
            # The guard dies first. Its broker dies after any delay.
            crashed = replace(host, fence=None, step=None)
            yield replace(freed.with_host(index, crashed), crashes=world.crashes + 1)
        if host.step is None:
            step = host.fence.next_guard_step(
                FenceEvidence(world.lock == index, world.highest, len(world.claims) in world.ended)
            )
            decided = world.with_host(index, replace(host, step=step))
            if step.action is GuardAction.ADMIT:
                decided = replace(decided, accesses=world.accesses + 1)
            elif step.action is GuardAction.CLAIM and host.copied_accesses < world.accesses:
                decided = replace(
                    decided, mistake=f"host {index} claims with a copy that is older than the last access"
                )
            yield decided
        else:
            worlds_after = worlds_after_step(world, freed, index, host, host.fence, host.step)
            yield from (world for world in worlds_after if len(world.claims) <= most_claims)


def worlds_after_step(
    world: World, freed: World, index: int, host: Host, fence: StoreCopyingGuardState, step: GuardStep
) -> Iterator[World]:
    """Yield the worlds after a step, whose decision is old if the guard was frozen in the meantime."""
    idle = replace(host, step=None)
    match step.action:
        case GuardAction.WAIT:
            waiting_world = world.with_host(
                index, replace(idle, fence=fence.guard_state_after_claim_attempt())
            ).with_recorded_ends(index)
            yield replace(waiting_world, lock=index if world.lock is None else world.lock)
        case GuardAction.BUILD:
            copy_complete = replace(
                idle, fence=fence.guard_state_after_copying_generation(step.number), copied_accesses=world.accesses
            )
            by_links = world.ended & {step.number}
            yield replace(world.with_host(index, copy_complete), linked=world.linked | by_links)
        case GuardAction.CLAIM:
            if len(world.claims) != step.number - 1:
                yield freed.with_host(index, replace(idle, fence=fence.guard_state_after_claim_attempt()))
            else:
                claimed = replace(
                    world.with_host(index, replace(idle, fence=fence.guard_state_after_claim_attempt())), accesses=0
                )
                yield replace(claimed, claims=(*world.claims, index))
        case GuardAction.ADMIT:
            yield world.with_host(
                index, replace(idle, fence=fence.guard_state_after_granting_access(step.number), broker=step.number)
            )
        case GuardAction.END:
            yield freed.with_host(index, replace(idle, fence=None, broker=None)).with_recorded_ends(index)
        case GuardAction.STAY:
            yield world.with_host(index, idle)


def find_broken_promise(world: World) -> str:
    """Return the promise that a world breaks, or an empty text."""
    brokers = [(index, host.broker) for index, host in enumerate(world.hosts) if host.broker]
    for index, number in brokers:
        if world.claims[number - 1] != index:
            return f"host {index} writes into generation {number}, which the other host claimed"
        if number in world.linked:
            return f"host {index} writes into files that have a second name in a later generation"
    if len({number for _, number in brokers}) < len(brokers):
        return "two brokers write into one generation"
    return world.mistake


def explore(decide: type[StoreCopyingGuardState], wanted: str = "") -> tuple[str, set[World]]:
    """Return the first broken promise whose text contains ``wanted``, and all worlds that were explored until then."""
    first_world = World()
    known, pending = {first_world}, deque([first_world])
    while pending:
        world = pending.popleft()
        promise = find_broken_promise(world)
        if promise and wanted in promise:
            return promise, known
        for next_world in next_worlds(world, decide):
            if next_world not in known:
                known.add(next_world)
                pending.append(next_world)
    return "", known


@pytest.fixture(scope="module")
def worlds() -> set[World]:
    promise, worlds = explore(StoreCopyingGuardState)
    assert not promise
    return worlds


def test_current_generation_never_has_two_writers_in_any_interleaving(worlds: set[World]) -> None:
    assert len(worlds) > 10_000, len(worlds)
    # The worlds include conflicts: both brokers write, and one writes a generation that the other has replaced.
    assert any(all(host.broker for host in world.hosts) for world in worlds)


class IgnoresClaims(StoreCopyingGuardState):
    """Guard that serves the current generation as soon as it holds the lock, as a broker without a guard does."""

    def next_guard_step(self, evidence: FenceEvidence) -> GuardStep:
        if self.serves is None and evidence.holds_lock and evidence.highest:
            return GuardStep(GuardAction.ADMIT, evidence.newest_claim_number)
        return super().next_guard_step(evidence)


class IgnoresRecordedEnd(StoreCopyingGuardState):
    """Guard that serves a generation of its node although the end of its broker is recorded."""

    def next_guard_step(self, evidence: FenceEvidence) -> GuardStep:
        return super().next_guard_step(replace(evidence, has_ended=False))


class ReusesOldCopy(IgnoresRecordedEnd):
    """Guard that claims with a copy that it built before it lost and regained the lock."""

    def guard_state_after_claim_attempt(self, number: int | None = None) -> StoreCopyingGuardState:
        return self


@pytest.mark.parametrize(
    ("guard", "promise"),
    [
        (IgnoresRecordedEnd, "files that have a second name"),
        (IgnoresClaims, "which the other host claimed"),
        (ReusesOldCopy, "claims with a copy that is older than the last access"),
    ],
)
def test_broken_promise_of_faulty_guard_is_detected(guard: type[StoreCopyingGuardState], promise: str) -> None:
    assert explore(guard, promise)[0]


@pytest.mark.parametrize("index", [0, 1])
def test_guard_without_peer_eventually_serves_from_any_world(index: int, worlds: set[World]) -> None:
    open_worlds = sorted((world for world in worlds if len(world.claims) < MAX_CLAIMS), key=repr)
    for world in open_worlds[:: max(1, len(open_worlds) // 500)]:
        assert eventually_serves(world, index), world


def eventually_serves(world: World, index: int) -> bool:
    """Return whether the host serves the current generation after some steps while the other host is off."""
    world = replace(world.with_host(1 - index, Host()), lock=index if world.lock == index else None)
    for _ in range(30):
        host = world.hosts[index]
        if host.fence and host.broker and host.broker == host.fence.serves == len(world.claims):
            return True
        faultless = replace(world, thefts=MAX_THEFTS, crashes=MAX_CRASHES)
        world = next(
            after
            for after in next_worlds(faultless, StoreCopyingGuardState, 2 * MAX_CLAIMS)
            if after.hosts[1 - index] == Host()
        )
    return False
