"""Two guards of a store without generations, in every order of their steps, with crashes, freezes and a stolen lock.

The real ``FenceCommandGuardState`` decides; store, locks, brokers and the operator's command are a model of a few
lines. A freeze needs no step of its own: a guard or a broker is frozen while only others take steps.
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

MOST_CLAIMS, MOST_THEFTS, MOST_CRASHES = 4, 3, 3


@dataclass(frozen=True)
class Host:
    """A host: its guard (None while none runs), what that decided and has not done yet, whether its broker writes."""

    fence: FenceCommandGuardState | None = None
    step: GuardStep | None = None
    writes: bool = False


@dataclass(frozen=True)
class World:
    """The store and both hosts. ``claims`` holds the host of each claim and whether its broker is noted as dead."""

    hosts: tuple[Host, Host] = (Host(), Host())
    lock: int | None = None
    claims: tuple[tuple[int, bool], ...] = ()
    thefts: int = 0
    crashes: int = 0

    def at(self, index: int, host: Host) -> World:
        hosts = list(self.hosts)
        hosts[index] = host
        return replace(self, hosts=(hosts[0], hosts[1]))

    def look(self, index: int) -> FenceEvidence:
        if not self.claims:
            return FenceEvidence(self.lock == index, None)
        host, ended = self.claims[-1]
        return FenceEvidence(self.lock == index, claim_without_store_copy(len(self.claims), str(host)), ended)

    def with_ends(self, index: int, numbers: range) -> World:
        """The claims of a host among ``numbers`` are noted as ended."""
        claims = (
            (host, ended or (host == index and number in numbers))
            for number, (host, ended) in enumerate(self.claims, 1)
        )
        return replace(self, claims=tuple(claims))


def following(world: World, decide: type[FenceCommandGuardState], *, fences: bool) -> Iterator[World]:
    """Every world that one step of one process, or one fault, makes of this one."""
    if world.lock is not None and world.thefts < MOST_THEFTS:
        yield replace(world, lock=None, thefts=world.thefts + 1)
    everything = range(1, len(world.claims) + 1)
    for index, host in enumerate(world.hosts):
        freed = replace(world, lock=None if world.lock == index else world.lock)
        if host.fence is None:
            if host.writes:  # Its guard is dead, and the kernel has not killed it yet.
                yield world.at(index, Host())
            else:
                started = world.at(index, Host(decide(str(index))))
                yield started.with_ends(index, everything)
            continue
        if world.crashes < MOST_CRASHES:
            yield replace(freed.at(index, replace(host, fence=None, step=None)), crashes=world.crashes + 1)
        if host.step is None:
            yield world.at(index, replace(host, step=host.fence.next_guard_step(world.look(index))))
        else:
            yield from carried_out(world, freed, index, host, host.fence, host.step, fences=fences)


def carried_out(
    world: World, freed: World, index: int, host: Host, fence: FenceCommandGuardState, step: GuardStep, *, fences: bool
) -> Iterator[World]:
    done, everything = replace(host, step=None), range(1, len(world.claims) + 1)
    if step.action is GuardAction.WAIT:
        yield replace(world.at(index, done), lock=index if world.lock is None else world.lock)
    elif step.action is GuardAction.FENCE:
        yield world.at(index, done)  # the command fails
        dead = world.at(1 - index, Host()) if fences else world
        yield dead.at(index, done).with_ends(1 - index, range(step.number, step.number + 1))
    elif step.action is GuardAction.CLAIM and len(world.claims) == step.number - 1:
        if len(world.claims) < MOST_CLAIMS:
            claimed = replace(done, fence=fence.guard_state_after_claim_attempt(step.number))
            yield replace(world.at(index, claimed), claims=(*world.claims, (index, False)))
    elif step.action is GuardAction.CLAIM:
        yield freed.at(index, replace(done, fence=fence.guard_state_after_claim_attempt()))
    elif step.action is GuardAction.ADMIT:
        yield world.at(index, replace(done, fence=fence.guard_state_after_granting_access(step.number), writes=True))
    elif step.action is GuardAction.END:
        yield freed.at(index, Host()).with_ends(index, everything)
    else:
        yield world.at(index, done)


def two_writers(
    decide: type[FenceCommandGuardState] = FenceCommandGuardState, *, fences: bool = True
) -> tuple[bool, int]:
    """Whether a world can come about in which both brokers write, and how many worlds were seen."""
    seen, waiting = {World()}, deque([World()])
    while waiting:
        world = waiting.popleft()
        if all(host.writes for host in world.hosts):
            return True, len(seen)
        for after in following(world, decide, fences=fences):
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return False, len(seen)


def test_store_without_generations_never_has_two_writers_in_any_interleaving() -> None:
    found, worlds = two_writers()
    assert not found
    assert worlds > 10_000


def test_a_command_that_says_it_fenced_a_host_and_did_not_is_found_out() -> None:
    assert two_writers(fences=False)[0]


class TrustsItsLock(FenceCommandGuardState):
    """Claims once it has the lock, whoever wrote before."""

    def next_guard_step(self, evidence: FenceEvidence) -> GuardStep:
        step = super().next_guard_step(evidence)
        return GuardStep(GuardAction.CLAIM, step.number + 1) if step.action is GuardAction.FENCE else step


class GoesOnWithItsClaim(FenceCommandGuardState):
    """Serves by an earlier claim of its node, as a guard with generations does."""

    def next_guard_step(self, evidence: FenceEvidence) -> GuardStep:
        if self.serves is None and evidence.holds_lock and evidence.highest and evidence.highest.node == self.node:
            return GuardStep(GuardAction.ADMIT, evidence.newest_claim_number)
        return super().next_guard_step(evidence)


@pytest.mark.parametrize("wrong", [TrustsItsLock, GoesOnWithItsClaim])
def test_a_guard_that_does_not_make_sure_is_found_out(wrong: type[FenceCommandGuardState]) -> None:
    assert two_writers(wrong)[0]
