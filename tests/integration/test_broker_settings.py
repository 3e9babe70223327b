"""Policies, limits, virtual destinations, the store's tuning and plugins: what a real broker does that has them all.

Each release has what its schema has of one inventory; the findings that say what is left out are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.lab.lab import Lab
from activemq_fleet.node.probe.broker_usage import read_broker_usage
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
    # 5.8.0 forwards only to destinations that are there.
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
    if request.param == "5.8.0":  # C019, and no percent of the heap
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


def test_destinations_are_there_before_anybody_came(lab: Lab) -> None:
    assert {"made.a", "made.b"} <= queues(lab, HOST).keys()


def test_a_destination_that_nobody_uses_is_removed_and_others_stay(lab: Lab) -> None:
    wait_until(lambda: "idle.one" not in queues(lab, HOST), "idle.one is removed")
    assert {"made.a", "made.b"} <= queues(lab, HOST).keys()
    assert "idle.one" in lab.log(HOST).read_text()


def test_the_broker_answers_with_statistics_of_each_destination_that_is_asked_for(lab: Lab, client: Client) -> None:
    # Sets of jars lack what STOMP needs to read the answers: they are counted.
    client.send("/queue/ActiveMQ.Statistics.Destinationmade.>", "", {"reply-to": "/queue/answers"})
    wait_until(lambda: queues(lab, HOST).get("answers") == 2, "there are two answers", seen=lambda: queues(lab, HOST))


def test_dead_letters_follow_policy_of_all_queues_unless_plugin_discards_them(client: Client) -> None:
    client.send("/queue/dropped", "no", expiry_header())
    client.send("/queue/work", "late", expiry_header())
    client.follow("/queue/DLQ.work")
    assert client.bodies(1) == ["late"]
    client.follow("/queue/DLQ.dropped")
    assert client.bodies(1, timeout=1) == []


def test_the_broker_has_the_limits_in_bytes_and_in_percent_of_its_heap(lab: Lab) -> None:
    usage = read_broker_usage(broker_process(lab, HOST), 30)
    assert usage["store"]["limit"] == 6 << 20
    said = lab.fleet.broker(HOST).settings.usage
    assert said is not None
    assert said.memory is not None
    if said.memory.percent_of_jvm_heap:  # a lab replaces sizes by one for its own heap of 256 MB
        assert 55 << 20 < usage["memory"]["limit"] <= 64 << 20


def test_the_memory_of_a_queue_is_a_limit(client: Client) -> None:
    taken, why = fill(client, "/queue/narrow", "x" * 2000)
    assert 10 < taken < 40
    assert "memory" in why.lower()


def test_a_slow_consumer_of_a_topic_keeps_the_newest_messages(client: Client) -> None:
    client.follow("/topic/prices", **{"activemq.prefetchSize": "1"})
    for number in range(20):
        client.send("/topic/prices", str(number))
    assert client.bodies(20, timeout=1)[-3:] == ["17", "18", "19"]


def test_a_late_subscriber_gets_the_last_messages_of_a_topic(client: Client) -> None:
    for number in range(5):
        client.send("/topic/images", str(number))
    client.follow("/topic/images")
    assert client.bodies(5, timeout=1) == ["3", "4"]


def test_each_consumer_of_a_virtual_topic_has_a_queue_of_what_it_selects(client: Client) -> None:
    client.follow("/queue/for.a.news.x", selector="colour = 'red'")
    client.follow("/queue/for.b.news.x")
    client.follow("/queue/Consumer.c.VirtualTopic.y")
    for colour in ("red", "blue"):
        client.send("/topic/news.x", colour, {"colour": colour})
    assert sorted(client.bodies(4, timeout=1)) == ["blue", "red", "red"]
    client.send("/topic/VirtualTopic.y", "still there")
    assert client.bodies(1) == ["still there"]


def test_a_composite_queue_forwards_and_selects(client: Client) -> None:
    for colour in ("red", "blue"):
        client.send("/queue/all", colour, {"colour": colour})
    client.follow("/queue/one")
    assert client.bodies(2) == ["red", "blue"]
    client.follow("/queue/red")
    assert client.bodies(2, timeout=1) == ["red"]


def test_a_refused_message_comes_again_later_and_then_is_a_dead_letter(client: Client) -> None:
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


def test_a_delayed_message_comes_late_and_lies_where_the_variable_says(lab: Lab, client: Client) -> None:
    client.send("/queue/later", "x", {"AMQ_SCHEDULED_DELAY": "3000"})
    client.send("/queue/later", "sent second")
    client.follow("/queue/later")
    assert client.bodies(2, timeout=20) == ["sent second", "x"]
    assert (lab.log(HOST).parent / "scheduler/scheduleDB.data").exists()


def test_messages_are_stamped_made_persistent_and_traced(lab: Lab, client: Client) -> None:
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


def test_connections_are_drawn_and_logged(lab: Lab, client: Client) -> None:
    data = lab.log(HOST).parent
    wait_until(lambda: "digraph" in (data / "connections.dot").read_text(), "the picture is written")
    assert "Adding Connection" in lab.log(HOST).read_text()


def test_the_store_has_small_files_and_a_limit(lab: Lab, client: Client) -> None:
    taken, why = fill(client, "/queue/full", "x" * 250_000)
    assert 10 < taken < 30
    assert "store is full" in why.lower()
    journal = sorted((lab.log(HOST).parent / "kahadb").glob("db-*.log"))
    assert len(journal) > 3
    assert max(file.stat().st_size for file in journal) <= 1.3 * (1 << 20)
