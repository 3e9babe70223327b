"""Tests of the fleet rules about stores beyond their examples."""

from __future__ import annotations

from typing import Any

from activemq_fleet.findings import Finding
from activemq_fleet.lint import fleet_findings
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Fleet, build_fleet
from tests.unit.fleets import fleet, hosts

JDBC = {"url": "jdbc:postgresql://db/one", "driver": "org.postgresql.Driver", "username": "amq", "password": "hidden"}
NODES = ("orders-mq01-a.example.com", "orders-mq01-b.example.com")


def findings_of_rule(rule: str, built_fleet: Fleet) -> list[Finding]:
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in built_fleet.brokers}
    return [finding for finding in fleet_findings(built_fleet, documents) if finding.rule == rule]


def mixed_pair(first: str, second: str, **variables: Any) -> Fleet:
    inventory = hosts("orders-mq01", **variables)
    inventory[NODES[0]]["activemq_release"], inventory[NODES[1]]["activemq_release"] = first, second
    return build_fleet(inventory, {})


def test_patch_releases_of_same_line_in_pair_are_warning() -> None:
    assert [
        (finding.host, finding.severity) for finding in findings_of_rule("V018", mixed_pair("5.18.3", "5.18.6"))
    ] == [(NODES[1], "warning")]


def test_patch_releases_of_line_5_4_with_different_stores_are_error() -> None:
    assert [finding.severity for finding in findings_of_rule("V018", mixed_pair("5.4.0", "5.4.2"))] == ["error"]


def test_pair_of_two_release_lines_is_reported_as_t004_only() -> None:
    built_fleet = mixed_pair("5.17.6", "5.18.3")
    assert findings_of_rule("V018", built_fleet) == []
    assert "T004" in {finding.rule for finding in built_fleet.findings}


def test_single_brokers_may_have_different_releases() -> None:
    assert findings_of_rule("V018", mixed_pair("5.18.3", "5.18.6", ha="none")) == []


def test_pairs_that_share_database_are_reported() -> None:
    built_fleet = fleet("orders-mq01", "orders-mq02", ha="shared-jdbc", jdbc=JDBC)
    assert [finding.host for finding in findings_of_rule("L017", built_fleet)] == ["orders-mq02-a.example.com"]


def test_pairs_with_different_database_users_are_not_reported() -> None:
    inventory = hosts("orders-mq01", "orders-mq02", ha="shared-jdbc", jdbc=JDBC)
    for host in inventory:
        if "mq02" in host:
            inventory[host]["activemq_jdbc"] = JDBC | {"username": "other"}
    assert findings_of_rule("L017", build_fleet(inventory, {})) == []


def test_same_store_path_on_different_machines_is_not_reported() -> None:
    assert (
        findings_of_rule("L017", fleet("orders-mq01", "orders-mq02", ha="none", store_directory="/data/kahadb")) == []
    )


def test_same_store_path_of_two_brokers_on_machine_is_reported() -> None:
    built_fleet = fleet("orders-mq01", ha="none", store_directory="/data/kahadb", address="box.example.com")
    assert [finding.host for finding in findings_of_rule("L017", built_fleet)] == [NODES[1]]


def test_lease_holder_with_host_placeholder_is_not_reported() -> None:
    fragment = {
        "parent": "broker/persistenceAdapter/jdbcPersistenceAdapter/locker",
        "xml": '<lease-database-locker leaseHolderId="${host.name}"/>',
    }
    assert findings_of_rule("L010", fleet("orders-mq01", ha="shared-jdbc", jdbc=JDBC, xml_fragments=[fragment])) == []


def test_local_store_of_shared_pair_is_reported_for_each_node() -> None:
    built_fleet = fleet("orders-mq01", store_directory="/var/lib/activemq/activemq/data/kahadb")
    assert [finding.host for finding in findings_of_rule("L016", built_fleet)] == list(NODES)


def test_different_store_directories_of_pair_are_reported_as_t009_only() -> None:
    inventory = hosts("orders-mq01")
    inventory[NODES[0]]["activemq_store_directory"] = "/srv/one"
    built_fleet = build_fleet(inventory, {})
    assert findings_of_rule("L016", built_fleet) == []
    assert "T009" in {finding.rule for finding in built_fleet.findings}
