"""Memory of one agent that publishes a steady rate, and stores and handles all of it as a subscriber, too."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from activemq_agent.agent_errors import AgentError
from activemq_agent.client import Client
from activemq_fleet.lab.lab import Lab
from activemq_fleet.render.agent import CONFIGURATION
from benchmarks.measure import REPOSITORY, BenchmarkError, print_progress, program

RATE = 1000
"""Events per second."""
SECONDS = int(os.environ.get("BENCH_MEMORY_SECONDS", "60"))
BATCH = 20
"""Events handed over at once."""
SIZE = 256
WINDOW = 200
"""Events on the wire at once: with the default, broker and disk would set the rate."""
WANTED = 60.0
"""MB of 1,000,000 bytes that the agent's process may have had at most."""
SETTLES = 2.0
"""Seconds after the last event in which outbox and inbox must be empty: more is a backlog."""
TIMEOUT = 120.0
BROKER, AGENT = "bench-mq01-a.example.com", "bench-app01.example.com"
TOPIC, FILTER = "bench/status/Event", "bench/#"


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one run: events per second, MB (the process's peaks, VmHWM), cores' share, events, seconds."""

    rate: float
    started: float
    peak: float
    cpu: float
    outbox: int
    inbox: int
    """The most events that waited at once in each."""
    settled: float
    """Seconds from the last event's acceptance until both were empty."""

    @property
    def is_held(self) -> bool:
        return self.rate >= 0.99 * RATE and self.settled <= SETTLES


def peak_of(pid: int) -> float:
    """VmHWM of a process, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise BenchmarkError(f"process {pid} has no VmHWM")


def measure(work: Path) -> Memory:
    """One agent as a process of its own, on one broker of 5.18.3 that writes what it stores."""
    with tempfile.TemporaryDirectory(prefix="bench-agent-") as sockets:
        inventory = _inventory(work / "memory-inventory", Path(sockets) / "agent.sock")
        with Lab.open([inventory], work / "memory-lab") as lab:
            lab.up(fresh=True)
            with _agent(lab) as (process, client):
                return _load(process, client)


def _inventory(directory: Path, socket: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    agent = {
        "activemq_agent_username": "bench",
        "activemq_agent_password": "s3cret-bench",
        "activemq_agent_topics": [FILTER],
        "activemq_agent_publisher_window": WINDOW,
        "activemq_agent_options": {"socket": str(socket)},
    }
    fleet = {"activemq_release": "5.18.3", "activemq_ha": "none"}
    groups = {"activemq_agents": {"hosts": {AGENT: agent}}}
    path = directory / "hosts.yml"
    path.write_text(json.dumps({"all": {"hosts": {BROKER: {}}, "vars": fleet, "children": groups}}))
    return path


@contextlib.contextmanager
def _agent(lab: Lab) -> Iterator[tuple[subprocess.Popen[bytes], Client]]:
    """``activemq-agent run`` on the lab's files, connected and subscribed; gone at the end."""
    directory = lab.directory / "clients" / AGENT
    settings = next(agent for agent in lab.client_fleet.agents if agent.host == AGENT).settings
    Path(settings.agent_state).mkdir(parents=True, exist_ok=True)
    command = [str(program("activemq-agent")), "--config", str(directory / CONFIGURATION), "run"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    with (directory / "agent.log").open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        with _client(process, Path(settings.agent_options["socket"])) as client:
            yield process, client
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _client(process: subprocess.Popen[bytes], socket: Path) -> Client:
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(AgentError):
            client = Client(socket)
            if client.status()["subscriber"]["subscribed"]:
                return client
            client.close()
        time.sleep(0.2)
    raise BenchmarkError("the agent did not subscribe")


def _load(process: subprocess.Popen[bytes], client: Client) -> Memory:
    started = peak_of(process.pid)
    events: list[tuple[str, bytes | str]] = [(TOPIC, json.dumps({"pad": "x" * SIZE})[: SIZE - 2] + '"}')] * BATCH
    handled, cpu, most = client.status()["handlers"]["without_handler"], _cpu(process.pid), (0, 0)
    count = RATE * SECONDS
    began = looked = time.monotonic()
    for number in range(0, count, BATCH):
        time.sleep(max(0.0, began + number / RATE - time.monotonic()))
        client.publish_all(events)
        if time.monotonic() - looked >= 1:
            looked = time.monotonic()
            waits = _waiting(client.status())
            most = (max(most[0], waits[0]), max(most[1], waits[1]))
    accepted = time.monotonic()
    took = max(accepted - began, count / RATE)
    while (status := client.status())["handlers"]["without_handler"] - handled < count or any(_waiting(status)):
        if time.monotonic() - accepted > TIMEOUT:
            raise BenchmarkError(f"events still wait {TIMEOUT:g} s after the last one: {_waiting(status)}")
        time.sleep(0.05)
    settled = time.monotonic() - accepted
    cpu = (_cpu(process.pid) - cpu) / (time.monotonic() - began)
    found = Memory(count / took, started, peak_of(process.pid), cpu, *most, settled)
    print_progress(
        f"agent: {found.rate:,.0f}/s, {found.started:.1f} MB before, {found.peak:.1f} MB at most, {found.cpu:.0%} CPU"
    )
    return found


def _waiting(status: dict[str, Any]) -> tuple[int, int]:
    """Events in outbox and inbox."""
    return int(status["store"]["outbox_rows"]), int(status["store"]["inbox_rows"])


def _cpu(pid: int) -> float:
    """Seconds on the processors so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def table(found: Memory) -> str:
    """Markdown."""
    verdict = "" if found.peak < WANTED else ", missed"
    rate = f"{found.rate:,.0f}{'' if found.is_held else ', not held'}"
    return "\n".join(
        [
            f"One agent that publishes {RATE:,} events of {SIZE} bytes per second for {SECONDS} s and is subscribed to",
            "them: each is in its outbox and in its inbox; no handler. Broker 5.18.3 on loopback.\n",
            "| events/s held | most in outbox, inbox | empty after | CPU | VmHWM before | VmHWM | wanted |",
            "|---|---|---|---|---|---|---|",
            f"| {rate} | {found.outbox}, {found.inbox} | {found.settled:.2f} s | "
            f"{found.cpu:.0%} | {found.started:.1f} MB | {found.peak:.1f} MB | < {WANTED:g} MB{verdict} |",
            "",
        ]
    )
