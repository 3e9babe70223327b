# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The files by which the guards of a pair agree, in the directory of a fenced store.

    STORE/lock/                 a directory in place of the lock file, so that a broker without a guard keeps waiting
                                (with activemq_fence: command it is the lock file of the broker that serves)
    STORE/fence/lock            the pair's lock; its content is the token of the guard that last acquired it
    STORE/fence/claims/N        which node made generation N, and from which files; written once, never changed;
                                removed some time after N was replaced and its files were removed
    STORE/fence/ended/N         the broker that wrote generation N is known to be dead
    STORE/fence/behind/N        messages that generation N has and the next generation does not
    STORE/fence/replayed/N      those messages were sent to the pair again
    STORE/fence/accepted/N      an operator accepted that a generation without an index replaces generation N
    STORE/at-risk/              the durable subscriptions whose messages that put at risk (``kahadb.risk_records``)
    STORE/generations/N-TOKEN/  a generation: a kahaDB store
    STORE/generations/building-NODE/  files that the guard of a node copies and links before it has a number

A file that two guards may create is created by ``link``, which fails if the name exists. So the file has its content
from the beginning, also on NFS, whose early versions have no exclusive creation.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
import struct
import time
import zlib
from contextlib import suppress
from typing import Any

from ..files import disk
from ..files.untrusted_paths import UntrustedPathError, account_name, owner_of_first_untrusted_directory, read_file
from ..foreign_data import parse_untrusted_json
from .decision import IN_PLACE, FenceEvidence, StoreClaim

_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_DIRECTORY = re.compile(r"[1-9][0-9]{0,8}-[0-9a-f]{8,64}")
_LOCKED = (errno.EAGAIN, errno.EACCES)
_LONGEST_CLAIM = 1 << 20
"""Maximum bytes of a claim, which lists the files of a generation with about 60 bytes per file of 32 MB."""
_LONGEST_LIST = 256 << 20
"""Maximum bytes of a list of the messages that arrived during one takeover, with about 200 bytes per message."""
_LONGEST_TOKEN = 128
_RECENT_CLAIMS = 200
# Linux: a lock of the open file. A lock of a process (fcntl) is lost when it closes any descriptor of the file.
_F_OFD_SETLK = 37
_FLOCK = struct.Struct("hhqqi4x")
BARRIER = "lock"
"""The name of a store's lock file for brokers without a guard, and of the directory that replaces this file."""
SHARED_LINK = "shared"
"""The link next to the one that the broker's configuration names: it leads to the directory of the fenced store."""
_NOTE = """\
A guard on each node (activemq_fence: guard) prevents both brokers of the pair from writing to this store.
The brokers use only the copies of the store in the directory generations.
The directory with this README is named lock, as is the lock file of kahaDB.
A broker without a guard therefore cannot lock the store: it waits as standby, and does not write to the store.
"""


class FenceError(Exception):
    """An error for a shared store that cannot be protected by a fence against two writing brokers.

    Its text contains the remedy.
    """


def shared_store_directory(configured_path: str, root: int | None = None) -> str:
    """Return the directory of the pair's shared store to which the store path in a broker's configuration refers.

    With a guard, ``configured_path`` is a link on the host's own disk to a generation (copy of the store) in the shared
    store; the directory of the shared store is returned. Without a guard the path is returned unchanged. ``root``: the
    descriptor of an open directory that paths start from in place of ``/``. A guard's directory contains two links with
    absolute paths; the broker's configuration names one of them. A link next to a store that is a directory is ignored,
    because any account that can write there could have created it.
    """
    try:
        _read_link(configured_path, root)
        directory = _read_link(os.path.join(os.path.dirname(configured_path), SHARED_LINK), root)
    except OSError:
        return configured_path
    return directory if os.path.isabs(directory) else configured_path


def _read_link(path: str, root: int | None) -> str:
    return os.readlink(path) if root is None else os.readlink(path.lstrip("/"), dir_fd=root)


def raise_if_root_would_change_untrusted_directory(directory: str) -> None:
    """Raise FenceError if root would change a directory in which another account can create links.

    Root would follow links of that account. The message contains the command that runs as that account instead.
    """
    if os.geteuid() != 0:
        return
    try:
        owner = owner_of_first_untrusted_directory(os.path.join(directory, "fence", "claims"))
    except UntrustedPathError as error:
        raise FenceError(
            f"{error}. If you cannot correct this, run the command as the account that owns the store (runuser -u "
            "ACCOUNT -- COMMAND)"
        ) from None
    if owner is not None:
        as_account = (
            f"setpriv --reuid={owner[0]} --regid={owner[1]} --clear-groups" if owner[0] else "runuser -u ACCOUNT"
        )
        name = f" ({account_name(owner[0])})" if owner[0] else ""
        raise FenceError(
            f"root must not change the store {directory}, because another account{name} can write to it or to a "
            "directory above it, and could redirect root's changes by a link. Run the command as the account that "
            f"owns the store: {as_account} -- COMMAND"
        )


def claimant_name_of_this_machine(guard_state_directory: str) -> str:
    """Return the name under which this machine claims shared stores, that is, takes them over.

    It consists of hexadecimal digits of the host name and of a random id. ``guard_state_directory`` is the guard's
    directory on the host's own disk. The name changes when the host name changes. Raises OSError if no guard has run.
    """
    with open(os.path.join(guard_state_directory, "node"), encoding="ascii") as file:
        return f"{zlib.crc32(socket.gethostname().encode()):08x}{file.read().strip()}"


def pair_lock_path(store: str) -> str:
    """Return the path of the pair's lock in the directory of a shared store."""
    return os.path.join(store, "fence", "lock")


def generation_number_or_zero(directory_name: str) -> int:
    """Return the number in the name of a generation's directory (a copy of a store); 0 for any other name."""
    return int(directory_name.partition("-")[0]) if _DIRECTORY.fullmatch(directory_name) else 0


def _lock(descriptor: int) -> None:
    """Lock a whole open file against all other programs. Raises BlockingIOError where one of them has locked it."""
    fcntl.fcntl(descriptor, _F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))


def _read_record(path: str, limit: int) -> bytes:
    """Return the content of a regular file of ``fence``. Raises FenceError for a link or another kind, OSError.

    The other node of the pair also writes there, and a FIFO would block this node.
    """
    try:
        content: bytes = read_file(path, limit)
    except UntrustedPathError as error:
        raise FenceError(str(error)) from None
    return content


def _is_row(row: object) -> bool:
    return (
        isinstance(row, dict)
        and {"destination", "message"} <= row.keys()
        and all(isinstance(text, str) for text in row.values())
    )


class SharedStore:
    """The shared store of a pair: its directory, with lock, claims and generations (copies of the store).

    Every method may raise OSError, for instance if the server of the share is unreachable. Raises FenceError for root
    if another account can change the directory.
    """

    def __init__(self, directory: str) -> None:
        raise_if_root_would_change_untrusted_directory(directory)
        self.directory = directory
        self._claims = os.path.join(directory, "fence", "claims")
        self._ended = os.path.join(directory, "fence", "ended")
        self._behind = os.path.join(directory, "fence", "behind")
        self._replayed = os.path.join(directory, "fence", "replayed")
        self._accepted = os.path.join(directory, "fence", "accepted")
        self.generations = os.path.join(directory, "generations")
        self._lock = pair_lock_path(directory)
        self._held: int | None = None
        self._token = ""

    def make_directories(self) -> None:
        """Create the missing directories of a shared store, for claims, records and generations (store copies)."""
        fence = os.path.dirname(self._claims)
        for directory in (fence, self._claims, self._ended, self._behind, self._replayed, self.generations):
            with suppress(FileExistsError):
                os.mkdir(directory, 0o750)
        for directory in (self._ended, self._claims, fence, self.directory):
            disk.sync_directory(directory)

    def try_to_block_unguarded_brokers(self) -> bool:
        """Prevent brokers that run without a guard (a protecting parent process) from opening the shared store.

        A guard starts a broker and fences its store. Replaces their lock file by a directory; returns False if such a
        broker holds the lock. Brokers without a guard wait as long as the directory exists. The caller must hold the
        pair's lock.
        """
        barrier = os.path.join(self.directory, BARRIER)
        if os.path.isdir(barrier):
            return True
        descriptor = os.open(barrier, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        try:
            _lock(descriptor)
            os.unlink(barrier)
        except OSError as error:
            if error.errno not in _LOCKED:
                raise
            return False
        finally:
            os.close(descriptor)
        try:
            os.mkdir(barrier, 0o750)
        except FileExistsError:
            return False  # A broker has created its lock file in the meantime.
        disk.write_new_file(os.path.join(barrier, "README"), _NOTE.encode(), 0o644)
        disk.sync_directory(barrier)
        disk.sync_directory(self.directory)
        return True

    def unblock_unguarded_brokers(self) -> None:
        """Permit brokers that run without a guard (a protecting parent process) to open the shared store again.

        Removes the directory in place of their lock file.
        """
        barrier = os.path.join(self.directory, BARRIER)
        if os.path.isdir(barrier):
            disk.remove_file_or_link(os.path.join(barrier, "README"))
            os.rmdir(barrier)
            disk.sync_directory(self.directory)

    # -- the lock -----------------------------------------------------------------------------

    def try_to_acquire_pair_lock(self, token: str) -> bool:
        """Try once to acquire the lock of the pair's shared store for this guard; return whether the guard holds it.

        Writes the token to the lock's file.
        """
        if self.this_guard_holds_pair_lock():
            return True
        self.release_pair_lock()
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        try:
            _lock(descriptor)
            os.pwrite(descriptor, token.encode().ljust(_LONGEST_TOKEN), 0)
            os.fsync(descriptor)
        except OSError as error:
            os.close(descriptor)
            if error.errno in _LOCKED:
                return False
            raise
        self._held, self._token = descriptor, token
        return self.this_guard_holds_pair_lock()

    def this_guard_holds_pair_lock(self) -> bool:
        """Return whether this guard (broker's parent process) still holds the lock on the pair's shared store.

        The lock's file is still the locked one, with this guard's token. Another token in the file means that the file
        system gave the lock to another guard without an error. The file is opened again each time, because only then
        NFS reliably shows changes by other clients. A lock of the open file persists when another descriptor of the
        file is closed, unlike a lock of the process.
        """
        if self._held is None:
            return False
        try:
            descriptor = os.open(self._lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            there, held_status = os.fstat(descriptor), os.fstat(self._held)
            content = os.pread(descriptor, _LONGEST_TOKEN, 0).decode(errors="replace").strip()
        finally:
            os.close(descriptor)
        return (there.st_ino, there.st_dev) == (held_status.st_ino, held_status.st_dev) and content == self._token

    def release_pair_lock(self) -> None:
        """Release the lock of a pair's shared store.

        Nothing is done if this guard does not hold the lock.
        """
        if self._held is not None:
            held, self._held = self._held, None
            # NFS may report an error of earlier writes here; the descriptor is closed in any case.
            with suppress(OSError):
                os.close(held)

    # -- the claims ---------------------------------------------------------------------------

    def gather_lock_and_claim_evidence(self, *, at_end: bool = False) -> FenceEvidence:
        """Return whether this guard (broker's parent process) has the store's lock, and the newest takeover (claim).

        A claim is the record of a takeover of the store by a node; a guard decides by the evidence. With ``at_end`` the
        evidence also has whether the claim's broker is dead.
        """
        highest = self.highest_claim()
        has_ended = at_end and highest is not None and self.is_broker_recorded_dead(highest.number)
        return FenceEvidence(self.this_guard_holds_pair_lock(), highest, has_ended)

    def highest_claim(self) -> StoreClaim | None:
        """Return the newest claim (record of a takeover) of the shared store, that with the highest number, or None.

        Raises FenceError for an unreadable claim.
        """
        numbers = self.claim_numbers()
        return self.read_claim_and_details(numbers[-1])[0] if numbers else None

    def read_claim_and_details(self, number: int) -> tuple[StoreClaim, dict[str, Any]]:
        """Read the claim (takeover record) ``number`` of a shared store; return the claim and all fields of its file.

        The details are the content of its file, such as the offsets copied up to.
        """
        path = os.path.join(self._claims, str(number))
        content = _read_record(path, _LONGEST_CLAIM)
        try:
            claim_record = parse_untrusted_json(content)
            claim = StoreClaim(number, claim_record["node"], claim_record["directory"])
            if claim_record["number"] != number:
                raise ValueError("it contains the number of another takeover")
            if not _DIRECTORY.fullmatch(claim.directory):
                raise ValueError(f"it contains the invalid directory name {claim.directory!r}")
        except (ValueError, KeyError, TypeError) as error:
            raise FenceError(
                f"the file {path} is damaged ({error}). It records takeover {number} of the store, and no node can "
                "take over without it: restore this file from a backup"
            ) from None
        return claim, claim_record

    def create_claim(self, claim: StoreClaim, claim_details: dict[str, Any]) -> bool:
        """Create a claim, the record that a node takes over the shared store, and return whether it was created.

        It is not created if another guard has claimed its number. ``claim_details``: further content of the claim's
        file. The new generation is renamed to its final name first. If the result is not known, the generation keeps
        this name, and OSError is raised.
        """
        content = json.dumps(
            {**claim_details, "number": claim.number, "node": claim.node, "directory": claim.directory}
        )
        draft = self._draft(self._claims, claim.number, claim.node, content)
        # From here on no disk space is required, so a full volume leaves no generation without a claim.
        if claim.is_claim_on_store_copy:
            disk.rename_within_parent_and_sync(
                self.unclaimed_copy_path(claim.node), self.generation_directory_path(claim.directory)
            )
        return self._publish(draft, claim.number, content)

    def claim_numbers(self) -> list[int]:
        """Return the numbers of the claims with which nodes took over the shared store, oldest first."""
        return sorted(int(name) for name in os.listdir(self._claims) if _NUMBER.fullmatch(name))

    def remove_claims_below(self, number: int) -> None:
        """Remove the records of claims (takeovers of the shared store by nodes) with numbers below ``number``.

        Those of existing generations and of their sources stay. A guard that was frozen in the meantime may make such a
        claim again: only the highest claim counts.
        """
        kept = self.generation_names_by_number()
        for old in self.claim_numbers():
            if old < number and old not in kept and old - 1 not in kept:
                for directory in (self._behind, self._replayed, self._ended, self._claims):
                    disk.remove_file_or_link(os.path.join(directory, str(old)))

    def sync_claims(self) -> None:
        """Sync the directory of claims on a shared store to the disk.

        This is done before the broker of a claim acknowledges messages.
        """
        disk.sync_directory(self._claims)

    def record_broker_dead(self, number: int) -> None:
        """Record in the shared store that the broker of claim (takeover record) ``number`` is dead.

        It no longer writes to the store.
        """
        self._note(self._ended, number, {"ended": time.time()})

    def is_broker_recorded_dead(self, claim_number: int) -> bool:
        """Return whether a shared store records that the broker of takeover (claim) ``claim_number`` is dead."""
        return os.path.lexists(os.path.join(self._ended, str(claim_number)))

    def write_uncopied_message_list(self, generation_number: int, rows: list[dict[str, str]]) -> None:
        """Write to a file which messages were not copied from a generation (copy of the shared store) to the next one.

        Each message is one row.
        """
        self._note(self._behind, generation_number, rows)

    def read_uncopied_message_list(self, number: int) -> list[dict[str, str]]:
        """Read the messages, each as a dict, that were not copied from generation (store copy) ``number`` to the next.

        Raises FenceError for an unreadable list.
        """
        path = self.uncopied_message_list_path(number)
        try:
            rows = parse_untrusted_json(_read_record(path, _LONGEST_LIST))
            if not isinstance(rows, list) or not all(map(_is_row, rows)):
                raise ValueError("the file is not a JSON list of messages")
        except ValueError as error:
            raise FenceError(
                f"the file {path} is damaged ({error}). It lists the messages that a takeover did not copy from the "
                "old generation (copy of the store) to the new one. Restore this file from a backup"
            ) from None
        return rows

    def record_uncopied_messages_replayed(self, generation_number: int, sent_count: int) -> None:
        """Record that the messages that only an old generation (store copy) has were sent to the brokers again.

        Uncopied messages are those that no later generation holds. The generation can then be removed.
        """
        self._note(self._replayed, generation_number, {"replayed": time.time(), "messages": sent_count})

    def were_uncopied_messages_replayed(self, number: int) -> bool:
        """Return whether the uncopied messages of a generation (copy of the store) were replayed to the pair.

        Uncopied messages are those that no later generation holds.
        """
        return os.path.lexists(os.path.join(self._replayed, str(number)))

    def record_accepted_index_loss(self, number: int) -> None:
        """Record that an operator permits a start without the kahaDB index of generation (store copy) ``number``.

        The node may then continue from the generation.
        """
        os.makedirs(self._accepted, 0o750, exist_ok=True)
        self._note(self._accepted, number, {"accepted": time.time()})

    def is_index_loss_accepted(self, generation_number: int) -> bool:
        """Return whether an operator permitted a start without the kahaDB index of a generation (store copy)."""
        return os.path.lexists(os.path.join(self._accepted, str(generation_number)))

    def _note(self, directory: str, number: int, content: Any) -> None:
        text = json.dumps(content, indent=1)
        self._publish(self._draft(directory, number, f"{os.getpid()}", text), number, text)

    def _draft(self, directory: str, number: int, maker: str, content: str) -> str:
        draft = os.path.join(directory, f".{number}-{maker}")
        disk.remove_file_or_link(draft)
        disk.write_new_file(draft, content.encode(), 0o640)
        return draft

    def _publish(self, draft: str, number: int, content: str) -> bool:
        """Create a numbered record of the shared store from a draft file; return False if the number is taken."""
        directory = os.path.dirname(draft)
        path = os.path.join(directory, str(number))
        try:
            try:
                os.link(draft, path)
            except OSError as error:
                # The reply to a successful link may be lost, so the file itself is checked.
                if not os.path.lexists(path):
                    raise FenceError(
                        f"a hard link cannot be created in the store {directory} ({error.strerror}), but "
                        "activemq_fence requires hard links: put the store on a file system that supports them, "
                        "such as NFS 4 or XFS"
                    ) from None
            is_made = _read_record(path, len(content.encode()) + 1) == content.encode()
        finally:
            disk.remove_file_or_link(draft)
        disk.sync_directory(directory)
        return is_made

    # -- the generations ----------------------------------------------------------------------

    def generation_names_by_number(self) -> dict[int, list[str]]:
        """Return a dict from the number of each generation (copy of the shared store) to a list of its directory names.

        Generations that are not claimed are included.
        """
        names_by_number: dict[int, list[str]] = {}
        for name in sorted(os.listdir(self.generations)):
            if number := generation_number_or_zero(name):
                names_by_number.setdefault(number, []).append(name)
        return dict(sorted(names_by_number.items()))

    def generation_directory_path(self, directory_name: str) -> str:
        """Return the path of the generation (numbered copy of the shared store) whose directory has the given name.

        For a claim in place it is the store's own directory.
        """
        path = os.path.join(self.generations, directory_name)
        is_in_place = directory_name.endswith(f"-{IN_PLACE}") and not os.path.isdir(path)
        return self.directory if is_in_place else path

    def unclaimed_copy_path(self, node: str) -> str:
        """Return the path of the copy of the shared store that ``node`` is making for a takeover not yet recorded.

        The guard has no number for the copy before the claim, the record by which the node takes over.
        """
        return os.path.join(self.generations, f"building-{node}")

    def generation_numbers_with_uncopied_messages(self) -> list[int]:
        """Return the sorted numbers of the old generations (copies of the store) that have uncopied messages.

        Uncopied messages are those that no newer generation has. Generations whose messages were sent to the pair again
        do not count. A generation is kept as long as it has such messages.
        """
        numbers = sorted(int(name) for name in os.listdir(self._behind) if _NUMBER.fullmatch(name))
        return [number for number in numbers if not self.were_uncopied_messages_replayed(number)]

    def uncopied_message_list_path(self, number: int) -> str:
        """Return the path of the file that lists the uncopied messages of generation (store copy) ``number``.

        Uncopied messages are those that were not copied to the next generation.
        """
        return os.path.join(self._behind, str(number))


def current_store_directory(store: str) -> str:
    """Return the directory that contains the kahaDB files in use, for the store path in a broker's configuration.

    ``store`` is the path in a broker's configuration. With a guard this is the generation in force, whatever the target
    of the guard's link. Raises OSError, FenceError.
    """
    directory = shared_store_directory(store)
    if directory == store:
        return store
    shared = SharedStore(directory)
    highest = shared.highest_claim()
    return shared.generation_directory_path(highest.directory) if highest else directory


def recent_store_copies_made_by_host(store: str, guard_state_directory: str) -> list[dict[str, Any]]:
    """Return a list of the copies of a shared store that this host made, among those of the newest 200 takeovers.

    The copy of a claim is called its generation. Each copy is a dict with its ``number`` and the time ``made`` in
    seconds since the epoch; the oldest is first. A guard is the process that starts a broker and fences its store;
    ``guard_state_directory`` is its directory on the host's own disk. Empty where no guard has run. Raises OSError;
    FenceError for root if another account can change the store.
    """
    shared = SharedStore(store)
    made = []
    with suppress(FileNotFoundError):
        node = claimant_name_of_this_machine(guard_state_directory)
        for number in shared.claim_numbers()[-_RECENT_CLAIMS:]:
            # Another guard may remove an old claim at the same time, and a damaged claim must not hide the others.
            with suppress(FileNotFoundError, FenceError):
                claim, claim_record = shared.read_claim_and_details(number)
                if claim.node == node and "made" in claim_record:
                    made.append({"number": number, "made": claim_record["made"]})
    return made
