"""Reads broken logs with the scanner and the plain way: FUZZ_SECONDS=600 python -m scripts.fuzz_logs [FILE ...]

Nothing may crash, every line must be counted, and both ways must read the same. What fails is kept in build/fuzz.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from pathlib import Path
from random import Random

from tests.log_reading import differences, hostile

PLACE = Path("build/fuzz")
_SLOW = 10.0  # seconds of the processor for one log


def main() -> int:
    """Print what was tried; exit 1 for a crash, a difference, or a log that takes too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("files", nargs="*", type=Path, help="real logs, to be cut and stirred too")
    options = parser.parse_args()
    known = [path.read_bytes() for path in options.files]
    seconds = float(os.environ.get("FUZZ_SECONDS", "600"))
    print(f"seed {options.seed}, {len(known)} files to begin with, {seconds:g} s", flush=True)
    random = Random(options.seed)  # noqa: S311 -- repeatable, not secret
    end, tried, wrong, size, slowest = time.monotonic() + seconds, 0, 0, 0, 0.0
    while time.monotonic() < end:
        data = hostile(random, known)
        begin = time.process_time()
        said = _tried(data)
        took = time.process_time() - begin
        slowest, tried, size = max(slowest, took), tried + 1, size + len(data)
        if said or took > _SLOW:
            wrong += 1
            PLACE.mkdir(parents=True, exist_ok=True)
            kept = PLACE / f"{options.seed}-{tried}.log"
            kept.write_bytes(data)
            print(f"{kept}: {said or f'took {took:.1f} s'}"[:2000], flush=True)
    print(f"{tried} logs, {size / 1e6:.0f} MB, {wrong} failures, the slowest took {slowest:.2f} s")
    return 1 if wrong else 0


def _tried(data: bytes) -> str:
    try:
        return differences(data)
    except Exception:  # noqa: BLE001 -- whatever it raises is what is looked for
        return traceback.format_exc()


if __name__ == "__main__":
    sys.exit(main())
