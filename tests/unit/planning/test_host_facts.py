"""What a host's name and variables say that concerns others, and what is wrong with them alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.planning.host_facts import (
    HostFactsForSeparatePlanning,
    InventoryProblemKind,
    host_component_facts_and_variables,
)
from activemq_fleet.planning.records import HostRecord
from tests.unit.planning.planned import BASE, pairs

HOST = "orders-mq01-a.example.com"


def facts(variables: dict[str, Any], host: str = HOST, groups: tuple[str, ...] = ()) -> HostFactsForSeparatePlanning:
    return host_component_facts_and_variables(HostRecord(host, variables, groups), 0, None)[0]


def test_a_host_is_known_by_its_name_and_by_what_its_variables_reach() -> None:
    hosts = pairs("orders-mq01", links=[{"from": "a", "to": "b"}], address="10.0.0.1", java_options=["-Dx=db.x:99"])

    found = facts(hosts[HOST])

    assert (found.group, found.pair, found.unit) == ("orders", "orders-mq01", "orders-mq01")
    [link] = json.loads(found.links or "")
    assert (link["from"], link["to"], link["duplex"], link["ttl"]) == ("a", "b", False, None)
    assert found.dialled == ("db.x", "10.0.0.1")
    assert set(found.names) == {HOST, "orders-mq01-a", "10.0.0.1", "group:orders"}
    assert found.problems == ()


@pytest.mark.parametrize(
    ("variables", "kind", "problem"),
    [
        ({}, InventoryProblemKind.NO_RELEASE, "activemq_release is not set"),
        ({"activemq_release": "5.2"}, InventoryProblemKind.RELEASE, ""),
        ({"activemq_heap": 3}, InventoryProblemKind.SETTINGS, "in activemq_heap, the value '3'"),
        (
            {"activemq_hepa": "1g"},
            InventoryProblemKind.SETTINGS,
            "activemq_hepa is not a variable of activemq.fleet: did you mean activemq_heap?",
        ),
    ],
)
def test_a_problem_does_not_name_the_host_so_that_many_hosts_share_its_line(
    variables: dict[str, Any], kind: InventoryProblemKind, problem: str
) -> None:
    found = facts(variables)

    assert found.problem_kind == kind
    assert [text[: len(problem)] for text in found.problems] == [problem]
    assert HOST not in found.problems[0]


def test_hosts_of_no_role_may_have_any_variables() -> None:
    division_facts, text = host_component_facts_and_variables(
        HostRecord("db.example.com", {"activemq_heap": 3}), 0, None
    )

    assert (division_facts.has_role, division_facts.problems, text) == (False, (), None)


def test_a_name_that_no_file_could_have_is_a_problem_of_a_host_with_a_role() -> None:
    assert facts({}, host="/x-mq01-a").problem_kind == InventoryProblemKind.INPUT
    assert facts({}, host="../x", groups=("activemq_agents",)).problem_kind == InventoryProblemKind.INPUT
    assert facts({}, host="../x").problems == ()


def test_a_pattern_of_the_inventory_wins_over_that_of_a_host() -> None:
    own = {**BASE, "activemq_naming_pattern": r"^(?P<group>x)(?P<number>\d)(?P<node>[ab])"}

    assert facts(own, host="x1a").group == "x"
    division_facts, text = host_component_facts_and_variables(HostRecord("x1a", own), 0, DEFAULT_PATTERN)
    assert (division_facts.group, division_facts.pattern, text) == (None, own["activemq_naming_pattern"], None)
    with pytest.raises(InputError, match="contains none of the named capture groups"):
        facts({"activemq_naming_pattern": "x"})
