"""JSON round trip of the facts of brokers, which compile writes and the operations read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from activemq_fleet.deployment import BrokerFacts, StoreFacts, broker_facts
from activemq_fleet.render import render_broker
from activemq_fleet.topology import Fleet
from tests.unit.fleets import fleet

SECRETS = {
    "users": [{"name": "till", "password": "canary-till", "groups": ["apps"]}],
    "network_password": "canary-network",
}


def linked_fleet() -> Fleet:
    variables: dict[str, Any] = {"metrics": True, "links": [{"from": "orders", "to": "stock"}], **SECRETS}
    return fleet("orders-mq01", "stock-mq01", **variables)


@pytest.mark.parametrize("document", [None, "conf/activemq.xml"])
def test_broker_facts_survive_json_unchanged(document: str | None) -> None:
    for broker in linked_fleet().brokers:
        facts = broker_facts(broker, render_broker(broker)[document] if document else None)
        assert facts.metrics is not None
        assert facts.links or broker.group == "stock"
        assert BrokerFacts.from_mapping(json.loads(json.dumps(facts.as_dict()))) == facts


def test_broker_facts_name_each_linked_host_once() -> None:
    settings: dict[str, Any] = {"links": [{"from": "orders", "to": "stock"}], "pair_links": "static"}
    broker = fleet("orders-mq01", "stock-mq01", **settings).brokers[0]
    facts = broker_facts(broker)
    peer, *targets = "orders-mq01-b.example.com", "stock-mq01-a.example.com", "stock-mq01-b.example.com"
    assert facts.address == "orders-mq01-a.example.com"
    assert sorted(facts.link_addresses) == [peer, *targets]


def test_broker_facts_contain_no_secret() -> None:
    facts_json = json.dumps([broker_facts(broker).as_dict() for broker in linked_fleet().brokers])
    assert "canary" not in facts_json


def test_broker_facts_without_required_key_are_refused() -> None:
    mapping = broker_facts(linked_fleet().brokers[0]).as_dict()
    del mapping["unit"]
    with pytest.raises(KeyError, match="unit"):
        BrokerFacts.from_mapping(mapping)


def test_broker_facts_keep_store_of_rendered_configuration() -> None:
    facts = replace(broker_facts(linked_fleet().brokers[0]), persistence=StoreFacts("mKahaDB", "/srv/x", 6, pure=False))
    assert BrokerFacts.from_mapping(facts.as_dict()).persistence == StoreFacts("mKahaDB", "/srv/x", 6, pure=False)
