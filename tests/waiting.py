"""Waits that a busy machine cannot make fail by chance, and that say what they saw when they run out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, Queue
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 300.0
"""Seconds that no machine under load needs for what takes a few by itself."""


class LateError(TimeoutError):
    """A wait ran out, which proves nothing either way: an AssertionError is a claim that does not hold."""


def wait_until(
    condition: Callable[[], object],
    what: str,
    *,
    seen: Callable[[], object] = lambda: "",
    patience: float = PATIENCE,
    pause: float = 0.3,
    passing: tuple[type[Exception], ...] = (),
) -> None:
    """Return when ``condition`` holds. LateError after ``patience`` seconds, with ``what`` and what is ``seen``.

    Errors of the classes ``passing`` mean that it does not hold yet.
    """
    end, error = time.monotonic() + patience, ""
    while True:
        try:
            if condition():
                return
            error = ""
        except passing as raised:
            error = f"{type(raised).__name__}: {raised}"
        if time.monotonic() > end:
            raise LateError(f"timed out: after {patience:g} s it does not hold that {what}: {error or tell(seen)}")
        time.sleep(pause)


def within(seconds: float, act: Callable[[], T]) -> T:
    """Return what ``act`` returns, from a thread of its own; LateError when it has not ended after ``seconds``."""
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


def tell(seen: Callable[[], object]) -> str:
    """What was seen as text; nothing that goes wrong with it hides the wait that ran out."""
    try:
        return str(seen())
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is told
        return f"{type(error).__name__}: {error}"
