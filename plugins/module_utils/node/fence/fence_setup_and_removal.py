# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Sets up the fence on an existing store of brokers without a guard, and removes the fence again (``--unfence``)."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..files import disk
from ..kahadb.index import is_store_file
from ..kahadb.kept_index import KeptIndex
from .decision import claim_without_store_copy
from .generation import copy_store_into_new_generation
from .old_generations import remove_and_describe_old_store_copies
from .shared_store import BARRIER, FenceError, SharedStore

_BUILDER = "unfence"
_NODES = 2


@dataclass(frozen=True)
class FenceRemovalOutcome:
    """The outcome of the removal of a shared store's fence.

    ``changed``: whether the store had a fence. ``sentences`` report what was done.
    """

    changed: bool
    sentences: tuple[str, ...]


def record_guard_start(store: SharedStore, node: str) -> bool:
    """Record in a shared store that the guard of a node, the parent process that fences the node's broker, has started.

    A guard is the process that starts a broker and fences its store. Returns whether guards of both nodes have started.
    A node whose guard has started no longer runs a broker without a guard.
    """
    nodes = os.path.join(store.directory, "fence", "nodes")
    os.makedirs(nodes, 0o750, exist_ok=True)
    path = os.path.join(nodes, node)
    if not os.path.exists(path):
        disk.replace_file(path, b"", 0o640)
    return len([name for name in os.listdir(nodes) if not name.startswith(".")]) >= _NODES


def claim_existing_store(store: SharedStore) -> bool:
    """Create the first takeover record (claim) of a shared store, for kahaDB files that brokers wrote without a guard.

    The record is the claim with number 1. Returns False, and records nothing, if the store has no files.
    """
    if not _files_of(store):
        return False
    store.create_claim(claim_without_store_copy(1, ""), {"found": time.time()})
    return True


def move_files_into_generation(store: SharedStore, number: int) -> None:
    """Move the kahaDB files at the top of a shared store to the directory named by an earlier takeover record (claim).

    This is done once a generation (a copy of the store) is claimed. A broker that still has these files open continues
    to write to them there, but they are read only to list its messages. The kept copy of their index is deleted. Raises
    FenceError for files that no claim names, OSError.
    """
    names = _files_of(store)
    if names:
        _move_into_last_claimed_directory(store, number, names)
    # The new generation has its own copy of the index. This one would keep data files that no broker uses any more.
    KeptIndex(store.directory).delete_kept_index_directory()


def _move_into_last_claimed_directory(store: SharedStore, number: int, names: Sequence[str]) -> None:
    claims = (
        store.read_claim_and_details(earlier)[0] for earlier in reversed(store.claim_numbers()) if earlier < number
    )
    claim = next((claim for claim in claims if not claim.is_claim_on_store_copy), None)
    if claim is None:
        raise FenceError(
            f"the store directory {store.directory} contains the file {names[0]}. Because activemq_fence is guard, "
            f"the brokers read only the files in {store.generations}, and do not deliver the messages in this file. "
            "Move this file to a different directory, and keep it until you know that its messages are not needed"
        )
    target = os.path.join(store.generations, claim.directory)
    os.makedirs(target, 0o750, exist_ok=True)
    for name in names:
        os.rename(os.path.join(store.directory, name), os.path.join(target, name))
    disk.sync_directory(target)
    disk.sync_directory(store.directory)


def unfence_store(directory: str) -> FenceRemovalOutcome:
    """Remove the fence, the protection against two writers, of a shared store; brokers can then start without a guard.

    Returns what was done. A guard is the process that starts a broker and fences its store. The newest generation is
    moved to the top directory. Brokers and guards must be stopped on both hosts. An interrupted call can be repeated.
    Messages that only an old generation has stay there. Raises FenceError while a guard holds the pair's lock, OSError.
    """
    store = SharedStore(directory)
    if not os.path.isdir(os.path.join(directory, BARRIER)):
        return FenceRemovalOutcome(False, (f"the store {directory} has no fence, so nothing was changed",))
    if not store.try_to_acquire_pair_lock(secrets.token_hex(16)):
        raise FenceError(
            f"the fence of the store {directory} was not removed, because the guard of a node still holds the "
            "lock of this store: stop the brokers' service units on both nodes, and run the command again"
        )
    try:
        actions = _put_in_place(store)
        for number in store.generation_names_by_number():
            if not store.is_broker_recorded_dead(number):
                store.record_broker_dead(number)
        actions += remove_and_describe_old_store_copies(store)
        # Guards that start later record again which nodes have a guard.
        disk.remove_tree_or_file(os.path.join(directory, "fence", "nodes"))
        store.unblock_unguarded_brokers()
    finally:
        store.release_pair_lock()
    return FenceRemovalOutcome(True, tuple(actions))


def _put_in_place(store: SharedStore) -> list[str]:
    highest = store.highest_claim()
    if highest is None or not highest.is_claim_on_store_copy:
        return []
    building = store.unclaimed_copy_path(_BUILDER)
    made = copy_store_into_new_generation(store.generation_directory_path(highest.directory), building)
    names = sorted(os.listdir(building))
    _set_aside(store, {*_files_of(store), *names} & {*os.listdir(store.directory)})
    for name in names:
        os.rename(os.path.join(building, name), os.path.join(store.directory, name))
    disk.sync_directory(store.directory)
    store.create_claim(claim_without_store_copy(highest.number + 1, ""), made.to_dict())
    store.sync_claims()
    disk.remove_tree_or_file(building)
    return [
        f"the store {store.directory} can now be used without activemq_fence. It contains the files of generation "
        f"{highest.number}, the copy of the store that the last takeover created"
    ]


def _set_aside(store: SharedStore, names: Iterable[str]) -> None:
    """Move files and directories from the store's own directory to a new directory ``set-aside-…`` in it.

    They are of an interrupted run, or of a broker that continued after a freeze: no claim names them. Without names no
    directory is created.
    """
    aside = os.path.join(store.directory, f"set-aside-{time.time_ns()}")
    for name in sorted(names):
        os.makedirs(aside, 0o750, exist_ok=True)
        os.rename(os.path.join(store.directory, name), os.path.join(aside, name))


def _files_of(store: SharedStore) -> list[str]:
    """Return the names of the kahaDB files in the store's own directory."""
    return sorted(name for name in os.listdir(store.directory) if is_store_file(name))
