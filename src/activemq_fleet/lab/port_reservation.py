"""Claim one block of loopback addresses, 127.N.0.0/16, for each lab, among all users of a machine.

A block is claimed by a file in a directory that everyone may write to, and where nobody may remove the file of another.
A claim expires when no process of the lab lives and its directory is gone.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import stat
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from activemq_fleet.errors import LabError

FIRST, LAST = 16, 250
_DIRECTORY = "activemq-fleet-lab"
_EVERYONE_DIRECTORY, _EVERYONE_FILE = 0o1777, 0o666
_LISTENING = "0A"
_SAME_START = 2.0  # seconds; the kernel counts from boot, and the boot time is rounded

Process = tuple[int, float]
"""Process id and start time, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class PortReservation:
    """The claim of one lab to a block of loopback addresses: the lab's directory, user, time and processes."""

    directory: str
    user: str
    claimed: float
    processes: tuple[Process, ...] = ()

    @property
    def is_alive(self) -> bool:
        """Whether a process of the lab still runs."""
        return any(_lives(process) for process in self.processes)

    @property
    def is_stale(self) -> bool:
        """Whether nothing of the lab is left: no process of it runs, and its directory is gone."""
        return not self.is_alive and not _exists(self.directory)


class PortReservations:
    """All claims to blocks of loopback addresses on this machine, by number of the block (16 to 250)."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or Path(tempfile.gettempdir()) / _DIRECTORY

    def reserve(self, lab: Path, wanted: int | None = None) -> int:
        """Claim a block of addresses for a lab and return its number; ``wanted`` is taken if it is free.

        A lab that has a claim keeps it, unless another block is wanted and free. With no free block, that of the lab
        that has been idle longest is taken over. Raises LabError when every block has a running lab.
        """
        with self._locked():
            held = self.address_block_of(lab)
            if held is not None and wanted in (None, held):
                return held
            numbers = [*([wanted] if wanted else []), *_order(lab)]
            choice = next((number for number in numbers if self._is_free(number)), None)
            if choice is None:
                choice = self._idle()
            if held is not None and held != choice:
                self._clear(held)
            self._write(choice, PortReservation(str(lab), getpass.getuser(), time.time()))
            return choice

    def address_block_of(self, lab: Path) -> int | None:
        """Return the number of the block that a lab has claimed; None without a claim."""
        return next((number for number, claim in self.by_block().items() if claim.directory == str(lab)), None)

    def record_processes(self, lab: Path, processes: Iterable[Process]) -> None:
        """Store the processes that keep a lab's claim alive; nothing happens without a claim."""
        with self._locked():
            number = self.address_block_of(lab)
            if number is not None:
                self._write(number, replace(self.by_block()[number], processes=tuple(processes)))

    def release(self, lab: Path) -> None:
        """Delete the claim of a lab, if there is one."""
        with self._locked():
            number = self.address_block_of(lab)
            if number is not None:
                self._clear(number)

    def by_block(self) -> dict[int, PortReservation]:
        """Return the claims by number of the block; a claim that cannot be read is left out."""
        read = ((number, self._read(number)) for number in range(FIRST, LAST + 1))
        return {number: claim for number, claim in read if claim is not None}

    def _is_free(self, number: int) -> bool:
        claim = self._read(number)
        return (claim is None or claim.is_stale) and not _is_listened_on(number)

    def _idle(self) -> int:
        """The block of the lab that has been idle longest. Raises LabError when all are alive."""
        idle = [
            (claim.claimed, number)
            for number, claim in self.by_block().items()
            if not claim.is_alive and not _is_listened_on(number)
        ]
        if not idle:
            raise LabError(f"all {LAST - FIRST + 1} blocks of loopback addresses are taken by labs: take one down")
        return min(idle)[1]

    def _path(self, number: int) -> Path:
        return self._directory / f"127.{number}"

    def _read(self, number: int) -> PortReservation | None:
        try:
            with _open(self._path(number), os.O_RDONLY) as file:
                known = json.loads(os.read(file, 1 << 20) or b"null")
            processes = tuple((int(pid), float(created)) for pid, created in known["processes"])
            return PortReservation(str(known["directory"]), str(known["user"]), float(known["claimed"]), processes)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _write(self, number: int, claim: PortReservation | None) -> None:
        data = json.dumps(asdict(claim)).encode() if claim else b""
        path = self._path(number)
        try:
            with _open(path, os.O_WRONLY | os.O_CREAT) as file:
                os.ftruncate(file, 0)
                os.write(file, data)
        except OSError as error:
            raise LabError(f"{path}: cannot claim loopback addresses: {error.strerror}") from None

    def _clear(self, number: int) -> None:
        try:
            self._path(number).unlink()
        except PermissionError:
            self._write(number, None)  # another user's file: empty is as good
        except FileNotFoundError:
            pass

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            if os.stat(self._directory).st_uid == os.geteuid():
                self._directory.chmod(_EVERYONE_DIRECTORY)
            with _open(self._directory / "lock", os.O_RDWR | os.O_CREAT) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise LabError(f"{self._directory}: cannot claim loopback addresses: {error.strerror}") from None


@contextmanager
def _open(path: Path, flags: int) -> Iterator[int]:
    """Open a file that all users share; a link or anything else in its place is refused."""
    try:
        # Without O_CREAT first: the kernel may refuse it for another's file in such a directory.
        descriptor = os.open(path, (flags & ~os.O_CREAT) | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
        descriptor = os.open(path, flags | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _EVERYONE_FILE)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "is not a regular file", str(path))
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != _EVERYONE_FILE:
            os.fchmod(descriptor, _EVERYONE_FILE)
        yield descriptor
    finally:
        os.close(descriptor)


def _order(lab: Path) -> Iterator[int]:
    """Blocks in the order in which a lab tries them: its own order, so that it tends to get the same."""
    count = LAST - FIRST + 1
    start = zlib.crc32(str(lab).encode(errors="surrogateescape")) % count
    return (FIRST + (start + step) % count for step in range(count))


def _lives(process: Process) -> bool:
    pid, created = process
    try:
        found = psutil.Process(pid)
        return abs(found.create_time() - created) < _SAME_START and found.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _exists(directory: str) -> bool:
    try:
        os.stat(directory)
    except PermissionError:
        return True  # another user's, and none of our business
    except OSError:
        return False
    return True


def _is_listened_on(number: int) -> bool:
    """Somebody listens in this block, whatever the claims say: a lab whose claim was removed."""
    try:
        with open("/proc/net/tcp", encoding="ascii") as file:
            lines = file.read().splitlines()[1:]
    except OSError:
        return False
    prefix = f"{number:02X}7F"  # little-endian: 0100107F is 127.16.0.1
    sockets = (line.split()[1:4:2] for line in lines)
    return any(state == _LISTENING and local.partition(":")[0].endswith(prefix) for local, state in sockets)
