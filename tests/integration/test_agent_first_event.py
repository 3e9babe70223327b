"""A pair fails over before the first event: an earlier subscription receives the events that are published later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from activemq_fleet.agent_topics import CANARY
from tests.integration.agents import Agent, account_of, sockets, write_fleet
from tests.integration.conftest import LabOf
from tests.integration.labs import pair
from tests.integration.waiting import PATIENCE, until
from tests.mqtt_clients import MqttPublisher, MqttSubscriber
from tests.situations import further, in_every_situation

__all__ = ["sockets"]  # the fixture

HOST = "ledger01.example.com"
EVENTS = [f"first-{number}" for number in range(20)]


@in_every_situation
@pytest.mark.parametrize("release", [*further("5.18.3"), "6.3.1"])
def test_subscription_survives_kill_of_broker_before_first_event(
    lab_of: LabOf, tmp_path: Path, sockets: Path, release: str
) -> None:
    """A broker stores a subscription together with a topic, and no topic matches the filter yet."""
    fleet = write_fleet(
        tmp_path / "inventory", sockets, pair("orders"), {HOST: {"topics": ["events/#"]}}, release=release
    )
    lab = lab_of([fleet])
    lab.up()
    active = lab.wait_active("orders-mq01")
    account = account_of(lab.client_fleet.agents[0])
    addresses = lab.addresses("orders-mq01", "mqtt")
    with Agent(lab, HOST) as agent:
        with MqttSubscriber(addresses, [f"events/{CANARY}/#"], account, client_id="observer") as observer:
            agent.wait_subscribed()
            until(lambda: bool(observer.received), PATIENCE, lambda: f"a topic exists: {agent.log_tail}")
        agent.kill()
        lab.kill(active)
        lab.wait_active("orders-mq01")
        with MqttPublisher(addresses, account) as publisher:
            for name in EVENTS:
                publisher.publish("events/shop/OrderEvent", json.dumps({"eventId": name}))
        agent.start()
        until(
            lambda: set(EVENTS) <= set(agent.journal.ids("handled")),
            PATIENCE,
            lambda: f"the events before the agent's start are handled: {agent.journal.ids('handled')} {agent.log_tail}",
        )
