"""Measures elapsed time across restarts of the agent and of the machine."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

log = logging.getLogger(__name__)

STEP = 60.0
"""Seconds by which the wall clock may drift from the monotonic one between two anchors without being a step."""


class Clock(Protocol):
    """The clocks of a machine: monotonic time, time of day, boot id; tests simulate them."""

    def monotonic(self) -> float:
        """Return seconds since some point of the current boot; the value never steps."""
        ...

    def wall(self) -> datetime:
        """Return the time of day in UTC; it may step."""
        ...

    def boot_id(self) -> str:
        """Return an identifier that differs after every boot of the machine."""
        ...


class SystemClock:
    """The machine's own clocks; time spent suspended counts as elapsed."""

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def boot_id(self) -> str:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True, slots=True)
class Anchor:
    """One moment on all clocks: ``elapsed`` seconds since the outbox was made, boot id, monotonic, wall (epoch s)."""

    elapsed: float
    boot: str
    monotonic: float
    wall: float


class Elapsed:
    """Seconds since the outbox was made, never going back.

    Within a boot the monotonic clock counts; across a reboot the wall clock does, from the last anchor that was
    stored. A step of the wall clock, back across a reboot or by more than 60 s while the machine ran, is logged and not
    counted as elapsed time.
    """

    def __init__(self, clock: Clock, last: Anchor | None) -> None:
        self._clock = clock
        self._boot = clock.boot_id()
        self._anchor = self._carried_on(last)

    def _carried_on(self, last: Anchor | None) -> Anchor:
        monotonic, wall = self._clock.monotonic(), self._clock.wall().timestamp()
        elapsed = last.elapsed if last else 0.0
        if last and last.boot == self._boot:
            elapsed += max(0.0, monotonic - last.monotonic)
            self._notice_step(last, monotonic, wall)
        elif last and wall < last.wall:
            self._say(f"the wall clock went back by {last.wall - wall:.0f} s across a reboot")
        elif last:
            elapsed += wall - last.wall
        return Anchor(elapsed, self._boot, monotonic, wall)

    def now(self) -> float:
        """Return the seconds elapsed since the outbox was made."""
        return self._anchor.elapsed + max(0.0, self._clock.monotonic() - self._anchor.monotonic)

    def has_stepped(self) -> bool:
        """Return whether the wall clock stepped by more than 60 s since the last anchor. If so, store a new anchor."""
        at = self._anchor
        return abs(self._step(at, self._clock.monotonic(), self._clock.wall().timestamp())) > STEP

    def anchor(self) -> Anchor:
        """Return the current moment as an anchor to be stored; log a step of the wall clock since the last anchor."""
        monotonic, wall = self._clock.monotonic(), self._clock.wall().timestamp()
        self._notice_step(self._anchor, monotonic, wall)
        elapsed = self._anchor.elapsed + max(0.0, monotonic - self._anchor.monotonic)
        self._anchor = Anchor(elapsed, self._boot, monotonic, wall)
        return self._anchor

    def _notice_step(self, last: Anchor, monotonic: float, wall: float) -> None:
        step = self._step(last, monotonic, wall)
        if abs(step) > STEP:
            self._say(f"the wall clock stepped by {step:+.0f} s")

    @staticmethod
    def _step(last: Anchor, monotonic: float, wall: float) -> float:
        return (wall - last.wall) - (monotonic - last.monotonic)

    def _say(self, what: str) -> None:
        log.warning("%s: not counted as elapsed time", what)
