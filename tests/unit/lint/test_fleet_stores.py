"""What the examples of the fleet rules about stores do not show."""

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


def told(rule: str, some: Fleet) -> list[Finding]:
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in some.brokers}
    return [finding for finding in fleet_findings(some, documents) if finding.rule == rule]


def two_releases(one: str, other: str, **variables: Any) -> Fleet:
    inventory = hosts("orders-mq01", **variables)
    inventory[NODES[0]]["activemq_release"], inventory[NODES[1]]["activemq_release"] = one, other
    return build_fleet(inventory, {})


def test_patches_of_a_line_read_one_store() -> None:
    assert [(problem.host, problem.severity) for problem in told("V018", two_releases("5.18.3", "5.18.6"))] == [
        (NODES[1], "warning")
    ]


def test_the_store_changed_inside_line_5_4() -> None:
    assert [problem.severity for problem in told("V018", two_releases("5.4.0", "5.4.2"))] == ["error"]


def test_two_lines_in_a_pair_are_told_by_the_topology() -> None:
    some = two_releases("5.17.6", "5.18.3")
    assert told("V018", some) == []
    assert "T004" in {finding.rule for finding in some.findings}


def test_single_nodes_may_run_what_they_like() -> None:
    assert told("V018", two_releases("5.18.3", "5.18.6", ha="none")) == []


def test_pairs_of_one_database_wait_for_each_other() -> None:
    some = fleet("orders-mq01", "orders-mq02", ha="shared-jdbc", jdbc=JDBC)
    assert [problem.host for problem in told("L017", some)] == ["orders-mq02-a.example.com"]


def test_schemas_of_one_database_are_stores_of_their_own() -> None:
    inventory = hosts("orders-mq01", "orders-mq02", ha="shared-jdbc", jdbc=JDBC)
    for host in inventory:
        if "mq02" in host:
            inventory[host]["activemq_jdbc"] = JDBC | {"username": "other"}
    assert told("L017", build_fleet(inventory, {})) == []


def test_single_brokers_have_their_stores_at_one_path_on_machines_of_their_own() -> None:
    assert told("L017", fleet("orders-mq01", "orders-mq02", ha="none", store_directory="/data/kahadb")) == []


def test_two_brokers_of_one_machine_may_not_have_one_store() -> None:
    some = fleet("orders-mq01", ha="none", store_directory="/data/kahadb", address="box.example.com")
    assert [problem.host for problem in told("L017", some)] == [NODES[1]]


def test_a_lease_named_by_a_variable_of_the_host_is_not_judged() -> None:
    fragment = {
        "parent": "broker/persistenceAdapter/jdbcPersistenceAdapter/locker",
        "xml": '<lease-database-locker leaseHolderId="${host.name}"/>',
    }
    assert told("L010", fleet("orders-mq01", ha="shared-jdbc", jdbc=JDBC, xml_fragments=[fragment])) == []


def test_each_node_that_keeps_the_store_to_itself_is_named() -> None:
    some = fleet("orders-mq01", store_directory="/var/lib/activemq/activemq/data/kahadb")
    assert [problem.host for problem in told("L016", some)] == list(NODES)


def test_two_directories_in_the_variables_are_told_by_the_topology() -> None:
    inventory = hosts("orders-mq01")
    inventory[NODES[0]]["activemq_store_directory"] = "/srv/one"
    some = build_fleet(inventory, {})
    assert told("L016", some) == []
    assert "T009" in {finding.rule for finding in some.findings}
