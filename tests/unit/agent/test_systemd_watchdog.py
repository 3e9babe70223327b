"""Notifications of the agent to systemd, and the detection of stalled loops."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from activemq_agent.systemd_watchdog import StallDetector, SystemdNotifier


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_notification_to_systemd_is_sent_in_one_datagram(tmp_path: Path, kind: str) -> None:
    address = str(tmp_path / "notify") if kind == "path" else f"@activemq-agent-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address.replace("@", "\0", 1))
        systemd.settimeout(5)
        assert SystemdNotifier({"NOTIFY_SOCKET": address}).send_assignments_to_systemd("READY=1", "STATUS=fine")
        assert systemd.recv(1000) == b"READY=1\nSTATUS=fine"


@pytest.mark.parametrize("address", ["", "vsock:2:1", "relative", "/nonexistent/socket", "@nobody"])
def test_notification_to_systemd_without_usable_socket_is_not_sent(address: str) -> None:
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
def test_watchdog_interval_is_half_of_timeout_of_systemd(environment: dict[str, str], seconds: float | None) -> None:
    assert SystemdNotifier(environment).interval == seconds


class TestStallDetector:
    def test_agent_loops_that_progress_are_not_reported_as_stalled(self) -> None:
        detector = StallDetector()
        assert detector.stalled_loops({"a": 1.0, "b": 1.0}) == ()
        assert detector.stalled_loops({"a": 2.0, "b": 2.0}) == ()

    @pytest.mark.parametrize("stalled", ["network", "storage", "handlers"])
    def test_stall_detector_names_stalled_agent_loop(self, stalled: str) -> None:
        detector = StallDetector()
        loop_starts = {"network": 1.0, "storage": 1.0, "handlers": 1.0}
        assert detector.stalled_loops(loop_starts) == ()
        later_starts = {loop: start + (loop != stalled) for loop, start in loop_starts.items()}
        assert detector.stalled_loops(later_starts) == (stalled,)

    def test_stall_of_agent_loop_is_measured_since_last_progress_of_all_loops(self) -> None:
        detector = StallDetector()
        detector.stalled_loops({"a": 1.0, "b": 1.0})
        assert detector.stalled_loops({"a": 2.0, "b": 1.0}) == ("b",)
        assert detector.stalled_loops({"a": 2.0, "b": 2.0}) == ()
