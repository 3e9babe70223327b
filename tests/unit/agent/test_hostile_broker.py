"""An agent whose first broker attacks it: it lives, stays small, and handles what another broker of its list sends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from activemq_agent.agent_errors import AgentError
from activemq_agent.client import Client, publish

from .hostile_broker import ATTACKS
from .service_runs import accepts_connections, wait_until
from .tiny_broker import TinyBroker

SECONDS = float(os.environ.get("HOSTILE_SECONDS", "4"))
MOST_MEMORY = 200 << 20
REPOSITORY = Path(__file__).resolve().parents[3]


@contextmanager
def hostile(attack: str) -> Iterator[int]:
    """A hostile broker as a process of its own; yields its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.agent.hostile_broker", attack],
        stdout=subprocess.PIPE, cwd=REPOSITORY, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def memory_of(pid: int) -> int:
    """The most bytes that a process has had in memory at once."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


@contextmanager
def agent(directory: Path, handlers: Path, *ports: int) -> Iterator[subprocess.Popen[bytes]]:
    """An agent as a process of its own, which tries its brokers in a hurry and takes few canaries for an answer."""
    for name in ("After", "Handled"):
        program = handlers / name
        program.write_text(f"#!/bin/sh\ncat >> {directory}/seen-{name}\n")
        program.chmod(0o755)
    lines = [
        "[agent]", "client.id = agent-1", f"state.directory = {directory}/state", "topics = a/#",
        f"handlers = {handlers}", "drain.seconds = 0", "inbox.bytes = 50000000",
        f"mb.urls = {','.join(f'127.0.0.1:{port}' for port in ports)}",
        "connecting.canary.interval = 3", "connecting.canary.timeout = 3", "connecting.connack.timeout = 3",
        "connecting.cap = 1", "connecting.stable = 0.5",
    ]  # fmt: skip
    (directory / "agent.conf").write_text("\n".join(lines) + "\n")
    with (directory / "agent.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "activemq_agent", "--config", str(directory / "agent.conf"), "run"],
            stdout=log, stderr=log, env=os.environ | {"PYTHONPATH": str(REPOSITORY / "src")},
        )  # fmt: skip
        try:
            wait_until(lambda: accepts_connections(directory / "state/agent.sock") or process.poll() is not None)
            yield process
        finally:
            process.kill()
            process.wait()


def subscriber_is_at(directory: Path, port: int) -> bool:
    try:
        with Client(directory / "state/agent.sock", timeout=10) as client:
            return bool(client.status()["subscriber"]["broker"] == f"127.0.0.1:{port}")
    except AgentError:
        return False


def is_handled(good: TinyBroker, seen: Path) -> bool:
    """Send an event, again and again: whoever is connected gets it; returns whether one was handled."""
    good.send("a/After", b'{"eventId": "last"}')
    time.sleep(0.5)
    return seen.exists() and '"last"' in seen.read_text()


@pytest.mark.timeout(600 + 3 * SECONDS)
@pytest.mark.parametrize("attack", sorted(set(ATTACKS) - {"everything"}) if SECONDS > 30 else ["everything"])
def test_a_hostile_broker_neither_ends_nor_fills_an_agent_nor_keeps_it_from_another(
    tmp_path: Path, guarded: Path, attack: str
) -> None:
    with hostile(attack) as bad, TinyBroker() as good, agent(tmp_path, guarded, bad, good.port) as process:
        end, seen = time.monotonic() + SECONDS, 0
        while time.monotonic() < end:
            if subscriber_is_at(tmp_path, good.port):
                good.send("a/After", b'{"eventId": "%d"}' % seen)
                seen += 1
                time.sleep(1)
                good.hang_up()  # the walk begins at the hostile one again
            time.sleep(0.2)
            assert process.poll() is None, (tmp_path / "agent.log").read_text()[-2000:]
        assert memory_of(process.pid) < MOST_MEMORY
        if attack != "flood_from_a_broker_that_answers_canaries":  # which is a busy broker, as far as anybody can see
            wait_until(lambda: is_handled(good, tmp_path / "seen-After"), 180)
            publish("a/Own", b"{}", socket=tmp_path / "state/agent.sock")
            wait_until(lambda: any(topic == "a/Own" for topic, _ in good.published), 180)
        print(f"{attack}: {memory_of(process.pid) >> 20} MiB, {seen} times at the other broker")
        assert "a main thread of the agent failed" not in (tmp_path / "agent.log").read_text()
        assert "a worker thread of the agent failed" not in (tmp_path / "agent.log").read_text()
