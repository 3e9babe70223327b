"""What the agent has accepted is on the disk before the caller knows, and survives kill -9.

AGENT_KILLS=100 kills as often as the full run does.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest

from activemq_agent.store import SentEvent, Store
from tests.situations import in_every_situation
from tests.support.agent_store_process import agent_environment, store_load_command

KILLS = int(os.environ.get("AGENT_KILLS", "20"))
EVENTS = 1000


# 1,000 ids, each behind an fsync


@pytest.fixture(scope="module")
def strace() -> str:
    found = shutil.which("strace")
    if not found:
        pytest.skip("DURABILITY IS NOT PROVED: there is no strace; install Debian's package strace")
    if subprocess.run([found, "-o", "/dev/null", "true"], check=False, capture_output=True).returncode:
        pytest.skip("DURABILITY IS NOT PROVED: strace may not trace here (ptrace is not permitted)")
    return found


def trace(strace: str, directory: Path, synchronous: str) -> list[str]:
    """System calls of a process that accepts EVENTS events, in the order in which they began and returned."""
    log = directory / "trace"
    calls = "trace=write,pwrite64,pwritev,writev,fsync,fdatasync,msync"
    command = [strace, "-f", "-y", "-s", "5000", "-e", calls, "-e", "signal=none", "-o", str(log)]
    subprocess.run(
        [*command, *store_load_command(directory / "state", synchronous, EVENTS)],
        check=True,
        env=agent_environment(),
        stdout=subprocess.DEVNULL,
        timeout=300,
    )
    return log.read_text(errors="replace").splitlines()


_CALL = re.compile(r"(?P<thread>\d+) +(?:<\.\.\. )?(?P<call>\w+)(?P<rest>.*)")
_PAYLOAD = re.compile(r"<\d\.\d+>")
_SAID = re.compile(r'"accepted \S+ (<\d\.\d+>)\\n"')


def unproved(lines: list[str]) -> tuple[set[str], set[str]]:
    """(payloads of all events whose acceptance was told, those without a sync of the write-ahead file in between).

    In between: a sync that began after the first write of the row to that file, and returned before the caller
    was told.
    """
    told: set[str] = set()
    bad: set[str] = set()
    written: set[str] = set()  # to the file, and no sync has begun since
    syncing: dict[str, set[str]] = {}  # thread: what its sync covers
    safe: set[str] = set()
    for line in lines:
        match = _CALL.match(line)
        if not match:
            continue
        thread, call, rest = match.group("thread", "call", "rest")
        if call in ("fsync", "fdatasync"):
            if "store.db-wal>" in rest:
                syncing[thread] = set(written)
            if "unfinished" not in rest:
                done = syncing.pop(thread, set())
                safe |= done if rest.rstrip().endswith("= 0") else set()
        elif "store.db-wal>" in rest:
            written |= set(_PAYLOAD.findall(rest)) - safe
        elif said := _SAID.search(rest):
            told.add(said.group(1))
            bad |= told & {said.group(1)} - safe
    return told, bad


def test_an_fsync_lies_between_every_rows_write_and_its_callers_reply(strace: str, tmp_path: Path) -> None:
    told, bad = unproved(trace(strace, tmp_path, "FULL"))
    assert len(told) == EVENTS
    assert bad == set()


@in_every_situation
def test_the_proof_fails_with_a_weaker_setting(strace: str, tmp_path: Path) -> None:
    told, bad = unproved(trace(strace, tmp_path, "NORMAL"))
    assert len(told) == EVENTS
    assert len(bad) > EVENTS // 2


# kill -9


@contextmanager
def busy(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A process under load, killed at the end whatever happens."""
    command = store_load_command(directory, "FULL", 0)
    with subprocess.Popen(command, env=agent_environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def kill_under_load(directory: Path, seconds: float) -> tuple[list[str], set[str]]:
    """(ids that were returned, ids that were recorded as handled) before a kill -9 so long after the first."""
    with busy(directory) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        while lines[-1] and not lines[-1].startswith("accepted"):  # the first may be what was handled
            lines.append(process.stdout.readline())
        timer = Timer(seconds, process.kill)
        timer.start()
        lines += process.stdout.readlines()
        timer.join()
        assert process.wait() == -signal.SIGKILL, "the process ended by itself"
    words = [line.split() for line in lines if line.endswith("\n")]
    return [word[1] for word in words if word[0] == "accepted"], {word[1] for word in words if word[0] == "handled"}


def test_nothing_that_was_accepted_is_lost_by_kill_9(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chance, kinds = random.Random(os.environ.get("SEED", "1")), []
    promised, rates, gone = 0, [], set[str]()
    jseq = seq = 0
    epoch = ""
    for _ in range(KILLS):
        began = time.monotonic()
        returned, handled = kill_under_load(tmp_path, chance.uniform(0.02, 0.3))
        rates.append(len(returned) / (time.monotonic() - began))
        with Store.open(tmp_path, agent="a1", sweep=None) as store:
            epoch = epoch or store.epoch
            assert returned
            assert store.damage is None
            assert store.epoch == epoch
            outgoing = store.outgoing_events(10**6)
            records = [json.loads(record.line) for record in store.oldest_journal_records(10**6)]
            # Every record of the journal there is, one after the other.
            assert [record["jseq"] for record in records] == list(range(jseq + 1, jseq + len(records) + 1))
            accepted = [record["event_id"] for record in records if record["kind"] == "accepted"]
            assert [int(one.rpartition(":")[2]) for one in accepted] == list(range(seq + 1, seq + len(accepted) + 1))
            gone |= {record["event_id"] for record in records if record["kind"] == "acknowledged"}
            assert set(returned) <= set(accepted)
            assert set(accepted) - gone == {event.event_id for event in outgoing}
            assert handled <= {record["event_id"] for record in records if record["kind"] == "handled"}
            assert not handled & {message.event_id for message in store.pending_messages("in", 10**6)}
            jseq, seq, promised = jseq + len(records), seq + len(accepted), promised + len(returned)
            kinds += [record["kind"] for record in records]
            sent_events = [SentEvent(event.seq, 1, 1, "b") for event in outgoing]
            store.queue_removal_of_acknowledged_events(sent_events, is_delivery_proved=True).result()
            last = store.oldest_journal_records(10**6)[-1]
            jseq = json.loads(last.line)["jseq"]
            store.delete_exported_journal_records(last.position)
    if missing := {"accepted", "sent", "acknowledged", "received", "handling", "handled"} - set(kinds):
        pytest.fail(f"void: in {KILLS} runs the process had no time for {missing}")
    bound = 1 - 0.05 ** (1 / KILLS)
    with capsys.disabled():
        print(
            f"\n{KILLS} kills -9 under load: {promised} ids returned, 0 lost, 0 gaps in {jseq} records; "
            f"at most {bound:.0%} a kill at 95 %"
        )
