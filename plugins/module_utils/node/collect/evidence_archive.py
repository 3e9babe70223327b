# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the archive that brings one host's evidence to the controller: masked, bounded, listing what is missing.

Files that may grow or be rotated during the collection are opened first, the newest of a kind at once, and read up to
their size at that time.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import tarfile
import tempfile
import time
import typing
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from ..files.untrusted_paths import (
    Directory,
    UntrustedPathError,
    open_directory,
    open_file_owned_by_directory_owner_or_root,
)
from ..printable import escape_unprintable

_CHUNK_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 18
TIME_IS_OVER = (
    "collecting from this host took longer than activemq_collect_timeout. Increase this variable to collect the file"
)
NEWEST_ONLY = (
    "only the newest lines of this log fit into the limit activemq_collect_megabytes. Increase this variable to "
    "collect all lines"
)
_TOO_LARGE = (
    "the file does not fit into the limit activemq_collect_megabytes. Increase this variable to collect the file"
)
_TOO_LARGE_UNPACKED = (
    "the unpacked log does not fit into the limit activemq_collect_megabytes. Increase this variable to collect the log"
)
_EMPTY_GZIP_FILE = (
    "the gzip file is empty, so its content is lost on the host. Restore the file from a backup of the host, or "
    "remove it"
)
_MAX_ATTEMPTS = 5
_MAX_OPEN_FILES = 250
"""Maximum number of files of a kind that are open at once: a process can often open only 1024 files."""
_TOO_MANY_FILES = (
    f"only the newest {_MAX_OPEN_FILES} files of this kind are collected. Copy the file from the host if you need it, "
    "and let the broker write fewer, larger log files"
)

Mask = typing.Callable[[str], str]
Late = typing.Callable[[], bool]


@dataclass
class OpenFileToCollect:
    """An open regular file, such as a log, that is to be collected as evidence.

    It has the size and the modification time. Size and time are those of the moment of opening.
    """

    name: str
    file: BinaryIO = field(repr=False)
    size: int
    mtime: float


@dataclass
class EvidenceArchive:
    """The gzipped tar archive of the evidence (logs, configuration files, facts) that is collected from one host.

    It is limited in size and time. It has a list of omitted files. ``limit`` is in bytes before compression.

    ``seconds`` after its creation it accepts no more logs. ``left_out`` has ``{path, bytes, why}`` for everything that
    is missing or incomplete; ``files`` is the number of files in the archive.
    """

    path: str
    limit: int
    seconds: float = math.inf
    left_out: list[dict[str, Any]] = field(default_factory=list)
    files: int = 0

    def __post_init__(self) -> None:
        self.rest = self.limit
        self._deadline = time.monotonic() + self.seconds
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._tar = tarfile.open(fileobj=self._file, mode="w:gz", compresslevel=4)  # noqa: SIM115 -- close() closes it

    def close(self) -> None:
        self._tar.close()
        self._file.close()

    def is_time_over(self) -> bool:
        """Return whether the time allowed for collecting evidence is over."""
        return time.monotonic() > self._deadline

    @property
    def remaining_seconds(self) -> float:
        """The seconds until the time limit for collecting a host's evidence; negative after it."""
        return self._deadline - time.monotonic()

    def make_readable_by_login_account(self) -> None:
        """Make the archive of collected evidence readable by the account with which Ansible logs in to the host.

        That account owns the directory. The secrets in the archive are masked.
        """
        owner = os.stat(os.path.dirname(self.path))
        if os.geteuid() == 0:
            os.fchown(self._file.fileno(), owner.st_uid, owner.st_gid)
        elif owner.st_uid != os.geteuid():
            os.fchmod(self._file.fileno(), 0o644)

    def leave_out(self, path: str, size: int, why: str) -> None:
        self.left_out.append({"path": escape_unprintable(path), "bytes": size, "why": escape_unprintable(why)})

    def add_file(self, name: str, data: bytes, mtime: float = 0) -> bool:
        """Add a file with the given content and modification time to the archive of evidence.

        The content is small and already masked. Returns False, and lists the file as omitted, if it is too large.
        """
        if len(data) > self.rest:
            self.leave_out(name, len(data), _TOO_LARGE)
            return False
        self._write(name, io.BytesIO(data), len(data), mtime)
        self.rest -= len(data)
        return True

    def add_masked_logs(self, opened: Iterable[OpenFileToCollect], mask: Mask) -> None:
        """Mask the secrets in open log files, and add the files to the archive of evidence.

        The newest log comes first. Of a log that does not fit only the newest lines are added.
        """
        for log in sorted(opened, key=lambda log: log.mtime, reverse=True):
            with log.file:
                try:
                    (self._add_compressed_log if log.name.endswith(".gz") else self._add_log)(log, mask)
                except (OSError, EOFError, ValueError, zlib.error) as error:
                    self.leave_out(log.name, log.size, f"the file cannot be read: {error}")

    def _add_log(self, log: OpenFileToCollect, mask: Mask) -> None:
        if not self.rest or self.is_time_over():
            self.leave_out(log.name, log.size, TIME_IS_OVER if self.rest else _TOO_LARGE)
            return
        skipped = max(0, log.size - self.rest)
        log.file.seek(skipped)
        if skipped:
            skipped += len(log.file.readline(_CHUNK_BYTES))  # the incomplete first line
            self.leave_out(log.name, skipped, NEWEST_ONLY)
        size = log.size - skipped
        with tempfile.TemporaryFile(dir=os.path.dirname(self.path)) as masked:
            read, dropped = _copy_masked(
                log.file, masked, size, mask, self.is_time_over, whole_lines=log.name.endswith(".jsonl")
            )
            self._list_missing_parts(log, size - read, dropped)
            self._write(log.name, masked, masked.tell(), log.mtime)
        self.rest -= size

    def _add_compressed_log(self, log: OpenFileToCollect, mask: Mask) -> None:
        if self.is_time_over():
            self.leave_out(log.name, log.size, TIME_IS_OVER)
            return
        if not log.size:
            self.leave_out(log.name, 0, _EMPTY_GZIP_FILE)
            return
        with tempfile.TemporaryFile(dir=os.path.dirname(self.path)) as masked:
            target = gzip.GzipFile(fileobj=masked, mode="wb", compresslevel=6, mtime=0, filename="")
            with target, gzip.GzipFile(fileobj=log.file) as source:
                size, dropped = _copy_masked(source, target, self.rest, mask, self.is_time_over)
                if self.is_time_over():
                    self.leave_out(log.name, log.size, TIME_IS_OVER)
                    return
                if source.read(1):
                    self.leave_out(log.name, log.size, _TOO_LARGE_UNPACKED)
                    return
            self._list_missing_parts(log, 0, dropped)
            self._write(log.name, masked, masked.tell(), log.mtime)
        self.rest -= size

    def _list_missing_parts(self, log: OpenFileToCollect, unread: int, dropped: int) -> None:
        if unread > 0 and self.is_time_over():
            self.leave_out(log.name, unread, TIME_IS_OVER)
        if dropped:
            self.leave_out(
                log.name,
                dropped,
                "the collected copy of this log contains only the beginning of very long lines. Read the log on "
                "the host for the complete lines",
            )

    def _write(self, name: str, data: Any, size: int, mtime: float) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mtime, member.mode = size, int(mtime), 0o600
        data.seek(0)
        self._tar.addfile(member, data)
        self.files += 1


def _copy_masked(
    source: Any, target: Any, size: int, mask: Mask, is_late: Late, whole_lines: bool = False
) -> tuple[int, int]:
    """Copy at most ``size`` bytes, masked line by line; return how many were read, and how many of those were dropped.

    The part of a line that exceeds a chunk by more than ``_MAX_LINE_BYTES`` is dropped, because the masker cuts it
    anyway and a long line would fill the memory. After the time limit nothing more is read.
    """
    remaining, dropped = size, 0
    while remaining > 0 and not is_late():
        chunk = source.read(min(_CHUNK_BYTES, remaining))
        if not chunk:
            break
        if not chunk.endswith(b"\n"):
            chunk += source.readline(min(_MAX_LINE_BYTES, remaining - len(chunk)))
        remaining -= len(chunk)
        if remaining and not chunk.endswith(b"\n"):
            skipped = _skip_line(source, remaining)
            remaining, dropped = remaining - skipped, dropped + skipped
            chunk += b"\n" if skipped else b""
        if whole_lines and not chunk.endswith(b"\n"):
            chunk = chunk[: chunk.rfind(b"\n") + 1]
        # Bytes that are not UTF-8 are copied unchanged.
        target.write(mask(chunk.decode(errors="surrogateescape")).encode(errors="surrogateescape"))
    return size - remaining, dropped


def _skip_line(source: Any, limit: int) -> int:
    """Read to the end of a line; return the number of bytes read."""
    skipped = 0
    while skipped < limit:
        piece = source.readline(min(_CHUNK_BYTES, limit - skipped))
        skipped += len(piece)
        if not piece or piece.endswith(b"\n"):
            break
    return skipped


def open_collected_file_with_size_and_time(directory: Directory, name: str, archive_name: str) -> OpenFileToCollect:
    """Open a host's file for reading, to collect it as evidence, and return it with its size and modification time.

    ``archive_name`` is the name that the file gets in the archive. Root or the owner of its directory must have written
    the file. Raises UntrustedPathError, OSError.
    """
    descriptor = open_file_owned_by_directory_owner_or_root(directory, name)
    status = os.fstat(descriptor)
    return OpenFileToCollect(archive_name, os.fdopen(descriptor, "rb"), status.st_size, status.st_mtime)


def open_matching_files(
    path: str,
    matches: Callable[[str], bool],
    prefix: str,
    bundle: EvidenceArchive,
    enters: Callable[[str], bool] = lambda path: False,
) -> list[OpenFileToCollect]:
    """Open the files of a directory whose paths satisfy a predicate, and return these open files for an archive.

    Paths are relative to the directory. Files are searched in subdirectories whose paths satisfy ``enters``, too. The
    newest 250 are opened at one moment. If a file is renamed in the meantime, such as a rotated log, all are opened
    again. Older files and files that cannot be opened are listed in ``bundle``, as is a directory that an untrusted
    link leads to.
    """
    try:
        with open_directory(path) as directory:
            return _open_at_one_moment(directory, matches, prefix, bundle, enters)
    except FileNotFoundError:
        return []
    except (UntrustedPathError, OSError) as error:
        bundle.leave_out(prefix or path, 0, str(error))
        return []


def _open_at_one_moment(
    directory: Directory,
    matches: Callable[[str], bool],
    prefix: str,
    bundle: EvidenceArchive,
    enters: Callable[[str], bool],
) -> list[OpenFileToCollect]:
    for attempt in range(_MAX_ATTEMPTS):
        matching_files = _find_matching_files(directory, matches, enters)
        opened: dict[int, OpenFileToCollect] = {}
        problems = [(prefix + path, why) for path, why in matching_files.problems.items()]
        newest_first = sorted(
            matching_files.inodes, key=lambda path: matching_files.statuses[path].st_mtime, reverse=True
        )
        for path in newest_first[:_MAX_OPEN_FILES]:
            try:
                opened.setdefault(matching_files.inodes[path], _open_below(directory, path, prefix + path))
            except (UntrustedPathError, OSError) as error:
                problems.append((prefix + path, str(error)))
        if _find_matching_files(directory, matches, enters) == matching_files or attempt == _MAX_ATTEMPTS - 1:
            for path, why in problems:
                bundle.leave_out(path, 0, why)
            for path in newest_first[_MAX_OPEN_FILES:]:
                bundle.leave_out(prefix + path, matching_files.statuses[path].st_size, _TOO_MANY_FILES)
            return list(opened.values())
        for log in opened.values():
            log.file.close()
    return []


def _open_below(directory: Directory, path: str, archive_name: str) -> OpenFileToCollect:
    """Open a file by its path below an open directory, without following links to directories."""
    name, _, rest = path.partition("/")
    if not rest:
        return open_collected_file_with_size_and_time(directory, name, archive_name)
    with directory.open_subdirectory(name) as child:
        return _open_below(child, rest, archive_name)


@dataclass
class _MatchingFiles:
    """The inodes and statuses of matching files, and the problems of unreadable subdirectories, all by path.

    Sizes and times in the statuses do not count when two searches are compared, because a log grows.
    """

    inodes: dict[str, int] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, os.stat_result] = field(default_factory=dict, compare=False)


def _find_matching_files(
    directory: Directory, matches: Callable[[str], bool], enters: Callable[[str], bool], parent: str = ""
) -> _MatchingFiles:
    """Find the matching files in an open directory, whose path is ``parent``, and in its subdirectories."""
    matching_files = _MatchingFiles()
    for name in directory.entry_names():
        path = parent + name
        with suppress(FileNotFoundError):
            if matches(path):
                status = directory.entry_status(name)
                matching_files.inodes[path], matching_files.statuses[path] = status.st_ino, status
            elif enters(path) and directory.is_directory(name):
                try:
                    with directory.open_subdirectory(name) as child:
                        below = _find_matching_files(child, matches, enters, f"{path}/")
                except FileNotFoundError:
                    continue
                except (UntrustedPathError, OSError) as error:
                    matching_files.problems[f"{path}/"] = str(error)
                else:
                    matching_files.inodes.update(below.inodes)
                    matching_files.statuses.update(below.statuses)
                    matching_files.problems.update(below.problems)
    return matching_files
