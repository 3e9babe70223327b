"""Run an agent as a process in a separate directory, and read its journal as it grows."""

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

from activemq_agent.agent_errors import AgentError
from activemq_agent.config_parser import read_config
from activemq_agent.configuration_and_connection_check import wait_for_event
from activemq_agent.connection_events import ConnackReceived, SessionEvent
from activemq_agent.session import Session
from activemq_agent.tls import tls_context
from activemq_fleet.node.text_lines import split_lines

DRAIN = 60
"""Seconds within which a stopping agent must empty its outbox."""

_MAX_MOMENTS = 50_000

Record = dict[str, Any]


class JournalTail:
    """A reader that follows the growing journal files of a failover agent.

    It counts the journal's records by kind, and keeps the last 50,000 times of each kind.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._offsets: dict[Path, int] = {}
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        """The numbers of journal records read so far, by kind; a record that was exported twice counts twice."""
        self.barriers: set[str] = set()
        """The event ids of barriers, sent or received."""
        self._moments: dict[str, deque[float]] = {}

    def add_counts_of_new_journal_records(self) -> JournalTail:
        """Add the new records of the agent's event journal to the counts by kind, and return this object.

        Records that an earlier call has counted are not counted again. The method also stores the times of the records
        and the event ids of barriers.
        """
        with self._lock:
            for path in sorted(self._directory.glob("*.jsonl")):
                with path.open("rb") as file:
                    file.seek(self._offsets.get(path, 0))
                    data = file.read()
                complete_lines = data[: data.rfind(b"\n") + 1]
                self._offsets[path] = self._offsets.get(path, 0) + len(complete_lines)
                for line in complete_lines.split(b"\n")[:-1]:
                    self._count_record(json.loads(line))
        return self

    def _count_record(self, record: Record) -> None:
        kind, at = record["kind"], datetime.fromisoformat(record["ts"]).timestamp()
        self.counts[kind] += 1
        self._moments.setdefault(kind, deque(maxlen=_MAX_MOMENTS)).append(at)
        if kind == "barrier":
            self.barriers.add(str(record.get("event_id")))

    def count_records_between(self, kind: str, began: float, ended: float) -> int:
        """Return how many of the last 50,000 journal records of a kind, such as ``handled``, are between two times.

        The times are ``began`` (included) and ``ended`` (excluded) in epoch seconds.
        """
        with self._lock:
            return sum(began <= at < ended for at in self._moments.get(kind, ()))

    def last_record_time(self, kind: str) -> float:
        """Return the epoch seconds of the last record of a kind, such as ``handled``, in the agent's event journal.

        It is 0 without a record.
        """
        moments = self._moments.get(kind)
        return moments[-1] if moments else 0.0

    @property
    def connected_since(self) -> float | None:
        """The time in epoch seconds since which the agent is connected to a broker; None without a connection."""
        since = self.last_record_time("connected")
        return since if since > self.last_record_time("connection_lost") else None


class AgentProcess:
    """A process of the failover agent (``activemq-agent run``).

    It has a separate directory, configuration and socket. ``start`` starts the process. ``keys`` are keys of
    agent.conf with their values; ``topics`` are the filters to subscribe to.
    """

    def __init__(
        self, name: str, directory: Path, sockets: Path, keys: Mapping[str, str], topics: Sequence[str]
    ) -> None:
        self.name = name
        self.directory = directory
        self.config = directory / "agent.conf"
        self.socket = sockets / f"{len(list(sockets.iterdir()))}.sock"
        self.socket.with_suffix(".taken").touch()
        self.tail = JournalTail(directory / "agent")
        self._output = directory / "output.log"
        self._process: subprocess.Popen[bytes] | None = None
        lab_keys = {"state.directory": str(directory), "socket": str(self.socket), "drain.seconds": str(DRAIN)}
        if topics:
            lab_keys["topics"] = ",".join(topics)
        directory.mkdir(mode=0o700, parents=True)
        self.config.touch(mode=0o600, exist_ok=False)
        text = "".join(f"{key} = {value}\n" for key, value in (dict(keys) | lab_keys).items())
        self.config.write_text(f"[agent]\n{text}", encoding="utf-8")

    def start(self) -> None:
        """Start the agent's process without waiting until it is connected.

        If setpriv is installed, the process is killed when the thread that started it ends.
        """
        command = [sys.executable, "-m", "activemq_agent", "--config", str(self.config), "run"]
        if guard := shutil.which("setpriv"):
            command = [guard, "--pdeathsig", "KILL", *command]
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def stop(self, timeout: float = DRAIN + 40.0) -> None:
        """Stop the agent's process by SIGTERM, and wait until it has ended.

        The agent empties its outbox first. Before it ends, the agent sends its barriers: messages after its events,
        which prove that these arrived. Raises AgentError when the agent does not end within ``timeout`` seconds, or
        ends with an error.
        """
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AgentError(
                f"{self.name} did not stop within {timeout:g} s: check that a broker of the pair accepts its events. "
                f"Its last output: {self.last_output_line}"
            ) from None
        self._process = None
        if code:
            raise AgentError(
                f"{self.name} stopped with exit code {code}: correct the error in its last output: "
                f"{self.last_output_line}"
            )

    def kill(self) -> None:
        """Kill the agent's process by SIGKILL.

        All processes that it started are also killed.
        """
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)

    def raise_if_ended(self) -> None:
        """Raise AgentError if the agent's process has ended unexpectedly."""
        if self._process is not None and self._process.poll() is not None:
            raise AgentError(
                f"{self.name} stopped unexpectedly with exit code {self._process.returncode}: correct the error in its "
                f"last output: {self.last_output_line}"
            )

    def record_count(self, kind: str) -> int:
        """Return the number of records of a kind, such as ``subscribed``, in the failover agent's event journal.

        Raises AgentError when the process has ended.
        """
        self.raise_if_ended()
        return self.tail.add_counts_of_new_journal_records().counts[kind]

    def current_connection_seconds(self) -> float:
        """Return for how many seconds the failover agent has been connected to a broker; 0 without a connection."""
        since = self.tail.add_counts_of_new_journal_records().connected_since
        return 0.0 if since is None else time.time() - since

    def delete_durable_session(self) -> None:
        """Delete the agent's durable session on the broker.

        Without a session no store fills with messages for the agent. The first broker that accepts the login is used;
        nothing is raised when none does.
        """
        config = read_config(self.config)
        for broker in config.urls:
            events: queue.SimpleQueue[SessionEvent] = queue.SimpleQueue()
            tls = tls_context(config.tls) if broker.tls else None
            session = Session(broker, config, client_id=config.client_id, clean=True, on_event=events.put, tls=tls)
            session.start()
            is_accepted = False
            with suppress(AgentError):
                is_accepted = (
                    wait_for_event(events, ConnackReceived, time.monotonic() + 6, "no CONNACK").refused is None
                )
            session.close(orderly=is_accepted)
            if is_accepted:
                return

    @property
    def last_output_line(self) -> str:
        """The last line that the agent's process has printed.

        The line is limited to 400 characters. If it is a JSON record, only its event, broker, reason and error are
        returned.
        """
        lines = split_lines(self._output.read_text(errors="replace")) if self._output.exists() else []
        return _log_line_text(lines[-1])[-400:] if lines else "(no output)"


def _log_line_text(line: str) -> str:
    """Return a JSON record of the agent's log as words; any other line as it is."""
    try:
        record = json.loads(line)
    except ValueError:
        return line
    if not isinstance(record, dict):
        return line
    fields = [str(record[key]) for key in ("event", "broker", "reason", "error") if record.get(key)]
    return ": ".join(fields) or line
