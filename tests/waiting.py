"""Waits that do not fail by chance on a busy machine, and that report the last observation when they time out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, Queue
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 300.0
"""Seconds that suffice on a busy machine for work that takes a few seconds on an idle one."""


class LateError(TimeoutError):
    """A wait that timed out, which proves nothing; an AssertionError means that a condition does not hold."""


def wait_until(
    condition: Callable[[], object],
    what: str,
    *,
    seen: Callable[[], object] = lambda: "",
    patience: float = PATIENCE,
    pause: float = 0.3,
    expected_errors: tuple[type[Exception], ...] = (),
) -> None:
    """Return when ``condition`` holds. Raise LateError after ``patience`` seconds, with ``what`` and ``seen``.

    Errors of the classes ``expected_errors`` mean that the condition does not hold yet.
    """
    end, error = time.monotonic() + patience, ""
    while True:
        try:
            if condition():
                return
            error = ""
        except expected_errors as raised:
            error = f"{type(raised).__name__}: {raised}"
        if time.monotonic() > end:
            observation = error or observation_text(seen)
            raise LateError(f"timed out after {patience:g} s: this condition does not hold: {what}: {observation}")
        time.sleep(pause)


def within(seconds: float, act: Callable[[], T]) -> T:
    """Return what ``act`` returns in a separate thread; raise LateError if it has not ended after ``seconds``."""
    outcomes: Queue[tuple[T] | BaseException] = Queue()

    def run() -> None:
        try:
            outcomes.put((act(),))
        except BaseException as error:  # noqa: BLE001 -- raised again in the test's thread
            outcomes.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        outcome = outcomes.get(timeout=seconds)
    except Empty:
        raise LateError(f"timed out after {seconds:g} s: the call has not ended") from None
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome[0]


def observation_text(seen: Callable[[], object]) -> str:
    """Return the observation as text; an error of the observation does not hide the wait that timed out."""
    try:
        return str(seen())
    except Exception as error:  # noqa: BLE001 -- the text contains each error
        return f"{type(error).__name__}: {error}"
