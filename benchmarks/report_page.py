"""Measure the report of an audit of 100 hosts and a million events: its size, and the time to display it.

Each measurement starts Chromium, opens the page and saves a screenshot. The reference is an empty page.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.journals import write_agent_journals
from benchmarks.log_data import HOSTS, generate
from benchmarks.measure import BenchmarkError, print_progress, run
from scripts.browser import Browser, BrowserError, Scheme

EVENTS = 1_000_000
MEGABYTES = 200  # of broker logs
ROUNDS = 5
_SCHEMES: tuple[Scheme, ...] = ("light", "dark")
_WINDOW = (1064, 1400)  # pixels


@dataclass(frozen=True, slots=True)
class ReportTimings:
    """The size of a report in bytes, and the seconds of each round by color scheme and for an empty page."""

    size: int
    report: dict[Scheme, list[float]]
    empty: list[float]


def measure(work: Path) -> ReportTimings:
    """Audit generated logs and journals, and open the report in Chromium. Raise BenchmarkError without Chromium."""
    logs, out = generate(work / "logs-of-a-report", MEGABYTES), work / "reported"
    if not (logs / "publisher.example.com").exists():
        print_progress(f"journals of {EVENTS:,} events")
        write_agent_journals(logs, EVENTS)
    print_progress("the audit")
    run([sys.executable, "-m", "benchmarks.journals", "audit", logs, out, work / "reported.json"])
    return open_page(out / "report.html")


def open_page(page: Path, rounds: int = ROUNDS) -> ReportTimings:
    """Open a page and an empty page alternately, each in a new browser."""
    timings = ReportTimings(page.stat().st_size, {scheme: [] for scheme in _SCHEMES}, [])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        directory = Path(name)
        empty = directory / "empty.html"
        empty.write_text("<!DOCTYPE html><title>Empty</title>", encoding="utf-8")
        try:
            browser = Browser.find(directory / "profile")
            for _ in range(rounds):
                for scheme in _SCHEMES:
                    timings.report[scheme].append(_seconds(browser, page, directory, scheme))
                timings.empty.append(_seconds(browser, empty, directory, "light"))
        except BrowserError as error:
            raise BenchmarkError(str(error)) from error
    return timings


def _seconds(browser: Browser, page: Path, directory: Path, scheme: Scheme) -> float:
    began = time.perf_counter()
    browser.screenshot(page, directory / "picture.png", _WINDOW, scheme)
    return time.perf_counter() - began


def table(timings: ReportTimings) -> str:
    """Return the figures as a Markdown table."""
    lines = ["| report | size | light colors | dark colors | empty page |", "|---" * 5 + "|"]
    columns = " | ".join(_rounds(seconds) for seconds in (*timings.report.values(), timings.empty))
    lines.append(f"| {HOSTS} hosts, {EVENTS:,} events | {timings.size / 1e6:.2f} MB | {columns} |")
    return "\n".join(lines) + "\n"


def _rounds(seconds: Sequence[float]) -> str:
    return f"{median(seconds):.2f} s (at most {max(seconds):.2f} s)"


if __name__ == "__main__":
    print(table(measure(Path(sys.argv[1]))))
