"""The watchdog: what it takes for a hung broker, what it kills, and what it never touches."""

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
from activemq_fleet.node.log.broker_run import UNKNOWN, Phase
from activemq_fleet.node.probe import connector_probe as probe
from activemq_fleet.node.process.proc import Process, find_broker_process, seconds_since_boot, send_signal
from activemq_fleet.node.watchdog import hang_detection, program, watchdog
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


def kind(
    process: Process | None,
    phase: str,
    *answers: probe.ProbeAnswer,
    known: bool = False,
    slave: bool | None = None,
    listens: bool = False,
) -> str:
    named = {f"connector{number}": answer for number, answer in enumerate(answers)}
    said = UNKNOWN if phase == "unknown" else Phase(phase, "a record")
    evidence = Evidence(process, said, named, listens=listens, has_answered=known)
    diagnosis = hang_detection.classify_sample(hang_detection.WatchdogSample(evidence, slave))
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
        (ALIVE, "unknown", (SILENT,), True, None, "hung"),  # its log has rolled since it answered
        (ALIVE, "unknown", (SILENT,), False, None, "odd"),  # nobody knows whether it ever served
        (FROZEN, "started", (), True, None, "hung"),
        (FROZEN, "waiting", (), False, None, "odd"),  # a standby that holds nothing
        (FROZEN, "starting", (), False, None, "odd"),
        (ALIVE, "waiting", (CLOSED, CLOSED), False, None, "idle"),
        (ALIVE, "starting", (SILENT,), True, None, "idle"),  # its store is being recovered
        (ALIVE, "stopping", (SILENT,), True, None, "idle"),
        (ALIVE, "started", (FULL, GREETS), True, None, "odd"),
        (ALIVE, "started", (FULL, SILENT), True, None, "odd"),
        (ALIVE, "started", (SILENT, GREETS), True, None, "odd"),  # its STOMP connections may be used up
        (ALIVE, "started", (CLOSED,), True, None, "idle"),
        (ALIVE, "started", (), True, None, "idle"),
        (ALIVE, "started", (SILENT,), True, True, "hung"),
        (ALIVE, "started", (SILENT,), True, False, "odd"),  # a pure master without a slave
        (FROZEN, "started", (), True, False, "odd"),
        (FROZEN, "attached", (), False, False, "odd"),
    ],
)
def test_what_a_look_shows(
    process: Process | None,
    phase: str,
    answers: tuple[probe.ProbeAnswer, ...],
    known: bool,
    slave: bool | None,
    expected: str,
) -> None:
    assert kind(process, phase, *answers, known=known, slave=slave) == expected


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
    assert kind(process, phase, *answers, known=known, slave=slave) != "hung"


@given(st.sampled_from(["started", "unknown"]), ANSWERS, st.booleans())
def test_a_broker_that_greets_on_any_connector_is_never_hung(
    phase: str, answers: list[probe.ProbeAnswer], known: bool
) -> None:
    expected = any(answer is SILENT for answer in answers) and not any(answer.greeted for answer in answers)
    assert (kind(ALIVE, phase, *answers, known=known) == "hung") == (expected and (known or phase == "started"))


@given(
    st.sampled_from(
        ["begin", "waiting", "starting", "started", "attached", "stopping", "stopped", "failed", "unknown"]
    ),
    st.booleans(),
    st.sampled_from([None, True]),
)
def test_whatever_its_log_says_a_frozen_broker_with_open_ports_is_hung(
    phase: str, known: bool, slave: bool | None
) -> None:
    assert kind(FROZEN, phase, known=known, slave=slave, listens=True) == "hung"


def test_a_silent_broker_with_open_ports_that_says_it_starts_or_ends_has_a_while() -> None:
    for phase, patience in (
        ("starting", timeouts.WATCH_BUSY),
        ("stopping", timeouts.WATCH_BUSY),
        ("waiting", 0),
        ("started", 0),
    ):
        evidence = Evidence(ALIVE, Phase(phase, "x"), {"stomp": SILENT}, listens=True)
        diagnosis = hang_detection.classify_sample(hang_detection.WatchdogSample(evidence))
        assert (diagnosis.kind, diagnosis.patience) == ("hung", patience)
    count = counted(*[("hung", ALIVE)] * 4)
    assert count.is_action_due(4.0)
    assert not count.is_action_due(4.0, 60.0)


def counted(*looks: tuple[str, Process | None]) -> hang_detection.SampleStreak:
    count = hang_detection.SampleStreak()
    for moment, (kind, process) in enumerate(looks):
        count = count.streak_after_sample(hang_detection.HangDiagnosis("active", kind, ""), process, float(moment))
    return count


def test_three_misses_in_a_row_of_one_process_are_due_and_two_are_not() -> None:
    assert not counted(("hung", ALIVE), ("hung", ALIVE)).is_action_due(2)
    assert counted(("hung", ALIVE), ("hung", FROZEN), ("hung", ALIVE)).is_action_due(2)


@pytest.mark.parametrize("between", [("fine", ALIVE), ("odd", ALIVE), ("hung", replace(ALIVE, started=2.0))])
def test_anything_else_in_between_begins_anew(between: tuple[str, Process]) -> None:
    assert not counted(("hung", ALIVE), ("hung", ALIVE), between, ("hung", ALIVE), ("hung", ALIVE)).is_action_due(4)


def test_what_lasts_is_said_again_every_ten_minutes() -> None:
    told = replace(counted(*[("hung", ALIVE)] * 3), told=2.0)
    assert not told.is_action_due(600)
    assert told.is_action_due(602)


def test_no_broker_is_killed_a_fourth_time_within_an_hour() -> None:
    assert hang_detection.can_kill_again([10, 20], 30)
    assert not hang_detection.can_kill_again([10, 20, 30], 40)
    assert hang_detection.can_kill_again([10, 20, 30], 3611)


@pytest.mark.parametrize(
    ("action", "ha", "kills", "said"),
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
def test_the_journal_says_state_and_remedy(action: str, ha: str, kills: bool, said: str) -> None:
    line = hang_detection.hung_broker_message("seen", action=action, ha=ha, unit="x.service", seconds=24.4, kills=kills)
    assert line.startswith("the broker is hung: 3 checks in 24 s got no answer; seen. ")
    assert said in line


# -- the program, on a process that stands in for a broker -----------------------------------------


XML = """<beans><broker><transportConnectors>
<transportConnector name="stomp" uri="stomp://127.0.0.1:{port}"/>
<transportConnector name="replication" uri="nio://127.0.0.1:{replication}"/>
</transportConnectors></broker></beans>"""
STARTED = "Apache ActiveMQ 5.18.3 (x, ID:h-1-2-0:1) started"
WAITING = (
    "Database /srv/x/lock is locked by another server. This broker is now in slave mode waiting a lock to be acquired"
)


class Rig:
    """A directory as the collection installs it, and a process that is found as its broker."""

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
        eventually(lambda: find_broker_process(str(base)))

    def log(self, message: str) -> None:
        when = time.strftime("%Y-%m-%d %H:%M:%S")
        with (self.base / "data/activemq.log").open("a") as file:
            file.write(f"{when},001 | INFO  | {message} | {logger_of(message)} | main\n")

    def watchdog(self, action: str, ha: str = "shared-file", kills: Path | None = None) -> watchdog.Watchdog:
        options = watchdog._options(["--base", str(self.base), "--unit", "x.service", "--ha", ha, action])
        return watchdog.Watchdog(options, str(kills) if kills else None)

    def close_ports(self) -> None:
        """As those of a broker are that starts, stands by or ends."""
        self.listener.close()
        self.replication.close()

    def end(self) -> None:
        self.broker.kill()
        self.broker.wait()
        self.listener.close()
        self.replication.close()


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr(watchdog, "PROBE", 0.1)
    monkeypatch.setattr(watchdog, "_DUMP", 0.05)
    monkeypatch.setattr(watchdog, "_GONE", 60)
    rig = Rig(tmp_path)
    try:
        yield rig
    finally:
        rig.end()


def eventually(look: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not look() and time.monotonic() < end:
        time.sleep(0.02)
    assert look()


def stopped(rig: Rig) -> None:
    rig.broker.send_signal(signal.SIGSTOP)
    eventually(lambda: (broker_process := find_broker_process(str(rig.base))) and broker_process.state == "T")


def test_an_active_broker_that_was_stopped_by_a_signal_is_killed_at_the_third_look(
    rig: Rig, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rig.log(STARTED)
    stopped(rig)
    dog = rig.watchdog("kill", kills=tmp_path / "kills")
    dog.check_broker()
    dog.check_broker()
    assert rig.broker.poll() is None
    dog.check_broker()
    assert rig.broker.wait(60) == -signal.SIGKILL
    assert "<3>the broker is hung: 3 checks" in capfd.readouterr().out
    assert len(watchdog.read_kill_times(str(tmp_path / "kills"))) == 1


def test_an_active_broker_that_says_nothing_is_killed_after_a_dump_of_its_threads(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[signal.Signals] = []

    def noting(handle: int | None, target: Process, number: signal.Signals) -> None:
        sent.append(number)
        if number != signal.SIGQUIT:  # which ends what is no JVM
            send_signal(handle, target, number)

    monkeypatch.setattr(watchdog, "send_signal", noting)
    rig.log(STARTED)
    dog = rig.watchdog("kill")
    for _ in range(3):
        dog.check_broker()
    assert rig.broker.wait(60) == -signal.SIGKILL
    assert sent == [signal.SIGQUIT, signal.SIGKILL]


def test_warn_only_warns_and_once(rig: Rig, capfd: pytest.CaptureFixture[str]) -> None:
    rig.log(STARTED)
    stopped(rig)
    dog = rig.watchdog("warn")
    for _ in range(6):
        dog.check_broker()
    assert rig.broker.poll() is None
    (line,) = capfd.readouterr().out.splitlines()
    assert "systemctl kill --signal=KILL x.service" in line


@pytest.mark.parametrize(
    "message", ["KahaDB is version 7", WAITING, "Apache ActiveMQ 5.18.3 (x, ID:h) is shutting down"]
)
def test_a_broker_that_starts_stands_by_or_ends_is_left_alone(rig: Rig, message: str) -> None:
    rig.log(STARTED)
    rig.log("Using Persistence Adapter: KahaDBPersistenceAdapter[/srv/x]")
    rig.log(message)
    rig.close_ports()
    stopped(rig)
    dog = rig.watchdog("kill")
    for _ in range(4):
        dog.check_broker()
    assert rig.broker.poll() is None


FORGED = (
    "Using Persistence Adapter: KahaDBPersistenceAdapter[/srv/x]",
    WAITING,
    "Apache ActiveMQ 5.18.3 (x, ID:h) is shutting down",
    "Apache ActiveMQ 5.18.3 (x, ID:h) is shutdown",
)


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_log_does_not_keep_a_frozen_broker_with_open_ports_alive(rig: Rig, forged: str) -> None:
    rig.log(STARTED)
    rig.log(forged)
    stopped(rig)
    dog = rig.watchdog("kill")
    for _ in range(3):
        dog.check_broker()
    assert rig.broker.wait(60) == -signal.SIGKILL


@some_situations(1)
@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_log_keeps_a_silent_broker_with_open_ports_alive_for_a_while_only(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, forged: str
) -> None:
    monkeypatch.setattr(hang_detection, "WATCH_BUSY", 2.0)
    rig.log(STARTED)
    rig.log(forged)
    dog = rig.watchdog("kill")
    dog.check_broker()
    until = time.monotonic() + 60
    while rig.broker.poll() is None and time.monotonic() < until:
        dog.check_broker()
    # What stands in for a broker ends by the signal that makes a JVM print its threads.
    assert rig.broker.wait(60) in (-signal.SIGKILL, -signal.SIGQUIT)


def test_a_pure_master_is_killed_only_while_a_slave_is_attached(rig: Rig) -> None:
    rig.log(STARTED)
    stopped(rig)
    dog = rig.watchdog("kill", ha="pure")
    for _ in range(4):
        dog.check_broker()
    assert rig.broker.poll() is None
    with socket.create_connection(rig.replication.getsockname()):
        for _ in range(3):
            dog.check_broker()
        assert rig.broker.wait(60) == -signal.SIGKILL


def test_the_brake_holds_over_restarts_of_the_watchdog(rig: Rig, tmp_path: Path) -> None:
    rig.log(STARTED)
    stopped(rig)
    now = seconds_since_boot()
    watchdog.write_kills(str(tmp_path / "kills"), [now - 30, now - 20, now - 10])
    dog = rig.watchdog("kill", kills=tmp_path / "kills")
    for _ in range(4):
        dog.check_broker()
    assert rig.broker.poll() is None


def test_a_process_that_only_has_the_number_is_not_killed(rig: Rig) -> None:
    broker_process = find_broker_process(str(rig.base))
    assert broker_process is not None
    assert not watchdog.kill_with_thread_dump(replace(broker_process, started=broker_process.started - 5))
    assert rig.broker.poll() is None


def test_without_a_handle_of_the_kernel_the_process_is_looked_at_before_each_signal(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    broker_process = find_broker_process(str(rig.base))
    assert broker_process is not None
    send_signal(None, replace(broker_process, started=broker_process.started - 5), signal.SIGKILL)
    assert rig.broker.poll() is None
    assert watchdog.kill_with_thread_dump(broker_process)


def test_the_slave_of_a_master_is_seen_by_its_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        listener = Listener("replication", "nio", server.getsockname())
        assert not watchdog.has_connected_client(listener)
        with socket.create_connection(server.getsockname()):
            assert watchdog.has_connected_client(listener)
    assert not watchdog.has_connected_client(None)


@pytest.mark.parametrize(
    ("scheme", "replies"), [("stomp", (b"CONNECTED\n\n\0\n",)), ("mqtt", (b"\x20\x02\0\0", b"\x90\x03\0\x01\0"))]
)
def test_a_broker_that_greets_and_holds_the_message_back_has_greeted(scheme: str, replies: tuple[bytes, ...]) -> None:
    with answering(*replies) as address:
        answer = probe.probe_connector(scheme, address, Login(), timeout=3)
    assert (answer.answered, answer.returned, answer.greeted) == (False, False, True)


def test_a_broker_that_never_speaks_has_not_greeted() -> None:
    with answering() as address:
        answer = probe.probe_connector("stomp", address, Login(), timeout=0.2)
    assert (answer.returned, answer.greeted) == (False, False)


@contextlib.contextmanager
def answering(*replies: bytes) -> Iterator[tuple[str, int]]:
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


# -- the records in its store -----------------------------------------------------------------------

GAUGE = "activemq_watchdog_subscriptions_at_risk{}"


def store_of(rig: Rig) -> Path:
    """The broker's store, which a new version of its configuration names."""
    store = rig.base / "store"
    configuration = rig.base / "versions/v/conf/activemq.xml"
    text = configuration.read_text()
    kahadb = f'<persistenceAdapter><kahaDB directory="{store}"/></persistenceAdapter></broker>'
    configuration.write_text(text.replace("</broker>", kahadb))
    store.mkdir()
    return store


def metrics_of(rig: Rig) -> Callable[[], str]:
    """Return a function that has the watchdog check its broker, and returns its metrics."""
    metrics = rig.base / "metrics.prom"
    options = ["--base", str(rig.base), "--unit", "x", "--ha", "none", "--metrics", str(metrics), "warn"]
    watching = watchdog.Watchdog(watchdog._options(options), None)

    def look() -> str:
        watching.check_broker()
        return metrics.read_text()

    return look


def test_metrics_count_subscriptions_at_risk_until_record_is_removed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_STORE", 0.0)
    store = store_of(rig)
    risk = RebuildRisk({("prices", "reporting:daily"): 2, ("orders", "x:y"): None}, is_complete=True)
    path = Path(record_rebuild_risk(str(store), str(store), "", risk))
    look = metrics_of(rig)
    eventually(lambda: f"{GAUGE} 2\n" in look())
    path.unlink()
    eventually(lambda: f"{GAUGE} 0\n" in look())


def test_store_that_does_not_answer_delays_no_check_of_the_broker(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_STORE", 0.0)
    store_of(rig)
    asked, answer = [], threading.Event()

    def hang(directory: str) -> list[object]:
        asked.append(directory)
        assert answer.wait(600), "timed out"
        return []

    monkeypatch.setattr(watchdog, "read_newest_risk_records_of_store", hang)
    look = metrics_of(rig)
    eventually(lambda: look() and asked)
    checked = [look() for _ in range(3)]
    assert len(asked) == 1
    assert all("activemq_watchdog_hung" in text and GAUGE not in text for text in checked)
    answer.set()
    eventually(lambda: f"{GAUGE} 0\n" in look())


# -- the file on the host ---------------------------------------------------------------------------


def test_the_program_is_one_file_that_needs_nothing_but_python(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "activemq-watchdog"
    path.write_bytes(program.watchdog_program(sys.executable))
    path.chmod(0o755)
    rig.log(STARTED)
    stopped(rig)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)
        words = ["--base", str(rig.base), "--unit", "x.service", "--ha", "none", "--every", "0.1", "kill"]
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "RUNTIME_DIRECTORY": str(tmp_path), "PATH": ""}
        with subprocess.Popen([str(path), *words], env=environment, cwd="/", stdout=subprocess.PIPE) as running:
            try:
                assert systemd.recv(4096) == b"READY=1"
                assert systemd.recv(4096).endswith(b"\nWATCHDOG=1")
                assert rig.broker.wait(60) == -signal.SIGKILL
            finally:
                running.kill()
    assert (tmp_path / "kills").exists()


def test_the_same_sources_give_the_same_bytes() -> None:
    assert program.watchdog_program("/usr/bin/python3") == program.watchdog_program("/usr/bin/python3")
    assert program.watchdog_program("/usr/bin/python3").startswith(b"#!/usr/bin/python3 -I\nPK")
