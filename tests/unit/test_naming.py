"""What a host name says."""

from __future__ import annotations

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.naming import Identity, Naming


def test_a_full_name_gives_group_number_node_pair_role_and_domain() -> None:
    identity = Naming().identify("orders-mq01-a.example.com")

    assert identity == Identity(
        "orders-mq01-a.example.com", "orders", "01", "a", "orders-mq01", "master", "example.com"
    )
    assert identity.host == "orders-mq01-a"


@pytest.mark.parametrize(
    ("name", "group", "pair", "role"),
    [
        ("clustername-mq01-b", "clustername", "clustername-mq01", "slave"),
        ("a-b-c-mq7-a.x", "a-b-c", "a-b-c-mq7", "master"),
        ("x-mq1-a-mq2-b.d", "x-mq1-a", "x-mq1-a-mq2", "slave"),
    ],
)
def test_names_are_read_from_their_first_label(name: str, group: str, pair: str, role: str) -> None:
    identity = Naming().identify(name)

    assert identity is not None
    assert (identity.group, identity.pair, identity.role) == (group, pair, role)


@pytest.mark.parametrize("name", ["orders-mq01-c", "orders-mq-a", "mq01-a", "-mq01-a", "db1", "", "a.b-mq01-a"])
def test_other_names_have_no_identity(name: str) -> None:
    assert Naming().identify(name) is None


def test_the_letter_of_masters_can_be_changed() -> None:
    identity = Naming(master_node="b").identify("orders-mq01-b")

    assert identity is not None
    assert identity.role == "master"


def test_a_name_that_nearly_matches_is_told_apart() -> None:
    assert Naming().looks_like_broker("orders-mq01-c.example.com")
    assert not Naming().looks_like_broker("orders-db01-a.example.com")
    assert not Naming().looks_like_broker("orders-mq01-a")


def test_a_pattern_of_ones_own_decides() -> None:
    naming = Naming(r"^amq-(?P<group>[a-z]+)(?P<number>\d+)(?P<node>[12])$", master_node="1")

    identity = naming.identify("amq-pay031")

    assert identity is not None
    assert (identity.group, identity.number, identity.role, identity.pair) == ("pay", "03", "master", "pay-mq03")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("(", "is not a regular expression"), ("(?P<group>x)", "lacks the named group(s) number, node")],
)
def test_a_pattern_that_cannot_be_used_is_one_clear_error(pattern: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        Naming(pattern).identify("x")

    assert said in str(caught.value)
    assert "activemq_naming_pattern" in str(caught.value)
