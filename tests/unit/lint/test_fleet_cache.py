"""Documents that differ in names only are looked at once; nobody can tell from what is found."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activemq_fleet.lint import fleets, rules
from activemq_fleet.render.activemq_xml import activemq_xml
from activemq_fleet.topology import Fleet, build_fleet
from tests.unit.fleets import fleet, hosts

MISTAKES = [
    {},
    {
        "xml_fragments": [
            {"parent": "broker/networkConnectors", "xml": "<networkConnector uri='masterslave:(tcp://x:1)'/>"}
        ]
    },
    {"broker_attributes": {"persistent": "false"}},
    {"broker_attributes": {"useJmx": "maybe", "schedulerSupport": "true"}},
    {"bind": "127.0.0.1"},
    {"address": "127.0.0.1"},
    {"users": [{"name": "app-1", "password": "long enough"}]},
]
variables = st.fixed_dictionaries(
    {
        "release": st.sampled_from(["5.5.1", "5.8.0", "5.11.4", "5.18.3", "6.3.1"]),
        "topology": st.sampled_from(["mesh", "hub", "ring", "chain", "none"]),
        "discovery": st.sampled_from(["failover", "static", "multicast"]),
        "pair_links": st.sampled_from(["none", "static"]),
    }
)
groups = st.sampled_from(["orders", "static", "failover", "tcp", "x1", "localhost", "a-b"])


def together(one: Fleet) -> list[tuple[str, str, str, int | None, int | None]]:
    documents = {broker.host: activemq_xml(broker) for broker in one.brokers}
    wanted = {rule.id for rule in rules("file")}
    found = fleets.fleet_findings(one, documents)
    return sorted(((f.rule, f.host, f.message, f.line, f.column) for f in found if f.rule in wanted), key=str)


def each_alone(one: Fleet) -> list[tuple[str, str, str, int | None, int | None]]:
    found = [f for broker in one.brokers for f in fleets.document_findings_of(broker, activemq_xml(broker))]
    return sorted(((f.rule, f.host, f.message, f.line, f.column) for f in found), key=str)


@settings(max_examples=max(10, settings().max_examples // 3))  # each is a fleet, whose rules run twice
@given(st.lists(st.tuples(groups, st.integers(1, 12), st.sampled_from(MISTAKES)), min_size=1, max_size=5), variables)
def test_what_is_remembered_is_what_would_be_found(
    pairs: list[tuple[str, int, dict[str, Any]]], common: dict[str, Any]
) -> None:
    inventory: dict[str, dict[str, Any]] = {}
    for group, number, own in pairs:
        inventory |= hosts(f"{group}-mq{number:02}", **common, **own)
    one = build_fleet(inventory, {})
    assert together(one) == each_alone(one)


def test_a_place_after_a_name_is_each_documents_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "_cached_findings", {})
    made = fleet("orders-mq01", "longer-orders-mq02", release="5.8.0", topology="none")

    assert together(made) == each_alone(made)
    assert len({column for rule, _, _, _, column in together(made) if rule == "L004"}) == 2
    assert all(shared is not None for _, shared in fleets._cached_findings.values())


@pytest.mark.parametrize("name", ["orders", "tcp", "static"])
def test_brokers_that_differ_in_names_are_looked_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    alone = fleets.document_findings_of

    def counting(broker: Any, data: bytes, selection: Any) -> Any:
        asked.append(broker.host)
        return alone(broker, data, selection)

    monkeypatch.setattr(fleets, "_cached_findings", {})
    monkeypatch.setattr(fleets, "document_findings_of", counting)
    together(fleet(*(f"{name}-mq{number:02}" for number in range(1, 9))))
    assert len(asked) <= 2


# The finding quotes the URI of a link, which names the pair.
NAMED: dict[str, Any] = {"discovery": "failover", "xml_fragments": [
    {"parent": "broker/networkConnectors",
     "xml": "<networkConnector name='x' uri='masterslave:(tcp://orders-mq01-a.example.com:1)'/>"}]}  # fmt: skip


def test_findings_without_names_are_told_of_each_and_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    alone = fleets.document_findings_of

    def counting(broker: Any, data: bytes, selection: Any) -> Any:
        asked.append(broker.host)
        return alone(broker, data, selection)

    monkeypatch.setattr(fleets, "_cached_findings", {})
    made = fleet(*(f"orders-mq{n:02}" for n in range(1, 5)), topology="none", broker_attributes={"persistent": "false"})
    wanted = each_alone(made)
    monkeypatch.setattr(fleets, "document_findings_of", counting)

    assert together(made) == wanted != []
    assert len(asked) <= 2


def test_of_brokers_with_a_mistake_only_its_rule_looks_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    alone = fleets.document_findings_of

    def counting(broker: Any, data: bytes, selection: Any) -> Any:
        asked.append(selection)
        return alone(broker, data, selection)

    monkeypatch.setattr(fleets, "_cached_findings", {})
    made = fleet(*(f"orders-mq{n:02}" for n in range(1, 5)), **NAMED)
    wanted = each_alone(made)
    monkeypatch.setattr(fleets, "document_findings_of", counting)

    assert together(made) == wanted != []
    assert {selection.select for selection in asked} == {(), ("N001", "N036", "S015", "S016")}


def test_groups_of_other_names_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "_cached_findings", {})
    for group in ("orders", "static", "bills"):
        together(fleet(f"{group}-mq01"))
    assert len(fleets._cached_findings) <= 2
