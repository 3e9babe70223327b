"""Small fleets for the unit tests of the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from activemq_fleet.lab.lab_paths import LabPaths
from activemq_fleet.lab.lab_state_file import InstalledRelease, LabState
from activemq_fleet.lab.loopback_overlay import assign_loopback_addresses
from activemq_fleet.topology import Fleet, build_fleet

BLOCK = 77
PAIR = ("orders-mq01-a.example.com", "orders-mq01-b.example.com")


def variables(*hosts: str, **values: Any) -> dict[str, dict[str, Any]]:
    """Return the same variables for each host; ``values`` have names without ``activemq_``."""
    common = {
        "release": "6.3.1",
        "network_username": "net",
        "network_password": "s3cret-net",
        **values,
    }
    return {host: {f"activemq_{name}": value for name, value in common.items()} for host in hosts or PAIR}


def fleet_of(hosts: dict[str, dict[str, Any]], **groups: list[str]) -> Fleet:
    return build_fleet(hosts, groups)


def lab_paths_and_state(
    fleet: Fleet, directory: str | Path = "/lab", *, is_full_distribution: bool = False
) -> tuple[LabPaths, LabState]:
    """Return the paths of a lab of the fleet, and its state before it has variables."""
    software = {broker.release.text: InstalledRelease("/software", is_full_distribution) for broker in fleet.brokers}
    addresses = assign_loopback_addresses(fleet, BLOCK)
    return LabPaths(Path(directory)), LabState(BLOCK, "seed", "/java/bin/java", addresses, software, {}, {})
