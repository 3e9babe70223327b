"""Real agents as processes of their own, and load on their sockets."""

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
"""Seconds between a waiting broker's looks at the lock, in the tests' pairs."""
KEEPALIVE = 10.0
SPARE = 5.0
LOWEST_RATE = 50.0
"""Events a second below which a run proves little …"""
STARVED_RATE = 10.0
"""… and those with which a machine that is too busy for that has to do."""
_PASSWORD = "s3cret-agent"


def loss_bound(kills: int) -> float:
    """The highest chance a kill of a loss that none in so many would still hide, at 95 %."""
    return float(1 - 0.05 ** (1 / kills))


@pytest.fixture(scope="module")
def sockets() -> Iterator[Path]:
    """A directory for sockets: their paths have 107 bytes at most, and those of tests are long."""
    with tempfile.TemporaryDirectory(prefix="agents-") as directory:
        yield Path(directory)


def write_fleet(
    directory: Path, sockets: Path, brokers: Sequence[str], agents: Mapping[str, Mapping[str, Any]], **variables: Any
) -> Path:
    """An inventory of these brokers and agents; variables without ``activemq_``. JSON is YAML.

    Agents have their sockets in ``sockets``, in a directory of each call's own.
    """
    directory.mkdir(parents=True, exist_ok=True)
    own_sockets = tempfile.mkdtemp(dir=sockets)
    shared = {"network_username": "network", "network_password": "s3cret-network", **variables}
    mine = {
        host: {
            "activemq_agent_username": host.partition(".")[0],
            "activemq_agent_password": _PASSWORD,
            "activemq_agent_options": {"socket": f"{own_sockets}/{host.partition('.')[0]}"},
            **{f"activemq_agent_{name}": value for name, value in own.items()},
        }
        for host, own in agents.items()
    }
    content = {
        "all": {
            "hosts": {host: {} for host in brokers},
            "vars": {f"activemq_{name}": value for name, value in shared.items()},
            "children": {"activemq_agents": {"hosts": mine}},
        }
    }
    path = directory / "hosts.yml"
    path.write_text(json.dumps(content, indent=1))
    return path


def account_of(agent: topology.Agent) -> Credentials:
    """The broker's account that an agent has."""
    username, password = agent.settings.agent_username, agent.settings.agent_password
    assert username
    assert isinstance(password, SecretStr)
    return Credentials(username, password.get_secret_value())


def wait_rate(rate: Callable[[], float], what: Callable[[], str]) -> float:
    """Wait until a rate, in events a second, proves something; returns it. A starved machine may stay below that."""
    try:
        until(lambda: rate() >= LOWEST_RATE, PATIENCE, what)
    except LateError:
        if rate() < STARVED_RATE:
            raise
    return rate()


class Agent:
    """``activemq-agent run`` for a host of a lab, on the files that the lab renders for it.

    As a context manager its process is gone at the end. It may be started again and again: its state stays.
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
        """Start its process; nothing is waited for."""
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
        """SIGKILL to it, and then to its handlers, as systemd would do; returns when all are gone."""
        process = self._running()
        assert process.poll() is None, f"{self.host} ended by itself with {process.returncode}: {self.log_tail}"
        os.kill(process.pid, signal.SIGSTOP)  # lest it starts another one
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait(60)
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        self._process = None

    def stop(self, timeout: float = PATIENCE) -> None:
        """SIGTERM: it empties its outbox and ends well."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout) == 0, f"{self.host} ended with {process.returncode}: {self.log_tail}"
        self._process = None

    def client(self) -> Client:
        """A connection to its socket; waits until it answers."""
        found: list[Client] = []

        def answers() -> bool:
            with suppress(AgentError):
                found.append(Client(self.socket))
            process = self._running()
            assert found or process.poll() is None, f"{self.host} ended with {process.returncode}: {self.log_tail}"
            return bool(found)

        until(answers, PATIENCE, lambda: f"{self.host} answers: {self.log_tail}", pause=0.05)
        return found[0]

    def wait_connected(self) -> None:
        """Wait until it has a connection."""
        until(lambda: self._count_records("connected"), PATIENCE, lambda: f"{self.host} connects: {self.log_tail}")

    def wait_subscribed(self, topics: int = 1) -> None:
        """Wait until brokers have granted so many topics."""
        until(
            lambda: self._count_records("subscribed") >= topics,
            PATIENCE,
            lambda: f"{self.host} subscribes: {self.log_tail}",
        )

    def _count_records(self, kind: str) -> int:
        assert self._running().poll() is None, f"{self.host} ended by itself: {self.log_tail}"
        return len(self.journal.of(kind))

    @property
    def log_tail(self) -> str:
        """The end of what it printed."""
        return self.output.read_text(errors="replace")[-1500:] if self.output.exists() else "nothing"

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.host} does not run"
        return self._process


@dataclass
class Load:
    """Publishes on an agent's socket from several threads, steadily, until it is ended.

    With ``named``, every event has an id of the caller's own and is handed over again after an error: so it is
    known of every event whether it was accepted. Else the agent makes the ids.
    """

    agent: Agent
    topics: Sequence[str]
    rate: float = 100.0
    threads: int = 4
    batch: int = 5
    named: bool = False
    promised: list[str] = field(default_factory=list)
    """Ids that the agent has returned: events that it must not lose."""
    moments: list[float] = field(default_factory=list)
    """When each was returned, in seconds since the epoch."""
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
        """Stop; returns ``promised``. Raises what a worker could not deal with."""
        self.__exit__()
        # What it is promised later would count as lost.
        if any(worker.is_alive() for worker in self._workers):
            raise LateError(f"events are still being handed over after 60 s: {self.agent.log_tail}")
        if self.errors:
            raise self.errors[0]
        return self.promised

    def rate_before(self, moment: float, seconds: float) -> float:
        """Events a second accepted in the time before a moment."""
        return sum(moment - seconds <= at < moment for at in list(self.moments)) / seconds

    def wait_rate(self, seconds: float) -> float:
        """Wait until the rate of the last so many seconds proves something; returns it."""

        def rate() -> float:
            return self.rate_before(time.time(), seconds)

        return wait_rate(rate, lambda: f"{rate():.0f} events a second are accepted: {self.agent.log_tail}")

    def burst(self, count: int = 200) -> threading.Thread:
        """Hand over so many events at once, in a thread that is returned: some will be on their way."""
        worker = threading.Thread(target=self._burst, args=(count,), name="burst", daemon=True)
        worker.start()
        return worker

    def _work(self, number: int) -> None:
        pause = self.threads * self.batch / self.rate
        client: Client | None = None
        count, due = 0, time.monotonic()
        try:
            while not self._end.wait(max(0.0, due - time.monotonic())):
                due = max(due + pause, time.monotonic())
                batch = [self._event(number, count + step) for step in range(self.batch)]
                count += self.batch
                client = self._hand_over(client, batch)
        except BaseException as error:  # noqa: BLE001 -- told to who waits for this thread
            self.errors.append(error)
        finally:
            if client is not None:
                client.close()

    def _hand_over(self, client: Client | None, batch: list[tuple[str, str, str]]) -> Client:
        if not self.named:
            client = client or self.agent.client()
            self._note(client.publish_all([(topic, payload) for _, topic, payload in batch]))
            return client
        for name, topic, payload in batch:
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    client = client or Client(self.agent.socket)
                    self._note([client.publish(topic, payload, event_id=name)])
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
                self._note(client.publish_all(events))
        except BaseException as error:  # noqa: BLE001 -- the same
            self.errors.append(error)

    def _event(self, worker: int, number: int) -> tuple[str, str, str]:
        name = f"load-{worker}-{number}"
        return name, self.topics[number % len(self.topics)], json.dumps({"worker": worker, "number": number})

    def _note(self, ids: Iterable[str]) -> None:
        with self._lock:
            known = list(ids)
            self.promised += known
            self.moments += [time.time()] * len(known)


def wait_handled(promised: Iterable[str], subscriber: Agent, timeout: float = PATIENCE) -> None:
    """Wait until all of it is handled, as long as there is progress; who is lost is told by ``account``.

    What comes only to a subscriber that is started anew is late and not lost: LateError.
    """
    missing = _unhandled(promised, subscriber, timeout)
    if missing:
        said = subscriber.log_tail
        subscriber.kill()
        subscriber.start()
        if not _unhandled(missing, subscriber, timeout):
            raise LateError(f"{len(missing)} events came only to a new process of {subscriber.host}: {said}")


def _unhandled(promised: Iterable[str], subscriber: Agent, timeout: float) -> set[str]:
    """What is not handled when all is, or nothing has been for ``timeout`` seconds."""
    missing = set(promised)
    last = time.monotonic()
    while missing and time.monotonic() < last + timeout:
        before = len(missing)
        missing -= set(subscriber.journal.ids("handled"))
        if len(missing) < before:
            last = time.monotonic()
        time.sleep(0.3)
    return missing
