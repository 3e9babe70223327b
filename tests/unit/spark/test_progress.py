"""The progress that a job shows while it runs."""

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


def _create_progress(*, shown: bool, is_terminal: bool) -> tuple[SparkProgressDisplay, io.StringIO, _Clock]:
    """Return a progress display with its output and its clock."""
    stream, clock = io.StringIO(), _Clock()
    return SparkProgressDisplay(stream, enabled=shown, is_terminal=is_terminal, clock=clock), stream, clock


def test_progress_on_terminal_counts_tasks_on_one_line() -> None:
    progress, stream, clock = _create_progress(shown=True, is_terminal=True)
    with progress.show_progress_phase("reading logs"):
        clock.now = 3.0
        progress.show_task_counts(TaskCounts(done=2, running=2, all=8))
        assert "\n" not in stream.getvalue()
        assert stream.getvalue().endswith("reading logs: 3 s, 2 of 8 tasks")


def test_progress_without_terminal_is_one_line_per_phase() -> None:
    progress, stream, clock = _create_progress(shown=True, is_terminal=False)
    with progress.show_progress_phase("reading logs"):
        clock.now = 3.25
        progress.show_task_counts(TaskCounts(done=2, running=2, all=8))
    assert stream.getvalue() == "reading logs: 3.2 s\n"


def test_progress_that_is_not_enabled_prints_nothing() -> None:
    progress, stream, _ = _create_progress(shown=False, is_terminal=False)
    with progress.show_progress_phase("reading logs"):
        progress.show_task_counts(TaskCounts(done=2, running=2, all=8))
    assert stream.getvalue() == ""


def test_failed_phase_of_spark_job_is_not_reported_as_completed() -> None:
    progress, stream, _ = _create_progress(shown=True, is_terminal=False)
    with pytest.raises(ValueError, match="no logs"), progress.show_progress_phase("reading logs"):
        raise ValueError("no logs")
    assert stream.getvalue() == ""


def test_missing_spark_workers_are_reported_once_without_progress_display() -> None:
    progress, stream, clock = _create_progress(shown=False, is_terminal=False)
    for now in range(0, 120, 10):
        clock.now = now
        progress.show_task_counts(TaskCounts(done=0, running=0, all=8))
    assert stream.getvalue().count("no Spark worker has started a task") == 1


def test_spark_tasks_that_start_late_cause_no_report() -> None:
    progress, stream, clock = _create_progress(shown=False, is_terminal=False)
    progress.show_task_counts(TaskCounts(all=8))
    clock.now = 29.0
    progress.show_task_counts(TaskCounts(running=1, all=8))
    clock.now = 58.0
    progress.show_task_counts(TaskCounts(all=8))
    assert stream.getvalue() == ""


def test_progress_phase_without_spark_session_raises_no_error() -> None:
    with show_progress_phase("nothing"):
        pass
