# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Builds, installs and removes the guard's program, one file that the host's Python runs."""

from __future__ import annotations

import os

from ..files import disk
from ..install.program_archive import PROGRAM_MODE, is_program_installed, pack_program
from . import guard_cli


def guard_program_content(python: str) -> bytes:
    """Return the content of the executable file of the guard, which starts a broker and fences its store.

    ``python`` is the interpreter that runs it.
    """
    return pack_program(guard_cli, python)


def guard_program_path(directory: str, instance: str) -> str:
    """Return the path of the guard program (a broker's parent process) in a directory: ``DIRECTORY/INSTANCE-guard``."""
    return os.path.join(directory, f"{instance}-guard")


def install_or_remove_guard(path: str, python: str, *, is_required: bool, check: bool = False) -> bool:
    """Install the guard program, which starts a broker and fences its store, if ``is_required``; otherwise remove it.

    Returns whether the file was changed; in check mode, whether it would be changed. ``python`` is the interpreter that
    runs the program. Raises OSError.
    """
    if is_required:
        return install_executable(path, guard_program_content(python), check=check)
    return remove_executable(path, check=check)


def install_executable(path: str, content: bytes, *, check: bool = False) -> bool:
    """Install an executable file with the given content, or repair its content or mode.

    Returns whether the file was changed; in check mode, whether it would be changed. Raises OSError. A running guard
    keeps the program that it was started with.
    """
    if is_program_installed(path, content):
        return False
    if not check:
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        disk.replace_file(path, content, PROGRAM_MODE)
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
