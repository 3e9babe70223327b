"""Handlers: which run, in which order, how often, and what one that misbehaves can do to others."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_agent.agent_errors import AgentError
from activemq_agent.config import Config
from activemq_agent.handling import MessageHandlerRunner
from activemq_agent.programs import HandlerEvent, find_event_program, handler_problems
from activemq_agent.store import Store, StoreLimits
from tests.waiting import PATIENCE, wait_until, within

from .logged import RecordedLog, make_config
from .store_clock import receive

TOPICS = ("a/#", "b/#", "a/b/#")


class Rig:
    """A store, its handlers, and messages for them."""

    def __init__(self, directory: Path, programs: Path) -> None:
        self.directory, self.programs = directory, programs
        self.log = RecordedLog()
        self.store = self.open()
        self.handlers: MessageHandlerRunner | None = None
        programs.mkdir(mode=0o755)

    def open(self, topics: tuple[str, ...] = TOPICS) -> Store:
        return Store.open(self.directory / "state", agent="a", limits=StoreLimits(filters=topics))

    def receive(self, topic: str, payload: bytes = b"{}") -> int:
        rx = receive(self.store, topic, payload, conn=1).rx
        if self.handlers:
            self.handlers.wake(topic.split("/")[0] + "/#")
        return rx

    def start(
        self, installed: dict[str, list[Callable[[HandlerEvent], object]]] | None = None, **fields: Any
    ) -> MessageHandlerRunner:
        defaults: dict[str, Any] = {
            "topics": TOPICS, "handler_pause": 0.01, "handlers": self.programs, "handler_timeout": 20,
        }  # fmt: skip
        config: Config = make_config(self.directory, **(defaults | fields))
        self.handlers = MessageHandlerRunner(config, self.store, log=self.log, installed=installed or {})
        self.handlers.start()
        return self.handlers

    def program(self, name: str, script: str, mode: int = 0o755) -> Path:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(mode)
        return path

    def wait_until(self, done: Callable[[], bool], seconds: float = 60.0) -> None:
        wait_until(done, "the condition holds", seen=lambda: self.log.records, patience=seconds, pause=0.01)

    def wait_empty(self) -> None:
        self.wait_until(lambda: self.store.row_and_byte_counts().inbox_rows == 0)
        self.store.expire_events()  # the writer's next turn: what it counted is committed now

    def journal(self, kind: str) -> list[dict[str, Any]]:
        records = [json.loads(record.line) for record in self.store.oldest_journal_records(1000)]
        return [record for record in records if record["kind"] == kind]


@pytest.fixture
def rig(tmp_path: Path, guarded: Path) -> Iterator[Rig]:
    made = Rig(tmp_path, guarded / "handlers.d")
    yield made
    if made.handlers:
        made.handlers.close(5.0)
    made.store.close()


def test_an_executable_gets_the_event_as_json_and_its_attempt(rig: Rig, tmp_path: Path) -> None:
    rig.program("Started", f'cat > {tmp_path}/seen; echo "$ATTEMPT $EVENT_ID $TOPIC" > {tmp_path}/env')
    rig.receive("a/x/Started", b'{"eventId": "e1", "n": 1}')
    rig.start()
    rig.wait_empty()
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen == {
        "event_id": "e1", "rx_id": seen["rx_id"], "topic": "a/x/Started",
        "payload": '{"eventId": "e1", "n": 1}', "attempt": 1,
    }  # fmt: skip
    assert (tmp_path / "env").read_text() == "1 e1 a/x/Started\n"


def test_bytes_that_are_no_text_come_in_base64(rig: Rig, tmp_path: Path) -> None:
    rig.program("E", f"cat > {tmp_path}/seen")
    rig.receive("a/E", b"\xff\x00")
    rig.start()
    rig.wait_empty()
    assert json.loads((tmp_path / "seen").read_text())["payload_base64"] == "/wA="


def test_a_python_handler_gets_the_event(rig: Rig) -> None:
    seen: list[HandlerEvent] = []
    rig.receive("a/E", b'{"eventId": "e1"}')
    rig.start({"E": [seen.append]})
    rig.wait_empty()
    assert [(one.event_id, one.topic, one.payload, one.attempt) for one in seen] == [
        ("e1", "a/E", b'{"eventId": "e1"}', 1)
    ]


def test_an_event_without_a_handler_is_handled_and_counted(rig: Rig) -> None:
    rig.receive("a/Nobody", b'{"eventId": "e1"}')
    handlers = rig.start()
    rig.wait_empty()
    rig.wait_until(lambda: (handlers.without_handler, handlers.handled) == (1, 0))
    assert [record["event_id"] for record in rig.journal("handled")] == ["e1"]
    assert rig.journal("handling") == []


def test_events_with_and_without_a_handler_are_handled_in_the_order_of_receipt(rig: Rig) -> None:
    seen: list[bytes] = []
    for number in range(130):
        rig.receive("a/E" if number % 5 == 0 else "a/Nobody", b'{"eventId": "%d"}' % number)
    handlers = rig.start({"E": [lambda event: seen.append(event.payload)]})
    rig.wait_until(lambda: (handlers.without_handler, handlers.handled) == (104, 26))
    rig.wait_empty()
    assert seen == [b'{"eventId": "%d"}' % number for number in range(0, 130, 5)]
    assert [record["event_id"] for record in rig.journal("handled")] == [str(number) for number in range(130)]


def test_events_of_a_filter_run_in_the_order_of_receipt(rig: Rig) -> None:
    seen: list[bytes] = []
    for number in range(130):
        rig.receive(f"a/{number % 7}/E", b"%d" % number)
    rig.start({"E": [lambda event: seen.append(event.payload)]})
    rig.wait_empty()
    assert seen == [b"%d" % number for number in range(130)]


def test_filters_that_overlap_handle_nothing_twice(rig: Rig) -> None:
    seen: list[bytes] = []
    for number in range(60):
        rig.receive("a/b/E" if number % 2 else "a/c/E", b"%d" % number)
    rig.store.close()
    rig.store = rig.open(topics=("a/b/#", "a/#"))
    rig.start({"E": [lambda event: seen.append(event.payload)]}, topics=("a/b/#", "a/#"))
    rig.wait_empty()
    assert sorted(map(int, seen)) == list(range(60))


def test_messages_of_a_topic_that_the_configuration_has_no_more_are_handled(rig: Rig) -> None:
    seen: list[str] = []
    rig.receive("b/x/E")
    rig.receive("b/y/E")
    rig.store.close()
    rig.store = rig.open(topics=("a/#",))
    rig.start({"E": [lambda event: seen.append(event.topic)]}, topics=("a/#",))
    rig.wait_empty()
    assert sorted(seen) == ["b/x/E", "b/y/E"]


def test_a_slow_handler_stalls_only_its_own_filter(rig: Rig) -> None:
    release, seen = threading.Event(), threading.Event()
    rig.start({"Slow": [lambda _: release.wait(100)], "Quick": [lambda _: seen.set()]})
    rig.receive("a/Slow")
    rig.receive("b/Quick")
    assert seen.wait(60)
    assert not release.is_set()
    assert rig.store.row_and_byte_counts().inbox_rows >= 1
    release.set()
    rig.wait_empty()


def test_one_that_fails_is_run_again_and_then_goes_into_quarantine(rig: Rig) -> None:
    attempts: list[int] = []

    def fail(event: HandlerEvent) -> None:
        attempts.append(event.attempt)
        raise ValueError("no good")

    rig.receive("a/E", b'{"eventId": "bad"}')
    rig.receive("a/F", b'{"eventId": "behind"}')
    rig.start({"E": [fail]}, handler_attempts=3)
    rig.wait_empty()
    assert attempts == [1, 2, 3]
    (record,) = rig.journal("quarantined")
    assert (record["event_id"], record["reason"]) == ("bad", "ValueError: no good")
    assert [one["event_id"] for one in rig.journal("handled")] == ["behind"]
    assert rig.store.row_and_byte_counts().quarantined == 1


def test_one_that_recovers_is_handled(rig: Rig, tmp_path: Path) -> None:
    rig.program("E", f'echo x >> {tmp_path}/runs; test "$ATTEMPT" = 3')
    rig.receive("a/E")
    handlers = rig.start()
    rig.wait_empty()
    assert (tmp_path / "runs").read_text() == "x\n" * 3
    rig.wait_until(lambda: (handlers.handled, handlers.failures) == (1, 2))
    assert "E ended with code 1" in str(rig.log.records)


def test_one_that_takes_too_long_is_killed_with_all_it_started(rig: Rig, tmp_path: Path) -> None:
    rig.program("E", f"sleep 300 & echo $! > {tmp_path}/child; wait")
    rig.receive("a/E")
    rig.start(handler_timeout=4.0, handler_attempts=1)
    rig.wait_empty()
    assert rig.journal("quarantined")[0]["reason"].startswith("the handler E did not end in 4 s and was killed")
    child = int((tmp_path / "child").read_text())
    rig.wait_until(lambda: not _is_alive(child))


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_event_recorded_as_handled_never_runs_again(rig: Rig) -> None:
    seen: list[str | None] = []
    handler: dict[str, list[Callable[[HandlerEvent], object]]] = {"E": [lambda event: seen.append(event.event_id)]}
    rig.receive("a/E", b'{"eventId": "once"}')
    handlers = rig.start(handler)
    rig.wait_empty()
    handlers.close(5.0)
    rig.store.close()
    rig.store = rig.open()
    assert receive(rig.store, "a/E", b'{"eventId": "once"}', conn=2).duplicate
    rig.start(handler)
    rig.receive("a/E", b'{"eventId": "next"}')
    rig.wait_empty()
    assert seen == ["once", "next"]


def test_a_run_that_ended_with_the_agent_runs_again_with_its_attempt(rig: Rig) -> None:
    rx = rig.receive("a/E")
    assert rig.store.begin_handling_attempt(rx) == 1
    seen: list[int] = []
    rig.start({"E": [lambda event: seen.append(event.attempt)]})
    rig.wait_empty()
    assert seen == [2]


def test_one_that_ends_the_agent_every_time_goes_into_quarantine_unrun(rig: Rig) -> None:
    rx = rig.receive("a/E")
    for _ in range(6):
        rig.store.begin_handling_attempt(rx)
    rig.start({"E": [lambda _: pytest.fail("ran")]})
    rig.wait_empty()
    assert rig.journal("quarantined")[0]["reason"].startswith(
        "the agent stopped or crashed 6 times while it ran the handlers of a "
    )


def test_statements_of_a_handler_take_effect_with_the_record_or_not_at_all(rig: Rig, tmp_path: Path) -> None:
    def count(event: HandlerEvent) -> None:
        event.execute("CREATE TABLE IF NOT EXISTS x_count (n INTEGER)")
        event.execute("INSERT INTO x_count VALUES (?)", (event.attempt,))
        if event.attempt == 1:
            raise ValueError("after its statements")

    rig.receive("a/E")
    rig.start({"E": [count]})
    rig.wait_empty()
    (found,) = (tmp_path / "state").glob("*.db")
    with sqlite3.connect(f"file:{found}?mode=ro", uri=True) as db:
        assert db.execute("SELECT n FROM x_count").fetchall() == [(2,)]


def test_stopping_kills_what_does_not_end_and_keeps_the_event(rig: Rig, tmp_path: Path) -> None:
    rig.program("E", f"touch {tmp_path}/began; sleep {PATIENCE:.0f}")
    rig.receive("a/E")
    handlers = rig.start()
    rig.wait_until(lambda: (tmp_path / "began").exists())
    within(PATIENCE / 2, lambda: handlers.close(0.2))
    assert rig.store.row_and_byte_counts().inbox_rows == 1
    assert handlers.failures == 0


def test_a_python_handler_past_its_time_stops_the_tick(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activemq_agent.handling.SLACK", 0.0)
    release = threading.Event()
    rig.receive("a/E")
    handlers = rig.start({"E": [lambda _: release.wait(100)]}, handler_timeout=1.0)
    rig.wait_until(lambda: handlers.overdue_filters == ("a/#",))
    first = handlers.slowest_worker_loop_start
    time.sleep(0.1)
    assert handlers.slowest_worker_loop_start == first
    release.set()
    rig.wait_empty()
    rig.wait_until(lambda: handlers.slowest_worker_loop_start > first)


def test_a_handler_within_its_time_does_not(rig: Rig) -> None:
    release, began = threading.Event(), threading.Event()
    rig.receive("a/E")

    def handle(_: HandlerEvent) -> None:
        began.set()
        release.wait(100)

    handlers = rig.start({"E": [handle]})
    assert began.wait(60)
    rig.wait_until(lambda: handlers.slowest_worker_loop_start > time.monotonic() - 0.5)
    first = handlers.slowest_worker_loop_start
    rig.wait_until(lambda: handlers.slowest_worker_loop_start > first)
    release.set()


class TestPrograms:
    @pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "-x", "a b", "ä", "x" * 200, "a\0b"])
    def test_names_that_are_no_plain_file_names_have_none(self, rig: Rig, name: str) -> None:
        assert find_event_program(rig.programs, name) is None

    def test_one_that_is_not_there_is_none(self, rig: Rig) -> None:
        assert find_event_program(rig.programs, "E") is None
        assert find_event_program(rig.directory / "nothing", "E") is None
        assert find_event_program(None, "E") is None

    @pytest.mark.parametrize(
        ("mode", "said"),
        [(0o757, "other users can write to it"), (0o775, "other users can write to it"), (0o644, "chmod \\+x")],
    )
    def test_one_that_may_not_be_run_is_an_error(self, rig: Rig, mode: int, said: str) -> None:
        rig.program("E", "true", mode)
        with pytest.raises(AgentError, match=said):
            find_event_program(rig.programs, "E")

    def test_a_handler_that_is_no_regular_file_is_an_error(self, rig: Rig) -> None:
        (rig.programs / "E").mkdir(mode=0o755)
        with pytest.raises(AgentError, match="is not a regular file, so the agent cannot execute it"):
            find_event_program(rig.programs, "E")

    def test_neither_may_its_directory_be_open(self, rig: Rig) -> None:
        rig.program("E", "true")
        rig.programs.chmod(0o777)
        with pytest.raises(AgentError, match=r"handlers\.d is part .*, but other users can write"):
            find_event_program(rig.programs, "E")

    def test_nor_may_it_be_somebody_elses(self, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        path = rig.program("E", "true")
        if os.geteuid() == 0:
            os.chown(path, 12345, 12345)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 12345)
        with pytest.raises(AgentError, match="belongs to neither root nor the agent's user"):
            find_event_program(rig.programs, "E")

    def test_an_event_whose_executable_may_not_be_run_does_not_pass_as_handled(self, rig: Rig) -> None:
        rig.program("E", "true", 0o757)
        rig.receive("a/E")
        rig.start(handler_attempts=2)
        rig.wait_empty()
        assert rig.journal("handled") == []
        assert "is part of the path of a handler, but other users can write" in rig.journal("quarantined")[0]["reason"]

    def test_what_systemd_means_for_the_agent_is_not_handed_on(
        self, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NOTIFY_SOCKET", "/x")
        monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/x")
        monkeypatch.setenv("OTHER", "kept")
        rig.program("E", f'echo "[$NOTIFY_SOCKET$CREDENTIALS_DIRECTORY]$OTHER" > {tmp_path}/env')
        rig.receive("a/E")
        rig.start()
        rig.wait_empty()
        assert (tmp_path / "env").read_text() == "[]kept\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="a second account is needed, which only root can become")
class TestAnotherAccount:
    """Nobody but root and the agent's user can have something run as the agent: each attack is tried as user 65534."""

    @pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
    @pytest.mark.parametrize("depth", [0, 1, 2])
    def test_a_handler_below_a_directory_that_others_may_write_is_not_run(
        self, guarded: Path, mode: int, depth: int
    ) -> None:
        directory = guarded / "a" / "b" / "handlers.d"
        directory.mkdir(parents=True)
        open_to_all = (directory, *directory.parents)[depth]
        open_to_all.chmod(mode)
        write_program(directory / "E")
        if mode != 0o775:
            as_nobody(lambda: (open_to_all / "planted").write_text("it can be written"))
        with pytest.raises(AgentError, match=f"{open_to_all.name} is part .*, but other users can write"):
            find_event_program(directory, "E")
        assert str(open_to_all) in str(handler_problems(directory))

    def test_a_link_of_somebody_elses_is_not_followed(self, guarded: Path, tmp_path: Path) -> None:
        (guarded / "open").mkdir()
        os.chown(guarded / "open", 65534, 65534)
        write_program(guarded / "E")
        as_nobody(lambda: (guarded / "open" / "handlers.d").symlink_to(guarded))
        with pytest.raises(AgentError, match="belongs to neither root nor"):
            find_event_program(guarded / "open" / "handlers.d", "E")

    def test_a_link_into_a_directory_of_somebody_elses_is_not_followed(self, guarded: Path) -> None:
        (guarded / "theirs").mkdir()
        os.chown(guarded / "theirs", 65534, 65534)
        (guarded / "handlers.d").mkdir()
        write_program(guarded / "theirs" / "E")
        (guarded / "handlers.d" / "E").symlink_to("../theirs/E")
        with pytest.raises(AgentError, match=r"theirs is part of .*, but belongs to neither root nor"):
            find_event_program(guarded / "handlers.d", "E")

    def test_below_tmp_nothing_is_run(self, tmp_path: Path) -> None:
        write_program(tmp_path / "E")
        with pytest.raises(AgentError, match="is part of the path of a handler, but other users can write"):
            find_event_program(tmp_path, "E")

    def test_what_links_of_root_lead_to_is_run(self, guarded: Path) -> None:
        (guarded / "real").mkdir()
        write_program(guarded / "real" / "hello.sh")
        (guarded / "handlers.d").symlink_to("real")
        (guarded / "real" / "E").symlink_to("../handlers.d/hello.sh")
        assert find_event_program(guarded / "handlers.d", "E") == guarded / "real" / "hello.sh"
        assert handler_problems(guarded / "handlers.d") == []

    def test_a_loop_of_links_is_an_error(self, guarded: Path) -> None:
        (guarded / "E").symlink_to("E")
        with pytest.raises(AgentError, match=r"more than .* symbolic links: remove the loop of links at"):
            find_event_program(guarded, "E")

    def test_a_link_that_another_user_owns_is_an_error(self, guarded: Path) -> None:
        write_program(guarded / "real")
        (guarded / "E").symlink_to("real")
        os.chown(guarded / "E", 65534, 65534, follow_symlinks=False)
        with pytest.raises(
            AgentError, match=r"the symbolic link .*E in the path .* belongs to neither root nor the agent's user"
        ):
            find_event_program(guarded, "E")


def write_program(path: Path) -> None:
    path.write_text("#!/bin/sh\ntrue\n")
    path.chmod(0o755)


def as_nobody(act: Callable[[], object]) -> None:
    """Do something as user 65534, in a child that has given up root."""
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            act()
        except BaseException:  # noqa: BLE001 -- the test is told by the code
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
