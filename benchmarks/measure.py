"""Run a command in a process, and measure its wall seconds, CPU seconds and peak memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Run:
    """Figures of a run: elapsed seconds, CPU seconds, and peak MiB of the largest process."""

    wall: float
    cpu: float
    peak: float


class BenchmarkError(Exception):
    """A measured command failed, so that its figures would be meaningless."""


def run(command: Sequence[str | Path], *, environment: Mapping[str, str] | None = None) -> Run:
    """Run a command until it exits. Raise BenchmarkError with the end of its output if it fails."""
    began = time.perf_counter()
    with subprocess.Popen(
        [str(word) for word in command],
        cwd=REPOSITORY,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        output = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if process.returncode:
        raise BenchmarkError(f"{' '.join(map(str, command))} failed:\n{output[-2000:]}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def median(measure: Callable[[], Run], *, runs: int) -> Run:
    """Return the median of each figure over several runs."""
    measured_runs = [measure() for _ in range(runs)]
    return Run(
        *(statistics.median(figures) for figures in zip(*((r.wall, r.cpu, r.peak) for r in measured_runs), strict=True))
    )


def program(name: str) -> Path:
    """Return the path of a program in the current Python environment."""
    return Path(sys.executable).with_name(name)


def print_progress(text: str) -> None:
    """Print progress to stderr."""
    print(f"==> {text}", file=sys.stderr, flush=True)
