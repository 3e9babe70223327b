# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Decides what a guard does next, from what it sees on the shared store. Pure: it opens no file and no process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

IN_PLACE = "00000000"
"""The end of the directory's name in a claim of the store as it stands, without generations."""


@dataclass(frozen=True)
class Claim:
    """A record in a shared store: a node took over as its only writer, and uses this directory of the store from then
    on.

    Claims are numbered from 1, without a gap; records of old ones may be gone. A take-over may make a generation: a
    directory with a copy of the store's files, into which only the broker that was let in by its claim writes.
    ``node`` names the host whose guard claimed, for good; it is empty for what brokers without a guard wrote.
    ``directory`` is the generation's, below the store.
    """

    number: int
    node: str
    directory: str

    @property
    def is_in_place(self) -> bool:
        """Whether the claim is of the store's own directory, and not of a generation (a copy of the store)."""
        return self.directory.endswith(f"-{IN_PLACE}")


def claim_in_place(number: int, node: str) -> Claim:
    """Return a claim of a node on the store's own directory, of which no copy is made.

    The claim's ``directory`` is where the files go once a generation follows.
    """
    return Claim(number, node, f"{number}-{IN_PLACE}")


@dataclass(frozen=True)
class FenceEvidence:
    """The observations of a guard at one moment: whether it holds the pair's lock, and the newest claim on the store.

    A lock that cannot be seen in time counts as not held.

    ``highest`` is the claim with the highest number, None on a store that nobody has claimed yet. ``has_ended``: its
    broker is recorded as dead, and no other one is ever let in by that claim.
    """

    holds_lock: bool
    highest: Claim | None
    has_ended: bool = False

    @property
    def number(self) -> int:
        """The number of the newest claim on the store, 0 where no node has claimed the store."""
        return self.highest.number if self.highest else 0


class Action(Enum):
    """The actions of a guard, the process that starts a broker and fences its shared store."""

    WAIT = "try to get the pair's lock"
    BUILD = "create a generation from the one in force"
    FENCE = "make sure that the broker of the other node is dead"
    CLAIM = "claim the next number for the generation that was created"
    ADMIT = "let the waiting broker open the generation in force"
    STAY = "check again"
    END = "kill the broker"


@dataclass(frozen=True)
class GuardStep:
    """A decision of a guard: an action, and the generation (numbered copy of the store) that it copies, claims or
    opens.

    ``reason`` says why the broker is to be killed.
    """

    action: Action
    number: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Fence:
    """The state of a guard that copies the store at each take-over, and the rules for its next step.

    Invariant: a generation is only ever written by a broker of the node that claimed it, one at a time, and a broker
    is let into a generation only after a look that showed its claim as the highest, and no record of its end. Claiming
    is an exclusive creation of the next number, so there is one line of generations, and each is made from the one
    before it. So a broker that runs on without its guard's leave (frozen, cut off, its lock given to the other node)
    can write only into a generation that a later claim has replaced, and what is in force has one writer.

    The pair's lock only says whose turn it is to try. Two guards that both believe to hold it are harmless: one of
    them gets the next number.

    A generation whose end is recorded is never written again, not by the node that claimed it either. So the next one
    is made of it without copies: each file gets a second name.

    ``node``: this guard's own. A guard starts only when every earlier broker of its node is dead, so no broker serves
    from a claim of the node but its own, and from none whose end is recorded. ``built_from``: the generation from which
    the next was made and not yet claimed. ``serves``: the generation that the broker was let into, None while it waits.
    """

    node: str
    built_from: int | None = None
    serves: int | None = None

    def next_step(self, evidence: FenceEvidence) -> GuardStep:
        """Return the next step of the guard, decided from its evidence and what it did before.

        The caller carries the step out, notes it with an ``after_`` method, and gathers evidence again.
        """
        if self.serves is not None:
            return _keep_serving(evidence, self.serves)
        if not evidence.holds_lock:
            return GuardStep(Action.WAIT, evidence.number)
        claim = evidence.highest
        if claim and claim.node == self.node and not claim.is_in_place and not evidence.has_ended:
            return GuardStep(Action.ADMIT, evidence.number)
        if self.built_from == evidence.number:
            return GuardStep(Action.CLAIM, evidence.number + 1)
        return GuardStep(Action.BUILD, evidence.number)

    def after_build(self, number: int) -> Fence:
        """Return the guard's state after it copied the store's generation ``number`` into a new one, not yet claimed.

        The copy is of use for as long as that generation is in force.
        """
        return replace(self, built_from=number)

    def after_claim(self, number: int | None = None) -> Fence:
        """Return the guard's state after it tried to claim generation ``number``; the next evidence shows whether it
        succeeded.
        """
        return replace(self, built_from=None)

    def after_admission(self, number: int) -> Fence:
        """Return the guard's state after it let its broker open the store's generation ``number``."""
        return replace(self, serves=number)


@dataclass(frozen=True)
class CommandFence:
    """The state of a guard that runs the operator's fence command at each take-over, and the rules for its next step.

    Both nodes write into the store as it stands, without generations.

    Invariant: a broker is let into the store only after the broker of the claim before is known to be dead (its own
    guard left a record of it, the operator's command ended it, or a person says so), and after a look that showed this
    guard's claim as the highest. A claim serves one start of a broker and is never used again, so whoever claims next
    makes sure first that this one is dead, frozen or not.

    ``node``: this guard's own; a guard starts only when every earlier broker of its node is dead. ``tried``: the number
    that this guard tried to claim last. ``serves``: the claim under which the broker was let in, None while it waits.
    """

    node: str
    tried: int | None = None
    serves: int | None = None

    def next_step(self, evidence: FenceEvidence) -> GuardStep:
        """Return the next step of the guard, decided from its evidence and what it did before.

        The caller carries the step out, notes it with an ``after_`` method, and gathers evidence again.
        """
        if self.serves is not None:
            return _keep_serving(evidence, self.serves)
        if not evidence.holds_lock:
            return GuardStep(Action.WAIT, evidence.number)
        # A broker without a guard holds the lock of the store itself, which no claim speaks of.
        claimant = evidence.highest.node if evidence.highest else ""
        if claimant == self.node and evidence.number == self.tried:
            return GuardStep(Action.ADMIT, evidence.number)
        if claimant in ("", self.node) or evidence.has_ended:
            return GuardStep(Action.CLAIM, evidence.number + 1)
        return GuardStep(Action.FENCE, evidence.number)

    def after_claim(self, number: int | None = None) -> CommandFence:
        """Return the guard's state after it tried to make claim ``number``; the next evidence shows whether it
        succeeded.
        """
        return replace(self, tried=number)

    def after_admission(self, number: int) -> CommandFence:
        """Return the guard's state after it let its broker open the store by claim ``number``."""
        return replace(self, serves=number)


def _keep_serving(evidence: FenceEvidence, number: int) -> GuardStep:
    if evidence.number != number:
        now = f"generation {evidence.number} was claimed" if evidence.highest else "the claims cannot be read"
        return GuardStep(Action.END, number, f"generation {number} is no longer in force: {now}")
    if not evidence.holds_lock:
        return GuardStep(Action.END, number, "the pair's lock is lost")
    return GuardStep(Action.STAY, number)
