# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The guard as one file that the host's Python runs, and its installation."""

from __future__ import annotations

import os
from types import ModuleType

from .. import foreign_data, printable
from ..host import untrusted_paths
from ..install import configuration_archive, disk
from ..install.program_archive import pack
from ..kahadb import (
    index,
    index_keeper,
    indexed_subscriptions,
    journal,
    kept_index,
    mending,
    moved_acks,
    moved_subscriptions,
    openwire_message,
    protocol_buffers,
    rebuild_risk,
    remaining_messages,
    risk_records,
)
from . import broker_process, decision, fence_command, generation, guard, in_place, old_generations, shared_store

_PARTS: tuple[ModuleType, ...] = (
    broker_process,
    configuration_archive,
    decision,
    disk,
    fence_command,
    foreign_data,
    generation,
    guard,
    in_place,
    index,
    index_keeper,
    indexed_subscriptions,
    journal,
    kept_index,
    mending,
    moved_acks,
    moved_subscriptions,
    old_generations,
    openwire_message,
    printable,
    protocol_buffers,
    rebuild_risk,
    remaining_messages,
    risk_records,
    shared_store,
    untrusted_paths,
)


def program(python: str) -> bytes:
    """Return the content of the guard's executable file; ``python`` is the interpreter that runs it."""
    return pack(guard, _PARTS, python)


def install(path: str, content: bytes, *, check: bool = False) -> bool:
    """Write an executable file unless it has this content; return whether it was, or would be, changed. Raises OSError.

    A guard that runs keeps the program that it was started with.
    """
    try:
        with open(path, "rb") as file:
            if file.read() == content:
                return False
    except FileNotFoundError:
        pass
    if not check:
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        disk.replace_file(path, content, 0o755)
    return True


def remove(path: str, *, check: bool = False) -> bool:
    """Remove the guard's executable file; return whether it was, or would be, removed. Raises OSError."""
    if not os.path.lexists(path):
        return False
    if not check:
        disk.remove(path)
    return True
