"""Interruptions under load, counted from the journals of two agents."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from activemq_fleet.lab.load_generator import LoadGenerator
from activemq_fleet.lab.load_process import write_load_generator_status
from tests.hosts import load
from tests.hosts.load import interruptions, merge_overlapping


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
def test_overlapping_outages_are_merged_into_one(
    outages: list[tuple[float, float]], expected: list[tuple[float, float]]
) -> None:
    assert merge_overlapping(outages) == expected


def write_journal(pair: Path, role: str, *records: tuple[int, str]) -> None:
    directory = pair / role / "agent"
    directory.mkdir(parents=True)
    lines = [
        {"ts": datetime.fromtimestamp(at, UTC).isoformat(), "jseq": number, "epoch": "e", "kind": kind}
        for number, (at, kind) in enumerate(records, 1)
    ]
    (directory / "journal-000000001.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_losses_of_both_agents_count_as_one_interruption_without_earlier_losses(tmp_path: Path) -> None:
    write_journal(tmp_path, "publisher", (1, "connected"), (50, "connection_lost"), (55, "connected"))
    write_journal(
        tmp_path,
        "subscriber",
        (1, "connected"),
        (5, "connection_lost"),
        (6, "connected"),
        (51, "connection_lost"),
        (58, "connected"),
    )

    assert interruptions(tmp_path, 10) == [(50, 8)]


def load_generator_with_last_event(name: str, last: float) -> LoadGenerator:
    """Return a load generator whose last event was handled at the time ``last``."""
    return cast(
        "LoadGenerator",
        SimpleNamespace(
            name=name,
            raise_if_ended=lambda: None,
            has_stable_connections=lambda: True,
            accepted_and_handled_rates=lambda moment, seconds: (60.0, 60.0),
            last_handled_time=lambda: last,
        ),
    )


def test_load_commands_read_status_written_by_load_generators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pid").write_text(str(os.getpid()))
    (tmp_path / "pairs").write_text("one")
    write_journal(tmp_path / "one", "publisher", (1, "connected"))
    write_journal(tmp_path / "one", "subscriber", (1, "connected"))
    write_load_generator_status(tmp_path, [load_generator_with_last_event("one", time.time() + 3600)])
    reports: list[dict[str, Any]] = []
    for command in ("begin", "end"):
        assert load.main([command, str(tmp_path), "restart"]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert reports[0]["rates"] == {"one": 60.0}
    assert reports[1]["interruptions"] == {"one": []}
