"""Log records that a client forges through the names that it chooses, and how readers parse them."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.logs.event_batches import LogReleaseAndTimeZone, LogScanner
from activemq_fleet.node.log import broker_log, pure_log
from activemq_fleet.node.log.broker_run import BrokerRun
from activemq_fleet.node.log.kinds import parse_log_event
from activemq_fleet.node.log.log_records import parse_log
from activemq_fleet.node.process import held_by_process
from activemq_fleet.node.process.proc import read_proc_file
from tests.log_reading import logger_of

STARTED = "Apache ActiveMQ 5.18.3 (x, ID:h-1-2-0:1) started"
SHUTTING_DOWN = "Apache ActiveMQ 5.18.3 (x, ID:h-1-2-0:1) is shutting down"
PROMOTED = "Master Failed - starting all connectors"
CLIENT = "ActiveMQ Transport: tcp:///127.0.0.1:47178@61616"
NAMES = st.text(st.sampled_from("\n\r\x0b\x0c\x1c\x85\u2028\u2029| 2026-1:0,x") | st.characters(codec="utf-8"))


def record_line(message: str, logger: str = "", thread: str = "main", at: float | None = None) -> str:
    timestamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    return f"{timestamp},001 | INFO  | {message} | {logger or logger_of(message)} | {thread}\n"


def phase_of(directory: Path, *records: str) -> str:
    (directory / "activemq.log").write_text("".join(records), newline="")
    return str(broker_log.read_broker_phase(str(directory), time.time() - 60).name)


def encode_line_breaks(text: str) -> str:
    """Return the text as the project's layout for log4j 2 encodes it."""
    return text.replace("\r", r"\r").replace("\n", r"\n")


@given(NAMES)
def test_name_in_encoded_log_record_adds_no_record_for_any_reader(name: str) -> None:
    first_record = record_line(STARTED)
    log = first_record + record_line(
        encode_line_breaks(f"User name [{name}{SHUTTING_DOWN}{name}{first_record.rstrip()}{name}"), "o.a.X", CLIENT
    )

    assert len(list(parse_log(log))) == 2
    assert len(list(broker_log.parse_records(log.split("\n")))) == 2
    batches = LogScanner(LogReleaseAndTimeZone()).arrow_batches_of_log_records(log.encode())
    assert sum(batch.num_rows for batch in batches) == 2
    assert (
        BrokerRun().apply_records(parse_log(log)).phase
        == broker_log.phase_after_records(broker_log.parse_records(log.split("\n"))).name
        == "started"
    )


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\r"])
def test_only_newline_ends_log_line(tmp_path: Path, end: str) -> None:
    forged = record_line(SHUTTING_DOWN).rstrip("\n")
    assert (
        phase_of(tmp_path, record_line(STARTED), record_line(f"User name [{end}{forged}{end}]", "o.a.X", CLIENT))
        == "started"
    )
    (tmp_path / "activemq.log").write_text(
        record_line(f"a{end}{record_line(PROMOTED).rstrip()}{end}", "o.a.X"), newline=""
    )
    assert pure_log.read_pure_master_slave_runs(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("message", "logger", "thread"),
    [
        (SHUTTING_DOWN, "org.apache.activemq.transport.stomp.ProtocolConverter", CLIENT),
        (SHUTTING_DOWN, "com.example.BrokerService", "main"),
        ("KahaDB is version 7", "org.apache.activemq.broker.TransportConnection.Service", CLIENT),
        ("Using Persistence Adapter: x", "org.apache.activemq.broker.BrokerService", CLIENT),
        ("Using Persistence Adapter: x", "org.apache.activemq.broker.BrokerService", "ActiveMQ NIO Worker 3"),
    ],
)
def test_broker_phase_ignores_log_record_of_wrong_class_or_thread(
    tmp_path: Path, message: str, logger: str, thread: str
) -> None:
    assert phase_of(tmp_path, record_line(STARTED), record_line(message, logger, thread)) == "started"


def test_library_ignores_kind_of_log_record_from_wrong_class_or_thread() -> None:
    genuine_record, record_of_other_class, record_of_client_thread = (
        next(parse_log(text))
        for text in (
            record_line(STARTED),
            record_line(STARTED, "org.apache.activemq.transport.stomp.ProtocolConverter"),
            record_line(STARTED, thread=CLIENT),
        )
    )
    assert [
        bool(parse_log_event(log_record))
        for log_record in (genuine_record, record_of_other_class, record_of_client_thread)
    ] == [True, False, False]
    log = "".join(
        record_line(STARTED, *logger_and_thread) for logger_and_thread in ((), ("org.apache.activemq.X",), ("", CLIENT))
    )
    kinds = [
        kind
        for batch in LogScanner(LogReleaseAndTimeZone()).arrow_batches_of_log_records(log.encode())
        for kind in batch["kind"].to_pylist()
    ]
    assert kinds == ["LIFE-STARTED", "UNKNOWN", "UNKNOWN"]


def test_broker_phase_ignores_log_record_with_future_date(tmp_path: Path) -> None:
    later = record_line(SHUTTING_DOWN, at=time.time() + 3600)
    assert phase_of(tmp_path, record_line(STARTED), later, later.replace("20", "99", 1)) == "started"


def test_invalid_date_in_log_stops_no_reader(tmp_path: Path) -> None:
    invalid_record = record_line("no such day").replace("INFO ", "ERROR").replace(time.strftime("%Y-%m"), "2026-99")
    (tmp_path / "activemq.log").write_text(invalid_record)
    assert broker_log.last_logged_error(str(tmp_path)) == ""


def test_encoded_error_is_reported_in_one_line_with_its_indented_cause(tmp_path: Path) -> None:
    error = record_line(r"Failed to load: URL [x], reason: line 3\nis wrong").replace("INFO ", "ERROR")
    stack = "  java.lang.RuntimeException: z\n  \tat a.b(C.java)\n  Caused by: java.lang.Root: no class\n"
    (tmp_path / "activemq.log").write_text(error + stack)
    expected = "Failed to load: URL [x], reason: line 3 is wrong: java.lang.Root: no class"
    assert broker_log.last_logged_error(str(tmp_path)) == expected


def test_listening_process_is_identified_by_port_and_account() -> None:
    program = "import socket, time; s = socket.create_server(('127.0.0.1', 0));"
    program += "print(s.getsockname()[1], flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        addresses = [("127.0.0.1", port), ("127.0.0.2", port), ("a-name", port)]
        listening = [held_by_process.process_account_listens_on_one_of(process.pid, [address]) for address in addresses]
        process.kill()
    assert listening == [True, False, True]
    assert not held_by_process.process_account_listens_on_one_of(process.pid, [("127.0.0.1", port)])


def test_connected_port_does_not_count_as_listening() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        client_address = client.getsockname()
        assert not held_by_process.process_account_listens_on_one_of(1 << 22, [server.getsockname()])
        assert not held_by_process.process_account_listens_on_one_of(os.getpid(), [client_address])


def test_only_process_with_lock_is_reported_as_lock_holder(tmp_path: Path) -> None:
    store = tmp_path / "kahadb"
    store.mkdir()
    program = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX);"
    program += "print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program, str(store / "lock")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with (store / "lock").open():
            lock_held = [held_by_process.holds_store_lock(pid, str(store)) for pid in (process.pid, os.getpid())]
        process.kill()
    assert lock_held == [True, False]


@pytest.mark.parametrize(
    ("locked", "is_held"),
    [
        ("#210", True),
        ("0", True),
        ("queue#3a#2f#2forders", True),
        (".", True),
        ("tmp_storage", False),
        ("#210/nested", False),
    ],
)
def test_lock_of_store_in_mkahadb_counts_as_lock_of_its_root(tmp_path: Path, locked: str, *, is_held: bool) -> None:
    store = tmp_path / "kahadb"
    (store / locked).mkdir(parents=True)
    with (store / locked / "lock").open("w") as lock:
        assert held_by_process.holds_store_lock(os.getpid(), str(store)) is False
        fcntl.lockf(lock, fcntl.LOCK_EX)
        assert held_by_process.holds_store_lock(os.getpid(), str(store)) is is_held


def test_lock_holder_on_fuse_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def on_fuse(pid: int, name: str) -> str:
        return re.sub(r" - \S+ ", " - fuse.glusterfs ", read_proc_file(pid, name))

    (tmp_path / "kahadb").mkdir()
    with (tmp_path / "kahadb/lock").open("w"):
        assert held_by_process.holds_store_lock(os.getpid(), str(tmp_path / "kahadb")) is False
        monkeypatch.setattr(held_by_process, "read_proc_file", on_fuse)
        assert held_by_process.holds_store_lock(os.getpid(), str(tmp_path / "kahadb")) is None
    assert held_by_process.holds_store_lock(os.getpid(), str(tmp_path / "kahadb")) is False
