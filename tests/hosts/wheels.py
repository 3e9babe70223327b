"""What a machine installs the agent from: this checkout's wheel, and all that it needs, without a network."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from activemq_fleet.artifacts._cache import land, log_progress
from tests.hosts.machines import MachinesError

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "3.11"
"""Of the machines' base."""


def requirements() -> Path:
    """A directory of the pinned wheels; fetched once and kept in the library's cache."""
    pinned = ROOT / "requirements/agent.txt"

    def make(part: Path) -> None:
        part.mkdir()
        _run(
            "pip", "download", "--quiet", "--only-binary=:all:", f"--python-version={PYTHON}",
            "--require-hashes", "--no-deps", f"--dest={part}", f"--requirement={pinned}",
        )  # fmt: skip

    return land(f"wheels/{hashlib.sha256(pinned.read_bytes()).hexdigest()[:12]}", make, progress=log_progress)


def build(directory: Path) -> Path:
    """This checkout's agent as a wheel in ``directory``."""
    _run("build", "--wheel", "--no-isolation", f"--outdir={directory}", str(ROOT / "agent"))
    (wheel,) = directory.glob("activemq_agent-*.whl")
    return wheel


def _run(*module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *module],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise MachinesError(f"{module[0]}: {done.stdout[-2000:]}")
