"""Fuzz the parsers with hostile inputs: python -m scripts.fuzz [TARGET ...] [--minutes 10] [--seed N] [--sample FILE]

Without a target, all targets run, each for this number of minutes. Inputs that fail are stored in build/fuzz.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import subprocess
import sys
import time
from pathlib import Path

import scripts.fuzz

from .runner import fuzz
from .target import Target

_RUNNER = {"__main__", "runner", "target"}


def target_names() -> list[str]:
    """Return the names of the modules that are targets, sorted."""
    return sorted({module.name for module in pkgutil.iter_modules(scripts.fuzz.__path__)} - _RUNNER)


def main() -> int:
    """Run the targets, each in a separate process; exit 1 after a crash, a hang or a wrong result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "targets", nargs="*", choices=[*target_names(), []], metavar="TARGET", help=", ".join(target_names())
    )
    parser.add_argument("--minutes", type=float, default=10, help="minutes per target")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--sample", type=Path, action="append", default=[], metavar="FILE", help="real input to mutate")
    options = parser.parse_args()
    if len(options.targets) == 1:
        (name,) = options.targets
        target: Target = importlib.import_module(f"scripts.fuzz.{name}").TARGET
        print(f"{name}: {target.title}, {options.minutes:g} minutes", flush=True)
        return min(1, fuzz(name, target, options.minutes, options.seed, [path.read_bytes() for path in options.sample]))
    flags = [f"--minutes={options.minutes}", f"--seed={options.seed}", *(f"--sample={path}" for path in options.sample)]
    codes = [
        subprocess.run([sys.executable, "-m", "scripts.fuzz", name, *flags], check=False).returncode
        for name in options.targets or target_names()
    ]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
