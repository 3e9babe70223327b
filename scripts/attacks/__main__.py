"""Run attacks, each once, and print the state of the stores afterwards. ``--help`` lists the options.

Exit 0 if every guarded store is sound; 1 if messages are lost that no report lists.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from scripts.attacks.attack import Attack, Result, carry_out
from scripts.attacks.attack_processes import INTERRUPTED, run_in_processes
from scripts.attacks.forms import FORMS, ON_AN_IMAGE, WITHOUT_GUARD
from scripts.attacks.results import append_result, read_results

_RELEASES = ("5.5.1", "5.8.0", "5.11.4", "5.18.3", "6.3.1")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the attacks that the results do not contain, and print the table of all results."""
    options = _options(arguments)
    for directory in (options.results.parent, options.directory):
        directory.mkdir(parents=True, exist_ok=True)
    completed = {row["name"] for row in read_results(options.results)}
    remaining = [attack for attack in attacks(options) if attack.name not in completed]
    run_attack = partial(
        carry_out, parent=options.directory, heap=options.heap, stores=options.stores, keep=options.keep
    )
    try:
        for attack, result in zip(remaining, run_in_processes(run_attack, remaining, options.jobs), strict=True):
            row = {"name": attack.name, **asdict(attack), **asdict(result), "commit": _commit(), "at": time.time()}
            append_result(options.results, row)
            print(f"{attack.name}: {'sound' if result.is_sound else 'DAMAGED'} {result}", flush=True)
    except KeyboardInterrupt:
        print("attacks: interrupted; the brokers and clients of all labs are stopped", file=sys.stderr)
        return INTERRUPTED
    rows = list(read_results(options.results))
    print("\n".join(table(rows)))
    return 0 if all(Result(**_fields(row)).is_sound for row in rows if row["fence"] != "none") else 1


def attacks(options: argparse.Namespace) -> Iterator[Attack]:
    """Yield the attacks of a run: ``times`` attacks for each release and fence, with the forms in turn."""
    for number in range(options.start_at, options.times):
        for fence in options.fence:
            forms = [form for form in options.forms if fence != "none" or form in WITHOUT_GUARD]
            for release in options.releases:
                if forms:
                    form = forms[number % len(forms)]
                    yield Attack(release, options.megabytes, form, fence, number, options.seconds)


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the results as a Markdown table with one row per release, size, form and fence."""
    results_by_key: dict[tuple[str, ...], list[Result]] = defaultdict(list)
    for row in rows:
        results_by_key[row["fence"], row["release"], f"{row['megabytes']} MB", row["form"]].append(
            Result(**_fields(row))
        )
    lines = [
        "| fence | release | store | form | runs | sound | acknowledged | lost | in reports | downtime, median |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for key, results in sorted(results_by_key.items()):
        counts = (
            len(results),
            sum(result.is_sound for result in results),
            sum(result.accepted for result in results),
            sum(result.lost + result.filler_lost for result in results),
            sum(result.behind for result in results),
        )
        downtime = f"{median(result.silence for result in results):.1f} s"
        lines.append(f"| {' | '.join((*key, *map(str, counts), downtime))} |")
    return lines


def _possible_forms() -> list[str]:
    return [form for form in FORMS if os.geteuid() == 0 or form not in ON_AN_IMAGE]


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in Result.__dataclass_fields__ if name in row}


def _commit() -> str:
    process = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return process.stdout.strip()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.attacks", description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("build/attacks/results.jsonl"))
    parser.add_argument("--directory", type=Path, help="parent directory of the labs, on the file system to test")
    parser.add_argument("--fence", nargs="+", default=["guard"], choices=["guard", "none"])
    parser.add_argument("--releases", nargs="+", default=list(_RELEASES))
    parser.add_argument("--forms", nargs="+", default=_possible_forms(), choices=list(FORMS))
    parser.add_argument(
        "--times", type=int, default=len(FORMS), help="number of attacks on each release, with the forms in turn"
    )
    parser.add_argument("--start-at", type=int, default=0, help="number of the first attack; lower numbers are skipped")
    parser.add_argument(
        "--megabytes", type=int, default=10, help="size of the store before the attack, in messages of 1 kB"
    )
    parser.add_argument(
        "--stores",
        type=Path,
        help="directory that keeps filled stores for later attacks with the same release and size",
    )
    parser.add_argument("--seconds", type=float, default=60, help="duration of a loop of crashes")
    parser.add_argument("--heap", default="256m", help="heap of each broker")
    parser.add_argument("--jobs", type=int, default=2, help="number of attacks in parallel")
    parser.add_argument("--keep", action="store_true", help="keep the lab directory of a damaged store")
    options = parser.parse_args(arguments)
    options.directory = (options.directory or options.results.parent).resolve()
    return options


if __name__ == "__main__":
    sys.exit(main())
