"""An agent as a process of its own, in a directory of its own, and its journal as it grows."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from activemq_agent.config_parser import read_config
from activemq_agent.errors import AgentError
from activemq_agent.session import Connack, Gone, Session
from activemq_agent.tls import tls_context

DRAIN = 60
"""Seconds that an agent has to empty its outbox."""

_MOMENTS = 50_000

Record = dict[str, Any]


class Tail:
    """Reads an agent's journal as it grows, and keeps what is asked for: counts, and the moments of late."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._offsets: dict[Path, int] = {}
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        """Records so far, by kind; some may have been exported twice."""
        self.barriers: set[str] = set()
        """The event ids of barriers, sent or received."""
        self._connection: tuple[str, float] | None = None
        self._moments: dict[str, deque[float]] = {}

    def read(self) -> Tail:
        """Read on to the end; returns itself."""
        with self._lock:
            for path in sorted(self._directory.glob("*.jsonl")):
                with path.open("rb") as file:
                    file.seek(self._offsets.get(path, 0))
                    data = file.read()
                whole = data[: data.rfind(b"\n") + 1]
                self._offsets[path] = self._offsets.get(path, 0) + len(whole)
                for line in whole.splitlines():
                    self._take(json.loads(line))
        return self

    def _take(self, record: Record) -> None:
        kind, at = record["kind"], datetime.fromisoformat(record["ts"]).timestamp()
        self.counts[kind] += 1
        self._moments.setdefault(kind, deque(maxlen=_MOMENTS)).append(at)
        if kind in ("connected", "connection_lost"):
            self._connection = kind, at
        if kind == "barrier":
            self.barriers.add(str(record.get("event_id")))

    def between(self, kind: str, began: float, ended: float) -> int:
        """How many records of a kind there are of that time, of the last fifty thousand."""
        with self._lock:
            return sum(began <= at < ended for at in self._moments.get(kind, ()))

    def last(self, kind: str) -> float:
        """When the last record of a kind was written, in seconds since the epoch; 0 without one."""
        moments = self._moments.get(kind)
        return moments[-1] if moments else 0.0

    @property
    def connected_since(self) -> float | None:
        """When the connection was made that stands, None while there is none."""
        return self._connection[1] if self._connection and self._connection[0] == "connected" else None


class AgentProcess:
    """``activemq-agent run`` in a directory of its own; at the end of the ``with`` it is gone."""

    def __init__(
        self, name: str, directory: Path, sockets: Path, keys: Mapping[str, str], topics: Sequence[str]
    ) -> None:
        self.name = name
        self.directory = directory
        self.config = directory / "agent.conf"
        self.socket = sockets / f"{len(list(sockets.iterdir()))}.sock"
        self.socket.with_suffix(".taken").touch()
        self.tail = Tail(directory / "agent")
        self._output = directory / "output.log"
        self._process: subprocess.Popen[bytes] | None = None
        own = {"state.directory": str(directory), "socket": str(self.socket), "drain.seconds": str(DRAIN)}
        if topics:
            own["topics"] = ",".join(topics)
        directory.mkdir(mode=0o700, parents=True)
        text = "".join(f"{key} = {value}\n" for key, value in (dict(keys) | own).items())
        descriptor = os.open(self.config, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"[agent]\n{text}")

    def start(self) -> None:
        """Start its process; nothing is waited for. It dies with the thread that started it, where setpriv is."""
        command = [sys.executable, "-m", "activemq_agent", "--config", str(self.config), "run"]
        if guard := shutil.which("setpriv"):
            command = [guard, "--pdeathsig", "KILL", *command]
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def stop(self, timeout: float = DRAIN + 40.0) -> None:
        """SIGTERM: it sends its barriers, empties its outbox and ends. Raises AgentError when it does not."""
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AgentError(f"{self.name} does not end within {timeout:g} s: {self.last_line}") from None
        self._process = None
        if code:
            raise AgentError(f"{self.name} ended with {code}: {self.last_line}")

    def kill(self) -> None:
        """SIGKILL to it and all that it started."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)

    def check(self) -> None:
        """Raises AgentError when it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise AgentError(f"{self.name} ended by itself with {self._process.returncode}: {self.last_line}")

    def count(self, kind: str) -> int:
        """How many records of a kind there are."""
        self.check()
        return self.tail.read().counts[kind]

    def settled_for(self) -> float:
        """Seconds since its last connection was made; 0 while one is lost."""
        since = self.tail.read().connected_since
        return 0.0 if since is None else time.time() - since

    def forget(self) -> None:
        """Take its durable session off the broker, so that no store fills for nobody."""
        config = read_config(self.config)
        for broker in config.urls:
            events: queue.Queue[Any] = queue.Queue()
            tls = tls_context(config.tls) if broker.tls else None
            session = Session.open(broker, config, client_id=config.client_id, clean=True, on_event=events.put, tls=tls)
            if _is_accepted(events):
                session.close(orderly=True)
                return
            session.close()

    @property
    def last_line(self) -> str:
        """Return its last line of output, of a JSON record event and error; at most 400 characters."""
        lines = self._output.read_text(errors="replace").splitlines() if self._output.exists() else []
        return _plain(lines[-1])[-400:] if lines else "it said nothing"


def _plain(line: str) -> str:
    """A JSON record of the agent's log as words; any other line as it is."""
    try:
        record = json.loads(line)
    except ValueError:
        return line
    if not isinstance(record, dict):
        return line
    told = [str(record[key]) for key in ("event", "broker", "reason", "error") if record.get(key)]
    return ": ".join(told) or line


def _is_accepted(events: queue.Queue[Any]) -> bool:
    deadline = time.monotonic() + 6
    while time.monotonic() < deadline:
        with suppress(queue.Empty):
            event = events.get(timeout=1)
            if isinstance(event, Gone):
                return False
            if isinstance(event, Connack):
                return event.refused is None
    return False
