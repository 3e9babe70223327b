"""Tests of limits, virtual destinations, plugins and imports that are not in ``test_broker_settings.py``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.lab.lab import Lab
from activemq_fleet.node.probe.broker_usage import read_broker_jmx_statistics
from tests.integration.setting_clients import (
    HOST,
    Client,
    broker_process,
    broker_with,
    connect_client,
    fill,
    release_of,
)
from tests.situations import further, in_every_situation
from tests.waiting import wait_until

VARIABLES: dict[str, Any] = {
    "destination_policies": [
        {
            "destination": "spilled",
            "kind": "queue",
            "memory_limit": "1 mb",
            "pending_queue_policy": "file",
            "cursor_memory_high_water_mark": 50,
        },
    ],
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
    "plugins": {
        "timestamp": {"ttl_ceiling": 60_000, "zero_expiration_override": 120_000},
        "destination_dot": True,
        "virtual_selector_cache": True,
    },
    "imports": ["beans.xml"],
    "shutdown_hooks": ["org.apache.activemq.hooks.SpringContextHook"],
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
"""Beans that create a file with Spring's context, and delete it when the context is closed."""


@pytest.fixture(scope="module", params=["6.3.1", *further("5.8.0", "5.18.3")])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory: Path = tmp_path_factory.mktemp("usage")
    beans = [{"path": "conf/beans.xml", "content": BEANS % (directory / "sign")}]
    variables = {**VARIABLES, "extra_files": beans}
    if request.param == "5.8.0":
        variables["usage"] = {**VARIABLES["usage"], "store": "200 mb", "temp": "40 mb"}
    with broker_with(directory, request.param, **variables) as lab:
        yield lab


@pytest.fixture
def client(lab: Lab) -> Iterator[Client]:
    with connect_client(lab) as client:
        yield client


@in_every_situation
def test_composite_topic_forwards_and_keeps_messages(client: Client) -> None:
    for name in ("/topic/every", "/queue/first", "/topic/second"):
        client.follow(name)
    client.send("/topic/every", "x")
    assert client.bodies(3) == ["x"] * 3


def test_virtual_topic_uses_configured_prefix_and_postfix(client: Client) -> None:
    client.follow("/queue/of.by.x.me")
    client.send("/topic/by.x", "x")
    assert client.bodies(1) == ["x"]


def test_nonpersistent_messages_use_disk_up_to_temp_limit(lab: Lab, client: Client) -> None:
    usage = read_broker_jmx_statistics(broker_process(lab, HOST), 30)
    assert usage["temp"]["limit"] == 40 << 20
    accepted, error = fill(client, "/queue/spilled", "x" * 500_000, persistent="false")
    assert 50 < accepted < 120
    assert "temp" in error.lower()


def test_message_store_has_limit_in_percent_of_disk(lab: Lab) -> None:
    assert read_broker_jmx_statistics(broker_process(lab, HOST), 30)["store"]["limit"] == 200 << 20


@in_every_situation
def test_broker_refuses_delayed_messages_above_limit_of_scheduler(lab: Lab, client: Client) -> None:
    if release_of(lab).text == "5.8.0":
        pytest.skip("5.8.0 accepts the limit and does not enforce it")
    # A broker without the setting to refuse messages waits for space.
    accepted, error = fill(client, "/queue/later", "x" * 100_000, AMQ_SCHEDULED_DELAY="3600000")
    assert accepted < 200
    assert "before the timeout" in error


def test_messages_expire_no_later_than_ceiling_of_timestamp_plugin(client: Client) -> None:
    client.follow("/queue/stamped")
    for headers in ({}, {"expires": str(int((time.time() + 3600) * 1000))}):
        client.send("/queue/stamped", "x", headers)
        message = client.receive(5)
        assert message is not None
        assert int(message.headers["expires"]) - int(message.headers["timestamp"]) <= 60_000
        client.answer(message)


def test_dot_plugin_draws_destinations(lab: Lab, client: Client) -> None:
    client.send("/queue/drawn", "x")
    picture = lab.log(HOST).parent / "destinations.dot"
    wait_until(lambda: "drawn" in picture.read_text(), "the picture is written", patience=30)


def test_virtual_topic_keeps_only_selected_messages_for_absent_consumer(lab: Lab, client: Client) -> None:
    with connect_client(lab) as absent:
        absent.follow("/queue/Consumer.me.VirtualTopic.z", selector="colour = 'red'")
    for colour in ("red", "blue"):
        client.send("/topic/VirtualTopic.z", colour, {"colour": colour})
    client.follow("/queue/Consumer.me.VirtualTopic.z")
    assert client.bodies(2, timeout=2) == ["red"]


def test_beans_of_imported_file_live_until_shutdown_hook_closes_their_context(lab: Lab) -> None:
    """This test is the last one, because it stops the broker."""
    sign = lab.directory.parent / "sign"
    assert sign.exists()
    lab.stop(HOST)
    assert not sign.exists()
