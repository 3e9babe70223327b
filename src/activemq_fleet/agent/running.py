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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from activemq_fleet.agent.errors import AgentError
from activemq_fleet.agent.reading import read_config
from activemq_fleet.agent.session import Connack, Gone, Session
from activemq_fleet.agent.tls import tls_context

DRAIN = 60
"""Seconds that an agent has to empty its outbox."""

Record = dict[str, Any]


class Tail:
    """Reads an agent's journal as it grows."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._offsets: dict[Path, int] = {}
        self._lock = threading.Lock()
        self.records: list[Record] = []

    def read(self) -> list[Record]:
        """All records so far, as exported. ``at`` is ``ts`` in seconds since the epoch."""
        with self._lock:
            for path in sorted(self._directory.glob("*.jsonl")):
                with path.open("rb") as file:
                    file.seek(self._offsets.get(path, 0))
                    data = file.read()
                whole = data[: data.rfind(b"\n") + 1]
                self._offsets[path] = self._offsets.get(path, 0) + len(whole)
                self.records += map(_record, whole.splitlines())
            return self.records


def _record(line: bytes) -> Record:
    record: Record = json.loads(line)
    record["at"] = datetime.fromisoformat(record["ts"]).timestamp()
    return record


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
        command = [sys.executable, "-m", "activemq_fleet.agent", "--config", str(self.config), "run"]
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
            raise AgentError(f"{self.name} does not end within {timeout:g} s: {self.said}") from None
        self._process = None
        if code:
            raise AgentError(f"{self.name} ended with {code}: {self.said}")

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
            raise AgentError(f"{self.name} ended by itself with {self._process.returncode}: {self.said}")

    def count(self, kind: str) -> int:
        """How many records of a kind there are."""
        self.check()
        return sum(record["kind"] == kind for record in self.tail.read())

    def settled_for(self) -> float:
        """Seconds since its last connection was made; 0 while one is lost."""
        last = next((r for r in reversed(self.tail.read()) if r["kind"] in ("connected", "connection_lost")), None)
        return time.time() - last["at"] if last is not None and last["kind"] == "connected" else 0.0

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
    def said(self) -> str:
        """The end of what it printed."""
        lines = self._output.read_text(errors="replace").splitlines() if self._output.exists() else []
        return lines[-1][-400:] if lines else "it said nothing"


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
