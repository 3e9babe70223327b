# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Determines which brokers of a pair can write to the store in force, and so how many masters the pair has.

An open port only shows that a broker answers clients. A broker that continues after a freeze also answers them. With a
guard it does no harm, because it can write only to a generation that a later claim has replaced.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..kahadb.index import is_store_file
from .shared_store import (
    FenceError,
    SharedStore,
    generation_number_or_zero,
)


@dataclass(frozen=True)
class WritableAndNewestGenerationNumbers:
    """The numbers of two generations (copies) of a shared store: that which a broker can write to, and the newest one.

    ``writable`` is the generation that the broker can write to, ``newest`` the newest generation of the store. Each
    takeover makes a generation. 0 is the store itself, without generations. ``writable`` is None for a broker that has
    no file of the store open; ``newest`` is None if the newest number cannot be read.
    """

    writable: int | None
    newest: int | None


def newest_generation_number(accesses: Mapping[str, WritableAndNewestGenerationNumbers]) -> int | None:
    """Return the number of the newest generation (copy) of the shared store of a pair; None if it cannot be read.

    A host whose share is not mounted any more reads an older number than that of the generation that its broker uses.
    """
    readable = [access.newest for access in accesses.values() if access.newest is not None]
    writable = [access.writable for access in accesses.values() if access.writable is not None]
    return max(readable + writable) if readable else None


def brokers_writing_newest_generation(accesses: Mapping[str, WritableAndNewestGenerationNumbers]) -> list[str]:
    """Return the sorted names of the brokers that can write to the newest copy (generation) of a pair's shared store.

    They have its files open. Two names mean two masters.
    """
    newest = newest_generation_number(accesses)
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
        generation_number_or_zero(os.path.basename(directory))
        for directory in directories
        if os.path.basename(os.path.dirname(directory)) == "generations"
    ]
    store_name = os.path.basename(os.path.normpath(store))
    is_in_place = any(os.path.basename(directory) == store_name for directory in directories)
    return max(numbers, default=0 if is_in_place else None)


def newest_claimed_generation_number(store: str) -> int | None:
    """Return the number of the newest copy (generation) of a shared store that a takeover by any node created.

    Returns 0 without generations, None for a broken claim. Raises OSError; FenceError for root if another account can
    change the store.
    """
    shared = SharedStore(store)
    try:
        highest = shared.highest_claim()
    except FileNotFoundError:
        return 0
    except FenceError:
        return None
    return highest.number if highest and shared.generation_directory_path(highest.directory) != shared.directory else 0
