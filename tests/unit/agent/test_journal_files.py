"""The journal as files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from activemq_agent.agent_errors import AgentError
from activemq_agent.journal_files import ExportedJournalFiles
from activemq_agent.store import Store
from tests.unit.agent.store_clock import SimulatedClock, open_store


def numbers(files: ExportedJournalFiles) -> list[int]:
    return [json.loads(line)["jseq"] for path in files.files() for line in path.read_text().splitlines()]


def notes(store: Store, count: int) -> None:
    for future in [store.queue_journal_record("started") for _ in range(count)]:
        future.result()


def test_every_record_is_written_once_and_forgotten_by_the_store(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        files = ExportedJournalFiles(store, tmp_path / "agent")
        notes(store, 500)
        assert files.export_new_journal_records() == 500
        assert files.export_new_journal_records() == 0
        assert numbers(files) == list(range(1, 501))
        assert store.row_and_byte_counts().journal_rows == 0


def test_files_are_rolled_by_size(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        files = ExportedJournalFiles(store, tmp_path / "agent", size=1000)
        for _ in range(20):
            notes(store, 3)
            files.export_new_journal_records()
        assert len(files.files()) > 5
        assert all(path.stat().st_size < 2000 for path in files.files())
        assert numbers(files) == list(range(1, 61))


def test_a_file_is_kept_for_seven_days_after_its_last_record(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock) as store:
        files = ExportedJournalFiles(store, tmp_path / "agent", size=1, clock=clock)
        for _ in range(3):
            notes(store, 1)
            files.export_new_journal_records()
        now = clock.utc_now().timestamp()
        for path, days in zip(files.files(), (7.1, 6.9, 30), strict=True):
            os.utime(path, (now, now - days * 86400))
        files.export_new_journal_records()
        assert numbers(files) == [2, 3], "the current file stays, however old"


def test_records_that_were_written_but_not_forgotten_come_again(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        files = ExportedJournalFiles(store, tmp_path / "agent")
        notes(store, 2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                store, "delete_exported_journal_records", lambda _: (_ for _ in ()).throw(AgentError("killed here"))
            )
            with pytest.raises(AgentError):
                files.export_new_journal_records()
        ExportedJournalFiles(store, tmp_path / "agent").export_new_journal_records()
        assert sorted(set(numbers(files))) == [1, 2]


def test_half_a_line_of_a_crash_goes_before_more_is_written(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        files = ExportedJournalFiles(store, tmp_path / "agent")
        notes(store, 1)
        files.export_new_journal_records()
        with files.files()[0].open("a") as file:
            file.write('{"v":1,' + "x" * 100_000)
        notes(store, 1)
        ExportedJournalFiles(store, tmp_path / "agent").export_new_journal_records()
        assert numbers(files) == [1, 2]


def test_a_disk_that_fails_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        (tmp_path / "agent").write_text("in the way")
        notes(store, 1)
        with pytest.raises(AgentError, match="cannot be written"):
            ExportedJournalFiles(store, tmp_path / "agent").export_new_journal_records()
        assert store.row_and_byte_counts().journal_rows == 1


def test_a_write_that_fails_half_way_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path) as store:
        files = ExportedJournalFiles(store, tmp_path / "agent")
        notes(store, 1)
        files.export_new_journal_records()
        notes(store, 1)

        def fails(_: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fails)
            with pytest.raises(AgentError, match="No space left"):
                files.export_new_journal_records()
        assert numbers(files) == [1]
        files.export_new_journal_records()
        assert numbers(files) == [1, 2]
