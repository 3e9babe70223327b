"""Routes of whole fleets: units, failures, destinations, words."""

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


def routes(*pairs: str, **variables: Any) -> Routes:
    return routes_without_refused_links(fleet(*pairs, **variables))


def singles(*names: str, **variables: Any) -> Routes:
    """Brokers without a stand-in, node a of their pairs."""
    return routes_without_refused_links(fleet(*names, nodes="a", ha="none", **variables))


def linked(links: list[dict[str, Any]], *names: str, **variables: Any) -> Routes:
    """Single brokers and nothing but these links."""
    return singles(*names, topology="none", links=links, **variables)


@pytest.mark.parametrize("topology", ["mesh", "hub", "ring", "chain"])
@pytest.mark.parametrize("release", ["5.5.1", "5.8.0", "5.18.3", "6.3.1"])
def test_every_topology_lets_everyone_reach_everyone(topology: str, release: str) -> None:
    found = routes(*PAIRS, topology=topology, release=release)

    assert all(found.reaches(a, b).arrives_for_every_bridge_choice for a in PAIRS for b in PAIRS)


@pytest.mark.parametrize("topology", ["mesh", "hub", "ring", "chain"])
def test_a_fleet_of_pairs_has_no_findings(topology: str) -> None:
    found = routes(*PAIRS, topology=topology)

    assert route_findings(found) == ()
    assert all(found.source_target_pairs_lost_without(broker.host) == () for broker in found.fleet.brokers)


def test_the_path_names_each_bridge_and_who_opened_it() -> None:
    first, second = routes(*PAIRS, topology="hub").path("o-mq2", "o-mq3")

    assert (first.source, first.target, first.link, first.back) == ("o-mq2", "o-mq1", "o-mq2-to-o-mq1", False)
    assert (second.source, second.target, second.link, second.back) == ("o-mq1", "o-mq3", "o-mq3-to-o-mq1", True)
    assert second.host == "o-mq3-a.example.com"


def test_the_answer_says_over_what() -> None:
    why = routes(*PAIRS, topology="chain").reaches("o-mq1", "o-mq3").why

    assert why == "messages go from o-mq1 to o-mq3 over 2 bridges (o-mq1-to-o-mq2, o-mq2-to-o-mq3)"


def test_a_unit_may_be_named_by_its_pair_a_host_or_a_label() -> None:
    found = routes("o-mq1", "o-mq2")

    for name in ("o-mq2", "o-mq2-b", "o-mq2-b.example.com"):
        assert found.reaches("o-mq1", name).arrives_for_every_bridge_choice


def test_a_name_that_nobody_has_is_said() -> None:
    with pytest.raises(InputError, match="nobody is not a broker"):
        routes("o-mq1", "o-mq2").reaches("o-mq1", "nobody")


def test_a_pair_as_a_whole_is_no_single_failure() -> None:
    with pytest.raises(InputError, match="set it to o-mq2-a or o-mq2-b"):
        routes("o-mq1", "o-mq2").reaches("o-mq1", "o-mq2", down="o-mq2")


# -- failures ----------------------------------------------------------------------------------


def test_a_pair_with_a_shared_store_goes_on_over_the_same_bridges() -> None:
    found = routes(*PAIRS, topology="chain")

    for node in ("o-mq2-a", "o-mq2-b"):
        assert found.reaches("o-mq1", "o-mq3", down=node).arrives_for_every_bridge_choice
        assert found.reaches("o-mq1", "o-mq2", down=node).arrives_for_every_bridge_choice


def test_a_single_broker_in_a_chain_strands_whose_messages_pass_it() -> None:
    found = singles("o-mq1", "o-mq2", "o-mq3", topology="chain")

    assert found.source_target_pairs_lost_without("o-mq2-a") == (("o-mq1-a", "o-mq3-a"), ("o-mq3-a", "o-mq1-a"))
    assert found.source_target_pairs_lost_without("o-mq1-a") == ()
    (finding,) = route_findings(found)
    assert (finding.rule, finding.severity, finding.host) == ("R002", "warning", "o-mq2-a.example.com")
    assert "2 routes between other brokers" in finding.message
    assert "from o-mq1-a to consumers on o-mq3-a" in finding.message


def test_a_hub_without_a_stand_in_is_one_finding() -> None:
    found = singles(*PAIRS, topology="hub")

    assert [(f.rule, f.host) for f in route_findings(found)] == [("R002", "o-mq1-a.example.com")]
    assert "6 routes between other brokers" in route_findings(found)[0].message


def test_a_hub_that_is_a_pair_strands_nothing() -> None:
    hub, spokes = hosts("hub-mq1"), hosts("s-mq1", "s-mq2", nodes="a", ha="none")
    links = [{"from": "s", "to": "hub", "duplex": True}]
    found = routes_without_refused_links(
        build_fleet(
            {n: v | {"activemq_links": links, "activemq_topology": "none"} for n, v in (hub | spokes).items()}, {}
        )
    )

    assert found.reaches("s-mq1-a", "s-mq2-a", down="hub-mq1-a").arrives_for_every_bridge_choice
    assert route_findings(found) == ()


def test_a_mesh_of_single_brokers_strands_nothing_of_others() -> None:
    assert route_findings(singles(*PAIRS, topology="mesh")) == ()


def test_a_ring_that_breaks_needs_the_long_way_round() -> None:
    """Its TTL is the longest way of the whole ring, and one death makes a chain of it."""
    five = tuple(f"o-mq{number}" for number in range(1, 6))

    assert ("o-mq1-a", "o-mq3-a") in singles(*five, topology="ring").source_target_pairs_lost_without("o-mq2-a")
    assert singles(*five, topology="ring", network_ttl=4).source_target_pairs_lost_without("o-mq2-a") == ()


@pytest.mark.parametrize("topology", ["mesh", "hub", "ring", "chain"])
def test_each_answer_in_a_failure_agrees_with_what_the_failure_strands(topology: str) -> None:
    found = singles(*PAIRS, topology=topology)
    units = list(found.network.units)

    for dead in units:
        lost = {
            (a, b)
            for a in units
            for b in units
            if dead not in (a, b) and not found.reaches(a, b, down=dead).arrives_for_every_bridge_choice
        }
        assert lost == set(found.source_target_pairs_lost_without(dead))


def test_work_for_every_failure_of_a_chain_grows_with_the_square_of_its_length() -> None:
    def count(length: int) -> int:
        chain = singles(*(f"o-mq{number:03}" for number in range(1, length + 1)), topology="chain")
        hosts = [broker.host for broker in chain.fleet.brokers]
        cut: list[str] = []
        lines = count_lines(
            lambda: cut.extend(
                host
                for host in hosts
                if not chain.reaches("o-mq001", "o-mq003", down=host).arrives_for_every_bridge_choice
            )
        )
        assert [host.partition(".")[0] for host in cut] == ["o-mq001-a", "o-mq002-a", "o-mq003-a"]
        return lines

    assert count(60) < 5 * count(30)


def test_what_a_dead_broker_holds_waits_for_it() -> None:
    found = singles("o-mq1", "o-mq2", topology="chain")

    assert "until it is started again" in found.reaches("o-mq1", "o-mq2", down="o-mq1-a").why
    assert "is down: no consumer can connect to it" in found.reaches("o-mq1", "o-mq2", down="o-mq2-a").why
    assert route_findings(found) == ()


def connector(*addresses: str, attributes: str = "") -> str:
    """A networkConnector as somebody writes it by hand."""
    uri = f"static:({','.join(f'tcp://{address}' for address in addresses)})"
    return (
        f'<networkConnectors><networkConnector name="own" uri="{uri}" userName="net" {attributes}/></networkConnectors>'
    )


def written(variables: dict[str, dict[str, Any]], fragments: dict[str, str]) -> Routes:
    """The routes of a fleet in which some hosts have a fragment of their own."""
    for host, xml in fragments.items():
        variables[f"{host}.example.com"]["activemq_xml_fragments"] = [{"parent": "broker", "xml": xml}]
    found = build_fleet(variables, {})
    return routes_without_refused_links(
        found, {broker.host: XmlDocument(render_activemq_xml_bytes(broker)) for broker in found.brokers}
    )


def test_a_link_to_one_node_of_a_pair_does_not_follow_it() -> None:
    both = 'duplex="true" networkTTL="2"'
    fragments = {
        f"o-mq{a}-{n}": connector(f"o-mq{a + 1}-a.example.com:61616", attributes=both) for a in (1, 2) for n in "ab"
    }
    found = written(hosts("o-mq1", "o-mq2", "o-mq3", topology="none"), fragments)

    assert found.reaches("o-mq1", "o-mq3").arrives_for_every_bridge_choice
    assert not found.reaches("o-mq1", "o-mq3", down="o-mq2-a").arrives_for_every_bridge_choice
    assert found.source_target_pairs_lost_without("o-mq2-a") == (("o-mq1", "o-mq3"), ("o-mq3", "o-mq1"))
    (finding,) = route_findings(found)
    assert "masterslave:" in finding.fix


def test_a_fragments_link_to_both_nodes_follows() -> None:
    xml = connector("o-mq2-a.example.com:61616", "o-mq2-b:61616")
    found = written(hosts("o-mq1", "o-mq2", topology="none"), {"o-mq1-a": xml, "o-mq1-b": xml})

    assert found.reaches("o-mq1", "o-mq2", down="o-mq2-a").arrives_for_every_bridge_choice
    assert not found.reaches("o-mq2", "o-mq1").arrives_for_every_bridge_choice


def test_a_fragments_booleans_are_read_as_spring_reads_them() -> None:
    xml = connector("o-mq2-a.example.com:61616", attributes='duplex="Yes"')
    found = written(hosts("o-mq1", "o-mq2", nodes="a", ha="none", topology="none"), {"o-mq1-a": xml})

    assert found.reaches("o-mq2", "o-mq1").arrives_for_every_bridge_choice


def test_a_fragment_may_change_a_link_of_the_fleet() -> None:
    shorter = '<networkConnectors><networkConnector name="o-mq1-a-to-o-mq2-a" networkTTL="1"/></networkConnectors>'
    found = written(hosts("o-mq1", "o-mq2", "o-mq3", nodes="a", ha="none", topology="chain"), {"o-mq1-a": shorter})

    assert found.reaches("o-mq1", "o-mq2").arrives_for_every_bridge_choice
    assert not found.reaches("o-mq1", "o-mq3").arrives_for_every_bridge_choice
    assert found.reaches("o-mq3", "o-mq2").arrives_for_every_bridge_choice


def test_a_fragments_link_to_somebody_else_is_not_counted() -> None:
    found = written(hosts("o-mq1", topology="none"), {"o-mq1-a": connector("elsewhere.example.org:61616")})

    assert found.idle_links() == ()


def test_a_document_that_is_no_xml_is_said() -> None:
    variables = hosts("o-mq1", xml_fragments=[{"xml": connector("a:1")}])

    with pytest.raises(InputError, match="xml cannot be read"):
        routes_without_refused_links(build_fleet(variables, {}), {"o-mq1-a": XmlDocument(b"<broker")})


# -- the pure profile ----------------------------------------------------------------------------


def pure(*pairs: str) -> Routes:
    return routes(*pairs, ha="pure", release="5.5.1")


def test_a_promoted_slave_drains_and_takes_no_consumers() -> None:
    found = pure("o-mq1", "o-mq2", "o-mq3")

    drained = found.reaches("o-mq1", "o-mq2", down="o-mq1-a")
    assert drained.arrives_for_every_bridge_choice
    assert "o-mq1-b now sends" in drained.why
    assert [hop.host for hop in drained.path] == ["o-mq1-b.example.com"]
    assert "opens no port" in found.reaches("o-mq2", "o-mq1", down="o-mq1-a").why
    assert found.reaches("o-mq2", "o-mq3", down="o-mq1-a").arrives_for_every_bridge_choice


def test_a_dead_pure_slave_changes_nothing() -> None:
    found = pure("o-mq1", "o-mq2")

    assert found.reaches("o-mq2", "o-mq1", down="o-mq1-b") == found.reaches("o-mq2", "o-mq1")


def test_the_network_of_2011_has_no_findings() -> None:
    assert route_findings(pure("o-mq1", "o-mq2")) == ()
    assert route_findings(pure(*(f"o-mq{number}" for number in range(1, 8)))) == ()


# -- TTL and destinations ----------------------------------------------------------------------


def test_a_ttl_one_hop_short_is_named_with_its_link() -> None:
    found = singles("o-mq1", "o-mq2", "o-mq3", topology="chain", network_ttl=1)

    assert found.reaches("o-mq1", "o-mq3").why == (
        "the subscription of a consumer on o-mq3-a ends at o-mq2-a, because link o-mq1-a-to-o-mq2-a has the "
        "consumerTTL (networkTTL) 1, but the route requires 2"
    )


def test_of_two_links_to_a_peer_the_route_names_the_one_whose_ttl_is_long_enough() -> None:
    to_second = [{"from": "o-mq2", "to": "o-mq3", "name": name, "ttl": ttl} for name, ttl in (("near", 1), ("far", 2))]
    found = linked([{"from": "o-mq1", "to": "o-mq2"}, *to_second], "o-mq1", "o-mq2", "o-mq3")

    assert [hop.link for hop in found.path("o-mq1", "o-mq3")] == ["o-mq1-a-to-o-mq2-a", "far"]


def test_a_group_that_cannot_talk_is_one_finding() -> None:
    found = routes("o-mq1", "o-mq2", "o-mq3", topology="chain", network_ttl=1)

    (finding,) = route_findings(found)
    assert (finding.rule, finding.severity) == ("R001", "warning")
    assert finding.message.startswith("messages sent to o-mq1 never reach consumers on o-mq3: ")
    assert finding.message.endswith("In group o, 2 of 6 routes between brokers carry no messages")


def test_a_group_without_a_topology_is_not_asked() -> None:
    links = [{"from": "o-mq1", "to": "o-mq2"}]

    assert route_findings(linked(links, "o-mq1", "o-mq2", "o-mq3")) == ()


def test_a_one_way_link_leads_one_way() -> None:
    found = linked([{"from": "o-mq1", "to": "o-mq2"}], "o-mq1", "o-mq2")

    assert found.reaches("o-mq1-a", "o-mq2-a").arrives_for_every_bridge_choice
    assert found.reaches("o-mq2-a", "o-mq1-a").why == "no bridges lead from o-mq2-a to o-mq1-a"


def test_limits_count_for_a_destination_that_is_asked_for() -> None:
    links = [{"from": "o-mq1", "to": "o-mq2", "include": ["orders.>"], "exclude": ["orders.secret"]}]
    found = linked(links, "o-mq1", "o-mq2")

    def arrives(destination: str) -> bool:
        return found.reaches("o-mq1-a", "o-mq2-a", destination=destination).arrives_for_every_bridge_choice

    assert arrives("orders.new")
    assert arrives("queue://orders")
    assert not arrives("orders.secret")
    assert not arrives("topic://orders.new")
    assert "carry queue://bills" in found.reaches("o-mq1-a", "o-mq2-a", destination="bills").why
    assert "carries only queue://orders.> and not queue://orders.secret" in found.reaches("o-mq1-a", "o-mq2-a").why


@pytest.mark.parametrize(("release", "limited"), [("5.5.1", False), ("5.6.0", True), ("6.3.1", True)])
def test_a_duplex_link_tells_its_peer_what_it_includes_and_not_what_it_excludes(release: str, *, limited: bool) -> None:
    links = [{"from": "o-mq1", "to": "o-mq2", "duplex": True, "include": ["orders.>"], "exclude": ["orders.secret"]}]
    found = linked(links, "o-mq1", "o-mq2", release=release)

    assert found.reaches("o-mq2-a", "o-mq1-a", destination="orders.secret").arrives_for_every_bridge_choice
    assert found.reaches("o-mq2-a", "o-mq1-a", destination="bills").arrives_for_every_bridge_choice is not limited


@pytest.mark.parametrize("text", ["", "a..b", "orders.>", "ftp://x", "*"])
def test_a_destination_that_is_none_or_many_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a single destination"):
        routes("o-mq1", "o-mq2").reaches("o-mq1", "o-mq2", destination=text or "queue://")


def test_a_broker_without_advisories_calls_for_nothing() -> None:
    found = singles("o-mq1", "o-mq2", broker_attributes={"advisorySupport": False})

    assert not found.reaches("o-mq1-a", "o-mq2-a").arrives_for_every_bridge_choice
    assert {finding.rule for finding in route_findings(found)} == {"R001", "R003"}


# -- bridges that carry nothing, and choices --------------------------------------------------------


def test_a_link_within_a_pair_carries_nothing_and_is_what_was_asked_for() -> None:
    found = routes("o-mq1", pair_links="static")

    assert found.idle_links() == (("o-mq1-a.example.com", "o-mq1-a-to-o-mq1-b"),)
    assert [(f.rule, f.severity) for f in route_findings(found)] == [("R003", "info")]


def test_a_fragments_bridge_without_demand_is_a_finding() -> None:
    two = hosts("o-mq1", "o-mq2", nodes="a", ha="none", topology="none")
    found = written(two, {"o-mq1-a": connector("o-mq2-a:61616", attributes='consumerTTL="0"')})

    assert [(f.rule, f.severity, f.host) for f in route_findings(found)] == [("R003", "warning", "o-mq1-a.example.com")]


def test_ways_of_different_length_dealt_out_alike_are_a_finding() -> None:
    """A mesh of five with a TTL of 3, and no priority for the near: messages go astray."""
    names = [f"o-mq{number}" for number in range(1, 6)]
    five = hosts(*names, nodes="a", ha="none", topology="none", release="5.11.4")
    found = written(
        five,
        {f"{a}-a": connector(*(f"{b}-a:61616" for b in names if b != a), attributes='networkTTL="3"') for a in names},
    )

    (finding,) = route_findings(found)
    assert finding.rule == "R004"
    assert "may also choose a route" in found.reaches("o-mq1-a", "o-mq2-a").why


def test_the_long_way_of_an_overloaded_bridge_is_in_the_answer_and_no_finding() -> None:
    found = routes(*(f"o-mq{number}" for number in range(1, 6)), network_ttl=3)

    assert found.reaches("o-mq1", "o-mq2").outcome == "reaches"
    assert "1,000 unacknowledged" in found.reaches("o-mq1", "o-mq2").why
    assert route_findings(found) == ()


@pytest.mark.parametrize("topology", ["mesh", "chain", "hub", "ring"])
def test_work_to_solve_a_fleet_grows_at_most_with_the_square_of_its_pairs(topology: str) -> None:
    def count(pairs: int) -> int:
        network = fleet(*(f"o-mq{number:03}" for number in range(1, pairs + 1)), topology=topology)
        findings: list[object] = []
        lines = count_lines(lambda: findings.extend(route_findings(routes_without_refused_links(network))))
        assert findings == []
        return lines

    assert count(40) < 5 * count(20)


def test_two_hundred_and_fifty_pairs_in_a_hub_have_no_findings() -> None:
    assert (
        route_findings(
            routes_without_refused_links(fleet(*(f"o-mq{number:03}" for number in range(1, 251)), topology="hub"))
        )
        == ()
    )


def test_every_rule_can_be_chosen_and_is_told() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "topology-errors.md").read_text()

    assert set(RULES) == set(re.findall(r"^\| (R\d{3}) \|", page, re.MULTILINE))
    assert select_rules(list(RULES), []).includes_rule("R002")
