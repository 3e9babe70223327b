"""Measure broker logs to the dataset ``events``: Spark, two plain processes, DuckDB and Polars.

Every engine runs as a process of its own over the same files, and writes Parquet (zstd). Spark and the plain
processes call the same scanner and write the same columns; DuckDB and Polars do what a query of theirs can:
records with time, level, message, logger, thread and stack, without kinds, fields and line numbers. What
both have is hashed; the hashes must be the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.log_data import generate
from benchmarks.measure import BenchmarkError, run

ENGINES = ("spark", "processes", "polars", "duckdb")
_LABELS = {
    "spark": "Spark, `local[2]`, all columns",
    "processes": "two plain Python processes, the same scanner and columns",
    "polars": "Polars, without kinds, fields and lines",
    "duckdb": "DuckDB, without kinds, fields and lines",
}


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """Of one engine: seconds of the work, seconds before it (Spark's session), CPU seconds, peak MiB, hashes."""

    engine: str
    seconds: float
    before: float
    cpu: float
    peak: float
    rows: int
    shared: str
    full: str


def measure(work: Path, megabytes: int, engines: Sequence[str] = ENGINES) -> list[EngineFigures]:
    """Each engine once, over logs of so many megabytes. Raises BenchmarkError where results differ."""
    logs = generate(work / f"logs-{megabytes}", megabytes)
    found = [_measured(engine, logs, work / f"out-{engine}") for engine in engines]
    for name in ("rows", "shared"):
        if len({getattr(one, name) for one in found}) > 1:
            raise BenchmarkError(f"{name} differ: {[(one.engine, getattr(one, name)) for one in found]}")
    if len({one.full for one in found if one.full}) > 1:
        raise BenchmarkError(f"all columns differ: {[(one.engine, one.full) for one in found]}")
    return found


def _measured(engine: str, logs: Path, out: Path) -> EngineFigures:
    report = out.with_suffix(".json")
    run([sys.executable, "-m", "benchmarks.audit_engines", engine, logs, out, report])
    told = json.loads(report.read_text())
    return EngineFigures(engine, **told)


def table(found: Sequence[EngineFigures], megabytes: int) -> str:
    """Markdown."""
    lines = [
        f"{megabytes} MB of logs, {found[0].rows:,} events, 100 hosts.\n",
        "| engine | s | MB/s | CPU s | session start, s | peak MiB | speed, two processes = 1 | by CPU |",
        "|---|---|---|---|---|---|---|---|",
    ]
    base = next((one for one in found if one.engine == "processes"), found[0])
    lines += [
        f"| {_LABELS[one.engine]} | {one.seconds:.1f} | {megabytes / one.seconds:.0f} | {one.cpu:.1f} | "
        f"{one.before:.1f} | {one.peak:.0f} | {base.seconds / one.seconds:.2f} | {base.cpu / one.cpu:.2f} |"
        for one in found
    ]
    return "\n".join(lines) + f"\n\nHash of what all have `{found[0].shared}`.\n"


def page(work: Path) -> str:
    """1 GB by every engine, and 4 GB by Spark: how time and memory grow."""
    small, large = measure(work, 1024), measure(work, 4096, ["spark"])
    one, four = small[0], large[0]
    longer, larger = four.seconds / one.seconds, four.peak / one.peak
    grown = f"4 GB take {longer:.1f} times as long as 1 GB, and {larger:.2f} times the memory."
    return f"{table(small, 1024)}\n{table(large, 4096)}\n{grown}\n"


if __name__ == "__main__":
    size = int(sys.argv[2])
    print(table(measure(Path(sys.argv[1]), size, sys.argv[3:] or ENGINES), size))
