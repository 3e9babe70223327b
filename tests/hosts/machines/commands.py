"""Commands of the system, whose failures are reported in one line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from .errors import MachinesError

PATIENCE = 300.0
"""Time limit of a command in seconds: a broker may take a minute to stop on an idle machine."""

Completed = subprocess.CompletedProcess[str]


def attempt(
    argv: Sequence[str],
    *,
    stdin: str | None = None,
    timeout: float = PATIENCE,
    env: Mapping[str, str] | None = None,
) -> Completed:
    """Run ``argv`` and return the completed process, with any exit status.

    Raises MachinesError if the command cannot be started or takes longer than ``timeout`` seconds.
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
        raise MachinesError(f"{argv[0]} is not installed: install it") from error
    except subprocess.TimeoutExpired as error:
        raise MachinesError(f"{' '.join(argv[:4])} … has not ended after {timeout:g} s") from error


def run(
    argv: Sequence[str],
    *,
    stdin: str | None = None,
    timeout: float = PATIENCE,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run ``argv``; return its standard output. Raises MachinesError with the last line of its output."""
    completed = attempt(argv, stdin=stdin, timeout=timeout, env=env)
    if completed.returncode:
        raise MachinesError(f"{' '.join(argv[:4])} …: {last_line_of(completed)}")
    return completed.stdout


def last_line_of(done: Completed) -> str:
    """Return the last line of the output of a process, or its exit status if it printed nothing."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"
