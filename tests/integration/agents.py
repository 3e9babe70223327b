"""Real agents as processes of their own, load on their sockets, and what their journals say became of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

from activemq_fleet.agent.client import Client
from activemq_fleet.agent.errors import AgentError
from activemq_fleet.agent.reading import read_config
from activemq_fleet.agent.session import is_barrier
from activemq_fleet.lab import Lab
from activemq_fleet.render.agent import CONFIGURATION

SOURCE = Path(__file__).resolve().parents[2] / "src"
PROGRAM = str(Path(sys.executable).with_name("activemq-agent"))
ACQUIRE = 1.0
"""Seconds between a waiting broker's looks at the lock, in the tests' pairs."""
KEEPALIVE = 10.0
SPARE = 5.0
LOWEST_RATE = 50.0
"""Events a second below which a run proves nothing."""
_PASSWORD = "s3cret-agent"

Record = dict[str, Any]


def bound_of(kills: int) -> float:
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


def until(holds: Callable[[], object], timeout: float, what: Callable[[], str] | str) -> None:
    """Wait for it; the test fails with ``what`` if it does not come in ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, f"not in {timeout:g} s: {what if isinstance(what, str) else what()}"
        time.sleep(0.1)


class Journal:
    """Reads the journal of an agent as it grows; every record once, in order, and none missing."""

    def __init__(self, directory: Path) -> None:
        self.records: list[Record] = []
        self._directory = directory
        self._offsets: dict[Path, int] = {}
        self._jseq = 0
        self._epochs: set[str] = set()

    def read(self) -> list[Record]:
        """All records so far. ``at`` is ``ts`` in seconds since the epoch."""
        for path in sorted(self._directory.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._offsets[path] = self._offsets.get(path, 0) + len(whole)
            for line in whole.splitlines():
                self._take(json.loads(line))
        return self.records

    def _take(self, record: Record) -> None:
        self._epochs.add(record["epoch"])
        assert len(self._epochs) == 1, "a second epoch: the store was made anew"
        if record["jseq"] <= self._jseq:
            return  # exported twice, around a kill
        assert record["jseq"] == self._jseq + 1, f"the journal misses records {self._jseq + 1} to {record['jseq'] - 1}"
        self._jseq = record["jseq"]
        record["at"] = datetime.fromisoformat(record["ts"]).timestamp()
        self.records.append(record)

    def of(self, *kinds: str) -> list[Record]:
        """The records of some kinds; those of barriers only if asked for."""
        found = [record for record in self.read() if record["kind"] in kinds]
        return [r for r in found if r["kind"] == "barrier" or not is_barrier(r.get("topic") or "")]

    def ids(self, *kinds: str) -> list[str]:
        """Event ids of the records of some kinds, barriers left out."""
        return [str(record["event_id"]) for record in self.of(*kinds) if record.get("event_id")]


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
        assert process.poll() is None, f"{self.host} ended by itself with {process.returncode}: {self.said}"
        os.kill(process.pid, signal.SIGSTOP)  # lest it starts another one
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait(10)
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        self._process = None

    def stop(self, timeout: float = 90.0) -> None:
        """SIGTERM: it empties its outbox and ends well."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout) == 0, f"{self.host} ended with {process.returncode}: {self.said}"
        self._process = None

    def client(self, timeout: float = 90.0) -> Client:
        """A connection to its socket; waits until it answers."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                return Client(self.socket)
            except AgentError:
                process = self._running()
                assert process.poll() is None, f"{self.host} ended with {process.returncode}: {self.said}"
                assert time.monotonic() < deadline, f"{self.host} does not answer: {self.said}"
                time.sleep(0.05)

    def wait_connected(self, timeout: float = 90.0) -> None:
        """Wait until it has a connection."""
        until(lambda: self._told("connected"), timeout, lambda: f"{self.host} connects: {self.said}")

    def wait_subscribed(self, topics: int = 1, timeout: float = 90.0) -> None:
        """Wait until brokers have granted so many topics."""
        until(lambda: self._told("subscribed") >= topics, timeout, lambda: f"{self.host} subscribes: {self.said}")

    def _told(self, kind: str) -> int:
        assert self._running().poll() is None, f"{self.host} ended by itself: {self.said}"
        return len(self.journal.of(kind))

    @property
    def said(self) -> str:
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
        if self.errors:
            raise self.errors[0]
        return self.promised

    def rate_before(self, moment: float, seconds: float) -> float:
        """Events a second accepted in the time before a moment."""
        return sum(moment - seconds <= at < moment for at in list(self.moments)) / seconds

    def wait_rate(self, seconds: float, timeout: float = 120.0) -> float:
        """Wait until the rate of the last so many seconds proves something; returns it."""
        rate = 0.0

        def enough() -> bool:
            nonlocal rate
            rate = self.rate_before(time.time(), seconds)
            return rate >= LOWEST_RATE

        until(enough, timeout, lambda: f"{LOWEST_RATE:g} events a second, not {rate:.0f}: {self.agent.said}")
        return rate

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
            deadline = time.monotonic() + 60
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


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the promised events of a run; ``copies`` are messages that the inbox had already."""

    accepted: int
    handled: int
    lost: tuple[str, ...]
    twice: tuple[str, ...]
    copies: int
    silence: float
    """Longest time between two handled events, in seconds."""

    def __str__(self) -> str:
        return (
            f"{self.accepted} accepted, {self.handled} handled, {len(self.lost)} lost, "
            f"{len(self.twice)} handled twice, {self.copies} copies dropped, longest silence {self.silence:.1f} s"
        )


def account(promised: Sequence[str], subscriber: Journal, since: float) -> Account:
    """Settle what was promised since a moment, in seconds since the epoch."""
    handled = [record for record in subscriber.of("handled") if record["at"] >= since]
    runs = Counter(record.get("event_id") for record in handled)
    assert None not in runs, "an event without an id was handled"
    moments = sorted(record["at"] for record in handled)
    return Account(
        accepted=len(set(promised)),
        handled=len(set(promised) & runs.keys()),
        lost=tuple(sorted(set(promised) - runs.keys())),
        twice=tuple(str(name) for name, count in runs.items() if count > 1),
        copies=sum(record["at"] >= since for record in subscriber.of("duplicate")),
        silence=max((after - before for before, after in pairwise(moments)), default=0.0),
    )


def wait_handled(promised: Iterable[str], subscriber: Agent, timeout: float = 60.0) -> None:
    """Wait until all of it is handled, as long as there is progress; who is missing is told by ``account``."""
    missing = set(promised)
    last = time.monotonic()
    while missing and time.monotonic() < last + timeout:
        before = len(missing)
        missing -= set(subscriber.journal.ids("handled"))
        if len(missing) < before:
            last = time.monotonic()
        time.sleep(0.3)


def in_flight(publisher: Journal, moment: float) -> int:
    """How many events were on the wire at that moment, and had to be sent again on a later connection."""
    began = {record["conn"]: record["at"] for record in publisher.of("connected")}
    before: set[str] = set()
    after: set[str] = set()
    for record in publisher.of("sent"):
        (before if began[record["conn"]] < moment else after).add(record["event_id"])
    return len(before & after)
