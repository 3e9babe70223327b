"""Metrics of a real agent's process: served only at the configured address, and without its secrets."""

from __future__ import annotations

import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.integration.agents import PROGRAM
from tests.integration.waiting import until

SECRET = "s3cret-kiosk"
METRICS = ("127.0.0.1", 23464)


@contextmanager
def running_agent(directory: Path, socket: Path, *settings: str) -> Iterator[psutil.Process]:
    """Start an agent that reaches no broker, wait until its socket exists, and yield its process."""
    secret = directory / "mb.password"
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o600)
    lines = [
        "[agent]",
        "mb.urls = 127.0.0.1:1",
        "mb.username = kiosk",
        f"mb.password.file = {secret}",
        "topics = orders/#",
        f"socket = {socket}",
        f"state.directory = {directory}/state",
        *settings,
    ]
    config = directory / "agent.conf"
    config.write_text("\n".join(lines))
    with (directory / "output").open("w+") as output:
        process = subprocess.Popen([PROGRAM, "--config", str(config), "run"], stdout=output, stderr=output)
        try:
            until(socket.exists, 60, lambda: f"the socket of the agent exists: {(directory / 'output').read_text()}")
            yield psutil.Process(process.pid)
        finally:
            process.kill()
            process.wait()


def listening_addresses(process: psutil.Process) -> list[tuple[str, int]]:
    return [
        (connection.laddr.ip, connection.laddr.port)
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]


@pytest.mark.parametrize("address", [None, METRICS])
def test_agent_serves_metrics_at_configured_address_without_secrets(
    tmp_path: Path, address: tuple[str, int] | None
) -> None:
    settings = [f"metrics.address = {address[0]}:{address[1]}"] if address else []
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as sockets,
        running_agent(tmp_path, Path(sockets, "kiosk"), *settings) as process,
    ):
        subprocess.run(
            [PROGRAM, "--config", str(tmp_path / "agent.conf"), "status"], check=True, stdout=subprocess.DEVNULL
        )
        if address is None:
            assert listening_addresses(process) == []
        else:
            until(lambda: listening_addresses(process), 60, "the agent listens for scrapes of its metrics")
            assert listening_addresses(process) == [address]
            with urllib.request.urlopen(f"http://{address[0]}:{address[1]}/metrics", timeout=10) as response:
                metrics_text = response.read().decode()
            assert "activemq_agent_outbox_events 0.0" in metrics_text
            assert SECRET not in metrics_text
