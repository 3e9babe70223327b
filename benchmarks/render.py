"""Compare ``render`` of fleets with ``ansible-inventory --list``, which only reads the inventory."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from benchmarks.inventories import write_inventory
from benchmarks.measure import Run, median, print_progress, program, run

SIZES = {1_000: 3, 10_000: 1}
"""The number of runs by number of brokers."""


def measure(work: Path) -> dict[int, tuple[Run, Run]]:
    """Return the figures of ``render`` and of ``ansible-inventory`` by number of brokers.

    Each run of ``render`` has a new output directory, because a file system may still be busy with deleted files.
    """
    figures = {}
    for brokers, runs in SIZES.items():
        inventory = write_inventory(work / f"inventory-{brokers}", brokers)
        print_progress(f"render of {brokers:,} brokers, {runs} time(s)")
        with TemporaryDirectory(prefix="rendered-", dir=work) as outputs:

            def render(inventory: Path = inventory, outputs: str = outputs) -> Run:
                return run([program("activemq-fleet"), "render", "-i", inventory, "-o", mkdtemp(dir=outputs)])

            def listing(inventory: Path = inventory) -> Run:
                return run([program("ansible-inventory"), "-i", inventory, "--list"])

            figures[brokers] = median(render, runs=runs), median(listing, runs=runs)
    return figures


def table(figures: dict[int, tuple[Run, Run]]) -> str:
    """Return the figures as a Markdown table."""
    lines = [
        "| brokers | `activemq-fleet render` | brokers/s | peak MiB | `ansible-inventory --list` alone | ratio "
        "| ratio of CPU times |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {brokers:,} | {rendering.wall:.1f} s | {brokers / rendering.wall:,.0f} | {rendering.peak:.0f} "
        f"| {listing.wall:.1f} s | {rendering.wall / listing.wall:.1f} | {rendering.cpu / listing.cpu:.1f} |"
        for brokers, (rendering, listing) in figures.items()
    ]
    return "\n".join(lines) + "\n"
