# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The files by which the guards of a pair agree, in the directory of a fenced store.

    STORE/lock/                 a directory where a broker without a guard looks for its lock: so it waits for ever
    STORE/fence/lock            the pair's lock; its content is the token of the guard that took it last
    STORE/fence/claims/N        who made generation N, and from which files; made once, never changed
    STORE/fence/ended/N         the broker that wrote generation N is proved dead
    STORE/fence/behind/N        messages that generation N holds, and the one after it does not
    STORE/generations/N-TOKEN/  a generation: a kahaDB store

A name that two guards may make is made by ``link``, which fails where the name is there: it carries its content from
its first moment, on NFS too, where exclusive creation came late.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import struct
from contextlib import suppress
from typing import Any

from ..install import disk
from ..kahadb import journal
from .decision import Claim, Look

_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_DIRECTORY = re.compile(r"[1-9][0-9]{0,8}-[0-9a-f]{8,64}")
_LONGEST_CLAIM = 1 << 20
"""Bytes. A claim names the files of a generation, some 60 bytes for each of 32 MB."""
_LONGEST_TOKEN = 128
# Linux: a lock of the open file, not of the process, which would lose it by closing any descriptor of the file.
_F_OFD_SETLK = 37
_FLOCK = struct.Struct("hhqqi4x")
SHARED_LINK = "shared"
"""The link beside the one that the broker's configuration names: it leads to the directory of the fenced store."""
_NOTE = """\
This store is fenced: activemq_fence is guard. Brokers work in the generations, each behind a guard.
A broker without one finds this directory where it makes its lock, and waits.
"""


class FenceError(Exception):
    """The store cannot be fenced as it stands; the text says what to do."""


def shared_directory(store: str, root: int | None = None) -> str:
    """Return the directory that both nodes share, of the store that a broker's configuration names.

    Without a guard that is the store itself. ``root``: a descriptor that stands for ``/``.
    """
    link = os.path.join(os.path.dirname(store), SHARED_LINK)
    try:
        return os.readlink(link) if root is None else os.readlink(link.lstrip("/"), dir_fd=root)
    except OSError:
        return store


def _lock(descriptor: int) -> None:
    """Lock a whole open file against all other programs. Raises BlockingIOError where one of them has locked it."""
    fcntl.fcntl(descriptor, _F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))


class SharedStore:
    """The claims and the lock of one pair's store. Every method may raise OSError, as a share does that is away."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._claims = os.path.join(directory, "fence", "claims")
        self._ended = os.path.join(directory, "fence", "ended")
        self._behind = os.path.join(directory, "fence", "behind")
        self.generations = os.path.join(directory, "generations")
        self._lock = os.path.join(directory, "fence", "lock")
        self._held: int | None = None
        self._token = ""

    def prepare(self) -> None:
        """Make what is missing of the directories. Raises FenceError for a store of a broker without a guard."""
        loose = [name for name in os.listdir(self.directory) if name == "db.data" or journal.FILE.fullmatch(name)]
        if loose:
            raise FenceError(
                f"{self.directory} holds a store that no guard made ({loose[0]}), which is not taken over: "
                "set activemq_fence to none, or begin with an empty directory"
            )
        tombstone = os.path.join(self.directory, "lock")
        if os.path.isfile(tombstone):
            os.unlink(tombstone)
        fence = os.path.dirname(self._claims)
        for directory in (tombstone, fence, self._claims, self._ended, self._behind, self.generations):
            with suppress(FileExistsError):
                os.mkdir(directory, 0o750)
        with suppress(FileExistsError):
            disk.write_file(os.path.join(tombstone, "README"), _NOTE.encode(), 0o644, disk.Owner())
        for directory in (self._ended, self._claims, fence, tombstone, self.directory):
            disk.sync_directory(directory)

    # -- the lock -----------------------------------------------------------------------------

    def try_lock(self, token: str) -> bool:
        """Take the pair's lock if it is free, and write ``token`` into it; return whether it is held now."""
        if self.holds_lock():
            return True
        self.unlock()
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        try:
            _lock(descriptor)
            os.pwrite(descriptor, token.encode().ljust(_LONGEST_TOKEN), 0)
            os.fsync(descriptor)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        self._held, self._token = descriptor, token
        return self.holds_lock()

    def holds_lock(self) -> bool:
        """Return whether the lock is held: its file is still the one that was locked, with the token of this guard.

        Another token in it means that a file system gave the lock to somebody else without a word.
        """
        if self._held is None:
            return False
        try:
            there = os.stat(self._lock)
        except FileNotFoundError:
            return False
        own = os.fstat(self._held)
        return (there.st_ino, there.st_dev) == (own.st_ino, own.st_dev) and self._content() == self._token

    def _content(self) -> str:
        return os.pread(self._held or 0, _LONGEST_TOKEN, 0).decode(errors="replace").strip()

    def unlock(self) -> None:
        """Give the pair's lock back."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    # -- the claims ---------------------------------------------------------------------------

    def look(self) -> Look:
        """Return what a guard decides on."""
        return Look(self.holds_lock(), self.highest())

    def highest(self) -> Claim | None:
        """Return the claim with the highest number; None where there is none. Raises FenceError for a broken one."""
        number = max((int(name) for name in os.listdir(self._claims) if _NUMBER.fullmatch(name)), default=0)
        return self.read_claim(number)[0] if number else None

    def read_claim(self, number: int) -> tuple[Claim, dict[str, Any]]:
        """Return a claim, and what its maker wrote about the files of its generation."""
        path = os.path.join(self._claims, str(number))
        with open(path, "rb") as file:
            content = file.read(_LONGEST_CLAIM)
        try:
            told = json.loads(content)
            claim = Claim(number, told["token"], told["directory"])
            if told["number"] != number or not _DIRECTORY.fullmatch(claim.directory):
                raise ValueError("it is about another generation")
        except (ValueError, KeyError, TypeError) as error:
            raise FenceError(f"{path} is no claim of a generation ({error}): put it back from a backup") from None
        return claim, told

    def claim(self, claim: Claim, told: dict[str, Any]) -> bool:
        """Claim a number for a generation that was made and synced; return False when somebody else has it."""
        content = json.dumps({**told, "number": claim.number, "token": claim.token, "directory": claim.directory})
        return self._make_once(self._claims, str(claim.number), claim.token, content)

    def note_end(self, number: int, token: str) -> None:
        """Note that the broker which wrote a generation is dead."""
        self._make_once(self._ended, str(number), token, json.dumps({"token": token}))

    def withdraw_end(self, number: int) -> None:
        """Take the note back, for a broker that is about to go on with the generation of its host."""
        path = os.path.join(self._ended, str(number))
        if os.path.lexists(path):
            disk.remove(path)
            disk.sync_directory(self._ended)

    def has_ended(self, number: int) -> bool:
        """Return whether the broker that wrote a generation is known to be dead."""
        return os.path.lexists(os.path.join(self._ended, str(number)))

    def _make_once(self, directory: str, name: str, token: str, content: str) -> bool:
        temporary = os.path.join(directory, f".{token}")
        disk.remove(temporary)
        disk.write_file(temporary, content.encode(), 0o640, disk.Owner())
        try:
            # The answer may be lost where the link was made: the file's number of names knows.
            with suppress(OSError):
                os.link(temporary, os.path.join(directory, name))
            is_made = os.stat(temporary).st_nlink == 2
        finally:
            disk.remove(temporary)
        disk.sync_directory(directory)
        if not is_made and not os.path.lexists(os.path.join(directory, name)):
            raise FenceError(f"{directory}: its file system makes no hard links: a fenced store needs them")
        return is_made

    def generation(self, directory: str) -> str:
        """Return the path of a generation's directory."""
        return os.path.join(self.generations, directory)

    def behind(self, number: int) -> str:
        """Return the path of the list of messages that only generation ``number`` holds."""
        return os.path.join(self._behind, str(number))
