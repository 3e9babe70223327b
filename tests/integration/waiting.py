"""Waiting for brokers and agents, with an error of its own for what does not come in time."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 120.0
"""Seconds for what takes a few where nothing else runs. A wait that ends at once costs nothing."""
_POLL = 0.1


class NotInTimeError(TimeoutError):
    """Something has not come in time.

    That tells as much of the machine as of the product, so `make test` tries the test again, even one that is marked
    ``once``. What was lost or came twice is an AssertionError.
    """


def until(holds: Callable[[], object], timeout: float, what: Callable[[], str] | str, *, pause: float = _POLL) -> float:
    """Wait until it is so; returns the seconds that it took. Raises NotInTimeError with ``what`` was waited for.

    ``what`` may be a function that also says what was seen instead.
    """
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > timeout:
            raise NotInTimeError(f"not in {timeout:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(pause)
    return time.monotonic() - began
