# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Creates files, and replaces files atomically: a reader sees the old content or the new one, never a part.

A new file is created exclusively (``O_EXCL``). With a given mode, only its owner can read it until this mode is set.
``directory`` is the descriptor of the directory in which a name is looked up, as in ``dir_fd`` of the module os.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

_NEW_FILE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


@dataclass(frozen=True)
class Owner:
    """The numeric uid and gid to set on a file or directory; -1 keeps its current uid or gid."""

    uid: int = -1
    gid: int = -1

    def fits(self, status: os.stat_result) -> bool:
        return self.uid in (-1, status.st_uid) and self.gid in (-1, status.st_gid)

    def give(self, descriptor: int) -> None:
        if (self.uid, self.gid) != (-1, -1) and not self.fits(os.fstat(descriptor)):
            os.fchown(descriptor, self.uid, self.gid)


def create_and_open_file(
    path: str, content: bytes = b"", mode: int | None = 0o600, owner: Owner = Owner(), *, directory: int | None = None
) -> int:
    """Create a new file with content, mode and owner, and return its descriptor.

    Without ``mode``, the file's mode follows the umask. The file is open for reading and writing. Raises
    FileExistsError if the name exists, also as a dangling link; OSError.
    """
    descriptor = os.open(path, _NEW_FILE_FLAGS, 0o666 if mode is None else 0o600, dir_fd=directory)
    try:
        owner.give(descriptor)
        if mode is not None:
            os.fchmod(descriptor, mode & 0o777)
        unwritten = memoryview(content)
        while unwritten:
            unwritten = unwritten[os.write(descriptor, unwritten) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_new_file(
    path: str, content: bytes, mode: int, owner: Owner = Owner(), *, directory: int | None = None, durable: bool = True
) -> None:
    """Create a file with content, mode and owner; raise FileExistsError if the path exists already.

    ``durable``: sync it to the disk. Raises OSError.
    """
    descriptor = create_and_open_file(path, content, mode, owner, directory=directory)
    try:
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(
    path: str,
    content: bytes,
    mode: int,
    *,
    directory: int | None = None,
    temporary: str | None = None,
    durable: bool = True,
) -> None:
    """Replace a file atomically by a new one with the given content and mode.

    ``temporary`` is the name of the new file before the rename, by default ``path`` with ``.new``; an existing file of
    that name is removed. Concurrent writers require different names. ``durable``: sync the file before the rename, and
    its name after the rename. After an OSError the old file is unchanged.
    """
    temporary = temporary or f"{path}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=directory)
    try:
        write_new_file(temporary, content, mode, directory=directory, durable=durable)
        os.rename(temporary, path, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    if durable:
        if directory is None:
            sync_directory(os.path.dirname(path))
        else:
            os.fsync(directory)


def sync_directory(path: str) -> None:
    """Sync the entries of a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
