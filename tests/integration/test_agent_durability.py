"""Events that the agent has accepted are on the disk before the caller gets a reply, and survive kill -9.

AGENT_KILLS=100 sets the number of kills of the full run.
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


# 1,000 IDs, each after an fsync


@pytest.fixture(scope="module")
def strace() -> str:
    program = shutil.which("strace")
    if not program:
        pytest.skip("DURABILITY IS NOT PROVED: strace is not installed; install Debian's package strace")
    if subprocess.run([program, "-o", "/dev/null", "true"], check=False, capture_output=True).returncode:
        pytest.skip("DURABILITY IS NOT PROVED: strace cannot trace here; permit ptrace")
    return program


def trace_system_calls(strace: str, directory: Path, synchronous: str) -> list[str]:
    """Return the system calls of a process that accepts EVENTS events, in the order of their starts and returns."""
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
_REPLY = re.compile(r'"accepted \S+ (<\d\.\d+>)\\n"')


def acknowledged_and_unsynced(lines: list[str]) -> tuple[set[str], set[str]]:
    """Return the payloads of all events whose acceptance was reported, and those of them without a sync before it.

    A sync of the write-ahead file counts if it began after the first write of the row to that file, and returned before
    the acceptance was reported to the caller.
    """
    acknowledged: set[str] = set()
    unsynced: set[str] = set()
    written: set[str] = set()  # to the file, and no sync has begun since
    syncing: dict[str, set[str]] = {}  # by thread: the payloads that its sync covers
    synced: set[str] = set()
    for line in lines:
        match = _CALL.match(line)
        if not match:
            continue
        thread, call, rest = match.group("thread", "call", "rest")
        if call in ("fsync", "fdatasync"):
            if "store.db-wal>" in rest:
                syncing[thread] = set(written)
            if "unfinished" not in rest:
                covered = syncing.pop(thread, set())
                if rest.rstrip().endswith("= 0"):
                    synced |= covered
        elif "store.db-wal>" in rest:
            written |= set(_PAYLOAD.findall(rest)) - synced
        elif reply := _REPLY.search(rest):
            acknowledged.add(reply.group(1))
            unsynced |= acknowledged & {reply.group(1)} - synced
    return acknowledged, unsynced


def test_outbox_row_of_event_is_synced_before_caller_gets_reply(strace: str, tmp_path: Path) -> None:
    acknowledged, unsynced = acknowledged_and_unsynced(trace_system_calls(strace, tmp_path, "FULL"))
    assert len(acknowledged) == EVENTS
    assert unsynced == set()


@in_every_situation
def test_agent_with_synchronous_normal_reports_acceptance_before_sync(strace: str, tmp_path: Path) -> None:
    acknowledged, unsynced = acknowledged_and_unsynced(trace_system_calls(strace, tmp_path, "NORMAL"))
    assert len(acknowledged) == EVENTS
    assert len(unsynced) > EVENTS // 2


# kill -9


@contextmanager
def process_under_load(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a process under load, and kill it at the end, also after an error."""
    command = store_load_command(directory, "FULL", 0)
    with subprocess.Popen(command, env=agent_environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def kill_under_load(directory: Path, seconds: float) -> tuple[list[str], set[str]]:
    """Kill a process ``seconds`` after its first accepted event; return its accepted and its handled event IDs."""
    with process_under_load(directory) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        while lines[-1] and not lines[-1].startswith("accepted"):  # the first line may report a handled event
            lines.append(process.stdout.readline())
        timer = Timer(seconds, process.kill)
        timer.start()
        lines += process.stdout.readlines()
        timer.join()
        assert process.wait() == -signal.SIGKILL, "the process stopped before the kill"
    words = [line.split() for line in lines if line.endswith("\n")]
    return [word[1] for word in words if word[0] == "accepted"], {word[1] for word in words if word[0] == "handled"}


def test_kill_9_of_agent_loses_no_accepted_event(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng, kinds = random.Random(os.environ.get("SEED", "1")), []
    promised, rates, acknowledged = 0, [], set[str]()
    jseq = seq = 0
    epoch = ""
    for _ in range(KILLS):
        started_at = time.monotonic()
        returned, handled = kill_under_load(tmp_path, rng.uniform(0.02, 0.3))
        rates.append(len(returned) / (time.monotonic() - started_at))
        with Store.open(tmp_path, agent="a1", sweep=None) as store:
            epoch = epoch or store.epoch
            assert returned
            assert store.damage is None
            assert store.epoch == epoch
            outgoing = store.outgoing_events(10**6)
            records = [json.loads(record.line) for record in store.oldest_journal_records(10**6)]
            # The journal contains every record, in order.
            assert [record["jseq"] for record in records] == list(range(jseq + 1, jseq + len(records) + 1))
            accepted = [record["event_id"] for record in records if record["kind"] == "accepted"]
            numbers = [int(event_id.rpartition(":")[2]) for event_id in accepted]
            assert numbers == list(range(seq + 1, seq + len(accepted) + 1))
            acknowledged |= {record["event_id"] for record in records if record["kind"] == "acknowledged"}
            assert set(returned) <= set(accepted)
            assert set(accepted) - acknowledged == {event.event_id for event in outgoing}
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
        pytest.fail(f"the run proves nothing: in {KILLS} runs the process wrote no record of the kinds {missing}")
    bound = 1 - 0.05 ** (1 / KILLS)
    with capsys.disabled():
        print(
            f"\n{KILLS} kills -9 under load: {promised} IDs returned, 0 lost, 0 missing numbers in {jseq} records; "
            f"loss in at most {bound:.0%} per kill at 95 %"
        )
