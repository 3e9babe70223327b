"""Destination policies and limits that ``test_broker_settings.py`` has no room for, on a broker that has them all.

Each release has what its schema has of one inventory. What it lacks is waived, and the tests of that say so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.host.broker_usage import read_usage
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import StompError
from activemq_fleet.releases import Release
from tests.integration.labs import processes_of, write_inventory
from tests.integration.setting_clients import ANN, USERS, Client, destinations, fill, queues, running, soon
from tests.situations import further
from tests.waiting import wait_until

HOST = "orders-mq01-a.example.com"
EXPIRING = {"kind": "queue", "expire_messages_period": 300}
OLDEST = {"kind": "topic", "topic_prefetch": 1}
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
        "destination": "told",
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
    {
        "destination": "spilled",
        "kind": "queue",
        "memory_limit": "1 mb",
        "pending_queue_policy": "file",
        "cursor_memory_high_water_mark": 50,
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
VARIABLES: dict[str, Any] = {
    "ha": "none",
    "console": False,
    "users": USERS,
    "destination_policies": POLICIES,
    "virtual_destinations": [
        {
            "type": "composite_topic",
            "name": "every",
            "forward_only": False,
            "forward_to": ["first", "topic://second"],
        },
        {"type": "virtual_topic", "name": "VirtualTopic.>", "selector_aware": True},
        {"type": "virtual_topic", "name": "by.>", "prefix": "of.", "postfix": ".*"},
    ],
    "destinations": ["first", "topic://second"],
    "scheduler": True,
    "usage": {
        "store": {"percent_limit": 25, "total": "800 mb"},
        "temp": {"percent_limit": 10, "total": "400 mb"},
        "job_scheduler": "2 mb",
        "send_fail_if_no_space_after_timeout": 500,
    },
    "kahadb": {
        "journal_max_file_length": "1 mb",
        "checkpoint_interval": 200,
        "cleanup_interval": 400,
        "archive_data_logs": True,
        "enable_index_recovery_file": False,
        "preallocation_scope": "entire_journal",
        "preallocation_strategy": "zeros",
        "journal_disk_sync_strategy": "periodic",
        "concurrent_store_and_dispatch_queues": False,
        "index_cache_size": 2000,
        "enable_ack_compaction": True,
        "compact_acks_after_no_gc": 2,
    },
    "plugins": {
        "timestamp": {"ttl_ceiling": 60_000, "zero_expiration_override": 120_000},
        "destination_dot": True,
        "virtual_selector_cache": True,
    },
    "imports": ["beans.xml"],
    "shutdown_hooks": ["org.apache.activemq.hooks.SpringContextHook"],
    "waivers": [{"rule": "T011", "reason": "tests have one inventory for all releases"}],
}


BEANS = """<beans xmlns="http://www.springframework.org/schema/beans"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans
      http://www.springframework.org/schema/beans/spring-beans.xsd">
  <bean id="sign" class="java.io.File" destroy-method="delete"><constructor-arg value="%s"/></bean>
  <bean class="org.springframework.beans.factory.config.MethodInvokingFactoryBean">
    <property name="targetObject" ref="sign"/><property name="targetMethod" value="createNewFile"/>
  </bean>
</beans>
"""
"""A file that is there from when Spring's context is made until it is closed."""


@pytest.fixture(scope="module", params=["6.3.1", *further("5.8.0", "5.18.3")])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory: Path = tmp_path_factory.mktemp("policies")
    archive = directory / "archive"
    variables = {
        **VARIABLES,
        "release": request.param,
        "kahadb": {**VARIABLES["kahadb"], "directory_archive": str(archive)},
        "extra_files": [{"path": "conf/beans.xml", "content": BEANS % (directory / "sign")}],
    }
    if request.param == "5.8.0":
        variables["usage"] = {**VARIABLES["usage"], "store": "200 mb", "temp": "40 mb"}
    with Lab.open(write_inventory(directory, [HOST], **variables), directory / "lab") as lab:
        lab.up()
        yield lab
    assert not processes_of(directory / "lab")


@pytest.fixture
def client(lab: Lab) -> Iterator[Client]:
    with another(lab) as client:
        yield client


def another(lab: Lab, client_id: str | None = None) -> Client:
    return Client(lab.addresses(HOST, "stomp")[0], ANN, client_id=client_id)


def release_of(lab: Lab) -> Release:
    return lab.fleet.broker(HOST).release


def needs(lab: Lab, element: str, attribute: str = "") -> None:
    """Skip a test of what the broker's release does not have."""
    release = release_of(lab)
    known = release.supports(element, attribute or None)
    if not known:
        pytest.skip(f"{release.text} has no {attribute or element}")


def told(lab: Lab, *names: str) -> dict[str, int]:
    """How many advisories of each kind there were."""
    found = destinations(lab, HOST, "Topic")
    return {name: found.get(f"ActiveMQ.Advisory.{name}", {"EnqueueCount": 0})["EnqueueCount"] for name in names}


def test_expired_messages_of_several_queues_come_to_the_one_that_they_share(client: Client) -> None:
    for name in ("a", "b"):
        client.send(f"/queue/shared.{name}", name, soon())
    client.follow("/queue/graves")
    assert sorted(client.bodies(2)) == ["a", "b"]


def test_dead_letters_are_discarded_where_the_policy_says_so(lab: Lab, client: Client) -> None:
    needs(lab, "discarding")
    client.send("/queue/gone.x", "x", soon())
    client.send("/queue/late.x", "x", soon())
    wait_until(
        lambda: {queues(lab, HOST)[name] for name in ("gone.x", "late.x")} == {0}, "both have expired", patience=60
    )
    assert not [name for name in queues(lab, HOST) if "DLQ" in name]


def test_dead_letters_that_are_not_persistent_are_kept_named_and_made_to_expire_as_the_policy_says(
    lab: Lab, client: Client
) -> None:
    client.send("/queue/light.x", "x", {**soon(), "persistent": "false"})
    client.follow("/queue/dead.light.x.letters")
    message = client.receive(10)
    assert message is not None
    if release_of(lab).supports("individualDeadLetterStrategy", "expiration"):
        assert 3_500_000 < int(message.headers["expires"]) - time.time() * 1000 < 3_700_000
    client.answer(message)


def test_a_consumer_is_given_no_more_than_its_prefetch(client: Client) -> None:
    for number in range(5):
        client.send("/queue/few", str(number))
    client.follow("/queue/few")
    assert client.bodies(5, timeout=1, acknowledge=False) == ["0", "1"]


def test_nobody_is_given_a_message_before_there_are_as_many_consumers_as_the_policy_wants(
    lab: Lab, client: Client
) -> None:
    client.send("/queue/patient", "x")
    client.follow("/queue/patient")
    assert client.bodies(1, timeout=1) == []
    with another(lab) as second:
        second.follow("/queue/patient")
        assert client.bodies(1, timeout=2) + second.bodies(1, timeout=1) == ["x"]


def test_a_queue_whose_consumers_are_exclusive_has_one_at_a_time(lab: Lab, client: Client) -> None:
    client.follow("/queue/exclusive")
    with another(lab) as second:
        second.follow("/queue/exclusive")
        for number in range(4):
            client.send("/queue/exclusive", str(number))
        assert client.bodies(4) == ["0", "1", "2", "3"]
        assert second.bodies(1, timeout=1) == []


def test_messages_of_a_higher_priority_come_first(lab: Lab, client: Client) -> None:
    for priority in ("1", "9", "5"):
        client.send("/queue/ranked", priority, {"priority": priority})
    client.follow("/queue/ranked")
    assert client.bodies(3) == ["9", "5", "1"]
    if release_of(lab).supports("policyEntry", "messageGroupMapFactoryType"):
        assert destinations(lab, HOST)["ranked"]["MessageGroupType"] == "bucket"


def test_no_more_destinations_are_made_than_the_policy_allows(lab: Lab, client: Client) -> None:
    needs(lab, "policyEntry", "maxDestinations")
    client.send("/queue/capped.a", "x")
    with pytest.raises(StompError, match="number of destinations allowed"):
        client.send("/queue/capped.b", "x")


@pytest.mark.parametrize(
    ("destination", "element"),
    [("/topic/slow", "abortSlowConsumerStrategy"), ("/queue/mute", "abortSlowAckConsumerStrategy")],
)
def test_a_slow_consumer_is_thrown_out(lab: Lab, client: Client, destination: str, element: str) -> None:
    needs(lab, element)
    with another(lab) as slow:
        slow.follow(destination, **{"activemq.prefetchSize": "2"})
        for _ in range(20):
            client.send(destination, "x")
        with pytest.raises((StompError, OSError)):
            slow.bodies(100, timeout=30, acknowledge=False)


def test_advisories_tell_what_the_policy_asks_for_and_nothing_of_other_queues(lab: Lab, client: Client) -> None:
    client.send("/queue/told", "x", {"persistent": "false"})
    client.send("/queue/untold", "x", {"persistent": "false"})
    for queue in ("told", "untold"):
        client.follow(f"/queue/{queue}")
    assert len(client.bodies(2)) == 2
    with another(lab) as greedy:
        assert fill(greedy, "/queue/full-of-other", "x" * 100)[0] == 200
    kinds = ["MessageConsumed", "MessageDelivered", "NoConsumer"]
    if release_of(lab).supports("policyEntry", "advisoryForDispatched"):
        kinds.append("MessageDispatched")
    wanted = [f"{kind}.Queue.told" for kind in kinds]
    wait_until(
        lambda: min(told(lab, *wanted).values()) >= 1, "all are told", seen=lambda: told(lab, *wanted), patience=60
    )
    others = [f"{kind}.Queue.untold" for kind in kinds]
    assert set(told(lab, *others).values()) == {0}


def test_a_full_queue_is_told(lab: Lab, client: Client) -> None:
    taken, why = fill(client, "/queue/told", "x" * 10_000)
    assert taken < 20
    assert "memory" in why.lower()
    assert told(lab, "FULL.Queue.told")["FULL.Queue.told"] >= 1


def test_the_sizes_of_a_policy_are_those_of_its_queue(lab: Lab, client: Client) -> None:
    client.send("/queue/sized", "x")
    found = destinations(lab, HOST)["sized"]
    wanted = {
        "MaxPageSize": 77, "MaxAuditDepth": 78, "MaxProducersToAudit": 79,
        "BlockedProducerWarningInterval": 81, "UseCache": False, "ProducerFlowControl": False,
        "AlwaysRetroactive": True,
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted


def test_messages_that_are_not_stored_go_to_disk_until_its_limit(lab: Lab, client: Client) -> None:
    usage = read_usage(running(lab, HOST), 30)
    assert usage["temp"]["limit"] == 40 << 20
    taken, why = fill(client, "/queue/spilled", "x" * 500_000, persistent="false")
    assert 50 < taken < 120
    assert "temp" in why.lower()


def test_a_slow_consumer_keeps_a_multiple_of_its_prefetch_and_what_it_loses_is_told(lab: Lab, client: Client) -> None:
    # Without a receipt: with one its prefetch is 0 when the limit is reckoned from it.
    client.listen("/topic/rate", **{"activemq.prefetchSize": "2"})
    wait_until(
        lambda: destinations(lab, HOST, "Topic").get("rate", {}).get("ConsumerCount") == 1,
        "it has subscribed",
        patience=30,
    )
    for number in range(20):
        client.send("/topic/rate", str(number))
    assert client.bodies(20, timeout=2) == ["0", "1", "16", "17", "18", "19"]
    wanted = ("MessageDiscarded.Topic.rate", "SlowConsumer.Topic.rate")
    assert min(told(lab, *wanted).values()) >= 1


def test_a_slow_consumer_keeps_what_the_eviction_strategy_prefers(client: Client) -> None:
    client.follow("/topic/least", **{"activemq.prefetchSize": "1"})
    for priority in ("9", "1", "8", "2", "7", "3", "6"):
        client.send("/topic/least", priority, {"priority": priority})
    kept = client.bodies(7, timeout=1)
    assert {"8", "7", "6"} <= set(kept)
    assert not {"1", "2"} & set(kept)


def test_a_slow_consumer_keeps_the_newest_message_of_each_value_of_a_property(client: Client) -> None:
    client.follow("/topic/unique", **{"activemq.prefetchSize": "1"})
    for number in range(12):
        symbol = "ABC"[number % 3]
        client.send("/topic/unique", f"{symbol}{number}", {"symbol": symbol})
    kept = client.bodies(12, timeout=1)
    assert len(kept) < 12
    assert kept[-1] == "C11"


@pytest.mark.parametrize(
    ("topic", "element", "wanted"),
    [
        ("last", "lastImageSubscriptionRecoveryPolicy", ["4"]),
        ("bytes", "fixedSizedSubscriptionRecoveryPolicy", None),
        ("timed", "timedSubscriptionRecoveryPolicy", ["0", "1", "2", "3", "4"]),
        ("kept", "retainedMessageSubscriptionRecoveryPolicy", ["3"]),
        ("unkept", "noSubscriptionRecoveryPolicy", []),
    ],
)
def test_a_late_subscriber_gets_what_the_recovery_policy_keeps(
    lab: Lab, client: Client, topic: str, element: str, wanted: list[str] | None
) -> None:
    needs(lab, element)
    for number in range(5):
        retain = {"ActiveMQ.Retain": "true"} if (topic, number) == ("kept", 3) else {}
        client.send(f"/topic/{topic}", str(number), retain)
    client.follow(f"/topic/{topic}")
    got = client.bodies(5, timeout=1)
    assert got == wanted if wanted is not None else 0 < len(got) <= 5


def test_a_message_for_one_client_of_a_topic_comes_to_that_one(lab: Lab) -> None:
    needs(lab, "clientIdFilterDispatchPolicy")
    with another(lab, "ann-1") as one, another(lab, "ann-2") as other:
        for client in (one, other):
            client.follow("/topic/one.direct")
        one.send("/topic/one.direct", "to two", {"for": "ann-2"})
        assert other.bodies(1) == ["to two"]
        assert one.bodies(1, timeout=1) == []


@pytest.mark.parametrize("topic", ORDERS)
def test_every_subscriber_gets_all_whatever_the_order_of_dispatch(lab: Lab, client: Client, topic: str) -> None:
    client.follow(f"/topic/{topic}")
    with another(lab) as second:
        second.follow(f"/topic/{topic}")
        for number in range(3):
            second.send(f"/topic/{topic}", str(number))
        assert second.bodies(3) == ["0", "1", "2"]
    assert client.bodies(3) == ["0", "1", "2"]


def test_a_composite_topic_forwards_and_keeps(client: Client) -> None:
    for name in ("/topic/every", "/queue/first", "/topic/second"):
        client.follow(name)
    client.send("/topic/every", "x")
    assert client.bodies(3) == ["x"] * 3


def test_consumers_of_a_virtual_topic_are_named_by_its_postfix(client: Client) -> None:
    client.follow("/queue/of.by.x.me")
    client.send("/topic/by.x", "x")
    assert client.bodies(1) == ["x"]


def test_the_store_has_a_limit_in_percent(lab: Lab) -> None:
    assert read_usage(running(lab, HOST), 30)["store"]["limit"] == 200 << 20


def test_the_scheduler_has_a_limit(lab: Lab, client: Client) -> None:
    if release_of(lab).text == "5.8.0":
        pytest.skip("5.8.0 has the limit and does not look at it")
    # A broker that is not told to refuse waits for space.
    taken, why = fill(client, "/queue/later", "x" * 100_000, AMQ_SCHEDULED_DELAY="3600000")
    assert taken < 200
    assert "did not answer" in why


def test_files_of_the_store_that_are_done_with_go_to_the_archive(lab: Lab, client: Client, tmp_path: Path) -> None:
    for _ in range(2):
        for _ in range(8):
            client.send("/queue/through", "x" * 300_000)
        client.follow("/queue/through")
        assert len(client.bodies(8)) == 8
        client.close()
        client = another(lab)
    client.close()
    settings = lab.fleet.broker(HOST).settings.kahadb
    assert settings is not None
    archive = Path(str(settings.directory_archive))
    wait_until(lambda: any(archive.glob("db-*.log")), "files are archived", patience=60)
    store = lab.log(HOST).parent / "kahadb"
    assert not (store / "db.redo").exists()
    if release_of(lab).supports("kahaDB", "preallocationStrategy"):
        newest = max(store.glob("db-*.log"), key=lambda file: int(file.stem[3:]))
        assert newest.stat().st_blocks * 512 >= 1 << 20


def test_messages_expire_no_later_than_the_ceiling(client: Client) -> None:
    client.follow("/queue/stamped")
    for headers in ({}, {"expires": str(int((time.time() + 3600) * 1000))}):
        client.send("/queue/stamped", "x", headers)
        message = client.receive(5)
        assert message is not None
        assert int(message.headers["expires"]) - time.time() * 1000 < 61_000
        client.answer(message)


def test_destinations_are_drawn(lab: Lab, client: Client) -> None:
    client.send("/queue/drawn", "x")
    picture = lab.log(HOST).parent / "destinations.dot"
    wait_until(lambda: "drawn" in picture.read_text(), "the picture is written", patience=30)


def test_a_virtual_topic_keeps_for_a_consumer_that_is_away_only_what_it_selects(lab: Lab, client: Client) -> None:
    with another(lab) as away:
        away.follow("/queue/Consumer.me.VirtualTopic.z", selector="colour = 'red'")
    for colour in ("red", "blue"):
        client.send("/topic/VirtualTopic.z", colour, {"colour": colour})
    client.follow("/queue/Consumer.me.VirtualTopic.z")
    assert client.bodies(2, timeout=2) == ["red"]


def test_beans_of_an_import_live_until_a_hook_for_the_brokers_end_closes_their_context(lab: Lab) -> None:
    """The last one: it stops the broker."""
    sign = lab.directory.parent / "sign"
    assert sign.exists()
    lab.stop(HOST)
    assert not sign.exists()
