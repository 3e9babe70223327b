from __future__ import annotations

from pathlib import Path

import pytest

from activemq_fleet.lab.log_tail import LogTail, explain_failed_run, log_records_of_broker_run
from activemq_fleet.lab.processes import ProcessRun
from tests.log_reading import logger_of

STARTED = "Apache ActiveMQ 6.3.1 (a, ID:vm-1-2-0:1) started"
WAITS = "Database /s/lock is locked by another server. This broker is now in slave mode waiting a lock to be acquired"


def log_line(message: str, level: str = "INFO", second: int = 0) -> str:
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


def test_broker_run_without_log_is_starting(log: Path) -> None:
    assert LogTail(log.parent, run_from(log)).read_run_state().phase == "starting"


def test_log_tail_reads_lines_that_are_written_later(log: Path) -> None:
    tail = LogTail(log.parent, run_from(log))
    append(log, log_line(WAITS))
    assert tail.read_run_state().phase == "waiting"
    append(log, log_line(STARTED))
    assert tail.read_run_state().phase == "started"


def test_log_tail_ignores_log_of_earlier_broker_run(log: Path) -> None:
    append(log, log_line(STARTED))
    broker_run = run_from(log)
    append(log, log_line(WAITS))
    assert LogTail(log.parent, broker_run).read_run_state().phase == "waiting"


def test_log_tail_reads_rotated_log_to_its_end_before_new_log(log: Path) -> None:
    append(log, log_line(STARTED))
    tail = LogTail(log.parent, run_from(log))
    tail.read_run_state()
    append(log, log_line("Started responder end of duplex bridge first@null"))
    log.rename(log.with_name("activemq.log.1"))
    append(log, log_line("Started responder end of duplex bridge second@null"))
    assert tail.read_run_state().one_way_duplex_link_names == ("first", "second")


def test_log_tail_after_rotation_reads_broker_run_from_its_start(log: Path) -> None:
    append(log, log_line(STARTED))
    broker_run = run_from(log)
    append(log, log_line("Started responder end of duplex bridge first@null"))
    log.rename(log.with_name("activemq.log.1"))
    append(log, log_line("Started responder end of duplex bridge second@null"))
    assert LogTail(log.parent, broker_run).read_run_state().one_way_duplex_link_names == ("first", "second")


def test_log_tail_reads_character_split_between_two_writes(log: Path) -> None:
    tail = LogTail(log.parent, run_from(log))
    record = log_line("Failed to start Apache ActiveMQ (a, null). Reason: é").encode()
    middle = record.index("é".encode()) + 1
    with log.open("ab", buffering=0) as file:
        file.write(record[:middle])
        tail.read_run_state()
        file.write(record[middle:])
    assert tail.read_run_state().phase == "failed"


def test_failure_of_lab_broker_is_explained_by_last_error_of_its_run(log: Path) -> None:
    append(log, log_line("old", "ERROR"))
    broker_run = run_from(log)
    append(log, log_line("new", "ERROR") + "Caused by: java.net.BindException: Address already in use\n")
    assert explain_failed_run(log.parent, broker_run) == "new: java.net.BindException: Address already in use"
    assert len(log_records_of_broker_run(log.parent, broker_run)) == 1


def test_failure_of_lab_broker_before_first_log_line_is_explained_by_output(log: Path) -> None:
    log.with_name("console.log").write_text("Picked up nothing\nError: Could not find or load main class X\n\tat y\n")
    assert explain_failed_run(log.parent, run_from(log)) == "Error: Could not find or load main class X"


@pytest.mark.parametrize(
    "fatal_line",
    [
        "guard: the guard killed the broker, because the guard lost the lock of the pair's store. This node restarts",
        "Terminating due to java.lang.OutOfMemoryError: Java heap space",
    ],
)
def test_failure_of_lab_broker_is_explained_by_last_line_of_guard_or_java(log: Path, fatal_line: str) -> None:
    broker_run = run_from(log)
    append(log, log_line("Transport failed", "ERROR"))
    log.with_name("console.log").write_text(f"Loading message broker\n{fatal_line}\nguard: generation 2 was removed\n")
    assert explain_failed_run(log.parent, broker_run) == fatal_line


def test_failure_of_lab_broker_without_output_has_no_explanation(log: Path) -> None:
    assert explain_failed_run(log.parent, run_from(log)) == ""
