"""Tests of pairs whose store is on a real network file system: GlusterFS, with a separate client for each node.

``make test`` clears the lock of a fenced node while it is active. ``SITUATIONS=all`` also kills, freezes and
disconnects nodes, separates the bricks and fills them.
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


def inject_fault(name: str, directory: Path, release: str, fence: str = "guard") -> dict[str, Any]:
    """Inject a fault into a pair; return the report of the scenario."""
    if reason := gluster.missing_requirement():
        pytest.skip(reason)
    report = in_namespaces(
        "tests.integration.gluster_scenarios", name, release, fence, str(directory), timeout=_TIMEOUT
    )
    print(report)
    return report


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
def test_other_node_on_gluster_takes_over_without_loss_of_acknowledged_message(
    tmp_path: Path, name: str, release: str
) -> None:
    report = inject_fault(name, tmp_path, release)
    assert report["lost"] == 0
    assert report["served"] is not None


@pytest.mark.timeout(_TIMEOUT)
@pytest.mark.parametrize(("name", "release"), further(("brick", "6.3.1"), ("full", "6.3.1"), ("quorum", "6.3.1")))
def test_active_node_on_gluster_stays_active_and_no_message_is_lost(tmp_path: Path, name: str, release: str) -> None:
    """A brick stops and starts again, the volume is full for a while, or the other node alone has no quorum."""
    report = inject_fault(name, tmp_path, release)
    assert report["lost"] == 0
    assert report["states"] == {"orders-mq01-a": "active", "orders-mq01-b": "standby"}


@pytest.mark.timeout(_TIMEOUT)
@pytest.mark.parametrize("release", further("5.5.1"))
def test_cleared_lock_without_fence_permits_two_writers_that_lose_messages(tmp_path: Path, release: str) -> None:
    """5.5.1 does not check its lock again. This test shows that the faults of the other tests can lose messages."""
    report = inject_fault("clear", tmp_path, release, "none")
    assert report["states"] == {"orders-mq01-a": "active", "orders-mq01-b": "active"}
    assert report["lost"] > 0


def test_lock_on_one_mount_of_nfs_export_excludes_other_mount(tmp_path: Path) -> None:
    """This test requires an NFS client in the kernel, and an export in ``NFS_EXPORT``, such as server:/srv/activemq."""
    if "nfs4" not in Path("/proc/filesystems").read_text().split():
        pytest.skip("this kernel has no NFS client: nfs4 is not in /proc/filesystems")
    if not (export := os.environ.get("NFS_EXPORT")):
        pytest.skip("NFS_EXPORT is not set: set it to an export, such as server:/srv/activemq")
    mounts = [tmp_path / name for name in ("one", "two")]
    with ExitStack() as stack:
        for mount in mounts:
            mount.mkdir()
            subprocess.run(["mount", "-t", "nfs4", "-o", "nosharecache", export, str(mount)], check=True)
            stack.callback(subprocess.run, ["umount", str(mount)], check=True)
        files = [stack.enter_context((mount / "lock").open("a")) for mount in mounts]
        fcntl.lockf(files[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        program = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        command = [sys.executable, "-c", program, files[1].name]
        attempt = subprocess.run(command, check=False, capture_output=True, text=True)
        assert "BlockingIOError" in attempt.stderr
