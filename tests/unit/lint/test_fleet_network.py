"""What the examples of the fleet's network rules do not show: fragments, profiles, exact hops."""

from __future__ import annotations

import pytest

from tests.support.network_findings import findings_of_rule, link_fragment, network_findings

RELEASES = ["5.5.1", "5.8.0", "5.11.4", "5.18.3", "6.3.1"]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("topology", ["mesh", "hub", "ring", "chain", "none"])
def test_what_is_rendered_by_default_has_no_mistake(release: str, topology: str) -> None:
    links = [{"from": "orders", "to": "billing", "duplex": True}]
    pairs = ("orders-mq01", "orders-mq02", "orders-mq03", "orders-mq04", "billing-mq01")
    assert network_findings(*pairs, release=release, topology=topology, links=links) == []


@pytest.mark.parametrize("release", ["5.5.1", "5.7.0"])
def test_the_pure_profile_is_only_told_of_its_own_network(release: str) -> None:
    findings = network_findings("orders-mq01", "orders-mq02", "orders-mq03", release=release, ha="pure")
    assert {(finding.rule, finding.severity) for finding in findings} == {("N010", "info"), ("M006", "info")}
    assert len(findings) == 2


def test_duplex_on_both_ends_is_one_mistake_for_two_pairs() -> None:
    links = [{"from": "a", "to": "b", "duplex": True}, {"from": "b", "to": "a", "duplex": True}]
    (finding,) = network_findings("a-mq01", "b-mq01", links=links)
    assert (finding.rule, finding.severity, finding.host) == ("N010", "error", "b-mq01-a.example.com")


def test_a_fragment_that_makes_the_way_back_duplex_is_found_at_its_line() -> None:
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


def test_a_mesh_and_a_duplex_link_between_two_of_it_are_two_routes() -> None:
    links = [{"from": "a-mq01", "to": "a-mq02", "duplex": True, "name": "more"}]
    findings = findings_of_rule("N011", "a-mq01", "a-mq02", links=links)
    assert len(findings) == 2
    assert {finding.host for finding in findings} == {"a-mq01-a.example.com", "a-mq02-a.example.com"}


def test_links_that_exclude_each_others_destinations_are_no_double_route() -> None:
    links = [
        {"from": "a", "to": "b", "duplex": True, "exclude": ["queue://bills.>"]},
        {"from": "b", "to": "a", "include": ["queue://bills.eu"]},
    ]
    assert findings_of_rule("N011", "a-mq01", "b-mq01", links=links) == []


def test_one_name_in_two_networks_is_no_mistake() -> None:
    assert findings_of_rule("N013", "a-mq01", "b-mq01", broker_name="broker") == []
    links = [{"from": "a", "to": "b"}]
    (finding,) = findings_of_rule("N013", "a-mq01", "b-mq01", broker_name="broker", links=links)
    assert finding.host == "b-mq01-a.example.com"


def test_only_the_link_that_is_too_short_is_named() -> None:
    links = [{"from": "b", "to": "c", "ttl": 1}, {"from": "a", "to": "b"}]
    findings = findings_of_rule("N017", "a-mq01", "b-mq01", "c-mq01", links=links)
    assert [finding.message.partition(" is too")[0] for finding in findings] == ["the TTL of link b-mq01-to-c-mq01"]
    assert "a message from a-mq01 to c-mq01 must cross 2 bridges" in findings[0].message


def test_a_ttl_is_short_where_demand_has_further_to_go() -> None:
    links = [{"from": "b", "to": "c"}, {"from": "a", "to": "b", "ttl": 1}]
    (finding,) = findings_of_rule("N017", "a-mq01", "b-mq01", "c-mq01", links=links)
    assert "a subscription of c-mq01 must cross 2 bridges" in finding.message


def test_a_side_link_may_have_a_ttl_of_its_own() -> None:
    links = [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}, {"from": "d", "to": "c", "ttl": 1}]
    assert findings_of_rule("N017", "a-mq01", "b-mq01", "c-mq01", "d-mq01", links=links) == []


def test_a_fragment_that_lengthens_the_path_makes_other_links_short() -> None:
    host_variables = {
        f"b-mq01-{node}": {"xml_fragments": link_fragment("on", "c-mq01-a", networkTTL="2")} for node in "ab"
    }
    (finding,) = findings_of_rule(
        "N017", "a-mq01", "b-mq01", "c-mq01", links=[{"from": "a", "to": "b"}], variables_by_host=host_variables
    )
    assert finding.host == "a-mq01-a.example.com"


def test_a_mesh_of_two_may_have_any_ttl() -> None:
    assert findings_of_rule("N018", "a-mq01", "a-mq02", network_ttl=3) == []


@pytest.mark.parametrize("release", ["5.8.0", "5.18.3"])
def test_a_wide_mesh_is_named_once_a_pair(release: str) -> None:
    findings = findings_of_rule("N018", "a-mq01", "a-mq02", "a-mq03", network_ttl=2, release=release)
    assert len(findings) == 3


def test_multicast_with_the_profiles_own_ttl_is_only_told() -> None:
    variables = {"discovery": "multicast"}
    pairs = ("a-mq01", "a-mq02", "a-mq03")
    assert [finding.severity for finding in findings_of_rule("M006", *pairs, **variables)] == ["info"]
    assert [finding.severity for finding in findings_of_rule("M006", *pairs, network_ttl=2, **variables)] == ["warning"]
    assert findings_of_rule("M006", *pairs[:2], **variables) == []


def test_nodes_that_link_to_each_other_do_not_differ_by_that() -> None:
    assert findings_of_rule("N040", "a-mq01", "a-mq02", pair_links="static") == []


def test_a_link_by_fragment_on_one_node_only_is_named_on_that_node() -> None:
    host_variables = {"a-mq01-b": {"xml_fragments": link_fragment("more", "b-mq01-a")}}
    (finding,) = findings_of_rule("N040", "a-mq01", "b-mq01", variables_by_host=host_variables)
    assert finding.host == "a-mq01-b.example.com"
    assert "not defined on a-mq01-a.example.com" in finding.message
    assert finding.line


def test_an_attribute_that_a_fragment_changes_on_one_node_is_named() -> None:
    xml = '<networkConnector name="a-mq01-to-b-mq01" duplex="true"/>'
    own = {"a-mq01-b": {"xml_fragments": [{"parent": "broker/networkConnectors", "xml": xml}]}}
    (finding,) = findings_of_rule("N040", "a-mq01", "b-mq01", links=[{"from": "a", "to": "b"}], variables_by_host=own)
    assert finding.message.endswith("the two links differ in duplex")


def test_a_single_broker_without_a_network_needs_no_stand_in() -> None:
    assert findings_of_rule("N035", "a-mq01", nodes="a", ha="none") == []


def test_the_nodes_of_a_pair_that_are_dialled_apart_are_named_in_our_files_too() -> None:
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
def test_link_by_addresses_leads_to_a_pair_only_by_its_names(addresses: list[str], fires: bool) -> None:
    link = {"from": "a", "to": "elsewhere", "addresses": addresses}
    assert bool(findings_of_rule("N005", "a-mq01", links=[link], discovery="static")) is fires


def test_a_policy_of_the_users_own_without_replay_is_named() -> None:
    policy = {"parent": "broker/destinationPolicy/policyMap/policyEntries", "xml": '<policyEntry queue="orders.&gt;"/>'}
    findings = findings_of_rule("N019", "a-mq01", "a-mq02", xml_fragments=[policy])
    assert {finding.severity for finding in findings} == {"warning"}
    assert len(findings) == 4


def test_nodes_that_only_link_to_each_other_need_no_replay() -> None:
    assert findings_of_rule("N019", "a-mq01", pair_links="static") == []


def test_a_listener_that_notices_late_is_named_once_a_broker() -> None:
    options = {"wireFormat.maxInactivityDuration": "120000"}
    connectors = [{"name": "openwire", "scheme": "nio", "port": 61616, "options": options}]
    findings = findings_of_rule(
        "N038", "a-mq01", "b-mq01", connectors=connectors, links=[{"from": "a", "to": "b", "duplex": True}]
    )
    assert {finding.host for finding in findings} == {"b-mq01-a.example.com", "b-mq01-b.example.com"}
