"""The watchdog: which brokers it considers hung, which it kills, and which it never kills."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.node import timeouts
from activemq_fleet.node.config.broker_configuration import Listener
from activemq_fleet.node.config.probe_account import Login
from activemq_fleet.node.judge import Evidence
from activemq_fleet.node.kahadb.risk_records import RebuildRisk, record_rebuild_risk
from activemq_fleet.node.log.broker_run import UNKNOWN, LoggedBrokerPhase
from activemq_fleet.node.probe import connector_probe as probe
from activemq_fleet.node.process.proc import Process, find_broker_process, seconds_since_boot, send_signal
from activemq_fleet.node.watchdog import hang_detection, watchdog
from activemq_fleet.node.watchdog.watchdog_cli import parse_options
from activemq_fleet.node.watchdog.watchdog_installation import watchdog_program_content
from tests.log_reading import logger_of
from tests.situations import some_situations

ALIVE = Process(42, 1.0, "S", ("java",))
FROZEN = replace(ALIVE, state="T")
SERVES = probe.ProbeAnswer(True, True, "the broker completed the round trip of a test message over STOMP", greeted=True)
GREETS = probe.ProbeAnswer(
    True, None, "the broker answered the test connection with an OpenWire greeting", greeted=True
)
NO_LOGIN = probe.ProbeAnswer(True, None, "the broker rejects the account (return code 5 in CONNACK)", greeted=True)
FULL = probe.ProbeAnswer(
    False, False, "the broker answers CONNECTED over STOMP and then sends no data for 5 s", greeted=True
)
CLOSED = probe.ProbeAnswer(False, None, "the port refuses connections")
SILENT = probe.ProbeAnswer(False, False, "the broker accepts connections and sends no data for 5 s")


def diagnosis_kind(
    process: Process | None,
    phase: str,
    *answers: probe.ProbeAnswer,
    known: bool = False,
    slave: bool | None = None,
    listens: bool = False,
) -> str:
    answers_by_connector = {f"connector{number}": answer for number, answer in enumerate(answers)}
    log_phase = UNKNOWN if phase == "unknown" else LoggedBrokerPhase(phase, "a record")
    evidence = Evidence(process, log_phase, answers_by_connector, listens=listens, has_answered=known)
    diagnosis = hang_detection.hang_diagnosis_of_sample(hang_detection.WatchdogSample(evidence, slave))
    assert diagnosis.text
    return str(diagnosis.kind)


@pytest.mark.parametrize(
    ("process", "phase", "answers", "known", "slave", "expected"),
    [
        (None, "unknown", (), False, None, "idle"),
        (ALIVE, "unknown", (SERVES,), False, None, "fine"),
        (ALIVE, "unknown", (NO_LOGIN,), True, None, "fine"),
        (ALIVE, "unknown", (CLOSED, GREETS), True, None, "fine"),
        (ALIVE, "started", (SILENT, SILENT), True, None, "hung"),
        (ALIVE, "started", (SILENT, CLOSED), False, None, "hung"),
        (ALIVE, "unknown", (SILENT,), True, None, "hung"),  # its log rolled after it answered
        (ALIVE, "unknown", (SILENT,), False, None, "odd"),  # it is unknown whether it ever served
        (FROZEN, "started", (), True, None, "hung"),
        (FROZEN, "waiting", (), False, None, "odd"),  # a standby without the lock
        (FROZEN, "starting", (), False, None, "odd"),
        (ALIVE, "waiting", (CLOSED, CLOSED), False, None, "idle"),
        (ALIVE, "starting", (SILENT,), True, None, "idle"),  # its store is being recovered
        (ALIVE, "stopping", (SILENT,), True, None, "idle"),
        (ALIVE, "started", (FULL, GREETS), True, None, "odd"),
        (ALIVE, "started", (FULL, SILENT), True, None, "odd"),
        (ALIVE, "started", (SILENT, GREETS), True, None, "odd"),  # all its STOMP connections may be in use
        (ALIVE, "started", (CLOSED,), True, None, "idle"),
        (ALIVE, "started", (), True, None, "idle"),
        (ALIVE, "started", (SILENT,), True, True, "hung"),
        (ALIVE, "started", (SILENT,), True, False, "odd"),  # a pure master without a slave
        (FROZEN, "started", (), True, False, "odd"),
        (FROZEN, "attached", (), False, False, "odd"),
    ],
)
def test_watchdog_sample_is_classified_by_process_log_and_probes(
    process: Process | None,
    phase: str,
    answers: tuple[probe.ProbeAnswer, ...],
    known: bool,
    slave: bool | None,
    expected: str,
) -> None:
    assert diagnosis_kind(process, phase, *answers, known=known, slave=slave) == expected


def test_secrets_of_log_and_answers_are_masked_in_reason_of_watchdog() -> None:
    uri = "jdbc:oracle:thin:amq/Canary99@db1"
    silent, full = (replace(answer, detail=f"{answer.detail}: {uri}") for answer in (SILENT, FULL))
    for answers in ({"stomp": silent}, {"stomp": full}):
        evidence = Evidence(ALIVE, LoggedBrokerPhase("started", f"Failed: {uri}"), answers)
        text = hang_detection.hang_diagnosis_of_sample(hang_detection.WatchdogSample(evidence)).text
        assert "jdbc:oracle:thin:amq/" in text
        assert "Canary99" not in text


ANSWERS = st.lists(st.sampled_from([SERVES, GREETS, NO_LOGIN, FULL, CLOSED, SILENT]), max_size=3)


@given(
    st.sampled_from([ALIVE, FROZEN]),
    st.sampled_from(["begin", "waiting", "starting", "attached", "stopping", "stopped", "failed"]),
    ANSWERS,
    st.booleans(),
    st.sampled_from([None, True, False]),
)
def test_broker_without_ports_and_without_start_in_log_is_never_hung(
    process: Process, phase: str, answers: list[probe.ProbeAnswer], known: bool, slave: bool | None
) -> None:
    assert diagnosis_kind(process, phase, *answers, known=known, slave=slave) != "hung"


@given(st.sampled_from(["started", "unknown"]), ANSWERS, st.booleans())
def test_broker_that_greets_on_any_connector_is_never_hung(
    phase: str, answers: list[probe.ProbeAnswer], known: bool
) -> None:
    expected = any(answer is SILENT for answer in answers) and not any(answer.greeted for answer in answers)
    assert (diagnosis_kind(ALIVE, phase, *answers, known=known) == "hung") == (
        expected and (known or phase == "started")
    )


@given(
    st.sampled_from(
        ["begin", "waiting", "starting", "started", "attached", "stopping", "stopped", "failed", "unknown"]
    ),
    st.booleans(),
    st.sampled_from([None, True]),
)
def test_frozen_broker_with_open_ports_is_hung_in_any_log_phase(phase: str, known: bool, slave: bool | None) -> None:
    assert diagnosis_kind(FROZEN, phase, known=known, slave=slave, listens=True) == "hung"


def test_silent_broker_in_start_or_stop_phase_has_longer_patience() -> None:
    for phase, patience in (
        ("starting", timeouts.WATCH_BUSY),
        ("stopping", timeouts.WATCH_BUSY),
        ("waiting", 0),
        ("started", 0),
    ):
        evidence = Evidence(ALIVE, LoggedBrokerPhase(phase, "x"), {"stomp": SILENT}, listens=True)
        diagnosis = hang_detection.hang_diagnosis_of_sample(hang_detection.WatchdogSample(evidence))
        assert (diagnosis.kind, diagnosis.patience) == ("hung", patience)
    streak = streak_of(*[("hung", ALIVE)] * 4)
    assert streak.is_action_due(4.0)
    assert not streak.is_action_due(4.0, 60.0)


def streak_of(*samples: tuple[str, Process | None]) -> hang_detection.SameDiagnosisStreak:
    streak = hang_detection.SameDiagnosisStreak()
    for moment, (sample_kind, process) in enumerate(samples):
        streak = streak.streak_after_diagnosis(
            hang_detection.HangDiagnosis("active", sample_kind, ""), process, float(moment)
        )
    return streak


def test_watchdog_action_is_due_after_three_hung_samples_of_same_process() -> None:
    assert not streak_of(("hung", ALIVE), ("hung", ALIVE)).is_action_due(2)
    assert streak_of(("hung", ALIVE), ("hung", FROZEN), ("hung", ALIVE)).is_action_due(2)


@pytest.mark.parametrize("between", [("fine", ALIVE), ("odd", ALIVE), ("hung", replace(ALIVE, started=2.0))])
def test_other_sample_in_between_resets_streak(between: tuple[str, Process]) -> None:
    assert not streak_of(("hung", ALIVE), ("hung", ALIVE), between, ("hung", ALIVE), ("hung", ALIVE)).is_action_due(4)


def test_hang_of_pure_master_without_slave_starts_new_streak_after_other_odd_samples() -> None:
    streak = streak_of(("odd", ALIVE), ("odd", ALIVE), ("odd", ALIVE))
    hung = hang_detection.HangDiagnosis("hung", "odd", "", is_hung_without_slave=True)
    for moment, lasted in ((3.0, False), (4.0, False), (5.0, True)):
        streak = streak.streak_after_diagnosis(hung, ALIVE, moment)
        assert streak.has_lasted(moment) == lasted


def test_watchdog_reports_lasting_problem_again_after_ten_minutes() -> None:
    streak = replace(streak_of(*[("hung", ALIVE)] * 3), logged_at=2.0)
    assert not streak.is_action_due(600)
    assert streak.is_action_due(602)


def test_watchdog_does_not_kill_broker_fourth_time_within_hour() -> None:
    assert hang_detection.can_kill_again([10, 20], 30)
    assert not hang_detection.can_kill_again([10, 20, 30], 40)
    assert hang_detection.can_kill_again([10, 20, 30], 3611)


@pytest.mark.parametrize(
    ("action", "ha", "kills", "remedy"),
    [
        (
            "warn",
            "shared-file",
            True,
            "because activemq_watchdog is warn. To kill the broker, run systemctl kill --signal=KILL x.service",
        ),
        (
            "kill",
            "shared-file",
            True,
            "its standby takes over only when this broker stops. The watchdog kills it; systemd starts it",
        ),
        ("kill", "pure", True, "The watchdog kills it; run the playbook resync to restore the pair"),
        ("kill", "none", False, "killed this broker 3 times within an hour, and does not kill it again"),
    ],
)
def test_journal_message_of_watchdog_has_state_and_remedy(action: str, ha: str, kills: bool, remedy: str) -> None:
    line = hang_detection.format_hung_broker_message(
        "seen", action=action, ha=ha, unit="x.service", seconds=24.4, kills=kills
    )
    assert line.startswith("the broker is hung: 3 checks in 24 s got no answer; seen. ")
    assert remedy in line


# -- the program, with a process in place of a broker ----------------------------------------------


XML = """<beans><broker><transportConnectors>
<transportConnector name="stomp" uri="stomp://127.0.0.1:{port}"/>
<transportConnector name="replication" uri="nio://127.0.0.1:{replication}"/>
</transportConnectors></broker></beans>"""
STARTED = "Apache ActiveMQ 5.18.3 (x, ID:h-1-2-0:1) started"
WAITING = (
    "Database /srv/x/lock is locked by another server. This broker is now in slave mode waiting a lock to be acquired"
)


class Rig:
    """A directory as the collection installs it, and a process that is detected as its broker."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.replication = socket.create_server(("127.0.0.1", 0))
        ports = {"port": self.listener.getsockname()[1], "replication": self.replication.getsockname()[1]}
        (base / "versions/v/conf").mkdir(parents=True)
        (base / "versions/v/conf/activemq.xml").write_text(XML.format(**ports))
        (base / "current").symlink_to("versions/v")
        (base / "data").mkdir()
        command = [sys.executable, "-c", "import time; time.sleep(300)", f"-Dactivemq.base={base}", "start"]
        with (base / "data/console.log").open("w") as output:
            self.broker = subprocess.Popen(command, stdout=output)
        wait_for(lambda: find_broker_process(str(base)))

    def log(self, message: str) -> None:
        timestamp = time.strftime("%Y-%m-%d %H:%M:%S")
        with (self.base / "data/activemq.log").open("a") as file:
            file.write(f"{timestamp},001 | INFO  | {message} | {logger_of(message)} | main\n")

    def watchdog(self, action: str, ha: str = "shared-file", kills: Path | None = None) -> watchdog.Watchdog:
        options = parse_options(["--base", str(self.base), "--unit", "x.service", "--ha", ha, action])
        return watchdog.Watchdog(options, str(kills) if kills else None)

    def close_ports(self) -> None:
        """Close the ports: a broker that starts, stops or waits as standby has none open."""
        self.listener.close()
        self.replication.close()

    def stop(self) -> None:
        self.broker.kill()
        self.broker.wait()
        self.listener.close()
        self.replication.close()


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr(watchdog, "PROBE", 0.1)
    monkeypatch.setattr(watchdog, "_THREAD_DUMP_TIME", 0.05)
    monkeypatch.setattr(watchdog, "_KILL_TIMEOUT", 60)
    rig = Rig(tmp_path)
    try:
        yield rig
    finally:
        rig.stop()


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def freeze_broker(rig: Rig) -> None:
    rig.broker.send_signal(signal.SIGSTOP)
    wait_for(lambda: (broker_process := find_broker_process(str(rig.base))) and broker_process.state == "T")


def test_watchdog_kills_frozen_active_broker_at_third_check(
    rig: Rig, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rig.log(STARTED)
    freeze_broker(rig)
    broker_watchdog = rig.watchdog("kill", kills=tmp_path / "kills")
    broker_watchdog.check_broker()
    broker_watchdog.check_broker()
    assert rig.broker.poll() is None
    broker_watchdog.check_broker()
    assert rig.broker.wait(60) == -signal.SIGKILL
    assert "<3>the broker is hung: 3 checks" in capfd.readouterr().out
    assert len(watchdog.read_kill_times_in_seconds_since_boot(str(tmp_path / "kills"))) == 1


def test_watchdog_kills_silent_active_broker_after_thread_dump(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    signals: list[signal.Signals] = []

    def record_signal(handle: int | None, target: Process, signal_number: signal.Signals) -> None:
        signals.append(signal_number)
        if signal_number != signal.SIGQUIT:  # SIGQUIT would terminate this process, which is no JVM
            send_signal(handle, target, signal_number)

    monkeypatch.setattr(watchdog, "send_signal", record_signal)
    rig.log(STARTED)
    broker_watchdog = rig.watchdog("kill")
    for _ in range(3):
        broker_watchdog.check_broker()
    assert rig.broker.wait(60) == -signal.SIGKILL
    assert signals == [signal.SIGQUIT, signal.SIGKILL]


def test_watchdog_with_action_warn_warns_once_and_does_not_kill(rig: Rig, capfd: pytest.CaptureFixture[str]) -> None:
    rig.log(STARTED)
    freeze_broker(rig)
    broker_watchdog = rig.watchdog("warn")
    for _ in range(6):
        broker_watchdog.check_broker()
    assert rig.broker.poll() is None
    (line,) = capfd.readouterr().out.splitlines()
    assert "systemctl kill --signal=KILL x.service" in line


@pytest.mark.parametrize(
    "message", ["KahaDB is version 7", WAITING, "Apache ActiveMQ 5.18.3 (x, ID:h) is shutting down"]
)
def test_starting_waiting_or_stopping_broker_without_ports_is_not_killed(rig: Rig, message: str) -> None:
    rig.log(STARTED)
    rig.log("Using Persistence Adapter: KahaDBPersistenceAdapter[/srv/x]")
    rig.log(message)
    rig.close_ports()
    freeze_broker(rig)
    broker_watchdog = rig.watchdog("kill")
    for _ in range(4):
        broker_watchdog.check_broker()
    assert rig.broker.poll() is None


FORGED = (
    "Using Persistence Adapter: KahaDBPersistenceAdapter[/srv/x]",
    WAITING,
    "Apache ActiveMQ 5.18.3 (x, ID:h) is shutting down",
    "Apache ActiveMQ 5.18.3 (x, ID:h) is shutdown",
)


@pytest.mark.parametrize("forged", FORGED)
def test_forged_log_does_not_prevent_kill_of_frozen_broker_with_open_ports(rig: Rig, forged: str) -> None:
    rig.log(STARTED)
    rig.log(forged)
    freeze_broker(rig)
    broker_watchdog = rig.watchdog("kill")
    for _ in range(3):
        broker_watchdog.check_broker()
    assert rig.broker.wait(60) == -signal.SIGKILL


@some_situations(1)
@pytest.mark.parametrize("forged", FORGED)
def test_forged_log_only_delays_kill_of_silent_broker_with_open_ports(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, forged: str
) -> None:
    monkeypatch.setattr(hang_detection, "WATCH_BUSY", 2.0)
    rig.log(STARTED)
    rig.log(forged)
    broker_watchdog = rig.watchdog("kill")
    broker_watchdog.check_broker()
    deadline = time.monotonic() + 60
    while rig.broker.poll() is None and time.monotonic() < deadline:
        broker_watchdog.check_broker()
    # SIGQUIT makes a JVM print its threads, but terminates the process in place of the broker.
    assert rig.broker.wait(60) in (-signal.SIGKILL, -signal.SIGQUIT)


def test_pure_master_is_killed_only_while_slave_is_attached(rig: Rig) -> None:
    rig.log(STARTED)
    freeze_broker(rig)
    broker_watchdog = rig.watchdog("kill", ha="pure")
    for _ in range(4):
        broker_watchdog.check_broker()
    assert rig.broker.poll() is None
    with socket.create_connection(rig.replication.getsockname()):
        for _ in range(3):
            broker_watchdog.check_broker()
        assert rig.broker.wait(60) == -signal.SIGKILL


def test_kill_limit_applies_across_restarts_of_watchdog(rig: Rig, tmp_path: Path) -> None:
    rig.log(STARTED)
    freeze_broker(rig)
    now = seconds_since_boot()
    watchdog.write_kill_times(str(tmp_path / "kills"), [now - 30, now - 20, now - 10])
    broker_watchdog = rig.watchdog("kill", kills=tmp_path / "kills")
    for _ in range(4):
        broker_watchdog.check_broker()
    assert rig.broker.poll() is None


def test_watchdog_does_not_kill_process_with_reused_pid(rig: Rig) -> None:
    broker_process = find_broker_process(str(rig.base))
    assert broker_process is not None
    assert not watchdog.try_kill_with_thread_dump(replace(broker_process, started=broker_process.started - 5))
    assert rig.broker.poll() is None


def test_watchdog_without_pidfd_verifies_process_before_each_signal(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    broker_process = find_broker_process(str(rig.base))
    assert broker_process is not None
    send_signal(None, replace(broker_process, started=broker_process.started - 5), signal.SIGKILL)
    assert rig.broker.poll() is None
    assert watchdog.try_kill_with_thread_dump(broker_process)


def test_watchdog_detects_slave_of_pure_master_by_its_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        listener = Listener("replication", "nio", server.getsockname())
        assert not watchdog.has_connected_client(listener)
        with socket.create_connection(server.getsockname()):
            assert watchdog.has_connected_client(listener)
    assert not watchdog.has_connected_client(None)


@pytest.mark.parametrize(
    ("scheme", "replies"), [("stomp", (b"CONNECTED\n\n\0\n",)), ("mqtt", (b"\x20\x02\0\0", b"\x90\x03\0\x01\0"))]
)
def test_broker_that_greets_without_delivering_message_has_greeted(scheme: str, replies: tuple[bytes, ...]) -> None:
    with serve_replies(*replies) as address:
        probe_answer = probe.probe_connector(scheme, address, Login(), timeout=3)
    assert (probe_answer.answered, probe_answer.returned, probe_answer.greeted) == (False, False, True)


def test_silent_broker_has_not_greeted() -> None:
    with serve_replies() as address:
        probe_answer = probe.probe_connector("stomp", address, Login(), timeout=0.2)
    assert (probe_answer.returned, probe_answer.greeted) == (False, False)


@contextlib.contextmanager
def serve_replies(*replies: bytes) -> Iterator[tuple[str, int]]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            for reply in replies:
                connection.recv(4096)
                connection.sendall(reply)
            while connection.recv(4096):
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()
    thread.join(60)
    listener.close()


# -- the records in the store -----------------------------------------------------------------------

GAUGE = "activemq_watchdog_subscriptions_at_risk{}"


def add_store(rig: Rig) -> Path:
    """Add a store to the configuration of the broker, and return its directory."""
    store = rig.base / "store"
    configuration = rig.base / "versions/v/conf/activemq.xml"
    activemq_xml = configuration.read_text()
    kahadb = f'<persistenceAdapter><kahaDB directory="{store}"/></persistenceAdapter></broker>'
    configuration.write_text(activemq_xml.replace("</broker>", kahadb))
    store.mkdir()
    return store


def metrics_reader(rig: Rig, ha: str = "none") -> Callable[[], str]:
    """Return a function that makes the watchdog check its broker, and returns its metrics."""
    metrics = rig.base / "metrics.prom"
    options = ["--base", str(rig.base), "--unit", "x", "--ha", ha, "--metrics", str(metrics), "warn"]
    broker_watchdog = watchdog.Watchdog(parse_options(options), None)

    def check_and_read_metrics() -> str:
        broker_watchdog.check_broker()
        return metrics.read_text()

    return check_and_read_metrics


@pytest.mark.parametrize("ha", ["none", "pure"])
def test_watchdog_metrics_show_hung_broker_also_if_no_slave_would_take_over(rig: Rig, ha: str) -> None:
    rig.log(STARTED)
    read_metrics = metrics_reader(rig, ha)
    assert "activemq_watchdog_hung{} 0\n" in read_metrics()
    freeze_broker(rig)
    texts = [read_metrics() for _ in range(timeouts.MISSES)]
    assert "activemq_watchdog_hung{} 0\n" in texts[0]
    assert "activemq_watchdog_hung{} 1\n" in texts[-1]


def test_watchdog_metrics_count_subscriptions_at_risk_until_record_is_removed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "_STORE_READ_INTERVAL", 0.0)
    store = add_store(rig)
    risk = RebuildRisk({("prices", "reporting:daily"): 2, ("orders", "x:y"): None}, is_complete=True)
    path = Path(record_rebuild_risk(str(store), str(store), "", risk))
    read_metrics = metrics_reader(rig)
    wait_for(lambda: f"{GAUGE} 2\n" in read_metrics())
    path.unlink()
    wait_for(lambda: f"{GAUGE} 0\n" in read_metrics())


def test_unresponsive_store_delays_no_watchdog_check_of_broker(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_STORE_READ_INTERVAL", 0.0)
    add_store(rig)
    read_directories, response = [], threading.Event()

    def hang(directory: str) -> list[object]:
        read_directories.append(directory)
        assert response.wait(600), "timed out"
        return []

    monkeypatch.setattr(watchdog, "read_newest_risk_records_of_store", hang)
    read_metrics = metrics_reader(rig)
    wait_for(lambda: read_metrics() and read_directories)
    metrics = [read_metrics() for _ in range(3)]
    assert len(read_directories) == 1
    assert all("activemq_watchdog_hung" in text and GAUGE not in text for text in metrics)
    response.set()
    wait_for(lambda: f"{GAUGE} 0\n" in read_metrics())


# -- the file on the host ---------------------------------------------------------------------------


def test_watchdog_program_is_single_file_that_needs_only_python(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "activemq-watchdog"
    path.write_bytes(watchdog_program_content(sys.executable))
    path.chmod(0o755)
    rig.log(STARTED)
    freeze_broker(rig)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)
        options = ["--base", str(rig.base), "--unit", "x.service", "--ha", "none", "--every", "0.1", "kill"]
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "RUNTIME_DIRECTORY": str(tmp_path), "PATH": ""}
        with subprocess.Popen([str(path), *options], env=environment, cwd="/", stdout=subprocess.PIPE) as running:
            try:
                assert systemd.recv(4096) == b"READY=1"
                assert systemd.recv(4096).endswith(b"\nWATCHDOG=1")
                assert rig.broker.wait(60) == -signal.SIGKILL
            finally:
                running.kill()
    assert (tmp_path / "kills").exists()


def test_watchdog_program_is_reproducible() -> None:
    assert watchdog_program_content("/usr/bin/python3") == watchdog_program_content("/usr/bin/python3")
    assert watchdog_program_content("/usr/bin/python3").startswith(b"#!/usr/bin/python3 -I\nPK")
