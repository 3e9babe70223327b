"""Measures elapsed time across restarts of the agent and of the machine."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

log = logging.getLogger(__name__)

STEP = 60.0
"""Seconds by which the wall clock may drift from the monotonic one between two anchors without being a step."""


class MachineClocks:
    """The clocks of the machine: monotonic time, time of day and boot id.

    Tests replace them by simulated ones.
    """

    def seconds_since_boot(self) -> float:
        """Return the seconds since the boot of the machine, including suspended time.

        This monotonic time never jumps or goes back.
        """
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def utc_now(self) -> datetime:
        """Return the current date and time as a datetime in UTC: the wall-clock time.

        Adjustments of the system clock make it jump.
        """
        return datetime.now(UTC)

    def boot_id(self) -> str:
        """Return the boot id, an identifier that differs after every boot of the machine."""
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A reading of all clocks at one moment: elapsed seconds, boot id, monotonic time and wall-clock time.

    ``elapsed`` counts since the outbox of the agent's store was created, and ``wall`` is in epoch seconds.
    """

    elapsed: float
    boot: str
    monotonic: float
    wall: float


class ElapsedTimeCounter:
    """A counter of the time that has elapsed since an agent's outbox was created, in seconds; it never goes back.

    It does not go back over a reboot either. Within a boot the monotonic clock counts; across a reboot the wall clock
    does, from the last anchor that was stored. A step of the wall clock, back across a reboot or by more than 60 s
    while the machine ran, is logged and not counted as elapsed time.
    """

    def __init__(self, clock: MachineClocks, last: ClockReading | None) -> None:
        self._clock = clock
        self._boot = clock.boot_id()
        self._anchor = last or self._reading_at(0.0)
        if last and last.boot != self._boot:
            wall_seconds = clock.utc_now().timestamp() - last.wall
            if wall_seconds < 0:
                _log_step(
                    f"after a reboot, the wall clock of this host is {-wall_seconds:.0f} s behind the time that the "
                    "agent recorded before the reboot"
                )
            self._anchor = self._reading_at(last.elapsed + max(0.0, wall_seconds))

    def _reading_at(self, elapsed: float) -> ClockReading:
        return ClockReading(elapsed, self._boot, self._clock.seconds_since_boot(), self._clock.utc_now().timestamp())

    def seconds_since_outbox_creation(self) -> float:
        """Return the elapsed seconds since the creation of an agent's outbox."""
        return self._anchor.elapsed + max(0.0, self._clock.seconds_since_boot() - self._anchor.monotonic)

    def has_wall_clock_stepped(self) -> bool:
        """Return whether the wall clock has stepped (jumped by more than 60 s) since the last stored clock reading.

        This reading is the anchor of an agent's store.
        """
        return abs(self._wall_clock_step(self._reading_at(0.0))) > STEP

    def read_machine_clocks(self) -> ClockReading:
        """Read the machine's clocks; return elapsed seconds, boot id, monotonic and wall-clock time as one reading.

        The reading is kept as the new anchor. A jump of the wall clock since the last reading is logged.
        """
        reading = self._reading_at(self.seconds_since_outbox_creation())
        step = self._wall_clock_step(reading)
        if abs(step) > STEP:
            _log_step(f"the wall clock of this host changed by {step:+.0f} s in one step")
        self._anchor = reading
        return reading

    def _wall_clock_step(self, reading: ClockReading) -> float:
        """Return the seconds by which the wall clock got ahead of the monotonic clock since the last stored moment."""
        return (reading.wall - self._anchor.wall) - (reading.monotonic - self._anchor.monotonic)


def _log_step(step: str) -> None:
    log.warning(
        "%s. The agent does not count this change as elapsed time: check the time synchronization of this host",
        step,
    )
