"""Processes that prevent a broker from listening on its ports."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from activemq_fleet.node.process.proc import Process, read_process
from activemq_fleet.node.process.taken_ports import running_brokers_to_replace, taken_ports

BASE = "-Dactivemq.base="
# The port is below those that Linux assigns automatically (32768 and above), so that no other test gets it on
# another address.
_LISTENER = """
import contextlib, random, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = None
while listener is None:
    with contextlib.suppress(OSError):
        listener = socket.create_server((sys.argv[1], random.randrange(10000, 32000)), family=family)
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def listening_process(address: str, *options: str) -> Iterator[tuple[Process, int]]:
    """Run a process that listens at an address; yield the process and its port."""
    command = [sys.executable, "-c", _LISTENER, address, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        port = int(started.stdout.readline())
        process = read_process(started.pid)
        assert process is not None
        yield process, port
        started.stdin.close()


@pytest.mark.parametrize(
    ("used", "wanted", "is_taken"),
    [
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "::", True),
        ("127.0.0.1", "no-such-name.invalid", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("127.0.0.1", "[::1]", False),
        ("0.0.0.0", "127.0.0.2", True),
        ("::", "0.0.0.0", True),
        ("::1", "0.0.0.0", True),
        ("::1", "127.0.0.1", False),
    ],
)
def test_port_of_another_process_is_taken_where_addresses_conflict(used: str, wanted: str, is_taken: bool) -> None:
    if ":" in used and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6: enable IPv6 to run this case")
    with listening_process(used) as (process, port):
        taken = taken_ports([(wanted, port)], None, "activemq.service", "/base")
    program = Path(process.command[0]).name[:15]
    expected = {"port": port, "address": used, "pid": process.pid, "program": program, "service": None}
    assert taken == ([expected] if is_taken else [])


def test_port_of_broker_itself_is_not_taken() -> None:
    with listening_process("127.0.0.1") as (process, port):
        assert taken_ports([("0.0.0.0", port)], process, "activemq.service", "/base") == []
        another = read_process(os.getpid())
        (taken,) = taken_ports([("0.0.0.0", port)], another, None, "/base")
        assert taken["pid"] == process.pid


def test_free_port_is_not_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    assert taken_ports([("0.0.0.0", port)], None, "activemq.service", "/base") == []


@pytest.mark.parametrize(("base", "is_taken"), [("/base", False), ("/opt/activemq", True)])
def test_port_of_broker_with_other_directory_in_unit_is_taken(
    base: str, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activemq_fleet.node.process.taken_ports.is_in_systemd_unit", lambda pid, unit: True)
    with listening_process("127.0.0.1", f"{BASE}{base}") as (process, port):
        taken = taken_ports([("0.0.0.0", port)], None, "activemq.service", "/base")
    assert [entry["pid"] for entry in taken] == ([process.pid] if is_taken else [])


@pytest.mark.parametrize(("option", "service"), [(f"{BASE}/opt/activemq", "orders.service"), ("--other", None)])
def test_taken_port_names_service_of_broker_only(
    option: str, service: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activemq_fleet.node.process.taken_ports.service_of_main_process", lambda pid: "orders.service")
    with listening_process("127.0.0.1", option) as (_process, port):
        (taken,) = taken_ports([("0.0.0.0", port)], None, "activemq.service", "/base")
    assert taken["service"] == service


@pytest.mark.parametrize(
    ("path", "command", "is_in_unit", "expected_service"),
    [
        ("home", "start", False, "amq.service"),
        ("link", "start", False, "amq.service"),
        ("../home", "start", False, "amq.service"),
        ("other", "start", True, "activemq.service"),
        ("other", "start", False, None),
        ("home", "stop", False, None),
        ("activemq", "start", True, None),
    ],
)
def test_running_broker_of_unit_or_home_with_other_base_is_replaced(
    path: str,
    command: str,
    is_in_unit: bool,
    expected_service: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "activemq_fleet.node.process.taken_ports.is_in_systemd_unit",
        lambda _pid, unit: is_in_unit and unit == "activemq.service",
    )
    monkeypatch.setattr("activemq_fleet.node.process.taken_ports.service_of_main_process", lambda _pid: "amq.service")
    home, root = tmp_path / "home", str(tmp_path)
    home.mkdir()
    (tmp_path / "link").symlink_to(home)
    directory = os.path.relpath(home, os.getcwd()) if path.startswith("..") else f"{root}/{path}"
    with listening_process("127.0.0.1", f"{BASE}{directory}", command) as (process, _port):
        brokers = running_brokers_to_replace(f"{root}/activemq", str(home), [process.pid])
    expected = {"pid": process.pid, "base": f"{root}/{'home' if path.startswith('..') else path}"}
    assert brokers == ([{**expected, "service": expected_service}] if expected_service else [])


def test_process_without_open_files_of_home_is_not_replaced(tmp_path: Path) -> None:
    with listening_process("127.0.0.1", f"{BASE}{tmp_path}", "start"):
        assert running_brokers_to_replace("/base/activemq", str(tmp_path), []) == []
