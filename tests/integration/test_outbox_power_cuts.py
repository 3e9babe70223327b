"""Power cuts of an agent's store: all accepted events survive, although all unsynced data is lost.

The store is on a file system in an image. A copy of the image while the process is frozen is the state after a power
cut: the kernel keeps unsynced data in memory for minutes. AGENT_KILLS sets the number of power cuts.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from activemq_agent.store import Store
from tests.situations import in_every_situation
from tests.support.agent_store_process import agent_environment, store_load_command
from tests.support.file_systems import FILE_SYSTEMS, mounted_file_system
from tests.waiting import wait_until

CUTS = int(os.environ.get("AGENT_KILLS", "5"))
MAKE, OPTIONS = FILE_SYSTEMS["ext4"]

pytestmark = [
    pytest.mark.timeout(120 + 20 * CUTS),
    pytest.mark.skipif(
        os.geteuid() != 0 or not os.path.exists("/dev/loop-control"),
        reason="the test requires root and loop devices to mount a file system",
    ),
]


@contextmanager
def frozen_under_load(state: Path, output_file: Path, synchronous: str, seconds: float) -> Iterator[set[str]]:
    """Run a process that accepts events, freeze it ``seconds`` after its first event, and yield the accepted IDs."""

    def accepted() -> list[str]:
        return [line.split()[1] for line in output_file.read_text().splitlines() if line.startswith("accepted ")]

    with output_file.open("wb") as output:
        process = subprocess.Popen(store_load_command(state, synchronous, 0), env=agent_environment(), stdout=output)
    try:
        wait_until(accepted, "the first event is accepted")
        time.sleep(seconds)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        yield set(accepted())
    finally:
        process.kill()
        process.wait()


def lost_after_cuts(directory: Path, synchronous: str) -> tuple[int, int]:
    """Cut the power CUTS times; return the number of accepted events and of lost ones."""
    rng = random.Random(1)
    image, copy = directory / "image", directory / "copy"
    with image.open("wb") as file:
        file.truncate(200_000_000)
    subprocess.run([*MAKE, str(image)], check=True)
    promised, lost, stored = 0, 0, set[str]()
    for _ in range(CUTS):
        with (
            mounted_file_system(image, directory / "before", OPTIONS) as root,
            frozen_under_load(root / "state", directory / "output", synchronous, rng.uniform(0.05, 0.5)) as returned,
        ):
            promised += len(returned)
            shutil.copyfile(image, copy)
        copy.replace(image)
        with (
            mounted_file_system(image, directory / "after", OPTIONS) as root,
            Store.open(root / "state", agent="a1", sweep=None) as store,
        ):
            assert store.damage is None
            while records := store.oldest_journal_records(10**6):
                lines = [json.loads(record.line) for record in records]
                stored |= {line["event_id"] for line in lines if line["kind"] == "accepted"}
                store.delete_exported_journal_records(records[-1].position)
        lost += len(returned - stored)  # after the next start, another event may get the ID of a lost event
    return promised, lost


def test_power_cuts_of_agent_lose_no_accepted_event(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    promised, lost = lost_after_cuts(tmp_path, "FULL")
    with capsys.disabled():
        print(f"\n{CUTS} power cuts under load: {promised} IDs returned, {lost} lost")
    assert promised > 10 * CUTS
    assert lost == 0


@in_every_situation
def test_power_cuts_of_agent_lose_events_with_synchronous_normal(tmp_path: Path) -> None:
    promised, lost = lost_after_cuts(tmp_path, "NORMAL")
    assert 0 < lost <= promised
