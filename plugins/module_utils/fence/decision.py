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
    """One line of the store's history: who made which generation. Numbers count from 1, without a gap.

    ``node`` names the host whose guard claimed, for good; it is empty for what brokers without a guard wrote.
    ``directory`` is the generation's, below the store.
    """

    number: int
    node: str
    directory: str

    @property
    def is_in_place(self) -> bool:
        """True for a claim of the store's own files, which are no generation."""
        return self.directory.endswith(f"-{IN_PLACE}")


def claim_in_place(number: int, node: str) -> Claim:
    """Return a claim of the store as it stands. Its directory is where its files go once a generation follows."""
    return Claim(number, node, f"{number}-{IN_PLACE}")


@dataclass(frozen=True)
class Look:
    """What a guard sees at one moment. What it cannot see in time counts as not held.

    ``highest`` is the claim with the highest number, None on a store that nobody has claimed yet. ``has_ended``: its
    broker is known to be dead.
    """

    holds_lock: bool
    highest: Claim | None
    has_ended: bool = False

    @property
    def number(self) -> int:
        """The number of the highest claim, 0 where there is none."""
        return self.highest.number if self.highest else 0


class Action(Enum):
    """The next step of a guard."""

    WAIT = "try to get the pair's lock"
    BUILD = "make a generation from the one in force"
    FENCE = "make sure that the broker of the other node is dead"
    CLAIM = "claim the number after the one in force, for the generation that was made"
    ADMIT = "let the waiting broker into the generation in force"
    STAY = "look again"
    END = "kill the broker"


@dataclass(frozen=True)
class Step:
    """An action, and the number it is about: of the generation to build from, to claim, or to let the broker into."""

    action: Action
    number: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Fence:
    """What the guard of one node knows, and its decisions.

    Invariant: a generation is only ever written by brokers of the node that claimed it, one at a time, and a broker
    is let into a generation only after a look that showed its claim as the highest. Claiming is an exclusive
    creation of the next number, so there is one line of generations, and each is made from the one before it. So a
    broker that runs on without its guard's leave (frozen, cut off, its lock given to the other node) can write only
    into a generation that a later claim has replaced, and what is in force has one writer.

    The pair's lock only says whose turn it is to try. Two guards that both believe to hold it are harmless: one of
    them gets the next number.

    ``node``: this guard's own. A guard starts only when every earlier broker of its node is dead, so a claim of the
    node is one that no other broker serves from. ``built_from``: the generation from which the next was made and not
    yet claimed. ``serves``: the generation that the broker was let into, None while it waits.
    """

    node: str
    built_from: int | None = None
    serves: int | None = None

    def next(self, look: Look) -> Step:
        """Return the next step, for the caller to carry out, to note here, and to look again."""
        if self.serves is not None:
            return _keep_serving(look, self.serves)
        if not look.holds_lock:
            return Step(Action.WAIT, look.number)
        if look.highest and look.highest.node == self.node and not look.highest.is_in_place:
            return Step(Action.ADMIT, look.number)
        if self.built_from == look.number:
            return Step(Action.CLAIM, look.number + 1)
        return Step(Action.BUILD, look.number)

    def built(self, number: int) -> Fence:
        """Return what is known once a generation was made from ``number``, for as long as that is in force."""
        return replace(self, built_from=number)

    def claimed(self, number: int | None = None) -> Fence:
        """Return what is known once a claim of ``number`` was tried: the next look tells whether it was made."""
        return replace(self, built_from=None)

    def admitted(self, number: int) -> Fence:
        """Return what is known once the broker was let into generation ``number``."""
        return replace(self, serves=number)


@dataclass(frozen=True)
class CommandFence:
    """What the guard of one node knows, and its decisions, where both nodes write into the store as it stands.

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

    def next(self, look: Look) -> Step:
        """Return the next step, for the caller to carry out, to note here, and to look again."""
        if self.serves is not None:
            return _keep_serving(look, self.serves)
        if not look.holds_lock:
            return Step(Action.WAIT, look.number)
        # A broker without a guard holds the lock of the store itself, which no claim speaks of.
        claimant = look.highest.node if look.highest else ""
        if claimant == self.node and look.number == self.tried:
            return Step(Action.ADMIT, look.number)
        if claimant in ("", self.node) or look.has_ended:
            return Step(Action.CLAIM, look.number + 1)
        return Step(Action.FENCE, look.number)

    def claimed(self, number: int | None = None) -> CommandFence:
        """Return what is known once a claim of ``number`` was tried: the next look tells whether it was made."""
        return replace(self, tried=number)

    def admitted(self, number: int) -> CommandFence:
        """Return what is known once the broker was let into the store by claim ``number``."""
        return replace(self, serves=number)


def _keep_serving(look: Look, number: int) -> Step:
    if look.number != number:
        now = f"generation {look.number} was claimed" if look.highest else "the claims cannot be seen"
        return Step(Action.END, number, f"generation {number} is no longer in force: {now}")
    if not look.holds_lock:
        return Step(Action.END, number, "the pair's lock is lost")
    return Step(Action.STAY, number)
