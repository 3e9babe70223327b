"""Properties of the broker's unit that systemd reports."""

from __future__ import annotations

from tests.hosts.brokers import (
    UNIT,
)
from tests.hosts.machines import Machine


def unit_properties(machine: Machine, *properties: str, unit: str = UNIT) -> dict[str, str]:
    """Return the values of properties of a unit, by name. The default is the broker's unit."""
    text = machine.run("systemctl", "show", unit, *(f"--property={name}" for name in properties))
    return dict(line.split("=", 1) for line in text.splitlines())
