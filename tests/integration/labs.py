"""Small inventories and the processes of labs, for tests that run real brokers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from activemq_fleet.lab.loopback_overlay import process_mark_arguments


def write_inventory(directory: Path, hosts: Sequence[str], **variables: Any) -> Path:
    """Write an inventory of hosts; return its path.

    ``variables`` are written without ``activemq_``. The inventory is JSON, which is also YAML.
    """
    directory.mkdir(parents=True, exist_ok=True)
    prefixed = {f"activemq_{name}": value for name, value in variables.items()}
    inventory_data = {"all": {"hosts": {host: {} for host in hosts}, "vars": prefixed}}
    path = directory / "hosts.yml"
    path.write_text(json.dumps(inventory_data, indent=1))
    return path


def pair(group: str, number: int = 1) -> tuple[str, str]:
    """Return the two hosts of a pair, preferred master first."""
    return (f"{group}-mq{number:02}-a.example.com", f"{group}-mq{number:02}-b.example.com")


def processes_of(directory: Path) -> list[int]:
    """Return the processes of the machine whose command line contains the mark of a lab.

    The result excludes zombies, and children that have not executed a program yet: they still have the command line of
    their parent.
    """
    pids = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if process_mark_arguments(directory).isdisjoint(words) or process.status() == psutil.STATUS_ZOMBIE:
                continue
            parent = process.parent()
            if parent is None or parent.cmdline() != words:
                pids.append(process.pid)
        except psutil.Error:
            continue
    return pids
