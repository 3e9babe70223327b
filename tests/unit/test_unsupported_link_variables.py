"""The rule T011 for variables of links: it reports only those that a link of the broker uses."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.topology import build_fleet
from tests.unit.fleets import hosts


def hosts_and_messages_of_t011(inventory: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the first label of the host name, and the message, of each finding of T011."""
    findings = build_fleet(inventory).findings
    return [(finding.host.partition(".")[0], finding.message) for finding in findings if finding.rule == "T011"]


def test_t011_attribute_of_link_that_only_target_defines_is_reported_on_source() -> None:
    inventory = hosts("o-mq1", "o-mq2", topology="none", ha="none", nodes="a")
    inventory["o-mq1-a.example.com"]["activemq_release"] = "5.5.1"
    inventory["o-mq2-a.example.com"]["activemq_links"] = [
        {"from": "o-mq1", "to": "o-mq2", "attributes": {"checkDuplicateMessagesOnDuplex": True}}
    ]

    [(host, message)] = hosts_and_messages_of_t011(inventory)
    assert host == "o-mq1-a"
    assert message.startswith(
        "activemq_links[0].attributes of o-mq2-a.example.com sets checkDuplicateMessagesOnDuplex, but release 5.5.1"
    )


@pytest.mark.parametrize(
    "variables",
    [
        {"network_ttl": -1},
        {"network_ttl": {"consumer": 1, "message": 3}},
        {"network_attributes": {"checkDuplicateMessagesOnDuplex": True}},
        {"discovery": "masterslave"},
    ],
)
def test_t011_variable_of_links_is_reported_only_on_broker_with_links(variables: dict[str, Any]) -> None:
    without_links = hosts("o-mq1", release="5.5.1", ha="none", nodes="a", **variables)
    assert build_fleet(without_links).findings == ()

    with_links = hosts("o-mq1", "o-mq2", release="5.5.1", store_directory="/srv", ha="shared-file", **variables)
    findings = hosts_and_messages_of_t011(with_links)
    assert [host for host, _ in findings] == ["o-mq1-a", "o-mq1-b", "o-mq2-a", "o-mq2-b"]
    assert findings[0][1].startswith(f"activemq_{next(iter(variables))} ")


def test_t011_network_ttl_is_not_reported_if_each_link_has_separate_ttl() -> None:
    links = [{"from": "o-mq1", "to": "o-mq2", "ttl": 1}, {"from": "o-mq2", "to": "o-mq1"}]
    variables: dict[str, Any] = {"release": "5.5.1", "topology": "none", "network_ttl": -1}
    inventory = hosts("o-mq1", "o-mq2", ha="none", nodes="a", links=links, **variables)

    [(host, message)] = hosts_and_messages_of_t011(inventory)
    assert host == "o-mq2-a"
    assert message.startswith("activemq_network_ttl is -1")


def test_t011_network_ttl_is_not_reported_for_link_inside_pair() -> None:
    variables: dict[str, Any] = {"release": "5.5.1", "network_ttl": -1, "store_directory": "/srv"}
    inventory = hosts("o-mq1", ha="shared-file", pair_links="static", **variables)

    assert hosts_and_messages_of_t011(inventory) == []


def test_t011_network_ttl_is_reported_for_multicast_links() -> None:
    multicast: dict[str, Any] = {"discovery": "multicast", "topology": "none", "network_ttl": -1}
    inventory = hosts("o-mq1", release="5.5.1", ha="none", nodes="a", **multicast)

    assert [host for host, _ in hosts_and_messages_of_t011(inventory)] == ["o-mq1-a"]
