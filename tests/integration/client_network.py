"""One fault of the network between a pair and its clients, by nftables in a separate network namespace.

python -m tests.integration.client_network FAULT SECONDS RELEASE DIRECTORY

It prints as JSON the outcome of the events of two agents, and the number of dropped packets.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from activemq_fleet.lab.lab import Lab
from tests.integration.labs import pair, write_inventory
from tests.support.jdbc_pairs import PAIR, under_load

_TABLE = "inet faults"
_FLAP = 3.0
"""Seconds of each interruption of a network that flaps, and of each time between two of them."""
_LOSSY = "numgen random mod 100 < 20"


def _nft(*words: str) -> str:
    completed = subprocess.run(["nft", *words], check=False, capture_output=True, text=True)
    if completed.returncode:
        raise AssertionError(f"the command nft {' '.join(words)} failed: {completed.stderr}")
    return completed.stdout


def _rules(lab: Lab, fault: str) -> list[str]:
    """Return the rules of a fault, which drop packets of one node or both, only the responses, or a fifth of all."""
    addresses = lab.addresses(PAIR, "mqtt")
    if fault in ("active", "answers", "flapping"):
        addresses = lab.addresses(lab.wait_active(PAIR), "mqtt")
    condition = _LOSSY if fault == "loss" else ""
    directions = ["s"] if fault == "answers" else ["s", "d"]
    return [
        f"ip {direction}addr {host} tcp {direction}port {port} {condition} counter drop"
        for host, port in addresses
        for direction in directions
    ]


def _drop(rules: list[str], seconds: float) -> int:
    """Drop packets for some seconds; return the number of dropped packets."""
    _nft("add", "table", *_TABLE.split())
    _nft("add", "chain", *_TABLE.split(), "input", "{ type filter hook input priority 0; }")
    for rule in rules:
        _nft("add", "rule", *_TABLE.split(), "input", *rule.split())
    time.sleep(seconds)
    dropped = sum(map(int, re.findall(r"packets (\d+)", _nft("list", "table", *_TABLE.split()))))
    _nft("delete", "table", *_TABLE.split())
    return dropped


def run(fault: str, seconds: float, release: str, directory: Path) -> dict[str, Any]:
    """Inject a fault under load, end it, and return the outcome of the load."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    inventory = write_inventory(
        directory / "inventory",
        pair("orders"),
        release=release,
        users=[{"name": "app", "password": "s3cret-app", "groups": ["apps"]}],
        network_username="network",
        network_password="s3cret-network",
    )
    with Lab.open([inventory.parent], directory / "lab") as lab:
        lab.up()
        try:
            with under_load(lab, directory) as load:
                rules, deadline, dropped = _rules(lab, fault), time.monotonic() + seconds, 0
                while time.monotonic() < deadline:
                    dropped += _drop(rules, _FLAP if fault == "flapping" else seconds)
                    time.sleep(_FLAP if fault == "flapping" else 0)
                healed = time.monotonic()
            recovery = time.monotonic() - healed
        finally:
            lab.down()
    account = asdict(load.account)
    return {
        "fault": fault,
        "dropped": dropped,
        "recovery": recovery,
        "most_active": load.most_active,
        "account": account,
    }


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], float(sys.argv[2]), sys.argv[3], Path(sys.argv[4])), default=str))
