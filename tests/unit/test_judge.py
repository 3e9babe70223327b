"""The state of a broker: one table of cases for the judge and for each of its callers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import yaml

from activemq_fleet.lab import lab_brokers, processes
from activemq_fleet.node import judge as judge_of_hosts
from activemq_fleet.node import timeouts
from activemq_fleet.node.config.broker_configuration import DeployedBrokerSettings
from activemq_fleet.node.judge import STATES, BrokerState, Evidence, conclude_state
from activemq_fleet.node.log import broker_log
from activemq_fleet.node.log.broker_run import LoggedBrokerPhase
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
STALLS = ProbeAnswer(
    False, False, "the broker answers CONNECTED over STOMP and then sends no data for 5 s", greeted=True
)
FAILS = ProbeAnswer(
    False,
    False,
    "the broker answers the STOMP frame SEND of the test connection with an error (wrong): check activemq.log",
    greeted=True,
    failed=True,
)
LACKS_PERMISSION = ProbeAnswer(
    True, None, "the broker rejects the STOMP frame SEND of the test connection: not authorized", greeted=True
)
GREETS = ProbeAnswer(True, None, "the broker answered the test connection with an OpenWire greeting", greeted=True)
CLOSES = ProbeAnswer(False, None, "the connection fails (ConnectionResetError: reset)", failed=True)
FOREIGN = ProbeAnswer(
    False, None, "a process of the account with uid 1234 answers at 127.0.0.1:1883, so no login was sent"
)
PHASES = ("begin", "waiting", "starting", "attached", "started", "stopping", "stopped", "failed", "unknown")


def broker_evidence(process: Process | None, phase: str, *answers: ProbeAnswer, **fields: Any) -> Evidence:
    answers_by_connector = {f"connector{number}": answer for number, answer in enumerate(answers)}
    has_started = fields.pop("has_started", phase == "started")
    return Evidence(
        process, LoggedBrokerPhase(phase, "a record", has_started=has_started), answers_by_connector, **fields
    )


CASES: list[tuple[Evidence, BrokerState]] = [
    (broker_evidence(None, "started"), "stopped"),
    (broker_evidence(None, "unknown"), "stopped"),
    (broker_evidence(FROZEN, "started"), "hung"),
    (broker_evidence(FROZEN, "waiting"), "hung"),
    (broker_evidence(ALIVE, "started", SERVES, listens=True), "active"),
    (broker_evidence(ALIVE, "started", SERVES, REFUSES, listens=True), "active"),
    (broker_evidence(ALIVE, "unknown", SERVES, listens=True), "active"),  # The log has been rotated since the start.
    (broker_evidence(ALIVE, "waiting", REFUSES, REFUSES), "standby"),
    (broker_evidence(ALIVE, "waiting"), "standby"),
    (broker_evidence(ALIVE, "attached", pure=True, has_started=True), "standby"),
    (broker_evidence(ALIVE, "attached", REFUSES, pure=True, listens=True, has_started=True), "standby"),
    (broker_evidence(ALIVE, "attached", pure=True, holds_lock=True, has_started=True), "standby"),
    (broker_evidence(ALIVE, "waiting", pure=True, holds_lock=True), "standby"),
    (broker_evidence(ALIVE, "starting"), "starting"),
    (broker_evidence(ALIVE, "starting", REFUSES), "starting"),
    (broker_evidence(ALIVE, "stopping", REFUSES), "starting"),
    (broker_evidence(ALIVE, "failed", REFUSES), "starting"),
    (broker_evidence(ALIVE, "unknown", REFUSES), "starting"),
    (broker_evidence(ALIVE, "unknown", SILENT), "starting"),
    (broker_evidence(ALIVE, "unknown", SILENT, has_answered=True), "hung"),  # The log has been rotated since an answer.
    (broker_evidence(ALIVE, "started", SILENT), "hung"),
    (broker_evidence(ALIVE, "started", SILENT, listens=True), "hung"),
    (broker_evidence(ALIVE, "started", REFUSES), "starting"),  # the first connector opens before the last
    (broker_evidence(ALIVE, "started", pure=True), "active"),  # a promoted pure slave has no connectors
    (broker_evidence(ALIVE, "started", pure=True, holds_lock=True), "active"),
    (broker_evidence(ALIVE, "starting", SERVES, pure=True, listens=True), "starting"),  # a pure master without slave
    (broker_evidence(ALIVE, "started", SERVES, pure=True, listens=True), "active"),
    # Answers, ports and the lock outrank the log.
    *((broker_evidence(ALIVE, phase, SERVES, listens=True), "active") for phase in PHASES),
    *((broker_evidence(ALIVE, phase, SERVES, listens=True, pure=True, has_started=True), "active") for phase in PHASES),
    *((broker_evidence(ALIVE, phase, SILENT, listens=True), "hung") for phase in PHASES),
    # The memory of the broker is full: the log does not report this, and the broker sends its greeting.
    *((broker_evidence(ALIVE, phase, STALLS, listens=True), "unhealthy") for phase in PHASES),
    (broker_evidence(ALIVE, "started", SILENT, STALLS, listens=True), "unhealthy"),
    # The broker sends its greeting and an error that a missing permission does not explain.
    *((broker_evidence(ALIVE, phase, FAILS, listens=True), "unhealthy") for phase in PHASES),
    *((broker_evidence(ALIVE, phase, FAILS, GREETS, listens=True), "unhealthy") for phase in PHASES),
    *((broker_evidence(ALIVE, phase, FAILS, LACKS_PERMISSION, listens=True), "unhealthy") for phase in PHASES),
    *((broker_evidence(ALIVE, phase, LACKS_PERMISSION, GREETS, listens=True), "active") for phase in PHASES),
    *((broker_evidence(ALIVE, phase, FAILS, SERVES, listens=True), "active") for phase in PHASES),
    (broker_evidence(ALIVE, "starting", FAILS, pure=True, listens=True), "starting"),
    # The broker closes each connection, as at its connection limit. Before it has started, it may still accept them.
    (broker_evidence(ALIVE, "started", CLOSES, listens=True), "unhealthy"),
    (broker_evidence(ALIVE, "starting", CLOSES, listens=True), "starting"),
    # A process of another account listens on the address of the broker.
    *((broker_evidence(ALIVE, phase, FOREIGN), "standby") for phase in ("waiting", "attached")),
    (broker_evidence(ALIVE, "started", FOREIGN), "starting"),
    (broker_evidence(ALIVE, "starting", STALLS, pure=True, listens=True), "starting"),
    *((broker_evidence(ALIVE, phase, REFUSES, listens=True), "starting") for phase in PHASES),
    *((broker_evidence(ALIVE, phase, REFUSES, holds_lock=True), "starting") for phase in PHASES),
]  # fmt: skip
EACH_CASE = pytest.mark.parametrize(("case", "expected"), CASES)
# A module has no earlier observation of the process.
CASES_OF_MODULES = [(case, expected) for case, expected in CASES if not case.has_answered]
EACH_CASE_OF_MODULES = pytest.mark.parametrize(("case", "expected"), CASES_OF_MODULES)


@EACH_CASE
def test_judge_concludes_expected_broker_state(case: Evidence, expected: BrokerState) -> None:
    conclusion = conclude_state(case)
    assert conclusion.state == expected
    assert conclusion.reason


def test_type_and_test_cases_of_judge_have_all_broker_states() -> None:
    assert get_args(BrokerState) == STATES
    assert {expected for _, expected in CASES} == set(STATES)


@some_situations(20)
@EACH_CASE_OF_MODULES
def test_gathered_broker_state_is_that_of_judge(
    case: Evidence, expected: BrokerState, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deployed = SimpleNamespace(listeners=(), consoles=(), store="/store", pure=case.pure, persistence={})
    monkeypatch.setattr(state, "find_broker_process", lambda *_: case.process)
    monkeypatch.setattr(state, "_read_deployed_settings", lambda *_: deployed)
    monkeypatch.setattr(broker_log, "phase_of_process_since", lambda *_: case.phase)
    monkeypatch.setattr(state, "probe_connectors_until_first_silent", lambda *_: case.answers)
    monkeypatch.setattr(held_by_process, "process_account_listens_on_one_of", lambda *_: case.listens)
    monkeypatch.setattr(held_by_process, "holds_store_lock", lambda *_: case.holds_lock)
    broker_state = state.gather_broker_state(str(tmp_path), None)
    assert (broker_state["state"], broker_state["how"]) == (expected, conclude_state(case).reason)


@EACH_CASE_OF_MODULES
def test_broker_state_of_lab_is_that_of_judge(
    case: Evidence, expected: BrokerState, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    profile = {"release": "5.5.1", "ha": "pure"} if case.pure else {"release": "6.3.1"}
    hosts = make_lab_hosts(tmp_path, is_full_distribution=False, **profile)
    deployed = DeployedBrokerSettings(store="/store", pure=case.pure)
    broker_run = processes.ProcessRun(PAIR[0], 42, 1.0, 1.0, "v1")
    monkeypatch.setattr(processes, "last_broker_process_run", lambda *_: broker_run)
    monkeypatch.setattr(processes, "find_process", lambda *_: case.process and SimpleNamespace(pid=42))
    monkeypatch.setattr(hosts, "_read_deployed_settings", lambda *_: deployed)
    monkeypatch.setattr(hosts, "_read_broker_run", lambda *_: SimpleNamespace(logged_phase=case.phase))
    monkeypatch.setattr(lab_brokers, "read_process", lambda _: case.process)
    monkeypatch.setattr(lab_brokers, "make_connector_probe", lambda *_: lambda *_: case.answers)
    monkeypatch.setattr(held_by_process, "process_account_listens_on_one_of", lambda *_: case.listens)
    monkeypatch.setattr(held_by_process, "holds_store_lock", lambda *_: case.holds_lock)
    snapshot = hosts.observe_broker(hosts.fleet.broker(PAIR[0]))
    assert snapshot.state == expected
    assert snapshot.reason == conclude_state(case).reason


@EACH_CASE
def test_diagnosis_of_watchdog_has_state_of_judge(case: Evidence, expected: BrokerState) -> None:
    diagnosis = hang_detection.hang_diagnosis_of_sample(hang_detection.WatchdogSample(case))
    assert diagnosis.state == expected
    if diagnosis.kind == hang_detection.HUNG:
        assert expected == "hung"
    if diagnosis.kind == hang_detection.FINE:
        assert expected in ("active", "starting")


def test_library_and_hosts_use_same_file_of_judge() -> None:
    library_file, host_file = Path(conclude_state.__code__.co_filename), Path(judge_of_hosts.__file__)
    assert library_file.resolve() == host_file.resolve()


def test_time_limits_of_plays_match_library() -> None:
    role = yaml.safe_load((ROOT / "roles/broker/vars/main.yml").read_text())
    drill = yaml.safe_load((ROOT / "playbooks/vars/drill.yml").read_text())
    assert role["__activemq_ready_timeout"] == timeouts.READY
    assert role["__activemq_settle_timeout"] == timeouts.SETTLE
    # By this time, the watchdog has killed a frozen node, and its peer has taken over.
    assert drill["__activemq_drill_hung_timeout"] >= 2 * timeouts.HUNG


def test_watchdog_considers_broker_hung_before_operations_do() -> None:
    # The watchdog detects the first miss at most one interval after the broker stopped responding.
    assert timeouts.MISSES * (timeouts.WATCH_INTERVAL + timeouts.PROBE) - timeouts.WATCH_INTERVAL <= timeouts.HUNG


def test_guard_of_silent_store_kills_broker_before_systemd_kills_guard() -> None:
    # The guard notifies systemd once per second at most, and then needs a few seconds to kill and wait.
    assert timeouts.STORE_ANSWER + 5 <= timeouts.MAX_GUARD_SILENCE
