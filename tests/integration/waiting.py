"""Waiting for brokers and agents: how long, and what a wait that runs out says."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.waiting import LateError, observation_text

PATIENCE = 120.0
"""Seconds for what takes a few where nothing else runs. A wait that ends at once costs nothing."""
_POLL = 0.1


def until(holds: Callable[[], object], timeout: float, what: Callable[[], str] | str, *, pause: float = _POLL) -> float:
    """Wait until it is so; returns the seconds that it took. Raises LateError with ``what`` was waited for.

    ``what`` may be a function that also says what was seen instead.
    """
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > timeout:
            raise LateError(
                f"timed out after {timeout:g} s: {what if isinstance(what, str) else observation_text(what)}"
            )
        time.sleep(pause)
    return time.monotonic() - began
