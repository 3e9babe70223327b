"""Runs the system's own tools and turns their failures into one line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from .errors import MachinesError

PATIENCE = 300.0
"""Seconds that a command may take: a broker that stops has a minute, on a machine that has nothing else to do."""

Completed = subprocess.CompletedProcess[str]


def attempt(
    argv: Sequence[str],
    *,
    stdin: str | None = None,
    timeout: float = PATIENCE,
    env: Mapping[str, str] | None = None,
) -> Completed:
    """Run ``argv`` to its end and return it, whatever its exit status.

    Raises MachinesError when it cannot be started or takes longer than ``timeout`` seconds.
    """
    try:
        return subprocess.run(
            list(argv),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            env=None if env is None else {**os.environ, **env},
        )
    except FileNotFoundError as error:
        raise MachinesError(f"{argv[0]}: not installed") from error
    except subprocess.TimeoutExpired as error:
        raise MachinesError(f"{' '.join(argv[:4])} …: no end after {timeout:g} s") from error


def run(
    argv: Sequence[str],
    *,
    stdin: str | None = None,
    timeout: float = PATIENCE,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run ``argv``; return its standard output. Raises MachinesError with its last words."""
    done = attempt(argv, stdin=stdin, timeout=timeout, env=env)
    if done.returncode:
        raise MachinesError(f"{' '.join(argv[:4])} …: {last_words(done)}")
    return done.stdout


def last_words(done: Completed) -> str:
    """The last line that ``done`` said, or its exit status when it said nothing."""
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return said[-1] if said else f"exit status {done.returncode}"
