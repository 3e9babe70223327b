"""The link by which new pairs drain old ones, as the new pairs render it."""

from __future__ import annotations

import pytest
from lxml import etree

from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.topology import Fleet, build_fleet
from tests.unit.fleets import hosts

CORE = {"c": "http://activemq.apache.org/schema/core"}
OLD, NEW = "old-mq01-a.example.com", "new-mq01-a.example.com"
TWICE = "ActiveMQ.Advisory.Consumer.>,ActiveMQ.Advisory.Consumer.>"


def fleet_with_old_and_new_pair(release: str, *, duplex: bool = True) -> Fleet:
    """A pure pair of ``release`` and a new pair with a link to it."""
    links = [{"from": "new", "to": "old", "duplex": duplex}]
    old = hosts("old-mq01", release=release, ha="pure", links=links)
    return build_fleet(old | hosts("new-mq01", release="6.3.1", links=links), {})


def link(found: Fleet, host: str = NEW) -> dict[str, str]:
    connectors = etree.fromstring(render_activemq_xml_bytes(found.broker(host))).findall(".//c:networkConnector", CORE)
    return {str(name): str(value) for name, value in connectors[-1].items()}


def test_a_new_pair_dials_the_old_master_alone_and_never_its_slave() -> None:
    uri = link(fleet_with_old_and_new_pair("5.5.1"))["uri"]

    assert OLD in uri
    assert OLD.replace("-a.", "-b.") not in uri


@pytest.mark.parametrize(("release", "said"), [("5.5.1", TWICE), ("5.7.0", None)])
def test_only_the_far_end_that_prefixes_the_filter_gets_it_twice(release: str, said: str | None) -> None:
    assert link(fleet_with_old_and_new_pair(release)).get("destinationFilter") == said


def test_a_link_that_is_not_duplex_keeps_its_filter() -> None:
    assert "destinationFilter" not in link(fleet_with_old_and_new_pair("5.5.1", duplex=False))


def test_the_old_brokers_file_stays_as_it_is() -> None:
    alone = build_fleet(hosts("old-mq01", release="5.5.1", ha="pure"), {})

    assert render_activemq_xml_bytes(fleet_with_old_and_new_pair("5.5.1").broker(OLD)) == render_activemq_xml_bytes(
        alone.broker(OLD)
    )
