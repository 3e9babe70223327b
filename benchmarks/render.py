"""Compare ``render`` of fleets with ``ansible-inventory --list``, which only reads the inventory."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.inventories import write_inventory
from benchmarks.measure import Run, median, print_progress, program, run

SIZES = {1_000: 3, 10_000: 1}
"""The number of runs by number of brokers."""


def measure(work: Path) -> dict[int, tuple[Run, Run]]:
    """Return the figures of ``render`` and of ``ansible-inventory`` by number of brokers."""
    figures = {}
    for brokers, runs in SIZES.items():
        inventory, output = write_inventory(work / f"inventory-{brokers}", brokers), work / f"rendered-{brokers}"
        print_progress(f"render of {brokers:,} brokers, {runs} time(s)")

        def render(inventory: Path = inventory, output: Path = output) -> Run:
            shutil.rmtree(output, ignore_errors=True)
            return run([program("activemq-fleet"), "render", "-i", inventory, "-o", output])

        def listing(inventory: Path = inventory) -> Run:
            return run([program("ansible-inventory"), "-i", inventory, "--list"])

        figures[brokers] = median(render, runs=runs), median(listing, runs=runs)
        shutil.rmtree(output)
    return figures


def table(figures: dict[int, tuple[Run, Run]]) -> str:
    """Return the figures as a Markdown table."""
    lines = [
        "| brokers | `activemq-fleet render` | brokers/s | peak MiB | `ansible-inventory --list` alone | ratio |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {brokers:,} | {rendering.wall:.1f} s | {brokers / rendering.wall:,.0f} | {rendering.peak:.0f} "
        f"| {listing.wall:.1f} s | {rendering.wall / listing.wall:.1f} |"
        for brokers, (rendering, listing) in figures.items()
    ]
    return "\n".join(lines) + "\n"
