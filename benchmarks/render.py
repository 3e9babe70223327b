"""Compare ``render`` of fleets with ``ansible-inventory --list``, which only reads them."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.inventories import plain
from benchmarks.measure import Run, median, print_progress, program, run

SIZES = {1_000: 3, 10_000: 1}
"""Brokers, and how often each size is measured."""


def measure(work: Path) -> dict[int, tuple[Run, Run]]:
    """(render, ansible-inventory) by number of brokers."""
    found = {}
    for brokers, runs in SIZES.items():
        inventory, output = plain(work / f"inventory-{brokers}", brokers), work / f"rendered-{brokers}"
        print_progress(f"render of {brokers:,} brokers, {runs} time(s)")

        def render(inventory: Path = inventory, output: Path = output) -> Run:
            shutil.rmtree(output, ignore_errors=True)
            return run([program("activemq-fleet"), "render", "-i", inventory, "-o", output])

        def listing(inventory: Path = inventory) -> Run:
            return run([program("ansible-inventory"), "-i", inventory, "--list"])

        found[brokers] = median(render, runs=runs), median(listing, runs=runs)
        shutil.rmtree(output)
    return found


def table(found: dict[int, tuple[Run, Run]]) -> str:
    """The figures in Markdown."""
    lines = [
        "| brokers | `activemq-fleet render` | brokers/s | peak MiB | `ansible-inventory --list` alone | ratio |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {brokers:,} | {ours.wall:.1f} s | {brokers / ours.wall:,.0f} | {ours.peak:.0f} "
        f"| {theirs.wall:.1f} s | {ours.wall / theirs.wall:.1f} |"
        for brokers, (ours, theirs) in found.items()
    ]
    return "\n".join(lines) + "\n"
