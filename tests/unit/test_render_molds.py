"""Files that are made once for brokers that are alike, and filled with names, are those made for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from activemq_fleet.errors import FleetError, SettingsError
from activemq_fleet.render import _made, molds, render
from activemq_fleet.render.holes import ShapeError
from activemq_fleet.topology import Broker, Fleet, build_fleet
from tests.unit import fuzz_inputs as inputs
from tests.unit.sound_variables import JDBC, ODD, SOUND, any_of
from tests.unit.test_render_shapes import read_once

pytestmark = pytest.mark.usefixtures("nothing_known")


@pytest.fixture
def nothing_known() -> None:
    molds._trees.clear()
    molds._seen.clear()


# Also such as stand in every file, are each other's beginnings, numbers, code of a template, or no names at all.
GROUPS = ("a", "broker", "activemq", "tcp", "static", "A", "a-", "a--b", "a_b", "mq01", "5", "x.y", "é", "queue", "srv")
LABELS = ("mq{}-{}", "mq0{}-{}", "mq{}0-{}")
DOMAINS = ("", ".example.com", ".a", ".activemq", ".x--y.z", ".a_b.c", ".d-", ".5", ".")
NAMED: dict[str, st.SearchStrategy[Any]] = {
    "address": any_of("::1", "10.0.0.1", "mq--x.example.com", "a"),
    "broker_name": any_of("a", "Two.b", "broker", "a-mq1"),
    "links": any_of(
        [{"from": "a", "to": "broker", "name": "q"}], [{"from": "broker", "to": "a", "name": "tcp.x_y", "duplex": True}]
    ),
    "jdbc": any_of(JDBC, JDBC | {"url": "jdbc:x://a-mq1-a.example.com/a-mq1"}),
    "users": any_of(
        [{"name": "a-mq1", "password": ODD, "groups": ["admins"]}, {"name": "a-mq1-a", "password": "x" * 9}]
    ),
    "extra_files": any_of([{"path": "conf/a-mq1", "content": "a-mq1-a.example.com %s %d {0}"}]),
    "xml_fragments": any_of([{"parent": "broker", "xml": "<plugins><x y='a-mq1'/></plugins>"}]),
}


@st.composite
def fleets(draw: st.DrawFn) -> Fleet | None:
    """Two groups of up to five pairs with hosts of any name, that have the same settings but for one host."""
    said: dict[str, Any] = {
        "release": draw(any_of(*inputs.RELEASES)),
        "ha": draw(any_of("pure", "shared-file", "shared-file", "shared-jdbc", "none")),
        "jdbc": JDBC,
    }
    for source in (SOUND, NAMED):
        chosen = draw(st.lists(st.sampled_from(sorted(source)), max_size=3, unique=True))
        said |= {name: draw(source[name]) for name in chosen}
    domain, label = draw(any_of(*DOMAINS)), draw(any_of(*LABELS))
    hosts: inputs.Hosts = {}
    for group in draw(st.lists(any_of(*GROUPS), min_size=1, max_size=2, unique=True)):
        for number in range(1, draw(st.integers(2, 5)) + 1):
            for node in "ab":
                name = f"{group}-{label.format(number, node)}{domain}"
                hosts[name] = dict(inputs.BASE) | {f"activemq_{key}": value for key, value in said.items()}
    if said["jdbc"] and draw(st.booleans()):
        for name, variables in hosts.items():
            variables["activemq_jdbc"] = JDBC | {"url": f"jdbc:x://db/{name.rpartition('-')[0]}?a=b&c=%s"}
    own = draw(any_of(*sorted(NAMED)))
    hosts[draw(any_of(*hosts))][f"activemq_{own}"] = draw(NAMED[own])
    try:
        return build_fleet(hosts, {}, naming_pattern=PATTERN, read=read_once())
    except FleetError as error:
        event(f"refused: {error}"[:60])
        return None


PATTERN = r"^(?P<group>.+)-mq(?P<number>[0-9]+)-(?P<node>[ab])(?:\.|$)"


def outcome(broker: Broker, *, itself: bool) -> Any:
    try:
        return _made(broker) if itself else render(broker)
    except FleetError as error:
        return str(error)


@given(fleets())
def test_files_of_brokers_with_any_names_are_those_made_for_each(found: Fleet | None) -> None:
    if found is None:
        return
    before = len(molds._trees)
    for broker in found.brokers:
        assert outcome(broker, itself=False) == outcome(broker, itself=True), broker.host
    event(f"{len(molds._trees) > before} that some were made once for several")


def of_group(group: str, domain: str = ".example.com", **said: Any) -> tuple[Broker, ...]:
    """Six pairs that are alike, each with a link to the next."""
    variables = inputs.BASE | {"activemq_topology": "chain"} | {f"activemq_{name}": said[name] for name in said}
    hosts = {f"{group}-mq{number}-{node}{domain}": dict(variables) for number in range(1, 7) for node in "ab"}
    return build_fleet(hosts, {}, naming_pattern=PATTERN, read=read_once()).brokers


def filled(brokers: tuple[Broker, ...]) -> Iterator[Broker]:
    for broker in brokers:
        if molds.tree_of(broker, _made) is not None:
            yield broker


def test_of_a_group_that_is_alike_most_brokers_are_not_made_themselves() -> None:
    brokers = of_group("orders")

    assert len(list(filled(brokers))) >= 6
    assert None not in list(molds.trees_of(brokers, _made))
    assert [render(broker) for broker in brokers] == [_made(broker) for broker in brokers]


@pytest.mark.parametrize("group", ["a--b", "a-", "a_b", "é"])
def test_a_broker_whose_name_is_no_host_name_is_made_itself(group: str) -> None:
    assert list(filled(of_group(group))) == []


def test_brokers_with_fragments_are_made_themselves() -> None:
    assert list(filled(of_group("a", xml_fragments=[{"parent": "broker", "xml": "<plugins/>"}]))) == []


@pytest.mark.parametrize(
    "change",
    [
        {"networked": False},
        {"store_directory": "/srv/other"},
        {"peer_address": None},
        {"links": ()},
        {"permissions": ()},
        {"accounts": ()},
        {"connectors": ()},
        {"ports": {}},
    ],
)
def test_what_files_say_beside_names_makes_another_kind(change: dict[str, Any]) -> None:
    acl = [{"destination": "a.>", "kind": "queue", "read": ["x"]}]
    broker = of_group("orders", acl=acl)[0]

    assert molds.key_of(replace(broker, **change)) != molds.key_of(broker)


@pytest.mark.parametrize("field", ["duplex", "network_ttl", "include", "exclude", "destination_filter", "message_ttl"])
def test_what_files_say_of_a_link_makes_another_kind(field: str) -> None:
    broker = of_group("orders")[0]
    change: dict[str, Any] = {field: ("queue://other",) if "clude" in field else 7}
    other = replace(broker.links[0], **change)

    assert molds.key_of(replace(broker, links=(other, *broker.links[1:]))) != molds.key_of(broker)


@pytest.mark.parametrize(
    "use",
    [
        lambda b: b.links[0].uri,
        lambda b: b.links[0].name.replace("<", "&lt;"),
        lambda b: b.address,
        lambda b: b.identity.number,
        lambda b: b.links[0].target,
        lambda b: b.host.upper().lower().replace("p0z", "p0"),
    ],
)
def test_a_name_that_is_used_otherwise_than_the_files_do_is_refused(use: Any) -> None:
    def made(broker: Broker) -> dict[str, bytes]:
        return {"x": use(broker).encode()}

    with pytest.raises(ShapeError):
        [molds.tree_of(broker, made) for broker in of_group("orders")]


def test_what_is_refused_is_told_by_its_own_name() -> None:
    for broker in of_group("orders", extra_files=[{"path": "conf/activemq.xml", "content": ""}]):
        with pytest.raises(SettingsError, match=rf"^{broker.host}: activemq_extra_files\[0\]"):
            render(broker)


def test_no_more_kinds_are_kept_than_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(molds, "_MOST", 3)
    for number in range(12):
        for broker in of_group(f"orders{number}"):
            assert render(broker) == _made(broker)

    assert len(molds._trees) <= 3
    assert len(molds._seen) <= 3


def test_pairs_with_a_database_of_their_own_are_alike() -> None:
    hosts = {
        f"orders-mq{number}-{node}": inputs.BASE
        | {"activemq_ha": "shared-jdbc", "activemq_jdbc": JDBC | {"url": f"jdbc:x://db/{number}?a=b&c=d"}}
        for number in range(1, 7)
        for node in "ab"
    }
    brokers = build_fleet(hosts, {}, read=read_once()).brokers

    assert len(list(filled(brokers))) >= 8
    assert [render(broker) for broker in brokers] == [_made(broker) for broker in brokers]


def test_links_whose_uris_have_to_be_escaped_are_filled_in() -> None:
    brokers = of_group("orders", release="5.5.1", ha="shared-file")

    assert "&" in brokers[0].links[0].uri
    assert list(filled(brokers))
    assert [render(broker) for broker in brokers] == [_made(broker) for broker in brokers]
