"""Properties that systemd shows of the broker's unit."""

from __future__ import annotations

from tests.hosts.brokers import (
    UNIT,
)
from tests.hosts.machines import Machine


def unit_properties(machine: Machine, *properties: str) -> dict[str, str]:
    """What systemd says of the unit, by property."""
    text = machine.run("systemctl", "show", UNIT, *(f"--property={name}" for name in properties))
    return dict(line.split("=", 1) for line in text.splitlines())
