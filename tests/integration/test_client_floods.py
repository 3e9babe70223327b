"""Clients that have a login flood a default broker: the broker survives, and bridges and durable subscriptions lose
nothing by the limits that it survives by.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from activemq_fleet.inventory import load_fleet
from activemq_fleet.lab import loopback_overlay
from activemq_fleet.lab.stomp import StompConnection
from activemq_fleet.releases import Release
from activemq_fleet.render import render_broker
from tests.integration.client_floods import FLOODS, run_flood
from tests.integration.java_clients import compile_client
from tests.integration.labs import write_inventory
from tests.integration.planted import OPENWIRE, STOMP, Ground, Planted, document, link, until
from tests.integration.relay import Relay
from tests.integration.setting_clients import HOST, broker_with
from tests.situations import fact_of_activemq, further

pytestmark = fact_of_activemq

RELEASES = ("5.5.1", "5.18.3", "6.3.1")
NO_MQTT = ("5.5.1",)
PROVEN = 150 << 20
"""Bytes: what a broker of 512 MB took before flow control held the publishers, or more."""
# What no setting of a release limits: docs/security.md, "Floods by clients with a login".
STOPS = {"topic_slow_prefetch_mqtt", "queue_slow_prefetch", "transactions", "frames"}
"""Floods that still stop a default broker, or block it."""
COUNTED = {"destinations", "temporary_destinations", "durable_subscriptions", "subscriptions", "connections"}
"""Floods by number and not by bytes."""
ACCEPTED = 1_000
SLOW = 400_000
"""Bytes per second of the slow link."""
EVENTS, BODY = 3_000, 1_000
AUTO, DUPS_OK = "1", "3"
"""Modes of acknowledgement, as JMS numbers them."""
LITTLE_MEMORY = "3 mb"
"""Room for the prefetch of the bridge; what exceeds 70 % of it is written to the temporary store."""


@pytest.fixture(autouse=True)
def _keep_lab_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback_overlay, "_JVM", loopback_overlay._JVM)


def cases() -> Iterator[tuple[str, str]]:
    for release, flood in product(RELEASES, FLOODS):
        if not (release in NO_MQTT and "mqtt" in flood):
            yield release, flood


QUICK = ("6.3.1", "topic_slow_mqtt")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("release", "flood"),
    [QUICK, *further(*(case for case in cases() if case != QUICK and case[1] not in STOPS | COUNTED))],
)
def test_default_broker_survives_flood_of_messages(tmp_path: Path, release: str, flood: str) -> None:
    result = run_flood(tmp_path, release, flood)
    print(result)
    assert result.bytes >= PROVEN
    assert result.survived
    assert result.serves_after


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("release", "flood"), further(*(case for case in cases() if case[1] in COUNTED)))
def test_default_broker_survives_flood_by_number(tmp_path: Path, release: str, flood: str) -> None:
    result = run_flood(tmp_path, release, flood)
    print(result)
    assert result.frames >= ACCEPTED
    assert result.survived
    assert result.serves_after


def policies(directory: Path, release: str) -> str:
    """The destination policies that the collection renders for a broker with a link."""
    hosts = ["north-mq01-a.example.com", "south-mq01-a.example.com"]
    groups = write_inventory(
        directory / "inventory", hosts, release=release, ha="none", links=[{"from": "north-mq01", "to": "south-mq01"}]
    )
    text = render_broker(load_fleet([str(groups)]).brokers[0])["conf/activemq.xml"].decode()
    found = re.search(r"<destinationPolicy>.*</destinationPolicy>", text, re.DOTALL)
    assert found
    return found[0]


def bridged(ground: Ground, release: str, relay: Relay, policy: str) -> Planted:
    """A broker whose topic events another one gets over a slow link, with these policies."""
    host, port = relay.address
    store = "<persistenceAdapter><kahaDB/></persistenceAdapter>"
    memory = (
        f"<systemUsage><systemUsage><memoryUsage><memoryUsage limit='{LITTLE_MEMORY}'/></memoryUsage></systemUsage>"
        "</systemUsage>"
    )
    # A link that breaks loses the topic events that wait for it, whatever the limits: it must not break here.
    connector = link(f"static:(tcp://{host}:{port}?wireFormat.maxInactivityDuration=0)")
    north = ground.plant("north", release, document("north", ground.address(1), connector, store, memory, policy))
    south = ground.plant("south", release, document("south", ground.address(2), store))
    for broker in (south, north):
        assert broker.boot().fate == "started", broker.output
    assert until(lambda: any(bridge.peer == "south" for bridge in north.run_state.established_bridges), 180), (
        north.output
    )
    return north


def send_events(address: tuple[str, int]) -> list[str]:
    """Send persistent events in transactions; return their ids once the broker has committed them."""
    ids = [f"{number:06}" for number in range(EVENTS)]
    with StompConnection(address, timeout=300) as publisher:
        for start in range(0, EVENTS, 100):
            publisher.send_transaction("/topic/events", [event.ljust(BODY, "x") for event in ids[start : start + 100]])
    return ids


def received(subscriber: StompConnection, count: int, *, acknowledge: bool = True) -> list[str]:
    """Take messages until ``count`` ids have come, or none for 30 seconds."""
    came: list[str] = []
    while len(set(came)) < count and (message := subscriber.receive(30)):
        came.append(message.body[:6])
        if acknowledge:
            subscriber.acknowledge(message)
    return came


@pytest.mark.timeout(900)
@pytest.mark.parametrize("release", ["5.18.3", *further("5.5.1", "6.3.1")])
def test_bridge_over_slow_link_and_durable_subscription_lose_no_event_by_default(
    ground: Ground, tmp_path: Path, release: str
) -> None:
    policy = policies(tmp_path, release)
    assert 'topicPrefetch="100"' in policy
    here, there = (ground.address(1), STOMP), (ground.address(2), STOMP)
    with Relay((ground.address(2), OPENWIRE), SLOW) as relay:
        north = bridged(ground, release, relay, policy)
        with StompConnection(there, timeout=60) as subscriber:
            subscriber.subscribe("/topic/events", ack="auto")
            with StompConnection(here, timeout=60, client_id="durable") as durable:
                durable.subscribe("/topic/events", headers={"activemq.subscriptionName": "d", "id": "d"})
            time.sleep(2)  # the demand has crossed the slow link
            relay.cut()
            ids = send_events(here)
            relay.heal()
            over_bridge = set(received(subscriber, EVENTS, acknowledge=False))
        with StompConnection(here, timeout=60, client_id="durable") as durable:
            durable.subscribe("/topic/events", headers={"activemq.subscriptionName": "d", "id": "d"})
            kept = set(received(durable, EVENTS))
    print(f"{release}: {EVENTS} sent, {len(over_bridge)} over the bridge, {len(kept)} durable")
    assert kept == set(ids)
    assert over_bridge == set(ids), north.output[-3000:]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("release", further(*RELEASES))
def test_java_client_that_acknowledges_late_stops_at_topic_prefetch(tmp_path: Path, release: str) -> None:
    """A client that names no prefetch acknowledges for the first time after 16,383 messages (DUPS_OK_ACKNOWLEDGE)."""
    command = compile_client("TopicAcknowledger", Release.of(release), tmp_path)
    with broker_with(tmp_path / "broker", release) as lab:
        host, port = lab.addresses(HOST, "openwire")[0]
        came = {
            (mode, option): int(
                subprocess.run(
                    [*command, f"tcp://{host}:{port}{option}", mode, "500"], check=True, capture_output=True, text=True
                ).stdout
            )
            for mode, option in ((AUTO, ""), (DUPS_OK, ""), (DUPS_OK, "?jms.prefetchPolicy.topicPrefetch=200"))
        }
    assert list(came.values()) == [500, 100, 500]
