"""Control groups: one per machine, so that all its processes stop or freeze at once.

The init of a machine, its services and systemd-nspawn are in one group. A write to ``cgroup.kill`` (Linux 5.14) kills
exactly these processes. Two inits in one group would share a "payload" below it and stop the units of each other.
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
"""Seconds for short operations, such as the exit of a process that waits for a slow disk."""


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Mount points of the control groups of the kernel.

    ``unified`` is cgroup2, which can kill and freeze. ``named`` is the version 1 hierarchy ``name=systemd``, if it
    exists: a hybrid system tracks processes in both.
    """

    unified: Path
    named: Path | None = None

    @property
    def all(self) -> tuple[Path, ...]:
        return (self.unified,) if self.named is None else (self.unified, self.named)


def find_hierarchies(mountinfo: str | None = None) -> Hierarchies:
    """Return the mount points; raise UnsupportedError if cgroup2 is not mounted."""
    unified = named = None
    for line in (mountinfo if mountinfo is not None else _MOUNTS.read_text()).splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        mount_point = Path(left.split()[4])
        if kind == "cgroup2":
            unified = unified or mount_point
        elif kind == "cgroup" and "name=systemd" in options.split(","):
            named = named or mount_point
    if unified is None:
        raise UnsupportedError("no cgroup2 hierarchy is mounted, which machines require to power off: mount cgroup2")
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

    def command_in_group(self, argv: Sequence[str]) -> list[str]:
        """Return the command of a shell that moves itself to the group and then executes ``argv``."""
        files = [str(directory / "cgroup.procs") for directory in self.directories]
        script = f'for file in "${{@:1:{len(files)}}}"; do echo $$ >"$file" || exit 1; done; '
        script += f'shift {len(files)}; exec "$@"'
        return ["bash", "-c", script, "bash", *files, *argv]

    def is_populated(self) -> bool:
        """Return whether the group contains a process that is not a zombie."""
        try:
            events = (self.hierarchies.unified / self.name / "cgroup.events").read_text()
        except OSError:
            return False
        return "populated 1" in events

    def is_frozen(self) -> bool:
        events = (self.hierarchies.unified / self.name / "cgroup.events").read_text()
        return "frozen 1" in events

    def kill(self, timeout: float = PATIENCE) -> None:
        """Kill every process of the group, including frozen ones; return when all have exited."""
        try:
            self._write("cgroup.kill", "1")
        except OSError:
            if self.is_populated():
                raise
        self.wait_until(populated=False, timeout=timeout)

    def wait_until(self, *, populated: bool, timeout: float = PATIENCE) -> None:
        _wait(
            lambda: self.is_populated() is populated,
            timeout,
            f"the control group {self.name} still contains {'no' if populated else 'a'} process",
        )

    def freeze(self, *, frozen: bool, timeout: float = PATIENCE) -> None:
        self._write("cgroup.freeze", "1" if frozen else "0")
        _wait(
            lambda: self.is_frozen() is frozen,
            timeout,
            f"the control group {self.name} does not {'freeze' if frozen else 'thaw'}",
        )

    def remove(self) -> None:
        """Remove the group and the groups that the machine created below it."""
        for top in self.directories:
            _wait(lambda top=top: _is_removed(top), PATIENCE, f"the control group {top} cannot be removed")  # type: ignore[misc]

    def _write(self, file: str, value: str) -> None:
        (self.hierarchies.unified / self.name / file).write_text(value)


def _is_removed(top: Path) -> bool:
    """Remove a group and its subgroups; return False while one is busy, because its last process is exiting."""
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
