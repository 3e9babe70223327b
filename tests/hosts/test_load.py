"""How gaps are counted from two agents' journals."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.hosts.load import gaps, merged


@pytest.mark.parametrize(
    ("outages", "expected"),
    [
        ([], []),
        ([(10, 12), (11, 15)], [(10, 5)]),
        ([(10, 30), (11, 12)], [(10, 20)]),
        ([(10, 12), (20, 21)], [(10, 2), (20, 1)]),
        ([(20, 21), (10, 12), (12.5, 13)], [(10, 3), (20, 1)]),
    ],
)
def test_outages_that_overlap_are_one(outages: list[tuple[float, float]], expected: list[tuple[float, float]]) -> None:
    assert merged(outages) == expected


def write(seat: Path, role: str, *records: tuple[int, str]) -> None:
    directory = seat / role / "agent"
    directory.mkdir(parents=True)
    lines = [
        {"ts": datetime.fromtimestamp(at, UTC).isoformat(), "jseq": number, "epoch": "e", "kind": kind}
        for number, (at, kind) in enumerate(records, 1)
    ]
    (directory / "journal-000000001.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_one_loss_of_both_agents_is_one_gap_and_what_was_before_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, "publisher", (1, "connected"), (50, "connection_lost"), (55, "connected"))
    write(
        tmp_path,
        "subscriber",
        (1, "connected"),
        (5, "connection_lost"),
        (6, "connected"),
        (51, "connection_lost"),
        (58, "connected"),
    )

    assert gaps(tmp_path, 10) == [(50, 8)]
