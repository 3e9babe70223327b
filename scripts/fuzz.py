"""Feeds ``check --file`` mutated files for some minutes: python -m scripts.fuzz --minutes 10 [--seed N] [FILE ...]

Each file goes through the whole command, schema included. A crash leaves its input in build/fuzz.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import time
from pathlib import Path
from random import Random

from activemq_fleet.cli.formats import FORMATS
from activemq_fleet.cli.main import main as command
from tests.mutations import RELEASES, mutated, seeds

PLACE = Path("build/fuzz")
_SLOW = 10.0  # seconds for one file


def main() -> int:
    """Print what was tried; exit 1 for a crash, a traceback or a file that takes too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("files", nargs="*", type=Path, help="real files, beside the rules' own examples")
    options = parser.parse_args()
    known = [*seeds(), *(path.read_bytes() for path in options.files)]
    print(f"seed {options.seed}, {len(known)} files to begin with, {options.minutes} minutes", flush=True)
    PLACE.mkdir(parents=True, exist_ok=True)
    random, path = Random(options.seed), PLACE / f"now-{os.getpid()}.xml"  # noqa: S311 -- repeatable, not secret
    end, tried, wrong, slowest = time.monotonic() + options.minutes * 60, 0, 0, 0.0
    while time.monotonic() < end:
        data = mutated(random.choice(known), known, random)
        path.write_bytes(data)
        begin = time.monotonic()
        said = _checked(path, random.choice(RELEASES), random.choice(FORMATS))
        took = time.monotonic() - begin
        slowest, tried = max(slowest, took), tried + 1
        if said or took > _SLOW:
            wrong += 1
            kept = PLACE / f"{options.seed}-{tried}.xml"
            kept.write_bytes(data)
            print(f"{kept}: {said or f'took {took:.1f} s'}", flush=True)
    path.unlink(missing_ok=True)
    print(f"{tried} files, {wrong} failures, the slowest took {slowest:.2f} s")
    return 1 if wrong else 0


def _checked(path: Path, release: str, form: str) -> str:
    """What went wrong, empty for a clean end: exit 0 or 1, and nothing of Python's."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command(["check", "--file", str(path), "--release", release, "--format", form])
    said = err.getvalue()
    return "" if code in (0, 1) and "Traceback" not in said and "bug" not in said else f"exit {code}: {said.strip()}"


if __name__ == "__main__":
    sys.exit(main())
