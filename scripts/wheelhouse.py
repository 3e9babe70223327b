"""Make the wheelhouse of the agent: its wheel and the wheels of its pinned requirements, for a host without a network.

Each wheel is pure Python: one wheelhouse suits every Python from 3.11 on every machine.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class WheelhouseError(Exception):
    """A wheel could not be built or downloaded, or requires one kind of machine."""


def make(directory: Path, agent_wheel: Path) -> None:
    """Fill a new directory with the agent's wheel and those of requirements/agent.txt, each verified by its hash."""
    shutil.rmtree(directory, ignore_errors=True)
    download_requirements(directory)
    shutil.copyfile(agent_wheel, directory / agent_wheel.name)


def download_requirements(directory: Path) -> None:
    """Download the wheels of requirements/agent.txt; WheelhouseError if one has native code."""
    directory.mkdir(parents=True)
    _run(
        "pip", "download", "--quiet", "--only-binary=:all:", "--require-hashes", "--no-deps", f"--dest={directory}",
        f"--requirement={ROOT / 'requirements/agent.txt'}",
    )  # fmt: skip
    refuse_native_code(directory)


def refuse_native_code(directory: Path) -> None:
    """Raise WheelhouseError for a wheel whose tags require one Python version or one kind of machine."""
    for wheel in sorted(directory.glob("*.whl")):
        python, abi, platform = wheel.stem.split("-")[-3:]
        if "py3" not in python.split(".") or (abi, platform) != ("none", "any"):
            raise WheelhouseError(
                f"{wheel.name} is not for every Python 3 on every machine: pin a release with a pure Python wheel"
            )


def build_agent(directory: Path) -> Path:
    """Build this checkout's agent as a wheel in ``directory``; return its path."""
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
        raise WheelhouseError(f"{module[0]}: {done.stdout[-2000:]}")
