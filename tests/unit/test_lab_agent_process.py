"""An agent's journal, followed as it grows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from activemq_fleet.lab.agent_process import JournalTail


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "agent").mkdir()
    return tmp_path / "agent"


def line(kind: str, second: int, **more: str) -> str:
    return json.dumps({"kind": kind, "ts": f"2026-11-21T13:00:{second:02}.000000Z", **more}) + "\n"


AT = 1795266000.0  # 13:00:00


def test_it_reads_on_where_it_was_over_half_lines_and_new_files(directory: Path) -> None:
    tail = JournalTail(directory)
    first = directory / "journal-000000001.jsonl"
    first.write_text(line("handled", 1) + line("handled", 2)[:20])
    assert tail.count_new_journal_records().counts["handled"] == 1

    first.write_text(line("handled", 1) + line("handled", 2))
    (directory / "journal-000000002.jsonl").write_text(line("handled", 3))

    assert tail.count_new_journal_records().counts["handled"] == 3
    assert tail.count_new_journal_records().counts["handled"] == 3


def test_it_counts_what_was_written_within_a_time(directory: Path) -> None:
    (directory / "journal-000000001.jsonl").write_text("".join(line("handled", second) for second in range(10)))
    tail = JournalTail(directory).count_new_journal_records()

    assert tail.count_records_between("handled", AT + 2, AT + 5) == 3
    assert tail.count_records_between("received", AT, AT + 60) == 0
    assert tail.last_record_time("handled") == AT + 9


def test_it_knows_since_when_the_connection_stands(directory: Path) -> None:
    journal = directory / "journal-000000001.jsonl"
    tail = JournalTail(directory)
    assert tail.count_new_journal_records().connected_since is None

    journal.write_text(line("connected", 1))
    assert tail.count_new_journal_records().connected_since == AT + 1

    journal.write_text(line("connected", 1) + line("connection_lost", 2))
    assert tail.count_new_journal_records().connected_since is None


def test_it_keeps_the_names_of_barriers(directory: Path) -> None:
    (directory / "journal-000000001.jsonl").write_text(line("barrier", 1, event_id="shop:e:7"))

    assert JournalTail(directory).count_new_journal_records().barriers == {"shop:e:7"}
