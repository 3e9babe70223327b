"""Permissions of the account of bridges at a real broker with ACLs: only the destinations of its links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab.stomp import Credentials
from tests.integration.conftest import LabOf
from tests.integration.labs import write_inventory
from tests.integration.waiting import PATIENCE
from tests.situations import further
from tests.stomp_clients import stomp_drain, stomp_send

NORTH, SOUTH = "north-mq01-a.example.com", "south-mq01-a.example.com"
BOSS = Credentials("boss", "s3cret-boss")
NETWORK = Credentials("network", "s3cret-network")


def _inventory_of_link(directory: Path, release: str, settings: dict[str, Any]) -> Path:
    """Write an inventory of two brokers with ACLs and a link with these settings, and return its path."""
    return write_inventory(
        directory / "inventory",
        [NORTH, SOUTH],
        release=release,
        links=[{"from": "north", "to": "south", **settings}],
        acl=[
            {"destination": ">", "kind": kind, "read": "boss", "write": "boss", "admin": "boss"}
            for kind in ("queue", "topic")
        ],
        users=[{"name": BOSS.username, "password": BOSS.password, "groups": "boss"}],
        network_username=NETWORK.username,
        network_password=NETWORK.password,
        waivers=[{"rule": rule, "reason": "a lab"} for rule in ("T002", "S001", "S002")],
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("release", further("6.3.1", "5.5.1", "5.18.3"))
def test_account_of_link_has_permissions_for_destinations_of_link_only(
    lab_of: LabOf, tmp_path: Path, release: str
) -> None:
    lab = lab_of(_inventory_of_link(tmp_path, release, {"include": ["orders.>"]}))
    lab.up()
    [south] = lab.addresses(SOUTH, "stomp")

    assert stomp_send([south], "/queue/orders.new", ["1"], NETWORK, timeout=PATIENCE) == ["1"]
    for destination in ("/queue/salaries", "/topic/salaries"):
        with pytest.raises(LabError, match=r"(?i)not authorized"):
            stomp_send([south], destination, ["2"], NETWORK, timeout=20)
    stomp_send([south], "/queue/salaries", ["kept"], BOSS, timeout=PATIENCE)
    assert stomp_drain([south], "/queue/salaries", NETWORK, expected=1, timeout=10) == []
    assert stomp_drain([south], "/queue/salaries", BOSS, expected=1, timeout=PATIENCE) == ["kept"]
    assert stomp_drain([south], "/queue/orders.new", BOSS, expected=1, timeout=PATIENCE) == ["1"]

    [north] = lab.addresses(NORTH, "stomp")
    stomp_send([north], "/queue/salaries", ["3"], BOSS, timeout=PATIENCE)
    assert stomp_drain([south], "/queue/salaries", BOSS, idle=3) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("release", further("6.3.1", "5.8.0", "5.18.3"))
def test_static_bridge_carries_its_destination_with_permissions_for_it_only(
    lab_of: LabOf, tmp_path: Path, release: str
) -> None:
    settings = {"static_include": ["audit"], "attributes": {"staticBridge": True}}
    lab = lab_of(_inventory_of_link(tmp_path, release, settings))
    lab.up()
    [north], [south] = lab.addresses(NORTH, "stomp"), lab.addresses(SOUTH, "stomp")

    stomp_send([north], "/queue/audit", ["1"], BOSS, timeout=PATIENCE)
    assert stomp_drain([south], "/queue/audit", BOSS, expected=1, timeout=PATIENCE) == ["1"]
    with pytest.raises(LabError, match=r"(?i)not authorized"):
        stomp_send([south], "/queue/orders", ["2"], NETWORK, timeout=20)
