"""The state of a broker, derived from its process, its log and its connectors."""

from __future__ import annotations

import dataclasses
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from activemq_fleet.node.config import broker_configuration
from activemq_fleet.node.config.probe_account import Login
from activemq_fleet.node.config.versions import ConfigurationPaths
from activemq_fleet.node.log import broker_log
from activemq_fleet.node.log.broker_run import UNKNOWN
from activemq_fleet.node.probe import connector_probe as probe
from activemq_fleet.node.probe.settling import ReadinessDetector, thread_dump_shows_configuration_loading
from activemq_fleet.node.process.proc import Process, find_broker_process, seconds_since_boot
from activemq_fleet.node.state import broker_state as state
from activemq_fleet.render import render_broker
from tests.log_reading import logger_of
from tests.unit.agent.certificates import Authority, server_context
from tests.unit.agent.certificates import server as tls_server
from tests.unit.fleets import fleet
from tests.waiting import PATIENCE, wait_until, within

ALIVE = Process(42, 1.0, "S", ("java",))
FROZEN = dataclasses.replace(ALIVE, state="T")
SERVES = probe.ProbeAnswer(True, True, "the broker completed the round trip of a test message over STOMP")
REFUSES = probe.ProbeAnswer(False, None, "the port refuses connections, because no process listens on it")
SILENT = probe.ProbeAnswer(False, False, "the broker accepts connections and sends no data for 5 s")


def record(message: str, timestamp: str = "2026-11-21 05:22:44") -> str:
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
    lines = "".join(map(record, STARTS[name])).split("\n")
    phase = broker_log.phase_after_records(broker_log.parse_records(lines))
    assert phase.name == PHASES[name]
    assert phase.message in STARTS[name]


def test_broker_phase_ignores_records_of_earlier_process(tmp_path: Path) -> None:
    now = time.time()
    time_before, time_after = (time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now + shift)) for shift in (-60, 1))
    log = record("Apache ActiveMQ 5.18.3 (x, ID:h-1-2-0:1) started", time_before)
    (tmp_path / "activemq.log").write_text(log)
    assert broker_log.read_broker_phase(str(tmp_path), now).name == "unknown"
    (tmp_path / "activemq.log").write_text(log + record(FIRST_RECORD, time_after))
    assert broker_log.read_broker_phase(str(tmp_path), now).name == "starting"


def test_broker_phase_is_read_across_log_files_that_rolled_during_start(tmp_path: Path) -> None:
    (tmp_path / "activemq.log.1").write_text(
        record(STARTS["a modern standby"][0]) + record(STARTS["a modern standby"][1])
    )
    (tmp_path / "activemq.log").write_text("\tat a.stack.trace(X.java)\n")
    assert broker_log.read_broker_phase(str(tmp_path), 0).name == "waiting"


def test_last_logged_error_contains_its_root_cause(tmp_path: Path) -> None:
    lines = [
        record("fine").replace("INFO ", "ERROR"),
        record("Failed to load: URL [x], reason: bean y").replace("INFO ", "ERROR"),
        "java.lang.RuntimeException: z\n\tat a.b(C.java)\nCaused by: a.Middle\nCaused by: java.lang.Root: no class\n",
        record("later, and harmless"),
    ]
    (tmp_path / "activemq.log").write_text("".join(lines))
    assert broker_log.last_logged_error(str(tmp_path)) == (
        "Failed to load: URL [x], reason: bean y: java.lang.Root: no class"
    )
    assert broker_log.last_logged_error(str(tmp_path), time.time() + 3600) == ""


def test_last_logged_error_has_no_root_cause_of_later_warning(tmp_path: Path) -> None:
    error = record("Failed to load: URL [x], reason: bean y").replace("INFO ", "ERROR")
    warning = record("Transport Connection failed").replace("INFO ", "WARN ")
    (tmp_path / "activemq.log").write_text(f"{error}{warning}java.io.EOFException\nCaused by: a.Client: gone\n")
    assert broker_log.last_logged_error(str(tmp_path)) == "Failed to load: URL [x], reason: bean y"


def test_last_logged_error_is_no_error_about_connection_of_client(tmp_path: Path) -> None:
    error = record("Failed to load: URL [x], reason: bean y").replace("INFO ", "ERROR")
    client = record("Could not accept connection from tcp://10.0.0.9:1: no TLS").replace("INFO ", "ERROR")
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
    (tmp_path / "activemq.log").write_text(record(long).replace("INFO ", "ERROR") + stack + "\t... 20 more\n")
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


RESULT = {
    "state": "stopped",
    "how": "no process runs",
    "error": "a.B: c",
    "data": "/b/data",
    "pid": 7,
    "release": "5.18.3",
    "unit": {"Id": "activemq.service"},
    "message_returned": None,
}
UNHEALTHY = {
    "state": "unhealthy",
    "message_returned": False,
    "error": "",
    "how": "it greets",
    "pid": 8,
    "release": "6.3.1",
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "the broker is stopped: a.B: c (check /b/data/activemq.log and journalctl -u activemq.service)"),
        ({"error": "", "unit": None}, "the broker is stopped: no process runs (check /b/data/activemq.log)"),
        ({"state": "standby"}, "process 7 of the broker, which the restart should have ended, still runs"),
        ({"state": "standby", "pid": 8}, "the broker runs 5.18.3 instead of 6.3.1"),
        ({"state": "standby", "pid": 8, "release": None}, "the broker runs an unknown release instead of 6.3.1"),
        ({"state": "standby", "pid": 8, "release": "6.3.1"}, ""),
        (UNHEALTHY, "the broker is unhealthy: it greets (check /b/data"),
    ],
)
def test_unmet_expectation_of_broker_is_described_with_state_and_cause(
    changes: dict[str, object], expected: str
) -> None:
    message = state.unmet_expectation({**RESULT, **changes}, ["active", "standby"], 7, "6.3.1")
    assert message.startswith(expected)
    assert bool(message) == bool(expected)


def test_unhealthy_broker_is_accepted_where_hung_broker_is() -> None:
    assert state.unmet_expectation({**RESULT, **UNHEALTHY}, ["active", "hung"], None, None) == ""


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ({"Result": "success", "NRestarts": "0", "SubState": "dead"}, ""),
        (
            {"Result": "exit-code", "NRestarts": "2", "SubState": "auto-restart"},
            "systemd reports that the broker's unit ended with the result exit-code, and has the state auto-restart "
            "after 2 restarts. The last error of the broker is: no such option",
        ),
        (
            {"Result": "success", "NRestarts": "3", "SubState": "start-pre"},
            "systemd reports that the broker's unit ended with the result success, and has the state start-pre after 3 "
            "restarts. The last error of the broker is: no such option",
        ),
    ],
)
def test_end_of_broker_is_described_unless_it_stopped_normally(unit: dict[str, str], expected: str) -> None:
    assert state._describe_end(unit, "no such option") == expected


def units(*restarts: int, active: str = "activating") -> list[dict[str, str]]:
    return [{"ActiveState": active, "NRestarts": str(count)} for count in restarts]


@pytest.mark.parametrize(
    ("first", "now", "hopeless"),
    [
        (*units(0, 3), True),
        (*units(4, 5), False),
        (*units(0, 0, active="failed"), True),
        (*units(0, 0, active="inactive"), False),
    ],
)
def test_wait_ends_for_broker_that_systemd_restarts_repeatedly(
    first: dict[str, str], now: dict[str, str], hopeless: bool
) -> None:
    assert state._is_start_hopeless({"unit": first}, {"unit": now, "state": "stopped"}) is hopeless
    assert not state._is_start_hopeless({"unit": first}, {"unit": now, "state": "starting"})
    assert not state._is_start_hopeless({"unit": None}, {"unit": None, "state": "stopped"})


def test_broker_phase_without_log_is_unknown(tmp_path: Path) -> None:
    assert broker_log.read_broker_phase(str(tmp_path), 0) == UNKNOWN


@contextmanager
def scripted_server(*replies: bytes) -> Iterator[tuple[str, int]]:
    """Accept one connection, answer its Nth message with the Nth reply, then send nothing.

    An OpenWire greeting is sent without a message. In a reply, the last 16 bytes of the message replace ``%s``.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, suppress(ConnectionError):
            for reply in replies:
                sent = b"" if reply.endswith(b"ActiveMQ") else connection.recv(4096)
                connection.sendall(reply.replace(b"%s", sent.rstrip(b"\0")[-16:]))
            while connection.recv(4096):
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()
    thread.join(60)
    listener.close()


CONNECTED, RECEIPT, MESSAGE = b"CONNECTED\n\n\0\n", b"RECEIPT\nreceipt-id:s\n\n\0\n", b"MESSAGE\n\n%s\0\n"
CONNACK, SUBACK = b"\x20\x02\0\0", b"\x90\x03\0\x01\0"
PUBLISHED = b"\x30\x28" + struct.pack(">H", 20) + b"activemq/fleet/probe" + b"%s" + b"\0\0"


@pytest.mark.parametrize(
    ("scheme", "replies", "answered", "returned", "detail"),
    [
        (
            "stomp+nio",
            (CONNECTED, RECEIPT, MESSAGE),
            True,
            True,
            "the broker completed the round trip of a test message over STOMP",
        ),
        ("stomp", (b"ERROR\nmessage:User name or password is invalid.\n\n\0",), True, None, "User name or password"),
        (
            "stomp",
            (CONNECTED, b"ERROR\nmessage:not authorized\n\n\0"),
            True,
            None,
            "rejects the STOMP frame SUBSCRIBE of the test connection: not authorized",
        ),
        ("stomp", (b"HTTP/1.1 400 Bad Request\r\n\r\n\0",), False, None, "with the frame 'HTTP/1.1 400"),
        (
            "mqtt+nio",
            (CONNACK, SUBACK, PUBLISHED),
            True,
            True,
            "the broker completed the round trip of a test message over MQTT",
        ),
        ("mqtt", (b"\x20\x02\0\x05",), True, None, "rejects the account 'probe' over MQTT (return code 5 in CONNACK)"),
        (
            "nio",
            (b"\0\0\1\x3a\x01ActiveMQ",),
            True,
            None,
            "the broker answered the test connection with an OpenWire greeting",
        ),
        (
            "auto+nio",
            (b"\0\0\1\x3a\x01ActiveMQ",),
            True,
            None,
            "the broker answered the test connection with an OpenWire greeting",
        ),
        ("stomp", (CONNECTED,), False, False, "sends no data for 0.5 s"),
        ("mqtt", (CONNACK, SUBACK), False, False, "sends no data for 0.5 s"),
    ],
)
def test_connector_is_probed_in_its_protocol(
    scheme: str, replies: tuple[bytes, ...], answered: bool, returned: bool | None, detail: str
) -> None:
    with scripted_server(*replies) as address:
        patience = 0.5 if "sends no data" in detail else 60
        probe_answer = probe.probe_connector(scheme, address, Login("probe", "made-up"), timeout=patience)
    assert (probe_answer.answered, probe_answer.returned) == (answered, returned)
    assert detail in probe_answer.detail
    assert "made-up" not in probe_answer.detail


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("scheme", ["nio+ssl", "mqtt+nio+ssl", "stomp+ssl"])
def test_tls_rejection_counts_as_answer_if_client_certificate_is_required(
    scheme: str, version: ssl.TLSVersion, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    context = server_context(authority.certificate("127.0.0.1"), minimum_version=version, maximum_version=version)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.ca)

    with tls_server(context) as port:
        probe_answer = probe.probe_connector(
            scheme, ("127.0.0.1", port), Login("probe", "made-up"), requires_client_certificate=True
        )
        answer_without_notice = probe.probe_connector(scheme, ("127.0.0.1", port), Login("probe", "made-up"))

    assert probe_answer == probe.ProbeAnswer(
        True, None, "the broker answers over TLS and rejects the probe, which has no client certificate"
    )
    assert not answer_without_notice.answered


def test_port_that_closes_before_tls_handshake_has_not_answered() -> None:
    with tls_server(None) as port:
        probe_answer = probe.probe_connector("nio+ssl", ("127.0.0.1", port), Login(), requires_client_certificate=True)

    assert not probe_answer.answered


def test_closed_port_refuses_probe(unused_port: int) -> None:
    assert probe.probe_connector("stomp", ("127.0.0.1", unused_port), Login()) == REFUSES


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def deploy_configuration(base: Path, **variables: object) -> broker_configuration.DeployedBrokerSettings:
    broker = fleet("orders-mq01", **variables).broker("orders-mq01-a.example.com")
    for path, content in render_broker(broker, reveal=True).items():
        target = base / "versions" / "v" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return broker_configuration.read_deployed_configuration(ConfigurationPaths(str(base)), "v")


def test_required_client_certificate_is_read_from_deployed_files(tmp_path: Path) -> None:
    tls = {"keystore": "/k", "keystore_password": "k", "truststore": "/t", "truststore_password": "t"}

    settings = deploy_configuration(tmp_path, tls={**tls, "client_auth": True})

    assert all(listener.requires_client_certificate for listener in settings.listeners)


def test_connectors_account_and_store_are_read_from_deployed_files(tmp_path: Path) -> None:
    settings = deploy_configuration(tmp_path, network_password="p=a\\s #1:ö", bind="127.0.0.9")
    assert [(listener.name, listener.scheme, listener.address) for listener in settings.listeners] == [
        ("openwire", "nio", ("127.0.0.9", 61616)),
        ("stomp", "stomp+nio", ("127.0.0.9", 61613)),
        ("mqtt", "mqtt+nio", ("127.0.0.9", 1883)),
    ]
    assert not any(listener.requires_client_certificate for listener in settings.listeners)
    assert settings.login == Login("net", "p=a\\s #1:ö")
    assert settings.store == "/srv/activemq/orders-mq01"
    assert not settings.pure
    assert "p=a" not in repr(settings)


@pytest.mark.parametrize("release", ["5.5.1", "5.18.3", "6.2.7", "6.3.1"])
def test_address_of_console_is_read_from_deployed_files(tmp_path: Path, release: str) -> None:
    settings = deploy_configuration(
        tmp_path, release=release, console_bind="127.0.0.7", console_port=8170, port_offset=10
    )
    assert settings.consoles == (("127.0.0.7", 8180),)
    assert deploy_configuration(tmp_path / "none", release=release, console=False).consoles == ()


def test_broker_that_listens_on_all_addresses_is_probed_on_loopback(tmp_path: Path) -> None:
    assert {listener.address[0] for listener in deploy_configuration(tmp_path).listeners} == {"127.0.0.1"}


def test_pure_broker_is_identified_by_its_files(tmp_path: Path) -> None:
    settings = deploy_configuration(tmp_path, ha="pure", release="5.5.1")
    assert settings.pure
    assert settings.store == "/var/lib/activemq/activemq/data/kahadb"


def test_store_path_resolves_property_of_data_directory(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    xml = '<beans><broker><kahaDB directory="${activemq.data}/kahadb"/></broker></beans>'
    (tmp_path / "conf" / "activemq.xml").write_text(xml)
    assert (
        broker_configuration.read_deployed_configuration(ConfigurationPaths("/base"), str(tmp_path)).store
        == "/base/data/kahadb"
    )


def test_store_with_journal_counts_as_used(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    assert not broker_configuration.was_store_ever_used(str(tmp_path))
    assert not broker_configuration.was_store_ever_used(str(tmp_path / "none"))
    (tmp_path / "db-1.log").touch()
    assert broker_configuration.was_store_ever_used(str(tmp_path))


@contextmanager
def running_process(base: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    (base / "data").mkdir(exist_ok=True)
    with (base / "data/activemq.log").open("w") as log:
        command = [sys.executable, "-c", "import time; time.sleep(60)", *arguments]
        process = subprocess.Popen(command, stdout=log)
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_process(find_process: Callable[[], Process | None]) -> Process | None:
    wait_until(lambda: find_process() is not None, "the process is found", pause=0.02)
    return find_process()


def test_broker_process_is_identified_by_account_files_and_command_line(tmp_path: Path) -> None:
    boot_seconds_before, started_after = seconds_since_boot(), time.time()
    with running_process(tmp_path, f"-Dactivemq.base={tmp_path}", "start") as process:
        broker_process = wait_for_process(lambda: find_broker_process(str(tmp_path)))
        assert broker_process is not None
        assert broker_process.pid == process.pid
        assert boot_seconds_before - 0.1 <= broker_process.started <= seconds_since_boot()
        assert int(started_after) - 1 <= broker_process.start_time <= time.time()
    assert find_broker_process(str(tmp_path)) is None


def test_process_of_other_instance_or_control_command_is_no_broker_process(tmp_path: Path) -> None:
    other_instance, control_command = f"-Dactivemq.base={tmp_path}/second", f"-Dactivemq.base={tmp_path}"
    with running_process(tmp_path, other_instance, "start"), running_process(tmp_path, control_command, "stop"):
        time.sleep(0.1)
        assert find_broker_process(str(tmp_path)) is None


def test_broker_of_host_without_configuration_is_stopped(tmp_path: Path) -> None:
    broker_state = state.gather_broker_state(str(tmp_path), None)
    assert (broker_state["state"], broker_state["version"], broker_state["restart_required"]) == (
        "stopped",
        None,
        False,
    )


def test_wait_for_broker_state_ends_after_timeout(tmp_path: Path) -> None:
    broker_state = within(
        PATIENCE, lambda: state.gather_broker_state(str(tmp_path), None, wait=0.2, wanted=("active",))
    )
    assert broker_state["state"] == "stopped"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("observations", "settled", "message"),
    [
        # A bean after <broker> fails, and systemd stops the restarts of the broker, as in crash-loop-late-bean.
        ([("active", 7, True), ("active", 7, True), ("stopped", None, None)], None, "the broker is stopped: bad bean"),
        ([("active", 7, True), ("active", 7, False)], True, ""),
        ([("active", 7, True), ("active", 8, True), ("active", 8, False)], True, ""),
        ([("active", 7, True)] * 40, False, "the broker is active, but a bean blocks the loading of its configuration"),
        ([("active", 7, None)] * 6, True, ""),
        ([("standby", 7, True)], True, ""),
    ],
)
def test_broker_is_ready_only_when_its_configuration_is_loaded_crash_loop_late_bean(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    observations: list[tuple[str, int | None, bool | None]],
    settled: bool | None,
    message: str,
) -> None:
    """The wait lasts 30 s, and an observation takes 1 s: state, pid, and whether a thread dump shows the loading."""
    remaining, now = list(observations), [0.0]

    def observe_once(*_: object) -> tuple[dict[str, object], Callable[[], dict[str, object]], object]:
        name, pid, _loading = current = remaining.pop(0)
        now[0] += 1
        process = dataclasses.replace(ALIVE, pid=pid) if pid else None
        unit = {"Id": "u", "ActiveState": "failed" if pid is None else "active"}
        observe_once.current = current  # type: ignore[attr-defined]
        properties = {"state": name, "frozen": False, "unit": unit, "pid": pid, "error": "bad bean", "data": "/b/data"}
        return {**properties, "release": "6.3.1"}, dict, SimpleNamespace(evidence=SimpleNamespace(process=process))

    def is_loading(process: Process) -> bool | None:
        loading: bool | None = observe_once.current[2]  # type: ignore[attr-defined]
        return loading

    clock = SimpleNamespace(monotonic=lambda: now[0], time=time.time, sleep=lambda _: None)
    monkeypatch.setattr(state, "_gather_once", observe_once)
    monkeypatch.setattr(state, "time", clock)
    monkeypatch.setattr(state, "ReadinessDetector", lambda: ReadinessDetector(is_loading, clock.monotonic))
    ready = ("active", "standby")
    broker_state = state.gather_broker_state(str(tmp_path), "u", wait=30, wanted=ready)
    assert broker_state.get("settled") is settled
    assert state.unmet_expectation(broker_state, ready, None, None)[: len(message) or None] == message


@pytest.mark.parametrize(
    ("states", "frozen", "observations"),
    [
        (["hung", "hung", "active"], False, 3),  # the broker was busy
        (["hung"] * 99, False, 4),
        (["hung"] * 99, True, 1),
        (["starting", "hung", "starting", "hung", "hung", "hung", "hung"], False, 7),
    ],
)
def test_wait_reports_hung_broker_only_after_repeated_observations(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, states: list[str], frozen: bool, observations: int
) -> None:
    """An observation takes 10 s."""
    now, observed_states = [0.0], list[str]()

    def observe_once(*_: object) -> tuple[dict[str, object], type[dict[str, object]], SimpleNamespace]:
        observed_states.append(states[len(observed_states)])
        now[0] += 10
        return (
            {"state": observed_states[-1], "frozen": frozen, "unit": None},
            dict,
            SimpleNamespace(evidence=SimpleNamespace(process=ALIVE)),
        )

    monkeypatch.setattr(state, "_gather_once", observe_once)
    monkeypatch.setattr(state, "ReadinessDetector", lambda: ReadinessDetector(lambda _process: False))
    clock = SimpleNamespace(monotonic=lambda: now[0], time=time.time, sleep=lambda _: None)
    monkeypatch.setattr(state, "time", clock)
    broker_state = state.gather_broker_state(str(tmp_path), None, wait=300, wanted=("active", "stopped", "hung"))
    assert (len(observed_states), broker_state["state"]) == (observations, states[observations - 1])


DUMP = """Full thread dump OpenJDK 64-Bit Server VM:

"main" #1 prio=5 os_prio=0 cpu=966.47ms elapsed=33.24s tid=0x00007fa34c018d20 nid=0x2e69 waiting on condition
   java.lang.Thread.State: WAITING (parking)
\tat jdk.internal.misc.Unsafe.park(java.base@17.0.15/Native Method)
{frame}
\tat org.apache.activemq.console.command.StartCommand.runTask(StartCommand.java:118)

"Reference Handler" #2 daemon prio=10 os_prio=0
   java.lang.Thread.State: RUNNABLE
\tat java.lang.ref.Reference.waitForReferencePendingList(java.base@17.0.15/Native Method)
\tat org.apache.activemq.broker.BrokerFactory.createBroker(BrokerFactory.java:71)
"""


def test_thread_main_shows_whether_broker_loads_its_configuration() -> None:
    loading = "\tat org.apache.activemq.broker.BrokerFactory.createBroker(BrokerFactory.java:71)"
    assert thread_dump_shows_configuration_loading(DUMP.format(frame=loading))
    assert not thread_dump_shows_configuration_loading(
        DUMP.format(frame="\tat java.util.concurrent.CountDownLatch.await(CountDownLatch.java:230)")
    )
    assert not thread_dump_shows_configuration_loading("")


def test_single_systemctl_call_shows_units_of_broker_return_and_watchdog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = (
        "Id=orders.service\\nLoadState=loaded\\nActiveState=active\\nStatusText=\\n\\n"
        "Id=orders-fleet-return.service\\nLoadState=not-found\\nActiveState=inactive\\nStatusText=\\n\\n"
        "Id=orders-watchdog.service\\nLoadState=loaded\\nActiveState=active\\nStatusText=watches the broker\\n"
    )
    program = tmp_path / "systemctl"
    program.write_text(f"#!/bin/sh\necho \"$@\" >> '{tmp_path}/calls'\nprintf '{output}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    broker, watchdog = state._properties_of_units("orders.service")
    [call] = (tmp_path / "calls").read_text().splitlines()
    assert call.endswith(" orders.service orders-fleet-return.service orders-watchdog.service")
    assert broker == {"Id": "orders.service", "LoadState": "loaded", "ActiveState": "active", "Returns": "inactive"}
    assert watchdog["StatusText"] == "watches the broker"
