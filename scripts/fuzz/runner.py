"""Runs one fuzz target for a while, and keeps every input that fails."""

from __future__ import annotations

import resource
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType

from .target import Target

KEPT_INPUTS = Path("build/fuzz")
MEMORY_LIMIT = 3 << 30
"""Bytes of data that the process may hold: an input that makes it ask for more raises MemoryError, a failure."""


class Hang(BaseException):
    """One input took more processor time than its target allows; no handler of the target's catches it."""


def fuzz(name: str, target: Target, minutes: float, seed: int, samples: Sequence[bytes]) -> int:
    """Feed inputs to the target for so many minutes, print a summary, and return the number of failures."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    random = Random(seed)  # noqa: S311 -- repeatable, not secret
    end, count, failures, size, slowest = time.monotonic() + minutes * 60, 0, 0, 0, 0.0
    while time.monotonic() < end:
        data = target.generate(random, samples)
        began = time.process_time()
        failure = _failure(target, data)
        slowest, count, size = max(slowest, time.process_time() - began), count + 1, size + len(data)
        if failure:
            failures += 1
            KEPT_INPUTS.mkdir(parents=True, exist_ok=True)
            kept = KEPT_INPUTS / f"{name}-{seed}-{count}{target.suffix}"
            kept.write_bytes(data)
            print(f"{kept}: {failure}"[:2000], flush=True)
    print(
        f"{name}: {count} inputs, {size / 1e6:.1f} MB, {failures} failures, the slowest took {slowest:.2f} s of "
        f"processor time (seed {seed})",
        flush=True,
    )
    return failures


def _failure(target: Target, data: bytes) -> str:
    try:
        with _limited(target.seconds):
            return target.run(data)
    except Hang:
        return f"more than {target.seconds:g} s of processor time"
    except (Exception, SystemExit):  # noqa: BLE001 -- whatever it raises is what is looked for
        return traceback.format_exc()


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    previous = signal.signal(signal.SIGPROF, _raise_hang)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def _raise_hang(_number: int, _frame: FrameType | None) -> None:
    raise Hang
