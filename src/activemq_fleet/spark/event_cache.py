"""Cache each host's events between two audits of growing logs, for as long as its log files are unchanged."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from activemq_fleet import __version__
from activemq_fleet.atomic_files import write_file_atomically
from activemq_fleet.audit.log_summaries import LogFileSummary
from activemq_fleet.node.log.log_file_names import is_broker_log_path
from activemq_fleet.spark.input_directory import check_no_outside_links
from activemq_fleet.spark.inputs import AuditedHost
from activemq_fleet.spark.task_results import WrittenPart

_BEGINNING_BYTES = 4096
"""The number of first bytes by which a longer version of a file is recognized: they contain the times of records."""


class FileFingerprint(NamedTuple):
    """The inode, size (bytes) and ctime (nanoseconds) of a file, by which an unchanged file is recognized."""

    inode: int
    size: int
    changed: int


def file_fingerprints(root: Path) -> dict[str, FileFingerprint]:
    """Return the fingerprints (inode, size, ctime) of all files below a directory, by relative path.

    Files and directories whose names begin with a dot or an underscore are left out, as Spark does not read them. These
    are also the temporary files of ``rsync``. Raises InputError for a link that leads out of ``root``, and for an entry
    that is not a regular file.
    """
    check_no_outside_links(str(root))
    fingerprints = {}
    for directory, below, names in os.walk(root, followlinks=True):
        below[:] = filter(_is_read_by_spark, below)
        for path in (Path(directory, name) for name in filter(_is_read_by_spark, names)):
            # The file may have been removed, or may be a dangling link. The audit itself reports unreadable files.
            with suppress(OSError):
                status = path.stat()
                fingerprint = FileFingerprint(status.st_ino, status.st_size, status.st_ctime_ns)
                fingerprints[path.relative_to(root).as_posix()] = fingerprint
    return fingerprints


def _is_read_by_spark(name: str) -> bool:
    return not name.startswith((".", "_"))


class CollectedFiles:
    """The collected files of an audit at its beginning: each file's fingerprint (inode, size, ctime) and first bytes.

    They show whether a file was replaced during the audit, so that some of its records may have been read twice.
    """

    def __init__(self, root: Path, fingerprints: Mapping[str, FileFingerprint]) -> None:
        self._root = root
        self._fingerprints = fingerprints
        self._beginnings = {path: self._beginning(path) for path in fingerprints}

    def replaced_file(self) -> str | None:
        """Return the relative path of a file that was replaced since the audit began; None if no file was.

        A file that is absent, has become shorter, or begins with other bytes, counts as replaced. A longer version of
        the same file does not, even if it is a new file under the same name, as ``rsync`` writes it.
        """
        after = file_fingerprints(self._root)
        return next((path for path in self._fingerprints if self._was_replaced(path, after.get(path))), None)

    def _was_replaced(self, path: str, after: FileFingerprint | None) -> bool:
        before, beginning = self._fingerprints[path], self._beginnings[path]
        if after is None or after.size < before.size:
            return True
        # The beginning of an empty file does not identify it.
        return after.inode != before.inode and not (beginning and self._beginning(path).startswith(beginning))

    def _beginning(self, path: str) -> bytes:
        """Return the first bytes of a file; empty for a file that cannot be read, which the audit itself reports."""
        try:
            with (self._root / path).open("rb") as file:
                return file.read(_BEGINNING_BYTES)
        except OSError:
            return b""


def cached_events_fingerprint(host: AuditedHost, files: Mapping[str, FileFingerprint]) -> str:
    """Return a hash of everything that determines a host's cached log events, such as its log files and release.

    The time zone of the host and the version of this package are included.
    """
    directory = f"{host.host}/"
    logs = sorted(
        (path, *fingerprint)
        for path, fingerprint in files.items()
        if path.startswith(directory) and is_broker_log_path(path.removeprefix(directory))
    )
    return hashlib.sha256(repr((__version__, host.release, host.timezone, logs)).encode()).hexdigest()


class CachedHost(NamedTuple):
    """A host whose log events are in the cache, with the Parquet files that hold them.

    It also has summaries of the log files from which the events were read.
    """

    fingerprint: str
    parts: list[WrittenPart]
    files: list[LogFileSummary]


class EventCache:
    """A cache of log events: those that earlier audits have read from the logs of hosts.

    It is a directory of Parquet files. Its ledger.json lists the files by host. Files that the ledger does not list are
    ignored, because they come from a run that was killed.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._ledger = directory / "ledger.json"
        self._hosts: dict[str, CachedHost] = {}
        try:
            for host, (fingerprint, parts, files) in json.loads(self._ledger.read_text()).items():
                written_parts = [WrittenPart(*part) for part in parts]
                if all((directory / part.file).is_file() for part in written_parts):
                    self._hosts[host] = CachedHost(
                        fingerprint, written_parts, [LogFileSummary.from_dict(file) for file in files]
                    )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._hosts.clear()  # an unreadable ledger, such as one of an earlier release, is built again

    def unchanged_hosts(self, fingerprints: Mapping[str, str]) -> dict[str, CachedHost]:
        """Return the hosts (by name) whose log files have not changed since their log events were written to the cache.

        ``fingerprints`` are the current fingerprints of hosts, by name (see ``cached_events_fingerprint``).
        """
        return {host: cached for host, cached in self._hosts.items() if fingerprints.get(host) == cached.fingerprint}

    def replace_cache_with_links_to_written_files(
        self,
        files: Iterable[LogFileSummary],
        parts: Iterable[WrittenPart],
        written: Path,
        fingerprints: Mapping[str, str],
    ) -> None:
        """Replace the files in the cache of log events by hard links to the given Parquet files.

        They are the events of the hosts in ``fingerprints``.
        """
        self._hosts = {host: CachedHost(fingerprint, [], []) for host, fingerprint in fingerprints.items()}
        for part in parts:
            self._hosts[part.part].parts.append(part)
            if not (self.directory / part.file).exists():
                os.link(written / part.file, self.directory / part.file)
        for summary in files:
            self._hosts[summary.host].files.append(summary)
        ledger = {
            host: [*cached[:2], [file.to_dict() for file in cached.files]] for host, cached in self._hosts.items()
        }
        write_file_atomically(self._ledger, json.dumps(ledger).encode())
        known = {part.file for cached in self._hosts.values() for part in cached.parts}
        for path in self.directory.glob("*.parquet"):
            if path.name not in known:
                path.unlink()
