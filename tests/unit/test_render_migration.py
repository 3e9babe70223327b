"""The link through which new pairs drain old pairs, as rendered for the new pairs."""

from __future__ import annotations

import pytest
from lxml import etree

from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.topology import Fleet, build_fleet
from tests.unit.fleets import hosts

CORE = {"c": "http://activemq.apache.org/schema/core"}
OLD, NEW = "old-mq01-a.example.com", "new-mq01-a.example.com"
REPEATED_FILTER = "ActiveMQ.Advisory.Consumer.>,ActiveMQ.Advisory.Consumer.>"


def fleet_with_old_and_new_pair(release: str, *, duplex: bool = True) -> Fleet:
    """Return a fleet of a pure pair of ``release`` and a new pair with a link to it."""
    links = [{"from": "new", "to": "old", "duplex": duplex}]
    old_hosts = hosts("old-mq01", release=release, ha="pure", links=links)
    return build_fleet(old_hosts | hosts("new-mq01", release="6.3.1", links=links), {})


def migration_link(fleet: Fleet, host: str = NEW) -> dict[str, str]:
    connectors = etree.fromstring(render_activemq_xml_bytes(fleet.broker(host))).findall(".//c:networkConnector", CORE)
    return {str(name): str(value) for name, value in connectors[-1].items()}


def test_new_pair_connects_to_old_master_and_not_to_its_slave() -> None:
    uri = migration_link(fleet_with_old_and_new_pair("5.5.1"))["uri"]

    assert OLD in uri
    assert OLD.replace("-a.", "-b.") not in uri


@pytest.mark.parametrize(("release", "destination_filter"), [("5.5.1", REPEATED_FILTER), ("5.7.0", None)])
def test_migration_link_repeats_filter_only_for_release_that_prefixes_it(
    release: str, destination_filter: str | None
) -> None:
    assert migration_link(fleet_with_old_and_new_pair(release)).get("destinationFilter") == destination_filter


def test_migration_link_without_duplex_has_no_destination_filter() -> None:
    assert "destinationFilter" not in migration_link(fleet_with_old_and_new_pair("5.5.1", duplex=False))


def test_migration_link_does_not_change_configuration_of_old_broker() -> None:
    old_fleet = build_fleet(hosts("old-mq01", release="5.5.1", ha="pure"), {})

    assert render_activemq_xml_bytes(fleet_with_old_and_new_pair("5.5.1").broker(OLD)) == render_activemq_xml_bytes(
        old_fleet.broker(OLD)
    )
