"""Measure ``check --file`` on files of 1 MB that are designed to slow it down, including the process start."""

from __future__ import annotations

from pathlib import Path

from benchmarks.measure import Run, print_progress, program, run
from tests.hostile_files import SHAPES

SIZE = 1_000_000
BOUND = 2.0  # seconds of CPU time
_RELEASE = "5.18.3"


def measure(work: Path) -> dict[str, Run]:
    """Measure each shape of ``tests/hostile_files.py`` once."""
    path, runs = work / "hostile.xml", {}
    for name, shape in SHAPES.items():
        print_progress(f"check --file, {name}")
        path.write_bytes(shape(SIZE))
        # With --write-baseline, findings do not fail the command.
        baseline = ["--write-baseline", str(work / "hostile.json")]
        runs[name] = run([program("activemq-fleet"), "check", "--file", path, "--release", _RELEASE, *baseline])
    return runs


def table(runs: dict[str, Run]) -> str:
    """Return the slowest shapes as a Markdown table, and the number of shapes above the bound."""
    slowest = sorted(runs.items(), key=lambda entry: -entry[1].cpu)
    lines = ["| shape of 1 MB | CPU s | peak MiB |", "|---|---|---|"]
    lines += [f"| {name} | {figures.cpu:.2f} | {figures.peak:.0f} |" for name, figures in slowest[:8]]
    slow = sum(figures.cpu > BOUND for figures in runs.values())
    return "\n".join([*lines, f"\n{slow} of {len(runs)} shapes take more than {BOUND:.0f} s of CPU time."]) + "\n"
