"""Small inventories and a look at the machine, for tests that run real brokers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from activemq_fleet.lab.loopback_overlay import process_mark_arguments


def write_inventory(directory: Path, hosts: Sequence[str], **variables: Any) -> Path:
    """An inventory of these hosts; variables without ``activemq_``. JSON is YAML."""
    directory.mkdir(parents=True, exist_ok=True)
    named = {f"activemq_{name}": value for name, value in variables.items()}
    content = {"all": {"hosts": {host: {} for host in hosts}, "vars": named}}
    path = directory / "hosts.yml"
    path.write_text(json.dumps(content, indent=1))
    return path


def pair(group: str, number: int = 1) -> tuple[str, str]:
    """The two hosts of a pair, preferred master first."""
    return (f"{group}-mq{number:02}-a.example.com", f"{group}-mq{number:02}-b.example.com")


def processes_of(directory: Path) -> list[int]:
    """Every process of the machine whose command line names this lab.

    Left out are zombies, and children that have yet to run a program of their own: so far they have their parent's
    command line.
    """
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if process_mark_arguments(directory).isdisjoint(words) or process.status() == psutil.STATUS_ZOMBIE:
                continue
            parent = process.parent()
            if parent is None or parent.cmdline() != words:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
