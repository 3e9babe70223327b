"""The phase and the errors of a broker, as the module broker_info reads them from its log and output."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from activemq_fleet.node.log import broker_log
from activemq_fleet.node.log.broker_run import UNKNOWN
from activemq_fleet.node.state import broker_state as state
from tests.log_reading import logger_of


def log_record(message: str, timestamp: str = "2026-11-21 05:22:44") -> str:
    return f"{timestamp},001 | INFO  | {message} | {logger_of(message)} | main\n"


LOCKED = (
    "Database /srv/x/lock is locked by another server. This broker is now in slave mode waiting a lock to be acquired"
)
FIRST_RECORD = "Using Persistence Adapter: KahaDBPersistenceAdapter[/srv/x]"
STARTS = {
    "a modern standby": [
        FIRST_RECORD,
        LOCKED,
    ],
    "an old standby": [
        FIRST_RECORD,
        "Database /srv/x/lock is locked... waiting 1 seconds for the database to be unlocked. Reason: java.io.X",
    ],
    "a standby that took over": [
        FIRST_RECORD,
        LOCKED,
        "KahaDB is version 6",
        "Apache ActiveMQ 5.18.3 (x, ID:h-1-2-0:1) is starting",
        "Apache ActiveMQ 5.18.3 (x, ID:h-1-2-0:1) started",
    ],
    "an old broker": [
        FIRST_RECORD,
        "ActiveMQ 5.5.1 JMS Message Broker (x) is starting",
        "ActiveMQ JMS Message Broker (x, ID:h-1-2-0:1) started",
    ],
    "a lease that waits": [FIRST_RECORD, "mq01-b attempting to acquire exclusive lease to become the master"],
    "a lease that is acquired": [
        FIRST_RECORD,
        "mq01-b attempting to acquire exclusive lease to become the Master broker",
        "mq01-b, becoming master with lease expiry Sat Nov 21 05:00:00 UTC 2026 on dataSource: x",
    ],
    "a database lock": [FIRST_RECORD, "Attempting to acquire the exclusive lock to become the Master broker"],
    "a database lock that is acquired": [
        FIRST_RECORD,
        "Attempting to acquire the exclusive lock to become the Master broker",
        "Becoming the master on dataSource: x",
    ],
    "a pure slave": [
        FIRST_RECORD,
        "ActiveMQ 5.5.1 JMS Message Broker (x) is starting",
        "Starting a slave connection between vm://x#0 and nio://y:61618",
        "ActiveMQ JMS Message Broker (x, ID:h-1-2-0:1) started",
        "Slave connection between vm://x#0 and nio://y:61618 has been established.",
    ],
    "a pure slave that took over": [
        FIRST_RECORD,
        "Starting a slave connection between vm://x#0 and nio://y:61618",
        "ActiveMQ JMS Message Broker (x, ID:h-1-2-0:1) started",
        "Master Failed - starting all connectors",
    ],
    "a pure master that waits": [FIRST_RECORD, "ActiveMQ 5.5.1 JMS Message Broker (x) is starting"],
    "a master that lost its lock": [
        FIRST_RECORD,
        "Apache ActiveMQ 5.18.3 (x, ID:h-1-2-0:1) started",
        "x, no longer able to keep the exclusive lock so giving up being a master",
        "Apache ActiveMQ 5.18.3 (x, ID:h-1-2-0:1) is shutting down",
        "Apache ActiveMQ 5.18.3 (x, ID:h-1-2-0:1) is shutdown",
    ],
    "a master that came back as standby": [
        FIRST_RECORD,
        "Apache ActiveMQ 5.18.3 (x, ID:h-1-2-0:1) started",
        "Apache ActiveMQ 5.18.3 (x, ID:h-1-2-0:1) is shutdown",
        FIRST_RECORD,
        LOCKED,
    ],
    "an invalid configuration file": ["Failed to load: URL [file:activemq.xml], reason: nope"],
    "a start that failed": [FIRST_RECORD, "Failed to start Apache ActiveMQ (x, ID:h-1-2-0:1)"],
    "a start that failed for a reason of two lines": [
        FIRST_RECORD,
        "Failed to start Apache ActiveMQ (x, ID:h-1-2-0:1). Reason: java.io.IOException: first\nand second",
    ],
    "a standby that opens its store": [FIRST_RECORD, LOCKED, "Starting KahaDBStore"],
    "a standby whose other store is open": [FIRST_RECORD, LOCKED, "Persistence Adapter successfully started"],
}
PHASES = {
    "a modern standby": "waiting",
    "an old standby": "waiting",
    "a standby that took over": "started",
    "an old broker": "started",
    "a lease that waits": "waiting",
    "a lease that is acquired": "starting",
    "a database lock": "waiting",
    "a database lock that is acquired": "starting",
    "a pure slave": "attached",
    "a pure slave that took over": "started",
    "a pure master that waits": "starting",
    "a master that lost its lock": "stopped",
    "a master that came back as standby": "waiting",
    "an invalid configuration file": "failed",
    "a start that failed": "failed",
    "a start that failed for a reason of two lines": "failed",
    "a standby that opens its store": "starting",
    "a standby whose other store is open": "starting",
}


@pytest.mark.parametrize("name", STARTS)
def test_broker_phase_is_last_phase_in_log(name: str) -> None:
    lines = "".join(map(log_record, STARTS[name])).split("\n")
    phase = broker_log.phase_after_records(broker_log.parse_records(lines))
    assert phase.name == PHASES[name]
    assert phase.message in STARTS[name]


def test_broker_phase_ignores_records_of_earlier_process(tmp_path: Path) -> None:
    now = time.time()
    time_before, time_after = (time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now + shift)) for shift in (-60, 1))
    log = log_record("Apache ActiveMQ 5.18.3 (x, ID:h-1-2-0:1) started", time_before)
    (tmp_path / "activemq.log").write_text(log)
    assert broker_log.read_broker_phase(str(tmp_path), now).name == "unknown"
    (tmp_path / "activemq.log").write_text(log + log_record(FIRST_RECORD, time_after))
    assert broker_log.read_broker_phase(str(tmp_path), now).name == "starting"


def test_broker_phase_is_read_across_log_files_that_rolled_during_start(tmp_path: Path) -> None:
    (tmp_path / "activemq.log.1").write_text(
        log_record(STARTS["a modern standby"][0]) + log_record(STARTS["a modern standby"][1])
    )
    (tmp_path / "activemq.log").write_text("\tat a.stack.trace(X.java)\n")
    assert broker_log.read_broker_phase(str(tmp_path), 0).name == "waiting"


def test_last_logged_error_contains_its_root_cause(tmp_path: Path) -> None:
    lines = [
        log_record("fine").replace("INFO ", "ERROR"),
        log_record("Failed to load: URL [x], reason: bean y").replace("INFO ", "ERROR"),
        "java.lang.RuntimeException: z\n\tat a.b(C.java)\nCaused by: a.Middle\nCaused by: java.lang.Root: no class\n",
        log_record("later, and harmless"),
    ]
    (tmp_path / "activemq.log").write_text("".join(lines))
    assert broker_log.last_logged_error(str(tmp_path)) == (
        "Failed to load: URL [x], reason: bean y: java.lang.Root: no class"
    )
    assert broker_log.last_logged_error(str(tmp_path), time.time() + 3600) == ""


def test_last_logged_error_has_no_root_cause_of_later_warning(tmp_path: Path) -> None:
    error = log_record("Failed to load: URL [x], reason: bean y").replace("INFO ", "ERROR")
    warning = log_record("Transport Connection failed").replace("INFO ", "WARN ")
    (tmp_path / "activemq.log").write_text(f"{error}{warning}java.io.EOFException\nCaused by: a.Client: gone\n")
    assert broker_log.last_logged_error(str(tmp_path)) == "Failed to load: URL [x], reason: bean y"


@pytest.mark.parametrize("line", ["{}", "Failed\nCaused by: a.Root: {}"])
def test_last_logged_error_contains_no_secret_of_shortened_text(tmp_path: Path, line: str) -> None:
    uri = "jdbc:oracle:thin:amq/Canary99@db1:1521/x"
    for length in range(300, 400):
        message, _, stack = line.format(f"{'x' * length} {uri}").partition("\n")
        (tmp_path / "activemq.log").write_text(log_record(message).replace("INFO ", "ERROR") + stack)
        error = broker_log.last_logged_error(str(tmp_path))
        assert "x" * 300 in error
        assert "Can" not in error


def test_last_logged_error_is_no_error_about_connection_of_client(tmp_path: Path) -> None:
    error = log_record("Failed to load: URL [x], reason: bean y").replace("INFO ", "ERROR")
    client = log_record("Could not accept connection from tcp://10.0.0.9:1: no TLS").replace("INFO ", "ERROR")
    (tmp_path / "activemq.log").write_text(f"{error}{client}")
    assert broker_log.last_logged_error(str(tmp_path)) == "Failed to load: URL [x], reason: bean y"


@pytest.mark.parametrize(
    ("unit", "since"),
    [
        ({"ActiveState": "failed"}, 1300),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, 1300),
        ({"ActiveState": "activating", "SubState": "start-pre"}, 1240),
    ],
)
def test_logged_errors_count_from_last_start_of_unit(unit: dict[str, str], since: int) -> None:
    assert state._last_start_time({**unit, "ConditionTimestampMonotonic": "300000000"}, 1000) == since


def test_logged_errors_count_at_any_time_if_start_of_unit_is_unknown() -> None:
    assert state._last_start_time({}, 1000) == 0
    assert state._last_start_time({"ConditionTimestampMonotonic": "0"}, 1000) == 0


def test_long_logged_error_is_shortened_and_keeps_root_cause(tmp_path: Path) -> None:
    long = "Failed to load: URL [x], reason: " + "nested exception is y; " * 60
    stack = "java.lang.RuntimeException: z\n\tat a.b(C.java)\nCaused by: java.net.BindException: Address in use\n"
    (tmp_path / "activemq.log").write_text(log_record(long).replace("INFO ", "ERROR") + stack + "\t... 20 more\n")
    error_text = broker_log.last_logged_error(str(tmp_path))
    assert error_text.startswith("Failed to load: URL [x]")
    assert error_text.endswith("…: java.net.BindException: Address in use")
    assert len(error_text) < 450


DENIED = [
    " WARN | Security Error occurred on connection to: tcp://10.77.0.62:52630, User name [null] or password is wrong",
    "  java.lang.SecurityException: User name [null] or password is invalid.",
    "  \tat org.apache.activemq.security.SimpleAuthenticationBroker.authenticate(SimpleAuthenticationBroker.java:103)",
]
STACK = [
    "ERROR: java.lang.RuntimeException: Failed to execute start task. Reason: java.lang.Middle: wrong",
    "\tat org.apache.activemq.console.command.StartCommand.runTask(StartCommand.java:101)",
    "Caused by: java.lang.Middle: wrong",
    "\t... 14 more",
    "Caused by: java.io.IOException: keystore password was incorrect",
    "\tat java.base/sun.security.pkcs12.PKCS12KeyStore.engineLoad(PKCS12KeyStore.java:2097)",
    "\t... 20 more",
]


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (STACK, f"{STACK[0]}: java.io.IOException: keystore password was incorrect"),
        (STACK[3:], "java.io.IOException: keystore password was incorrect"),
        (STACK[-1:], ""),
        ([*DENIED, *STACK], f"{STACK[0]}: java.io.IOException: keystore password was incorrect"),
        ([*DENIED, "guard: the store cannot be read"], "guard: the store cannot be read"),
        (["ERROR | Could not accept connection from tcp://10.77.0.62:1: javax.net.ssl.SSLHandshakeException"], ""),
        ([*DENIED, "ERROR | Failed to start", "  java.io.IOException: no"], "ERROR | Failed to start"),
        (DENIED, ""),
        (["Caused by: a.Long: " + "x" * 300 + " in use", "Caused by: b.Failed: to bind to h:1 due to c.Bind: in use",
          "Caused by: c.Bind: in use"], "b.Failed: to bind to h:1 due to c.Bind: in use"),
        (["Picked up JDK_JAVA_OPTIONS: -Xmx1g", "Unrecognized VM option 'No'", "Error: Could not create the Java VM"],
         "Unrecognized VM option 'No'"),
        (["chown: no such user"], "chown: no such user"),
        ([], ""),
    ],
)  # fmt: skip
def test_error_in_broker_output_is_deepest_cause_without_count_of_frames(printed: list[str], expected: str) -> None:
    assert broker_log.find_error_in_output(printed) == expected


def test_broker_phase_without_log_is_unknown(tmp_path: Path) -> None:
    assert broker_log.read_broker_phase(str(tmp_path), 0) == UNKNOWN


REPEATED_HOUR = datetime(2026, 10, 25, 0, 0, tzinfo=UTC).timestamp()
"""The first occurrence of 02:00 in Berlin; the second one is 3600 s later."""


@pytest.fixture
def clock_in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], None]]:
    """Set the time zone of this process to Europe/Berlin; yield a function that sets the time, in seconds."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield lambda now: monkeypatch.setattr(time, "time", lambda: now)
    monkeypatch.undo()
    time.tzset()


def record_at(seconds: float, message: str) -> str:
    """Return a record with a time in seconds after 02:00 in Berlin, first occurrence."""
    return log_record(message, f"{datetime.fromtimestamp(REPEATED_HOUR + seconds):%Y-%m-%d %H:%M:%S}")


@pytest.mark.parametrize("start", [-600, 600, 4200, 7800], ids=["before", "first", "second", "after"])
@pytest.mark.parametrize("passed", [5, 1800, 86400])
def test_standby_that_starts_in_repeated_hour_is_waiting(
    tmp_path: Path, clock_in_berlin: Callable[[float], None], start: float, passed: float
) -> None:
    clock_in_berlin(REPEATED_HOUR + start + passed)
    (tmp_path / "activemq.log").write_text(record_at(start + 3, FIRST_RECORD) + record_at(start + 4, LOCKED))
    assert broker_log.read_broker_phase(str(tmp_path), REPEATED_HOUR + start).name == "waiting"
    assert broker_log.unreadable_log_reason(str(tmp_path), REPEATED_HOUR + start) == ""


def test_records_before_step_back_in_repeated_hour_are_of_earlier_process(
    tmp_path: Path, clock_in_berlin: Callable[[float], None]
) -> None:
    clock_in_berlin(REPEATED_HOUR + 4600)
    records = [record_at(1200, "Apache ActiveMQ 5.18.3 (x, ID:h-1-2-0:1) started"), record_at(4503, FIRST_RECORD)]
    (tmp_path / "activemq.log").write_text("".join(records))
    (record,) = broker_log.read_log_records(str(tmp_path), REPEATED_HOUR + 4500)
    assert record.message == FIRST_RECORD


@pytest.mark.parametrize("timestamp", ["0001-01-01 00:00:00", "9999-12-31 23:59:59"])
def test_log_record_with_impossible_time_is_of_no_process(tmp_path: Path, timestamp: str) -> None:
    (tmp_path / "activemq.log").write_text(log_record(LOCKED, timestamp))
    assert broker_log.read_broker_phase(str(tmp_path), time.time() - 60) == UNKNOWN
