"""Clients with a login flood a default broker: the broker survives.

The limits that protect the broker do not cause losses of bridges and durable subscriptions.
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
from tests.integration.relay import Relay
from tests.integration.setting_clients import HOST, broker_with
from tests.integration.single_brokers import OPENWIRE, STOMP, BrokerSandbox, SandboxBroker, document, link, until
from tests.situations import fact_of_activemq, further

pytestmark = fact_of_activemq

RELEASES = ("5.5.1", "5.18.3", "6.3.1")
NO_MQTT = ("5.5.1",)
PROVEN = 150 << 20
"""Bytes that a broker of 512 MB accepts at least before flow control blocks the publishers."""
# No setting of a release limits these floods: docs/security.md, "Floods by clients with a login".
STOPS = {"topic_slow_prefetch_mqtt", "queue_slow_prefetch", "transactions", "frames", "destinations", "subscriptions"}
"""Floods that still stop a default broker, or block it."""
COUNTED = {"temporary_destinations", "durable_subscriptions", "connections"}
"""Floods by number and not by bytes."""
ACCEPTED = 1_000
SLOW = 400_000
"""Bytes per second of the slow link."""
EVENTS, BODY = 3_000, 1_000
AUTO, DUPS_OK = "1", "3"
"""Modes of acknowledgement, as JMS numbers them."""
SMALL_MEMORY = "3 mb"
"""Memory for the prefetch of the bridge; messages above 70 % of it are written to the temporary store."""


@pytest.fixture(autouse=True)
def _keep_lab_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback_overlay, "_JVM_OPTIONS", loopback_overlay._JVM_OPTIONS)


def release_flood_cases() -> Iterator[tuple[str, str]]:
    for release, flood in product(RELEASES, FLOODS):
        if not (release in NO_MQTT and "mqtt" in flood):
            yield release, flood


QUICK = ("6.3.1", "topic_slow_mqtt")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("release", "flood"),
    [QUICK, *further(*(case for case in release_flood_cases() if case != QUICK and case[1] not in STOPS | COUNTED))],
)
def test_broker_with_default_settings_survives_flood_of_messages(tmp_path: Path, release: str, flood: str) -> None:
    outcome = run_flood(tmp_path, release, flood)
    print(outcome)
    assert outcome.bytes >= PROVEN
    assert outcome.survived
    assert outcome.serves_after


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("release", "flood"), further(*(case for case in release_flood_cases() if case[1] in COUNTED)))
def test_broker_with_default_settings_survives_large_number_of_frames(tmp_path: Path, release: str, flood: str) -> None:
    outcome = run_flood(tmp_path, release, flood)
    print(outcome)
    assert outcome.frames >= ACCEPTED
    assert outcome.survived
    assert outcome.serves_after


def rendered_destination_policies(directory: Path, release: str) -> str:
    """Return the destination policies that the collection renders for a broker with a link."""
    hosts = ["north-mq01-a.example.com", "south-mq01-a.example.com"]
    groups = write_inventory(
        directory / "inventory", hosts, release=release, ha="none", links=[{"from": "north-mq01", "to": "south-mq01"}]
    )
    activemq_xml = render_broker(load_fleet([str(groups)]).brokers[0])["conf/activemq.xml"].decode()
    match = re.search(r"<destinationPolicy>.*</destinationPolicy>", activemq_xml, re.DOTALL)
    assert match
    return match[0]


def start_bridged_brokers(sandbox: BrokerSandbox, release: str, relay: Relay, policy: str) -> SandboxBroker:
    """Start a broker with the policy, and a broker that receives its topic events over the relay; return the first."""
    host, port = relay.address
    store = "<persistenceAdapter><kahaDB/></persistenceAdapter>"
    memory = (
        f"<systemUsage><systemUsage><memoryUsage><memoryUsage limit='{SMALL_MEMORY}'/></memoryUsage></systemUsage>"
        "</systemUsage>"
    )
    # An interrupted link loses the topic events that wait for it, with any limits: this link must not be interrupted.
    connector = link(f"static:(tcp://{host}:{port}?wireFormat.maxInactivityDuration=0)")
    north = sandbox.add_broker(
        "north", release, document("north", sandbox.address(1), connector, store, memory, policy)
    )
    south = sandbox.add_broker("south", release, document("south", sandbox.address(2), store))
    for broker in (south, north):
        assert broker.boot().fate == "started", broker.output
    assert until(
        lambda: any(bridge.peer == "south" for bridge in north.run_state.currently_established_bridges), 180
    ), north.output
    return north


def send_events(address: tuple[str, int]) -> list[str]:
    """Send persistent events in transactions; return their ids once the broker has committed them."""
    ids = [f"{number:06}" for number in range(EVENTS)]
    with StompConnection(address, timeout=300) as publisher:
        for start in range(0, EVENTS, 100):
            publisher.send_transaction("/topic/events", [event.ljust(BODY, "x") for event in ids[start : start + 100]])
    return ids


def receive_ids(subscriber: StompConnection, count: int, *, acknowledge: bool = True) -> list[str]:
    """Receive messages until ``count`` different IDs have arrived, or no message for 30 seconds; return the IDs."""
    ids: list[str] = []
    while len(set(ids)) < count and (message := subscriber.receive(30)):
        ids.append(message.body[:6])
        if acknowledge:
            subscriber.acknowledge(message)
    return ids


@pytest.mark.timeout(900)
@pytest.mark.parametrize("release", ["5.18.3", *further("5.5.1", "6.3.1")])
def test_bridge_over_slow_link_and_durable_subscription_lose_no_event_by_default(
    sandbox: BrokerSandbox, tmp_path: Path, release: str
) -> None:
    policy = rendered_destination_policies(tmp_path, release)
    assert 'topicPrefetch="100"' in policy
    north_address, south_address = (sandbox.address(1), STOMP), (sandbox.address(2), STOMP)
    with Relay((sandbox.address(2), OPENWIRE), SLOW) as relay:
        north = start_bridged_brokers(sandbox, release, relay, policy)
        with StompConnection(south_address, timeout=60) as subscriber:
            subscriber.subscribe("/topic/events", ack="auto")
            with StompConnection(north_address, timeout=60, client_id="durable") as durable:
                durable.subscribe("/topic/events", headers={"activemq.subscriptionName": "d", "id": "d"})
            time.sleep(2)  # the subscription has crossed the slow link
            relay.cut()
            ids = send_events(north_address)
            relay.heal()
            over_bridge = set(receive_ids(subscriber, EVENTS, acknowledge=False))
        with StompConnection(north_address, timeout=60, client_id="durable") as durable:
            durable.subscribe("/topic/events", headers={"activemq.subscriptionName": "d", "id": "d"})
            kept = set(receive_ids(durable, EVENTS))
    print(f"{release}: {EVENTS} sent, {len(over_bridge)} over the bridge, {len(kept)} durable")
    assert kept == set(ids)
    assert over_bridge == set(ids), north.output[-3000:]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("release", further(*RELEASES))
def test_java_client_that_acknowledges_late_stops_at_topic_prefetch(tmp_path: Path, release: str) -> None:
    """A client without a configured prefetch first acknowledges after 16,383 messages (DUPS_OK_ACKNOWLEDGE)."""
    command = compile_client("TopicAcknowledger", Release.of(release), tmp_path)
    with broker_with(tmp_path / "broker", release) as lab:
        host, port = lab.addresses(HOST, "openwire")[0]
        received_counts = {
            (mode, option): int(
                subprocess.run(
                    [*command, f"tcp://{host}:{port}{option}", mode, "500"], check=True, capture_output=True, text=True
                ).stdout
            )
            for mode, option in ((AUTO, ""), (DUPS_OK, ""), (DUPS_OK, "?jms.prefetchPolicy.topicPrefetch=200"))
        }
    assert list(received_counts.values()) == [500, 100, 500]
