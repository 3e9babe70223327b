"""``audit --follow``: audit logs and journals that grow, again whenever they have changed."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from activemq_fleet.audit.evidence import SKEW
from activemq_fleet.errors import InputError
from activemq_fleet.spark.audit import gathering
from activemq_fleet.spark.audit.job import conclude, partitions, read_logs
from activemq_fleet.spark.datasets import Output
from activemq_fleet.spark.final import FinalOutput
from activemq_fleet.spark.inputs import Host, kind_of, list_inputs
from activemq_fleet.spark.journals import journal_records
from activemq_fleet.spark.kept_events import FileMark, KeptEvents, host_digest, is_superseded, marks_of
from activemq_fleet.spark.paths import local_path
from activemq_fleet.spark.settings import temporarily

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE = ".follow"
"""Directory below OUT with what is kept for the next audit."""
KEPT = "events"
"""Directory below ``STATE`` of the events that are kept."""
QUIET = 5.0
"""Seconds without a change after which an audit begins: a record that is being written is whole by then."""
LONGEST = 30.0
"""Seconds after the first change until an audit begins, however often files change."""


def follow(
    spark: SparkSession,
    logs: str,
    out: str,
    *,
    until_idle: float | None,
    inventory_hosts: Mapping[str, Host] | None = None,
    skew: timedelta = SKEW,
    every: float = 1.0,
) -> None:
    """Audit ``logs`` into ``out`` whenever files change, until none has for ``until_idle`` seconds; None: for ever.

    ``inventory_hosts`` and ``skew`` as for ``audit``; ``every``: seconds between two looks at the files. OUT is always
    the whole result of one audit. Started again with the same OUT, events of hosts whose logs are unchanged are taken
    over. Raises InputError for paths that cannot be followed, and where there was nothing to the end.
    """
    root = _followed(logs)
    with Output(spark, out):
        pass  # an OUT that is not ours is refused before any work
    with _alone(out):
        _remove_older_state(local_path(out))
        watch = _Watch(root, quiet=QUIET if until_idle is None else min(QUIET, until_idle))
        while until_idle is None or not watch.is_idle(until_idle):
            if watch.is_due():
                marks = watch.marks
                if any(kind_of(path.partition("/")[2]) in ("log", "journal") for path in marks):
                    if not _audit_once(spark, logs, out, root, marks, inventory_hosts, skew):
                        watch.look()
                        continue
                elif until_idle is not None:
                    list_inputs(spark, logs, inventory_hosts)  # raises InputError, which says what is not there
                watch.published(marks)
            elif until_idle != 0:
                time.sleep(every)
            watch.look()


@dataclass(slots=True)
class _Watch:
    """What is known of the files below ``root``: their marks, and since when they have not changed."""

    root: Path
    quiet: float
    marks: dict[str, FileMark] = field(default_factory=dict)
    _published: Mapping[str, FileMark] | None = None
    _changed: float = 0.0
    _since: float = 0.0

    def __post_init__(self) -> None:
        self._since = time.monotonic()
        self.look()

    def look(self) -> None:
        """Look at the files anew."""
        marks, now = marks_of(self.root, self.marks), time.monotonic()
        if marks != self.marks:
            if self.marks == self._published:
                self._since = now
            self.marks, self._changed = marks, now

    def published(self, marks: Mapping[str, FileMark]) -> None:
        """Note that the result is that of files with these marks. An audit that took long is no idleness."""
        self._published = marks
        self._since = self._changed = time.monotonic()

    def is_due(self) -> bool:
        """Return whether there is something new that was quiet for long enough, or has waited for long enough."""
        now = time.monotonic()
        is_ripe = now - self._changed >= self.quiet or now - self._since >= LONGEST
        return self.marks != self._published and is_ripe

    def is_idle(self, seconds: float) -> bool:
        """Return whether everything is published, and nothing has changed for so many seconds."""
        return self.marks == self._published and time.monotonic() - self._changed >= seconds


def _audit_once(
    spark: SparkSession,
    logs: str,
    out: str,
    root: Path,
    marks: Mapping[str, FileMark],
    inventory_hosts: Mapping[str, Host] | None,
    skew: timedelta,
) -> bool:
    """Audit; False, and OUT as before, where a file was rolled meanwhile: what was read may be there twice or not."""
    try:
        inputs, absent = gathering.complete(list_inputs(spark, logs, inventory_hosts), inventory_hosts)
        records = journal_records(spark, inputs).persist()
        try:
            with FinalOutput(spark, out, inputs, records) as output, temporarily(spark, partitions(spark, inputs)):
                place = local_path(out)
                kept = None if place is None else KeptEvents(place / STATE / KEPT)
                names = {file.host for file in inputs.of_kind("log")}
                digests = {name: host_digest(inputs.hosts[name], marks) for name in names}
                read = read_logs(spark, output, inputs, kept, digests)
                conclude(spark, output, inputs, read, records, absent=absent, skew=skew)
                if is_superseded(marks, marks_of(root, marks)):
                    return False
                output.commit()
        finally:
            records.unpersist()
    except Exception:
        # A file that Spark had listed and did not find when it opened it: another name for it is there now.
        if is_superseded(marks, marks_of(root, marks)):
            return False
        raise
    return True


def _remove_older_state(out: Path | None) -> None:
    """Remove what an earlier program kept: a stream's checkpoint, and the bytes that it had read."""
    for entry in (out / STATE).iterdir() if out else ():
        if entry.is_dir() and entry.name != KEPT:
            shutil.rmtree(entry)


def _followed(logs: str) -> Path:
    root = local_path(logs)
    if root is None:
        raise InputError(
            f"{logs}: --follow reads files that grow, on local or mounted paths alone; "
            "leave --follow out, and run the audit whenever there is more"
        )
    if not root.is_dir():
        raise InputError(f"{logs}: there is no such directory")
    return root


@contextmanager
def _alone(out: str) -> Iterator[None]:
    """Keep another run from the same OUT, where it is on this machine."""
    found = local_path(out)
    if found is None:
        yield
        return
    (found / STATE).mkdir(parents=True, exist_ok=True)
    descriptor = os.open(found / STATE / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            why = "another audit --follow writes it; wait for its end, or name another OUT"
            raise InputError(f"{out}: {why}") from None
        yield
    finally:
        os.close(descriptor)
