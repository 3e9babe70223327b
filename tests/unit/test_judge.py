"""The state of a broker: one table of cases, for the judge and for everyone who asks it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import yaml

from activemq_fleet.lab import lab_brokers, processes
from activemq_fleet.node import judge as on_hosts
from activemq_fleet.node import timeouts
from activemq_fleet.node.config.broker_configuration import DeployedBrokerSettings
from activemq_fleet.node.judge import STATES, BrokerState, Evidence, conclude_state
from activemq_fleet.node.log import broker_log
from activemq_fleet.node.log.broker_run import Phase
from activemq_fleet.node.probe.connector_probe import ProbeAnswer
from activemq_fleet.node.process import held_by_process
from activemq_fleet.node.process.proc import Process
from activemq_fleet.node.state import broker_state as state
from activemq_fleet.node.watchdog import hang_detection
from tests.situations import some_situations
from tests.support.lab_hosts import make_lab_hosts
from tests.unit.lab_fleets import PAIR

ROOT = Path(__file__).resolve().parents[2]
ALIVE = Process(42, 1.0, "S", ("java",))
FROZEN = replace(ALIVE, state="T")
SERVES = ProbeAnswer(True, True, "the broker completed the round trip of a test message over STOMP", greeted=True)
REFUSES = ProbeAnswer(False, None, "the port refuses connections")
SILENT = ProbeAnswer(False, False, "the broker accepts connections and sends no data for 5 s")
HOLDS_BACK = ProbeAnswer(
    False, False, "the broker answers CONNECTED over STOMP and then sends no data for 5 s", greeted=True
)
FAILS = ProbeAnswer(
    False,
    False,
    "the broker answers the STOMP frame SEND of the test connection with an error (wrong): check activemq.log",
    greeted=True,
    failed=True,
)
LACKS_RIGHT = ProbeAnswer(
    True, None, "the broker rejects the STOMP frame SEND of the test connection: not authorized", greeted=True
)
GREETS = ProbeAnswer(True, None, "the broker answered the test connection with an OpenWire greeting", greeted=True)
CLOSES = ProbeAnswer(False, None, "the connection fails (ConnectionResetError: reset)", failed=True)
FOREIGN = ProbeAnswer(
    False, None, "a process of the account with uid 1234 answers at 127.0.0.1:1883, so no login was sent"
)
PHASES = ("begin", "waiting", "starting", "attached", "started", "stopping", "stopped", "failed", "unknown")


def evidence(process: Process | None, phase: str, *answers: ProbeAnswer, **more: Any) -> Evidence:
    named = {f"connector{number}": answer for number, answer in enumerate(answers)}
    has_started = more.pop("has_started", phase == "started")
    return Evidence(process, Phase(phase, "a record", has_started=has_started), named, **more)


CASES: list[tuple[Evidence, BrokerState]] = [
    (evidence(None, "started"), "stopped"),
    (evidence(None, "unknown"), "stopped"),
    (evidence(FROZEN, "started"), "hung"),
    (evidence(FROZEN, "waiting"), "hung"),
    (evidence(ALIVE, "started", SERVES, listens=True), "active"),
    (evidence(ALIVE, "started", SERVES, REFUSES, listens=True), "active"),
    (evidence(ALIVE, "unknown", SERVES, listens=True), "active"),  # the log has rolled since the start
    (evidence(ALIVE, "waiting", REFUSES, REFUSES), "standby"),
    (evidence(ALIVE, "waiting"), "standby"),
    (evidence(ALIVE, "attached", pure=True, has_started=True), "standby"),
    (evidence(ALIVE, "attached", REFUSES, pure=True, listens=True, has_started=True), "standby"),
    (evidence(ALIVE, "attached", pure=True, holds_lock=True, has_started=True), "standby"),
    (evidence(ALIVE, "waiting", pure=True, holds_lock=True), "standby"),
    (evidence(ALIVE, "starting"), "starting"),
    (evidence(ALIVE, "starting", REFUSES), "starting"),
    (evidence(ALIVE, "stopping", REFUSES), "starting"),
    (evidence(ALIVE, "failed", REFUSES), "starting"),
    (evidence(ALIVE, "unknown", REFUSES), "starting"),
    (evidence(ALIVE, "unknown", SILENT), "starting"),
    (evidence(ALIVE, "unknown", SILENT, has_answered=True), "hung"),  # its log has rolled since it answered
    (evidence(ALIVE, "started", SILENT), "hung"),
    (evidence(ALIVE, "started", SILENT, listens=True), "hung"),
    (evidence(ALIVE, "started", REFUSES), "starting"),  # the first connector opens before the last
    (evidence(ALIVE, "started", pure=True), "active"),  # a promoted pure slave has no connectors
    (evidence(ALIVE, "started", pure=True, holds_lock=True), "active"),
    (evidence(ALIVE, "starting", SERVES, pure=True, listens=True), "starting"),  # a pure master without its slave
    (evidence(ALIVE, "started", SERVES, pure=True, listens=True), "active"),
    # No log outranks answers, ports and the lock.
    *((evidence(ALIVE, phase, SERVES, listens=True), "active") for phase in PHASES),
    *((evidence(ALIVE, phase, SERVES, listens=True, pure=True, has_started=True), "active") for phase in PHASES),
    *((evidence(ALIVE, phase, SILENT, listens=True), "hung") for phase in PHASES),
    # Its memory is full: no log says so, and it greets.
    *((evidence(ALIVE, phase, HOLDS_BACK, listens=True), "unhealthy") for phase in PHASES),
    (evidence(ALIVE, "started", SILENT, HOLDS_BACK, listens=True), "unhealthy"),
    # It greets and answers with an error that no missing right explains.
    *((evidence(ALIVE, phase, FAILS, listens=True), "unhealthy") for phase in PHASES),
    *((evidence(ALIVE, phase, FAILS, GREETS, listens=True), "unhealthy") for phase in PHASES),
    *((evidence(ALIVE, phase, FAILS, LACKS_RIGHT, listens=True), "unhealthy") for phase in PHASES),
    *((evidence(ALIVE, phase, LACKS_RIGHT, GREETS, listens=True), "active") for phase in PHASES),
    *((evidence(ALIVE, phase, FAILS, SERVES, listens=True), "active") for phase in PHASES),
    (evidence(ALIVE, "starting", FAILS, pure=True, listens=True), "starting"),
    # It closes each connection, as a broker does whose connections are used up; before it has started it may open.
    (evidence(ALIVE, "started", CLOSES, listens=True), "unhealthy"),
    (evidence(ALIVE, "starting", CLOSES, listens=True), "starting"),
    # Another account listens at its address.
    *((evidence(ALIVE, phase, FOREIGN), "standby") for phase in ("waiting", "attached")),
    (evidence(ALIVE, "started", FOREIGN), "starting"),
    (evidence(ALIVE, "starting", HOLDS_BACK, pure=True, listens=True), "starting"),
    *((evidence(ALIVE, phase, REFUSES, listens=True), "starting") for phase in PHASES),
    *((evidence(ALIVE, phase, REFUSES, holds_lock=True), "starting") for phase in PHASES),
]  # fmt: skip
TABLE = pytest.mark.parametrize(("case", "expected"), CASES)
# A module has not seen the process before.
OF_MODULES = pytest.mark.parametrize(("case", "expected"), [one for one in CASES if not one[0].has_answered])


@TABLE
def test_the_judge_concludes_the_state(case: Evidence, expected: BrokerState) -> None:
    conclusion = conclude_state(case)
    assert conclusion.state == expected
    assert conclusion.reason


def test_the_names_of_the_states_are_declared_once() -> None:
    assert get_args(BrokerState) == STATES
    assert {expected for _, expected in CASES} == set(STATES)


@some_situations(20)
@OF_MODULES
def test_broker_info_tells_what_the_judge_concludes(
    case: Evidence, expected: BrokerState, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deployed = SimpleNamespace(listeners=(), consoles=(), store="/store", pure=case.pure, persistence={})
    monkeypatch.setattr(state, "find_broker_process", lambda *_: case.process)
    monkeypatch.setattr(state, "_deployed", lambda *_: deployed)
    monkeypatch.setattr(broker_log, "phase_of_process_since", lambda *_: case.phase)
    monkeypatch.setattr(state, "probe_connectors_until_first_silent", lambda *_: case.answers)
    monkeypatch.setattr(held_by_process, "process_account_listens_on_one_of", lambda *_: case.listens)
    monkeypatch.setattr(held_by_process, "holds_store_lock", lambda *_: case.holds_lock)
    found = state.gather_broker_state(str(tmp_path), None)
    assert (found["state"], found["how"]) == (expected, conclude_state(case).reason)


@OF_MODULES
def test_the_lab_tells_what_the_judge_concludes(
    case: Evidence, expected: BrokerState, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    profile = {"release": "5.5.1", "ha": "pure"} if case.pure else {"release": "6.3.1"}
    hosts = make_lab_hosts(tmp_path, whole=False, **profile)
    deployed = DeployedBrokerSettings(store="/store", pure=case.pure)
    run = processes.ProcessRun(PAIR[0], 42, 1.0, 1.0, "v1")
    monkeypatch.setattr(processes, "last_broker_process_run", lambda *_: run)
    monkeypatch.setattr(processes, "find_process", lambda *_: case.process and SimpleNamespace(pid=42))
    monkeypatch.setattr(hosts, "_deployed", lambda *_: deployed)
    monkeypatch.setattr(hosts, "_broker_run", lambda *_: SimpleNamespace(logged_phase=case.phase))
    monkeypatch.setattr(lab_brokers, "read_process", lambda _: case.process)
    monkeypatch.setattr(lab_brokers, "make_connector_probe", lambda *_: lambda *_: case.answers)
    monkeypatch.setattr(held_by_process, "process_account_listens_on_one_of", lambda *_: case.listens)
    monkeypatch.setattr(held_by_process, "holds_store_lock", lambda *_: case.holds_lock)
    snapshot = hosts.observe_broker(hosts.fleet.broker(PAIR[0]))
    assert snapshot.state == expected
    assert snapshot.reason == conclude_state(case).reason


@TABLE
def test_the_watchdog_goes_by_what_the_judge_concludes(case: Evidence, expected: BrokerState) -> None:
    diagnosis = hang_detection.classify_sample(hang_detection.WatchdogSample(case))
    assert diagnosis.state == expected
    if diagnosis.kind == hang_detection.HUNG:
        assert expected == "hung"
    if diagnosis.kind == hang_detection.FINE:
        assert expected in ("active", "starting")


def test_both_names_are_one_file() -> None:
    library_file, host_file = Path(conclude_state.__code__.co_filename), Path(on_hosts.__file__)
    assert library_file.resolve() == host_file.resolve()


def test_plays_give_a_broker_the_time_that_the_library_means() -> None:
    role = yaml.safe_load((ROOT / "roles/broker/vars/main.yml").read_text())
    drill = yaml.safe_load((ROOT / "playbooks/vars/drill.yml").read_text())
    assert role["__activemq_ready_timeout"] == timeouts.READY
    assert role["__activemq_settle_timeout"] == timeouts.SETTLE
    # The watchdog has killed a frozen node by then, and its peer has taken over.
    assert drill["__activemq_drill_hung"] >= 2 * timeouts.HUNG


def test_the_watchdog_takes_a_broker_for_hung_before_operations_do() -> None:
    # The first miss is seen at the latest one interval after the broker fell silent.
    assert timeouts.MISSES * (timeouts.WATCH_INTERVAL + timeouts.PROBE) - timeouts.WATCH_INTERVAL <= timeouts.HUNG
