"""Tests of the P rules beyond their examples."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import fleet_findings
from activemq_fleet.releases import Release
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Fleet, build_fleet
from tests.rule_examples import complete
from tests.support.rule_findings import fleet_rule_findings, rule_findings
from tests.unit.fleets import fleet, hosts

MASTER = "orders-mq01-a.example.com"
SLAVE = "orders-mq01-b.example.com"


def findings_of(rule: str, snippet: str, release: str = "5.5.1") -> list[Finding]:
    return rule_findings(rule, snippet, release)


def pure_fleet(*pairs: str, **slave_variables: Any) -> Fleet:
    """Build a fleet of pure pairs on 5.5.1. The keyword arguments are variables of the first slave."""
    inventory = hosts(*pairs, release="5.5.1", ha="pure")
    inventory[SLAVE] |= {f"activemq_{name}": value for name, value in slave_variables.items()}
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
def test_failover_uri_without_reconnect_limit_of_release_is_reported(options: str, release: str, fires: bool) -> None:
    snippet = f'<masterConnector remoteURI="failover:(nio://a:61618){options}"/>'
    assert bool(findings_of("P001", snippet, release)) is fires


def test_reconnect_limit_of_inner_uri_does_not_limit_failover() -> None:
    assert findings_of("P001", '<masterConnector remoteURI="failover:(nio://a:61618?maxReconnectAttempts=1)"/>')


def test_master_connector_uri_attribute_is_checked() -> None:
    problem = findings_of("P001", '<broker masterConnectorURI="failover:(tcp://a:61616)"/>')[0]
    document = complete('<broker masterConnectorURI="failover:(tcp://a:61616)"/>', Release.of("5.5.1"))
    assert problem.line is not None
    assert problem.column is not None
    assert document.decode().splitlines()[problem.line - 1][problem.column - 1 :].startswith("failover:(")


def test_slave_without_wait_for_slave_is_not_reported() -> None:
    snippet = '<broker shutdownOnSlaveFailure="true"/><masterConnector remoteURI="nio://a:61618"/>'
    assert findings_of("P002", snippet) == []


def test_rendered_master_without_wait_for_slave_is_reported() -> None:
    built_fleet = fleet("orders-mq01", release="5.5.1", ha="pure", broker_attributes={"waitForSlave": "false"})
    assert [problem.host for problem in fleet_rule_findings("P002", built_fleet)] == [MASTER]


def test_master_connector_uri_attribute_without_credentials_is_reported() -> None:
    assert (
        "no userName and no password" in findings_of("P010", '<broker masterConnectorURI="tcp://a:61616"/>')[0].message
    )


def test_master_connector_without_password_is_reported() -> None:
    assert "no password" in findings_of("P010", '<masterConnector remoteURI="nio://a:1" userName="n"/>')[0].message


def test_master_with_anonymous_access_requires_no_credentials() -> None:
    plugin = '<simpleAuthenticationPlugin anonymousAccessAllowed="true"/>'
    assert findings_of("P010", f'{plugin}<masterConnector remoteURI="nio://a:1"/>') == []


@pytest.mark.parametrize("release", ["5.5.1", "5.6.0", "5.7.0"])
def test_rendered_pure_pairs_have_only_p009_findings(release: str) -> None:
    built_fleet = fleet("orders-mq01", "orders-mq02", release=release, ha="pure")
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in built_fleet.brokers}
    findings = [finding for finding in fleet_findings(built_fleet, documents) if finding.rule[0] in "LPV"]
    assert {(finding.rule, finding.severity) for finding in findings} == {("P009", "info")}


def test_info_about_planned_stops_is_reported_once_per_group() -> None:
    built_fleet = fleet("orders-mq01", "orders-mq02", "stock-mq01", release="5.5.1", ha="pure")
    assert [problem.host for problem in fleet_rule_findings("P009", built_fleet)] == [
        MASTER,
        "stock-mq01-a.example.com",
    ]


def test_slave_of_slave_is_reported() -> None:
    inventory = hosts("orders-mq01", "orders-mq02", release="5.5.1", ha="pure")
    inventory[SLAVE]["activemq_xml_fragments"] = [
        {"parent": "broker/services", "xml": '<masterConnector remoteURI="nio://orders-mq02-a.example.com:61618"/>'}
    ]
    inventory["orders-mq02-a.example.com"]["activemq_xml_fragments"] = [
        {"parent": "broker/services", "xml": f'<masterConnector remoteURI="nio://{MASTER}:61618"/>'}
    ]
    messages = {problem.host: problem.message for problem in fleet_rule_findings("P005", build_fleet(inventory, {}))}
    assert "is a slave itself" in messages[SLAVE]


def test_second_slave_is_reported_in_its_file() -> None:
    fragment = {
        "parent": "broker/services",
        "xml": '<masterConnector remoteURI="nio://orders-mq02-a.example.com:61618"/>',
    }
    problem = fleet_rule_findings("P005", pure_fleet("orders-mq01", "orders-mq02", xml_fragments=[fragment]))[0]
    assert (problem.host, problem.file) == (SLAVE, "conf/activemq.xml")
    assert problem.line


def test_different_stores_are_no_reported_difference_of_pure_pair() -> None:
    assert (
        fleet_rule_findings(
            "P008", pure_fleet("orders-mq01", store_directory="/elsewhere", xml_fragments=[EMPTY_PLUGIN_FRAGMENT])
        )
        == []
    )


def test_destination_policy_on_single_node_is_difference_of_pure_pair() -> None:
    fragment = {"parent": "broker/destinationPolicy/policyMap/policyEntries", "xml": '<policyEntry queue="x"/>'}
    problems = fleet_rule_findings("P008", pure_fleet("orders-mq01", xml_fragments=[fragment]))
    assert [(problem.host, "<destinationPolicy>" in problem.message) for problem in problems] == [(SLAVE, True)]


def test_links_to_each_node_of_pair_are_not_reported() -> None:
    links = "".join(
        f'<networkConnector name="to-{node}" uri="static:(tcp://orders-mq01-{node}.example.com:61616)"/>'
        for node in "ab"
    )
    inventory = hosts("orders-mq01", "stock-mq01", topology="none")
    for host in ("stock-mq01-a.example.com", "stock-mq01-b.example.com"):
        inventory[host]["activemq_xml_fragments"] = [{"parent": "broker/networkConnectors", "xml": links}]
    assert fleet_rule_findings("P012", build_fleet(inventory, {})) == []


def test_link_without_pure_slave_is_not_reported() -> None:
    link = f'<networkConnector name="to-orders" uri="static:(tcp://{MASTER}:61616)"/>'
    inventory = hosts("orders-mq01", "stock-mq01", release="5.5.1", ha="pure")
    inventory["stock-mq01-a.example.com"]["activemq_xml_fragments"] = [
        {"parent": "broker/networkConnectors", "xml": link}
    ]
    assert fleet_rule_findings("P012", build_fleet(inventory, {})) == []


EMPTY_PLUGIN_FRAGMENT = {"parent": "broker/plugins", "xml": "<simpleAuthenticationPlugin/>"}


def test_link_to_one_node_of_pair_by_inventory_name_is_reported() -> None:
    link_xml = f'<networkConnector name="own" uri="static:(tcp://{MASTER}:61616)"/>'
    inventory = hosts("orders-mq01") | hosts("stock-mq01", nodes="a", ha="none")
    for number, host in enumerate(inventory):
        inventory[host]["activemq_address"] = f"10.0.0.{number}"
    inventory["stock-mq01-a.example.com"]["activemq_xml_fragments"] = [
        {"parent": "broker/networkConnectors", "xml": link_xml}
    ]
    (finding,) = fleet_rule_findings("P012", build_fleet(inventory, {}))
    assert f"lists {MASTER} of pair orders-mq01 but not {SLAVE}" in finding.message
