"""Clients that have a login flood a default broker: the broker survives, and bridges and durable subscriptions lose
nothing by the limits that it survives by.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from activemq_fleet.inventory import load_fleet
from activemq_fleet.lab import loopback_overlay
from activemq_fleet.lab.stomp import StompConnection
from activemq_fleet.render import render
from tests.integration.client_floods import FLOODS, run_flood
from tests.integration.labs import write_inventory
from tests.integration.planted import OPENWIRE, STOMP, Ground, Planted, document, link, until
from tests.integration.relay import Relay
from tests.situations import further

RELEASES = ("5.5.1", "5.18.3", "6.3.1")
NO_MQTT = ("5.5.1",)
PROVEN = 150 << 20
"""Bytes: what a broker of 512 MB took before flow control held the publishers, or more."""
# What no setting of a release limits: docs/security.md, "Floods by clients with a login".
STOPS = {"topic_slow_prefetch_mqtt"}
"""Floods that still stop a default broker."""
COUNTED = {"destinations", "temporary_destinations", "durable_subscriptions", "subscriptions", "connections", "frames"}
"""Floods by number and not by bytes."""
SLOW = 400_000
"""Bytes per second of the slow link."""
EVENTS, BODY = 3_000, 1_000
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
def test_flood_by_number_is_measured(tmp_path: Path, release: str, flood: str) -> None:
    result = run_flood(tmp_path, release, flood)
    print(result)
    assert result.frames


def policies(directory: Path, release: str) -> str:
    """The destination policies that the collection renders for a broker with a link."""
    hosts = ["north-mq01-a.example.com", "south-mq01-a.example.com"]
    groups = write_inventory(
        directory / "inventory", hosts, release=release, ha="none", links=[{"from": "north-mq01", "to": "south-mq01"}]
    )
    text = render(load_fleet([str(groups)]).brokers[0])["conf/activemq.xml"].decode()
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
        assert broker.boot().fate == "started", broker.said
    assert until(lambda: any(bridge.peer == "south" for bridge in north.story.bridges), 180), north.said
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
@pytest.mark.parametrize(
    ("release", "limit"),
    [
        ("5.18.3", ""),
        *further(*((release, "") for release in ("5.5.1", "6.3.1"))),
        *further(*((release, "500") for release in RELEASES)),
    ],
)
def test_bridge_over_slow_link_and_durable_subscription_lose_no_event_by_default(
    ground: Ground, tmp_path: Path, release: str, limit: str
) -> None:
    """With a pending message limit, which is why none is set, the bridge loses events."""
    policy = policies(tmp_path, release)
    if limit:
        strategy = f'<constantPendingMessageLimitStrategy limit="{limit}"/>'
        policy = re.sub(
            r'<policyEntry topic="(?:>|&gt;)" topicPrefetch="100"(/>|>)',
            lambda match: (
                f'<policyEntry topic="&gt;" topicPrefetch="100"><pendingMessageLimitStrategy>{strategy}'
                f"</pendingMessageLimitStrategy>{'</policyEntry>' if match[1] == '/>' else ''}"
            ),
            policy,
        )
        assert strategy in policy
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
    print(f"{release}, limit {limit or 'none'}: {EVENTS} sent, {len(over_bridge)} over the bridge, {len(kept)} durable")
    assert kept == set(ids)
    if limit:
        assert over_bridge < set(ids)
    else:
        assert over_bridge == set(ids), north.said[-3000:]
