from __future__ import annotations

from pathlib import Path

import pytest

from activemq_fleet.lab.log_tail import LogTail, explain_failed_run, log_records_of_broker_run
from activemq_fleet.lab.processes import ProcessRun
from tests.log_reading import logger_of

STARTED = "Apache ActiveMQ 6.3.1 (a, ID:vm-1-2-0:1) started"
WAITS = "Database /s/lock is locked by another server. This broker is now in slave mode waiting a lock to be acquired"


def line(message: str, level: str = "INFO", second: int = 0) -> str:
    return f"2026-03-01 10:00:{second:02},000 | {level:5} | {message} | {logger_of(message)} | main\n"


def run_from(log: Path) -> ProcessRun:
    status = log.stat() if log.exists() else None
    return ProcessRun("a", 1, 0.0, 0.0, "v", status.st_ino if status else 0, status.st_size if status else 0)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "activemq.log"


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def test_a_run_without_a_log_yet_is_starting(log: Path) -> None:
    assert LogTail(log.parent, run_from(log)).read_run_state().phase == "starting"


def test_what_is_written_later_is_read_later(log: Path) -> None:
    tail = LogTail(log.parent, run_from(log))
    append(log, line(WAITS))
    assert tail.read_run_state().phase == "waiting"
    append(log, line(STARTED))
    assert tail.read_run_state().phase == "started"


def test_an_earlier_run_says_nothing_about_this_one(log: Path) -> None:
    append(log, line(STARTED))
    run = run_from(log)
    append(log, line(WAITS))
    assert LogTail(log.parent, run).read_run_state().phase == "waiting"


def test_a_log_that_was_rolled_is_read_to_its_end_and_on(log: Path) -> None:
    append(log, line(STARTED))
    tail = LogTail(log.parent, run_from(log))
    tail.read_run_state()
    append(log, line("Started responder end of duplex bridge first@null"))
    log.rename(log.with_name("activemq.log.1"))
    append(log, line("Started responder end of duplex bridge second@null"))
    assert tail.read_run_state().one_way_duplex_link_names == ("first", "second")


def test_a_run_that_is_looked_at_first_after_a_roll_is_read_from_its_beginning(log: Path) -> None:
    append(log, line(STARTED))
    run = run_from(log)
    append(log, line("Started responder end of duplex bridge first@null"))
    log.rename(log.with_name("activemq.log.1"))
    append(log, line("Started responder end of duplex bridge second@null"))
    assert LogTail(log.parent, run).read_run_state().one_way_duplex_link_names == ("first", "second")


def test_a_character_cut_in_two_is_read_whole(log: Path) -> None:
    tail = LogTail(log.parent, run_from(log))
    data = line("Failed to start Apache ActiveMQ (a, null). Reason: é").encode()
    cut = data.index("é".encode()) + 1
    with log.open("ab", buffering=0) as file:
        file.write(data[:cut])
        tail.read_run_state()
        file.write(data[cut:])
    assert tail.read_run_state().phase == "failed"


def test_a_failure_is_explained_by_the_last_error_of_the_run(log: Path) -> None:
    append(log, line("old", "ERROR"))
    run = run_from(log)
    append(log, line("new", "ERROR") + "Caused by: java.net.BindException: Address already in use\n")
    assert explain_failed_run(log.parent, run) == "new: java.net.BindException: Address already in use"
    assert len(log_records_of_broker_run(log.parent, run)) == 1


def test_a_failure_before_the_first_line_is_explained_by_what_was_printed(log: Path) -> None:
    log.with_name("console.log").write_text("Picked up nothing\nError: Could not find or load main class X\n\tat y\n")
    assert explain_failed_run(log.parent, run_from(log)) == "Error: Could not find or load main class X"


def test_a_failure_without_a_word_is_explained_by_none(log: Path) -> None:
    assert explain_failed_run(log.parent, run_from(log)) == ""
