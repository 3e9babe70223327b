"""Cache each host's events between two audits of growing logs, for as long as its log files are unchanged."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from activemq_fleet import __version__
from activemq_fleet.atomic_files import write_file
from activemq_fleet.spark.input_directory import open_inside, refuse_outside_links
from activemq_fleet.spark.inputs import Host

_END = 4096  # bytes at either end of a file that its digest is made of


@dataclass(frozen=True, slots=True)
class FileFingerprint:
    """By what an unchanged file is recognized.

    ``size`` is in bytes, ``changed`` the modification time in nanoseconds, ``digest`` the SHA-256 of the file's first
    and last 4 KiB.
    """

    inode: int
    size: int
    changed: int
    digest: str


def file_fingerprints(root: Path, earlier: Mapping[str, FileFingerprint]) -> dict[str, FileFingerprint]:
    """Return the fingerprint of every file below ``root`` by its relative path, without files that vanish meanwhile.

    ``earlier`` are those of the call before: a file of the same inode, size and time is not opened again. Raises
    InputError for a link that leads out of ``root``, and for what is no regular file.
    """
    refuse_outside_links(str(root))
    found = {}
    for directory, below, names in os.walk(root, followlinks=True):
        below[:] = [name for name in below if not name.startswith((".", "_"))]
        for name in names:
            path = Path(directory, name)
            relative = path.relative_to(root).as_posix()
            try:
                about = path.stat()
                mark = earlier.get(relative)
                if mark is None or (mark.inode, mark.size, mark.changed) != _stamp(about):
                    mark = FileFingerprint(*_stamp(about), _digest(path, root))
            except OSError:
                continue  # it went away meanwhile, or is a link to nothing: the audit itself says what cannot be read
            found[relative] = mark
    return found


def has_replaced_files(before: Mapping[str, FileFingerprint], after: Mapping[str, FileFingerprint]) -> bool:
    """Return whether any file of ``before`` is absent from ``after``, has another inode there, or is shorter."""
    return any(
        path not in after or after[path].inode != mark.inode or after[path].size < mark.size
        for path, mark in before.items()
    )


def host_fingerprint(host: Host, marks: Mapping[str, FileFingerprint]) -> str:
    """Return a hash of what a host's events follow from: logs, release, time zone, this package's version."""
    logs = sorted(
        (path, mark.size, mark.changed, mark.digest)
        for path, mark in marks.items()
        if path.startswith(f"{host.host}/activemq.log")
    )
    return hashlib.sha256(repr((__version__, host.release, host.timezone, logs)).encode()).hexdigest()


class EventCache:
    """Parquet files with the events of hosts in ``directory``, and ledger.json there, which lists the files by host.

    Files that the ledger does not list are ignored: a killed run left them.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._ledger = directory / "ledger.json"
        self._hosts: dict[str, dict[str, Any]] = {}
        try:
            found = json.loads(self._ledger.read_text())
            self._hosts = {
                host: entry
                for host, entry in found.items()
                if all((directory / row["part"]).is_file() for row in entry["files"])
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # what cannot be read is made again

    def parts_of(self, host: str, fingerprint: str) -> list[dict[str, Any]] | None:
        """Return a host's rows of ``write_events``, one a log file and Parquet part, or None if not cached."""
        entry = self._hosts.get(host)
        return entry["files"] if entry and entry["digest"] == fingerprint else None

    def replace(self, rows: Iterable[Mapping[str, Any]], fingerprints: Mapping[str, str]) -> None:
        """Write the ledger anew with the hosts of ``fingerprints`` alone, and delete Parquet files not listed in it.

        ``rows`` are those that ``write_events`` returns; their files lie in ``directory`` already.
        """
        self._hosts = {host: {"digest": fingerprint, "files": []} for host, fingerprint in fingerprints.items()}
        for row in rows:
            self._hosts[row["host"]]["files"].append(dict(row))
        write_file(self._ledger, json.dumps(self._hosts).encode())
        parts = {row["part"] for entry in self._hosts.values() for row in entry["files"]}
        for path in self.directory.glob("*.parquet"):
            if path.name not in parts:
                path.unlink()


def _stamp(about: os.stat_result) -> tuple[int, int, int]:
    return about.st_ino, about.st_size, about.st_mtime_ns


def _digest(path: Path, root: Path) -> str:
    with open(open_inside(path, root), "rb") as file:
        first = file.read(_END)
        file.seek(max(0, os.fstat(file.fileno()).st_size - _END))
        return hashlib.sha256(first + file.read(_END)).hexdigest()
