"""Two guards of a store without generations, in every order of their steps, with crashes, freezes and a stolen lock.

The tests run the real ``FenceCommandGuardState``. A small model replaces the store, the locks, the brokers and the
command of the operator. A freeze requires no separate step: a guard or a broker is frozen while only others take steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from activemq_fleet.node.fence.decision import (
    FenceCommandGuardState,
    FenceEvidence,
    GuardAction,
    GuardStep,
    claim_without_store_copy,
)

MAX_CLAIMS, MAX_THEFTS, MAX_CRASHES = 4, 3, 3


@dataclass(frozen=True)
class Host:
    """A host: its guard (None while none runs), the pending step of the guard, and whether its broker writes."""

    fence: FenceCommandGuardState | None = None
    step: GuardStep | None = None
    writes: bool = False


@dataclass(frozen=True)
class World:
    """The store and both hosts. ``claims``: the host of each claim, and whether its broker is recorded as dead."""

    hosts: tuple[Host, Host] = (Host(), Host())
    lock: int | None = None
    claims: tuple[tuple[int, bool], ...] = ()
    thefts: int = 0
    crashes: int = 0

    def with_host(self, index: int, host: Host) -> World:
        hosts = list(self.hosts)
        hosts[index] = host
        return replace(self, hosts=(hosts[0], hosts[1]))

    def evidence_of(self, index: int) -> FenceEvidence:
        if not self.claims:
            return FenceEvidence(self.lock == index, None)
        host, ended = self.claims[-1]
        return FenceEvidence(self.lock == index, claim_without_store_copy(len(self.claims), str(host)), ended)

    def with_ended_claims(self, index: int, numbers: range) -> World:
        """Return the world in which the claims of a host among ``numbers`` are recorded as ended."""
        claims = (
            (host, ended or (host == index and number in numbers))
            for number, (host, ended) in enumerate(self.claims, 1)
        )
        return replace(self, claims=tuple(claims))


def next_worlds(world: World, decide: type[FenceCommandGuardState], *, fences: bool) -> Iterator[World]:
    """Yield every world that results from one step of one process or from one fault."""
    if world.lock is not None and world.thefts < MAX_THEFTS:
        yield replace(world, lock=None, thefts=world.thefts + 1)
    all_claims = range(1, len(world.claims) + 1)
    for index, host in enumerate(world.hosts):
        freed = replace(world, lock=None if world.lock == index else world.lock)
        if host.fence is None:
            if host.writes:  # The guard is dead, and the kernel has not killed its broker yet.
                yield world.with_host(index, Host())
            else:
                started = world.with_host(index, Host(decide(str(index))))
                yield started.with_ended_claims(index, all_claims)
            continue
        if world.crashes < MAX_CRASHES:
            yield replace(freed.with_host(index, replace(host, fence=None, step=None)), crashes=world.crashes + 1)
        if host.step is None:
            yield world.with_host(index, replace(host, step=host.fence.next_guard_step(world.evidence_of(index))))
        else:
            yield from worlds_after_step(world, freed, index, host, host.fence, host.step, fences=fences)


def worlds_after_step(
    world: World, freed: World, index: int, host: Host, fence: FenceCommandGuardState, step: GuardStep, *, fences: bool
) -> Iterator[World]:
    idle, all_claims = replace(host, step=None), range(1, len(world.claims) + 1)
    if step.action is GuardAction.WAIT:
        yield replace(world.with_host(index, idle), lock=index if world.lock is None else world.lock)
    elif step.action is GuardAction.FENCE:
        yield world.with_host(index, idle)  # the command fails
        fenced = world.with_host(1 - index, Host()) if fences else world
        yield fenced.with_host(index, idle).with_ended_claims(1 - index, range(step.number, step.number + 1))
    elif step.action is GuardAction.CLAIM and len(world.claims) == step.number - 1:
        if len(world.claims) < MAX_CLAIMS:
            claimed = replace(idle, fence=fence.guard_state_after_claim_attempt(step.number))
            yield replace(world.with_host(index, claimed), claims=(*world.claims, (index, False)))
    elif step.action is GuardAction.CLAIM:
        yield freed.with_host(index, replace(idle, fence=fence.guard_state_after_claim_attempt()))
    elif step.action is GuardAction.ADMIT:
        yield world.with_host(
            index, replace(idle, fence=fence.guard_state_after_granting_access(step.number), writes=True)
        )
    elif step.action is GuardAction.END:
        yield freed.with_host(index, Host()).with_ended_claims(index, all_claims)
    else:
        yield world.with_host(index, idle)


def find_two_writers(
    decide: type[FenceCommandGuardState] = FenceCommandGuardState, *, fences: bool = True
) -> tuple[bool, int]:
    """Return whether both brokers write in a reachable world, and the number of worlds that were explored."""
    explored, pending = {World()}, deque([World()])
    while pending:
        world = pending.popleft()
        if all(host.writes for host in world.hosts):
            return True, len(explored)
        for next_world in next_worlds(world, decide, fences=fences):
            if next_world not in explored:
                explored.add(next_world)
                pending.append(next_world)
    return False, len(explored)


def test_store_without_generations_never_has_two_writers_in_any_interleaving() -> None:
    has_two_writers, worlds = find_two_writers()
    assert not has_two_writers
    assert worlds > 10_000


def test_two_writers_are_detected_when_fence_command_has_no_effect() -> None:
    assert find_two_writers(fences=False)[0]


class ClaimsWithoutFencing(FenceCommandGuardState):
    """Guard that claims as soon as it holds the lock, without fencing the previous writer."""

    def next_guard_step(self, evidence: FenceEvidence) -> GuardStep:
        step = super().next_guard_step(evidence)
        return GuardStep(GuardAction.CLAIM, step.number + 1) if step.action is GuardAction.FENCE else step


class ReusesEarlierClaim(FenceCommandGuardState):
    """Guard that serves under an earlier claim of its node, as a guard with generations does."""

    def next_guard_step(self, evidence: FenceEvidence) -> GuardStep:
        if self.serves is None and evidence.holds_lock and evidence.highest and evidence.highest.node == self.node:
            return GuardStep(GuardAction.ADMIT, evidence.newest_claim_number)
        return super().next_guard_step(evidence)


@pytest.mark.parametrize("guard", [ClaimsWithoutFencing, ReusesEarlierClaim])
def test_two_writers_are_detected_when_guard_skips_check(guard: type[FenceCommandGuardState]) -> None:
    assert find_two_writers(guard)[0]
