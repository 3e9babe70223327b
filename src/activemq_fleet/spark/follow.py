"""Audit growing logs and journals again after every change: ``audit --follow``."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from activemq_fleet import InputError
from activemq_fleet.atomic_files import os_errors_as_output_errors
from activemq_fleet.audit.evidence import SKEW
from activemq_fleet.node.printable import escape_unprintable
from activemq_fleet.spark.audit_job import write_audit_except_events, write_log_events_and_summarize_files
from activemq_fleet.spark.datasets import AtomicJobOutput
from activemq_fleet.spark.event_cache import (
    CollectedFiles,
    EventCache,
    FileFingerprint,
    cached_events_fingerprint,
    file_fingerprints,
)
from activemq_fleet.spark.inputs import AuditedHost, add_hosts_and_list_input_gaps, file_kind, list_audit_inputs
from activemq_fleet.spark.paths import local_path
from activemq_fleet.spark.settings import shuffle_settings, temporary_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_DIRECTORY = ".follow"
"""Directory below OUT with what is cached for the next audit."""
EVENTS_DIRECTORY = "events"
"""Directory below ``STATE_DIRECTORY`` of the event cache."""
QUIET_SECONDS = 5.0
"""Seconds without a change after which an audit begins: a record that is being written is whole by then."""
LONGEST_WAIT_SECONDS = 30.0
"""Seconds after the first change until an audit begins, however often files change."""
_CHECK_INTERVAL_SECONDS = 1.0


def rewrite_audit_after_log_changes(
    spark: SparkSession,
    logs: str,
    out: str,
    *,
    until_idle: float | None,
    inventory_hosts: Mapping[str, AuditedHost] | None = None,
    skew: timedelta = SKEW,
) -> None:
    """Audit logs again after every change of their files.

    The audits end when no file changes for ``until_idle`` seconds. With ``until_idle`` None it never returns.
    ``inventory_hosts`` and ``skew`` are as for ``audit``. ``out`` always holds the whole result of one audit; events of
    hosts whose logs are unchanged are reused from its cache. Raises InputError for a path that is no local directory,
    for an ``out`` that holds anything else or is below ``logs``, and when no log or journal has appeared to the end.
    """
    root = _local_directory(logs)
    _check_output_outside_of_logs(out, logs, root)
    with AtomicJobOutput(spark, out):
        pass  # An output directory of another program is rejected before any work.
    with _lock_output(out):
        watch = _Watch(root, quiet=QUIET_SECONDS if until_idle is None else min(QUIET_SECONDS, until_idle))
        while until_idle is None or not watch.are_watched_files_idle(until_idle):
            if watch.is_audit_due():
                fingerprints = watch.fingerprints
                if any(file_kind(path.partition("/")[2]) in ("log", "journal") for path in fingerprints):
                    if not _audit_once(spark, logs, out, root, fingerprints, inventory_hosts, skew):
                        watch.update_fingerprints()
                        continue
                elif until_idle is not None:
                    list_audit_inputs(spark, logs, inventory_hosts)  # raises InputError that names the missing input
                watch.record_audit(fingerprints)
            elif until_idle != 0:
                time.sleep(_CHECK_INTERVAL_SECONDS)
            watch.update_fingerprints()


@dataclass(slots=True)
class _Watch:
    """A watch on the files below ``root``: their fingerprints, and the times of the last change and audit."""

    root: Path
    quiet: float
    fingerprints: dict[str, FileFingerprint] = field(default_factory=dict)
    _published: Mapping[str, FileFingerprint] | None = None
    _changed: float = 0.0
    _since: float = 0.0

    def __post_init__(self) -> None:
        self._since = time.monotonic()
        self.update_fingerprints()

    def update_fingerprints(self) -> None:
        """Read the fingerprints (inode, size, ctime) of the watched log files again.

        The time is noted if any has changed.
        """
        fingerprints, now = file_fingerprints(self.root), time.monotonic()
        if fingerprints != self.fingerprints:
            if self.fingerprints == self._published:
                self._since = now
            self.fingerprints, self._changed = fingerprints, now

    def record_audit(self, fingerprints: Mapping[str, FileFingerprint]) -> None:
        """Record the state of the log files that an audit has read, so that the next audit is due only after a change.

        ``fingerprints`` are those of the files that it read. The idle time begins again.
        """
        self._published = fingerprints
        self._since = self._changed = time.monotonic()

    def is_audit_due(self) -> bool:
        """Return whether the watched log files have changed so that they must be audited again.

        It is due if files changed since the last audit, and either no file has changed for ``quiet`` seconds, or the
        first of these changes is LONGEST_WAIT_SECONDS old.
        """
        now = time.monotonic()
        is_ripe = now - self._changed >= self.quiet or now - self._since >= LONGEST_WAIT_SECONDS
        return self.fingerprints != self._published and is_ripe

    def are_watched_files_idle(self, seconds: float) -> bool:
        """Return whether the log files that a continuous audit watches have been unchanged for a number of seconds.

        The last audit must include all changes.
        """
        return self.fingerprints == self._published and time.monotonic() - self._changed >= seconds


def _audit_once(
    spark: SparkSession,
    logs: str,
    out: str,
    root: Path,
    fingerprints: Mapping[str, FileFingerprint],
    inventory_hosts: Mapping[str, AuditedHost] | None,
    skew: timedelta,
) -> bool:
    """Run an audit and return whether OUT was replaced; it is not if a log file was rolled and may be read twice."""
    files = CollectedFiles(root, fingerprints)
    try:
        inputs, absent = add_hosts_and_list_input_gaps(list_audit_inputs(spark, logs, inventory_hosts), inventory_hosts)
        with AtomicJobOutput(spark, out) as output, temporary_settings(spark, shuffle_settings(spark, inputs)):
            local = local_path(out) if output.is_written_by_python_tasks else None
            cache = None if local is None else EventCache(local / STATE_DIRECTORY / EVENTS_DIRECTORY)
            names = {file.host for file in inputs.files_of_kind("log")}
            host_fingerprints = {name: cached_events_fingerprint(inputs.hosts[name], fingerprints) for name in names}
            summaries = write_log_events_and_summarize_files(spark, output, inputs, cache, host_fingerprints)
            write_audit_except_events(spark, output, inputs, summaries, absent=absent, skew=skew, is_growing=True)
            if _reports_replaced_file(files):
                return False
            output.commit()
    except Exception:
        # Spark listed the file, but did not find it later, because the file has a different name now.
        if _reports_replaced_file(files):
            return False
        raise
    return True


def _reports_replaced_file(files: CollectedFiles) -> bool:
    """Return whether a file was replaced during an audit, and report it on stderr."""
    path = files.replaced_file()
    if path is None:
        return False
    print(
        f"{escape_unprintable(path)} was rotated, truncated or removed during the audit, so some records may have been "
        "read twice, or not at all. The audit runs again.",
        file=sys.stderr,
    )
    return True


def _local_directory(logs: str) -> Path:
    root = local_path(logs)
    if root is None:
        raise InputError(
            f"{logs}: --follow supports only directories on local or mounted file systems: run the audit without "
            "--follow after each collection of logs"
        )
    if not root.is_dir():
        raise InputError(f"{logs}: the directory does not exist: correct --logs")
    return root


def _check_output_outside_of_logs(out: str, logs: str, root: Path) -> None:
    """Raise InputError for an output below the directory of logs: each audit would change the files that it follows."""
    directory = local_path(out)
    if directory is not None and directory.resolve().is_relative_to(root.resolve()):
        raise InputError(
            f"the output directory {out} is inside the directory of logs {logs}, so that each audit would cause "
            f"another one: set -o to a directory outside of {logs}"
        )


@contextmanager
def _lock_output(out: str) -> Iterator[None]:
    """Lock the output directory ``out`` against other runs, if it is on this machine."""
    directory = local_path(out)
    if directory is None:
        yield
        return
    with os_errors_as_output_errors("create the directory", directory):
        (directory / STATE_DIRECTORY).mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory / STATE_DIRECTORY / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{out}: another run of audit --follow writes to this directory: wait until that run has ended, or "
                "choose another output directory"
            ) from None
        yield
    finally:
        os.close(descriptor)
