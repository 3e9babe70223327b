"""Adopted multicast links keep their TTL, direction and attributes, and static links get none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.adopt.addition_advice import advice_on_addition
from activemq_fleet.adopt.xml_diff import XmlDifference
from activemq_fleet.network.connectors import NetworkConnector, parse_network_connector
from activemq_fleet.topology import build_fleet
from tests.support.foreign_files import adopt_and_compare
from tests.unit.adopt_files import CORE, document, parse_without_comments, render_adopted_inventory

ANNOUNCED = (
    "<transportConnectors><transportConnector name='openwire' uri='nio://0.0.0.0:61616' "
    "discoveryUri='multicast://default?group=o'/></transportConnectors>"
)
MULTICAST = "<networkConnector name='net' uri='multicast://default?group=o'{}/>"
REPLICATION_SLAVE = "<services><masterConnector remoteURI='tcp://{}:61616'/></services>"


def adopted_connectors(
    tmp_path: Path, files: dict[str, bytes], release: str
) -> tuple[dict[tuple[str, str], NetworkConnector], str]:
    """Return the networkConnectors that the adopted inventory renders, by (host, name), and its files as one text."""
    adoption = adopt_and_compare(tmp_path, files, release)
    rendered = render_adopted_inventory(tmp_path, adoption)
    connectors = {}
    for host in files:
        root = parse_without_comments(rendered[f"hosts/{host}/conf/activemq.xml"])
        for element in root.iter(f"{{{CORE}}}networkConnector"):
            connector = parse_network_connector(element)
            connectors[host, connector.name] = connector
    return connectors, b"".join(adoption.files.values()).decode()


def multicast_brokers(attributes: str, *links: str) -> dict[str, bytes]:
    """Return the files of two brokers that discover each other, where ``links`` are their other networkConnectors."""
    connectors = f"<networkConnectors>{MULTICAST.format(attributes)}{''.join(links)}</networkConnectors>"
    return {host: document(connectors + ANNOUNCED, brokerName=host) for host in ("o-mq01-a", "o-mq02-a")}


@pytest.mark.parametrize(
    ("attributes", "ttls", "variable"),
    [
        ("", (1, 1), "activemq_network_ttl: 1"),
        (" networkTTL='3'", (3, 3), None),
        (" networkTTL='-1'", (-1, -1), "activemq_network_ttl: -1"),
        (" consumerTTL='1' messageTTL='-1'", (1, -1), "activemq_network_ttl: {consumer: 1, message: -1}"),
        (" messageTTL='4'", (1, 4), "activemq_network_ttl: {consumer: 1, message: 4}"),
        (" networkTTL='2' consumerTTL='1' messageTTL='-1'", (2, 2), "activemq_network_ttl: 2"),
        (" networkTTL='0'", (0, 0), None),
        (" consumerTTL='0' messageTTL='5'", (0, 5), None),
        (" consumerTTL='${ttl}' messageTTL='5'", (None, 5), None),
    ],
)
def test_adopted_multicast_link_keeps_its_network_ttls(
    attributes: str, ttls: tuple[int | None, int], variable: str | None, tmp_path: Path
) -> None:
    connectors, inventory = adopted_connectors(tmp_path, multicast_brokers(attributes), "5.18.3")

    assert {(c.consumer_ttl, c.message_ttl) for c in connectors.values()} == {ttls}
    lines = [line for line in inventory.splitlines() if line.startswith("activemq_network_ttl")]
    assert lines == ([] if variable is None else [variable])


def test_attributes_of_adopted_multicast_link_are_not_added_to_static_links(tmp_path: Path) -> None:
    static = (
        "<networkConnector name='up' uri='static:(tcp://hub-mq01-a:61616)' prefetchSize='5'/>",
        "<networkConnector name='down' uri='static:(tcp://hub-mq01-a:61616)' prefetchSize='5' dynamicOnly='true'/>",
    )
    files = multicast_brokers(" conduitSubscriptions='false' prefetchSize='5' dynamicOnly='true'", *static)
    connectors, inventory = adopted_connectors(
        tmp_path, files | {"hub-mq01-a": document(ANNOUNCED, brokerName="hub")}, "5.18.3"
    )

    expected: dict[str, tuple[Any, ...]] = {
        "net": ("false", "5", "true"),
        "up": (None, "5", None),
        "down": (None, "5", "true"),
    }
    assert len(connectors) == 6
    for (host, name), connector in connectors.items():
        values = tuple(connector.attributes.get(n) for n in ("conduitSubscriptions", "prefetchSize", "dynamicOnly"))
        assert values == expected[name], (host, name)
    assert "activemq_discovery: multicast" in inventory


@pytest.mark.parametrize(
    ("attributes", "is_duplex"), [("", False), (" duplex='false'", False), (" duplex='true'", True)]
)
def test_adopted_multicast_link_of_pure_master_keeps_its_direction(
    attributes: str, is_duplex: bool, tmp_path: Path
) -> None:
    connectors_xml = f"<networkConnectors>{MULTICAST.format(attributes)}</networkConnectors>"
    files = {}
    for pair in ("o-mq01", "o-mq02"):
        files[f"{pair}-a"] = document(connectors_xml + ANNOUNCED, brokerName=pair, waitForSlave="true")
        slave = f"{connectors_xml}{REPLICATION_SLAVE.format(f'{pair}-a')}{ANNOUNCED}"
        files[f"{pair}-b"] = document(slave, brokerName=pair)
    connectors, _ = adopted_connectors(tmp_path, files, "5.5.1")

    assert {key: connector.duplex for key, connector in connectors.items()} == dict.fromkeys(
        ((host, "net") for host in files), is_duplex
    )


@pytest.mark.parametrize(
    ("name", "value", "effect"),
    [
        ("duplex", "false", None),
        ("networkTTL", "1", None),
        ("messageTTL", "1", None),
        ("duplex", "true", "the bridge has an attribute that the original bridge does not have"),
        ("networkTTL", "10", "the bridge has an attribute that the original bridge does not have"),
        ("messageTTL", "-1", "the bridge has an attribute that the original bridge does not have"),
        ("conduitSubscriptions", "false", "the bridge has an attribute that the original bridge does not have"),
        ("userName", "network", "the bridge logs in to the remote broker"),
    ],
)
def test_added_attribute_of_bridge_has_no_effect_only_with_default_value(
    name: str, value: str, effect: str | None
) -> None:
    broker = build_fleet({"o-mq01-a": {"activemq_release": "5.18.3", "activemq_ha": "none"}}, {}).broker("o-mq01-a")
    path = f"beans/broker/networkConnectors/networkConnector[@name='net']/@{name}"
    advice = advice_on_addition(XmlDifference("o-mq01-a", path, "rendered adds", None, value), broker)

    assert advice.effect == effect
    assert ("default value" in advice.reason) is (effect is None)
