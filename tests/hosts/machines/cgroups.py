"""Control groups: one a machine, so that all its processes stop, freeze or die at once.

A machine's init, its services and systemd-nspawn itself are in one group; writing to
``cgroup.kill`` (Linux 5.14) ends exactly those, and nothing that merely has a similar name.
Two inits in one group would share a "payload" below it and stop each other's units.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import LateMachineError, UnsupportedError

_MOUNTS = Path("/proc/self/mountinfo")
PATIENCE = 120.0
"""Seconds for what takes a moment, such as the end of a process that waits for a slow disk."""


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Where the kernel's control groups are mounted.

    ``unified`` is cgroup2, which kills and freezes. ``named`` is the version 1 hierarchy
    ``name=systemd`` where there is one: a mixed system tracks processes in both.
    """

    unified: Path
    named: Path | None = None

    @property
    def all(self) -> tuple[Path, ...]:
        return (self.unified,) if self.named is None else (self.unified, self.named)


def find_hierarchies(mountinfo: str | None = None) -> Hierarchies:
    """Read the mounts; raise UnsupportedError where there is no cgroup2."""
    unified = named = None
    for line in (mountinfo if mountinfo is not None else _MOUNTS.read_text()).splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        where = Path(left.split()[4])
        if kind == "cgroup2":
            unified = unified or where
        elif kind == "cgroup" and "name=systemd" in options.split(","):
            named = named or where
    if unified is None:
        raise UnsupportedError("no cgroup2 hierarchy is mounted: machines cannot be powered off")
    return Hierarchies(unified, named)


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The group ``name`` (a relative path) in every hierarchy that the system uses."""

    name: str
    hierarchies: Hierarchies

    @property
    def directories(self) -> tuple[Path, ...]:
        return tuple(root / self.name for root in self.hierarchies.all)

    def create(self) -> None:
        for directory in self.directories:
            directory.mkdir(parents=True, exist_ok=True)

    def entering(self, argv: Sequence[str]) -> list[str]:
        """``argv``, started by a shell that first moves itself into the group."""
        files = [str(directory / "cgroup.procs") for directory in self.directories]
        script = f'for file in "${{@:1:{len(files)}}}"; do echo $$ >"$file" || exit 1; done; '
        script += f'shift {len(files)}; exec "$@"'
        return ["bash", "-c", script, "bash", *files, *argv]

    def is_populated(self) -> bool:
        """Whether a process lives in it (a zombie does not)."""
        try:
            events = (self.hierarchies.unified / self.name / "cgroup.events").read_text()
        except OSError:
            return False
        return "populated 1" in events

    def is_frozen(self) -> bool:
        events = (self.hierarchies.unified / self.name / "cgroup.events").read_text()
        return "frozen 1" in events

    def kill(self, timeout: float = PATIENCE) -> None:
        """SIGKILL to every process in it, frozen ones too; return when none is left."""
        try:
            self._write("cgroup.kill", "1")
        except OSError:
            if self.is_populated():
                raise
        self.wait_until(populated=False, timeout=timeout)

    def wait_until(self, *, populated: bool, timeout: float = PATIENCE) -> None:
        _wait(lambda: self.is_populated() is populated, timeout, f"{self.name}: still populated is {not populated}")

    def freeze(self, *, frozen: bool, timeout: float = PATIENCE) -> None:
        self._write("cgroup.freeze", "1" if frozen else "0")
        _wait(lambda: self.is_frozen() is frozen, timeout, f"{self.name}: does not freeze or thaw")

    def remove(self) -> None:
        """Remove the group and those that the machine made below it."""
        for top in self.directories:
            _wait(lambda top=top: _is_removed(top), PATIENCE, f"{top} stays")  # type: ignore[misc]

    def _write(self, file: str, value: str) -> None:
        (self.hierarchies.unified / self.name / file).write_text(value)


def _is_removed(top: Path) -> bool:
    """Remove a group from its leaves on; whether it is gone. One whose last process is just going is busy."""
    try:
        for directory, _, _ in os.walk(top, topdown=False):
            os.rmdir(directory)
    except OSError:
        return not top.exists()
    return True


def _wait(condition: Callable[[], bool], timeout: float, message: str) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise LateMachineError(f"timed out: {message}")
        time.sleep(0.01)
