"""Explanations of single brokers, which mention no pairs if none exists and list every link."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.explain import HostExplanation, explain_host
from activemq_fleet.topology import Fleet, build_fleet

SINGLE = {
    "activemq_release": "5.18.3",
    "activemq_ha": "none",
    "activemq_topology": "none",
    "activemq_authentication": "none",
    "activemq_waivers": [{"rule": "S003", "reason": "test"}],
}
FRAGMENT = {
    "xml": "<networkConnectors><networkConnector name='by-hand' uri='static:(tcp://{}:61616)' duplex='true'/>"
    "</networkConnectors>"
}


def fleet(*hosts: str, **variables: Any) -> Fleet:
    """Return a fleet of single brokers."""
    changes = {f"activemq_{name}": value for name, value in variables.items()}
    return build_fleet({host: {**SINGLE, **changes} for host in hosts}, {})


def texts_by_label(explanation: HostExplanation, section: str) -> dict[str, str]:
    """Return the texts of a section's entries by label, with the reason."""
    return {e.label: f"{e.text} ({e.why})" if e.why else e.text for e in explanation.section(section).entries}


def test_explain_page_of_single_broker_mentions_no_pair_in_its_sections() -> None:
    brokers = fleet("a-mq01-a", "a-mq02-a", "b-mq01-a", links=[{"from": "a-mq01", "to": "a-mq02"}])

    for host in ("a-mq01-a", "b-mq01-a"):
        explanation = explain_host(brokers, host)
        for name in ("role", "links-out", "links-in", "reach", "dies", "clients", "accounts"):
            section = explanation.section(name)
            texts = [section.title, section.intro, *(f"{e.text} {e.why}" for e in section.entries)]
            assert [text for text in texts if "pair" in text] == []


def test_group_of_single_brokers_is_counted_as_brokers() -> None:
    assert texts_by_label(explain_host(fleet("a-mq01-a"), "a-mq01-a"), "role")["group"] == "a, with no other broker"
    brokers = fleet("a-mq01-a", "a-mq02-a", "a-mq01-b")
    assert (
        texts_by_label(explain_host(brokers, "a-mq01-a"), "role")["group"]
        == "a, 3 single brokers with no links between them"
    )


def test_group_of_pairs_and_single_brokers_counts_both() -> None:
    pair = {"activemq_release": "5.18.3", "activemq_topology": "none"}
    hosts = {"a-mq01-a": pair, "a-mq01-b": pair, "a-mq02-a": {**pair, "activemq_ha": "none"}}
    group = texts_by_label(explain_host(build_fleet(hosts, {}), "a-mq02-a"), "role")["group"]
    assert group == "a, 1 pair and 1 single broker with no links between them"


@pytest.mark.parametrize(
    ("variables", "defined_by"),
    [
        ({"links": [{"from": "a-mq01", "to": "a-mq02"}]}, "activemq_links"),
        ({"xml_fragments": [{"xml": FRAGMENT["xml"].format("a-mq02-a")}]}, "activemq_xml_fragments"),
    ],
)
def test_group_without_topology_names_variable_of_its_links(variables: dict[str, Any], defined_by: str) -> None:
    group = texts_by_label(explain_host(fleet("a-mq01-a", "a-mq02-a", **variables), "a-mq01-a"), "role")["group"]
    assert group == f"a, 2 single brokers with the links of {defined_by}"


def test_links_of_xml_fragments_are_outgoing_and_incoming_links() -> None:
    fragments = [{"xml": FRAGMENT["xml"].format("a-mq02-a")}]
    hosts = {"a-mq01-a": {**SINGLE, "activemq_xml_fragments": fragments}, "a-mq02-a": SINGLE}
    brokers = build_fleet(hosts, {})

    outgoing = texts_by_label(explain_host(brokers, "a-mq01-a"), "links-out")
    assert outgoing == {"by-hand": "to a-mq02-a: messages flow in both directions"}
    incoming = texts_by_label(explain_host(brokers, "a-mq02-a"), "links-in")
    assert incoming == {"by-hand": "a-mq01-a opens this link: messages flow in both directions"}


def test_link_of_xml_fragment_to_unknown_broker_is_listed() -> None:
    brokers = fleet("a-mq01-a", xml_fragments=[{"xml": FRAGMENT["xml"].format("elsewhere")}])

    outgoing = explain_host(brokers, "a-mq01-a").section("links-out").entries
    assert [(e.label, e.details) for e in outgoing] == [("by-hand", ("static:(tcp://elsewhere:61616)",))]


def test_links_are_retried_after_failure_only_if_broker_has_links() -> None:
    assert "links" not in texts_by_label(explain_host(fleet("a-mq01-a"), "a-mq01-a"), "dies")
    linked_brokers = fleet("a-mq01-a", "a-mq02-a", links=[{"from": "a-mq01", "to": "a-mq02"}])
    assert (
        texts_by_label(explain_host(linked_brokers, "a-mq01-a"), "dies")["links"]
        == "other brokers retry their links to a-mq01-a until it runs again"
    )


def test_accounts_of_broker_without_authentication_accept_any_client() -> None:
    accounts = texts_by_label(explain_host(fleet("a-mq01-a"), "a-mq01-a"), "accounts")
    assert accounts == {
        "login": "the broker accepts any client without a login",
        "rights": "any client has all rights on all destinations",
    }


def test_accounts_of_broker_with_login_plugin_name_plugin() -> None:
    accounts = texts_by_label(explain_host(fleet("a-mq01-a", authentication="custom"), "a-mq01-a"), "accounts")
    assert accounts["login"] == "a plugin of activemq_xml_fragments decides which clients can log in"
    assert "none" not in accounts
