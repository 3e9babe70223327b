"""Measure the conversion of broker logs to the dataset ``events``: Spark, two plain processes, DuckDB and Polars.

Every engine runs in a separate process, reads the same files, and writes Parquet (zstd). Spark and the plain
processes call the same scanner and write the same columns; DuckDB and Polars write what a query can
extract: records with time, level, message, logger, thread and stack, without kinds, fields and line numbers.
The benchmark hashes the columns that all engines write; the hashes must be equal.
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
    """Figures of an engine: seconds of the work and of the session start, CPU seconds, peak MiB, rows and hashes."""

    engine: str
    seconds: float
    before: float
    cpu: float
    peak: float
    rows: int
    shared: str
    full: str


def measure(work: Path, megabytes: int, engines: Sequence[str] = ENGINES) -> list[EngineFigures]:
    """Run each engine once on logs of a size. Raise BenchmarkError if their results differ."""
    logs = generate(work / f"logs-{megabytes}", megabytes)
    figures = [_measure_engine(engine, logs, work / f"out-{engine}") for engine in engines]
    for name in ("rows", "shared"):
        if len({getattr(figure, name) for figure in figures}) > 1:
            raise BenchmarkError(f"{name} differ: {[(figure.engine, getattr(figure, name)) for figure in figures]}")
    if len({figure.full for figure in figures if figure.full}) > 1:
        raise BenchmarkError(f"all columns differ: {[(figure.engine, figure.full) for figure in figures]}")
    return figures


def _measure_engine(engine: str, logs: Path, out: Path) -> EngineFigures:
    report = out.with_suffix(".json")
    run([sys.executable, "-m", "benchmarks.audit_engines", engine, logs, out, report])
    return EngineFigures(engine, **json.loads(report.read_text()))


def table(figures: Sequence[EngineFigures], megabytes: int) -> str:
    """Return the figures as a Markdown table."""
    lines = [
        f"{megabytes} MB of logs, {figures[0].rows:,} events, 100 hosts.\n",
        "| engine | s | MB/s | CPU s | session start, s | peak MiB | speed, two processes = 1 | by CPU |",
        "|---|---|---|---|---|---|---|---|",
    ]
    base = next((figure for figure in figures if figure.engine == "processes"), figures[0])
    lines += [
        f"| {_LABELS[figure.engine]} | {figure.seconds:.1f} | {megabytes / figure.seconds:.0f} | {figure.cpu:.1f} | "
        f"{figure.before:.1f} | {figure.peak:.0f} | {base.seconds / figure.seconds:.2f} | {base.cpu / figure.cpu:.2f} |"
        for figure in figures
    ]
    return "\n".join(lines) + f"\n\nHash of the shared columns: `{figures[0].shared}`.\n"


def page(work: Path) -> str:
    """Measure every engine with 1 GB and Spark with 4 GB, and return how time and memory grow."""
    small, large = measure(work, 1024), measure(work, 4096, ["spark"])
    longer, larger = large[0].seconds / small[0].seconds, large[0].peak / small[0].peak
    grown = f"4 GB take {longer:.1f} times as long as 1 GB, and {larger:.2f} times the memory."
    return f"{table(small, 1024)}\n{table(large, 4096)}\n{grown}\n"


if __name__ == "__main__":
    size = int(sys.argv[2])
    print(table(measure(Path(sys.argv[1]), size, sys.argv[3:] or ENGINES), size))
