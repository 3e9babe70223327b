"""Handlers: their selection, order and attempts, and the effects of faulty handlers on others."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from activemq_agent.agent_errors import AgentError
from activemq_agent.executable_handlers import HandlerEvent, find_event_program, handler_safety_problems
from activemq_agent.handling import MessageHandlerRunner
from tests.waiting import PATIENCE, within

from .handler_bench import TOPICS, HandlerBench
from .logged import make_config
from .store_clock import receive


def test_handler_program_receives_event_as_json_and_number_of_attempt(bench: HandlerBench, tmp_path: Path) -> None:
    bench.write_program("Started", f'cat > {tmp_path}/seen; echo "$ATTEMPT $EVENT_ID $TOPIC" > {tmp_path}/env')
    bench.receive("a/x/Started", b'{"eventId": "e1", "n": 1}')
    bench.start()
    bench.wait_empty()
    standard_input = json.loads((tmp_path / "seen").read_text())
    assert standard_input == {
        "event_id": "e1", "rx_id": standard_input["rx_id"], "topic": "a/x/Started",
        "payload": '{"eventId": "e1", "n": 1}', "attempt": 1,
    }  # fmt: skip
    assert (tmp_path / "env").read_text() == "1 e1 a/x/Started\n"


def test_handler_program_receives_binary_payload_in_base64(bench: HandlerBench, tmp_path: Path) -> None:
    bench.write_program("E", f"cat > {tmp_path}/seen")
    bench.receive("a/E", b"\xff\x00")
    bench.start()
    bench.wait_empty()
    assert json.loads((tmp_path / "seen").read_text())["payload_base64"] == "/wA="


def test_python_handler_receives_event(bench: HandlerBench) -> None:
    handled_events: list[HandlerEvent] = []
    bench.receive("a/E", b'{"eventId": "e1"}')
    bench.start({"E": [handled_events.append]})
    bench.wait_empty()
    assert [(event.event_id, event.topic, event.payload, event.attempt) for event in handled_events] == [
        ("e1", "a/E", b'{"eventId": "e1"}', 1)
    ]


def test_event_without_handler_is_recorded_as_handled_and_counted(bench: HandlerBench) -> None:
    bench.receive("a/Nobody", b'{"eventId": "e1"}')
    handlers = bench.start()
    bench.wait_empty()
    bench.wait_until(lambda: (handlers.without_handler, handlers.handled) == (1, 0))
    assert [record["event_id"] for record in bench.journal("handled")] == ["e1"]
    assert bench.journal("handling") == []


def test_events_with_and_without_handler_are_handled_in_order_of_receipt(bench: HandlerBench) -> None:
    handled_payloads: list[bytes] = []
    for number in range(130):
        bench.receive("a/E" if number % 5 == 0 else "a/Nobody", b'{"eventId": "%d"}' % number)
    handlers = bench.start({"E": [lambda event: handled_payloads.append(event.payload)]})
    bench.wait_until(lambda: (handlers.without_handler, handlers.handled) == (104, 26))
    bench.wait_empty()
    assert handled_payloads == [b'{"eventId": "%d"}' % number for number in range(0, 130, 5)]
    assert [record["event_id"] for record in bench.journal("handled")] == [str(number) for number in range(130)]


def test_events_of_filter_are_handled_in_order_of_receipt(bench: HandlerBench) -> None:
    handled_payloads: list[bytes] = []
    for number in range(130):
        bench.receive(f"a/{number % 7}/E", b"%d" % number)
    bench.start({"E": [lambda event: handled_payloads.append(event.payload)]})
    bench.wait_empty()
    assert handled_payloads == [b"%d" % number for number in range(130)]


def test_overlapping_filters_handle_each_event_once(bench: HandlerBench) -> None:
    handled_payloads: list[bytes] = []
    for number in range(60):
        bench.receive("a/b/E" if number % 2 else "a/c/E", b"%d" % number)
    bench.store.close()
    bench.store = bench.open(topics=("a/b/#", "a/#"))
    bench.start({"E": [lambda event: handled_payloads.append(event.payload)]}, topics=("a/b/#", "a/#"))
    bench.wait_empty()
    assert sorted(map(int, handled_payloads)) == list(range(60))


def test_pending_messages_of_topic_removed_from_configuration_are_handled(bench: HandlerBench) -> None:
    handled_topics: list[str] = []
    bench.receive("b/x/E")
    bench.receive("b/y/E")
    bench.store.close()
    bench.store = bench.open(topics=("a/#",))
    bench.start({"E": [lambda event: handled_topics.append(event.topic)]}, topics=("a/#",))
    bench.wait_empty()
    assert sorted(handled_topics) == ["b/x/E", "b/y/E"]


def test_slow_handler_blocks_only_its_filter(bench: HandlerBench) -> None:
    release_slow_handler, quick_handler_ran = threading.Event(), threading.Event()
    bench.start({"Slow": [lambda _: release_slow_handler.wait(100)], "Quick": [lambda _: quick_handler_ran.set()]})
    bench.receive("a/Slow")
    bench.receive("b/Quick")
    assert quick_handler_ran.wait(60)
    assert not release_slow_handler.is_set()
    assert bench.store.row_and_byte_counts().inbox_rows >= 1
    release_slow_handler.set()
    bench.wait_empty()


def test_event_of_failing_handler_is_quarantined_after_last_attempt(bench: HandlerBench) -> None:
    attempts: list[int] = []

    def fail(event: HandlerEvent) -> None:
        attempts.append(event.attempt)
        raise ValueError("no good")

    bench.receive("a/E", b'{"eventId": "bad"}')
    bench.receive("a/F", b'{"eventId": "behind"}')
    bench.start({"E": [fail]}, handler_attempts=3)
    bench.wait_empty()
    assert attempts == [1, 2, 3]
    (record,) = bench.journal("quarantined")
    assert (record["event_id"], record["reason"]) == ("bad", "ValueError: no good")
    assert [record["event_id"] for record in bench.journal("handled")] == ["behind"]
    assert bench.store.row_and_byte_counts().quarantined == 1


def test_event_is_handled_if_later_attempt_succeeds(bench: HandlerBench, tmp_path: Path) -> None:
    bench.write_program("E", f'echo x >> {tmp_path}/runs; test "$ATTEMPT" = 3')
    bench.receive("a/E")
    handlers = bench.start()
    bench.wait_empty()
    assert (tmp_path / "runs").read_text() == "x\n" * 3
    bench.wait_until(lambda: (handlers.handled, handlers.failures) == (1, 2))
    assert "E ended with code 1" in str(bench.log.records)


def test_handler_above_timeout_is_killed_with_its_children(bench: HandlerBench, tmp_path: Path) -> None:
    bench.write_program("E", f"sleep 300 & echo $! > {tmp_path}/child; wait")
    bench.receive("a/E")
    bench.start(handler_timeout=4.0, handler_attempts=1)
    bench.wait_empty()
    assert bench.journal("quarantined")[0]["reason"].startswith("the handler E did not end in 4 s and was killed")
    child = int((tmp_path / "child").read_text())
    bench.wait_until(lambda: not _is_alive(child))


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_handled_event_is_not_handled_again_after_restart(bench: HandlerBench) -> None:
    handled_ids: list[str | None] = []
    handler: dict[str, list[Callable[[HandlerEvent], object]]] = {
        "E": [lambda event: handled_ids.append(event.event_id)]
    }
    bench.receive("a/E", b'{"eventId": "once"}')
    handlers = bench.start(handler)
    bench.wait_empty()
    handlers.close(5.0)
    bench.store.close()
    bench.store = bench.open()
    assert receive(bench.store, "a/E", b'{"eventId": "once"}', conn=2).duplicate
    bench.start(handler)
    bench.receive("a/E", b'{"eventId": "next"}')
    bench.wait_empty()
    assert handled_ids == ["once", "next"]


def test_interrupted_handler_attempt_is_counted_and_event_is_handled_again(bench: HandlerBench) -> None:
    rx = bench.receive("a/E")
    assert bench.store.begin_handling_attempt(rx) == 1
    attempts: list[int] = []
    bench.start({"E": [lambda event: attempts.append(event.attempt)]})
    bench.wait_empty()
    assert attempts == [2]


def test_orderly_stops_do_not_quarantine_event_whose_handler_they_interrupt(
    bench: HandlerBench, tmp_path: Path
) -> None:
    bench.write_program("E", f'echo "$ATTEMPT" >> {tmp_path}/attempts; test -e {tmp_path}/done || exec sleep 300')
    (tmp_path / "attempts").touch()
    bench.receive("a/E")
    for number in range(1, 5):
        handlers = bench.start(handler_attempts=2)
        bench.wait_until(lambda: len((tmp_path / "attempts").read_text().split()) == number)  # noqa: B023
        handlers.close(0.0)
        assert handlers.failures == 0
    (tmp_path / "done").touch()
    bench.start(handler_attempts=2)
    bench.wait_empty()
    assert bench.journal("quarantined") == []
    assert (tmp_path / "attempts").read_text().split() == ["1", "2", "2", "2", "2"], (
        "the first attempt must stay recorded, because the interrupted handler may have had effects"
    )


def test_orderly_stops_do_not_quarantine_event_whose_python_handler_they_interrupt(bench: HandlerBench) -> None:
    began, release, attempts = threading.Semaphore(0), threading.Event(), list[int]()

    def handle(event: HandlerEvent) -> None:
        attempts.append(event.attempt)
        began.release()
        release.wait(100)

    rx = bench.receive("a/E")
    for _ in range(3):
        handlers = bench.start({"E": [handle]}, handler_attempts=2)
        assert began.acquire(timeout=60)
        handlers.close(0.0)
    assert attempts == [1, 2, 2]
    assert bench.store.begin_handling_attempt(rx) == 2
    release.set()


def test_event_that_stopped_agent_6_times_is_quarantined_without_attempt(bench: HandlerBench) -> None:
    rx = bench.receive("a/E")
    for _ in range(6):
        bench.store.begin_handling_attempt(rx)
    bench.start({"E": [lambda _: pytest.fail("the agent ran the handler")]})
    bench.wait_empty()
    assert bench.journal("quarantined")[0]["reason"].startswith(
        "the agent was stopped or killed, or crashed, 6 times while it ran the handlers of a "
    )


def test_stop_during_only_attempt_is_named_as_reason_of_quarantine(bench: HandlerBench, tmp_path: Path) -> None:
    bench.write_program("E", f"touch {tmp_path}/began; exec sleep 300")
    bench.receive("a/E")
    handlers = bench.start(handler_attempts=1)
    bench.wait_until(lambda: (tmp_path / "began").exists())
    handlers.close(0.0)
    bench.start(handler_attempts=1)
    bench.wait_empty()
    assert bench.journal("quarantined")[0]["reason"].startswith(
        "the agent was stopped or killed, or crashed, 1 time while it ran the handlers of a message on the topic 'a/E'"
    )


def test_sql_statements_of_handler_and_record_of_handling_are_atomic(bench: HandlerBench, tmp_path: Path) -> None:
    def count(event: HandlerEvent) -> None:
        event.execute("CREATE TABLE IF NOT EXISTS x_count (n INTEGER)")
        event.execute("INSERT INTO x_count VALUES (?)", (event.attempt,))
        if event.attempt == 1:
            raise ValueError("after its statements")

    bench.receive("a/E")
    bench.start({"E": [count]})
    bench.wait_empty()
    (database,) = (tmp_path / "state").glob("*.db")
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as db:
        assert db.execute("SELECT n FROM x_count").fetchall() == [(2,)]


def store_value(event: HandlerEvent) -> None:
    event.execute("CREATE TABLE IF NOT EXISTS x_value (value)")
    event.execute("INSERT INTO x_value VALUES (?)", (json.loads(event.payload)["value"],))


def raise_value(event: HandlerEvent) -> None:
    if (value := json.loads(event.payload)["value"]) != 1:
        raise ValueError(value)


def exit_on_value(event: HandlerEvent) -> None:
    if (value := json.loads(event.payload)["value"]) != 1:
        sys.exit(value)


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise AttributeError("no such attribute")


def raise_unreadable_error(event: HandlerEvent) -> None:
    if json.loads(event.payload)["value"] != 1:
        raise UnreadableError


def execute_bytes(event: HandlerEvent) -> None:
    if json.loads(event.payload)["value"] != 1:
        event.execute(b"SELECT 1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("handler", "value", "reason"),
    [
        (store_value, "99999999999999999999", "(OverflowError: Python int too large to convert to SQLite INTEGER)"),
        (store_value, r'"\ud800"', r"(UnicodeEncodeError: 'utf-8' codec can't encode character '\ud800' in position 0"),
        (store_value, "[1]", "(ProgrammingError: Error binding parameter 1: type 'list' is not supported)"),
        (execute_bytes, "0", "(TypeError: execute() argument 1 must be str, not bytes)"),
        (raise_value, r'"\ud800"', r"ValueError: \ud800"),
        (exit_on_value, "3", "SystemExit: 3"),
        (raise_unreadable_error, "0", "UnreadableError (the text of this error cannot be read)"),
    ],
)
def test_message_that_python_handler_cannot_process_is_quarantined(
    bench: HandlerBench, handler: Callable[[HandlerEvent], object], value: str, reason: str
) -> None:
    bench.receive("a/E", f'{{"value": {value}}}'.encode())
    bench.receive("a/E", b'{"eventId": "e2", "value": 1}')
    handlers = bench.start({"E": [handler]}, handler_attempts=2)
    bench.wait_empty()
    (record,) = bench.journal("quarantined")
    assert reason in record["reason"]
    assert "state.directory" not in record["reason"]
    assert [handled["event_id"] for handled in bench.journal("handled")] == ["e2"]
    assert handlers.failures == 2


def test_stop_kills_running_handler_and_keeps_event(bench: HandlerBench, tmp_path: Path) -> None:
    bench.write_program("E", f"touch {tmp_path}/began; sleep {PATIENCE:.0f}")
    bench.receive("a/E")
    handlers = bench.start()
    bench.wait_until(lambda: (tmp_path / "began").exists())
    within(PATIENCE / 2, lambda: handlers.close(0.2))
    assert bench.store.row_and_byte_counts().inbox_rows == 1
    assert handlers.failures == 0


def test_python_handler_above_timeout_stops_reported_progress_of_its_worker(
    bench: HandlerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activemq_agent.handling.SLACK", 0.0)
    release = threading.Event()
    bench.receive("a/E")
    handlers = bench.start({"E": [lambda _: release.wait(100)]}, handler_timeout=1.0)
    bench.wait_until(lambda: handlers.filters_with_overdue_handler == ("a/#",))
    earlier_loop_start = handlers.slowest_worker_last_iteration_start
    time.sleep(0.1)
    assert handlers.slowest_worker_last_iteration_start == earlier_loop_start
    release.set()
    bench.wait_empty()
    bench.wait_until(lambda: handlers.slowest_worker_last_iteration_start > earlier_loop_start)


def test_python_handler_within_timeout_keeps_reported_progress_of_its_worker(bench: HandlerBench) -> None:
    release, began = threading.Event(), threading.Event()
    bench.receive("a/E")

    def handle(_: HandlerEvent) -> None:
        began.set()
        release.wait(100)

    handlers = bench.start({"E": [handle]})
    assert began.wait(60)
    bench.wait_until(lambda: handlers.slowest_worker_last_iteration_start > time.monotonic() - 0.5)
    earlier_loop_start = handlers.slowest_worker_last_iteration_start
    bench.wait_until(lambda: handlers.slowest_worker_last_iteration_start > earlier_loop_start)
    release.set()


def test_worker_reports_progress_while_full_disk_prevents_record_of_handled_event(
    bench: HandlerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without reported progress, systemd would kill the agent, which would then run the handler again."""
    monkeypatch.setattr("activemq_agent.handling.IDLE", 0.01)
    attempts: list[int] = []
    bench.receive("a/E")
    with monkeypatch.context() as full_disk:
        full_disk.setattr(bench.store, "queue_handled_record", Mock(side_effect=AgentError("the disk is full")))
        handlers = bench.start({"E": [lambda event: attempts.append(event.attempt)]}, topics=("a/#",))
        bench.wait_until(lambda: "the disk is full" in str(bench.log.records))
        earlier_loop_start = handlers.slowest_worker_last_iteration_start
        bench.wait_until(lambda: handlers.slowest_worker_last_iteration_start > earlier_loop_start)
    bench.wait_empty()
    assert attempts == [1]


def test_installed_handler_that_exits_when_loaded_is_reported(
    bench: HandlerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = Mock(value="package:handle", load=Mock(side_effect=SystemExit(3)))
    point.name = "E"
    monkeypatch.setattr("activemq_agent.handling.entry_points", lambda group: [point])
    config = make_config(bench.directory, topics=TOPICS)
    with pytest.raises(AgentError, match=r"the handler E \(package:handle\) cannot be loaded: 3"):
        MessageHandlerRunner(config, bench.store, log=bench.log)


class TestPrograms:
    @pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "-x", "a b", "ä", "x" * 200, "a\0b"])
    def test_event_name_that_is_no_valid_file_name_has_no_handler_program(self, bench: HandlerBench, name: str) -> None:
        assert find_event_program(bench.programs, name) is None

    def test_missing_handler_program_is_not_found(self, bench: HandlerBench) -> None:
        assert find_event_program(bench.programs, "E") is None
        assert find_event_program(None, "E") is None

    @pytest.mark.parametrize("name", ["E", "a b", "x" * 300])
    def test_handler_in_missing_directory_is_error(self, bench: HandlerBench, name: str) -> None:
        directory = bench.programs / "nothing"
        message = rf"cannot find handlers in the directory {directory} \(No such file or directory\): create or mount"
        with pytest.raises(AgentError, match=message):
            find_event_program(directory, name)
        assert str(directory) in str(handler_safety_problems(directory))

    def test_handlers_below_file_are_error(self, bench: HandlerBench) -> None:
        path = bench.write_program("file", "true")
        with pytest.raises(AgentError, match=r"cannot find handlers in the directory .*/file \(Not a directory\)"):
            find_event_program(path, "E")

    def test_agent_with_topics_refuses_to_start_without_directory_of_handlers(self, bench: HandlerBench) -> None:
        for directory in (bench.programs / "nothing", bench.write_program("file", "true")):
            with pytest.raises(AgentError, match=f"cannot find handlers in the directory {directory} "):
                bench.start(handlers=directory)
            bench.start(handlers=directory, topics=())

    @pytest.mark.parametrize("name", ["Bestellung-geändert", "Order Created", "-x", "x" * 129])
    def test_handler_program_with_unsupported_name_is_refused(self, bench: HandlerBench, name: str) -> None:
        bench.write_program(name, "true")
        with pytest.raises(AgentError, match=r"the handler .*, because its name is not supported: rename it"):
            find_event_program(bench.programs, name)
        assert "because its name is not supported" in str(handler_safety_problems(bench.programs))

    def test_hidden_file_is_no_handler_program(self, bench: HandlerBench) -> None:
        (bench.programs / ".gitkeep").touch()
        assert find_event_program(bench.programs, ".gitkeep") is None
        assert handler_safety_problems(bench.programs) == []

    def test_event_is_quarantined_if_directory_of_handlers_disappears(self, bench: HandlerBench) -> None:
        bench.start(handler_attempts=2)
        bench.programs.rmdir()
        bench.receive("a/E")
        bench.wait_empty()
        assert bench.journal("handled") == []
        assert "cannot find handlers in the directory" in bench.journal("quarantined")[0]["reason"]

    @pytest.mark.parametrize(
        ("mode", "message"),
        [(0o757, "other users can write to it"), (0o775, "other users can write to it"), (0o644, "chmod \\+x")],
    )
    def test_handler_program_with_unsafe_mode_is_refused(self, bench: HandlerBench, mode: int, message: str) -> None:
        bench.write_program("E", "true", mode)
        with pytest.raises(AgentError, match=message):
            find_event_program(bench.programs, "E")

    def test_handler_program_that_is_directory_is_refused(self, bench: HandlerBench) -> None:
        (bench.programs / "E").mkdir(mode=0o755)
        with pytest.raises(AgentError, match="is not a regular file, so the agent cannot execute it"):
            find_event_program(bench.programs, "E")

    def test_handler_program_in_world_writable_directory_is_refused(self, bench: HandlerBench) -> None:
        bench.write_program("E", "true")
        bench.programs.chmod(0o777)
        with pytest.raises(AgentError, match=r"handlers\.d is part .*, but other users can write"):
            find_event_program(bench.programs, "E")

    def test_handler_program_of_another_user_is_refused(
        self, bench: HandlerBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = bench.write_program("E", "true")
        if os.geteuid() == 0:
            os.chown(path, 12345, 12345)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 12345)
        with pytest.raises(AgentError, match="belongs to neither root nor the agent's user"):
            find_event_program(bench.programs, "E")

    def test_event_with_unsafe_handler_program_is_quarantined(self, bench: HandlerBench) -> None:
        bench.write_program("E", "true", 0o757)
        bench.receive("a/E")
        bench.start(handler_attempts=2)
        bench.wait_empty()
        assert bench.journal("handled") == []
        assert (
            "is part of the path of a handler, but other users can write" in bench.journal("quarantined")[0]["reason"]
        )

    def test_systemd_variables_of_agent_are_not_passed_to_handler(
        self, bench: HandlerBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NOTIFY_SOCKET", "/x")
        monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/x")
        monkeypatch.setenv("OTHER", "kept")
        bench.write_program("E", f'echo "[$NOTIFY_SOCKET$CREDENTIALS_DIRECTORY]$OTHER" > {tmp_path}/env')
        bench.receive("a/E")
        bench.start()
        bench.wait_empty()
        assert (tmp_path / "env").read_text() == "[]kept\n"


@pytest.mark.skipif(
    os.geteuid() != 0, reason="the test runs a process as another user, which requires root: run it as root"
)
class TestAnotherAccount:
    """Attempts of user 65534 to make the agent execute a program, which only root and the agent's user may do."""

    @pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
    @pytest.mark.parametrize("depth", [0, 1, 2])
    def test_handler_below_directory_writable_by_others_is_error(
        self, trusted_directory: Path, mode: int, depth: int
    ) -> None:
        directory = trusted_directory / "a" / "b" / "handlers.d"
        directory.mkdir(parents=True)
        open_to_all = (directory, *directory.parents)[depth]
        open_to_all.chmod(mode)
        write_program(directory / "E")
        if mode != 0o775:
            run_as_other_user(lambda: (open_to_all / "planted").write_text("other users can write this file"))
        with pytest.raises(AgentError, match=f"{open_to_all.name} is part .*, but other users can write"):
            find_event_program(directory, "E")
        assert str(open_to_all) in str(handler_safety_problems(directory))

    def test_link_to_handlers_in_directory_of_another_user_is_refused(
        self, trusted_directory: Path, tmp_path: Path
    ) -> None:
        (trusted_directory / "open").mkdir()
        os.chown(trusted_directory / "open", 65534, 65534)
        write_program(trusted_directory / "E")
        run_as_other_user(lambda: (trusted_directory / "open" / "handlers.d").symlink_to(trusted_directory))
        with pytest.raises(AgentError, match="belongs to neither root nor"):
            find_event_program(trusted_directory / "open" / "handlers.d", "E")

    def test_handler_link_into_directory_of_another_user_is_refused(self, trusted_directory: Path) -> None:
        (trusted_directory / "of-other-user").mkdir()
        os.chown(trusted_directory / "of-other-user", 65534, 65534)
        (trusted_directory / "handlers.d").mkdir()
        write_program(trusted_directory / "of-other-user" / "E")
        (trusted_directory / "handlers.d" / "E").symlink_to("../of-other-user/E")
        with pytest.raises(AgentError, match=r"of-other-user is part of .*, but belongs to neither root nor"):
            find_event_program(trusted_directory / "handlers.d", "E")

    def test_handlers_in_directory_of_another_user_without_permission_are_error(self, trusted_directory: Path) -> None:
        directory = trusted_directory / "closed" / "handlers.d"
        directory.mkdir(parents=True)
        write_program(directory / "E")
        (trusted_directory / "closed").chmod(0o700)
        run_as_other_user(lambda: self.assert_unreadable(directory))
        (trusted_directory / "closed").chmod(0o755)
        directory.chmod(0o700)
        run_as_other_user(lambda: self.assert_unreadable(directory))

    @staticmethod
    def assert_unreadable(directory: Path) -> None:
        for name in ("E", "Other"):
            with pytest.raises(AgentError, match=r"cannot find handlers in the directory .* \(Permission denied\)"):
                find_event_program(directory, name)

    def test_handler_below_tmp_is_error(self, tmp_path: Path) -> None:
        write_program(tmp_path / "E")
        with pytest.raises(AgentError, match="is part of the path of a handler, but other users can write"):
            find_event_program(tmp_path, "E")

    def test_symbolic_links_of_root_to_handler_are_followed(self, trusted_directory: Path) -> None:
        (trusted_directory / "real").mkdir()
        write_program(trusted_directory / "real" / "hello.sh")
        (trusted_directory / "handlers.d").symlink_to("real")
        (trusted_directory / "real" / "E").symlink_to("../handlers.d/hello.sh")
        assert find_event_program(trusted_directory / "handlers.d", "E") == trusted_directory / "real" / "hello.sh"
        assert handler_safety_problems(trusted_directory / "handlers.d") == []

    def test_loop_of_symbolic_links_to_handler_is_refused(self, trusted_directory: Path) -> None:
        (trusted_directory / "E").symlink_to("E")
        with pytest.raises(AgentError, match=r"more than .* symbolic links: remove the loop of links at"):
            find_event_program(trusted_directory, "E")

    def test_handler_link_owned_by_another_user_is_refused(self, trusted_directory: Path) -> None:
        write_program(trusted_directory / "real")
        (trusted_directory / "E").symlink_to("real")
        os.chown(trusted_directory / "E", 65534, 65534, follow_symlinks=False)
        with pytest.raises(
            AgentError, match=r"the symbolic link .*E in the path .* belongs to neither root nor the agent's user"
        ):
            find_event_program(trusted_directory, "E")


def write_program(path: Path) -> None:
    path.write_text("#!/bin/sh\ntrue\n")
    path.chmod(0o755)


def run_as_other_user(action: Callable[[], object]) -> None:
    """Run an action as user 65534, in a child process without the rights of root."""
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            action()
        except BaseException:  # noqa: BLE001 -- the exit code reports the failure to the test
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
