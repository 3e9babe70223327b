# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the files of a store as the account of the process, which must be the owner of the store.

Root must not call these functions for another account's store: ``store_copy`` and the modules call them by
``system_accounts.run_as``.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from ..errors import NodeError
from ..files.untrusted_paths import Directory, UntrustedPathError, open_directory
from . import kept_index, risk_records

LOCK = "lock"
PART = ".part"
"""Suffix of a file of a copy that is not complete yet."""
_PIECE_BYTES = 1 << 20
Manifest = typing.Mapping[str, typing.Mapping[str, Any]]


_HOST_DIRECTORIES = frozenset({kept_index.DIRECTORY, risk_records.DIRECTORY})


def store_manifest(store: str) -> dict[str, dict[str, Any]]:
    """Return the size, SHA-256 and mode of each file of a kahaDB store, by its path relative to the store.

    The lock is left out. The kept copy of its index and its risk records belong to the host, and are left out. Raises
    NodeError for anything but regular files and directories, OSError.
    """
    file_attributes = {}
    with open_directory(store) as top:
        for directory, name in top.walk_files_and_links():
            path = os.path.join(directory.path, name)
            relative = os.path.relpath(path, top.path)
            if not _HOST_DIRECTORIES.isdisjoint(relative.split("/")[:-1]):
                continue
            if not stat.S_ISREG(directory.entry_status(name).st_mode):
                raise NodeError(
                    f"the store contains {path}, which is neither a file nor a directory and cannot be copied. "
                    f"Remove {path}, and run the playbook resync again"
                )
            if relative != LOCK:
                descriptor = directory.open_file(name)
                try:
                    status = os.fstat(descriptor)
                    mode = stat.S_IMODE(status.st_mode) & 0o777
                    file_attributes[relative] = {
                        "size": status.st_size,
                        "sha256": sha256_of_open_file(descriptor),
                        "mode": mode,
                    }
                finally:
                    os.close(descriptor)
    return dict(sorted(file_attributes.items()))


def sha256_of_open_file(descriptor: int) -> str:
    """Return the SHA-256 of an open file's whole content, in hexadecimal."""
    digest = hashlib.sha256()
    os.lseek(descriptor, 0, os.SEEK_SET)
    while data := os.read(descriptor, _PIECE_BYTES):
        digest.update(data)
    return digest.hexdigest()


def store_fingerprint(files: Manifest) -> str:
    """Return the fingerprint of a kahaDB store, a hash of the paths, sizes and hashes of its files.

    It has 16 hexadecimal digits.
    """
    text = json.dumps({name: [entry["size"], entry["sha256"]] for name, entry in files.items()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def store_directory_mode(store: str) -> int | None:
    """Return the permission bits of a kahaDB store's directory; None if the directory does not exist."""
    try:
        with open_directory(store) as directory:
            return stat.S_IMODE(directory.directory_status().st_mode) & 0o777
    except FileNotFoundError:
        return None


def is_store_locked(store: str) -> bool:
    """Return whether a broker holds the lock of a kahaDB store.

    The lock is released again if it was free. Raises UntrustedPathError for a lock that is not a regular file, OSError.
    """
    try:
        with open_directory(store) as directory:
            descriptor = directory.open_file(LOCK, write=True)
    except FileNotFoundError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def check_store_not_locked(store: str) -> None:
    """Raise NodeError if a broker holds the lock of a kahaDB store."""
    if is_store_locked(store):
        raise NodeError(f"a running broker holds the lock of the store {store}: stop the broker that uses this store")


def allocated_bytes(store: str) -> int:
    """Return the disk space in bytes that is allocated to a store's files.

    Holes are left out; 0 if the store does not exist.
    """
    total = 0
    with suppress(FileNotFoundError), open_directory(store) as top:
        for directory, name in top.walk_files_and_links():
            with suppress(FileNotFoundError):
                total += directory.entry_status(name).st_blocks * 512
    return total


def copy_unchanged_files_and_return_missing(store: str, staging: str, files: Manifest) -> dict[str, int]:
    """Copy the files that are identical in the old and the new store from the old store into the staging directory.

    The new store is described by the manifest ``files`` of the other node's store. Returns the files that must still be
    transferred, each with its first missing byte. Raises NodeError, OSError.
    """
    incomplete_files: dict[str, int] = {}
    with open_directory(staging) as top:
        for name, entry in files.items():
            with _open_parent_directory(top, name, make=True) as (directory, file_name):
                if _is_complete(directory, file_name, entry):
                    continue
                directory.remove_tree_or_file(file_name)
                if not directory.exists(file_name + PART) and _copy_from_store(
                    store, name, directory, file_name, entry
                ):
                    continue
                if not entry["size"]:
                    directory.write_new_file(file_name, b"", entry["mode"])
                else:
                    incomplete_files[name] = _received_length(directory, file_name + PART, entry["size"])
    return incomplete_files


def append_piece(staging: str, files: Manifest, name: str, offset: int, piece: bytes) -> int:
    """Append a piece of data to a file of the staged copy that is going to replace a kahaDB store.

    Returns the file's new length. The last piece completes the file. Raises NodeError for a piece with a wrong offset,
    or for a file with a wrong checksum.
    """
    entry = files[name]
    with open_directory(staging) as top, _open_parent_directory(top, name) as (directory, file_name):
        length = _received_length(directory, file_name + PART, entry["size"])
        path = os.path.join(staging, name)
        if length != offset:
            raise NodeError(
                f"the copy of the store's file {path} received data from byte {offset}, but expected data "
                f"from byte {length}, so the copy is incomplete: run the playbook resync again"
            )
        with os.fdopen(_open_partial_file(directory, file_name + PART), "r+b") as file:
            file.seek(offset)
            # The end of a data file is preallocated and empty: it stays a hole.
            file.write(piece.rstrip(b"\0"))
            file.truncate(offset + len(piece))
            file.flush()
            if offset + len(piece) == entry["size"]:
                _complete_file(directory, file_name, file.fileno(), entry, path)
    return offset + len(piece)


def read_piece(store: str, name: str, offset: int, file_size: int, length: int) -> bytes:
    """Read at most ``length`` bytes of a file of a kahaDB store, from ``offset`` on, and return them.

    ``file_size`` is the expected size of the whole file. Raises NodeError when the file changed, OSError.
    """
    with open_directory(store) as top, _open_parent_directory(top, name) as (directory, file_name):
        descriptor = directory.open_file(file_name)
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_size != file_size:
            path = os.path.join(store, name)
            raise NodeError(
                f"the store's file {path} changed while it was copied: find the process that writes to it "
                f"(fuser -v {path}), stop this process, and run the playbook resync again"
            )
        file.seek(offset)
        return file.read(length)


def remove_directory_content(path: str) -> None:
    """Remove the content of a directory.

    The directory itself stays. Raises NodeError, OSError.
    """
    with suppress(FileNotFoundError), open_directory(path) as directory:
        directory.remove_content()


@contextmanager
def _open_parent_directory(top: Directory, name: str, make: bool = False) -> Iterator[tuple[Directory, str]]:
    """Context manager: yield the directory of a store that contains a file, and the file's own name.

    ``make``: create missing directories.
    """
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise NodeError(
            f"the file name {name!r} in the copy of the store leads outside of the store's directory, so the file "
            "was not written: run the playbook resync again"
        )
    opened: list[Directory] = []
    current = top
    try:
        for part in parts[:-1]:
            missing = make and not current.exists(part)
            opened.append(
                current.create_and_open_directory(part, 0o750) if missing else current.open_subdirectory(part)
            )
            current = opened[-1]
        yield current, parts[-1]
    finally:
        for directory in opened:
            directory.close()


def _is_complete(directory: Directory, name: str, entry: Mapping[str, Any]) -> bool:
    try:
        descriptor = directory.open_file(name)
    except (FileNotFoundError, UntrustedPathError):
        return False
    try:
        return bool(
            os.fstat(descriptor).st_size == entry["size"] and sha256_of_open_file(descriptor) == entry["sha256"]
        )
    finally:
        os.close(descriptor)


def _copy_from_store(store: str, name: str, directory: Directory, file_name: str, entry: Mapping[str, Any]) -> bool:
    """Copy a file from this host's store into the copy; return False if the store has no identical file."""
    try:
        with open_directory(store) as top, _open_parent_directory(top, name) as (source_directory, source_name):
            if not _is_complete(source_directory, source_name, entry):
                return False
            source = source_directory.open_file(source_name)
    except (FileNotFoundError, UntrustedPathError):
        return False
    with os.fdopen(source, "rb") as old, os.fdopen(directory.create_and_open_file(file_name + PART), "r+b") as new:
        while piece := old.read(_PIECE_BYTES):
            if any(piece):
                new.write(piece)
            else:
                new.seek(len(piece), os.SEEK_CUR)
        new.truncate(entry["size"])
        new.flush()
        _complete_file(directory, file_name, new.fileno(), entry, os.path.join(directory.path, file_name))
    return True


def _open_partial_file(directory: Directory, part: str) -> int:
    """Open or create the incomplete file of a store's copy; return its descriptor.

    A file with a second hard link raises UntrustedPathError.
    """
    descriptor: int
    try:
        descriptor = directory.open_file(part, owners={os.geteuid()}, single_name=True, write=True)
    except FileNotFoundError:
        descriptor = directory.create_and_open_file(part)
    return descriptor


def _received_length(directory: Directory, part: str, size: int) -> int:
    """Return the number of bytes of a store's file that have arrived in the staging directory.

    A file that is too long, or has its full size and was not completed, restarts at 0.
    """
    try:
        descriptor = directory.open_file(part, owners={os.geteuid()}, single_name=True)
    except FileNotFoundError:
        return 0
    except UntrustedPathError:
        directory.remove_tree_or_file(part)
        return 0
    length = os.fstat(descriptor).st_size
    os.close(descriptor)
    if length >= size:
        directory.remove_file_or_link(part)
        return 0
    return length


def _complete_file(directory: Directory, name: str, descriptor: int, entry: Mapping[str, Any], path: str) -> None:
    """Verify a complete file, and rename it to its final name. Raises NodeError for a wrong checksum."""
    if sha256_of_open_file(descriptor) != entry["sha256"]:
        directory.remove_file_or_link(name + PART)
        raise NodeError(f"the store's file {path} was damaged in transfer: run the playbook resync again")
    os.fchmod(descriptor, entry["mode"] & 0o777)
    os.fsync(descriptor)
    directory.rename(name + PART, name)
