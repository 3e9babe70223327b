"""Power cuts during a takeover: all unsynced data is lost, and no message of the store is lost.

The store and the directories of two nodes are on a file system in an image. While both nodes are frozen, the image
contains what remains after a power cut: the kernel holds unsynced data in memory for minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.situations import EVERY_SITUATION, further
from tests.support.file_systems import FILE_SYSTEMS, mounted_file_system
from tests.support.journal_batches import add_command, journal_batch
from tests.unit.guards import Node, wait_for

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/loop-control"),
    reason="the test mounts an image, which requires root and /dev/loop-control",
)
STEPS = range(0, 100, 1 if EVERY_SITUATION else 9)


def node(root: Path, name: str, logs: Path) -> Node:
    """Return a node whose store and directory lose unsynced data in a power cut, and whose log does not."""
    created = Node(root, name)
    created.log = logs / f"{name}.log"
    created.log.unlink(missing_ok=True)
    return created


def append_and_sync(file: Path, content: bytes) -> None:
    """Append to a journal file and sync it, as a broker does before it acknowledges."""
    with file.open("ab", buffering=0) as journal:
        journal.write(content)
        os.fsync(journal.fileno())
    directory = os.open(file.parent, os.O_DIRECTORY)
    os.fsync(directory)
    os.close(directory)


def newest_journal(root: Path) -> Path:
    """Return the journal file in the generation with the highest claim."""
    claim = max((root / "store/fence/claims").glob("[1-9]*"), key=lambda claim: int(claim.name))
    directory: str = json.loads(claim.read_text())["directory"]
    return root / "store/generations" / directory / "db-1.log"


@pytest.mark.parametrize("system", ["ext4", *further(*(["xfs"] if shutil.which("mkfs.xfs") else []))])
@pytest.mark.timeout(1800)
def test_power_cut_at_each_step_of_takeover_loses_no_message(tmp_path: Path, system: str) -> None:
    make, options = FILE_SYSTEMS[system]
    cuts = 0
    for step in STEPS:
        image, remaining = tmp_path / f"{step}.image", tmp_path / f"{step}.remaining"
        with image.open("wb") as file:
            file.truncate(320_000_000 if system == "xfs" else 32_000_000)
        subprocess.run([*make, str(image)], check=True)
        journal_content = journal_batch(add_command("one"))
        with mounted_file_system(image, tmp_path / "before", options) as root:
            (root / "store").mkdir()
            b = node(root, "b", tmp_path)
            b.start()
            wait_for(lambda: b.served == [1])  # noqa: B023
            append_and_sync(newest_journal(root), journal_content)
            b.terminate()
            a = node(root, "a", tmp_path)
            guard = psutil.Process(a.start_crashing(step, signal.SIGSTOP).pid)
            wait_for(lambda: a.served or guard.status() == psutil.STATUS_STOPPED)  # noqa: B023
            is_cut = not a.served
            if not is_cut:
                journal_content += journal_batch(add_command("two"))
                append_and_sync(newest_journal(root), journal_batch(add_command("two")))
            shutil.copyfile(image, remaining)
            a.terminate()
        with mounted_file_system(remaining, tmp_path / "after", options) as root:
            survivor = node(root, "ab"[step % 2], tmp_path)
            survivor.start()
            wait_for(lambda: survivor.served)  # noqa: B023
            assert newest_journal(root).read_bytes() == journal_content, f"before change {step}"
            survivor.terminate()
        image.unlink()
        remaining.unlink()
        cuts += is_cut
        if not is_cut:
            break
    assert cuts >= 3
