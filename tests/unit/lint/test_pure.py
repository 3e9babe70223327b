"""What the examples of the P rules do not show."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings, fleet_findings
from activemq_fleet.releases import Release
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Fleet, build_fleet
from tests.rule_examples import complete
from tests.unit.fleets import fleet, hosts

MASTER = "orders-mq01-a.example.com"
SLAVE = "orders-mq01-b.example.com"


def found(rule: str, snippet: str, release: str = "5.5.1") -> list[Finding]:
    known = Release.of(release)
    return [finding for finding in file_findings(complete(snippet, known), known) if finding.rule == rule]


def of_fleet(rule: str, some: Fleet) -> list[Finding]:
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in some.brokers}
    return [finding for finding in fleet_findings(some, documents) if finding.rule == rule]


def pure(*pairs: str, **of_slave: Any) -> Fleet:
    """A pure fleet of 5.5.1; the first pair's slave has variables of its own."""
    inventory = hosts(*pairs, release="5.5.1", ha="pure")
    inventory[SLAVE] |= {f"activemq_{name}": value for name, value in of_slave.items()}
    return build_fleet(inventory, {})


@pytest.mark.parametrize(
    ("options", "release", "fires"),
    [
        ("", "5.5.1", True),
        ("?maxReconnectAttempts=0", "5.5.1", True),
        ("?maxReconnectAttempts=1", "5.5.1", False),
        ("?maxReconnectAttempts=0", "5.7.0", False),
        ("?maxReconnectAttempts=-1", "5.7.0", True),
        ("?randomize=false", "5.7.0", True),
        ("?maxReconnectAttempts=${attempts}", "5.5.1", False),
    ],
)
def test_a_failover_uri_must_end_in_the_way_of_its_release(options: str, release: str, fires: bool) -> None:
    snippet = f'<masterConnector remoteURI="failover:(nio://a:61618){options}"/>'
    assert bool(found("P001", snippet, release)) is fires


def test_an_option_of_the_inner_uri_does_not_end_failover() -> None:
    assert found("P001", '<masterConnector remoteURI="failover:(nio://a:61618?maxReconnectAttempts=1)"/>')


def test_the_attribute_of_the_broker_is_looked_at_too() -> None:
    problem = found("P001", '<broker masterConnectorURI="failover:(tcp://a:61616)"/>')[0]
    document = complete('<broker masterConnectorURI="failover:(tcp://a:61616)"/>', Release.of("5.5.1"))
    assert problem.line is not None
    assert problem.column is not None
    assert document.decode().splitlines()[problem.line - 1][problem.column - 1 :].startswith("failover:(")


def test_a_slave_is_not_asked_to_wait_for_a_slave() -> None:
    snippet = '<broker shutdownOnSlaveFailure="true"/><masterConnector remoteURI="nio://a:61618"/>'
    assert found("P002", snippet) == []


def test_a_master_of_the_profile_that_is_told_not_to_wait_is_found() -> None:
    some = fleet("orders-mq01", release="5.5.1", ha="pure", broker_attributes={"waitForSlave": "false"})
    assert [problem.host for problem in of_fleet("P002", some)] == [MASTER]


def test_a_master_connector_uri_has_no_place_for_credentials() -> None:
    assert "no userName and no password" in found("P010", '<broker masterConnectorURI="tcp://a:61616"/>')[0].message


def test_a_name_without_a_password_is_half_a_login() -> None:
    assert "no password" in found("P010", '<masterConnector remoteURI="nio://a:1" userName="n"/>')[0].message


def test_a_master_that_lets_anyone_in_needs_no_login() -> None:
    plugin = '<simpleAuthenticationPlugin anonymousAccessAllowed="true"/>'
    assert found("P010", f'{plugin}<masterConnector remoteURI="nio://a:1"/>') == []


@pytest.mark.parametrize("release", ["5.5.1", "5.6.0", "5.7.0"])
def test_the_profile_makes_no_mistake_of_its_own(release: str) -> None:
    some = fleet("orders-mq01", "orders-mq02", release=release, ha="pure")
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in some.brokers}
    told = {(finding.rule, finding.severity) for finding in fleet_findings(some, documents) if finding.rule[0] in "LPV"}
    assert told == {("P009", "info")}


def test_the_hint_about_planned_stops_comes_once_a_group() -> None:
    some = fleet("orders-mq01", "orders-mq02", "stock-mq01", release="5.5.1", ha="pure")
    assert [problem.host for problem in of_fleet("P009", some)] == [MASTER, "stock-mq01-a.example.com"]


def test_a_slave_of_a_slave_is_found() -> None:
    inventory = hosts("orders-mq01", "orders-mq02", release="5.5.1", ha="pure")
    inventory[SLAVE]["activemq_xml_fragments"] = [
        {"parent": "broker/services", "xml": '<masterConnector remoteURI="nio://orders-mq02-a.example.com:61618"/>'}
    ]
    inventory["orders-mq02-a.example.com"]["activemq_xml_fragments"] = [
        {"parent": "broker/services", "xml": f'<masterConnector remoteURI="nio://{MASTER}:61618"/>'}
    ]
    messages = {problem.host: problem.message for problem in of_fleet("P005", build_fleet(inventory, {}))}
    assert "is a slave itself" in messages[SLAVE]


def test_a_second_slave_is_placed_in_its_own_file() -> None:
    fragment = {
        "parent": "broker/services",
        "xml": '<masterConnector remoteURI="nio://orders-mq02-a.example.com:61618"/>',
    }
    problem = of_fleet("P005", pure("orders-mq01", "orders-mq02", xml_fragments=[fragment]))[0]
    assert (problem.host, problem.file) == (SLAVE, "conf/activemq.xml")
    assert problem.line


def test_directories_are_no_difference_between_the_nodes() -> None:
    assert of_fleet("P008", pure("orders-mq01", store_directory="/elsewhere", xml_fragments=[NOTHING])) == []


def test_another_policy_on_one_node_is_a_difference() -> None:
    fragment = {"parent": "broker/destinationPolicy/policyMap/policyEntries", "xml": '<policyEntry queue="x"/>'}
    problems = of_fleet("P008", pure("orders-mq01", xml_fragments=[fragment]))
    assert [(problem.host, "<destinationPolicy>" in problem.message) for problem in problems] == [(SLAVE, True)]


def test_two_links_that_name_one_node_each_name_both() -> None:
    links = "".join(
        f'<networkConnector name="to-{node}" uri="static:(tcp://orders-mq01-{node}.example.com:61616)"/>'
        for node in "ab"
    )
    inventory = hosts("orders-mq01", "stock-mq01", topology="none")
    for host in ("stock-mq01-a.example.com", "stock-mq01-b.example.com"):
        inventory[host]["activemq_xml_fragments"] = [{"parent": "broker/networkConnectors", "xml": links}]
    assert of_fleet("P012", build_fleet(inventory, {})) == []


def test_a_pure_slave_without_connectors_need_not_be_named() -> None:
    link = f'<networkConnector name="to-orders" uri="static:(tcp://{MASTER}:61616)"/>'
    inventory = hosts("orders-mq01", "stock-mq01", release="5.5.1", ha="pure")
    inventory["stock-mq01-a.example.com"]["activemq_xml_fragments"] = [
        {"parent": "broker/networkConnectors", "xml": link}
    ]
    assert of_fleet("P012", build_fleet(inventory, {})) == []


NOTHING = {"parent": "broker/plugins", "xml": "<simpleAuthenticationPlugin/>"}
