"""Make a directory for a Spark session's temporary files, which the session's end removes, or else the next session."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "activemq-fleet-spark-"
_LOCK = "lock"
_LOG = "spark.log"


@dataclass(frozen=True, slots=True)
class ScratchDirectory:
    """A scratch directory, for the temporary files and the log of one Spark session."""

    path: Path

    @property
    def spark_log_text(self) -> str:
        """The text of Spark's log file so far; empty if the file does not exist or is unreadable."""
        try:
            return (self.path / _LOG).read_text(errors="replace")
        except OSError:
            return ""

    @contextmanager
    def redirect_output_to_log(self, *, enabled: bool) -> Iterator[None]:
        """Redirect stdout and stderr to Spark's log while a ``with`` block runs.

        File descriptors 1 and 2 are redirected, also for child processes. The JVM and the Python workers inherit them;
        no setting of Spark silences Java itself.
        """
        if not enabled:
            yield
            return
        sys.stdout.flush()
        sys.stderr.flush()
        saved_descriptors = os.dup(1), os.dup(2)
        log = os.open(self.path / _LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.dup2(log, 1)
            os.dup2(log, 2)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, descriptor in enumerate(saved_descriptors, 1):
                os.dup2(descriptor, number)
                os.close(descriptor)
            os.close(log)


@contextmanager
def temporary_scratch_directory() -> Iterator[ScratchDirectory]:
    """Yield a new scratch directory for a Spark session, and remove it at the end of the ``with`` block.

    Directories that killed sessions left are removed, too.
    """
    parent = Path(tempfile.gettempdir())
    _remove_abandoned_directories(parent)
    path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield ScratchDirectory(path)
    finally:
        os.close(lock)
        shutil.rmtree(path, ignore_errors=True)


def _remove_abandoned_directories(parent: Path) -> None:
    """Remove the directories of this user's sessions that were killed."""
    for path in parent.glob(f"{_PREFIX}*"):
        try:
            if path.stat().st_uid != os.getuid():
                continue
            lock = os.open(path / _LOCK, os.O_RDWR)
        except OSError:
            continue  # another process removed it, or has not locked it yet
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue  # The directory is in use.
        finally:
            os.close(lock)
