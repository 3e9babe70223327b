# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The archive that brings one host's evidence to the controller: masked, bounded, and true about what it lacks.

Files that grow and roll while they are read are opened first, all of a kind at once, and read as
long as they were then.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

_CHUNK = 1 << 20
_TRIES = 5

Mask = Callable[[str], str]


@dataclass
class Opened:
    """A regular file that is held open; ``size`` and ``mtime`` are those of that moment."""

    name: str
    file: BinaryIO = field(repr=False)
    size: int
    mtime: float


@dataclass
class Bundle:
    """A gzipped tar at ``path`` of at most ``limit`` bytes, counted before compression.

    ``left_out`` has ``{path, bytes, why}`` for everything that is not in it, or not whole.
    """

    path: str
    limit: int
    left_out: list[dict[str, Any]] = field(default_factory=list)
    files: int = 0

    def __post_init__(self) -> None:
        self.rest = self.limit
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        self._out = os.fdopen(descriptor, "wb")
        self._tar = tarfile.open(fileobj=self._out, mode="w:gz", compresslevel=4)  # noqa: SIM115 -- close() ends it

    def close(self) -> None:
        self._tar.close()
        self._out.close()

    def leave_out(self, path: str, size: int, why: str) -> None:
        self.left_out.append({"path": path, "bytes": size, "why": why})

    def add(self, name: str, data: bytes, mtime: float = 0) -> bool:
        """Add a small file that is masked already. False when it does not fit."""
        if len(data) > self.rest:
            self.leave_out(name, len(data), "does not fit")
            return False
        self._write(name, io.BytesIO(data), len(data), mtime)
        self.rest -= len(data)
        return True

    def add_logs(self, opened: Iterable[Opened], mask: Mask) -> None:
        """Add masked logs, newest first. The first that does not fit is cut to its newest lines."""
        for log in sorted(opened, key=lambda log: log.mtime, reverse=True):
            with log.file:
                try:
                    (self._add_packed if log.name.endswith(".gz") else self._add_log)(log, mask)
                except (OSError, EOFError, ValueError) as error:
                    self.leave_out(log.name, log.size, f"cannot be read: {error}")

    def _add_log(self, log: Opened, mask: Mask) -> None:
        if not self.rest:
            self.leave_out(log.name, log.size, "does not fit")
            return
        skipped = max(0, log.size - self.rest)
        log.file.seek(skipped)
        if skipped:
            skipped += len(log.file.readline(_CHUNK))  # the line that the cut goes through
            self.leave_out(log.name, skipped, "only its newest lines fit")
        size = log.size - skipped
        with tempfile.TemporaryFile(dir=os.path.dirname(self.path)) as masked:
            _mask(log.file, masked, size, mask, whole_lines=log.name.endswith(".jsonl"))
            self._write(log.name, masked, masked.tell(), log.mtime)
        self.rest -= size

    def _add_packed(self, log: Opened, mask: Mask) -> None:
        with tempfile.TemporaryFile(dir=os.path.dirname(self.path)) as masked:
            target = gzip.GzipFile(fileobj=masked, mode="wb", compresslevel=6, mtime=0, filename="")
            with target, gzip.GzipFile(fileobj=log.file) as source:
                size = _mask(source, target, self.rest, mask)
                if source.read(1):
                    self.leave_out(log.name, log.size, "does not fit once unpacked")
                    return
            self._write(log.name, masked, masked.tell(), log.mtime)
        self.rest -= size

    def _write(self, name: str, data: Any, size: int, mtime: float) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mtime, member.mode = size, int(mtime), 0o600
        data.seek(0)
        self._tar.addfile(member, data)
        self.files += 1


def _mask(source: Any, target: Any, size: int, mask: Mask, whole_lines: bool = False) -> int:
    """Copy at most ``size`` bytes, masked line by line; returns how many were read."""
    rest = size
    while rest > 0:
        chunk = source.read(min(_CHUNK, rest))
        if not chunk:
            break
        if not chunk.endswith(b"\n"):
            chunk += source.readline(rest - len(chunk))
        rest -= len(chunk)
        if whole_lines and not chunk.endswith(b"\n"):
            chunk = chunk[: chunk.rfind(b"\n") + 1]
        # Bytes that are no UTF-8 come out as they went in.
        target.write(mask(chunk.decode(errors="surrogateescape")).encode(errors="surrogateescape"))
    return size - rest


def open_regular(path: str, name: str) -> Opened:
    """Open a regular file. A link is followed only if who made it could read the file as well.

    Raises OSError, PermissionError for such a link.
    """
    link = os.lstat(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise PermissionError(f"{path} is no file")
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in (0, status.st_uid):
        os.close(descriptor)
        raise PermissionError(f"{path} is a link to somebody else's file")
    return Opened(name, os.fdopen(descriptor, "rb"), status.st_size, status.st_mtime)


def open_all(directory: str, wanted: Callable[[str], bool], prefix: str, bundle: Bundle) -> list[Opened]:
    """Open the files of a directory that are wanted, as they stood at one moment.

    Should one be renamed meanwhile, as a log is that rolls, they are opened again.
    """
    for attempt in range(_TRIES):
        before = _inodes(directory, wanted)
        opened: dict[int, Opened] = {}
        problems = []
        for name, inode in before.items():
            try:
                opened.setdefault(inode, open_regular(os.path.join(directory, name), prefix + name))
            except OSError as error:
                problems.append((prefix + name, str(error)))
        if _inodes(directory, wanted) == before or attempt == _TRIES - 1:
            for path, why in problems:
                bundle.leave_out(path, 0, why)
            return list(opened.values())
        for log in opened.values():
            log.file.close()
    return []


def _inodes(directory: str, wanted: Callable[[str], bool]) -> dict[str, int]:
    try:
        with os.scandir(directory) as entries:
            return {entry.name: entry.inode() for entry in sorted(entries, key=lambda e: e.name) if wanted(entry.name)}
    except (FileNotFoundError, NotADirectoryError):
        return {}
