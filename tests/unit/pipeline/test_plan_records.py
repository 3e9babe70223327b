"""Records of --hosts: what each form says, and one line for what none can say."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pytest

from activemq_fleet.errors import InputError, SettingsError
from activemq_fleet.settings.broker import read_settings
from activemq_fleet.settings.encrypted import EncryptedValue
from activemq_fleet.spark.plan.bundles import SCHEMA, bundles
from activemq_fleet.spark.plan.facts import facts_of, shared_of
from activemq_fleet.spark.plan.records import Record, read_line, read_listed, read_record, text_of, variables_of
from activemq_fleet.spark.plan.saying import said
from tests.unit.pipeline.planned import pairs

HOST = "orders-mq01-a.example.com"
VAULT = "$ANSIBLE_VAULT;1.1;AES256\n6162"


def fact(variables: dict[str, Any], host: str = HOST, pattern: str | None = None, **more: Any) -> dict[str, Any]:
    return facts_of(Record(host, variables, **more), None, pattern)


@pytest.mark.parametrize(
    "record",
    [
        {"host": HOST, "variables": {"activemq_heap": "1g", "other": 1}},
        {"host": HOST, "vars": '{"activemq_heap": "1g"}'},
        {"inventory_hostname": HOST, "activemq_heap": "1g", "region": "north"},
    ],
)
def test_variables_stand_in_an_object_in_its_text_or_beside_the_host(record: dict[str, Any]) -> None:
    assert read_record(json.dumps(record)) == Record(HOST, {"activemq_heap": "1g"})


@pytest.mark.parametrize("groups", [["activemq_agents", "x"], "activemq_agents, x", '["activemq_agents", "x"]'])
def test_groups_are_a_list_or_its_text(groups: Any) -> None:
    assert read_record(json.dumps({"host": HOST, "groups": groups})).groups == ("activemq_agents", "x")


def test_cells_of_a_table_hold_lists_as_json_and_all_else_as_text() -> None:
    row = {"host": HOST, "activemq_users": '[{"name": "a", "password": "b"}]', "activemq_release": "5.18.3"}

    found = read_record(json.dumps(row), cells=True).variables

    assert found == {"activemq_users": [{"name": "a", "password": "b"}], "activemq_release": "5.18.3"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"name": "x"}', r"has no host: name its column host \(it has name\)"),
        ('{"host": "h", "variables": 3}', "h: its variables are not an object"),
        ('{"host": "h", "variables": "3"}', "h: its variables are not an object"),
        ('{"host": "h", "groups": 3}', "h: groups is not a list"),
    ],
)
def test_what_is_no_record_is_told_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_record(text)


def test_a_closed_secret_stays_closed_through_the_text_and_back() -> None:
    found = read_listed(HOST, json.dumps({"activemq_network_password": {"__ansible_vault": VAULT}}), ()).variables

    assert found["activemq_network_password"] == EncryptedValue(VAULT)
    assert variables_of(text_of(found)) == found


def test_a_template_that_ansible_inventory_leaves_is_refused_with_its_host() -> None:
    with pytest.raises(InputError, match=rf"{HOST}: activemq_heap is a template.*-i"):
        read_listed(HOST, json.dumps({"activemq_heap": "{{ size }}g"}), ())


def test_what_the_inventory_plugin_adds_makes_no_variables_of_a_hosts_own() -> None:
    assert read_record(json.dumps({"host": HOST, "activemq_identity": {"group": "orders"}})).variables == {}


def test_a_host_is_known_by_its_name_and_by_what_its_variables_reach() -> None:
    said_by = pairs("orders-mq01", links=[{"from": "a", "to": "b"}], address="10.0.0.1", java_options=["-Dx=db.x:99"])

    found = fact(said_by[HOST])

    assert (found["group"], found["pair"], found["unit"]) == ("orders", "orders-mq01", "orders-mq01")
    assert json.loads(found["links"]) == [
        {"from": "a", "to": "b", "duplex": False, "name": None, "include": [], "exclude": [], "ttl": None}
    ]
    assert found["points"] == ["db.x", "10.0.0.1"]
    assert set(found["names"]) == {HOST, "orders-mq01-a", "10.0.0.1", "group:orders"}
    assert found["problems"] is None


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({}, "3activemq_release is not set"),
        ({"activemq_release": "5.2"}, "4"),
        ({"activemq_heap": 3}, "2activemq_heap "),
        ({"activemq_hepa": "1g"}, "2activemq_hepa is not a variable of activemq.fleet: did you mean activemq_heap?"),
    ],
)
def test_a_mistake_is_told_without_the_host_so_that_many_hosts_share_its_line(
    variables: dict[str, Any], problem: str
) -> None:
    assert [found[: len(problem)] for found in fact(variables)["problems"]] == [problem]


def test_hosts_of_no_role_may_have_any_variables() -> None:
    assert fact({"activemq_heap": 3}, host="db.example.com").get("problems") is None


def test_settings_of_a_group_are_read_once() -> None:
    said.cache_clear()
    shared_of.cache_clear()
    for name in ("a", "b", "c"):
        fact(pairs("x-mq01")["x-mq01-a.example.com"], host=f"x-mq01-{name}")

    assert said.cache_info().misses == 1


@pytest.mark.parametrize(
    "database",
    [
        {"url": "jdbc:x://db/2"},
        {"url": "jdbc:x://db/1", "username": "other"},
        {"url": "jdbc:x://db/1", "jar": "/other.jar"},
        {"url": "x"},
        {"url": "5"},
        {"url": 5},
        {"url": None},
        {"url": "amq"},
        {"url": "jdbc:x://${evil}"},
    ],
)
def test_pairs_with_databases_of_their_own_have_the_settings_that_their_variables_say(database: dict[str, Any]) -> None:
    usual = {
        "activemq_release": "5.18.3",
        "activemq_ha": "shared-jdbc",
        "activemq_users": [{"name": "a", "password": "pw-a-1"}],
    }
    base = {"url": "jdbc:x://db/1", "driver": "org.x.Driver", "username": "amq", "password": "only-jdbc"}
    variables = usual | {"activemq_jdbc": base | database}

    found = said(text_of(variables))

    try:
        assert found.settings == read_settings("x", variables)
    except SettingsError as wrong:
        assert [problem[1:] for problem in found.problems] == [text.removeprefix("x: ") for text in wrong.problems]


def test_half_a_surrogate_pair_is_a_problem_and_no_failure() -> None:
    batch = pa.RecordBatch.from_pydict({"text": ['{"host": "x-mq01-a\\ud800"}', "", '{"host": "\\ud800-mq01-a"}']})

    found, _digest = bundles([batch], form="line", pattern=None)

    assert found.schema == SCHEMA
    assert [bool(row["problems"]) for row in found.to_pylist()] == [False, True]


@pytest.mark.parametrize(
    "line",
    [
        '{"host": "a", "variables": {"activemq_heap": "1g", "activemq_x_own": 1, "other": 2}}',
        '{"host":"a","variables":{"activemq_users":[{"name":"\\u00e9\\"}"}]}}',
        '{"host": "a", "variables": {}, "groups": ["activemq_agents"]}',
        '{"host": "a", "variables": {}, "activemq_heap": "2g"}',
        '{"host": "a", "variables": {"activemq_heap": "1g"}, "variables": {"activemq_heap": "2g"}}',
        '{"host": "\\u0061", "variables": {"activemq_heap": "1g"}}',
        '{"variables": {"activemq_heap": "1g"}, "host": "a"}',
        '{"host": "a", "variables": {"activemq_jdbc": {"password": {"__ansible_vault": "x"}}}}',
        '{"host": "a", "variables": {"activemq_jdbc": {"password": {"__\\u0061nsible_vault": "x"}}}}',
    ],
)
def test_a_line_says_the_same_whether_its_variables_are_known_or_not(line: str) -> None:
    assert read_line(line) == read_record(line) == read_line(line)


@pytest.mark.parametrize(
    "line",
    ['{"host": "a", "variables": {"x": }}', '{"host": "a", "variables": {1}}', '{"host": "a\tb", "variables": {}}'],
)
def test_a_line_that_is_no_record_is_told_as_ever(line: str) -> None:
    with pytest.raises(InputError) as told:
        read_record(line)
    with pytest.raises(InputError, match=re.escape(str(told.value))):
        read_line(line)


def test_hosts_whose_variables_are_written_alike_share_them() -> None:
    one, other = (read_line(f'{{"host": "{host}", "variables": {{"activemq_heap": "3g"}}}}') for host in "ab")

    assert (one.host, other.host) == ("a", "b")
    assert one.variables is other.variables
