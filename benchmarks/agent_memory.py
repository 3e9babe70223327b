"""Measure the memory of an agent that publishes events at a steady rate and subscribes to all of them."""

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
"""Events in each call of ``publish_all``."""
SIZE = 256
WINDOW = 200
"""Unacknowledged events: with the default window, the broker and the disk would limit the rate."""
MEMORY_LIMIT = 60.0
"""The limit for the peak memory of the agent's process, in MB of 1,000,000 bytes."""
BACKLOG_LIMIT = 2.0
"""Seconds after the last event until outbox and inbox must be empty."""
TIMEOUT = 120.0
BROKER, AGENT = "bench-mq01-a.example.com", "bench-app01.example.com"
TOPIC, FILTER = "bench/status/Event", "bench/#"


@dataclass(frozen=True, slots=True)
class Memory:
    """Figures of a run: events per second, peak memory of the process (VmHWM) in MB, and the share of a core."""

    rate: float
    started: float
    peak: float
    cpu: float
    outbox: int
    inbox: int
    """The largest number of events in the outbox and in the inbox."""
    settled: float
    """Seconds from the acceptance of the last event until outbox and inbox were empty."""

    @property
    def has_steady_rate(self) -> bool:
        return self.rate >= 0.99 * RATE and self.settled <= BACKLOG_LIMIT


def peak_of(pid: int) -> float:
    """Return the peak memory (VmHWM) of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise BenchmarkError(f"process {pid} has no VmHWM")


def measure(work: Path) -> Memory:
    """Measure an agent in a separate process, with a 5.18.3 broker that stores the events on disk."""
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
    """Run ``activemq-agent run`` with the lab's files until the context ends; the agent is connected and subscribed."""
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
    raise BenchmarkError(f"the agent stopped, or did not subscribe within {TIMEOUT:g} s")


def _load(process: subprocess.Popen[bytes], client: Client) -> Memory:
    started = peak_of(process.pid)
    events: list[tuple[str, bytes | str]] = [(TOPIC, json.dumps({"pad": "x" * SIZE})[: SIZE - 2] + '"}')] * BATCH
    handled, cpu, most = client.status()["handlers"]["without_handler"], _cpu(process.pid), (0, 0)
    count = RATE * SECONDS
    began = sampled = time.monotonic()
    for number in range(0, count, BATCH):
        time.sleep(max(0.0, began + number / RATE - time.monotonic()))
        client.publish_all(events)
        if time.monotonic() - sampled >= 1:
            sampled = time.monotonic()
            counts = _waiting(client.status())
            most = (max(most[0], counts[0]), max(most[1], counts[1]))
    accepted = time.monotonic()
    took = max(accepted - began, count / RATE)
    while (status := client.status())["handlers"]["without_handler"] - handled < count or any(_waiting(status)):
        if time.monotonic() - accepted > TIMEOUT:
            raise BenchmarkError(
                f"the agent has a backlog {TIMEOUT:g} s after the last event: {_waiting(status)} in outbox and inbox"
            )
        time.sleep(0.05)
    settled = time.monotonic() - accepted
    cpu = (_cpu(process.pid) - cpu) / (time.monotonic() - began)
    memory = Memory(count / took, started, peak_of(process.pid), cpu, *most, settled)
    print_progress(
        f"agent: {memory.rate:,.0f}/s, {memory.started:.1f} MB before, {memory.peak:.1f} MB at most, "
        f"{memory.cpu:.0%} CPU"
    )
    return memory


def _waiting(status: dict[str, Any]) -> tuple[int, int]:
    """Return the numbers of events in the outbox and in the inbox."""
    return int(status["store"]["outbox_rows"]), int(status["store"]["inbox_rows"])


def _cpu(pid: int) -> float:
    """Return the CPU seconds of a process since its start."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def table(memory: Memory) -> str:
    """Return the figures as a Markdown table."""
    verdict = "" if memory.peak < MEMORY_LIMIT else ", missed"
    rate = f"{memory.rate:,.0f}{'' if memory.has_steady_rate else ', not reached'}"
    return "\n".join(
        [
            f"One agent publishes {RATE:,} events of {SIZE} bytes per second for {SECONDS} s, and subscribes to",
            "them: each event is in its outbox and in its inbox; no handler. Broker 5.18.3 on loopback.\n",
            "| events/s | most in outbox, inbox | empty after | CPU | VmHWM before | VmHWM | limit |",
            "|---|---|---|---|---|---|---|",
            f"| {rate} | {memory.outbox}, {memory.inbox} | {memory.settled:.2f} s | "
            f"{memory.cpu:.0%} | {memory.started:.1f} MB | {memory.peak:.1f} MB | < {MEMORY_LIMIT:g} MB{verdict} |",
            "",
        ]
    )
