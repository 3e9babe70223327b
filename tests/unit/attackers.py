"""A second account of this machine that does what an attacker does, for tests that run as root."""

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
"""Uid and gid of an account that stands for the broker's; nobody on the machine has them."""
STRANGER = 61_617
"""Another account."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="attacks by a second account need root to begin with")


@contextlib.contextmanager
def common_directory() -> Iterator[Path]:
    """A directory of root's that every account can enter, unlike pytest's own."""
    directory = Path(tempfile.mkdtemp(prefix="activemq-attack-"))
    try:
        directory.chmod(0o755)
        yield directory
    finally:
        shutil.rmtree(directory)


def owned_directory(path: Path, uid: int = BROKER, mode: int = 0o750) -> Path:
    """Make a directory that belongs to an account."""
    path.mkdir()
    path.chmod(mode)
    os.chown(path, uid, uid)
    return path


def do_as(uid: int, *acts: Callable[[], object]) -> None:
    """Do one after the other as an account, in a process that has given up root; AssertionError when one fails."""
    child = os.fork()
    if child == 0:
        _become(uid, *acts)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the attacker could not even try: wait status {status}"


@contextlib.contextmanager
def doing_as(uid: int, act: Callable[[], object]) -> Iterator[None]:
    """Do it over and over as an account while the body runs; what fails is tried again."""

    def forever() -> None:
        while True:
            with contextlib.suppress(OSError):
                act()

    child = os.fork()
    if child == 0:
        _become(uid, forever)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _become(uid: int, *acts: Callable[[], object]) -> None:
    status = 1
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        for act in acts:
            act()
        status = 0
    finally:
        os._exit(status)
