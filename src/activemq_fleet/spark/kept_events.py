"""Keep the events of each host between two audits of growing logs, for as long as the host's files stay as they are."""

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
class FileMark:
    """What a file is recognized by. ``digest`` is that of its first and last 4 KiB."""

    inode: int
    size: int
    changed: int
    digest: str


def marks_of(root: Path, known: Mapping[str, FileMark]) -> dict[str, FileMark]:
    """Return the mark of every file below ``root`` by its relative path; a file that goes away meanwhile has none.

    ``known`` are the marks of the look before: a file of the same inode, size and time is not opened again. Raises
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
                mark = known.get(relative)
                if mark is None or (mark.inode, mark.size, mark.changed) != _stamp(about):
                    mark = FileMark(*_stamp(about), _digest(path, root))
            except OSError:
                continue  # it went away meanwhile, or is a link to nothing: the audit itself says what cannot be read
            found[relative] = mark
    return found


def is_superseded(before: Mapping[str, FileMark], after: Mapping[str, FileMark]) -> bool:
    """Return whether a file of ``before`` is gone, is another file now or has become shorter: more than growing."""
    return any(
        path not in after or after[path].inode != mark.inode or after[path].size < mark.size
        for path, mark in before.items()
    )


def host_digest(host: Host, marks: Mapping[str, FileMark]) -> str:
    """Return a digest of all that the events of a host follow from: its logs, its release and zone, this program."""
    logs = sorted(
        (path, mark.size, mark.changed, mark.digest)
        for path, mark in marks.items()
        if path.startswith(f"{host.host}/activemq.log")
    )
    return hashlib.sha256(repr((__version__, host.release, host.timezone, logs)).encode()).hexdigest()


class KeptEvents:
    """The Parquet files of hosts' events below ``place``, and a ledger of which host has which.

    A file that the ledger does not name counts for nothing: a run was killed while it wrote it.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir(parents=True, exist_ok=True)
        self._ledger = place / "ledger.json"
        self._hosts: dict[str, dict[str, Any]] = {}
        try:
            found = json.loads(self._ledger.read_text())
            self._hosts = {
                host: entry
                for host, entry in found.items()
                if all((place / row["part"]).is_file() for row in entry["files"])
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # what cannot be read is made again

    def rows_of(self, host: str, digest: str) -> list[dict[str, Any]] | None:
        """Return what ``write_events`` said of a host's files, or None where its events are not kept."""
        entry = self._hosts.get(host)
        return entry["files"] if entry and entry["digest"] == digest else None

    def keep(self, rows: Iterable[Mapping[str, Any]], digests: Mapping[str, str]) -> None:
        """Keep the events of these hosts and of no other from now on; ``rows`` are those of ``write_events``."""
        self._hosts = {host: {"digest": digest, "files": []} for host, digest in digests.items()}
        for row in rows:
            self._hosts[row["host"]]["files"].append(dict(row))
        write_file(self._ledger, json.dumps(self._hosts).encode())
        parts = {row["part"] for entry in self._hosts.values() for row in entry["files"]}
        for path in self.place.glob("*.parquet"):
            if path.name not in parts:
                path.unlink()


def _stamp(about: os.stat_result) -> tuple[int, int, int]:
    return about.st_ino, about.st_size, about.st_mtime_ns


def _digest(path: Path, root: Path) -> str:
    with open(open_inside(path, root), "rb") as file:
        first = file.read(_END)
        file.seek(max(0, os.fstat(file.fileno()).st_size - _END))
        return hashlib.sha256(first + file.read(_END)).hexdigest()
