"""Show a job's phases and the number of finished tasks on stderr.

On a terminal, one line is overwritten. Elsewhere nothing is written by default, and one line per phase if enabled.
A warning that no worker takes up a job's tasks is always written.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from activemq_fleet.node.printable import escape_unprintable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UPDATE_INTERVAL = 0.5  # seconds between two updates
_TASK_START_TIMEOUT = 30.0  # seconds in which a worker should have started a task
_CLEAR_LINE = "\r\x1b[K"


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """The numbers of tasks (done, running, all) in the active stages of Spark."""

    done: int = 0
    running: int = 0
    all: int = 0


@dataclass
class SparkProgressDisplay:
    """A display of a Spark job's progress: its phases and tasks.

    It writes to ``stream`` if ``enabled``; on a terminal it overwrites one line. If no task starts for 30 s, it prints
    a warning even if it is not enabled. ``clock`` returns seconds.
    """

    stream: TextIO
    enabled: bool
    is_terminal: bool
    clock: Callable[[], float] = time.monotonic
    _phase: tuple[str, float] | None = None
    _idle_since: float | None = None
    _has_warned: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def show_progress_phase(self, name: str) -> Iterator[None]:
        """Show the name of a Spark job's phase in the progress display while a ``with`` block runs.

        Its seconds are written at the end unless the block failed.
        """
        began = self.clock()
        self._phase = escape_unprintable(name), began
        self.show_task_counts(TaskCounts())
        clear, summary = _CLEAR_LINE if self.is_terminal else "", ""
        try:
            yield
            summary = f"{escape_unprintable(name)}: {self.clock() - began:.1f} s\n"
        finally:
            with self._lock:
                self._phase = None
                if self.enabled:
                    self._write(clear + summary)

    def show_task_counts(self, tasks: TaskCounts) -> None:
        """Show the numbers of the Spark job's tasks in the progress display.

        It shows the current phase, its seconds, and the number of tasks done.
        """
        with self._lock:
            self._warn_of_idle_tasks(tasks)
            if self.enabled and self.is_terminal and self._phase:
                phase, began = self._phase
                count = f", {tasks.done} of {tasks.all} tasks" if tasks.all else ""
                self._write(f"{_CLEAR_LINE}{phase}: {self.clock() - began:.0f} s{count}")

    def _warn_of_idle_tasks(self, tasks: TaskCounts) -> None:
        waits = tasks.all > 0 and not (tasks.done or tasks.running)
        if not waits:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = self.clock()
        elif self.clock() - self._idle_since >= _TASK_START_TIMEOUT and not self._has_warned:
            self._has_warned = True
            clear = _CLEAR_LINE if self.enabled and self.is_terminal else ""
            self._write(
                f"{clear}warning: no Spark worker has started a task for {_TASK_START_TIMEOUT:.0f} s. Check that the "
                "cluster has workers with free cores and memory (--conf spark.executor.memory, spark.cores.max)\n"
            )

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


_current: SparkProgressDisplay | None = None


@contextmanager
def show_progress_phase(name: str) -> Iterator[None]:
    """Show the name of a Spark job's phase in the current progress display while a ``with`` block runs.

    Does nothing outside of ``show_progress``.
    """
    with _current.show_progress_phase(name) if _current else nullcontext():
        yield


@contextmanager
def show_progress(spark: SparkSession, *, remote: bool, enabled: bool | None) -> Iterator[None]:
    """Show the progress of a Spark session while a ``with`` block runs.

    Phases and tasks are shown on stderr. With ``enabled`` None they are shown only on a terminal. ``remote``: the
    session is one of Spark Connect.
    """
    global _current
    is_terminal = sys.stderr.isatty()
    progress = SparkProgressDisplay(
        sys.stderr, enabled=is_terminal if enabled is None else enabled, is_terminal=is_terminal
    )
    _current, previous = progress, _current
    watched = _watch_remote_session if remote else _watch_status_tracker
    try:
        with watched(spark, progress):
            yield
    finally:
        _current = previous


@contextmanager
def _watch_status_tracker(spark: SparkSession, progress: SparkProgressDisplay) -> Iterator[None]:
    """Update progress twice a second from the status tracker of this process's session."""
    tracker = spark.sparkContext.statusTracker()
    stopped = threading.Event()

    def watch() -> None:
        while not stopped.wait(_UPDATE_INTERVAL):
            try:
                progress.show_task_counts(_count_tasks(tracker))
            except Exception:  # noqa: BLE001 -- the job itself reports what happened to Spark
                return

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stopped.set()
        watcher.join(timeout=10)


def _count_tasks(tracker: Any) -> TaskCounts:
    stages = [info for info in map(tracker.getStageInfo, tracker.getActiveStageIds()) if info is not None]
    return TaskCounts(
        done=sum(stage.numCompletedTasks for stage in stages),
        running=sum(stage.numActiveTasks for stage in stages),
        all=sum(stage.numTasks for stage in stages),
    )


@contextmanager
def _watch_remote_session(spark: SparkSession, progress: SparkProgressDisplay) -> Iterator[None]:
    """Update progress from what the server of Spark Connect reports."""

    def handle(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        running_stages = [stage for stage in stages or () if not stage.done]
        progress.show_task_counts(
            TaskCounts(
                done=sum(stage.num_completed_tasks for stage in running_stages),
                running=inflight_tasks,
                all=sum(stage.num_tasks for stage in running_stages),
            )
        )

    handler: Any = handle  # Any callable is valid, regardless of its annotation.
    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.clearProgressHandlers()
