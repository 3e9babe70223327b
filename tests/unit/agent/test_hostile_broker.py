"""An agent whose first broker attacks it: it runs on, limits its memory, and handles events of its other broker."""

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
MAX_MEMORY = 200 << 20
REPOSITORY = Path(__file__).resolve().parents[3]


@contextmanager
def hostile_broker(attack: str) -> Iterator[int]:
    """Start a hostile broker as a separate process, and yield its port."""
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
    """Return the peak of the resident memory of a process in bytes."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


@contextmanager
def agent(directory: Path, handlers: Path, *ports: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start an agent as a separate process, with short timeouts of connections and canaries, and yield the process."""
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


def is_handled(correct_broker: TinyBroker, seen: Path) -> bool:
    """Send an event to each connected client, and return whether the agent has handled it."""
    correct_broker.send("a/After", b'{"eventId": "last"}')
    time.sleep(0.5)
    return seen.exists() and '"last"' in seen.read_text()


@pytest.mark.timeout(600 + 3 * SECONDS)
@pytest.mark.parametrize("attack", sorted(set(ATTACKS) - {"random_attack"}) if SECONDS > 30 else ["random_attack"])
def test_agent_survives_hostile_broker_and_uses_other_broker(
    tmp_path: Path, trusted_directory: Path, attack: str
) -> None:
    with (
        hostile_broker(attack) as hostile_port,
        TinyBroker() as correct_broker,
        agent(tmp_path, trusted_directory, hostile_port, correct_broker.port) as process,
    ):
        end, visits = time.monotonic() + SECONDS, 0
        while time.monotonic() < end:
            if subscriber_is_at(tmp_path, correct_broker.port):
                correct_broker.send("a/After", b'{"eventId": "%d"}' % visits)
                visits += 1
                time.sleep(1)
                correct_broker.hang_up()  # the agent tries the hostile broker first again
            time.sleep(0.2)
            assert process.poll() is None, (tmp_path / "agent.log").read_text()[-2000:]
        assert memory_of(process.pid) < MAX_MEMORY
        if attack != "flood_from_broker_that_answers_canaries":  # the agent keeps this broker
            wait_until(lambda: is_handled(correct_broker, tmp_path / "seen-After"), 180)
            publish("a/Own", b"{}", socket=tmp_path / "state/agent.sock")
            wait_until(lambda: any(topic == "a/Own" for topic, _ in correct_broker.published), 180)
        print(f"{attack}: {memory_of(process.pid) >> 20} MiB, {visits} connections to the other broker")
        assert "a main thread of the agent failed" not in (tmp_path / "agent.log").read_text()
        assert "a worker thread of the agent failed" not in (tmp_path / "agent.log").read_text()
