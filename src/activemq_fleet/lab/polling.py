"""Wait for an asynchronous change, such as the state of a broker or a file of another process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_Found = TypeVar("_Found")


def poll_for_true_result(condition: Callable[[], _Found | None], timeout: float, pause: float = 0.1) -> _Found | None:
    """Call a function repeatedly until it returns a true value or a timeout ends, and return its last result.

    ``condition`` is called at least once. ``timeout`` and the ``pause`` between two calls are in seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        observation = condition()
        if observation or time.monotonic() > deadline:
            return observation
        time.sleep(pause)
