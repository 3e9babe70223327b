"""What systemd hears from the agent."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from activemq_agent.systemd_watchdog import StallDetector, SystemdNotifier


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_assignments_arrive_in_one_datagram(tmp_path: Path, kind: str) -> None:
    address = str(tmp_path / "notify") if kind == "path" else f"@activemq-agent-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address.replace("@", "\0", 1))
        systemd.settimeout(5)
        assert SystemdNotifier({"NOTIFY_SOCKET": address}).send_assignments_to_systemd("READY=1", "STATUS=fine")
        assert systemd.recv(1000) == b"READY=1\nSTATUS=fine"


@pytest.mark.parametrize("address", ["", "vsock:2:1", "relative", "/nonexistent/socket", "@nobody"])
def test_without_systemd_nothing_happens(address: str) -> None:
    assert not SystemdNotifier({"NOTIFY_SOCKET": address}).send_assignments_to_systemd("READY=1")


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_signs_of_life_come_twice_as_often_as_systemd_waits(environment: dict[str, str], seconds: float | None) -> None:
    assert SystemdNotifier(environment).interval == seconds


class TestPulse:
    def test_all_that_move_are_alive(self) -> None:
        pulse = StallDetector()
        assert pulse.stalled_loops({"a": 1.0, "b": 1.0}) == ()
        assert pulse.stalled_loops({"a": 2.0, "b": 2.0}) == ()

    @pytest.mark.parametrize("name", ["network", "storage", "handlers"])
    def test_one_that_stands_still_is_named(self, name: str) -> None:
        pulse = StallDetector()
        ticks = {"network": 1.0, "storage": 1.0, "handlers": 1.0}
        assert pulse.stalled_loops(ticks) == ()
        moved = {one: tick + (one != name) for one, tick in ticks.items()}
        assert pulse.stalled_loops(moved) == (name,)

    def test_it_counts_from_the_last_time_that_all_moved(self) -> None:
        pulse = StallDetector()
        pulse.stalled_loops({"a": 1.0, "b": 1.0})
        assert pulse.stalled_loops({"a": 2.0, "b": 1.0}) == ("b",)
        assert pulse.stalled_loops({"a": 2.0, "b": 2.0}) == ()
