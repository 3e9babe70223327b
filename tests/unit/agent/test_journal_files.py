"""Files of the event journal."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from activemq_agent.agent_errors import AgentError
from activemq_agent.journal_files import DELETE_AFTER, ExportedJournalFiles
from activemq_agent.store import Store
from tests.unit.agent.store_clock import SimulatedClock, open_store


def record_numbers(files: ExportedJournalFiles) -> list[int]:
    return [json.loads(line)["jseq"] for path in files.files() for line in path.read_text().splitlines()]


def write_records(store: Store, count: int) -> None:
    for future in [store.queue_journal_record("started") for _ in range(count)]:
        future.result()


def test_each_event_journal_record_is_exported_once_and_deleted_from_store(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        files = ExportedJournalFiles(store, tmp_path / "agent")
        write_records(store, 500)
        assert files.export_new_journal_records() == 500
        assert files.export_new_journal_records() == 0
        assert record_numbers(files) == list(range(1, 501))
        assert store.row_and_byte_counts().journal_rows == 0


def test_event_journal_files_are_rotated_by_size(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        files = ExportedJournalFiles(store, tmp_path / "agent", size=1000)
        for _ in range(20):
            write_records(store, 3)
            files.export_new_journal_records()
        assert len(files.files()) > 5
        assert all(path.stat().st_size < 2000 for path in files.files())
        assert record_numbers(files) == list(range(1, 61))


def test_event_journal_file_is_kept_for_7_days_after_its_last_record(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock) as store:
        files = ExportedJournalFiles(store, tmp_path / "agent", size=1, clock=clock)
        for _ in range(3):
            write_records(store, 1)
            files.export_new_journal_records()
        now = clock.utc_now().timestamp()
        for path, days in zip(files.files(), (7.1, 6.9, 30), strict=True):
            os.utime(path, (now, now - days * 86400))
        files.export_new_journal_records()
        clock.pass_time(DELETE_AFTER)
        files.export_new_journal_records()
        assert record_numbers(files) == [2, 3], "the export must keep the current file regardless of its age"


def test_wall_clock_that_is_ahead_for_less_than_an_hour_deletes_no_event_journal(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock) as store:
        files = ExportedJournalFiles(store, tmp_path / "agent", size=1, clock=clock)
        for _ in range(3):
            write_records(store, 1)
            files.export_new_journal_records()
        now = clock.utc_now().timestamp()
        for path in files.files():
            os.utime(path, (now, now))
        for _ in range(2):
            clock.wall_error = 8 * 86400.0
            files.export_new_journal_records()
            clock.pass_time(DELETE_AFTER - 1)
            files.export_new_journal_records()
            clock.wall_error = 0.0
            files.export_new_journal_records()
        assert record_numbers(files) == [1, 2, 3]


def test_journal_records_exported_but_not_deleted_are_exported_again(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        files = ExportedJournalFiles(store, tmp_path / "agent")
        write_records(store, 2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                store, "delete_exported_journal_records", lambda _: (_ for _ in ()).throw(AgentError("killed here"))
            )
            with pytest.raises(AgentError):
                files.export_new_journal_records()
        ExportedJournalFiles(store, tmp_path / "agent").export_new_journal_records()
        assert sorted(set(record_numbers(files))) == [1, 2]


def test_partial_journal_line_of_crash_is_removed_before_next_export(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        files = ExportedJournalFiles(store, tmp_path / "agent")
        write_records(store, 1)
        files.export_new_journal_records()
        with files.files()[0].open("a") as file:
            file.write('{"v":1,' + "x" * 100_000)
        write_records(store, 1)
        ExportedJournalFiles(store, tmp_path / "agent").export_new_journal_records()
        assert record_numbers(files) == [1, 2]


def test_failed_export_of_event_journal_raises_error_and_keeps_record(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        (tmp_path / "agent").write_text("in the way")
        write_records(store, 1)
        with pytest.raises(AgentError, match="cannot be written"):
            ExportedJournalFiles(store, tmp_path / "agent").export_new_journal_records()
        assert store.row_and_byte_counts().journal_rows == 1


def test_failed_write_of_event_journal_leaves_no_partial_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path) as store:
        files = ExportedJournalFiles(store, tmp_path / "agent")
        write_records(store, 1)
        files.export_new_journal_records()
        write_records(store, 1)

        def fail(_: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(AgentError, match="No space left"):
                files.export_new_journal_records()
        assert record_numbers(files) == [1]
        files.export_new_journal_records()
        assert record_numbers(files) == [1, 2]
