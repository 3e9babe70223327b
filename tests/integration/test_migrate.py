"""From a pure pair of 5.5.1 to a shared store of 6.3.1: everything arrives, and what was left is found.

What is said here of releases was measured with these brokers: the duplex link of 6.3.1 brings
queues that nobody consumes once they are wanted there; the management view of 5.5.1 says 0 for a
durable subscription without a client; its journal says what waits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.deployment import FleetFacts, broker_facts
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import StompConnection
from activemq_fleet.node.kahadb import remaining_messages
from activemq_fleet.node.state import backlog
from activemq_fleet.operations import OperationDecisionRequest, decide_operation
from activemq_fleet.operations.requests import HostProgress, RunProgress
from tests.integration.conftest import LabOf
from tests.integration.labs import pair
from tests.integration.planted import until
from tests.integration.traffic import drain, numbered_bodies, send

REPOSITORY = Path(__file__).resolve().parents[2]
OLD, NEW = pair("old"), pair("new")
QUEUES = ("orders", "invoices.eu", "ActiveMQ.DLQ")
EACH = 120
Migrate = Callable[..., str]


def inventory(directory: Path) -> Path:
    """An old and a new pair, each with its own release and profile; the new one is fenced."""
    directory.mkdir(parents=True, exist_ok=True)
    old = {"activemq_release": "5.5.1", "activemq_ha": "pure"}
    both = {
        "activemq_network_username": "net",
        "activemq_network_password": "s3cret-net",
        "activemq_links": [{"from": "new", "to": "old", "duplex": True}],
        "activemq_waivers": [],
    }
    hosts = {host: {**old} for host in OLD} | {
        host: {"activemq_release": "6.3.1", "activemq_fence": "guard"} for host in NEW
    }
    path = directory / "hosts.yml"
    path.write_text(json.dumps({"all": {"hosts": hosts, "vars": both}}, indent=1))
    return path


@pytest.fixture
def lab(lab_of: LabOf, tmp_path: Path) -> Lab:
    lab = lab_of(inventory(tmp_path / "inventory"))
    lab.up()
    return lab


@pytest.fixture
def migrate(lab: Lab, tmp_path: Path) -> Migrate:
    """Runs the playbook on the lab; returns what it printed."""

    def run(*options: str, fails: bool = False) -> str:
        command = [
            str(Path(sys.executable).with_name("ansible-playbook")),
            "activemq.fleet.migrate",
            *("-i", str(tmp_path / "inventory"), "-i", str(lab.overlay_inventory_path)),
            *("-e", "activemq_target=old", "-e", "activemq_migrate_seconds=3", *options),
        ]
        environment = os.environ | {"ANSIBLE_HOME": str(REPOSITORY / ".ansible"), "ANSIBLE_NOCOLOR": "true"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=560)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def held(lab: Lab) -> dict[str, Any]:
    found: dict[str, Any] = backlog.count_backlog(str(lab.directory / "hosts" / OLD[0] / "activemq"))
    return found


def following(lab: Lab, *, counts: list[int]) -> dict[str, Any]:
    """The next step as the playbook asks for it, from what is found now, after these counts."""
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers={broker.host: broker_facts(broker) for broker in lab.fleet.brokers}),
        evidence={host: {"state": lab.state(host), "how": ""} for host in (*OLD, *NEW)},
        target={"pairs": {"old-mq01": OLD}},
        progress=RunProgress(hosts={OLD[0]: HostProgress(counts=tuple(counts))}),
        options={"held": {OLD[0]: held(lab)}, "retire": False},
    )
    step: dict[str, Any] = decide_operation("migrate", request)["step"]
    return step


def subscriber(lab: Lab, host: str) -> StompConnection:
    """A durable subscriber of ``prices``, known as ``desk``."""
    client = StompConnection(lab.addresses(host, "stomp")[0], lab.credentials(host), client_id="desk", timeout=60)
    client.subscribe("/topic/prices", headers={"activemq.subscriptionName": "all"})
    return client


def publish(lab: Lab, prices: list[str]) -> None:
    with StompConnection(lab.addresses(OLD[0], "stomp")[0], lab.credentials(OLD[0]), timeout=60) as publisher:
        for price in prices:
            publisher.send("/topic/prices", price)


def take(client: StompConnection, count: int) -> list[str]:
    bodies: list[str] = []
    while len(bodies) < count and (message := client.receive(60)):
        bodies.append(message.body)
        client.acknowledge(message)
    return bodies


@pytest.mark.timeout(900)  # a playbook of many tasks, and brokers' answers: on a busy machine minutes
def test_a_pure_pair_is_emptied_and_what_no_link_can_take_is_found(lab: Lab, migrate: Migrate) -> None:
    for queue in QUEUES:
        send(lab, OLD[0], queue, numbered_bodies(queue, EACH))
    subscriber(lab, OLD[0]).close()
    prices = numbered_bodies("prices", 7)
    publish(lab, prices)

    full = held(lab)
    assert full["queues"] == dict.fromkeys(QUEUES, EACH)
    assert [(one["client"], one["name"], one["messages"]) for one in full["subscriptions"]] == [("desk", "all", 7)]

    refused = migrate(fails=True)
    assert "all of client desk on prices: 7" in refused
    assert held(lab)["queues"] == {}, "all queues have crossed before it says so"

    # The desk moves: it subscribes over there first, and what is published here follows it. Then it empties this one.
    with subscriber(lab, lab.wait_active("new-mq01")) as moved, subscriber(lab, OLD[0]) as client:
        assert until(lambda: len(held(lab)["subscriptions"]) == 2, 120), "the link subscribes here in its place"
        publish(lab, ["late"])
        assert take(moved, 1) == ["late"]
        assert take(client, 8) == [*prices, "late"]
    assert until(lambda: held(lab)["messages"] == 0, 120)
    assert following(lab, counts=[0])["phase"] == "drained"

    for queue in QUEUES:
        assert drain(lab, lab.wait_active("new-mq01"), queue, EACH) == set(numbered_bodies(queue, EACH))

    lab.kill(OLD[1])
    lab.kill(OLD[0])
    assert following(lab, counts=[])["phase"] == "retired"
    assert remaining_messages.count_remaining_messages(held(lab)["store"]).queues == {}
