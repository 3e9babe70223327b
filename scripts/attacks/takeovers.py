"""Measure the takeovers of a pair with a shared store, with and without a fence, by release, size and fault.

python -m scripts.attacks.takeovers --results FILE

Each combination is a drill of a separate lab under load (``lab drill``), and one line of FILE. An interrupted run
continues: combinations that FILE contains are not measured again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from activemq_fleet.cli.lab_options import stop_signals_as_interrupt
from activemq_fleet.errors import FleetError
from activemq_fleet.lab.drill import DrillOptions, run_drill
from activemq_fleet.lab.lab import Lab
from activemq_fleet.node.state.fault_kinds import FaultKind
from activemq_fleet.node.timeouts import READY
from scripts.attacks.attack_processes import INTERRUPTED
from scripts.attacks.filled_pair import start_filled, write_inventory
from scripts.attacks.results import append_result, read_results


@dataclass(frozen=True)
class Drill:
    """A drill: ``kills`` faults of a kind on a pair of ``release``, whose store contains ``megabytes`` beforehand."""

    release: str
    megabytes: int
    fence: str
    what: FaultKind
    kills: int

    @property
    def name(self) -> str:
        """Return the unique name of the drill."""
        return f"{self.release}/{self.megabytes}mb/{self.fence}/{self.what}/{self.kills}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the missing drills and print the table of all results; return 1 if events were lost."""
    options = _options(arguments)
    for directory in (options.results.parent, options.directory, options.stores):
        if directory:
            directory.mkdir(parents=True, exist_ok=True)
    try:
        with stop_signals_as_interrupt():
            _run_drills(options)
    except KeyboardInterrupt:
        print("takeovers: interrupted; the brokers and clients of the lab are stopped", file=sys.stderr)
        return INTERRUPTED
    rows = list(read_results(options.results))
    print("\n".join(table(rows)))
    return int(any(row["lost"] for row in rows))


def _run_drills(options: argparse.Namespace) -> None:
    """Run each drill that the results do not contain, and append its result."""
    completed = {row["name"] for row in read_results(options.results)}
    for planned_drill in drills(options):
        if planned_drill.name not in completed:
            row = {
                "name": planned_drill.name,
                **asdict(planned_drill),
                **_measure(planned_drill, options),
                "at": time.time(),
            }
            append_result(options.results, row)
            print(json.dumps(row), flush=True)


def drills(options: argparse.Namespace) -> Iterator[Drill]:
    """Yield the drills of a run: one drill for each size, release, kind of fault and fence."""
    for size, release, what, fence in itertools.product(
        options.megabytes, options.releases, options.what, options.fence
    ):
        yield Drill(release, size, fence, what, options.kills)


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the results as a Markdown table: seconds from the fault until the other node's log reports its start."""
    lines = [
        "| release | store | fault | fence | times | takeover, median | longest | downtime, median | accepted | lost |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: (row["megabytes"], row["release"], row["what"], row["fence"])):
        times = f"{_median(row['takeovers'])} | {max(row['takeovers'], default=0):.2f} s | {_median(row['silences'])}"
        head = f"| {row['release']} | {row['megabytes']} MB | {row['what']} | {row['fence']} | {len(row['takeovers'])}"
        lines.append(f"{head} | {times} | {row['accepted']} | {row['lost']} |")
    return lines


def _median(seconds: Sequence[float]) -> str:
    return f"{median(seconds):.2f} s" if seconds else ""


def _measure(planned_drill: Drill, options: argparse.Namespace) -> dict[str, Any]:
    directory = Path(tempfile.mkdtemp(prefix="takeovers-", dir=options.directory))
    try:
        inventory = write_inventory(directory, planned_drill.release, planned_drill.fence)
        with Lab.open(inventory, directory / "lab", heap=options.heap) as lab:
            start_filled(lab, planned_drill.release, planned_drill.megabytes, options.stores)
            os.sync()  # Otherwise the first sync of a guard waits until the disk has written the complete store.
            result = run_drill(
                lab,
                DrillOptions(
                    faults=planned_drill.kills, what=planned_drill.what, rate=options.rate, seed=1, patience=READY
                ),
            )
    except FleetError as error:
        return {"takeovers": [], "silences": [], "accepted": 0, "lost": 0, "verdict": "error", "reasons": [str(error)]}
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return {
        "takeovers": [fault.takeover for fault in result.faults_under_sufficient_load if fault.takeover is not None],
        "silences": [fault.silence for fault in result.faults_under_sufficient_load if fault.silence is not None],
        "accepted": result.event_count_of_all_pairs("accepted"),
        "lost": result.event_count_of_all_pairs("lost"),
        "verdict": result.verdict,
        "reasons": list(result.reasons),
    }


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.attacks.takeovers", description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("build/attacks/takeovers.jsonl"))
    parser.add_argument("--directory", type=Path, help="parent directory of the labs, on the file system to measure")
    parser.add_argument("--stores", type=Path, help="directory that keeps filled stores for later runs")
    parser.add_argument("--fence", nargs="+", default=["guard", "none"], choices=["guard", "none"])
    parser.add_argument(
        "--what",
        nargs="+",
        default=["crash", "kill"],
        choices=["crash", "kill"],
        help="kinds of faults, as in lab drill",
    )
    parser.add_argument("--releases", nargs="+", default=["5.5.1", "5.8.0", "5.11.4", "5.18.3", "6.3.1"])
    parser.add_argument(
        "--megabytes", type=int, nargs="+", default=[10], help="sizes of the stores, in messages of 1 kB"
    )
    parser.add_argument("--kills", type=int, default=20, help="number of faults in each drill")
    parser.add_argument("--rate", type=float, default=100.0, help="events per second")
    parser.add_argument("--heap", default="256m", help="heap of each broker")
    options = parser.parse_args(arguments)
    options.directory = (options.directory or options.results.parent).resolve()
    return options


if __name__ == "__main__":
    sys.exit(main())
