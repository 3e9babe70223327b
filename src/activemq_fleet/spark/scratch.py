"""A session's temporary files: one directory, removed with it, also after a kill."""

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
class Scratch:
    """``path`` is this session's alone."""

    path: Path

    @property
    def log(self) -> str:
        """What Spark said so far."""
        try:
            return (self.path / _LOG).read_text(errors="replace")
        except OSError:
            return ""

    @contextmanager
    def quiet(self, *, enabled: bool) -> Iterator[None]:
        """Let what is started in the block write its output and errors to the log, for as long as it lives.

        The JVM and the Python workers inherit them; no setting of Spark silences what Java itself says.
        """
        if not enabled:
            yield
            return
        sys.stdout.flush()
        sys.stderr.flush()
        kept = os.dup(1), os.dup(2)
        log = os.open(self.path / _LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.dup2(log, 1)
            os.dup2(log, 2)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, descriptor in enumerate(kept, 1):
                os.dup2(descriptor, number)
                os.close(descriptor)
            os.close(log)


@contextmanager
def scratch() -> Iterator[Scratch]:
    """A fresh directory below the system's temporary one; what killed sessions left there goes."""
    parent = Path(tempfile.gettempdir())
    _remove_abandoned(parent)
    path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Scratch(path)
    finally:
        os.close(lock)
        shutil.rmtree(path, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    for path in parent.glob(f"{_PREFIX}*"):
        try:
            if path.stat().st_uid != os.getuid():
                continue
            lock = os.open(path / _LOCK, os.O_RDWR)
        except OSError:
            continue  # somebody else is faster, or has not got as far as its lock
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue  # in use
        finally:
            os.close(lock)
