"""A call that a test interrupts. Its files show that it began and that it ended in order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def _record_begin_and_end(path: Path) -> Iterator[None]:
    path.with_suffix(".open").touch()
    try:
        yield
    finally:
        path.with_suffix(".closed").touch()


def wait_for_interruption(path: Path) -> None:
    """Wait for a signal inside a ``with`` block that creates files when it begins and ends."""
    with _record_begin_and_end(path):
        time.sleep(600)
