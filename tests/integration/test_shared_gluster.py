"""Pairs whose store is on a real network file system: GlusterFS, each node behind a client of its own.

``make test`` clears the lock of a fenced node while it serves; ``SITUATIONS=all`` also kills, freezes and cuts off,
parts the bricks and fills them.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.integration import gluster
from tests.integration.namespaces import in_namespaces
from tests.situations import further, in_every_situation

_TIMEOUT = 400.0


def fault(name: str, directory: Path, release: str, fence: str = "guard") -> dict[str, Any]:
    """Inject a fault into a pair; return what was counted."""
    if reason := gluster.missing_requirement():
        pytest.skip(reason)
    found = in_namespaces("tests.integration.gluster_scenarios", name, release, fence, str(directory), timeout=_TIMEOUT)
    print(found)
    return found


@in_every_situation
@pytest.mark.timeout(_TIMEOUT)
@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("clear", "6.3.1"),
        *further(("clear", "5.18.3"), ("clear", "5.5.1")),
        *further(*((name, "6.3.1") for name in ("kill", "power", "freeze", "cut"))),
    ],
)
def test_the_other_node_takes_over_and_nothing_that_was_acknowledged_is_lost(
    tmp_path: Path, name: str, release: str
) -> None:
    found = fault(name, tmp_path, release)
    assert found["lost"] == 0
    assert found["served"] is not None


@pytest.mark.timeout(_TIMEOUT)
@pytest.mark.parametrize(("name", "release"), further(("brick", "6.3.1"), ("full", "6.3.1"), ("quorum", "6.3.1")))
def test_the_node_that_serves_goes_on_and_nothing_is_lost(tmp_path: Path, name: str, release: str) -> None:
    """A brick dies and comes back, the volume is full for a while, or the other node alone reaches no quorum."""
    found = fault(name, tmp_path, release)
    assert found["lost"] == 0
    assert found["states"] == {"orders-mq01-a": "active", "orders-mq01-b": "standby"}


@pytest.mark.timeout(_TIMEOUT)
@pytest.mark.parametrize("release", further("5.5.1"))
def test_without_a_fence_a_cleared_lock_makes_two_writers_that_lose_messages(tmp_path: Path, release: str) -> None:
    """5.5.1 does not look at its lock again. That the other tests' faults can lose anything is shown by this."""
    found = fault("clear", tmp_path, release, "none")
    assert found["states"] == {"orders-mq01-a": "active", "orders-mq01-b": "active"}
    assert found["lost"] > 0


def test_two_mounts_of_an_nfs_export_hold_locks_against_each_other(tmp_path: Path) -> None:
    """Runs where the kernel has an NFS client and ``NFS_EXPORT`` names an export, such as server:/srv/activemq."""
    if "nfs4" not in Path("/proc/filesystems").read_text().split():
        pytest.skip("this kernel has no NFS client: nfs4 is not in /proc/filesystems")
    if not (export := os.environ.get("NFS_EXPORT")):
        pytest.skip("NFS_EXPORT names no export")
    mounts = [tmp_path / name for name in ("one", "two")]
    with ExitStack() as stack:
        for mount in mounts:
            mount.mkdir()
            subprocess.run(["mount", "-t", "nfs4", "-o", "nosharecache", export, str(mount)], check=True)
            stack.callback(subprocess.run, ["umount", str(mount)], check=True)
        files = [stack.enter_context((mount / "lock").open("a")) for mount in mounts]
        fcntl.lockf(files[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        take = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        done = subprocess.run([sys.executable, "-c", take, files[1].name], check=False, capture_output=True, text=True)
        assert "BlockingIOError" in done.stderr
