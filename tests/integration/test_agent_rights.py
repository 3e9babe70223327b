"""What an agent's account may do at a broker with ACLs: all of its own work, and nothing in another agent's name."""

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
def test_an_agents_account_cannot_send_another_agents_canaries_or_barriers(
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
    own = [canary_topic("", f"{MALLORY}-check"), canary_topic("events", MALLORY), barrier_topic("own", MALLORY)]
    with ExitStack() as stack:
        agent = stack.enter_context(Agent(lab, SHOP))
        agent.wait_subscribed()
        looks_on = stack.enter_context(MqttSubscriber(addresses, ["#"], BOSS, client_id="looks-on"))
        publisher = stack.enter_context(MqttPublisher(addresses, mallory, client_id="mallorys"))
        for topic in (*forged, *own, "events/Forged"):
            publisher.publish(topic, json.dumps({"eventId": f"{SHOP}:e:1", "sent_to": topic}))
        until(
            lambda: any("events/Forged" in one for one in looks_on.received),
            PATIENCE,
            lambda: f"what is allowed arrives: {looks_on.received}",
        )
        seen = {json.loads(one)["sent_to"] for one in looks_on.received if "sent_to" in one}
        assert seen == {*own, "events/Forged"}

        with agent.client() as client:
            event = client.publish("events/OrderEvent", "{}")
        until(lambda: event in agent.journal.ids("acknowledged"), PATIENCE, lambda: f"it is proved: {agent.log_tail}")
        until(lambda: event in agent.journal.ids("handled"), PATIENCE, lambda: f"it is handled: {agent.log_tail}")
        agent.stop()
        barriers = agent.journal.ids("barrier")
        until(
            lambda: any(barrier in one for one in looks_on.received for barrier in barriers),
            PATIENCE,
            lambda: f"its own barrier arrives: {barriers}",
        )
        assert "refused" not in agent.log_tail
        assert "not proved" not in agent.log_tail
