# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Performs all writes of an installation; each change is durable when its function returns.

Installations write only through this module and ``new_files``: the tests simulate a power failure before each call.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .new_files import Owner, replace_file, sync_directory, write_new_file
from .untrusted_paths import open_directory

__all__ = [
    "Owner",
    "directory_lock",
    "ensure_directory",
    "remove_file_or_link",
    "remove_tree_or_file",
    "rename_within_parent_and_sync",
    "replace_file",
    "set_symlink_target",
    "sync_directory",
    "write_new_file",
]


def ensure_directory(path: str, mode: int, owner: Owner) -> None:
    """Create a directory with a mode and owner, or set mode and owner of the existing directory.

    Raises UntrustedPathError for a link that another account could have created, OSError.
    """
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    with open_directory(path) as directory:
        owner.give(directory.descriptor)
        if stat.S_IMODE(directory.directory_status().st_mode) != mode:
            os.fchmod(directory.descriptor, mode)


def rename_within_parent_and_sync(source: str, target: str) -> None:
    """Rename a file or directory to another path in the same parent directory, and sync the parent to the disk."""
    os.rename(source, target)
    sync_directory(os.path.dirname(target))


def set_symlink_target(link: str, target: str) -> None:
    """Create a symbolic link to ``target``, or replace the link atomically, so that it is never missing."""
    temporary = link + ".new"
    remove_file_or_link(temporary)
    os.symlink(target, temporary)
    os.rename(temporary, link)
    sync_directory(os.path.dirname(link))


def remove_file_or_link(path: str) -> None:
    """Remove a file or symbolic link, if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def remove_tree_or_file(path: str) -> None:
    """Remove a directory with its content, or a file."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        remove_file_or_link(path)


@contextmanager
def directory_lock(directory: str) -> Iterator[None]:
    """Hold an exclusive lock (``flock``) on a directory within a ``with`` block.

    With it, installations of one broker do not run in parallel.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
