"""What a stream takes over from earlier micro-batches, and when it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.audit.result import Gap
from activemq_fleet.spark.follow.parts import LEDGER, LOGS, Parts, link_all
from activemq_fleet.spark.follow.taken import taken_over

NAMES = ("deliveries", "messages")
GAPS = [Gap("shop", "journal of epoch e1: records are missing from record 5 (2)"), Gap("mq01a", "a line", "a.jsonl", 3)]


class Result:
    """An Output that notes what is written and what is taken over."""

    def __init__(self, staged: Path) -> None:
        self.staged = staged
        self.adopted: dict[str, tuple[list[str], int]] = {}

    def place(self, name: str) -> str:
        return f"file://{self.staged / name}"

    def rows_of(self, name: str) -> int:
        return {"deliveries": 7, "messages": 5}[name]

    def adopt(self, name: str, files: list[Path], rows: int) -> int:
        self.adopted[name] = [file.read_text() for file in files], rows
        return rows


def settled(tmp_path: Path, marks: list[str], run: str) -> tuple[Result, list[Gap]]:
    """One micro-batch's verdicts; those that it settles itself bear the run's name."""
    output: Any = Result(tmp_path / f"staged-{run}")

    def settle() -> list[Gap]:
        for name in NAMES:
            (output.staged / name).mkdir(parents=True)
            (output.staged / name / "part.parquet").write_text(f"{name} of {run}")
        return GAPS

    (tmp_path / "parts").mkdir(exist_ok=True)
    return output, taken_over(output, tmp_path / "parts", NAMES, marks, settle)


def test_verdicts_of_the_same_journals_are_taken_over(tmp_path: Path) -> None:
    first, _ = settled(tmp_path, ["a", "b"], "first")
    assert not first.adopted
    second, gaps = settled(tmp_path, ["a", "b"], "second")
    assert second.adopted == {"deliveries": (["deliveries of first"], 7), "messages": (["messages of first"], 5)}
    assert gaps == GAPS


def test_verdicts_of_other_journals_are_settled(tmp_path: Path) -> None:
    settled(tmp_path, ["a"], "first")
    other, _ = settled(tmp_path, ["a", "b"], "second")
    assert not other.adopted
    assert len(list((tmp_path / "parts").glob("deliveries-*"))) == 1


@pytest.mark.parametrize("harm", ["done.json", "messages/*.parquet"])
def test_half_of_what_was_kept_counts_for_nothing(tmp_path: Path, harm: str) -> None:
    settled(tmp_path, ["a"], "first")
    (file,) = next((tmp_path / "parts").glob("deliveries-*")).glob(harm)
    file.unlink()
    again, _ = settled(tmp_path, ["a"], "second")
    assert not again.adopted


def test_rows_whose_file_is_not_as_it_was_written_are_made_again(tmp_path: Path) -> None:
    parts = {}
    for mark in ("whole", "short", "gone"):
        path = f"logs-000000001/share={mark}/part.parquet"
        parts[mark] = {"files": [[path, 4]], "rows": 1, "unknown": 0, "unread": 0, "problems": []}
        if mark != "gone":
            (tmp_path / path).parent.mkdir(parents=True)
            (tmp_path / path).write_text("rows" if mark == "whole" else "row")
    (tmp_path / "signs-000000000").mkdir()
    (tmp_path / "signs-000000000" / "_SUCCESS").touch()
    ledger = {"next": 2, "signs": "signs-000000000", LOGS: parts, "journals": {}}
    (tmp_path / LEDGER).write_text(json.dumps(ledger))
    spark: Any = None
    assert Parts(spark, tmp_path).marks(LOGS) == ["whole"]
    (tmp_path / "signs-000000000" / "_SUCCESS").unlink()
    assert Parts(spark, tmp_path).marks(LOGS) == []


def test_a_ledger_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    (tmp_path / LEDGER).write_text('{"next": 2, "logs"')
    spark: Any = None
    assert Parts(spark, tmp_path).marks(LOGS) == []


def test_one_problem_of_a_file_in_several_slabs_is_one(tmp_path: Path) -> None:
    problem = {"host": "mq01a", "file": "activemq.log", "what": "N bytes are no text"}
    about = {"files": [], "rows": 10, "unknown": 1, "unread": 2, "problems": [problem]}
    (tmp_path / "signs-000000000").mkdir()
    (tmp_path / "signs-000000000" / "_SUCCESS").touch()
    told = {"next": 1, "signs": "signs-000000000", LOGS: {"a": about, "b": about}, "journals": {}}
    (tmp_path / LEDGER).write_text(json.dumps(told))
    spark: Any = None
    parts = Parts(spark, tmp_path)
    assert parts.rows() == 20
    assert parts.seen() == {"problems": [problem], "turns": [], "unknown": 2, "unread": 4}


def test_files_are_linked_and_not_copied(tmp_path: Path) -> None:
    for mark in ("a", "b"):
        (tmp_path / f"share={mark}").mkdir()
        (tmp_path / f"share={mark}" / "part-00000.parquet").write_text(mark)
    assert link_all(sorted(tmp_path.glob("share=*/*")), tmp_path / "out") == 2
    found = sorted((tmp_path / "out").iterdir())
    assert [path.read_text() for path in found] == ["a", "b"]
    assert all(path.stat().st_nlink == 2 for path in found)
