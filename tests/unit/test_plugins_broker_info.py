"""The state of a broker, derived from its process, its log and its connectors."""

from __future__ import annotations

import dataclasses
import errno
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
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from activemq_fleet.node.config import broker_configuration
from activemq_fleet.node.config.probe_account import Login
from activemq_fleet.node.config.versions import ConfigurationPaths
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.judge import Evidence
from activemq_fleet.node.log.broker_run import LoggedBrokerPhase
from activemq_fleet.node.log.log_records import Record
from activemq_fleet.node.probe import connector_probe as probe
from activemq_fleet.node.probe.settling import ReadinessDetector, thread_dump_shows_configuration_loading
from activemq_fleet.node.process.proc import Process, find_broker_process, read_process, seconds_since_boot
from activemq_fleet.node.state import broker_state as state
from activemq_fleet.node.state import broker_status
from activemq_fleet.render import render_broker
from tests.unit.agent.certificates import Authority, server_context
from tests.unit.agent.certificates import server as tls_server
from tests.unit.fleets import fleet
from tests.waiting import PATIENCE, wait_until, within

ALIVE = Process(42, 1.0, "S", ("java",))
FROZEN = dataclasses.replace(ALIVE, state="T")
SERVES = probe.ProbeAnswer(True, True, "the broker completed the round trip of a test message over STOMP")
REFUSES = probe.ProbeAnswer(False, None, "the port refuses connections, because no process listens on it")
SILENT = probe.ProbeAnswer(False, False, "the broker accepts connections and sends no data for 5 s")


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
    return broker_configuration.read_deployed_broker_settings(ConfigurationPaths(str(base)), "v")


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
        broker_configuration.read_deployed_broker_settings(ConfigurationPaths("/base"), str(tmp_path)).store
        == "/base/data/kahadb"
    )


def test_store_with_journal_counts_as_used(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    assert not broker_configuration.was_store_ever_used(str(tmp_path))
    assert not broker_configuration.was_store_ever_used(str(tmp_path / "none"))
    (tmp_path / "db-1.log").touch()
    assert broker_configuration.was_store_ever_used(str(tmp_path))


def test_store_that_cannot_be_listed_does_not_count_as_unused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", raise_input_output_error)
    with pytest.raises(OSError, match="Input/output error"):
        broker_configuration.was_store_ever_used(str(tmp_path))


def raise_input_output_error(_descriptor: int) -> list[str]:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


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


def test_texts_of_log_and_probes_in_broker_state_contain_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = "Failed to start: jdbc:oracle:thin:amq/Canary99@db1 is not reachable"
    evidence = Evidence(
        read_process(os.getpid()),
        LoggedBrokerPhase("failed", failure),
        {"openwire": probe.ProbeAnswer(answered=False, returned=False, detail=failure)},
    )
    monkeypatch.setattr(state, "observe_broker", lambda *_arguments: evidence)
    broker_state = state.gather_broker_state(str(tmp_path), None)
    masked_failure = failure.replace("Canary99", "@secret@")
    assert masked_failure in broker_state["how"]
    assert broker_state["log"]["message"] == broker_state["connectors"]["openwire"] == masked_failure
    assert "Canary99" not in str(broker_state)


def test_shortened_log_message_in_broker_status_contains_no_secret() -> None:
    for length in range(250, 300):
        message = f"{'x' * length} jdbc:oracle:thin:amq/Canary99@db1:1521/x"
        record = Record(1, datetime.now(), "WARN", message, "org.x.Y", "main")
        (shown,) = broker_status._link_and_warning_records([record])
        assert "x" * 250 in shown["message"]
        assert "Can" not in shown["message"]


def test_reason_for_missing_usage_in_broker_status_contains_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = read_process(os.getpid())
    sources = SimpleNamespace(
        evidence=Evidence(process), deployed=SimpleNamespace(store=None), records=[], watchdog={"StatusText": ""}
    )

    def raise_jmx_error(*_arguments: object) -> None:
        raise NodeError("the JMX call getAttributes failed (jdbc:oracle:thin:amq/Canary99@db1)")

    monkeypatch.setattr(
        broker_status, "gather_state_and_sources", lambda *_arguments, **_options: ({"state": "active"}, sources)
    )
    monkeypatch.setattr(broker_status, "read_broker_jmx_statistics", raise_jmx_error)
    monkeypatch.setattr(broker_status, "fetch_connector_certificate_expiry_times", lambda *_arguments: [])
    status = broker_status.gather_broker_status(str(tmp_path), None)
    assert status["usage_error"] == "the JMX call getAttributes failed (jdbc:oracle:thin:amq/@secret@@db1)"


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
