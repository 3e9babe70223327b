"""Handlers of events that record each of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class Handlers:
    """Handlers that record each of their runs: entry points of a package, and executables.

    Pass ``directory`` to ``Agent`` as its Python path, and ``programs`` as the agent's variable ``handlers``. No other
    account may have write access to ``programs``.
    """

    def __init__(
        self, directory: Path, programs: Path, *, installed: Sequence[str] = (), slow: Sequence[str] = ()
    ) -> None:
        """Write the handlers.

        ``installed``: events that Python code handles. ``slow``: events that an executable handles, in 0.2 s.
        """
        self.directory = directory
        self.programs = programs
        self._log = directory / "runs"
        package = directory / "agent_rig-1.dist-info"
        package.mkdir(parents=True)
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: agent-rig\nVersion: 1\n")
        points = "".join(f"{event} = agent_rig:handle\n" for event in installed)
        (package / "entry_points.txt").write_text(f"[activemq_fleet.agent.handlers]\n{points}")
        (directory / "agent_rig.py").write_text(_INSTALLED.format(log=str(self._log)))
        for event in slow:
            program = self.programs / event
            program.write_text(_PROGRAM.format(log=self._log))
            program.chmod(0o755)

    def runs(self) -> dict[str, list[int]]:
        """Return the attempts that have started, by event id, in order."""
        attempts: dict[str, list[int]] = {}
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        for attempt, event_id in (line.split(maxsplit=1) for line in lines):
            attempts.setdefault(event_id, []).append(int(attempt))
        return attempts


_INSTALLED = """
import os

FILE = os.open({log!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def handle(event):
    os.write(FILE, f"{{event.attempt}} {{event.event_id}}\\n".encode())
"""
_PROGRAM = """#!/bin/sh
echo "$ATTEMPT $EVENT_ID" >> {log}
exec sleep 0.2
"""
