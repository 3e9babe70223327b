"""Permissions of an agent's account at a broker with ACLs: all of its tasks, and none in the name of another agent."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from activemq_fleet.agent_topics import barrier_topic, canary_topic
from activemq_fleet.lab.stomp import Credentials
from tests.integration.agents import Agent, account_of, sockets, write_fleet
from tests.integration.conftest import LabOf
from tests.integration.labs import pair
from tests.integration.waiting import PATIENCE, until
from tests.mqtt_clients import MqttPublisher, MqttSubscriber
from tests.situations import further

__all__ = ["sockets"]  # the fixture

SHOP, MALLORY = "shop01.example.com", "mallory.example.com"
BOSS = Credentials("boss", "s3cret-boss")
ACL = [{"destination": ">", "kind": "topic", "read": "boss", "write": "boss", "admin": "boss"}]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("release", ["6.3.1", *further("5.18.3")])
def test_account_of_agent_cannot_send_canaries_or_barriers_of_another_agent(
    lab_of: LabOf, tmp_path: Path, sockets: Path, release: str
) -> None:
    fleet = write_fleet(
        tmp_path / "inventory", sockets, pair("orders"),
        {SHOP: {"topics": ["events/#"]}, MALLORY: {"topics": ["events/#", "own/+"]}},
        release=release, acl=ACL, users=[{"name": BOSS.username, "password": BOSS.password, "groups": "boss"}],
    )  # fmt: skip
    lab = lab_of([fleet])
    lab.up()
    lab.wait_active("orders-mq01")
    addresses = lab.addresses("orders-mq01", "mqtt")
    mallory = account_of(next(agent for agent in lab.client_fleet.agents if agent.host == MALLORY))
    forged = [
        canary_topic("", f"{SHOP}-publisher"), canary_topic("", f"{SHOP}-subscriber"),
        canary_topic("events", SHOP), canary_topic("events", f"{SHOP}-subscriber"), barrier_topic("events", SHOP),
    ]  # fmt: skip
    permitted = [canary_topic("", f"{MALLORY}-check"), canary_topic("events", MALLORY), barrier_topic("own", MALLORY)]
    with ExitStack() as stack:
        agent = stack.enter_context(Agent(lab, SHOP))
        agent.wait_subscribed()
        observer = stack.enter_context(MqttSubscriber(addresses, ["#"], BOSS, client_id="observer"))
        publisher = stack.enter_context(MqttPublisher(addresses, mallory, client_id="mallorys"))
        for topic in (*forged, *permitted, "events/Forged"):
            publisher.publish(topic, json.dumps({"eventId": f"{SHOP}:e:1", "sent_to": topic}))
        until(
            lambda: any("events/Forged" in payload for payload in observer.received),
            PATIENCE,
            lambda: f"the event to a permitted topic arrives: {observer.received}",
        )
        topics = {json.loads(payload)["sent_to"] for payload in observer.received if "sent_to" in payload}
        assert topics == {*permitted, "events/Forged"}

        with agent.client() as client:
            event = client.publish("events/OrderEvent", "{}")
        until(
            lambda: event in agent.journal.ids("acknowledged"),
            PATIENCE,
            lambda: f"the event is acknowledged: {agent.log_tail}",
        )
        until(
            lambda: event in agent.journal.ids("handled"), PATIENCE, lambda: f"the event is handled: {agent.log_tail}"
        )
        agent.stop()
        barriers = agent.journal.ids("barrier")
        until(
            lambda: any(barrier in payload for payload in observer.received for barrier in barriers),
            PATIENCE,
            lambda: f"a barrier of the agent arrives: {barriers}",
        )
        assert "refused" not in agent.log_tail
        assert "not proved" not in agent.log_tail
