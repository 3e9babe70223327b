"""Tests of destination policies of topics on a real broker that has a policy for each key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import StompError
from tests.integration.setting_clients import (
    HOST,
    Client,
    advisories,
    broker_with,
    connect_client,
    destinations,
    skip_without,
)
from tests.situations import further
from tests.waiting import wait_until

OLDEST = {"kind": "topic", "topic_prefetch": 1}
POLICIES: list[dict[str, Any]] = [
    {
        "destination": "slow",
        "kind": "topic",
        "slow_consumer_strategy": {
            "type": "abort",
            "check_period": 200,
            "max_slow_duration": 600,
            "abort_connection": True,
        },
    },
    {
        **OLDEST,
        "destination": "rate",
        "pending_message_limit_strategy": {"type": "prefetch_rate", "multiplier": 2.0},
        "message_eviction_strategy": "oldest",
        "advisory_for_discarding_messages": True,
        "advisory_for_slow_consumers": True,
    },
    {
        **OLDEST,
        "destination": "least",
        "pending_message_limit_strategy": {"type": "constant", "limit": 3},
        "message_eviction_strategy": "lowest_priority",
    },
    {
        **OLDEST,
        "destination": "unique",
        "pending_message_limit_strategy": {"type": "constant", "limit": 2},
        "message_eviction_strategy": {"type": "unique_property", "property_name": "symbol"},
    },
    {
        "destination": "last",
        "kind": "topic",
        "subscription_recovery_policy": "last_image",
        "always_retroactive": True,
    },
    {
        "destination": "bytes",
        "kind": "topic",
        "subscription_recovery_policy": {"type": "fixed_size", "maximum_size": 8000, "use_shared_buffer": False},
        "always_retroactive": True,
    },
    {
        "destination": "timed",
        "kind": "topic",
        "subscription_recovery_policy": {"type": "timed", "recover_duration": 60_000},
        "always_retroactive": True,
    },
    {
        "destination": "kept",
        "kind": "topic",
        "subscription_recovery_policy": "retained",
        "always_retroactive": True,
    },
    {"destination": "unkept", "kind": "topic", "subscription_recovery_policy": "none", "always_retroactive": True},
    {
        "destination": "one.>",
        "kind": "topic",
        "dispatch_policy": {"type": "client_id_filter", "ptp_client_id": "for", "ptp_suffix": ".direct"},
    },
    *(
        {"destination": f"order.{kind}", "kind": "topic", "dispatch_policy": kind}
        for kind in ("simple", "round_robin", "strict_order", "priority", "priority_network")
    ),
]
ORDERS = [policy["destination"] for policy in POLICIES if policy["destination"].startswith("order.")]


@pytest.fixture(scope="module", params=["6.3.1", *further("5.8.0", "5.18.3")])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("topics")
    with broker_with(directory, request.param, destination_policies=POLICIES) as lab:
        yield lab


@pytest.fixture
def client(lab: Lab) -> Iterator[Client]:
    with connect_client(lab) as client:
        yield client


def test_broker_disconnects_slow_consumer(lab: Lab, client: Client) -> None:
    with connect_client(lab) as slow:
        slow.follow("/topic/slow", **{"activemq.prefetchSize": "2"})
        for _ in range(20):
            client.send("/topic/slow", "x")
        with pytest.raises((StompError, OSError)):
            slow.bodies(100, timeout=30, acknowledge=False)


def test_slow_consumer_keeps_multiple_of_prefetch_and_loss_sends_advisories(lab: Lab, client: Client) -> None:
    # Subscribe without a receipt. With a receipt, the prefetch is 0 when the limit is calculated from it.
    client.listen("/topic/rate", **{"activemq.prefetchSize": "2"})
    wait_until(
        lambda: destinations(lab, HOST, "Topic").get("rate", {}).get("ConsumerCount") == 1,
        "the consumer has subscribed",
        patience=30,
    )
    for number in range(20):
        client.send("/topic/rate", str(number))
    assert client.bodies(20, timeout=2) == ["0", "1", "16", "17", "18", "19"]
    expected = ("MessageDiscarded.Topic.rate", "SlowConsumer.Topic.rate")
    assert min(advisories(lab, *expected).values()) >= 1


def test_slow_consumer_keeps_messages_that_eviction_strategy_prefers(client: Client) -> None:
    client.follow("/topic/least", **{"activemq.prefetchSize": "1"})
    for priority in ("9", "1", "8", "2", "7", "3", "6"):
        client.send("/topic/least", priority, {"priority": priority})
    kept = client.bodies(7, timeout=1)
    assert {"8", "7", "6"} <= set(kept)
    assert not {"1", "2"} & set(kept)


def test_slow_consumer_keeps_newest_message_of_each_property_value(client: Client) -> None:
    client.follow("/topic/unique", **{"activemq.prefetchSize": "1"})
    for number in range(12):
        symbol = "ABC"[number % 3]
        client.send("/topic/unique", f"{symbol}{number}", {"symbol": symbol})
    kept = client.bodies(12, timeout=1)
    assert len(kept) < 12
    assert kept[-1] == "C11"


@pytest.mark.parametrize(
    ("topic", "element", "expected"),
    [
        ("last", "lastImageSubscriptionRecoveryPolicy", ["4"]),
        ("bytes", "fixedSizedSubscriptionRecoveryPolicy", None),
        ("timed", "timedSubscriptionRecoveryPolicy", ["0", "1", "2", "3", "4"]),
        ("kept", "retainedMessageSubscriptionRecoveryPolicy", ["3"]),
        ("unkept", "noSubscriptionRecoveryPolicy", []),
    ],
)
def test_late_subscriber_receives_messages_that_recovery_policy_keeps(
    lab: Lab, client: Client, topic: str, element: str, expected: list[str] | None
) -> None:
    skip_without(lab, element)
    for number in range(5):
        retain = {"ActiveMQ.Retain": "true"} if (topic, number) == ("kept", 3) else {}
        client.send(f"/topic/{topic}", str(number), retain)
    client.follow(f"/topic/{topic}")
    received = client.bodies(5, timeout=1)
    assert received == expected if expected is not None else 0 < len(received) <= 5


def test_message_for_one_client_of_topic_reaches_only_that_client(lab: Lab) -> None:
    skip_without(lab, "clientIdFilterDispatchPolicy")
    with connect_client(lab, "ann-1") as sender, connect_client(lab, "ann-2") as addressee:
        for client in (sender, addressee):
            client.follow("/topic/one.direct")
        sender.send("/topic/one.direct", "to two", {"for": "ann-2"})
        assert addressee.bodies(1) == ["to two"]
        assert sender.bodies(1, timeout=1) == []


@pytest.mark.parametrize("topic", ORDERS)
def test_each_dispatch_policy_delivers_all_messages_to_every_subscriber(lab: Lab, client: Client, topic: str) -> None:
    client.follow(f"/topic/{topic}")
    with connect_client(lab) as second_client:
        second_client.follow(f"/topic/{topic}")
        for number in range(3):
            second_client.send(f"/topic/{topic}", str(number))
        assert second_client.bodies(3) == ["0", "1", "2"]
    assert client.bodies(3) == ["0", "1", "2"]
