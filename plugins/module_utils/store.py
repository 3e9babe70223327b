# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The marker of a shared store: looked at, written by one node, found by the other."""

from __future__ import annotations

import os
from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils import disk
from ansible_collections.activemq.fleet.plugins.module_utils.archive import InstallError
from ansible_collections.activemq.fleet.plugins.module_utils.deployed import has_messages
from ansible_collections.activemq.fleet.plugins.module_utils.disk import Owner

MARKER = ".activemq-fleet-pair"


def look(directory: str) -> dict[str, Any]:
    """What this host sees. Raises OSError, for instance for a share whose server is away."""
    lines = _read(directory)
    return {
        "exists": os.path.isdir(directory),
        "mounted": _mounted(directory),
        "used": has_messages(directory),
        "marked": lines,
    }


def claim(directory: str, pair: str, word: str, owner: Owner) -> bool:
    """Write the marker of an empty store, with a word for the other node to find.

    The directory itself is made only below a mount point. Returns False when the marker is there
    already. Raises InstallError for a store that may not be claimed.
    """
    seen = look(directory)
    if seen["marked"] is not None:
        return False
    if seen["used"]:
        raise InstallError(f"{directory} holds messages and no marker: it is not claimed")
    if not seen["exists"]:
        if not seen["mounted"]:
            raise InstallError(f"{directory} is not there and nothing is mounted above it: it is not made")
        os.makedirs(os.path.dirname(directory), 0o755, exist_ok=True)
    disk.make_directory(directory, 0o750, owner)
    disk.write_file(os.path.join(directory, MARKER), f"{pair}\n{word}\n".encode(), 0o644, Owner())
    disk.sync_directory(directory)
    return True


def withdraw(directory: str, word: str) -> bool:
    """Take back a marker that this run wrote. Returns False when it was another's."""
    if word not in (_read(directory) or ()):
        return False
    disk.remove(os.path.join(directory, MARKER))
    return True


def _read(directory: str) -> list[str] | None:
    try:
        with open(os.path.join(directory, MARKER), encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _mounted(directory: str) -> bool:
    """Whether the directory, or the nearest one above it that is there, is a mount point other than the root."""
    path = os.path.abspath(directory)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    while path != "/":
        if os.path.ismount(path):
            return True
        path = os.path.dirname(path)
    return False
