# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Determines which brokers of a pair can write to the store in force, and so how many masters the pair has.

An open port only shows that a broker answers clients. A broker that continues after a freeze also answers them. With a
guard it does no harm, because it can write only to a generation that a later claim has replaced.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..kahadb.index import is_store_file
from .shared_store import (
    FenceError,
    SharedStore,
    claimant_name_of_this_machine,
    parse_generation_number,
    shared_store_directory,
)

_NEWEST = 200


@dataclass(frozen=True)
class WritableAndNewestGenerationNumbers:
    """The number of the shared store's generation that a broker can write to, and the number of the newest one.

    A generation is a copy of the store. ``writable`` is the generation that the broker can write to, ``newest`` the
    newest generation of the store. Each takeover makes a generation. 0 is the store itself, without generations.
    ``writable`` is None for a broker that has no file of the store open; ``newest`` is None if the newest number cannot
    be read.
    """

    writable: int | None
    newest: int | None


def brokers_writing_newest_generation(accesses: Mapping[str, WritableAndNewestGenerationNumbers]) -> list[str]:
    """Return the names of the brokers of a pair that write to the newest generation (copy) of its shared store.

    They have its files open. Two names mean two masters.
    """
    newest = max((access.newest for access in accesses.values() if access.newest is not None), default=None)
    return sorted(host for host, access in accesses.items() if newest is not None and access.writable == newest)


def two_masters_message(accesses: Mapping[str, WritableAndNewestGenerationNumbers]) -> str:
    """Return a message that a pair has two masters; empty if it has not.

    The message names both. Both can write to the store's newest generation.
    """
    writers = brokers_writing_newest_generation(accesses)
    if len(writers) < 2:
        return ""
    return f"the brokers {' and '.join(writers)} can both write to the current files of their shared store"


def writable_generation_number(open_file_paths: Iterable[str], store: str) -> int | None:
    """Return the number of the generation (copy of the store) that a process has open and can therefore write to.

    It is computed from the paths of the process's open files, without access to the file system. Returns 0 if the
    process has files of the store itself open, None if it has no file of the store open.
    """
    directories = {os.path.dirname(path) for path in open_file_paths if is_store_file(os.path.basename(path))}
    numbers = [
        parse_generation_number(os.path.basename(directory))
        for directory in directories
        if os.path.basename(os.path.dirname(directory)) == "generations"
    ]
    store_name = os.path.basename(os.path.normpath(store))
    is_in_place = any(os.path.basename(directory) == store_name for directory in directories)
    return max(numbers, default=0 if is_in_place else None)


def newest_claimed_generation_number(store: str) -> int | None:
    """Return the number of the newest generation (copy of a shared store) that a node has claimed.

    Returns 0 without generations, None for a broken claim. Raises OSError.
    """
    shared = SharedStore(store)
    try:
        highest = shared.highest_claim()
    except FileNotFoundError:
        return 0
    except FenceError:
        return None
    return highest.number if highest and shared.generation_directory_path(highest.directory) != shared.directory else 0


def current_store_directory(store: str) -> str:
    """Return the directory with the current kahaDB files of a store.

    ``store`` is the path in a broker's configuration. With a guard this is the generation in force, whatever the target
    of the guard's link. Raises OSError, FenceError.
    """
    directory = shared_store_directory(store)
    if directory == store:
        return store
    shared = SharedStore(directory)
    highest = shared.highest_claim()
    return shared.generation_directory_path(highest.directory) if highest else directory


def recent_generations_made_by_host(store: str, guard_state_directory: str) -> list[dict[str, Any]]:
    """Return a list of the generations that a guard of this host made, among the newest 200 claims of a shared store.

    Generations are copies of the store. Each is a dict with its ``number`` and the time ``made`` in seconds since the
    epoch; the oldest is first. A guard is the process that starts a broker and fences its store;
    ``guard_state_directory`` is its directory on the host's own disk. Empty where no guard has run. Raises OSError.
    """
    shared = SharedStore(store)
    made = []
    with contextlib.suppress(FileNotFoundError, FenceError):
        node, highest = claimant_name_of_this_machine(guard_state_directory), shared.highest_claim()
        newest = highest.number if highest else 0
        for number in range(max(1, newest - _NEWEST), newest + 1):
            claim, claim_record = shared.read_claim_and_details(number)
            if claim.node == node and "made" in claim_record:
                made.append({"number": number, "made": claim_record["made"]})
    return made
