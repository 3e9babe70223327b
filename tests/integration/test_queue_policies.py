"""Tests of destination policies of queues on a real broker that has a policy for each key."""

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
    expiry_header,
    fill,
    queues,
    release_of,
    skip_without,
)
from tests.situations import further
from tests.waiting import wait_until

EXPIRING = {"kind": "queue", "expire_messages_period": 300}
POLICIES: list[dict[str, Any]] = [
    {**EXPIRING, "destination": "shared.>", "dead_letter_strategy": {"type": "shared", "dead_letter_queue": "graves"}},
    {**EXPIRING, "destination": "gone.>", "dead_letter_strategy": "discarding"},
    {**EXPIRING, "destination": "late.>", "dead_letter_strategy": {"type": "individual", "process_expired": False}},
    {
        **EXPIRING,
        "destination": "light.>",
        "dead_letter_strategy": {
            "type": "individual",
            "process_non_persistent": True,
            "queue_prefix": "dead.",
            "queue_suffix": ".letters",
            "expiration": 3_600_000,
        },
    },
    {"destination": "few", "kind": "queue", "queue_prefetch": 2, "use_prefetch_extension": False},
    {
        "destination": "patient",
        "kind": "queue",
        "consumers_before_dispatch_starts": 2,
        "time_before_dispatch_starts": 60_000,
    },
    {"destination": "exclusive", "kind": "queue", "all_consumers_exclusive_by_default": True},
    {
        "destination": "ranked",
        "kind": "queue",
        "prioritized_messages": True,
        "message_group_map_factory_type": "bucket",
    },
    {"destination": "capped.>", "kind": "queue", "max_destinations": 1},
    {
        "destination": "mute",
        "kind": "queue",
        "slow_consumer_strategy": {
            "type": "abort_slow_ack",
            "check_period": 200,
            "max_slow_duration": 600,
            "max_time_since_last_ack": 600,
            "abort_connection": True,
        },
    },
    {
        "destination": "advised",
        "kind": "queue",
        "memory_limit": "64 kb",
        "pending_queue_policy": "vm",
        "advisory_for_consumed": True,
        "advisory_for_delivery": True,
        "advisory_for_dispatched": True,
        "advisory_when_full": True,
        "send_advisory_if_no_consumers": True,
    },
    {
        "destination": "sized",
        "kind": "queue",
        "producer_flow_control": False,
        "max_page_size": 77,
        "max_queue_audit_depth": 78,
        "max_producers_to_audit": 79,
        "use_cache": False,
        "blocked_producer_warning_interval": 81,
        "always_retroactive": True,
    },
]


@pytest.fixture(scope="module", params=["6.3.1", *further("5.8.0", "5.18.3")])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("queues")
    usage = {"send_fail_if_no_space_after_timeout": 500}
    with broker_with(directory, request.param, destination_policies=POLICIES, usage=usage) as lab:
        yield lab


@pytest.fixture
def client(lab: Lab) -> Iterator[Client]:
    with connect_client(lab) as client:
        yield client


def test_expired_messages_of_queues_arrive_in_shared_dead_letter_queue(client: Client) -> None:
    for name in ("a", "b"):
        client.send(f"/queue/shared.{name}", name, expiry_header())
    client.follow("/queue/graves")
    assert sorted(client.bodies(2)) == ["a", "b"]


def test_policy_discards_expired_messages_without_dead_letter_queue(lab: Lab, client: Client) -> None:
    skip_without(lab, "discarding")
    client.send("/queue/gone.x", "x", expiry_header())
    client.send("/queue/late.x", "x", expiry_header())
    wait_until(
        lambda: {queues(lab, HOST)[name] for name in ("gone.x", "late.x")} == {0},
        "both messages have expired",
        patience=60,
    )
    assert not [name for name in queues(lab, HOST) if "DLQ" in name]


def test_nonpersistent_dead_letters_follow_name_and_expiration_of_policy(lab: Lab, client: Client) -> None:
    client.send("/queue/light.x", "x", {**expiry_header(), "persistent": "false"})
    client.follow("/queue/dead.light.x.letters")
    message = client.receive(10)
    assert message is not None
    if release_of(lab).supports("individualDeadLetterStrategy", "expiration"):
        assert 3_500_000 < int(message.headers["expires"]) - int(message.headers["timestamp"]) < 3_700_000
    client.answer(message)


def test_consumer_receives_no_more_unacknowledged_messages_than_prefetch(client: Client) -> None:
    for number in range(5):
        client.send("/queue/few", str(number))
    client.follow("/queue/few")
    assert client.bodies(5, timeout=1, acknowledge=False) == ["0", "1"]


def test_dispatch_waits_for_number_of_consumers_of_policy(lab: Lab, client: Client) -> None:
    client.send("/queue/patient", "x")
    client.follow("/queue/patient")
    assert client.bodies(1, timeout=1) == []
    with connect_client(lab) as second_client:
        second_client.follow("/queue/patient")
        assert client.bodies(1, timeout=2) + second_client.bodies(1, timeout=1) == ["x"]


def test_exclusive_queue_delivers_to_one_consumer_at_a_time(lab: Lab, client: Client) -> None:
    client.follow("/queue/exclusive")
    with connect_client(lab) as second_client:
        second_client.follow("/queue/exclusive")
        for number in range(4):
            client.send("/queue/exclusive", str(number))
        assert client.bodies(4) == ["0", "1", "2", "3"]
        assert second_client.bodies(1, timeout=1) == []


def test_messages_with_higher_priority_arrive_first(lab: Lab, client: Client) -> None:
    for priority in ("1", "9", "5"):
        client.send("/queue/ranked", priority, {"priority": priority})
    client.follow("/queue/ranked")
    assert client.bodies(3) == ["9", "5", "1"]
    if release_of(lab).supports("policyEntry", "messageGroupMapFactoryType"):
        assert destinations(lab, HOST)["ranked"]["MessageGroupType"] == "bucket"


def test_broker_rejects_queue_above_maximum_number_of_policy(lab: Lab, client: Client) -> None:
    skip_without(lab, "policyEntry", "maxDestinations")
    client.send("/queue/capped.a", "x")
    with pytest.raises(StompError, match="number of destinations allowed"):
        client.send("/queue/capped.b", "x")


def test_queue_has_advisories_of_its_policy_and_other_queue_has_none(lab: Lab, client: Client) -> None:
    client.send("/queue/advised", "x", {"persistent": "false"})
    client.send("/queue/unadvised", "x", {"persistent": "false"})
    for queue in ("advised", "unadvised"):
        client.follow(f"/queue/{queue}")
    assert len(client.bodies(2)) == 2
    with connect_client(lab) as producer:
        assert fill(producer, "/queue/full-of-other", "x" * 100)[0] == 200
    kinds = ["MessageConsumed", "MessageDelivered", "NoConsumer"]
    if release_of(lab).supports("policyEntry", "advisoryForDispatched"):
        kinds.append("MessageDispatched")
    expected = [f"{kind}.Queue.advised" for kind in kinds]
    wait_until(
        lambda: min(advisories(lab, *expected).values()) >= 1,
        "each advisory of the policy was sent",
        seen=lambda: advisories(lab, *expected),
        patience=60,
    )
    unexpected = [f"{kind}.Queue.unadvised" for kind in kinds]
    assert set(advisories(lab, *unexpected).values()) == {0}


def test_full_queue_rejects_messages_and_sends_advisory(lab: Lab, client: Client) -> None:
    accepted, error = fill(client, "/queue/advised", "x" * 10_000)
    assert accepted < 20
    assert "memory" in error.lower()
    assert advisories(lab, "FULL.Queue.advised")["FULL.Queue.advised"] >= 1


def test_queue_has_sizes_and_options_of_its_policy(lab: Lab, client: Client) -> None:
    client.send("/queue/sized", "x")
    attributes = destinations(lab, HOST)["sized"]
    expected = {
        "MaxPageSize": 77, "MaxAuditDepth": 78, "MaxProducersToAudit": 79,
        "BlockedProducerWarningInterval": 81, "UseCache": False, "ProducerFlowControl": False,
        "AlwaysRetroactive": True,
    }  # fmt: skip
    assert {name: attributes[name] for name in expected} == expected


def test_broker_disconnects_consumer_that_acknowledges_nothing(lab: Lab, client: Client) -> None:
    skip_without(lab, "abortSlowAckConsumerStrategy")
    with connect_client(lab) as slow:
        slow.follow("/queue/mute", **{"activemq.prefetchSize": "2"})
        for _ in range(20):
            client.send("/queue/mute", "x")
        with pytest.raises((StompError, OSError)):
            slow.bodies(100, timeout=30, acknowledge=False)
