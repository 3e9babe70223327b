"""Routes of complete fleets: units, failures, destinations and reasons."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.routes import Routes, route_findings, routes_without_refused_links
from activemq_fleet.routes.route_findings import RULES
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import build_fleet
from activemq_fleet.validation import select_rules
from tests.unit.fleets import fleet, hosts
from tests.work import count_lines

PAIRS = ("o-mq1", "o-mq2", "o-mq3", "o-mq4")


def pair_routes(*pairs: str, **variables: Any) -> Routes:
    """Return the routes of a fleet of pairs."""
    return routes_without_refused_links(fleet(*pairs, **variables))


def single_broker_routes(*names: str, **variables: Any) -> Routes:
    """Return the routes of single brokers, each the node a of a pair."""
    return routes_without_refused_links(fleet(*names, nodes="a", ha="none", **variables))


def linked_broker_routes(links: list[dict[str, Any]], *names: str, **variables: Any) -> Routes:
    """Return the routes of single brokers that have only these links."""
    return single_broker_routes(*names, topology="none", links=links, **variables)


@pytest.mark.parametrize("topology", ["mesh", "hub", "ring", "chain"])
@pytest.mark.parametrize("release", ["5.5.1", "5.8.0", "5.18.3", "6.3.1"])
def test_every_topology_connects_all_pairs(topology: str, release: str) -> None:
    routes = pair_routes(*PAIRS, topology=topology, release=release)

    assert all(routes.reaches(a, b).arrives_for_every_bridge_choice for a in PAIRS for b in PAIRS)


@pytest.mark.parametrize("topology", ["mesh", "hub", "ring", "chain"])
def test_fleet_of_pairs_has_no_route_findings(topology: str) -> None:
    routes = pair_routes(*PAIRS, topology=topology)

    assert route_findings(routes) == ()
    assert all(routes.source_target_pairs_lost_without(broker.host) == () for broker in routes.fleet.brokers)


def test_path_of_route_names_each_bridge_and_host_that_opened_it() -> None:
    first_hop, second_hop = pair_routes(*PAIRS, topology="hub").path("o-mq2", "o-mq3")

    assert (first_hop.source, first_hop.target, first_hop.link, first_hop.back) == (
        "o-mq2",
        "o-mq1",
        "o-mq2-to-o-mq1",
        False,
    )
    assert (second_hop.source, second_hop.target, second_hop.link, second_hop.back) == (
        "o-mq1",
        "o-mq3",
        "o-mq3-to-o-mq1",
        True,
    )
    assert second_hop.host == "o-mq3-a.example.com"


def test_reason_lists_bridges_of_route() -> None:
    reason = pair_routes(*PAIRS, topology="chain").reaches("o-mq1", "o-mq3").why

    assert reason == "messages go from o-mq1 to o-mq3 over 2 bridges (o-mq1-to-o-mq2, o-mq2-to-o-mq3)"


def test_target_of_route_can_be_named_by_pair_host_or_short_name() -> None:
    routes = pair_routes("o-mq1", "o-mq2")

    for name in ("o-mq2", "o-mq2-b", "o-mq2-b.example.com"):
        assert routes.reaches("o-mq1", name).arrives_for_every_bridge_choice


def test_unknown_broker_name_is_refused() -> None:
    with pytest.raises(InputError, match="unknown-host is not a broker"):
        pair_routes("o-mq1", "o-mq2").reaches("o-mq1", "unknown-host")


def test_pair_as_single_failure_is_refused() -> None:
    with pytest.raises(InputError, match="set it to o-mq2-a or o-mq2-b"):
        pair_routes("o-mq1", "o-mq2").reaches("o-mq1", "o-mq2", down="o-mq2")


# -- failures ----------------------------------------------------------------------------------


def test_routes_of_shared_pair_survive_failure_of_either_node() -> None:
    routes = pair_routes(*PAIRS, topology="chain")

    for node in ("o-mq2-a", "o-mq2-b"):
        assert routes.reaches("o-mq1", "o-mq3", down=node).arrives_for_every_bridge_choice
        assert routes.reaches("o-mq1", "o-mq2", down=node).arrives_for_every_bridge_choice


def test_routes_lost_with_single_broker_in_chain_are_warning() -> None:
    routes = single_broker_routes("o-mq1", "o-mq2", "o-mq3", topology="chain")

    assert routes.source_target_pairs_lost_without("o-mq2-a") == (("o-mq1-a", "o-mq3-a"), ("o-mq3-a", "o-mq1-a"))
    assert routes.source_target_pairs_lost_without("o-mq1-a") == ()
    (finding,) = route_findings(routes)
    assert (finding.rule, finding.severity, finding.host) == ("R002", "warning", "o-mq2-a.example.com")
    assert "2 routes between other brokers" in finding.message
    assert "from o-mq1-a to consumers on o-mq3-a" in finding.message


def test_hub_without_standby_is_single_finding() -> None:
    routes = single_broker_routes(*PAIRS, topology="hub")

    assert [(f.rule, f.host) for f in route_findings(routes)] == [("R002", "o-mq1-a.example.com")]
    assert "6 routes between other brokers" in route_findings(routes)[0].message


def test_hub_that_is_pair_loses_no_route_with_its_node() -> None:
    hub, spokes = hosts("hub-mq1"), hosts("s-mq1", "s-mq2", nodes="a", ha="none")
    links = [{"from": "s", "to": "hub", "duplex": True}]
    routes = routes_without_refused_links(
        build_fleet(
            {n: v | {"activemq_links": links, "activemq_topology": "none"} for n, v in (hub | spokes).items()}, {}
        )
    )

    assert routes.reaches("s-mq1-a", "s-mq2-a", down="hub-mq1-a").arrives_for_every_bridge_choice
    assert route_findings(routes) == ()


def test_mesh_of_single_brokers_has_no_route_findings() -> None:
    assert route_findings(single_broker_routes(*PAIRS, topology="mesh")) == ()


def test_broken_ring_keeps_all_routes_only_with_ttl_of_chain() -> None:
    """The TTL of a ring is its longest route. Without one of its brokers, the ring is a chain with longer routes."""
    names = tuple(f"o-mq{number}" for number in range(1, 6))

    assert ("o-mq1-a", "o-mq3-a") in single_broker_routes(*names, topology="ring").source_target_pairs_lost_without(
        "o-mq2-a"
    )
    assert (
        single_broker_routes(*names, topology="ring", network_ttl=4).source_target_pairs_lost_without("o-mq2-a") == ()
    )


@pytest.mark.parametrize("topology", ["mesh", "hub", "ring", "chain"])
def test_lost_routes_agree_with_reachability_during_failure(topology: str) -> None:
    routes = single_broker_routes(*PAIRS, topology=topology)
    units = list(routes.network.units)

    for failed in units:
        lost = {
            (a, b)
            for a in units
            for b in units
            if failed not in (a, b) and not routes.reaches(a, b, down=failed).arrives_for_every_bridge_choice
        }
        assert lost == set(routes.source_target_pairs_lost_without(failed))


def test_work_for_all_failures_of_chain_grows_at_most_with_square_of_length() -> None:
    def count_lines_of_chain(length: int) -> int:
        chain = single_broker_routes(*(f"o-mq{number:03}" for number in range(1, length + 1)), topology="chain")
        hosts = [broker.host for broker in chain.fleet.brokers]
        blocking_hosts: list[str] = []
        lines = count_lines(
            lambda: blocking_hosts.extend(
                host
                for host in hosts
                if not chain.reaches("o-mq001", "o-mq003", down=host).arrives_for_every_bridge_choice
            )
        )
        assert [host.partition(".")[0] for host in blocking_hosts] == ["o-mq001-a", "o-mq002-a", "o-mq003-a"]
        return lines

    assert count_lines_of_chain(60) < 5 * count_lines_of_chain(30)


def test_messages_of_failed_broker_wait_until_it_is_started_again() -> None:
    routes = single_broker_routes("o-mq1", "o-mq2", topology="chain")

    assert "until it is started again" in routes.reaches("o-mq1", "o-mq2", down="o-mq1-a").why
    assert "is down: no consumer can connect to it" in routes.reaches("o-mq1", "o-mq2", down="o-mq2-a").why
    assert route_findings(routes) == ()


def network_connector_xml(*addresses: str, attributes: str = "") -> str:
    """Return a networkConnector as a user writes it."""
    uri = f"static:({','.join(f'tcp://{address}' for address in addresses)})"
    return (
        f'<networkConnectors><networkConnector name="own" uri="{uri}" userName="net" {attributes}/></networkConnectors>'
    )


def routes_with_fragments(variables: dict[str, dict[str, Any]], fragments: dict[str, str]) -> Routes:
    """Return the routes of a fleet in which some hosts have an XML fragment."""
    for host, xml in fragments.items():
        variables[f"{host}.example.com"]["activemq_xml_fragments"] = [{"parent": "broker", "xml": xml}]
    built_fleet = build_fleet(variables, {})
    return routes_without_refused_links(
        built_fleet, {broker.host: XmlDocument(render_activemq_xml_bytes(broker)) for broker in built_fleet.brokers}
    )


def test_link_to_single_node_of_pair_is_lost_on_failover() -> None:
    attributes = 'duplex="true" networkTTL="2"'
    fragments = {
        f"o-mq{a}-{n}": network_connector_xml(f"o-mq{a + 1}-a.example.com:61616", attributes=attributes)
        for a in (1, 2)
        for n in "ab"
    }
    routes = routes_with_fragments(hosts("o-mq1", "o-mq2", "o-mq3", topology="none"), fragments)

    assert routes.reaches("o-mq1", "o-mq3").arrives_for_every_bridge_choice
    assert not routes.reaches("o-mq1", "o-mq3", down="o-mq2-a").arrives_for_every_bridge_choice
    assert routes.source_target_pairs_lost_without("o-mq2-a") == (("o-mq1", "o-mq3"), ("o-mq3", "o-mq1"))
    (finding,) = route_findings(routes)
    assert "masterslave:" in finding.fix


def test_fragment_link_to_both_nodes_survives_failover() -> None:
    xml = network_connector_xml("o-mq2-a.example.com:61616", "o-mq2-b:61616")
    routes = routes_with_fragments(hosts("o-mq1", "o-mq2", topology="none"), {"o-mq1-a": xml, "o-mq1-b": xml})

    assert routes.reaches("o-mq1", "o-mq2", down="o-mq2-a").arrives_for_every_bridge_choice
    assert not routes.reaches("o-mq2", "o-mq1").arrives_for_every_bridge_choice


@pytest.mark.parametrize(
    ("uri", "count"),
    [
        ("static:(failover:(tcp://o-mq2-a:61616),failover:(tcp://o-mq3-a:61616))", 2),
        ("static:(failover:(tcp://o-mq2-a:61616,tcp://o-mq3-a:61616))", 1),
        ("static:failover:(tcp://o-mq2-a:61616,tcp://o-mq3-a:61616)", 1),
        ("masterslave:(tcp://o-mq2-a:61616,tcp://o-mq3-a:61616)", 1),
        ("static:(tcp://o-mq2-a:61616,tcp://o-mq3-a:61616)", 2),
    ],
)
def test_uri_of_fragment_decides_number_of_bridges(uri: str, count: int) -> None:
    xml = f'<networkConnectors><networkConnector name="own" uri="{uri}" userName="net"/></networkConnectors>'
    variables = hosts("o-mq1", "o-mq2", "o-mq3", nodes="a", ha="none", topology="none")
    routes = routes_with_fragments(variables, {"o-mq1-a": xml})

    targets = ["o-mq2-a", "o-mq3-a"][:count]
    assert [broker for broker in ("o-mq2-a", "o-mq3-a") if routes.path("o-mq1-a", broker)] == targets


@pytest.mark.parametrize(
    ("uri", "is_found"),
    [
        ("multicast://default?group=x", True),
        ("multicast://239.255.2.3?group=x", True),
        ("multicast://239.255.2.3:6155/?group=x", True),
        ("multicast://239.255.2.3:6156?group=x", False),
        ("multicast://239.255.2.4?group=x", False),
    ],
)
def test_multicast_link_leads_to_brokers_that_announce_same_address(uri: str, is_found: bool) -> None:
    xml = f'<networkConnectors><networkConnector name="own" uri="{uri}" userName="net"/></networkConnectors>'
    discovery = {"discoveryUri": "multicast://default?group=x"}
    variables = hosts(
        "o-mq1",
        "o-mq2",
        nodes="a",
        ha="none",
        topology="none",
        connectors=[{"name": "openwire", "scheme": "nio", "port": 61616, "attributes": discovery}],
    )
    routes = routes_with_fragments(variables, {"o-mq1-a": xml})

    assert bool(routes.path("o-mq1-a", "o-mq2-a")) is is_found


def test_boolean_of_fragment_is_read_as_spring_reads_it() -> None:
    xml = network_connector_xml("o-mq2-a.example.com:61616", attributes='duplex="Yes"')
    routes = routes_with_fragments(hosts("o-mq1", "o-mq2", nodes="a", ha="none", topology="none"), {"o-mq1-a": xml})

    assert routes.reaches("o-mq2", "o-mq1").arrives_for_every_bridge_choice


def test_fragment_changes_ttl_of_link_of_fleet() -> None:
    connector_xml = (
        '<networkConnectors><networkConnector name="o-mq1-a-to-o-mq2-a" networkTTL="1"/></networkConnectors>'
    )
    routes = routes_with_fragments(
        hosts("o-mq1", "o-mq2", "o-mq3", nodes="a", ha="none", topology="chain"), {"o-mq1-a": connector_xml}
    )

    assert routes.reaches("o-mq1", "o-mq2").arrives_for_every_bridge_choice
    assert not routes.reaches("o-mq1", "o-mq3").arrives_for_every_bridge_choice
    assert routes.reaches("o-mq3", "o-mq2").arrives_for_every_bridge_choice


def test_fragment_link_to_broker_outside_fleet_is_not_idle_link() -> None:
    routes = routes_with_fragments(
        hosts("o-mq1", topology="none"), {"o-mq1-a": network_connector_xml("elsewhere.example.org:61616")}
    )

    assert routes.idle_links() == ()


def test_routes_refuse_activemq_xml_that_is_not_xml() -> None:
    variables = hosts("o-mq1", xml_fragments=[{"xml": network_connector_xml("a:1")}])

    with pytest.raises(InputError, match="xml cannot be read"):
        routes_without_refused_links(build_fleet(variables, {}), {"o-mq1-a": XmlDocument(b"<broker")})


# -- the pure profile ----------------------------------------------------------------------------


def pure_pair_routes(*pairs: str) -> Routes:
    """Return the routes of a fleet of pairs with the pure profile."""
    return pair_routes(*pairs, ha="pure", release="5.5.1")


def test_promoted_slave_sends_stored_messages_and_accepts_no_consumers() -> None:
    routes = pure_pair_routes("o-mq1", "o-mq2", "o-mq3")

    reachability = routes.reaches("o-mq1", "o-mq2", down="o-mq1-a")
    assert reachability.arrives_for_every_bridge_choice
    assert "o-mq1-b now sends" in reachability.why
    assert [hop.host for hop in reachability.path] == ["o-mq1-b.example.com"]
    assert "opens no port" in routes.reaches("o-mq2", "o-mq1", down="o-mq1-a").why
    assert routes.reaches("o-mq2", "o-mq3", down="o-mq1-a").arrives_for_every_bridge_choice


def test_failure_of_pure_slave_changes_no_route() -> None:
    routes = pure_pair_routes("o-mq1", "o-mq2")

    assert routes.reaches("o-mq2", "o-mq1", down="o-mq1-b") == routes.reaches("o-mq2", "o-mq1")


def test_network_of_pure_pairs_has_no_route_findings() -> None:
    assert route_findings(pure_pair_routes("o-mq1", "o-mq2")) == ()
    assert route_findings(pure_pair_routes(*(f"o-mq{number}" for number in range(1, 8)))) == ()


# -- TTL and destinations ----------------------------------------------------------------------


def test_reason_names_link_whose_ttl_is_too_small() -> None:
    routes = single_broker_routes("o-mq1", "o-mq2", "o-mq3", topology="chain", network_ttl=1)

    assert routes.reaches("o-mq1", "o-mq3").why == (
        "the subscription of a consumer on o-mq3-a ends at o-mq2-a, because link o-mq1-a-to-o-mq2-a has the "
        "consumerTTL (networkTTL) 1, but the route requires 2"
    )


def test_route_uses_link_with_sufficient_ttl_of_two_links_to_peer() -> None:
    parallel_links = [
        {"from": "o-mq2", "to": "o-mq3", "name": name, "ttl": ttl} for name, ttl in (("near", 1), ("far", 2))
    ]
    routes = linked_broker_routes([{"from": "o-mq1", "to": "o-mq2"}, *parallel_links], "o-mq1", "o-mq2", "o-mq3")

    assert [hop.link for hop in routes.path("o-mq1", "o-mq3")] == ["o-mq1-a-to-o-mq2-a", "far"]


def test_group_with_unreachable_brokers_is_single_finding() -> None:
    routes = pair_routes("o-mq1", "o-mq2", "o-mq3", topology="chain", network_ttl=1)

    (finding,) = route_findings(routes)
    assert (finding.rule, finding.severity) == ("R001", "warning")
    assert finding.message.startswith("messages sent to o-mq1 never reach consumers on o-mq3: ")
    assert finding.message.endswith("In group o, 2 of 6 routes between brokers carry no messages")


def test_group_without_topology_has_no_route_findings() -> None:
    links = [{"from": "o-mq1", "to": "o-mq2"}]

    assert route_findings(linked_broker_routes(links, "o-mq1", "o-mq2", "o-mq3")) == ()


def test_one_way_link_carries_messages_in_one_direction() -> None:
    routes = linked_broker_routes([{"from": "o-mq1", "to": "o-mq2"}], "o-mq1", "o-mq2")

    assert routes.reaches("o-mq1-a", "o-mq2-a").arrives_for_every_bridge_choice
    assert routes.reaches("o-mq2-a", "o-mq1-a").why == "no bridges lead from o-mq2-a to o-mq1-a"


def test_include_and_exclude_of_link_apply_to_queried_destination() -> None:
    links = [{"from": "o-mq1", "to": "o-mq2", "include": ["orders.>"], "exclude": ["orders.secret"]}]
    routes = linked_broker_routes(links, "o-mq1", "o-mq2")

    def arrives(destination: str) -> bool:
        return routes.reaches("o-mq1-a", "o-mq2-a", destination=destination).arrives_for_every_bridge_choice

    assert arrives("orders.new")
    assert arrives("queue://orders")
    assert not arrives("orders.secret")
    assert not arrives("topic://orders.new")
    assert "carry queue://bills" in routes.reaches("o-mq1-a", "o-mq2-a", destination="bills").why
    assert "carries only queue://orders.> and not queue://orders.secret" in routes.reaches("o-mq1-a", "o-mq2-a").why


@pytest.mark.parametrize(("release", "limited"), [("5.5.1", False), ("5.6.0", True), ("6.3.1", True)])
def test_peer_of_duplex_link_applies_its_include_but_not_its_exclude(release: str, *, limited: bool) -> None:
    links = [{"from": "o-mq1", "to": "o-mq2", "duplex": True, "include": ["orders.>"], "exclude": ["orders.secret"]}]
    routes = linked_broker_routes(links, "o-mq1", "o-mq2", release=release)

    assert routes.reaches("o-mq2-a", "o-mq1-a", destination="orders.secret").arrives_for_every_bridge_choice
    assert routes.reaches("o-mq2-a", "o-mq1-a", destination="bills").arrives_for_every_bridge_choice is not limited


def test_link_carries_its_static_include_in_addition_to_its_include() -> None:
    links = [{"from": "o-mq1", "to": "o-mq2", "include": ["orders.>"], "static_include": ["audit"]}]
    routes = linked_broker_routes(links, "o-mq1", "o-mq2")

    assert routes.reaches("o-mq1-a", "o-mq2-a", destination="audit").arrives_for_every_bridge_choice
    assert routes.reaches("o-mq1-a", "o-mq2-a", destination="orders.new").arrives_for_every_bridge_choice
    assert not routes.reaches("o-mq1-a", "o-mq2-a", destination="bills").arrives_for_every_bridge_choice
    assert "carries only queue://orders.>, queue://audit" in routes.reaches("o-mq1-a", "o-mq2-a").why


def test_static_bridge_carries_only_its_static_include() -> None:
    links = [{"from": "o-mq1", "to": "o-mq2", "static_include": ["audit"], "attributes": {"staticBridge": True}}]
    routes = linked_broker_routes(links, "o-mq1", "o-mq2")

    assert routes.reaches("o-mq1-a", "o-mq2-a", destination="audit").arrives_for_every_bridge_choice
    other_destination = routes.reaches("o-mq1-a", "o-mq2-a", destination="orders")
    assert other_destination.outcome == "does not reach"
    assert other_destination.why == "no bridges between o-mq1-a and o-mq2-a carry queue://orders"
    assert routes.reaches("o-mq1-a", "o-mq2-a").why == (
        "the subscription of a consumer on o-mq2-a ends at o-mq2-a, because link o-mq1-a-to-o-mq2-a does not forward "
        "subscriptions: the link carries only messages of queue://audit, also without a consumer"
    )
    assert route_findings(routes) == ()


def test_static_bridges_without_static_include_are_findings() -> None:
    routes = single_broker_routes("o-mq1", "o-mq2", network_attributes={"staticBridge": True})

    findings = route_findings(routes)
    assert sorted(finding.rule for finding in findings) == ["R001", "R003", "R003"]
    fixes = [finding.fix or "" for finding in sorted(findings, key=lambda finding: (finding.rule, finding.host or ""))]
    for fix, link in zip(fixes, ("o-mq1-a-to-o-mq2-a", "o-mq1-a-to-o-mq2-a", "o-mq2-a-to-o-mq1-a"), strict=True):
        assert "remove staticBridge from activemq_network_attributes, and from the attributes (or the netw" in fix
        assert f" of link {link}" in fix
    assert not any("default TTL" in (finding.fix or "") for finding in findings)


def test_static_bridge_in_fragment_with_static_include_is_not_idle() -> None:
    audit = '<staticallyIncludedDestinations><queue physicalName="audit"/></staticallyIncludedDestinations>'
    uri = "static:(tcp://o-mq2-a:61616)"
    connector = f'<networkConnector name="own" uri="{uri}" userName="net" staticBridge="true">{audit}'
    xml = f"<networkConnectors>{connector}</networkConnector></networkConnectors>"
    routes = routes_with_fragments(hosts("o-mq1", "o-mq2", nodes="a", ha="none", topology="none"), {"o-mq1-a": xml})

    assert routes.idle_links() == ()


def test_link_without_user_name_does_not_reach_broker_that_requires_login() -> None:
    links = [{"from": "o-mq1", "to": "o-mq2"}]
    variables = hosts("o-mq1", "o-mq2", nodes="a", ha="none", topology="none", links=links)
    variables["o-mq1-a.example.com"]["activemq_authentication"] = "none"
    routes = routes_without_refused_links(build_fleet(variables, {}))

    assert "connects with no userName" in routes.reaches("o-mq1-a", "o-mq2-a").why
    assert routes.reaches("o-mq1-a", "o-mq2-a").outcome == "does not reach"


@pytest.mark.parametrize("text", ["", "a..b", "orders.>", "ftp://x", "*"])
def test_routes_refuse_query_of_more_than_one_destination(text: str) -> None:
    with pytest.raises(InputError, match="is not a single destination"):
        pair_routes("o-mq1", "o-mq2").reaches("o-mq1", "o-mq2", destination=text or "queue://")


def test_broker_without_advisories_receives_no_messages_over_bridges() -> None:
    routes = single_broker_routes("o-mq1", "o-mq2", broker_attributes={"advisorySupport": False})

    assert not routes.reaches("o-mq1-a", "o-mq2-a").arrives_for_every_bridge_choice
    assert {finding.rule for finding in route_findings(routes)} == {"R001", "R003"}
    (fix,) = (finding.fix or "" for finding in route_findings(routes) if finding.rule == "R001")
    assert fix.startswith("remove advisorySupport from activemq_broker_attributes of o-mq2-a")


# -- idle bridges, and choices of bridges -----------------------------------------------------------


def test_idle_link_within_pair_is_info() -> None:
    routes = pair_routes("o-mq1", pair_links="static")

    assert routes.idle_links() == (("o-mq1-a.example.com", "o-mq1-a-to-o-mq1-b"),)
    assert [(f.rule, f.severity) for f in route_findings(routes)] == [("R003", "info")]


def test_fragment_bridge_without_demand_is_warning() -> None:
    variables = hosts("o-mq1", "o-mq2", nodes="a", ha="none", topology="none")
    routes = routes_with_fragments(
        variables, {"o-mq1-a": network_connector_xml("o-mq2-a:61616", attributes='consumerTTL="0"')}
    )

    assert [(f.rule, f.severity, f.host) for f in route_findings(routes)] == [
        ("R003", "warning", "o-mq1-a.example.com")
    ]


def test_routes_of_different_length_with_equal_priority_are_finding() -> None:
    """In a mesh of 5 brokers with a TTL of 3 and no priority for near bridges, messages can miss their consumers."""
    names = [f"o-mq{number}" for number in range(1, 6)]
    variables = hosts(*names, nodes="a", ha="none", topology="none", release="5.11.4")
    routes = routes_with_fragments(
        variables,
        {
            f"{a}-a": network_connector_xml(*(f"{b}-a:61616" for b in names if b != a), attributes='networkTTL="3"')
            for a in names
        },
    )

    (finding,) = route_findings(routes)
    assert finding.rule == "R004"
    assert "may also choose a route" in routes.reaches("o-mq1-a", "o-mq2-a").why


def test_links_without_priority_of_near_bridges_are_finding() -> None:
    names = [f"o-mq{number}" for number in range(1, 6)]
    variables: dict[str, Any] = {"topology": "mesh", "network_ttl": 3, "release": "5.11.4"}
    attributes = {"decreaseNetworkConsumerPriority": False}

    assert route_findings(single_broker_routes(*names, **variables)) == ()
    (finding,) = route_findings(single_broker_routes(*names, **variables, network_attributes=attributes))
    assert finding.rule == "R004"


def test_detour_around_overloaded_bridge_is_in_reason_and_no_finding() -> None:
    routes = pair_routes(*(f"o-mq{number}" for number in range(1, 6)), network_ttl=3)

    assert routes.reaches("o-mq1", "o-mq2").outcome == "reaches"
    assert "1,000 unacknowledged" in routes.reaches("o-mq1", "o-mq2").why
    assert route_findings(routes) == ()


@pytest.mark.parametrize("topology", ["mesh", "chain", "hub", "ring"])
def test_work_to_find_routes_grows_at_most_with_square_of_pairs(topology: str) -> None:
    def count_lines_of_fleet(pairs: int) -> int:
        network = fleet(*(f"o-mq{number:03}" for number in range(1, pairs + 1)), topology=topology)
        findings: list[object] = []
        lines = count_lines(lambda: findings.extend(route_findings(routes_without_refused_links(network))))
        assert findings == []
        return lines

    assert count_lines_of_fleet(40) < 5 * count_lines_of_fleet(20)


def test_hub_of_250_pairs_has_no_route_findings() -> None:
    assert (
        route_findings(
            routes_without_refused_links(fleet(*(f"o-mq{number:03}" for number in range(1, 251)), topology="hub"))
        )
        == ()
    )


def test_every_route_rule_is_documented_and_selectable() -> None:
    documentation = (Path(__file__).resolve().parents[2] / "docs" / "topology-errors.md").read_text()

    assert set(RULES) == set(re.findall(r"^\| (R\d{3}) \|", documentation, re.MULTILINE))
    assert select_rules(list(RULES), []).includes_rule("R002")
