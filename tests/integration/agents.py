"""Real agents as separate processes, and load on their sockets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil
import pytest
from pydantic import SecretStr

from activemq_agent.agent_errors import AgentError
from activemq_agent.client import Client
from activemq_agent.config_parser import read_config
from activemq_fleet import topology
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import Credentials
from activemq_fleet.render.agent import CONFIGURATION
from tests.integration.agent_journals import Journal
from tests.integration.waiting import PATIENCE, until
from tests.waiting import LateError

SOURCE = Path(__file__).resolve().parents[2] / "src"
PROGRAM = str(Path(sys.executable).with_name("activemq-agent"))
ACQUIRE = 1.0
"""Seconds between two attempts of a waiting broker to acquire the lock, in the pairs of the tests."""
KEEPALIVE = 10.0
SPARE = 5.0
LOWEST_RATE = 50.0
"""Events per second below which a run proves little."""
STARVED_RATE = 10.0
"""Events per second that are accepted on a machine that is too busy for ``LOWEST_RATE``."""
_PASSWORD = "s3cret-agent"


def loss_bound(kills: int) -> float:
    """Return the upper bound at 95 % for the probability of a loss per kill, if no loss occurred in ``kills`` kills."""
    return float(1 - 0.05 ** (1 / kills))


@pytest.fixture(scope="module")
def sockets() -> Iterator[Path]:
    """Provide a directory for sockets: their paths may have 107 bytes, and the paths of tests are longer."""
    with tempfile.TemporaryDirectory(prefix="agents-") as directory:
        yield Path(directory)


def write_fleet(
    directory: Path, sockets: Path, brokers: Sequence[str], agents: Mapping[str, Mapping[str, Any]], **variables: Any
) -> Path:
    """Write an inventory of brokers and agents; return its path.

    ``variables`` are written without ``activemq_``. Each call puts the sockets of its agents into a new directory in
    ``sockets``. The inventory is JSON, which is also YAML.
    """
    directory.mkdir(parents=True, exist_ok=True)
    socket_directory = tempfile.mkdtemp(dir=sockets)
    shared = {"network_username": "network", "network_password": "s3cret-network", **variables}
    agent_hosts = {
        host: {
            "activemq_agent_username": host.partition(".")[0],
            "activemq_agent_password": _PASSWORD,
            "activemq_agent_options": {"socket": f"{socket_directory}/{host.partition('.')[0]}"},
            **{f"activemq_agent_{name}": value for name, value in settings.items()},
        }
        for host, settings in agents.items()
    }
    inventory_data = {
        "all": {
            "hosts": {host: {} for host in brokers},
            "vars": {f"activemq_{name}": value for name, value in shared.items()},
            "children": {"activemq_agents": {"hosts": agent_hosts}},
        }
    }
    path = directory / "hosts.yml"
    path.write_text(json.dumps(inventory_data, indent=1))
    return path


def account_of(agent: topology.Agent) -> Credentials:
    """Return the credentials with which an agent logs in to the broker."""
    username, password = agent.settings.agent_username, agent.settings.agent_password
    assert username
    assert isinstance(password, SecretStr)
    return Credentials(username, password.get_secret_value())


def wait_rate(rate: Callable[[], float], what: Callable[[], str]) -> float:
    """Wait until a rate reaches ``LOWEST_RATE`` events per second; return it.

    On a busy machine, ``STARVED_RATE`` is sufficient after the wait.
    """
    try:
        until(lambda: rate() >= LOWEST_RATE, PATIENCE, what)
    except LateError:
        if rate() < STARVED_RATE:
            raise
    return rate()


class Agent:
    """``activemq-agent run`` for a host of a lab, with the files that the lab renders for it.

    The context manager kills the process at the end. The process can be started repeatedly: its state is kept.
    """

    def __init__(self, lab: Lab, host: str, *, python_path: Sequence[Path] = ()) -> None:
        self.host = host
        directory = lab.directory / "clients" / host
        self.config = directory / CONFIGURATION
        settings = next(agent for agent in lab.client_fleet.agents if agent.host == host).settings
        self.state = Path(settings.agent_state)
        self.socket = read_config(self.config).socket
        self.journal = Journal(self.state / "agent")
        self.output = directory / "agent.log"
        self._python_path = python_path
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def start(self) -> None:
        """Start the process without a wait."""
        path = os.pathsep.join([*map(str, self._python_path), str(SOURCE)])
        self.state.mkdir(parents=True, exist_ok=True)
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [PROGRAM, "--config", str(self.config), "run"],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill the process with SIGKILL, and then its handlers, as systemd does; return when all have exited."""
        process = self._running()
        assert process.poll() is None, f"{self.host} exited unexpectedly with {process.returncode}: {self.log_tail}"
        os.kill(process.pid, signal.SIGSTOP)  # so that it starts no further handler
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait(60)
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        self._process = None

    def stop(self, timeout: float = PATIENCE) -> None:
        """Stop the process with SIGTERM: it empties its outbox and exits with status 0."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout) == 0, f"{self.host} exited with {process.returncode}: {self.log_tail}"
        self._process = None

    def client(self) -> Client:
        """Return a connection to the socket of the agent, as soon as the agent accepts it."""
        clients: list[Client] = []

        def accepts() -> bool:
            with suppress(AgentError):
                clients.append(Client(self.socket))
            process = self._running()
            assert clients or process.poll() is None, f"{self.host} exited with {process.returncode}: {self.log_tail}"
            return bool(clients)

        until(accepts, PATIENCE, lambda: f"{self.host} accepts a connection: {self.log_tail}", pause=0.05)
        return clients[0]

    def wait_connected(self) -> None:
        """Wait until the agent is connected to a broker."""
        until(lambda: self._count_records("connected"), PATIENCE, lambda: f"{self.host} connects: {self.log_tail}")

    def wait_subscribed(self, topics: int = 1) -> None:
        """Wait until brokers have granted that many topics."""
        until(
            lambda: self._count_records("subscribed") >= topics,
            PATIENCE,
            lambda: f"{self.host} subscribes: {self.log_tail}",
        )

    def _count_records(self, kind: str) -> int:
        assert self._running().poll() is None, f"{self.host} exited unexpectedly: {self.log_tail}"
        return len(self.journal.of(kind))

    @property
    def log_tail(self) -> str:
        """The end of the output of the process."""
        return self.output.read_text(errors="replace")[-1500:] if self.output.exists() else "nothing"

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.host} does not run: start it first"
        return self._process


@dataclass
class Load:
    """Load at a steady rate on the socket of an agent, from several threads, until it is stopped.

    With ``named``, the caller chooses the id of each event and publishes it again after an error, so that the agent has
    accepted every event at the end. By default the agent generates the ids.
    """

    agent: Agent
    topics: Sequence[str]
    rate: float = 100.0
    threads: int = 4
    batch: int = 5
    named: bool = False
    promised: list[str] = field(default_factory=list)
    """Ids that the agent has returned: it must not lose these events."""
    moments: list[float] = field(default_factory=list)
    """Times at which the ids were returned, in seconds since the epoch."""
    errors: list[BaseException] = field(default_factory=list)
    _end: threading.Event = field(default_factory=threading.Event)
    _workers: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Self:
        for number in range(self.threads):
            worker = threading.Thread(target=self._work, args=(number,), name=f"load-{number}", daemon=True)
            self._workers.append(worker)
            worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for worker in self._workers:
            worker.join(60)

    def finish(self) -> list[str]:
        """Stop the load; return ``promised``. Raise the error of a worker, if one failed."""
        self.__exit__()
        # The account would count an event that is promised later as lost.
        if any(worker.is_alive() for worker in self._workers):
            raise LateError(f"workers still publish events 60 s after the stop: {self.agent.log_tail}")
        if self.errors:
            raise self.errors[0]
        return self.promised

    def rate_before(self, moment: float, seconds: float) -> float:
        """Return the events per second that the agent accepted in the seconds before a time."""
        return sum(moment - seconds <= at < moment for at in list(self.moments)) / seconds

    def wait_rate(self, seconds: float) -> float:
        """Wait until the rate of the last ``seconds`` is high enough; return it."""

        def rate() -> float:
            return self.rate_before(time.time(), seconds)

        return wait_rate(rate, lambda: f"{rate():.0f} events per second are accepted: {self.agent.log_tail}")

    def burst(self, count: int = 200) -> threading.Thread:
        """Publish ``count`` events at once in a new thread, so that some of them are in flight; return the thread."""
        worker = threading.Thread(target=self._burst, args=(count,), name="burst", daemon=True)
        worker.start()
        return worker

    def _work(self, number: int) -> None:
        pause = self.threads * self.batch / self.rate
        client: Client | None = None
        event_count, due = 0, time.monotonic()
        try:
            while not self._end.wait(max(0.0, due - time.monotonic())):
                due = max(due + pause, time.monotonic())
                batch = [self._event(number, event_count + step) for step in range(self.batch)]
                event_count += self.batch
                client = self._publish(client, batch)
        except BaseException as error:  # noqa: BLE001 -- finish raises the error
            self.errors.append(error)
        finally:
            if client is not None:
                client.close()

    def _publish(self, client: Client | None, batch: list[tuple[str, str, str]]) -> Client:
        if not self.named:
            client = client or self.agent.client()
            self._record(client.publish_all([(topic, payload) for _, topic, payload in batch]))
            return client
        for name, topic, payload in batch:
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    client = client or Client(self.agent.socket)
                    self._record([client.publish(topic, payload, event_id=name)])
                    break
                except AgentError:
                    if time.monotonic() > deadline:
                        raise
                    if client is not None:
                        client.close()
                    client = None
                    time.sleep(0.05)
        assert client is not None
        return client

    def _burst(self, count: int) -> None:
        try:
            with self.agent.client() as client:
                events = [self._event(self.threads, number)[1:] for number in range(count)]
                self._record(client.publish_all(events))
        except BaseException as error:  # noqa: BLE001 -- finish raises the error
            self.errors.append(error)

    def _event(self, worker: int, number: int) -> tuple[str, str, str]:
        name = f"load-{worker}-{number}"
        return name, self.topics[number % len(self.topics)], json.dumps({"worker": worker, "number": number})

    def _record(self, ids: Iterable[str]) -> None:
        with self._lock:
            new_ids = list(ids)
            self.promised += new_ids
            self.moments += [time.time()] * len(new_ids)


def wait_handled(promised: Iterable[str], subscriber: Agent, timeout: float = PATIENCE) -> None:
    """Wait until the subscriber has handled all events, while there is progress; ``account`` reports lost events.

    Raise LateError if the rest comes only to a subscriber that was started again: these events are late, not lost.
    """
    missing = _unhandled(promised, subscriber, timeout)
    if missing:
        log_tail = subscriber.log_tail
        subscriber.kill()
        subscriber.start()
        if not _unhandled(missing, subscriber, timeout):
            raise LateError(f"{len(missing)} events came only to a new process of {subscriber.host}: {log_tail}")


def _unhandled(promised: Iterable[str], subscriber: Agent, timeout: float) -> set[str]:
    """Return the events that are not handled when no event was handled for ``timeout`` seconds; empty if all are."""
    missing = set(promised)
    last = time.monotonic()
    while missing and time.monotonic() < last + timeout:
        missing_before = len(missing)
        missing -= set(subscriber.journal.ids("handled"))
        if len(missing) < missing_before:
            last = time.monotonic()
        time.sleep(0.3)
    return missing
