"""A call that a test interrupts: it leaves files that show its begin and its orderly end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def _opened(path: Path) -> Iterator[None]:
    path.with_suffix(".open").touch()
    try:
        yield
    finally:
        path.with_suffix(".closed").touch()


def wait_for_interruption(path: Path) -> None:
    """Wait for a signal inside a ``with`` block, whose end takes a while, as the stop of brokers does."""
    with _opened(path):
        time.sleep(600)
