"""Run a fuzz target for some minutes, and store every input that fails."""

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
"""The limit for the memory of the process in bytes: an input that requires more raises MemoryError, a failure."""


class Hang(BaseException):
    """An error for an input that takes too much CPU time. A BaseException, so that the target does not catch it."""


def fuzz(name: str, target: Target, minutes: float, seed: int, samples: Sequence[bytes]) -> int:
    """Run the target with inputs for some minutes, print a summary, and return the number of failures."""
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
            path = KEPT_INPUTS / f"{name}-{seed}-{count}{target.suffix}"
            path.write_bytes(data)
            print(f"{path}: {failure}"[:2000], flush=True)
    print(
        f"{name}: {count} inputs, {size / 1e6:.1f} MB, {failures} failures, the slowest took {slowest:.2f} s of "
        f"CPU time (seed {seed})",
        flush=True,
    )
    return failures


def _failure(target: Target, data: bytes) -> str:
    try:
        with _limited(target.seconds):
            return target.run(data)
    except Hang:
        return f"the input took more than {target.seconds:g} s of CPU time"
    except (Exception, SystemExit):  # noqa: BLE001 -- any exception is a failure of the target
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
