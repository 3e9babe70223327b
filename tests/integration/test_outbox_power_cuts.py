"""Power cuts under an agent's store: what was accepted is there, though everything that was not synced is lost.

The store lies on a file system in an image. What the image holds while the process stands still is what a power cut
leaves: the kernel keeps what nobody has synced, for minutes. AGENT_KILLS sets how many.
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
        os.geteuid() != 0 or not os.path.exists("/dev/loop-control"), reason="mounts a file system of its own"
    ),
]


@contextmanager
def frozen_under_load(state: Path, said: Path, synchronous: str, seconds: float) -> Iterator[set[str]]:
    """Run a process that accepts events, and stop it so long after its first; yields the ids that it was given."""

    def accepted() -> list[str]:
        return [line.split()[1] for line in said.read_text().splitlines() if line.startswith("accepted ")]

    with said.open("wb") as output:
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
    """Cut the power again and again; return how many events were accepted, and how many were gone afterwards."""
    chance = random.Random(1)
    image, left = directory / "image", directory / "left"
    with image.open("wb") as file:
        file.truncate(200_000_000)
    subprocess.run([*MAKE, str(image)], check=True)
    promised, lost, kept = 0, 0, set[str]()
    for _ in range(CUTS):
        with (
            mounted_file_system(image, directory / "before", OPTIONS) as root,
            frozen_under_load(root / "state", directory / "said", synchronous, chance.uniform(0.05, 0.5)) as returned,
        ):
            promised += len(returned)
            shutil.copyfile(image, left)
        left.replace(image)
        with (
            mounted_file_system(image, directory / "after", OPTIONS) as root,
            Store.open(root / "state", agent="a1", sweep=None) as store,
        ):
            assert store.damage is None
            while records := store.oldest_journal_records(10**6):
                lines = [json.loads(record.line) for record in records]
                kept |= {line["event_id"] for line in lines if line["kind"] == "accepted"}
                store.delete_exported_journal_records(records[-1].position)
        lost += len(returned - kept)  # a lost one's id may be another event's after the next start
    return promised, lost


def test_nothing_that_was_accepted_is_lost_by_a_power_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    promised, lost = lost_after_cuts(tmp_path, "FULL")
    with capsys.disabled():
        print(f"\n{CUTS} power cuts under load: {promised} ids returned, {lost} lost")
    assert promised > 10 * CUTS
    assert lost == 0


@in_every_situation
def test_the_same_cuts_lose_events_with_a_weaker_setting(tmp_path: Path) -> None:
    promised, lost = lost_after_cuts(tmp_path, "NORMAL")
    assert 0 < lost <= promised
