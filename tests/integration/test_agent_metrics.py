"""The metrics of a real agent's process: served where its configuration says, nowhere else, and without its secrets."""

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
def agent(directory: Path, socket: Path, *more: str) -> Iterator[psutil.Process]:
    """An agent that finds no broker; waits until its socket is there."""
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
        *more,
    ]
    config = directory / "agent.conf"
    config.write_text("\n".join(lines))
    with (directory / "said").open("w+") as said:
        process = subprocess.Popen([PROGRAM, "--config", str(config), "run"], stdout=said, stderr=said)
        try:
            until(socket.exists, 60, lambda: f"its socket: {(directory / 'said').read_text()}")
            yield psutil.Process(process.pid)
        finally:
            process.kill()
            process.wait()


def listening(process: psutil.Process) -> list[tuple[str, int]]:
    return [
        (one.laddr.ip, one.laddr.port) for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN
    ]


@pytest.mark.parametrize("address", [None, METRICS])
def test_an_agent_listens_where_it_was_told_and_tells_no_secret(
    tmp_path: Path, address: tuple[str, int] | None
) -> None:
    more = [f"metrics.address = {address[0]}:{address[1]}"] if address else []
    with tempfile.TemporaryDirectory(dir="/tmp") as sockets, agent(tmp_path, Path(sockets, "kiosk"), *more) as process:
        subprocess.run(
            [PROGRAM, "--config", str(tmp_path / "agent.conf"), "status"], check=True, stdout=subprocess.DEVNULL
        )
        if address is None:
            assert listening(process) == []
        else:
            until(lambda: listening(process), 60, "its metrics")
            assert listening(process) == [address]
            with urllib.request.urlopen(f"http://{address[0]}:{address[1]}/metrics", timeout=10) as answer:
                text = answer.read().decode()
            assert "activemq_agent_outbox_events 0.0" in text
            assert SECRET not in text
