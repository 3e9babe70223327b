"""A simulated clock, and a store on it that looks for what falls due only when asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from activemq_agent.store import Limits, Store


@dataclass
class SimulatedClock:
    """Seconds since boot, the wall clock's error, and the boot's name, all to be set."""

    seconds: float = 1000.0
    wall_error: float = 0.0
    boot: str = "boot-1"
    booted: float = 0.0

    def monotonic(self) -> float:
        return self.seconds - self.booted

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds + self.wall_error)

    def boot_id(self) -> str:
        return self.boot

    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds

    def reboot(self, takes: float = 0.0) -> None:
        self.seconds += takes
        self.booted = self.seconds
        self.boot += "'"


def open_store(directory: Path, clock: SimulatedClock | None = None, limits: Limits | None = None) -> Store:
    # Unit tests ask what the store does, not whether the disk keeps it: tests/integration does.
    return Store.open(
        directory, agent="a1", limits=limits, clock=clock or SimulatedClock(), synchronous="OFF", sweep=None
    )
