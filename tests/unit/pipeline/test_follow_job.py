"""When ``audit --follow`` ends, and whom it lets write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.spark.follow.job import _alone, _watch
from tests.unit.pipeline.tailing import Clock


class Query:
    """A streaming query that has a look's length of time pass with each look. ``looks``: batch id, whether at work."""

    def __init__(self, clock: Clock, looks: list[tuple[int, bool]]) -> None:
        self.clock, self.looks = clock, looks
        self.seen = 0

    def awaitTermination(self, timeout: int) -> bool:  # noqa: N802 -- Spark's name
        self.clock.now += timeout
        self.seen += 1
        return self.seen > len(self.looks)

    @property
    def _look(self) -> tuple[int, bool]:
        return self.looks[self.seen - 1]

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802
        return {"batchId": self._look[0]} if self._look[0] >= 0 else None

    @property
    def status(self) -> dict[str, Any]:
        return {"isDataAvailable": self._look[1]}


def looks_until_idle(looks: list[tuple[int, bool]], until_idle: float | None) -> int:
    clock = Clock()
    query: Any = Query(clock, looks)
    _watch(query, until_idle, clock)
    return int(query.seen)


def test_it_ends_when_nothing_new_came_for_so_long() -> None:
    assert looks_until_idle([(0, False)] * 30, 10) == 11


def test_a_long_micro_batch_is_no_idleness() -> None:
    assert looks_until_idle([(0, True)] * 50 + [(1, False)] * 30, 10) == 61


def test_what_comes_meanwhile_counts_anew() -> None:
    assert looks_until_idle([(0, False)] * 8 + [(1, False)] * 30, 10) == 19


def test_without_a_limit_it_goes_on_for_ever() -> None:
    assert looks_until_idle([(0, False)] * 500, None) == 501


def test_two_streams_do_not_write_one_result(tmp_path: Path) -> None:
    with (
        _alone(str(tmp_path / "out")),
        pytest.raises(InputError, match="another audit --follow"),
        _alone(str(tmp_path / "out")),
    ):
        pass
    with _alone(str(tmp_path / "out")):
        pass
