# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Builds, installs and removes the guard's program, one file that the host's Python runs."""

from __future__ import annotations

import os

from ..files import disk
from ..install.program_archive import pack_program
from . import guard_cli


def guard_program(python: str) -> bytes:
    """Return the content of the executable file of the guard, which starts a broker and fences its store.

    ``python`` is the interpreter that runs it.
    """
    return pack_program(guard_cli, python)


def install_executable(path: str, content: bytes, *, check: bool = False) -> bool:
    """Install an executable file with the given content.

    Returns whether the file was changed; in check mode, whether it would be changed. Raises OSError. A running guard
    keeps the program that it was started with.
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


def remove_executable(path: str, *, check: bool = False) -> bool:
    """Remove an executable file, and return whether it existed.

    Check mode removes nothing. Raises OSError.
    """
    if not os.path.lexists(path):
        return False
    if not check:
        disk.remove_file_or_link(path)
    return True
