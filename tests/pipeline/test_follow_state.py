"""What a stream keeps: later micro-batches replace what they read again, and all is put together now and then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from activemq_fleet.spark.follow import state as module
from activemq_fleet.spark.follow.source import SCHEMA
from activemq_fleet.spark.follow.state import State

COLUMNS = [column.split()[0] for column in SCHEMA.split(", ")]


def batch(spark: SparkSession, begin: int, text: str, name: str) -> DataFrame:
    """What the stream brings of a file that was read from ``begin`` on, and is called ``name`` now."""
    common = {"host": "mq01a", "number": 1, "kind": "log", "file": name, "gone": False}
    piece: dict[str, Any] = {**common, "named": False, "begin": begin, "line": begin // 10, "chunk": text.encode()}
    named: dict[str, Any] = {**common, "named": True}
    return spark.createDataFrame([tuple(row.get(column) for column in COLUMNS) for row in (piece, named)], SCHEMA)


def kept(state: State, number: int) -> tuple[str, str]:
    """The file's text, and its name."""
    pieces = sorted((row["begin"], bytes(row["chunk"]).decode()) for row in state.pieces(number).collect())
    return "".join(text for _, text in pieces), state.names(number).collect()[0]["file"]


def test_what_was_read_again_counts_once(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", 2)
    state = State(spark, f"file://{tmp_path}")
    text = "".join(f"line {number:4}\n" for number in range(40))
    ends = [50, 130, 130, 200, 270, 330, 400, 400]
    for number, end in enumerate(ends):
        # The last line before is read again; it may have gone on.
        begin = max(0, ends[number - 1] - 10) if number else 0
        for _ in range(2 if number in (3, 4) else 1):  # a micro-batch that was killed is done again
            state.take(number, batch(spark, begin, text[begin:end], f"activemq.log.{number}"))
    assert kept(state, len(ends) - 1) == (text, "activemq.log.7")
    left = sorted(path.name for path in (tmp_path / "pieces").iterdir())
    assert left == ["batch-000000000-4", "batch-000000004-2", "batch-000000006-1", "batch-000000007-1"]
    assert state.pieces(len(ends) - 1).count() <= 4, "small pieces stay many"
