"""Claim one block of loopback addresses, 127.N.0.0/16, for each lab, among all users of a machine.

A block is claimed by a file in a directory with the sticky bit, to which all users can write. It is the same directory
for all labs, regardless of TMPDIR. A claim expires when no process listens in its block and the lab's directory does
not exist.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from activemq_fleet.errors import LabError
from activemq_fleet.node.foreign_data import parse_untrusted_json
from activemq_fleet.node.text_lines import split_lines

FIRST, LAST = 16, 250
RESERVATIONS = Path("/tmp/activemq-fleet-lab")  # noqa: S108 - the code rejects links and files of other users in it
"""The directory of the machine in which all labs reserve their addresses."""
_EVERYONE_DIRECTORY, _EVERYONE_FILE = 0o1777, 0o666
_LISTEN_STATE = "0A"


@dataclass(frozen=True, slots=True)
class _Claim:
    """The claim (reservation) of a block of loopback addresses by one lab.

    ``processes`` was used by earlier versions, which require it.
    """

    directory: str
    user: str
    claimed: float
    processes: tuple[()] = ()


class AddressBlockReservations:
    """The reservations of blocks of loopback addresses by the labs of one machine.

    Blocks have the numbers 16 to 250.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or RESERVATIONS

    def reserve_address_block_number(self, lab: Path, preferred_number: int | None = None) -> int:
        """Reserve a block of loopback addresses for a lab, if possible the preferred one, and return its number.

        A lab that has a claim keeps it, unless the preferred block is another one and free. With no free block, that of
        the lab that has been idle longest is reassigned. Raises LabError when every block has a running lab.
        """
        with self._locked():
            claims, busy = self._read_claims(), _blocks_with_listeners()
            current_block = next((number for number, claim in claims.items() if claim.directory == str(lab)), None)
            unused = [number for number in (preferred_number, *_block_order(lab)) if number and number not in busy]
            free = [number for number in unused if number not in claims or not _exists(claims[number].directory)]
            choice = current_block if preferred_number not in free else preferred_number
            choice = (
                choice or next(iter(free), None) or min(unused, key=lambda number: claims[number].claimed, default=None)
            )
            if choice is None:
                raise LabError(
                    f"all {LAST - FIRST + 1} blocks of loopback addresses (127.{FIRST}.* to 127.{LAST}.*) are used by "
                    "labs: stop one of the labs with `lab down`"
                )
            if current_block is not None and current_block != choice:
                self._delete_claim(current_block)
            self._write_claim(choice, json.dumps(asdict(_Claim(str(lab), getpass.getuser(), time.time()))))
            return choice

    def release_address_block(self, lab: Path) -> None:
        """Release the block of loopback addresses that a lab has reserved.

        Nothing happens if it has none.
        """
        with self._locked():
            for number, claim in self._read_claims().items():
                if claim.directory == str(lab):
                    self._delete_claim(number)

    def _read_claims(self) -> dict[int, _Claim]:
        return {number: claim for number in range(FIRST, LAST + 1) if (claim := self._read_claim(number))}

    def _claim_path(self, number: int) -> Path:
        return self._directory / f"127.{number}"

    def _read_claim(self, number: int) -> _Claim | None:
        try:
            with _open_shared_file(self._claim_path(number), os.O_RDONLY) as file:
                content = parse_untrusted_json(os.read(file, 1 << 20) or b"null")
            return _Claim(str(content["directory"]), str(content["user"]), float(content["claimed"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _write_claim(self, number: int, text: str) -> None:
        path = self._claim_path(number)
        try:
            with _open_shared_file(path, os.O_WRONLY | os.O_CREAT) as file:
                os.ftruncate(file, 0)
                os.write(file, text.encode())
        except OSError as error:
            raise LabError(
                f"{path}: this file, which reserves the loopback addresses of a lab, cannot be written "
                f"({error.strerror}): remove this file, or correct its permissions"
            ) from None

    def _delete_claim(self, number: int) -> None:
        try:
            self._claim_path(number).unlink()
        except PermissionError:
            self._write_claim(number, "")  # The file belongs to another user. An empty file counts as deleted.
        except FileNotFoundError:
            pass

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            if os.stat(self._directory).st_uid == os.geteuid():
                self._directory.chmod(_EVERYONE_DIRECTORY)
            with _open_shared_file(self._directory / "lock", os.O_RDWR | os.O_CREAT) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise LabError(
                f"{self._directory}: the loopback addresses of a lab cannot be reserved in this directory "
                f"({error.strerror}): remove the file {self._directory / 'lock'}, or correct the permissions "
                "of the directory"
            ) from None


@contextmanager
def _open_shared_file(path: Path, flags: int) -> Iterator[int]:
    """Open a file that all users share; raise an error for a symbolic link or anything else in its place."""
    try:
        # The first attempt is without O_CREAT, which the kernel may refuse for another user's file in such a directory.
        descriptor = os.open(path, (flags & ~os.O_CREAT) | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
        descriptor = os.open(path, flags | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _EVERYONE_FILE)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, f"{path} is not a regular file", str(path))
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != _EVERYONE_FILE:
            os.fchmod(descriptor, _EVERYONE_FILE)
        yield descriptor
    finally:
        os.close(descriptor)


def _block_order(lab: Path) -> Iterator[int]:
    """Return the numbers of address blocks in the order in which a lab tries them.

    Each lab has a different order, so that it tends to get the same block again.
    """
    count = LAST - FIRST + 1
    start = zlib.crc32(str(lab).encode(errors="surrogateescape")) % count
    return (FIRST + (start + step) % count for step in range(count))


def _exists(directory: str) -> bool:
    try:
        os.stat(directory)
    except PermissionError:
        return True  # The directory belongs to another user.
    except OSError:
        return False
    return True


def _blocks_with_listeners() -> set[int]:
    """Return the numbers of the address blocks in which a process listens.

    Blocks without a claim are included, because a claim may have been removed.
    """
    try:
        with open("/proc/net/tcp", encoding="ascii") as file:
            sockets = [line.split()[1:4:2] for line in split_lines(file.read())[1:]]
    except OSError:
        return set()
    # An address is little-endian: 0100107F is 127.16.0.1.
    return {int(local[4:6], 16) for local, state in sockets if state == _LISTEN_STATE and local[6:8] == "7F"}
