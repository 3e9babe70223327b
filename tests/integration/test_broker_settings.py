"""Behavior of a real broker with all policies, limits, virtual destinations, store settings and plugins.

All releases use the same inventory, without the settings that their schema does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.lab.lab import Lab
from activemq_fleet.node.probe.broker_usage import read_broker_jmx_statistics
from tests.integration.labs import processes_of, write_inventory
from tests.integration.setting_clients import ANN, USERS, Client, broker_process, expiry_header, fill, queues
from tests.situations import further
from tests.waiting import wait_until

HOST = "orders-mq01-a.example.com"
INDIVIDUAL = {"type": "individual", "queue_prefix": "DLQ."}
VARIABLES: dict[str, Any] = {
    "ha": "none",
    "console": False,
    "users": USERS,
    "destination_policies": [
        {"destination": ">", "kind": "queue", "expire_messages_period": 300, "dead_letter_strategy": INDIVIDUAL},
        {
            "destination": "narrow",
            "kind": "queue",
            "memory_limit": "64 kb",
            "pending_queue_policy": "vm",
            "producer_flow_control": True,
        },
        {
            "destination": "idle.>",
            "kind": "queue",
            "gc_inactive_destinations": True,
            "inactive_timeout_before_gc": 1000,
        },
        {
            "destination": "prices",
            "kind": "topic",
            "topic_prefetch": 1,
            "pending_message_limit_strategy": {"type": "constant", "limit": 3},
            "message_eviction_strategy": "oldest",
        },
        {
            "destination": "images",
            "kind": "topic",
            "subscription_recovery_policy": {"type": "fixed_count", "maximum_size": 2},
            "always_retroactive": True,
        },
    ],
    "scheduler": {"directory": "/srv/scheduler"},
    "broker_attributes": {"schedulePeriodForDestinationPurge": 1000},
    "usage": {"memory": "25 %", "store": "6 mb", "job_scheduler": "1 gb", "send_fail_if_no_space": True},
    "virtual_destinations": [
        {"type": "virtual_topic", "name": "news.>", "prefix": "for.*.", "selector_aware": True},
        {
            "type": "composite_queue",
            "name": "all",
            "forward_to": ["one", {"name": "queue://red", "selector": "colour = 'red'"}],
        },
    ],
    # 5.8.0 forwards only to destinations that exist.
    "destinations": ["made.a", "made.b", "idle.one", "one", "red"],
    "kahadb": {"journal_max_file_length": "1 mb", "cleanup_interval": 1000, "enable_index_write_async": True},
    "plugins": {
        "statistics": True,
        "timestamp": {"zero_expiration_override": 3_600_000},
        "force_persistency": {"persistence_flag": True},
        "trace_broker_path": True,
        "connection_dot": True,
        "logging": {"log_connection_events": True},
        "discarding_dlq": {"drop_all": False, "drop_only": "dropped"},
        "redelivery": {
            "policies": [
                {
                    "destination": "again",
                    "kind": "queue",
                    "maximum_redeliveries": 1,
                    "initial_redelivery_delay": 2000,
                    "redelivery_delay": 2000,
                }
            ],
            "fallback_to_dead_letter": True,
        },
    },
}


@pytest.fixture(scope="module", params=["6.3.1", *further("5.8.0", "5.18.3")])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory: Path = tmp_path_factory.mktemp("settings")
    variables = {**VARIABLES, "release": request.param}
    if request.param == "5.8.0":  # C019, and no percentage of the heap
        variables["plugins"] = {**VARIABLES["plugins"], "timestamp": False}
        variables["usage"] = {**VARIABLES["usage"], "memory": "62 mb"}
    with Lab.open(write_inventory(directory, [HOST], **variables), directory / "lab") as lab:
        lab.up()
        assert lab.fleet.findings == ()
        yield lab
    assert not processes_of(directory / "lab")


@pytest.fixture
def client(lab: Lab) -> Iterator[Client]:
    with Client(lab.addresses(HOST, "stomp")[0], ANN) as client:
        yield client


def test_configured_destinations_exist_before_any_client_connects(lab: Lab) -> None:
    assert {"made.a", "made.b"} <= queues(lab, HOST).keys()


def test_unused_destination_is_removed_and_others_remain(lab: Lab) -> None:
    wait_until(lambda: "idle.one" not in queues(lab, HOST), "idle.one is removed")
    assert {"made.a", "made.b"} <= queues(lab, HOST).keys()
    assert "idle.one" in lab.log(HOST).read_text()


def test_statistics_plugin_answers_for_each_requested_destination(lab: Lab, client: Client) -> None:
    # A set of jars lacks the libraries that convert the answers to STOMP, so the test only counts them.
    client.send("/queue/ActiveMQ.Statistics.Destinationmade.>", "", {"reply-to": "/queue/answers"})
    wait_until(
        lambda: queues(lab, HOST).get("answers") == 2, "the queue contains two answers", seen=lambda: queues(lab, HOST)
    )


def test_dead_letters_follow_policy_of_all_queues_unless_plugin_discards_them(client: Client) -> None:
    client.send("/queue/dropped", "no", expiry_header())
    client.send("/queue/work", "late", expiry_header())
    client.follow("/queue/DLQ.work")
    assert client.bodies(1) == ["late"]
    client.follow("/queue/DLQ.dropped")
    assert client.bodies(1, timeout=1) == []


def test_broker_has_limits_in_bytes_and_in_percent_of_heap(lab: Lab) -> None:
    usage = read_broker_jmx_statistics(broker_process(lab, HOST), 30)
    assert usage["store"]["limit"] == 6 << 20
    settings = lab.fleet.broker(HOST).settings.usage
    assert settings is not None
    assert settings.memory is not None
    if settings.memory.percent_of_jvm_heap:  # a lab replaces sizes by a size for its heap of 256 MB
        assert 55 << 20 < usage["memory"]["limit"] <= 64 << 20


def test_memory_limit_of_queue_rejects_messages(client: Client) -> None:
    accepted, error = fill(client, "/queue/narrow", "x" * 2000)
    assert 10 < accepted < 40
    assert "memory" in error.lower()


def test_slow_consumer_of_topic_keeps_newest_messages(client: Client) -> None:
    client.follow("/topic/prices", **{"activemq.prefetchSize": "1"})
    for number in range(20):
        client.send("/topic/prices", str(number))
    assert client.bodies(20, timeout=1)[-3:] == ["17", "18", "19"]


def test_late_subscriber_receives_last_messages_of_topic(client: Client) -> None:
    for number in range(5):
        client.send("/topic/images", str(number))
    client.follow("/topic/images")
    assert client.bodies(5, timeout=1) == ["3", "4"]


def test_queue_of_virtual_topic_consumer_receives_messages_of_its_selector(client: Client) -> None:
    client.follow("/queue/for.a.news.x", selector="colour = 'red'")
    client.follow("/queue/for.b.news.x")
    client.follow("/queue/Consumer.c.VirtualTopic.y")
    for colour in ("red", "blue"):
        client.send("/topic/news.x", colour, {"colour": colour})
    assert sorted(client.bodies(4, timeout=1)) == ["blue", "red", "red"]
    client.send("/topic/VirtualTopic.y", "unfiltered")
    assert client.bodies(1) == ["unfiltered"]


def test_composite_queue_forwards_messages_by_selector(client: Client) -> None:
    for colour in ("red", "blue"):
        client.send("/queue/all", colour, {"colour": colour})
    client.follow("/queue/one")
    assert client.bodies(2) == ["red", "blue"]
    client.follow("/queue/red")
    assert client.bodies(2, timeout=1) == ["red"]


def test_rejected_message_is_redelivered_with_delay_and_then_dead_lettered(client: Client) -> None:
    client.follow("/queue/again")
    client.send("/queue/again", "take me")
    delays = []
    for _ in range(2):
        message = client.receive(10)
        assert message is not None
        delays.append(message.headers.get("redeliveryDelay"))
        client.answer(message, "NACK")
    assert delays == [None, "2000"]
    client.follow("/queue/DLQ.again")
    assert client.bodies(1) == ["take me"]


def test_delayed_message_is_late_and_stored_in_configured_directory(lab: Lab, client: Client) -> None:
    client.send("/queue/later", "x", {"AMQ_SCHEDULED_DELAY": "3000"})
    client.send("/queue/later", "sent second")
    client.follow("/queue/later")
    assert client.bodies(2, timeout=20) == ["sent second", "x"]
    assert (lab.log(HOST).parent / "scheduler/scheduleDB.data").exists()


def test_plugins_add_expiration_persistence_and_broker_path_to_messages(lab: Lab, client: Client) -> None:
    client.send("/queue/stamped", "x", {"persistent": "false"})
    client.follow("/queue/stamped")
    message = client.receive(5)
    assert message is not None
    assert message.headers["persistent"] == "true"
    assert message.headers["BrokerPath"] == lab.fleet.broker(HOST).broker_name
    plugins = lab.fleet.broker(HOST).settings.plugins
    assert plugins is not None
    if plugins.timestamp:
        assert 3_500_000 < int(message.headers["expires"]) - int(message.headers["timestamp"]) < 3_700_000
    client.answer(message)


def test_connections_are_written_to_dot_file_and_logged(lab: Lab, client: Client) -> None:
    data_directory = lab.log(HOST).parent
    wait_until(lambda: "digraph" in (data_directory / "connections.dot").read_text(), "the diagram is written")
    assert "Adding Connection" in lab.log(HOST).read_text()


def test_store_has_configured_file_size_and_limit(lab: Lab, client: Client) -> None:
    accepted, error = fill(client, "/queue/full", "x" * 250_000)
    assert 10 < accepted < 30
    assert "store is full" in error.lower()
    journal = sorted((lab.log(HOST).parent / "kahadb").glob("db-*.log"))
    assert len(journal) > 3
    assert max(file.stat().st_size for file in journal) <= 1.3 * (1 << 20)
