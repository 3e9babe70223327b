# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Makes every change of an installation to a disk, each durable when its function returns.

Nothing else writes: the tests cut the power before each call that this module makes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from .untrusted_paths import open_directory


@dataclass(frozen=True)
class Owner:
    """The numeric owner and group for a file; -1 keeps a present id."""

    uid: int = -1
    gid: int = -1

    def fits(self, status: os.stat_result) -> bool:
        return self.uid in (-1, status.st_uid) and self.gid in (-1, status.st_gid)

    def give(self, descriptor: int) -> None:
        if not self.fits(os.fstat(descriptor)):
            os.fchown(descriptor, self.uid, self.gid)


def make_directory(path: str, mode: int, owner: Owner) -> None:
    """Create a directory, or set mode and owner of an existing directory.

    Raises UntrustedPathError for a link that another account could have put there, OSError.
    """
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    with open_directory(path) as directory:
        owner.give(directory.descriptor)
        if stat.S_IMODE(directory.own_status().st_mode) != mode:
            os.fchmod(directory.descriptor, mode)


def write_file(path: str, content: bytes, mode: int, owner: Owner) -> None:
    """Create a file with owner and mode, write its content, and sync it to the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        owner.give(descriptor)
        os.fchmod(descriptor, mode)
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: str, content: bytes, mode: int) -> None:
    """Replace a file by a new one with the given content and mode, in one rename, and sync it."""
    temporary = path + ".new"
    remove(temporary)
    write_file(temporary, content, mode, Owner())
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Sync the names in a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(source: str, target: str) -> None:
    """Rename a file or directory within its parent directory, and sync the parent."""
    os.rename(source, target)
    sync_directory(os.path.dirname(target))


def point_link(link: str, target: str) -> None:
    """Make the symbolic link ``link`` point to ``target``, by one rename: the link never dangles or is missing."""
    temporary = link + ".new"
    remove(temporary)
    os.symlink(target, temporary)
    os.rename(temporary, link)
    sync_directory(os.path.dirname(link))


def remove(path: str) -> None:
    """Remove a file or link, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def remove_tree(path: str) -> None:
    """Remove a directory with all that is in it, or a file."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        remove(path)


@contextmanager
def directory_lock(directory: str) -> Iterator[None]:
    """Hold a directory's lock within a ``with`` block, so that two installations of one broker take turns."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
