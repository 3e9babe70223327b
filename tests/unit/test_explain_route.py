"""The route of a message between hosts: its bridges, the return route, and the failures that break it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.explain import HostExplanation, explanation_to_text
from activemq_fleet.explain.host_pages import explain_host_by_name
from activemq_fleet.explain.route_page import explain_route
from activemq_fleet.routes import routes_without_refused_links
from activemq_fleet.topology import AGENTS, BALANCERS, Fleet, build_fleet
from tests.unit.fleets import fleet, hosts
from tests.work import count_lines

AGENT = {"activemq_agent_username": "till", "activemq_agent_password": "a secret"}


def route_explanation(
    explained_fleet: Fleet, source: str, target: str, destination: str | None = None
) -> HostExplanation:
    return explain_route(explained_fleet, routes_without_refused_links(explained_fleet), source, target, destination)


def route_outcome(explanation: HostExplanation, section: str = "way") -> str:
    return str(explanation.section(section).entries[0].data["outcome"])


def bridges(explanation: HostExplanation, section: str = "way") -> list[tuple[str, str]]:
    return [(entry.data["source"], entry.data["target"]) for entry in explanation.section(section).entries[1:]]


def brokers_that_break_route(explanation: HostExplanation) -> list[str]:
    """Return the brokers whose failure breaks the route, in the order of the explanation."""
    return [host for entry in explanation.section("failures").entries for host in entry.data.get("down", ())]


def chain_fleet(**variables: Any) -> Fleet:
    return fleet("orders-mq01", "orders-mq02", "orders-mq03", topology="chain", **variables)


def test_bridges_of_route_are_shown_with_link_and_its_broker() -> None:
    explanation = route_explanation(chain_fleet(), "orders-mq01-a", "orders-mq03-b")
    assert route_outcome(explanation) == "reaches"
    assert bridges(explanation) == [("orders-mq01", "orders-mq02"), ("orders-mq02", "orders-mq03")]
    first_bridge = explanation.section("way").entries[1]
    assert first_bridge.why == "the message crosses the link orders-mq01-to-orders-mq02 of orders-mq01-a.example.com"
    assert first_bridge.details == ("masterslave, networkTTL 2: a message crosses at most 2 bridges",)


def test_return_route_uses_duplex_links() -> None:
    explanation = route_explanation(chain_fleet(), "orders-mq01-a", "orders-mq02-a")
    assert [entry.data["back"] for entry in explanation.section("back").entries[1:]] == [True]


def test_link_that_is_not_duplex_has_no_return_route_and_gives_reason() -> None:
    explained_fleet = fleet("orders-mq01", "billing-mq01", links=[{"from": "orders", "to": "billing"}])
    explanation = route_explanation(explained_fleet, "orders-mq01-a", "billing-mq01-a")
    assert (route_outcome(explanation), route_outcome(explanation, "back")) == ("reaches", "does not reach")
    assert bridges(explanation, "back") == []
    assert explanation.section("back").entries[0].why != ""


def test_single_failure_does_not_break_route_of_pairs_with_shared_stores() -> None:
    explanation = route_explanation(chain_fleet(), "orders-mq01-a", "orders-mq03-a")
    assert brokers_that_break_route(explanation) == []
    assert (
        explanation.section("failures").entries[0].why == "the message arrives even if any one of the 6 brokers is down"
    )


def test_failure_of_any_single_broker_on_route_breaks_it() -> None:
    explained_fleet = fleet("orders-mq01", "orders-mq02", "orders-mq03", nodes="a", ha="none", topology="chain")
    explanation = route_explanation(explained_fleet, "orders-mq01-a", "orders-mq03-a")
    assert brokers_that_break_route(explanation) == [f"orders-mq0{number}-a.example.com" for number in (1, 2, 3)]
    assert explanation.section("failures").entries[1].why != ""


def test_message_does_not_reach_target_beyond_network_ttl() -> None:
    assert (
        route_outcome(route_explanation(chain_fleet(network_ttl=1), "orders-mq01-a", "orders-mq03-a"))
        == "does not reach"
    )


def test_destination_that_no_link_carries_does_not_reach_target() -> None:
    links = [{"from": "orders", "to": "billing", "include": ["queue://invoices.>"]}]
    explained_fleet = fleet("orders-mq01", "billing-mq01", links=links)
    assert (
        route_outcome(route_explanation(explained_fleet, "orders-mq01-a", "billing-mq01-a", "invoices.new"))
        == "reaches"
    )
    explanation = route_explanation(explained_fleet, "orders-mq01-a", "billing-mq01-a", "orders.new")
    assert route_outcome(explanation) == "does not reach"
    assert explanation.title.endswith("billing-mq01-a.example.com for orders.new: does not reach")


def test_route_of_agent_begins_at_its_home_pair() -> None:
    agents = {"till1": AGENT | {"activemq_agent_pair": "orders-mq02"}}
    explained_fleet = build_fleet(hosts("orders-mq01", "orders-mq02") | agents, {AGENTS: ["till1"]})
    assert bridges(route_explanation(explained_fleet, "till1", "orders-mq01-a")) == [("orders-mq02", "orders-mq01")]


def test_route_of_balancer_is_refused() -> None:
    explained_fleet = build_fleet(hosts("orders-mq01") | {"lb1": {}}, {BALANCERS: ["lb1"]})
    with pytest.raises(InputError, match="messages have no route to host lb1, because it is a load balancer"):
        route_explanation(explained_fleet, "lb1", "orders-mq01-a")


def test_unknown_target_is_refused_with_suggestion() -> None:
    with pytest.raises(InputError, match=r"did you mean orders-mq02-b\.example\.com"):
        route_explanation(chain_fleet(), "orders-mq01-a", "orders-mq2-b")


def test_broker_failures_with_same_effect_on_route_share_line() -> None:
    names = [f"orders-mq{number:02}" for number in range(30)]
    explanation = route_explanation(
        fleet(*names, nodes="a", ha="none", topology="chain"), "orders-mq00-a", "orders-mq29-a"
    )
    first_failure, middle_failures, last_failure = explanation.section("failures").entries
    assert (first_failure.label, middle_failures.label, last_failure.label) == (
        "orders-mq00-a",
        "any one of 28 brokers",
        "orders-mq29-a",
    )
    assert len(brokers_that_break_route(explanation)) == 30
    assert middle_failures.details[0].startswith("orders-mq01-a, orders-mq02-a, ")
    assert middle_failures.details[0].endswith(" and 8 more")


def test_failures_without_effect_on_broken_route_share_line() -> None:
    explanation = route_explanation(
        fleet("orders-mq01", "orders-mq02", topology="none"), "orders-mq01-a", "orders-mq02-a"
    )
    (failures_entry,) = explanation.section("failures").entries
    assert (failures_entry.label, failures_entry.text) == ("any one of 4 brokers", "changes nothing")
    assert failures_entry.why == "the result is the same as when all brokers are up: does not reach"


def test_ring_of_three_data_centers_strands_no_message() -> None:
    """A message takes a route that ends early only over a full bridge. The page notes that; the outcome is the same."""
    ring = [{"from": f"{a}-mq01", "to": f"{b}-mq01", "duplex": True} for a, b in ("lp", "pf", "fl")]
    explained_fleet = fleet(*(f"{group}-mq0{number}" for group in "lpf" for number in (1, 2, 3)), links=ring)
    explanation = route_explanation(explained_fleet, "l-mq02-a", "f-mq03-a")
    assert route_outcome(explanation) == "reaches"
    assert "while a bridge has 1,000 unacknowledged messages" in explanation.section("way").entries[0].why
    assert brokers_that_break_route(explanation) == []


def reach_by_label(explained_fleet: Fleet, host: str) -> dict[str, str]:
    section = explain_host_by_name(explained_fleet, host, routes_without_refused_links(explained_fleet)).section(
        "reach"
    )
    return {entry.label: entry.text for entry in section.entries}


def test_explain_page_of_broker_shows_reachable_members_by_group() -> None:
    explained_fleet = fleet(
        "orders-mq01", "orders-mq02", "orders-mq03", "billing-mq01", links=[{"from": "billing", "to": "orders"}]
    )
    assert reach_by_label(explained_fleet, "billing-mq01-a") == {
        "orders": "a message reaches all 3 members of group orders",
        "lost routes": "none: if billing-mq01-a.example.com fails, no route between other pairs is lost",
    }
    assert reach_by_label(explained_fleet, "orders-mq01-b")["billing"] == "a message does not reach billing-mq01"
    assert (
        reach_by_label(explained_fleet, "orders-mq01-b")["orders"]
        == "a message reaches all 2 other members of group orders"
    )


def test_explain_page_of_single_broker_lists_routes_that_its_failure_breaks() -> None:
    explained_fleet = fleet("orders-mq01", "orders-mq02", "orders-mq03", nodes="a", ha="none", topology="hub")
    assert reach_by_label(explained_fleet, "orders-mq01-a")["lost routes"] == (
        "orders-mq02-a to orders-mq03-a, orders-mq03-a to orders-mq02-a"
    )
    assert reach_by_label(explained_fleet, "orders-mq02-a")["lost routes"] == (
        "none: if orders-mq02-a.example.com fails, no route between other brokers is lost"
    )


def test_explain_page_in_fleet_of_single_pair_has_no_section_about_reach() -> None:
    explained_fleet = fleet("orders-mq01")
    names = [
        section.name
        for section in explain_host_by_name(
            explained_fleet, "orders-mq01-a", routes_without_refused_links(explained_fleet)
        ).sections
    ]
    assert "reach" not in names


def test_explain_page_of_route_fits_80_columns() -> None:
    for line in explanation_to_text(
        route_explanation(chain_fleet(), "orders-mq01-a", "orders-mq03-a"), width=80
    ).splitlines():
        assert len(line) <= 80 or re.fullmatch(r"\s*\S+", line)


def test_work_to_explain_route_grows_at_most_quadratically_with_fleet() -> None:
    def count(groups: int) -> int:
        names = [f"group{group:02}-mq{number:02}" for group in range(groups) for number in range(10)]
        links = [{"from": f"group{group:02}", "to": "group00-mq00", "duplex": True} for group in range(1, groups)]
        hub = fleet(*names, topology="hub", links=links)
        return count_lines(
            lambda: outcomes.append(route_outcome(route_explanation(hub, "group02-mq05-a", "group03-mq08-b")))
        )

    outcomes: list[str] = []
    small, large = count(5), count(10)

    assert large < 5 * small
    assert {*outcomes} <= {"reaches", "does not reach", "may strand"}
