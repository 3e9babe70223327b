"""Waits for brokers and agents, with their limits and the errors of waits that time out."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.waiting import LateError, observation_text

PATIENCE = 120.0
"""Seconds for what takes a few seconds on an idle machine. A wait whose condition holds costs nothing."""
_POLL = 0.1


def until(
    condition: Callable[[], object], timeout: float, what: Callable[[], str] | str, *, pause: float = _POLL
) -> float:
    """Wait until a condition holds; return the seconds that it took. Raise LateError with ``what`` after the timeout.

    ``what`` describes the condition. It may be a function whose text also describes what was observed.
    """
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > timeout:
            raise LateError(
                f"timed out after {timeout:g} s: {what if isinstance(what, str) else observation_text(what)}"
            )
        time.sleep(pause)
    return time.monotonic() - began
