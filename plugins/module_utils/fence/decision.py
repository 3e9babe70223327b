# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Decides what a guard does next, from what it sees on the shared store. Pure: it opens no file and no process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


@dataclass(frozen=True)
class Claim:
    """One line of the store's history: who made which generation. Numbers count from 1, without a gap.

    ``node`` names the host whose guard claimed, for good. ``directory`` is the generation's, below the store.
    """

    number: int
    node: str
    directory: str


@dataclass(frozen=True)
class Look:
    """What a guard sees at one moment. What it cannot see in time counts as not held.

    ``highest`` is the claim with the highest number, None on a store that nobody has claimed yet.
    """

    holds_lock: bool
    highest: Claim | None

    @property
    def number(self) -> int:
        """The number of the highest claim, 0 where there is none."""
        return self.highest.number if self.highest else 0


class Action(Enum):
    """The next step of a guard."""

    WAIT = "try to get the pair's lock"
    BUILD = "make a generation from the one in force"
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
            return self._keep_serving(look, self.serves)
        if not look.holds_lock:
            return Step(Action.WAIT, look.number)
        if look.highest and look.highest.node == self.node:
            return Step(Action.ADMIT, look.number)
        if self.built_from == look.number:
            return Step(Action.CLAIM, look.number + 1)
        return Step(Action.BUILD, look.number)

    def _keep_serving(self, look: Look, number: int) -> Step:
        if look.number != number:
            now = f"generation {look.number} was claimed" if look.highest else "the claims cannot be seen"
            return Step(Action.END, number, f"generation {number} is no longer in force: {now}")
        if not look.holds_lock:
            return Step(Action.END, number, "the pair's lock is lost")
        return Step(Action.STAY, number)

    def built(self, number: int) -> Fence:
        """Note that a generation was made from ``number``. Another is made once another number is in force."""
        return replace(self, built_from=number)

    def claimed(self) -> Fence:
        """Note that a claim was tried. The next look tells whether it was made, and is the highest still."""
        return replace(self, built_from=None)

    def admitted(self, number: int) -> Fence:
        """Note that the broker was let into a generation."""
        return replace(self, serves=number)
