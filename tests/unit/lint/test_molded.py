"""Kinds that are found by the words around names are those that are found by a look at the whole document."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from activemq_fleet.errors import FleetError
from activemq_fleet.lint import molded
from activemq_fleet.lint.kinds import kind_of
from activemq_fleet.render import ACTIVEMQ_XML, molds, render_hosts
from activemq_fleet.topology import Broker, Fleet, build_fleet
from tests.unit.fleets import hosts
from tests.unit.test_render_shapes import read_once


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    for known in (molds._trees, molds._seen, molds._lately, molded._known):
        known.clear()


# Also such as look like an own name themselves, and begin those of their hosts.
GROUPS = ("orders", "orders", "bills", "tcp", "x.y", "a-1", "1.0", "eu-1")
ADMINS = ["admins"]
# Words of a document that are some pair's name too, hold it, or begin or end with a part of it.
OWN: list[dict[str, Any]] = [
    {},
    *(
        {"acl": [{"destination": name, "kind": "queue", "read": ADMINS, "write": ADMINS}]}
        for name in ("orders-mq02", "orders-mq02-a.example.com", "my.orders-mq01x", "q.orders", "mq01.bills-mq02.>")
    ),
    {"broker_attributes": {"useJmx": "orders-mq01"}},
    {"users": [{"name": "orders-mq01", "password": "long enough"}, {"name": "app-1", "password": "long enough"}]},
    {"users": [{"name": "orders-mq01-a", "password": "long enough"}]},
    {"users": [{"name": "1-a.example", "password": "long enough"}]},
    {"address": "10.0.0.1"},
    {"address": "0.0.0.0"},
    {"discovery": "multicast"},
    {"pair_links": "static"},
]
variables = st.fixed_dictionaries(
    {
        "release": st.sampled_from(["5.8.0", "5.18.3", "6.3.1"]),
        "topology": st.sampled_from(["mesh", "hub", "ring", "none"]),
        "discovery": st.sampled_from(["failover", "static"]),
    }
)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet | None:
    """Groups of several pairs, each with settings of its own, or all with the same."""
    common, inventory = draw(variables), dict[str, dict[str, Any]]()
    for group in draw(st.lists(st.sampled_from(GROUPS), min_size=1, max_size=2, unique=True)):
        own = draw(st.sampled_from(OWN))
        for number in range(1, draw(st.integers(2, 6)) + 1):
            inventory |= hosts(f"{group}-mq{number:02}", **(common | own))
    try:
        return build_fleet(inventory, {}, read=read_once())
    except FleetError as error:
        event(f"refused: {error}"[:60])
        return None


def documents_of(made: Fleet) -> dict[str, bytes]:
    return {host: tree[ACTIVEMQ_XML] for host, tree in render_hosts(made).items() if ACTIVEMQ_XML in tree}


@pytest.mark.parametrize("own", OWN)
def test_words_of_the_document_that_are_names_are_told_apart(own: dict[str, Any]) -> None:
    made = build_fleet(
        hosts(*(f"orders-mq{n:02}" for n in range(1, 6)), **({"topology": "hub"} | own)), {}, read=read_once()
    )
    documents = documents_of(made)
    wanted = {broker.host: kind_of(broker, documents[broker.host]) for broker in made.brokers}

    assert molded.kinds_of(made.brokers, documents) == wanted


@given(fleets())
def test_a_kind_is_that_of_the_whole_document(made: Fleet | None) -> None:
    if made is not None:
        molded._known.clear()
        documents = documents_of(made)
        wanted = {broker.host: kind_of(broker, documents[broker.host]) for broker in made.brokers}
        for _ in range(2):  # the second time all forms are known
            assert molded.kinds_of(made.brokers, documents) == wanted
        event(f"molds: {min(len(molded._known), 3)}, forms: {sum(len(w.kinds) for w in molded._known.values() if w)}")


def test_the_whole_document_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counting(broker: Broker, data: bytes) -> bytes:
        asked.append(broker.host)
        return kind_of(broker, data)

    monkeypatch.setattr(molded, "kind_of", counting)
    inventory: dict[str, dict[str, Any]] = {}
    for number in range(1, 21):
        inventory |= hosts(f"orders-mq{number:02}", topology="none")
    made = build_fleet(inventory, {}, read=read_once())
    molded.kinds_of(made.brokers, documents_of(made))

    assert 0 < len(asked) <= 4 < len(made.brokers)


def test_a_document_that_was_changed_afterwards_has_a_kind_of_its_own() -> None:
    named = hosts(*(f"orders-mq{number:02}" for number in range(1, 5)), topology="none")
    made = build_fleet(named, {}, read=read_once())
    documents = documents_of(made)
    molded.kinds_of(made.brokers, documents)
    assert all(molds.filled_of(broker) for broker in made.brokers)
    documents[made.brokers[-1].host] += b"<!-- here only -->"

    assert molded.kinds_of(made.brokers, documents) == {
        broker.host: kind_of(broker, documents[broker.host]) for broker in made.brokers
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a %s b", ["%s"]),
        ("a-%s.b c", ["a-%s.b"]),
        ("%s%s", ["%s%s"]),
        ("%s-%s (%s)", ["%s-%s", "%s"]),
        ("x:%sy", ["%sy"]),
        ("no place", []),
    ],
)
def test_a_place_takes_the_letters_that_touch_it(text: str, words: list[str]) -> None:
    assert list(molded._around_places(text.split("%s"))) == words
