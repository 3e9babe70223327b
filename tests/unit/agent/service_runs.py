"""A complete agent in threads of the test, and its notifications to systemd."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from activemq_agent.agent_errors import AgentError
from activemq_agent.client import Client
from activemq_agent.service import Service
from activemq_agent.systemd_watchdog import SystemdNotifier
from tests import waiting

from .logged import RecordedLog, make_config


def wait_until(done: Callable[[], object], seconds: float = 60.0) -> None:
    waiting.wait_until(done, "the condition holds", patience=seconds, pause=0.02)


def accepts_connections(path: Path) -> bool:
    """Return whether the agent accepts connections on its socket; the socket's file exists a moment earlier."""
    try:
        Client(path).close()
    except AgentError:
        return False
    return True


class RunningAgent:
    """A service in a separate thread, and its notifications to systemd."""

    def __init__(self, directory: Path, **fields: Any) -> None:
        self.directory = directory
        self.log = RecordedLog()
        self.systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.systemd.bind(str(directory / "notify"))
        self.systemd.setblocking(False)
        self.notifications: list[str] = []
        notifier = SystemdNotifier({"NOTIFY_SOCKET": str(directory / "notify"), "WATCHDOG_USEC": "1000000"})
        (directory / "state").mkdir(exist_ok=True)
        config = make_config(directory, **({"state_directory": directory / "state"} | fields))
        self.socket = config.socket
        self.service = Service(config, log=self.log, notifier=notifier)
        self.code: int | None = None
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.code = self.service.run()
        except Exception as error:  # noqa: BLE001 -- the test checks it
            self.error = error

    def start(self) -> RunningAgent:
        self.thread.start()
        wait_until(lambda: accepts_connections(self.socket) or not self.thread.is_alive())
        return self

    def status(self) -> dict[str, Any]:
        with Client(self.socket) as client:
            return client.status()

    def stop(self) -> int | None:
        self.service.stop()
        self.thread.join(60)
        self.read_notifications()
        return self.code

    def read_notifications(self) -> list[str]:
        while True:
            try:
                self.notifications += self.systemd.recv(1000).decode().split("\n")
            except BlockingIOError:
                return self.notifications
