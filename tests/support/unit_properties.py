"""Properties of the broker's unit that systemd reports."""

from __future__ import annotations

from tests.hosts.brokers import (
    UNIT,
)
from tests.hosts.machines import Machine


def unit_properties(machine: Machine, *properties: str) -> dict[str, str]:
    """Return the values of properties of the broker's unit, by name."""
    text = machine.run("systemctl", "show", UNIT, *(f"--property={name}" for name in properties))
    return dict(line.split("=", 1) for line in text.splitlines())
