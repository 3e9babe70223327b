"""The way of a message from host to host: its bridges, the way back, and the deaths that cut it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.explain import HostExplanation, explain_host_by_name, explanation_to_text
from activemq_fleet.explain.route import explain_route
from activemq_fleet.routes import routes_without_refused_links
from activemq_fleet.topology import AGENTS, BALANCERS, Fleet, build_fleet
from tests.unit.fleets import fleet, hosts
from tests.work import count_lines

AGENT = {"activemq_agent_username": "till", "activemq_agent_password": "a secret"}


def story(examined: Fleet, source: str, target: str, destination: str | None = None) -> HostExplanation:
    return explain_route(examined, routes_without_refused_links(examined), source, target, destination)


def outcome(explanation: HostExplanation, section: str = "way") -> str:
    return str(explanation.section(section).entries[0].data["outcome"])


def bridges(explanation: HostExplanation, section: str = "way") -> list[tuple[str, str]]:
    return [(entry.data["source"], entry.data["target"]) for entry in explanation.section(section).entries[1:]]


def cut_by(explanation: HostExplanation) -> list[str]:
    """The brokers without any one of which it does not arrive, in the order in which they are explanation."""
    return [host for entry in explanation.section("failures").entries for host in entry.data.get("down", ())]


def chain(**variables: Any) -> Fleet:
    return fleet("orders-mq01", "orders-mq02", "orders-mq03", topology="chain", **variables)


def test_each_bridge_of_the_way_is_told_with_its_link_and_who_dials_it() -> None:
    explanation = story(chain(), "orders-mq01-a", "orders-mq03-b")
    assert outcome(explanation) == "reaches"
    assert bridges(explanation) == [("orders-mq01", "orders-mq02"), ("orders-mq02", "orders-mq03")]
    first = explanation.section("way").entries[1]
    assert first.why == "the message crosses the link orders-mq01-to-orders-mq02 of orders-mq01-a.example.com"
    assert first.details == ("masterslave, networkTTL 2: a message crosses at most 2 bridges",)


def test_the_way_back_goes_back_over_duplex_links() -> None:
    explanation = story(chain(), "orders-mq01-a", "orders-mq02-a")
    assert [entry.data["back"] for entry in explanation.section("back").entries[1:]] == [True]


def test_a_link_of_one_way_has_no_way_back_and_says_why() -> None:
    examined = fleet("orders-mq01", "billing-mq01", links=[{"from": "orders", "to": "billing"}])
    explanation = story(examined, "orders-mq01-a", "billing-mq01-a")
    assert (outcome(explanation), outcome(explanation, "back")) == ("reaches", "does not reach")
    assert bridges(explanation, "back") == []
    assert explanation.section("back").entries[0].why != ""


def test_no_single_death_cuts_the_way_of_pairs_that_share_their_stores() -> None:
    explanation = story(chain(), "orders-mq01-a", "orders-mq03-a")
    assert cut_by(explanation) == []
    assert (
        explanation.section("failures").entries[0].why == "the message arrives even if any one of the 6 brokers is down"
    )


def test_the_death_of_a_single_broker_in_the_middle_cuts_the_way() -> None:
    examined = fleet("orders-mq01", "orders-mq02", "orders-mq03", nodes="a", ha="none", topology="chain")
    explanation = story(examined, "orders-mq01-a", "orders-mq03-a")
    assert cut_by(explanation) == [f"orders-mq0{number}-a.example.com" for number in (1, 2, 3)]
    assert explanation.section("failures").entries[1].why != ""


def test_a_ttl_one_hop_short_is_told() -> None:
    assert outcome(story(chain(network_ttl=1), "orders-mq01-a", "orders-mq03-a")) == "does not reach"


def test_a_destination_that_no_link_carries_does_not_arrive() -> None:
    links = [{"from": "orders", "to": "billing", "include": ["queue://invoices.>"]}]
    examined = fleet("orders-mq01", "billing-mq01", links=links)
    assert outcome(story(examined, "orders-mq01-a", "billing-mq01-a", "invoices.new")) == "reaches"
    explanation = story(examined, "orders-mq01-a", "billing-mq01-a", "orders.new")
    assert outcome(explanation) == "does not reach"
    assert explanation.title.endswith("billing-mq01-a.example.com for orders.new: does not reach")


def test_an_agent_stands_for_its_home_pair() -> None:
    agents = {"till1": AGENT | {"activemq_agent_pair": "orders-mq02"}}
    examined = build_fleet(hosts("orders-mq01", "orders-mq02") | agents, {AGENTS: ["till1"]})
    assert bridges(story(examined, "till1", "orders-mq01-a")) == [("orders-mq02", "orders-mq01")]


def test_a_balancer_sends_no_messages() -> None:
    examined = build_fleet(hosts("orders-mq01") | {"lb1": {}}, {BALANCERS: ["lb1"]})
    with pytest.raises(InputError, match="messages have no route to host lb1, because it is a load balancer"):
        story(examined, "lb1", "orders-mq01-a")


def test_an_unknown_end_gets_a_suggestion() -> None:
    with pytest.raises(InputError, match=r"did you mean orders-mq02-b\.example\.com"):
        story(chain(), "orders-mq01-a", "orders-mq2-b")


def test_what_is_the_same_for_many_deaths_is_said_once() -> None:
    names = [f"orders-mq{number:02}" for number in range(30)]
    explanation = story(fleet(*names, nodes="a", ha="none", topology="chain"), "orders-mq00-a", "orders-mq29-a")
    first, middle, last = explanation.section("failures").entries
    assert (first.label, middle.label, last.label) == ("orders-mq00-a", "any one of 28 brokers", "orders-mq29-a")
    assert len(cut_by(explanation)) == 30
    assert middle.details[0].startswith("orders-mq01-a, orders-mq02-a, ")
    assert middle.details[0].endswith(" and 8 more")


def test_deaths_that_change_nothing_of_a_way_that_is_cut_are_one_line() -> None:
    explanation = story(fleet("orders-mq01", "orders-mq02", topology="none"), "orders-mq01-a", "orders-mq02-a")
    (entry,) = explanation.section("failures").entries
    assert (entry.label, entry.text) == ("any one of 4 brokers", "changes nothing")
    assert entry.why == "the result is the same as when all brokers are up: does not reach"


def test_three_data_centres_in_a_ring_strand_nothing() -> None:
    """Only a full bridge takes a way that ends early there, which is said and is no other outcome."""
    ring = [{"from": f"{a}-mq01", "to": f"{b}-mq01", "duplex": True} for a, b in ("lp", "pf", "fl")]
    examined = fleet(*(f"{group}-mq0{number}" for group in "lpf" for number in (1, 2, 3)), links=ring)
    explanation = story(examined, "l-mq02-a", "f-mq03-a")
    assert outcome(explanation) == "reaches"
    assert "while a bridge has 1,000 unacknowledged messages" in explanation.section("way").entries[0].why
    assert cut_by(explanation) == []


def reached(examined: Fleet, host: str) -> dict[str, str]:
    section = explain_host_by_name(examined, host, routes_without_refused_links(examined)).section("reach")
    return {entry.label: entry.text for entry in section.entries}


def test_the_page_of_a_broker_says_group_by_group_whom_it_reaches() -> None:
    examined = fleet(
        "orders-mq01", "orders-mq02", "orders-mq03", "billing-mq01", links=[{"from": "billing", "to": "orders"}]
    )
    assert reached(examined, "billing-mq01-a") == {
        "orders": "a message reaches all 3 members of group orders",
        "lost routes": "none: if billing-mq01-a.example.com fails, no route between other pairs is lost",
    }
    assert reached(examined, "orders-mq01-b")["billing"] == "a message does not reach billing-mq01"
    assert reached(examined, "orders-mq01-b")["orders"] == "a message reaches all 2 other members of group orders"


def test_the_page_of_a_single_broker_says_whose_ways_its_death_cuts() -> None:
    examined = fleet("orders-mq01", "orders-mq02", "orders-mq03", nodes="a", ha="none", topology="hub")
    assert reached(examined, "orders-mq01-a")["lost routes"] == (
        "orders-mq02-a to orders-mq03-a, orders-mq03-a to orders-mq02-a"
    )
    assert reached(examined, "orders-mq02-a")["lost routes"] == (
        "none: if orders-mq02-a.example.com fails, no route between other brokers is lost"
    )


def test_fleet_of_one_pair_has_no_section_about_reach() -> None:
    examined = fleet("orders-mq01")
    names = [
        section.name
        for section in explain_host_by_name(examined, "orders-mq01-a", routes_without_refused_links(examined)).sections
    ]
    assert "reach" not in names


def test_the_page_is_readable_at_eighty_columns() -> None:
    for line in explanation_to_text(story(chain(), "orders-mq01-a", "orders-mq03-a"), width=80).splitlines():
        assert len(line) <= 80 or re.fullmatch(r"\s*\S+", line)


def test_work_to_explain_a_route_grows_at_most_with_the_square_of_the_fleet() -> None:
    def count(groups: int) -> int:
        names = [f"group{group:02}-mq{number:02}" for group in range(groups) for number in range(10)]
        links = [{"from": f"group{group:02}", "to": "group00-mq00", "duplex": True} for group in range(1, groups)]
        hub = fleet(*names, topology="hub", links=links)
        return count_lines(lambda: outcomes.append(outcome(story(hub, "group02-mq05-a", "group03-mq08-b"))))

    outcomes: list[str] = []
    small, large = count(5), count(10)

    assert large < 5 * small
    assert {*outcomes} <= {"reaches", "does not reach", "may strand"}
