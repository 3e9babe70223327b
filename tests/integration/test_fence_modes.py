"""A pair changes its fence between none, guard and command, and keeps its messages."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab.drill import DrillOptions, run_drill
from activemq_fleet.lab.lab import Lab
from tests.integration.conftest import LabOf
from tests.integration.labs import pair, write_inventory
from tests.situations import further, in_every_situation
from tests.stomp_clients import stomp_drain, stomp_send

A, B = pair("orders")
PAIR = "orders-mq01"
NETWORK = {"network_username": "network", "network_password": "s3cret-network"}
COMMAND = {"fence": "command", "fence_command": {"argv": ["/bin/false"]}}


@in_every_situation
@pytest.mark.parametrize("release", ["6.3.1", *further("5.18.3", "5.8.0", "5.5.1")])
def test_pair_keeps_messages_after_each_change_of_fence(tmp_path: Path, lab_of: LabOf, release: str) -> None:
    inventory = tmp_path / "inventory"
    lab = lab_of(write_inventory(inventory, (A, B), release=release, **NETWORK))
    sent: list[str] = []
    fence_variables: list[dict[str, Any]] = [{}, {"fence": "guard"}, {}, COMMAND, {"fence": "guard"}, COMMAND]
    for number, variables in enumerate(fence_variables):
        write_inventory(inventory, (A, B), release=release, **NETWORK, **variables)
        lab.up()
        bodies = [f"{number}-{n}" for n in range(20)]
        sent += stomp_send(lab.addresses(PAIR, "stomp"), "/queue/kept", bodies, lab.credentials(PAIR))
    active = lab.wait_active(PAIR)
    received = stomp_drain(lab.addresses(active, "stomp"), "/queue/kept", lab.credentials(PAIR), expected=len(sent))
    assert received == sent


@in_every_situation
def test_fence_command_kills_frozen_node_before_standby_becomes_active(tmp_path: Path, lab_of: LabOf) -> None:
    """The command has the effect of a power switch: it kills the node's guard and broker."""
    switch = tmp_path / "switch-off"
    command = {"argv": [str(switch)], "secrets": {"TOKEN": "t0p-secret"}}
    hosts = (A, B)
    lab = lab_of(
        write_inventory(
            tmp_path / "inventory", hosts, release="6.3.1", fence="command", fence_command=command, **NETWORK
        )
    )
    write_script(switch, "exit 1")
    lab.up()
    active = lab.wait_active(PAIR)
    standby = B if active == A else A
    stomp_send(lab.addresses(active, "stomp"), "/queue/kept", ["before"], lab.credentials(PAIR))
    guard = guard_pid(lab, active)
    output = tmp_path / "output"
    lab.pause(active)
    fence = Path(lab.fleet.broker(active).store_directory, "fence")
    (fence / "lock").unlink()
    with pytest.raises(LabError):
        lab.wait_state(standby, "active", timeout=5)
    write_script(
        switch,
        "grep -q TOKEN=t0p-secret $ACTIVEMQ_FENCE_SECRETS || exit 2",
        f"echo $ACTIVEMQ_FENCE_HOST > {output}",
        f"kill -9 -- -{guard}",
    )
    lab.wait_state(standby, "active", timeout=60)
    assert output.read_text().strip() == active
    assert not lab.is_alive(active)
    received = stomp_drain(lab.addresses(standby, "stomp"), "/queue/kept", lab.credentials(PAIR), expected=1)
    assert received == ["before"]
    numbers = [json.loads(path.read_text())["number"] for path in sorted((fence / "claims").iterdir())]
    assert numbers == [1, 2]


@pytest.mark.parametrize("release", further("6.3.1", "5.18.3", "5.8.0", "5.5.1"))
def test_drill_that_kills_only_java_process_of_guarded_broker_is_clean(
    tmp_path: Path, lab_of: LabOf, release: str
) -> None:
    lab = lab_of(write_inventory(tmp_path / "inventory", (A, B), release=release, fence="guard", **NETWORK))
    drill_result = run_drill(lab, DrillOptions(faults=3, what="crash", rate=40, seed=1, patience=300))
    assert drill_result.verdict == "clean", drill_result.reasons
    assert drill_result.event_count_of_all_pairs("lost") == 0, drill_result.reasons
    assert len(drill_result.faults_under_sufficient_load) == 3
    fence = Path(lab.fleet.broker(A).store_directory, "fence")
    assert len(list((fence / "ended").iterdir())) >= 3


def write_script(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["#!/bin/bash", *lines, ""]))
    path.chmod(0o755)


def guard_pid(lab: Lab, host: str) -> int:
    """Return the process ID of a node's guard, which leads the process group of guard and broker."""
    (status,) = [status for status in lab.status() if status.host == host]
    assert status.pid
    return os.getpgid(status.pid)
