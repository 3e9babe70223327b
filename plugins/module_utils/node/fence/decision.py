# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Decides the next step of a guard from its evidence about the shared store. Pure: it opens no file and no process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

IN_PLACE = "00000000"
"""The suffix of the directory name in a claim of the store's own directory, without generations."""


@dataclass(frozen=True)
class StoreClaim:
    """A claim on a shared store: the record that a node took over as the store's only writer.

    The node uses ``directory`` of the store since then. Claims have consecutive numbers from 1; the records of old
    claims may have been removed. A takeover may create a generation: a directory with a copy of the store's files, to
    which only the broker of the claim writes. ``node`` is the permanent name of the host whose guard made the claim; it
    is empty for files that brokers without a guard wrote. ``directory`` is the name of the generation's directory in
    the store.
    """

    number: int
    node: str
    directory: str

    @property
    def is_claim_on_store_copy(self) -> bool:
        """Whether the node of a claim (takeover record) writes to a copy of the shared store, not to the original."""
        return not self.directory.endswith(f"-{IN_PLACE}")


def claim_without_store_copy(number: int, node: str) -> StoreClaim:
    """Return the claim (takeover record) of a node that writes to the shared store's own directory, not to a copy.

    The files are moved to the claim's ``directory`` when a generation (a copy of the store) follows.
    """
    return StoreClaim(number, node, f"{number}-{IN_PLACE}")


@dataclass(frozen=True)
class FenceEvidence:
    """Observations by which a guard (broker's parent process) decides on a shared store: its lock and newest takeover.

    A guard is the process that starts a broker and fences its store. The evidence is whether the guard holds the pair's
    lock, and the newest claim. All observations are of one moment. A lock that cannot be checked in time counts as not
    held.

    ``highest`` is the claim with the highest number, None for a store without claims. ``has_ended``: the broker of this
    claim is recorded as dead, and no other broker will use this claim.
    """

    holds_lock: bool
    highest: StoreClaim | None
    has_ended: bool = False

    @property
    def newest_claim_number(self) -> int:
        """The number of the newest claim, the record of which node may write a shared store; 0 without a claim."""
        return self.highest.number if self.highest else 0


class GuardAction(Enum):
    """An action of a guard (broker's parent process), such as to copy or claim a shared store, or kill the broker."""

    WAIT = "acquire the lock of the pair's store"
    BUILD = "copy the store for a takeover"
    FENCE = "make sure that the broker of the other node is dead"
    CLAIM = "take over the store"
    ADMIT = "let the waiting broker open the store"
    STAY = "check the store"
    END = "kill the broker"


@dataclass(frozen=True)
class GuardStep:
    """The next action of a guard (broker's parent process) on a shared store, and the store copy that it concerns.

    The guard is the process that starts a broker. It copies, claims or opens that generation. ``reason`` is the reason
    to kill the broker.
    """

    action: GuardAction
    number: int = 0
    reason: str = ""


@dataclass(frozen=True)
class StoreCopyingGuardState:
    """The state of a guard (broker's parent process) that copies a pair's shared store at each takeover of the store.

    The guard, which starts the broker, decides its next step by this state. Invariant: only brokers of the node that
    claimed a generation (a numbered copy) write to it, one at a time. A broker may open a generation only after a check
    showed that its claim is the highest and that its end is not recorded. A guard claims a generation by the exclusive
    creation of the next number, so generations form one sequence, and each is made from its predecessor. A broker that
    continues without permission (it was frozen or disconnected, or the other node got its lock) can write only to a
    generation that a later claim has replaced. The generation in force has one writer.

    The pair's lock only determines which guard tries next. Two guards that both believe that they hold the lock do no
    harm: only one of them gets the next number.

    After the end of a generation is recorded, no node writes to it again. Its files are therefore hard-linked into the
    next generation instead of copied.

    ``node``: the name of this guard's node. A guard starts only when every earlier broker of its node is dead, so a
    broker serves only from a claim of this guard whose end is not recorded. ``built_from``: the generation from which
    the next one was made, but not yet claimed. ``serves``: the generation that the broker may open, None while the
    broker waits.
    """

    node: str
    built_from: int | None = None
    serves: int | None = None

    def next_guard_step(self, evidence: FenceEvidence) -> GuardStep:
        """Return the next action of a guard (broker's parent process) on its shared store, such as copy or claim it.

        The caller executes the step, records it with a ``guard_state_after_`` method, and gathers evidence again.
        """
        if self.serves is not None:
            return _keep_serving(evidence, self.serves)
        if not evidence.holds_lock:
            return GuardStep(GuardAction.WAIT, evidence.newest_claim_number)
        claim = evidence.highest
        if claim and claim.node == self.node and claim.is_claim_on_store_copy and not evidence.has_ended:
            return GuardStep(GuardAction.ADMIT, evidence.newest_claim_number)
        if self.built_from == evidence.newest_claim_number:
            return GuardStep(GuardAction.CLAIM, evidence.newest_claim_number + 1)
        return GuardStep(GuardAction.BUILD, evidence.newest_claim_number)

    def guard_state_after_copying_generation(self, source_number: int) -> StoreCopyingGuardState:
        """Return the next state of a guard (broker's parent process) that copied the shared store for a takeover.

        Generations are numbered copies of the store. The new one is not yet claimed, and has no number. It is usable as
        long as generation ``source_number`` is in force.
        """
        return replace(self, built_from=source_number)

    def guard_state_after_claim_attempt(self, number: int | None = None) -> StoreCopyingGuardState:
        """Return the next state of a guard (broker's parent process) that tried to record its takeover of a store copy.

        Generations are numbered copies of the store. The state is the same for a successful and a failed attempt, and
        does not depend on ``number``: the guard has no unclaimed copy any more. The next evidence shows whether the
        claim succeeded.
        """
        return replace(self, built_from=None)

    def guard_state_after_granting_access(self, number: int) -> StoreCopyingGuardState:
        """Return the next state of a guard (broker's parent process) that permits its broker to open a store copy.

        The generations are the numbered copies of the store. The broker waited until the guard granted the access.
        """
        return replace(self, serves=number)


@dataclass(frozen=True)
class FenceCommandGuardState:
    """The state of a guard (broker's parent process) that runs the operator's fence command for takeovers of a store.

    The guard, which starts the broker, decides its next step by this state. The command terminates the peer's broker.
    Both nodes write to the store's own directory, without generations.

    Invariant: a broker may open the store only after two checks. The broker of the previous claim is known to be dead:
    its guard recorded that, the fence command terminated it, or an operator confirmed it. This guard's claim is the
    highest. A claim is valid for one start of a broker, so the next guard first makes sure that the broker of this
    claim is dead, even if it is frozen.

    ``node``: the name of this guard's node; a guard starts only when every earlier broker of its node is dead.
    ``tried``: the number that this guard last tried to claim. ``serves``: the claim by which the broker opened the
    store, None while the broker waits.
    """

    node: str
    tried: int | None = None
    serves: int | None = None

    def next_guard_step(self, evidence: FenceEvidence) -> GuardStep:
        """Return the next action of a guard (broker's parent process) on its shared store, such as fence or claim it.

        The caller executes the step, records it with a ``guard_state_after_`` method, and gathers evidence again.
        """
        if self.serves is not None:
            return _keep_serving(evidence, self.serves)
        if not evidence.holds_lock:
            return GuardStep(GuardAction.WAIT, evidence.newest_claim_number)
        # A broker without a guard holds the lock of the store itself, which claims do not record.
        claimant = evidence.highest.node if evidence.highest else ""
        if claimant == self.node and evidence.newest_claim_number == self.tried:
            return GuardStep(GuardAction.ADMIT, evidence.newest_claim_number)
        if claimant in ("", self.node) or evidence.has_ended:
            return GuardStep(GuardAction.CLAIM, evidence.newest_claim_number + 1)
        return GuardStep(GuardAction.FENCE, evidence.newest_claim_number)

    def guard_state_after_claim_attempt(self, number: int | None = None) -> FenceCommandGuardState:
        """Return the next state of a guard (broker's parent process) that tried to record its takeover of the store.

        The state is the same for a successful and a failed attempt. The next evidence shows whether the claim
        succeeded. Without ``number`` an earlier attempt is forgotten.
        """
        return replace(self, tried=number)

    def guard_state_after_granting_access(self, number: int) -> FenceCommandGuardState:
        """Return the next state of a guard (broker's parent process) that permits its broker to open the store.

        A claim is the record of a takeover of the store by a node. The broker waited until the guard granted the
        access.
        """
        return replace(self, serves=number)


def _keep_serving(evidence: FenceEvidence, number: int) -> GuardStep:
    if evidence.newest_claim_number != number:
        reason = (
            f"the other node took over the store (takeover {evidence.newest_claim_number} replaced takeover {number})"
        )
        if not evidence.highest:
            reason = "the guard cannot determine whether the other node took over the store"
        return GuardStep(GuardAction.END, number, reason)
    if not evidence.holds_lock:
        return GuardStep(GuardAction.END, number, "the guard lost the lock of the pair's store")
    return GuardStep(GuardAction.STAY, number)
