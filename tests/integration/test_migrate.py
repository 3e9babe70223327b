"""Migration of a pure pair of 5.5.1 to a shared store of 6.3.1: all messages arrive, and the rest is reported.

Measured with these brokers: the duplex link of 6.3.1 transfers queues without a consumer when a client
at the other end subscribes. The management view of 5.5.1 reports 0 messages for a durable subscription
without a client. Its store journal contains the waiting messages.
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
from activemq_fleet.operations.operation_decisions import HostProgress, RunProgress
from tests.integration.conftest import LabOf
from tests.integration.labs import pair
from tests.integration.single_brokers import until
from tests.integration.traffic import drain, numbered_bodies, send

REPOSITORY = Path(__file__).resolve().parents[2]
OLD, NEW = pair("old"), pair("new")
QUEUES = ("orders", "invoices.eu", "ActiveMQ.DLQ")
MESSAGES_PER_QUEUE = 120
Migrate = Callable[..., str]


def write_migration_inventory(directory: Path) -> Path:
    """Write an old and a new pair with different releases and profiles; the new pair is fenced."""
    directory.mkdir(parents=True, exist_ok=True)
    old_variables = {"activemq_release": "5.5.1", "activemq_ha": "pure"}
    common = {
        "activemq_network_username": "net",
        "activemq_network_password": "s3cret-net",
        "activemq_links": [{"from": "new", "to": "old", "duplex": True}],
        "activemq_waivers": [],
    }
    hosts = {host: {**old_variables} for host in OLD} | {
        host: {"activemq_release": "6.3.1", "activemq_fence": "guard"} for host in NEW
    }
    path = directory / "hosts.yml"
    path.write_text(json.dumps({"all": {"hosts": hosts, "vars": common}}, indent=1))
    return path


@pytest.fixture
def lab(lab_of: LabOf, tmp_path: Path) -> Lab:
    lab = lab_of(write_migration_inventory(tmp_path / "inventory"))
    lab.up()
    return lab


@pytest.fixture
def migrate(lab: Lab, tmp_path: Path) -> Migrate:
    """Return a function that runs the playbook on the lab and returns its output."""

    def run(*options: str, fails: bool = False) -> str:
        command = [
            str(Path(sys.executable).with_name("ansible-playbook")),
            "activemq.fleet.migrate",
            *("-i", str(tmp_path / "inventory"), "-i", str(lab.overlay_inventory_path)),
            *("-e", "activemq_target=old", "-e", "activemq_migrate_seconds=3", *options),
        ]
        environment = os.environ | {"ANSIBLE_HOME": str(REPOSITORY / ".ansible"), "ANSIBLE_NOCOLOR": "true"}
        completed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=560)
        assert (completed.returncode != 0) == fails, completed.stdout + completed.stderr
        return completed.stdout + completed.stderr

    return run


def count_backlog(lab: Lab) -> dict[str, Any]:
    counts: dict[str, Any] = backlog.count_backlog(str(lab.directory / "hosts" / OLD[0] / "activemq"))
    return counts


def next_step(lab: Lab, *, counts: list[int]) -> dict[str, Any]:
    """Return the next step that the playbook requests, from the current evidence and the previous counts."""
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers={broker.host: broker_facts(broker) for broker in lab.fleet.brokers}),
        evidence={host: {"state": lab.state(host), "how": ""} for host in (*OLD, *NEW)},
        target={"pairs": {"old-mq01": OLD}},
        progress=RunProgress(hosts={OLD[0]: HostProgress(counts=tuple(counts))}),
        options={"held": {OLD[0]: count_backlog(lab)}, "retire": False},
    )
    step: dict[str, Any] = decide_operation("migrate", request)["step"]
    return step


def subscribe_desk(lab: Lab, host: str) -> StompConnection:
    """Return a durable subscriber of ``prices`` with the client ID ``desk``."""
    client = StompConnection(lab.addresses(host, "stomp")[0], lab.credentials(host), client_id="desk", timeout=60)
    client.subscribe("/topic/prices", headers={"activemq.subscriptionName": "all"})
    return client


def publish(lab: Lab, prices: list[str]) -> None:
    with StompConnection(lab.addresses(OLD[0], "stomp")[0], lab.credentials(OLD[0]), timeout=60) as publisher:
        for price in prices:
            publisher.send("/topic/prices", price)


def receive_bodies(client: StompConnection, count: int) -> list[str]:
    bodies: list[str] = []
    while len(bodies) < count and (message := client.receive(60)):
        bodies.append(message.body)
        client.acknowledge(message)
    return bodies


@pytest.mark.timeout(900)  # many tasks and queries of brokers take minutes on a busy machine
def test_migrate_drains_pure_pair_and_reports_durable_subscription(lab: Lab, migrate: Migrate) -> None:
    for queue in QUEUES:
        send(lab, OLD[0], queue, numbered_bodies(queue, MESSAGES_PER_QUEUE))
    subscribe_desk(lab, OLD[0]).close()
    prices = numbered_bodies("prices", 7)
    publish(lab, prices)

    counts = count_backlog(lab)
    assert counts["queues"] == dict.fromkeys(QUEUES, MESSAGES_PER_QUEUE)
    (subscription,) = counts["subscriptions"]
    assert subscription["client"] == "desk"
    assert subscription["name"] == "all"
    assert subscription["messages"] == 7

    output = migrate(fails=True)
    assert "all of client desk on prices: 7" in output
    assert count_backlog(lab)["queues"] == {}, "the playbook failed before all queues had been transferred"

    # The desk moves: it first subscribes at the new pair, and later messages of the old pair follow it. Then it
    # receives the messages of its old subscription.
    with subscribe_desk(lab, lab.wait_active("new-mq01")) as moved, subscribe_desk(lab, OLD[0]) as client:
        assert until(lambda: len(count_backlog(lab)["subscriptions"]) == 2, 120), (
            "the link has not subscribed at the old pair for the desk"
        )
        publish(lab, ["late"])
        assert receive_bodies(moved, 1) == ["late"]
        assert receive_bodies(client, 8) == [*prices, "late"]
    assert until(lambda: count_backlog(lab)["messages"] == 0, 120)
    assert next_step(lab, counts=[0])["phase"] == "drained"

    for queue in QUEUES:
        assert drain(lab, lab.wait_active("new-mq01"), queue, MESSAGES_PER_QUEUE) == set(
            numbered_bodies(queue, MESSAGES_PER_QUEUE)
        )

    lab.kill(OLD[1])
    lab.kill(OLD[0])
    assert next_step(lab, counts=[])["phase"] == "retired"
    assert remaining_messages.count_remaining_messages(count_backlog(lab)["store"]).queues == {}
