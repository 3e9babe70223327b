"""Facts that separate planning derives from the name and the variables of a host, and the problems of the host."""

from __future__ import annotations

import json
from typing import Any

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.planning.host_facts import (
    HostFactsForSeparatePlanning,
    host_component_facts_and_variables,
)
from activemq_fleet.planning.host_records import HostRecord
from tests.unit.planning.planned import BASE, pairs

HOST = "orders-mq01-a.example.com"


def facts_of_host(
    variables: dict[str, Any], host: str = HOST, groups: tuple[str, ...] = ()
) -> HostFactsForSeparatePlanning:
    """Return the facts of a host without the text of its variables."""
    return host_component_facts_and_variables(HostRecord(host, variables, dict.fromkeys(groups, 0)), None)[0]


def test_planning_facts_contain_names_of_host_and_of_hosts_in_its_variables() -> None:
    hosts = pairs("orders-mq01", links=[{"from": "a", "to": "b"}], address="10.0.0.1", java_options=["-Dx=db.x:99"])

    host_facts = facts_of_host(hosts[HOST])

    assert (host_facts.group, host_facts.pair, host_facts.unit) == ("orders", "orders-mq01", "orders-mq01")
    [link] = json.loads(host_facts.links or "")
    assert (link["from"], link["to"], link["duplex"], link["ttl"]) == ("a", "b", False, None)
    assert host_facts.connection_targets == ("db.x", "10.0.0.1")
    assert set(host_facts.names) == {HOST, "10.0.0.1", "group:orders"}
    assert host_facts.problems == ()


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({}, "activemq_release is not set"),
        ({"activemq_release": "5.2"}, "release '5.2' is not known"),
        ({"activemq_heap": 3}, "in activemq_heap, the value '3'"),
        ({"activemq_hepa": "1g"}, "activemq_hepa is not a variable of activemq.fleet: did you mean activemq_heap?"),
    ],
)
def test_inventory_problem_omits_host_so_that_equal_problems_share_line(
    variables: dict[str, Any], problem: str
) -> None:
    host_facts = facts_of_host(variables)

    (message,) = (*host_facts.problems, *host_facts.release_problems)
    assert message.startswith(problem)
    assert HOST not in message


def test_host_without_role_in_plan_may_have_any_value_of_known_variable() -> None:
    division_facts, variables_text = host_component_facts_and_variables(
        HostRecord("db.example.com", {"activemq_heap": 3}), None
    )

    assert (division_facts.has_role, division_facts.problems, variables_text) == (False, (), None)


@pytest.mark.parametrize(("host", "groups"), [("/x-mq01-a", ()), ("../x", ("activemq_agents",))])
def test_name_that_is_no_valid_file_name_is_refused_for_host_with_role(host: str, groups: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="cannot be the name of a host"):
        facts_of_host({}, host=host, groups=groups)


def test_any_name_is_accepted_for_host_without_role() -> None:
    assert facts_of_host({}, host="../x").problems == ()


def test_naming_pattern_of_inventory_overrides_pattern_of_host() -> None:
    variables = {**BASE, "activemq_naming_pattern": r"^(?P<group>x)(?P<number>\d)(?P<node>[ab])"}

    assert facts_of_host(variables, host="x1a").group == "x"
    division_facts, variables_text = host_component_facts_and_variables(HostRecord("x1a", variables), DEFAULT_PATTERN)
    assert (division_facts.group, division_facts.pattern, variables_text) == (
        None,
        variables["activemq_naming_pattern"],
        None,
    )
    with pytest.raises(InputError, match="contains none of the named capture groups"):
        facts_of_host({"activemq_naming_pattern": "x"})
