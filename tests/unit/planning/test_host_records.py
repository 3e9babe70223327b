"""Records of --hosts: the variables and groups of each form, and one error line for an invalid record."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.planning.host_records import (
    HostRecord,
    parse_ansible_inventory_list,
    parse_inventory_host_record,
    read_listed_host,
    variables_from_json,
    variables_to_json,
)
from activemq_fleet.settings.encrypted import UndecryptedVaultValue

HOST = "orders-mq01-a.example.com"
VAULT = "$ANSIBLE_VAULT;1.1;AES256\n6162"


@pytest.mark.parametrize(
    "record",
    [
        {"host": HOST, "variables": {"activemq_heap": "1g", "other": 1}},
        {"host": HOST, "vars": '{"activemq_heap": "1g"}'},
        {"inventory_hostname": HOST, "activemq_heap": "1g", "region": "north"},
    ],
)
def test_variables_of_host_record_are_object_or_its_json_text_or_keys_of_record(record: dict[str, Any]) -> None:
    assert parse_inventory_host_record(json.dumps(record)) == HostRecord(HOST, {"activemq_heap": "1g"})


@pytest.mark.parametrize("groups", [["activemq_agents", "x"], "activemq_agents, x", '["activemq_agents", "x"]'])
def test_groups_of_host_record_are_list_or_its_text(groups: Any) -> None:
    record = parse_inventory_host_record(json.dumps({"host": HOST, "groups": groups}))

    assert record.groups == {"activemq_agents": 0, "x": 0}


def test_cells_of_host_table_contain_lists_as_json_and_other_values_as_text() -> None:
    table_row = {"host": HOST, "activemq_users": '[{"name": "a", "password": "b"}]', "activemq_release": "5.18.3"}

    read_variables = parse_inventory_host_record(json.dumps(table_row), cells=True).variables

    assert read_variables == {"activemq_users": [{"name": "a", "password": "b"}], "activemq_release": "5.18.3"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        (
            '{"name": "x"}',
            r"has no host name as text in the key or column 'host' \(its keys or columns: name\): name the key",
        ),
        ('{"host": "h", "variables": 3}', "h: the variables of this host in the file of --hosts are not a JSON object"),
        (
            '{"host": "h", "variables": "3"}',
            "h: the variables of this host in the file of --hosts are not a JSON object",
        ),
        ('{"host": "h", "groups": 3}', "h: the value of the key groups in --hosts is not a list"),
    ],
)
def test_invalid_host_record_is_error_that_names_its_problem(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_inventory_host_record(text)


def test_undecrypted_vault_value_is_unchanged_by_conversion_to_json_and_back() -> None:
    text = json.dumps({"activemq_network_password": {"__ansible_vault": VAULT}})
    variables = read_listed_host(HOST, text, {}).variables

    assert variables["activemq_network_password"] == UndecryptedVaultValue(VAULT)
    assert variables_from_json(variables_to_json(HOST, variables)) == variables


def test_error_of_value_that_json_cannot_represent_names_host_and_variable() -> None:
    with pytest.raises(
        InputError, match=rf"^{HOST}: the variable activemq_heap contains a value of the Python type complex"
    ):
        variables_to_json(HOST, {"activemq_ha": "none", "activemq_heap": [{"size": 1j}]})


def test_mappings_with_keys_of_several_types_are_converted_to_json_with_text_keys() -> None:
    keys: dict[Any, int] = {4: 1, "b": 2, True: 3, None: 4, 2.5: 5, date(2026, 11, 30): 6}
    variables = {"activemq_broker_attributes": {"useJmx": True, 3: keys}, "activemq_hosts": {"b", 1, (2, "c")}}

    assert json.loads(variables_to_json(HOST, variables)) == {
        "activemq_broker_attributes": {
            "useJmx": True,
            "3": {"4": 1, "b": 2, "true": 3, "null": 4, "2.5": 5, "2026-11-30": 6},
        },
        "activemq_hosts": [[2, "c"], 1, "b"],
    }


@pytest.mark.parametrize(
    ("key", "text"), [(1, "1"), (True, "true"), (None, "null"), (2.5, "2.5"), (date(2026, 11, 30), "2026-11-30")]
)
def test_keys_that_become_same_text_in_json_are_error_of_inventory(key: object, text: str) -> None:
    message = rf'^{HOST}: the variable activemq_users contains .* the same text in JSON, "{text}": remove one of them$'
    with pytest.raises(InputError, match=message):
        variables_to_json(HOST, {"activemq_ha": "none", "activemq_users": [{key: "a", text: "b"}]})


def test_error_of_list_as_key_names_host_and_variable() -> None:
    with pytest.raises(InputError, match=rf"^{HOST}: the variable activemq_heap contains a key of the Python type tup"):
        variables_to_json(HOST, {"activemq_ha": "none", "activemq_heap": [{(1, 2): "1g"}]})


def test_error_of_unresolved_template_in_ansible_inventory_list_names_host() -> None:
    with pytest.raises(InputError, match=rf"{HOST}: the variable activemq_heap is a template.*-i"):
        read_listed_host(HOST, json.dumps({"activemq_heap": "{{ size }}g"}), {})


def test_values_of_inventory_plugin_do_not_become_host_variables() -> None:
    assert (
        parse_inventory_host_record(json.dumps({"host": HOST, "activemq_identity": {"group": "orders"}})).variables
        == {}
    )


def test_hosts_of_ansible_inventory_list_have_positions_in_groups_with_children() -> None:
    listing = {
        "_meta": {"hostvars": {"a": {"activemq_heap": "1g"}, "other": {}}},
        "activemq_agents": {"children": ["shops", "absent", "depots"], "hosts": ["z"]},
        "shops": {"hosts": ["y", "a", "z"], "children": ["activemq_agents", "stalls"]},
        "stalls": {"hosts": ["b"]},
        "depots": {"hosts": ["c"]},
        "activemq_loadbalancers": {"hosts": ["a", "z"]},
        "all": {"children": ["activemq_agents"]},
    }

    rows_by_host = {host: row for host, *row in parse_ansible_inventory_list(json.dumps(listing))}

    assert rows_by_host == {
        "a": ['{"activemq_heap": "1g"}', {"activemq_agents": 2, "activemq_loadbalancers": 0}],
        "other": ["{}", {}],
        "z": ["{}", {"activemq_agents": 0, "activemq_loadbalancers": 1}],
        "y": ["{}", {"activemq_agents": 1}],
        "c": ["{}", {"activemq_agents": 3}],
        "b": ["{}", {"activemq_agents": 4}],
    }


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        "3",
        '{"all": {}}',
        '{"_meta": {"hostvars": 3}}',
        '{"_meta": {"hostvars": {}}, "activemq_brokers": {"hosts": [{}]}}',
        '{"_meta": {"hostvars": {}}, "activemq_brokers": {"hosts": 3}}',
        '{"_meta": {"hostvars": {}}, "activemq_agents": {"children": [["x"]]}}',
    ],
)
def test_text_that_is_not_output_of_ansible_inventory_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not the output of ansible-inventory --list"):
        parse_ansible_inventory_list(text)
