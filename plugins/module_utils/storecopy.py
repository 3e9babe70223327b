# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""A verified copy of a store from one host to another, in pieces, put in place by a rename.

On the disk of the host that receives, beside the store ``S``: ``S.resync-ID`` holds the copy while
it grows, file by file (``NAME.part`` is not whole yet); ``S.resync.json`` says that it is being put
in place; ``S.before-TIME`` is the store that was there, untouched, with its sums in
``S.before-TIME.json``. Whatever was cut short is found there and continued. Nothing is ever
overwritten, and no backup is ever removed.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import shutil
import stat
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils import disk
from ansible_collections.activemq.fleet.plugins.module_utils.archive import InstallError
from ansible_collections.activemq.fleet.plugins.module_utils.disk import Owner

CHUNK = 8 << 20
"""Bytes that travel at once: small enough to be a module's argument, large enough for its price."""
_LOCK = "lock"
_PART = ".part"
_SPARE = 64 << 20
Manifest = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Places:
    """Where things lie beside a store."""

    store: str

    def staging(self, identity: str) -> str:
        return f"{self.store}.resync-{identity}"

    @property
    def plan(self) -> str:
        return f"{self.store}.resync.json"

    def backup(self) -> str:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        names = [f"{self.store}.before-{stamp}", *(f"{self.store}.before-{stamp}-{number}" for number in range(1, 100))]
        return next(name for name in names if not os.path.lexists(name))


def manifest(store: str) -> dict[str, dict[str, Any]]:
    """Size, SHA-256 and mode of every file of a store but its lock.

    Raises InstallError for what is no plain file, OSError.
    """
    found = {}
    for directory, names, files in os.walk(store):
        for name in [*names, *files]:
            path = os.path.join(directory, name)
            if os.path.islink(path) or not (os.path.isfile(path) or os.path.isdir(path)):
                raise InstallError(f"{path} is neither a file nor a directory: a store with such a thing is not copied")
        for name in files:
            path = os.path.join(directory, name)
            relative = os.path.relpath(path, store)
            if relative != _LOCK:
                status = os.stat(path)
                mode = stat.S_IMODE(status.st_mode)
                found[relative] = {"size": status.st_size, "sha256": sha256(path), "mode": mode}
    return dict(sorted(found.items()))


def sha256(path: str) -> str:
    """Of a file's content, read in pieces."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def identity(files: Manifest) -> str:
    """A name for exactly these contents."""
    text = json.dumps({name: [entry["size"], entry["sha256"]] for name, entry in files.items()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_locked(store: str) -> bool:
    """Whether a broker, of whatever kind, holds the lock of the store. Asks, and leaves no lock behind."""
    try:
        descriptor = os.open(os.path.join(store, _LOCK), os.O_RDWR)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def allocated(store: str) -> int:
    """Bytes that a store takes of its disk; its journal's last file is mostly a hole."""
    total = 0
    for directory, _, files in os.walk(store):
        for name in files:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(directory, name)).st_blocks * 512
    return total


def obstacle(store: str, needed: int = 0) -> str:
    """Why a store could not be replaced here, or nothing. ``needed``: bytes of the store to come."""
    parent = os.path.dirname(store)
    if os.path.islink(store):
        return f"{store} is a link: a store behind a link is not replaced"
    if os.path.ismount(store):
        return f"{store} is a mount point, and a store is replaced by a rename: set activemq_store_directory below it"
    if not os.path.isdir(parent):
        return f"{parent} is not there: run the playbook site first"
    free = shutil.disk_usage(parent).free
    if free < needed + _SPARE:
        return f"{parent} has {free >> 20} MiB free, and the copy needs {(needed + _SPARE) >> 20}"
    return ""


def is_unfinished(store: str) -> bool:
    """Whether a copy was being put in place when something ended it."""
    return os.path.exists(Places(store).plan)


def stage(store: str, files: Manifest) -> dict[str, int]:
    """Make room for a copy, and take what this host has already.

    Returns the files that have yet to come, and from which byte on. Raises InstallError, OSError.
    """
    _refuse_locked(store)
    where = Places(store)
    staging = where.staging(identity(files))
    _remove_others(store, staging)
    owner, mode = _owner(store)
    disk.make_directory(staging, mode, owner)
    wanted: dict[str, int] = {}
    for name, entry in files.items():
        path = _inside(staging, name)
        if _is_whole(path, entry):
            continue
        disk.remove(path)
        make_parents(staging, path, owner)
        own = os.path.join(store, name)
        if not os.path.exists(path + _PART) and _is_whole(own, entry):
            shutil.copyfile(own, path + _PART)
            _accept(path, entry, owner)
        elif not entry["size"]:
            disk.write_file(path, b"", entry["mode"], owner)
        else:
            wanted[name] = _length(path + _PART, entry["size"])
    return wanted


def read(store: str, name: str, offset: int, size: int) -> str:
    """The piece of a file from ``offset`` on, packed. Raises InstallError when the file changed."""
    path = _inside(store, name)
    if os.path.getsize(path) != size:
        raise InstallError(f"{path} has changed while it was copied: something writes to it")
    with open(path, "rb") as file:
        file.seek(offset)
        return pack(file.read(CHUNK))


def pack(piece: bytes) -> str:
    """A piece as it travels."""
    return base64.b64encode(zlib.compress(piece, 1)).decode()


def unpack(data: str) -> bytes:
    """A piece that was packed."""
    return zlib.decompress(base64.b64decode(data))


def write(store: str, files: Manifest, name: str, offset: int, data: str) -> int:
    """Add a piece to a file of the copy; returns how long it is now. The last piece makes it whole.

    Raises InstallError for a piece that does not follow, or a file that is not what it should be.
    """
    staging = Places(store).staging(identity(files))
    path, entry = _inside(staging, name), files[name]
    owner, _ = _owner(store)
    piece = unpack(data)
    length = _length(path + _PART, entry["size"])
    if length != offset:
        raise InstallError(f"{path}: byte {offset} was sent, byte {length} was due: run the same command again")
    with open(os.open(path + _PART, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b") as file:
        file.seek(offset)
        # The end of a journal file is reserved and holds nothing: it stays a hole.
        content = piece.rstrip(b"\0")
        file.write(content)
        file.truncate(offset + len(piece))
    if offset + len(piece) == entry["size"]:
        _accept(path, entry, owner)
    return offset + len(piece)


def make_parents(staging: str, path: str, owner: Owner) -> None:
    """Make the directories between the copy and one of its files."""
    parent = os.path.dirname(path)
    if parent != staging and not os.path.isdir(parent):
        make_parents(staging, parent, owner)
        disk.make_directory(parent, 0o750, owner)


def switch(store: str, files: Manifest, source: str) -> str:
    """Put the copy in place; returns where the store is kept that was there, or nothing.

    The copy is verified once more, and the sums of what was there are written down, before
    anything is renamed. Raises InstallError, OSError.
    """
    _refuse_locked(store)
    where = Places(store)
    name = identity(files)
    staging = where.staging(name)
    if not os.path.isdir(staging) or identity(manifest(staging)) != name:
        raise InstallError(f"{staging} is not the whole copy: run the same command again")
    backup = where.backup() if os.path.isdir(store) else ""
    if backup:
        before = manifest(store)
        text = {"of": store, "replaced_by": name, "from": source, "files": before}
        disk.replace_file(f"{backup}.json", json.dumps(text, indent=1).encode() + b"\n", 0o640)
    plan = {"staging": staging, "backup": backup, "from": source}
    disk.replace_file(where.plan, json.dumps(plan).encode() + b"\n", 0o640)
    return finish(store)


def finish(store: str) -> str:
    """Do what is left of putting a copy in place; returns where the store is kept that was there.

    Raises InstallError, OSError.
    """
    where = Places(store)
    _refuse_locked(store)
    try:
        with open(where.plan, encoding="utf-8") as file:
            plan = json.load(file)
    except FileNotFoundError:
        return ""
    except ValueError:
        raise InstallError(f"{where.plan} cannot be read, see {store}.resync-* and {store}.before-*") from None
    staging, backup = str(plan["staging"]), str(plan["backup"])
    if os.path.isdir(staging):
        if backup and os.path.isdir(store):
            if os.path.exists(backup):
                raise InstallError(f"{backup} and {store} are both there: look which of them is the store")
            disk.rename(store, backup)
        disk.rename(staging, store)
    if backup:
        _verify(backup)
    disk.remove(where.plan)
    disk.sync_directory(os.path.dirname(store))
    return backup


def _verify(backup: str) -> None:
    """Raises InstallError unless the backup is what the store was."""
    with open(f"{backup}.json", encoding="utf-8") as file:
        before = json.load(file)["files"]
    if manifest(backup) != before:
        raise InstallError(f"{backup} is not what the store was before: its disk does not keep what it was given")


def _refuse_locked(store: str) -> None:
    if is_locked(store):
        raise InstallError(f"the lock of {store} is held: a broker runs on it")


def _remove_others(store: str, staging: str) -> None:
    """Copies of what the other node had before: nobody asks for them any more. Never a backup."""
    parent, prefix = os.path.dirname(store), os.path.basename(store) + ".resync-"
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        if name.startswith(prefix) and path != staging:
            disk.remove_tree(path)


def _owner(store: str) -> tuple[Owner, int]:
    """Who owns a store, or would; and its mode."""
    try:
        status = os.stat(store)
        return Owner(status.st_uid, status.st_gid), stat.S_IMODE(status.st_mode)
    except FileNotFoundError:
        status = os.stat(os.path.dirname(store))
        return Owner(status.st_uid, status.st_gid), 0o750


def _inside(directory: str, name: str) -> str:
    path = os.path.normpath(os.path.join(directory, name))
    if not path.startswith(directory + "/"):
        raise InstallError(f"{name!r} does not lie inside the store")
    return path


def _is_whole(path: str, entry: Mapping[str, Any]) -> bool:
    try:
        return bool(os.path.getsize(path) == entry["size"] and sha256(path) == entry["sha256"])
    except FileNotFoundError:
        return False


def _length(part: str, size: int) -> int:
    """How much of a file has come. One that is too long, or as long and yet not whole, begins anew."""
    try:
        length = os.path.getsize(part)
    except FileNotFoundError:
        return 0
    if length >= size:
        disk.remove(part)
        return 0
    return length


def _accept(path: str, entry: Mapping[str, Any], owner: Owner) -> None:
    """A file is all there: see that it is right, and give it its name."""
    part = path + _PART
    if sha256(part) != entry["sha256"]:
        disk.remove(part)
        raise InstallError(f"{path} did not arrive as it was sent: run the same command again")
    with open(part, "rb+") as file:
        owner.give(file.fileno())
        os.fchmod(file.fileno(), entry["mode"])
        os.fsync(file.fileno())
    disk.rename(part, path)


def flat(name: str) -> str:
    """A name for a file of a store in one directory of the controller."""
    return hashlib.sha256(name.encode()).hexdigest()[:24]


def tidy(directory: str) -> None:
    """Remove what the controller kept of a copy, if it is there."""
    with suppress(FileNotFoundError):
        shutil.rmtree(directory)
