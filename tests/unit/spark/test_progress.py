"""What a job says while it works."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pytest

from activemq_fleet.spark.progress import SparkProgressDisplay, TaskCounts, show_progress_phase


@dataclass
class _Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def _progress(*, shown: bool, lively: bool) -> tuple[SparkProgressDisplay, io.StringIO, _Clock]:
    stream, clock = io.StringIO(), _Clock()
    return SparkProgressDisplay(stream, enabled=shown, is_terminal=lively, clock=clock), stream, clock


def test_on_a_terminal_the_tasks_are_counted_on_one_line() -> None:
    progress, stream, clock = _progress(shown=True, lively=True)
    with progress.show_progress_phase("reading logs"):
        clock.now = 3.0
        progress.show_task_counts(TaskCounts(done=2, running=2, all=8))
        assert "\n" not in stream.getvalue()
        assert stream.getvalue().endswith("reading logs: 3 s, 2 of 8 tasks")


def test_elsewhere_a_phase_is_one_line() -> None:
    progress, stream, clock = _progress(shown=True, lively=False)
    with progress.show_progress_phase("reading logs"):
        clock.now = 3.25
        progress.show_task_counts(TaskCounts(done=2, running=2, all=8))
    assert stream.getvalue() == "reading logs: 3.2 s\n"


def test_nothing_is_said_where_nothing_was_asked_for() -> None:
    progress, stream, _ = _progress(shown=False, lively=False)
    with progress.show_progress_phase("reading logs"):
        progress.show_task_counts(TaskCounts(done=2, running=2, all=8))
    assert stream.getvalue() == ""


def test_a_phase_that_failed_is_not_told_as_done() -> None:
    progress, stream, _ = _progress(shown=True, lively=False)
    with pytest.raises(ValueError, match="no logs"), progress.show_progress_phase("reading logs"):
        raise ValueError("no logs")
    assert stream.getvalue() == ""


def test_tasks_that_nobody_takes_up_are_told_once_even_when_nothing_is_shown() -> None:
    progress, stream, clock = _progress(shown=False, lively=False)
    for now in range(0, 120, 10):
        clock.now = now
        progress.show_task_counts(TaskCounts(done=0, running=0, all=8))
    assert stream.getvalue().count("no Spark worker has started a task") == 1


def test_tasks_that_begin_late_are_no_complaint() -> None:
    progress, stream, clock = _progress(shown=False, lively=False)
    progress.show_task_counts(TaskCounts(all=8))
    clock.now = 29.0
    progress.show_task_counts(TaskCounts(running=1, all=8))
    clock.now = 58.0
    progress.show_task_counts(TaskCounts(all=8))
    assert stream.getvalue() == ""


def test_a_phase_without_a_session_is_silent() -> None:
    with show_progress_phase("nothing"):
        pass
