"""Show on a terminal what a command does while it takes longer than two seconds."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from activemq_fleet.cli.terminal import user_color_choice
from activemq_fleet.node.printable import escape_unprintable

if TYPE_CHECKING:
    from rich.progress import Progress

_SECONDS_HIDDEN = 2.0


class ActivityDisplay:
    """A spinner on stderr with the text of the command's current activity, and the seconds since it began.

    It is not shown in the first two seconds, and not where stderr is no terminal. Activities may be nested: the
    innermost is shown.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._progress: Progress | None = None
        self._color: bool | None = None

    @contextmanager
    def spinner_with_text(self, text: str, *, prompts: bool = False) -> Iterator[None]:
        """Return a context manager that shows a text with the spinner on stderr while a ``with`` block runs.

        The text is such as ``Packing the environment``. Nothing is shown where the block ``prompts`` for a password on
        the terminal.
        """
        if prompts or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
            yield
            return
        self._add_text(text)
        try:
            yield
        finally:
            self._remove_text()

    @contextmanager
    def without_spinner(self) -> Iterator[None]:
        """Hide the command's spinner on stderr inside a ``with`` block that prints lines."""
        with self._lock:
            progress = self._progress
            if progress:
                progress.stop()
            try:
                yield
            finally:
                if progress:
                    progress.start()

    def _add_text(self, text: str) -> None:
        with self._lock:
            self._texts.append(escape_unprintable(text))
            self._color = user_color_choice()  # Only the thread of the command has this setting.
            if self._timer is None:
                self._timer = threading.Timer(_SECONDS_HIDDEN, self._start_spinner, (time.monotonic(),))
                self._timer.daemon = True
                self._timer.start()
            self._update_spinner()

    def _remove_text(self) -> None:
        with self._lock:
            self._texts.pop()
            self._update_spinner()
            if self._texts:
                return
            if self._timer:
                self._timer.cancel()
                self._timer = None
            if self._progress:
                self._progress.stop()
                self._progress = None

    def _start_spinner(self, began: float) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        with self._lock:
            if not self._texts or self._progress:
                return
            text_column = TextColumn("{task.description} …", markup=False)
            console = Console(stderr=True, no_color=self._color is False)
            self._progress = Progress(
                SpinnerColumn(),
                text_column,
                TimeElapsedColumn(),
                transient=True,
                console=console,
                get_time=time.monotonic,
            )
            self._progress.add_task(self._texts[-1], total=None)
            self._progress.tasks[0].start_time = began
            self._progress.start()

    def _update_spinner(self) -> None:
        if self._progress and self._texts:
            self._progress.update(self._progress.task_ids[0], description=self._texts[-1])


ACTIVITY = ActivityDisplay()
"""The display of this process."""
