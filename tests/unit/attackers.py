"""Attacks by a second account of this machine, for tests that run as root."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

BROKER = 61_616
"""Uid and gid of the account of a broker. No account of the machine has them."""
STRANGER = 61_617
"""Uid and gid of another account."""

requires_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="attacks by a second account require root: run the tests as root"
)


@contextlib.contextmanager
def directory_for_all_accounts() -> Iterator[Path]:
    """Make a directory of root that all accounts can enter, unlike the temporary directories of pytest."""
    directory = Path(tempfile.mkdtemp(prefix="activemq-attack-"))
    try:
        directory.chmod(0o755)
        yield directory
    finally:
        shutil.rmtree(directory)


def create_owned_directory(path: Path, uid: int = BROKER, mode: int = 0o750) -> Path:
    """Make a directory that belongs to an account."""
    path.mkdir()
    path.chmod(mode)
    os.chown(path, uid, uid)
    return path


def call_as(uid: int, *actions: Callable[[], object]) -> None:
    """Call functions as an account, in a process without root privileges; raise AssertionError if a call fails."""
    child = os.fork()
    if child == 0:
        _call_and_exit(uid, *actions)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the process of the attacker failed before its attack was complete: wait status {status}"


@contextlib.contextmanager
def repeat_as(uid: int, action: Callable[[], object]) -> Iterator[None]:
    """Repeat a call as an account while the body of the context runs, also after calls that fail."""

    def repeat() -> None:
        while True:
            with contextlib.suppress(OSError):
                action()

    child = os.fork()
    if child == 0:
        _call_and_exit(uid, repeat)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _call_and_exit(uid: int, *actions: Callable[[], object]) -> None:
    status = 1
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        for action in actions:
            action()
        status = 0
    finally:
        os._exit(status)
