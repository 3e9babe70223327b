"""What a client writes into a log by the names that it chooses, and what readers make of it."""

from __future__ import annotations

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
ENDS = "Apache ActiveMQ 5.18.3 (x, ID:h-1-2-0:1) is shutting down"
SERVED = "Master Failed - starting all connectors"
CLIENT = "ActiveMQ Transport: tcp:///127.0.0.1:47178@61616"
NAMES = st.text(st.sampled_from("\n\r\x0b\x0c\x1c\x85\u2028\u2029| 2026-1:0,x") | st.characters(codec="utf-8"))


def record(message: str, logger: str = "", thread: str = "main", at: float | None = None) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    return f"{when},001 | INFO  | {message} | {logger or logger_of(message)} | {thread}\n"


def phase_of(directory: Path, *records: str) -> str:
    (directory / "activemq.log").write_text("".join(records), newline="")
    return str(broker_log.read_broker_phase(str(directory), time.time() - 60).name)


def encoded(text: str) -> str:
    """As our layout for log4j 2 writes it."""
    return text.replace("\r", r"\r").replace("\n", r"\n")


@given(NAMES)
def test_a_name_in_an_encoded_record_makes_no_record_for_any_reader(name: str) -> None:
    first = record(STARTED)
    log = first + record(encoded(f"User name [{name}{ENDS}{name}{first.rstrip()}{name}"), "o.a.X", CLIENT)

    assert len(list(parse_log(log))) == 2
    assert len(list(broker_log.parse_records(log.split("\n")))) == 2
    assert (
        sum(batch.num_rows for batch in LogScanner(LogReleaseAndTimeZone()).scan_into_record_batches(log.encode())) == 2
    )
    assert (
        BrokerRun().apply_records(parse_log(log)).phase
        == broker_log.phase_after_records(broker_log.parse_records(log.split("\n"))).name
        == "started"
    )


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\r"])
def test_only_a_newline_ends_a_line_of_the_log(tmp_path: Path, end: str) -> None:
    forged = record(ENDS).rstrip("\n")
    assert phase_of(tmp_path, record(STARTED), record(f"User name [{end}{forged}{end}]", "o.a.X", CLIENT)) == "started"
    (tmp_path / "activemq.log").write_text(record(f"a{end}{record(SERVED).rstrip()}{end}", "o.a.X"), newline="")
    assert pure_log.read_pure_master_slave_runs(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("message", "logger", "thread"),
    [
        (ENDS, "org.apache.activemq.transport.stomp.ProtocolConverter", CLIENT),
        (ENDS, "com.example.BrokerService", "main"),
        ("KahaDB is version 7", "org.apache.activemq.broker.TransportConnection.Service", CLIENT),
        ("Using Persistence Adapter: x", "org.apache.activemq.broker.BrokerService", CLIENT),
        ("Using Persistence Adapter: x", "org.apache.activemq.broker.BrokerService", "ActiveMQ NIO Worker 3"),
    ],
)
def test_a_record_counts_only_from_the_class_and_thread_that_write_it(
    tmp_path: Path, message: str, logger: str, thread: str
) -> None:
    assert phase_of(tmp_path, record(STARTED), record(message, logger, thread)) == "started"


def test_the_library_takes_a_kind_only_from_its_class_and_thread() -> None:
    own_record, other, client = (
        next(parse_log(text))
        for text in (
            record(STARTED),
            record(STARTED, "org.apache.activemq.transport.stomp.ProtocolConverter"),
            record(STARTED, thread=CLIENT),
        )
    )
    assert [bool(parse_log_event(log_record)) for log_record in (own_record, other, client)] == [True, False, False]
    log = "".join(record(STARTED, *more) for more in ((), ("org.apache.activemq.X",), ("", CLIENT)))
    kinds = [
        kind
        for batch in LogScanner(LogReleaseAndTimeZone()).scan_into_record_batches(log.encode())
        for kind in batch["kind"].to_pylist()
    ]
    assert kinds == ["LIFE-STARTED", "UNKNOWN", "UNKNOWN"]


def test_a_record_of_the_future_counts_for_nothing(tmp_path: Path) -> None:
    later = record(ENDS, at=time.time() + 3600)
    assert phase_of(tmp_path, record(STARTED), later, later.replace("20", "99", 1)) == "started"


def test_a_date_that_does_not_exist_stops_no_reader(tmp_path: Path) -> None:
    wrong = record("no such day").replace("INFO ", "ERROR").replace(time.strftime("%Y-%m"), "2026-99")
    (tmp_path / "activemq.log").write_text(wrong)
    assert broker_log.last_logged_error(str(tmp_path)) == ""


def test_an_encoded_error_is_told_in_one_line_with_its_indented_cause(tmp_path: Path) -> None:
    error = record(r"Failed to load: URL [x], reason: line 3\nis wrong").replace("INFO ", "ERROR")
    stack = "  java.lang.RuntimeException: z\n  \tat a.b(C.java)\n  Caused by: java.lang.Root: no class\n"
    (tmp_path / "activemq.log").write_text(error + stack)
    told = "Failed to load: URL [x], reason: line 3 is wrong: java.lang.Root: no class"
    assert broker_log.last_logged_error(str(tmp_path)) == told


def test_a_listening_process_is_known_by_its_ports_and_account() -> None:
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


def test_a_port_that_is_only_connected_is_not_one_that_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        own = client.getsockname()
        assert not held_by_process.process_account_listens_on_one_of(1 << 22, [server.getsockname()])
        assert not held_by_process.process_account_listens_on_one_of(os.getpid(), [own])


def test_the_lock_of_a_store_is_seen_at_its_holder(tmp_path: Path) -> None:
    store = tmp_path / "kahadb"
    store.mkdir()
    program = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX);"
    program += "print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program, str(store / "lock")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with (store / "lock").open():
            found = [held_by_process.holds_store_lock(pid, str(store)) for pid in (process.pid, os.getpid())]
        process.kill()
    assert found == [True, False]


def test_nobody_knows_who_holds_a_lock_on_fuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def on_fuse(pid: int, name: str) -> str:
        return re.sub(r" - \S+ ", " - fuse.glusterfs ", read_proc_file(pid, name))

    (tmp_path / "kahadb").mkdir()
    with (tmp_path / "kahadb/lock").open("w"):
        assert held_by_process.holds_store_lock(os.getpid(), str(tmp_path / "kahadb")) is False
        monkeypatch.setattr(held_by_process, "read_proc_file", on_fuse)
        assert held_by_process.holds_store_lock(os.getpid(), str(tmp_path / "kahadb")) is None
    assert held_by_process.holds_store_lock(os.getpid(), str(tmp_path / "kahadb")) is False
