"""Tests of the network rules of fleets beyond their examples: fragments, profiles, numbers of hops."""

from __future__ import annotations

import pytest

from tests.support.network_findings import findings_of_rule, link_fragment, network_findings

RELEASES = ["5.5.1", "5.8.0", "5.11.4", "5.18.3", "6.3.1"]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("topology", ["mesh", "hub", "ring", "chain", "none"])
def test_rendered_network_with_default_settings_has_no_findings(release: str, topology: str) -> None:
    links = [{"from": "orders", "to": "billing", "duplex": True}]
    pairs = ("orders-mq01", "orders-mq02", "orders-mq03", "orders-mq04", "billing-mq01")
    assert network_findings(*pairs, release=release, topology=topology, links=links) == []


@pytest.mark.parametrize("release", ["5.5.1", "5.7.0"])
def test_mesh_of_pure_pairs_has_only_info_findings(release: str) -> None:
    findings = network_findings("orders-mq01", "orders-mq02", "orders-mq03", release=release, ha="pure")
    assert {(finding.rule, finding.severity) for finding in findings} == {("N010", "info"), ("M006", "info")}
    assert len(findings) == 2


def test_duplex_links_in_both_directions_are_single_error() -> None:
    links = [{"from": "a", "to": "b", "duplex": True}, {"from": "b", "to": "a", "duplex": True}]
    (finding,) = network_findings("a-mq01", "b-mq01", links=links)
    assert (finding.rule, finding.severity, finding.host) == ("N010", "error", "b-mq01-a.example.com")


def test_duplex_link_back_in_fragment_is_reported_at_its_line() -> None:
    fragment = link_fragment("back", "a-mq01-a", duplex="true")
    findings = network_findings(
        "a-mq01",
        "b-mq01",
        links=[{"from": "a", "to": "b", "duplex": True}],
        variables_by_host={"b-mq01-a": {"xml_fragments": fragment}},
    )
    (finding,) = [finding for finding in findings if finding.rule == "N010"]
    assert finding.host == "b-mq01-a.example.com"
    assert finding.file == "conf/activemq.xml"
    assert finding.line


def test_mesh_and_duplex_link_between_its_pairs_are_double_route() -> None:
    links = [{"from": "a-mq01", "to": "a-mq02", "duplex": True, "name": "more"}]
    findings = findings_of_rule("N011", "a-mq01", "a-mq02", links=links)
    assert len(findings) == 2
    assert {finding.host for finding in findings} == {"a-mq01-a.example.com", "a-mq02-a.example.com"}


def test_links_with_disjoint_destinations_are_no_double_route() -> None:
    links = [
        {"from": "a", "to": "b", "duplex": True, "exclude": ["queue://bills.>"]},
        {"from": "b", "to": "a", "include": ["queue://bills.eu"]},
    ]
    assert findings_of_rule("N011", "a-mq01", "b-mq01", links=links) == []


def test_static_bridge_for_destination_that_duplex_link_excludes_is_no_double_route() -> None:
    excluding_link = {"from": "a", "to": "b", "duplex": True, "name": "all", "exclude": ["audit"]}
    static_link = {"from": "a", "to": "b", "static_include": ["audit"], "attributes": {"staticBridge": True}}
    assert findings_of_rule("N011", "a-mq01", "b-mq01", links=[excluding_link, static_link]) == []
    static_link["static_include"] = ["orders"]
    assert len(findings_of_rule("N011", "a-mq01", "b-mq01", links=[excluding_link, static_link])) == 1


def test_duplex_link_back_to_second_target_of_static_link_is_error() -> None:
    xml = link_fragment("own", "b-mq01-a", duplex="true")[0]["xml"].replace(
        "61616)", "61616,tcp://c-mq01-a.example.com:61616)"
    )
    (finding,) = findings_of_rule(
        "N010",
        "a-mq01",
        "b-mq01",
        "c-mq01",
        nodes="a",
        ha="none",
        links=[{"from": "c", "to": "a", "duplex": True}],
        variables_by_host={"a-mq01-a": {"xml_fragments": [{"parent": "broker/networkConnectors", "xml": xml}]}},
    )
    assert finding.host == "c-mq01-a.example.com"
    assert "link own" in finding.message


def test_multicast_connector_in_fragment_joins_networks_that_discover_each_other() -> None:
    xml = link_fragment("own", "x")[0]["xml"].replace(
        "static:(tcp://x.example.com:61616)", "multicast://224.1.2.3:6255?group=b"
    )
    variables = {"nodes": "a", "ha": "none", "discovery": "multicast", "broker_name": "broker"}
    assert findings_of_rule("N013", "a-mq01", "b-mq01", **variables) == []
    fragment = [{"parent": "broker/networkConnectors", "xml": xml}]
    (finding,) = findings_of_rule(
        "N013", "a-mq01", "b-mq01", variables_by_host={"a-mq01-a": {"xml_fragments": fragment}}, **variables
    )
    assert finding.host == "b-mq01-a.example.com"


def test_duplicate_broker_name_is_reported_only_within_network() -> None:
    assert findings_of_rule("N013", "a-mq01", "b-mq01", broker_name="broker") == []
    links = [{"from": "a", "to": "b"}]
    (finding,) = findings_of_rule("N013", "a-mq01", "b-mq01", broker_name="broker", links=links)
    assert finding.host == "b-mq01-a.example.com"


def test_only_link_whose_ttl_is_too_small_for_messages_is_reported() -> None:
    links = [{"from": "b", "to": "c", "ttl": 1}, {"from": "a", "to": "b"}]
    findings = findings_of_rule("N017", "a-mq01", "b-mq01", "c-mq01", links=links)
    assert [finding.message.partition(" is too")[0] for finding in findings] == ["the TTL of link b-mq01-to-c-mq01"]
    assert "a message from a-mq01 to c-mq01 must cross 2 bridges" in findings[0].message


def test_link_whose_ttl_is_too_small_for_subscriptions_is_reported() -> None:
    links = [{"from": "b", "to": "c"}, {"from": "a", "to": "b", "ttl": 1}]
    (finding,) = findings_of_rule("N017", "a-mq01", "b-mq01", "c-mq01", links=links)
    assert "a subscription of c-mq01 must cross 2 bridges" in finding.message


def test_link_at_edge_of_network_may_have_smaller_ttl() -> None:
    links = [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}, {"from": "d", "to": "c", "ttl": 1}]
    assert findings_of_rule("N017", "a-mq01", "b-mq01", "c-mq01", "d-mq01", links=links) == []


def test_fragment_that_lengthens_path_makes_ttl_of_other_link_too_small() -> None:
    host_variables = {
        f"b-mq01-{node}": {"xml_fragments": link_fragment("on", "c-mq01-a", networkTTL="2")} for node in "ab"
    }
    (finding,) = findings_of_rule(
        "N017", "a-mq01", "b-mq01", "c-mq01", links=[{"from": "a", "to": "b"}], variables_by_host=host_variables
    )
    assert finding.host == "a-mq01-a.example.com"


def test_mesh_of_two_pairs_accepts_any_ttl() -> None:
    assert findings_of_rule("N018", "a-mq01", "a-mq02", network_ttl=3) == []


@pytest.mark.parametrize("release", ["5.8.0", "5.18.3"])
def test_large_ttl_in_mesh_is_reported_once_per_pair(release: str) -> None:
    findings = findings_of_rule("N018", "a-mq01", "a-mq02", "a-mq03", network_ttl=2, release=release)
    assert len(findings) == 3


def test_multicast_with_default_ttl_is_info() -> None:
    variables = {"discovery": "multicast"}
    pairs = ("a-mq01", "a-mq02", "a-mq03")
    assert [finding.severity for finding in findings_of_rule("M006", *pairs, **variables)] == ["info"]
    assert [finding.severity for finding in findings_of_rule("M006", *pairs, network_ttl=2, **variables)] == ["warning"]
    assert findings_of_rule("M006", *pairs[:2], **variables) == []


def test_static_pair_links_are_no_difference_between_nodes() -> None:
    assert findings_of_rule("N040", "a-mq01", "a-mq02", pair_links="static") == []


def test_link_in_fragment_of_single_node_is_reported_on_that_node() -> None:
    host_variables = {"a-mq01-b": {"xml_fragments": link_fragment("more", "b-mq01-a")}}
    (finding,) = findings_of_rule("N040", "a-mq01", "b-mq01", variables_by_host=host_variables)
    assert finding.host == "a-mq01-b.example.com"
    assert "not defined on a-mq01-a.example.com" in finding.message
    assert finding.line


def test_link_attribute_changed_on_single_node_is_reported() -> None:
    xml = '<networkConnector name="a-mq01-to-b-mq01" duplex="true"/>'
    variables = {"a-mq01-b": {"xml_fragments": [{"parent": "broker/networkConnectors", "xml": xml}]}}
    (finding,) = findings_of_rule(
        "N040", "a-mq01", "b-mq01", links=[{"from": "a", "to": "b"}], variables_by_host=variables
    )
    assert finding.message.endswith("the two links differ in duplex")


def test_single_broker_without_network_requires_no_standby() -> None:
    assert findings_of_rule("N035", "a-mq01", nodes="a", ha="none") == []


def test_rendered_static_link_to_both_nodes_of_pair_is_reported() -> None:
    findings = findings_of_rule("N005", "a-mq01", "b-mq01", links=[{"from": "a", "to": "b"}], discovery="static")
    assert {finding.host for finding in findings} == {"a-mq01-a.example.com", "a-mq01-b.example.com"}


@pytest.mark.parametrize(
    ("addresses", "fires"),
    [
        (["hub:61616", "hub:61626"], False),
        (["hub:61616", "spoke:61616"], False),
        (["hub-mq01-a:61616", "hub-mq01-b:61616"], True),
    ],
)
def test_link_by_addresses_is_reported_only_for_node_names_of_pair(addresses: list[str], fires: bool) -> None:
    link = {"from": "a", "to": "elsewhere", "addresses": addresses}
    assert bool(findings_of_rule("N005", "a-mq01", links=[link], discovery="static")) is fires


def test_destination_policy_in_fragment_without_replay_is_reported() -> None:
    policy = {"parent": "broker/destinationPolicy/policyMap/policyEntries", "xml": '<policyEntry queue="orders.&gt;"/>'}
    findings = findings_of_rule("N019", "a-mq01", "a-mq02", xml_fragments=[policy])
    assert {finding.severity for finding in findings} == {"warning"}
    assert len(findings) == 4


def test_pair_links_alone_require_no_replay() -> None:
    assert findings_of_rule("N019", "a-mq01", pair_links="static") == []


@pytest.mark.parametrize(
    ("of_link", "of_connector", "timeout"),
    [("90000", "120000", 90000), ("120000", "90000", 90000), ("", "120000", 0), ("120000", "", 0), ("0", "120000", 0)],
)
def test_long_timeout_of_both_ends_of_duplex_link_is_reported(of_link: str, of_connector: str, timeout: int) -> None:
    option = "wireFormat.maxInactivityDuration"
    options = {option: of_connector} if of_connector else {}
    connectors = [{"name": "openwire", "scheme": "nio", "port": 61616, "options": options}]
    query = f"?{option}={of_link}" if of_link else ""
    uri = f"masterslave:(tcp://b-mq01-a:61616{query},tcp://b-mq01-b:61616{query})"
    xml = f'<networkConnector name="more" duplex="true" uri="{uri}"/>'
    fragments = {"xml_fragments": [{"parent": "broker/networkConnectors", "xml": xml}]}
    hosts = {"a-mq01-a": fragments, "a-mq01-b": fragments}
    findings = findings_of_rule("N038", "a-mq01", "b-mq01", connectors=connectors, variables_by_host=hosts)
    assert {finding.host for finding in findings} == (
        {"b-mq01-a.example.com", "b-mq01-b.example.com"} if timeout else set()
    )
    assert all(f"({timeout} ms," in finding.message for finding in findings)


@pytest.mark.parametrize(
    ("uri", "timeout"),
    [
        ("static:(tcp://B-a:61616)?discovered.OPTION=90000", 90000),
        ("static:(tcp://B-a:61616?OPTION=30000)?discovered.OPTION=90000", 90000),
        ("static:(failover:(tcp://B-a:61616,tcp://B-b:61616)?nested.OPTION=90000)", 90000),
        ("static:(failover:(tcp://B-a:61616?OPTION=90000))?discovered.nested.OPTION=70000", 70000),
        ("masterslave:(tcp://B-a:61616,tcp://B-b:61616)?discovered.nested.OPTION=90000", 90000),
        ("masterslave:(tcp://B-a:61616,tcp://B-b:61616)?discovered.OPTION=90000", 0),
        ("static:(failover:(tcp://B-a:61616)?OPTION=90000)", 0),
        ("static:(tcp://B-a:61616?OPTION=90000,tcp://B-b:61616)", 0),
    ],
)
def test_long_timeout_of_link_with_prefix_is_reported(uri: str, timeout: int) -> None:
    option = "wireFormat.maxInactivityDuration"
    connectors = [{"name": "openwire", "scheme": "nio", "port": 61616, "options": {option: "120000"}}]
    uri = uri.replace("B-", "b-mq01-").replace("OPTION", option)
    xml = f'<networkConnector name="more" duplex="true" uri="{uri}"/>'
    fragments = {"xml_fragments": [{"parent": "broker/networkConnectors", "xml": xml}]}
    hosts = {"a-mq01-a": fragments, "a-mq01-b": fragments}
    findings = findings_of_rule("N038", "a-mq01", "b-mq01", connectors=connectors, variables_by_host=hosts)
    assert bool(findings) is (timeout > 0)
    assert all(f"({timeout} ms," in finding.message for finding in findings)


def test_long_timeout_of_connector_alone_is_no_finding() -> None:
    options = {"wireFormat.maxInactivityDuration": "120000"}
    connectors = [{"name": "openwire", "scheme": "nio", "port": 61616, "options": options}]
    links = [{"from": "a", "to": "b", "duplex": True}]
    assert findings_of_rule("N038", "a-mq01", "b-mq01", connectors=connectors, links=links) == []
