"""Event journal of an agent, which the lab reads as it grows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from activemq_fleet.lab.agent_process import JournalTail


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "agent").mkdir()
    return tmp_path / "agent"


def record_line(kind: str, second: int, **fields: str) -> str:
    return json.dumps({"kind": kind, "ts": f"2026-11-21T13:00:{second:02}.000000Z", **fields}) + "\n"


START = 1795266000.0  # 13:00:00


def test_journal_tail_continues_after_incomplete_line_and_in_new_file(directory: Path) -> None:
    tail = JournalTail(directory)
    first_file = directory / "journal-000000001.jsonl"
    first_file.write_text(record_line("handled", 1) + record_line("handled", 2)[:20])
    assert tail.add_counts_of_new_journal_records().counts["handled"] == 1

    first_file.write_text(record_line("handled", 1) + record_line("handled", 2))
    (directory / "journal-000000002.jsonl").write_text(record_line("handled", 3))

    assert tail.add_counts_of_new_journal_records().counts["handled"] == 3
    assert tail.add_counts_of_new_journal_records().counts["handled"] == 3


def test_journal_tail_counts_records_of_period(directory: Path) -> None:
    (directory / "journal-000000001.jsonl").write_text("".join(record_line("handled", second) for second in range(10)))
    records = JournalTail(directory).add_counts_of_new_journal_records()

    assert records.count_records_between("handled", START + 2, START + 5) == 3
    assert records.count_records_between("received", START, START + 60) == 0
    assert records.last_record_time("handled") == START + 9


def test_journal_tail_has_start_time_of_current_connection(directory: Path) -> None:
    journal = directory / "journal-000000001.jsonl"
    tail = JournalTail(directory)
    assert tail.add_counts_of_new_journal_records().connected_since is None

    journal.write_text(record_line("connected", 1))
    assert tail.add_counts_of_new_journal_records().connected_since == START + 1

    journal.write_text(record_line("connected", 1) + record_line("connection_lost", 2))
    assert tail.add_counts_of_new_journal_records().connected_since is None


def test_journal_tail_keeps_event_ids_of_barriers(directory: Path) -> None:
    (directory / "journal-000000001.jsonl").write_text(record_line("barrier", 1, event_id="shop:e:7"))

    assert JournalTail(directory).add_counts_of_new_journal_records().barriers == {"shop:e:7"}
