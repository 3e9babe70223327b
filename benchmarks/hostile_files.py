"""``check --file`` on files of 1 MB that are made to keep it busy, each from the start of the process to its end."""

from __future__ import annotations

from pathlib import Path

from benchmarks.measure import Run, print_progress, program, run
from tests.hostile_files import SHAPES

SIZE = 1_000_000
BOUND = 2.0  # seconds of CPU time
_RELEASE = "5.18.3"


def measure(work: Path) -> dict[str, Run]:
    """Each shape of ``tests/hostile_files.py`` once."""
    path, found = work / "hostile.xml", {}
    for name, shape in SHAPES.items():
        print_progress(f"check --file, {name}")
        path.write_bytes(shape(SIZE))
        # with a baseline to write, findings are no failure
        baseline = ["--write-baseline", str(work / "hostile.json")]
        found[name] = run([program("activemq-fleet"), "check", "--file", path, "--release", _RELEASE, *baseline])
    return found


def table(found: dict[str, Run]) -> str:
    """The slowest in Markdown, and how many are beyond the bound."""
    slowest = sorted(found.items(), key=lambda one: -one[1].cpu)
    lines = ["| shape of 1 MB | CPU s | peak MiB |", "|---|---|---|"]
    lines += [f"| {name} | {one.cpu:.2f} | {one.peak:.0f} |" for name, one in slowest[:8]]
    beyond = sum(one.cpu > BOUND for one in found.values())
    return "\n".join([*lines, f"\nOf {len(found)} shapes {beyond} take more than {BOUND:.0f} s of CPU time."]) + "\n"
