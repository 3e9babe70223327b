"""Power cuts amid a take-over: whatever was not synced is lost, and the store's messages are not.

The store and all else of two nodes lie on a file system in an image. What the image holds while both stand still is
what a power cut leaves: the kernel keeps everything that nobody has synced, for minutes.
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
    os.geteuid() != 0 or not os.path.exists("/dev/loop-control"), reason="mounts a file system of its own"
)
STEPS = range(0, 100, 1 if EVERY_SITUATION else 9)


def node(root: Path, name: str, logs: Path) -> Node:
    """A node whose store and own directory are lost with the power, and what its brokers told is not."""
    found = Node(root, name)
    found.log = logs / f"{name}.log"
    found.log.unlink(missing_ok=True)
    return found


def write(file: Path, content: bytes) -> None:
    """Append to a journal file as a broker does, which acknowledges after that."""
    with file.open("ab", buffering=0) as journal:
        journal.write(content)
        os.fsync(journal.fileno())
    directory = os.open(file.parent, os.O_DIRECTORY)
    os.fsync(directory)
    os.close(directory)


def newest(root: Path) -> Path:
    """The journal file in the generation with the highest claim."""
    claim = max((root / "store/fence/claims").glob("[1-9]*"), key=lambda claim: int(claim.name))
    directory: str = json.loads(claim.read_text())["directory"]
    return root / "store/generations" / directory / "db-1.log"


@pytest.mark.parametrize("system", ["ext4", *further(*(["xfs"] if shutil.which("mkfs.xfs") else []))])
@pytest.mark.timeout(1800)
def test_a_power_cut_at_each_step_of_a_take_over_loses_no_message(tmp_path: Path, system: str) -> None:
    make, options = FILE_SYSTEMS[system]
    cuts = 0
    for step in STEPS:
        image, left = tmp_path / f"{step}.image", tmp_path / f"{step}.left"
        with image.open("wb") as file:
            file.truncate(320_000_000 if system == "xfs" else 32_000_000)
        subprocess.run([*make, str(image)], check=True)
        content = journal_batch(add_command("one"))
        with mounted_file_system(image, tmp_path / "before", options) as root:
            (root / "store").mkdir()
            b = node(root, "b", tmp_path)
            b.start()
            wait_for(lambda: b.served == [1])  # noqa: B023
            write(newest(root), content)
            b.terminate()
            a = node(root, "a", tmp_path)
            guard = psutil.Process(a.start_crashing(step, signal.SIGSTOP).pid)
            wait_for(lambda: a.served or guard.status() == psutil.STATUS_STOPPED)  # noqa: B023
            is_cut = not a.served
            if not is_cut:
                content += journal_batch(add_command("two"))
                write(newest(root), journal_batch(add_command("two")))
            shutil.copyfile(image, left)
            a.terminate()
        with mounted_file_system(left, tmp_path / "after", options) as root:
            survivor = node(root, "ab"[step % 2], tmp_path)
            survivor.start()
            wait_for(lambda: survivor.served)  # noqa: B023
            assert newest(root).read_bytes() == content, f"before change {step}"
            survivor.terminate()
        image.unlink()
        left.unlink()
        cuts += is_cut
        if not is_cut:
            break
    assert cuts >= 3
