"""Read a host and its variables from one record of the input.

A record is a JSON object: ``host``, its ``variables`` (an object, or the text of one) or ``activemq_…`` keys next to
it, and ``groups``; only the inventory groups of agents, balancers and brokers are used.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from activemq_fleet.errors import InputError
from activemq_fleet.group_names import hosts_level_by_level
from activemq_fleet.naming import PATTERN_VARIABLE, PREFIX
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.settings.host_settings import NOT_SETTINGS
from activemq_fleet.topology.hosts_by_role import ROLE_GROUPS

HOST_KEYS = ("host", "inventory_hostname")
VARIABLES_KEYS = ("variables", "vars", "hostvars")
_VAULT_MARK, _UNSAFE_MARK, _MARK_PREFIX = "__ansible_vault", "__ansible_unsafe", "__ansible_"

_TEMPLATE_DELIMITERS = ("{{", "{%")
_CUSTOM_PREFIX = PREFIX + "x_"
_MAXIMUM_SHOWN = 80


class RecordWithoutHostError(InputError):
    """An error for a record of the input of ``plan`` that has no host name, so that its message cannot name the host.

    ``problem`` completes a sentence that begins with the record, such as ``line 3``. It is "" where only the message is
    known.
    """

    def __init__(self, message: str, problem: str = "") -> None:
        self.problem = problem
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class HostRecord:
    """One host of an inventory as the command ``plan`` reads it: its name, variables and groups.

    It has its ``activemq_*`` variables, and the position of the host in each of its inventory groups, from 0.
    """

    host: str
    variables: Mapping[str, Any]
    groups: Mapping[str, int] = field(default_factory=dict)


def _error_without_host(problem: str, record: str = "a line of --hosts") -> RecordWithoutHostError:
    return RecordWithoutHostError(f"{record} {problem}", problem)


def parse_inventory_host_record(json_line: str, *, cells: bool = False) -> HostRecord:
    """Return an inventory host's name, variables and groups as a record, parsed from one line of JSON lines.

    With ``cells``, the line is one row of a table, given as JSON. A list or mapping in a cell is JSON itself. The
    position in each group is 0, because a line does not contain it. Raises InputError that names the host, or
    RecordWithoutHostError.
    """
    try:
        fields = json.loads(json_line)
    except json.JSONDecodeError as error:
        raise _error_without_host(f"is not JSON ({error.msg} at column {error.colno}): correct the line") from None
    except RecursionError:
        raise _error_without_host("has JSON that is nested too deeply: correct the line") from None
    except ValueError as error:
        raise _error_without_host(f"is not JSON ({error}): correct the line") from None
    if not isinstance(fields, dict):
        raise _error_without_host(
            'is not a JSON object: write {"host": NAME, "variables": {"NAME": VALUE}} in each line'
        )
    host = next((fields[key] for key in HOST_KEYS if fields.get(key)), None)
    if not isinstance(host, str):
        key_names = ", ".join(sorted(map(str, fields)))[:_MAXIMUM_SHOWN] or "nothing"
        raise _error_without_host(
            f"has no host name as text in the key or column 'host' (its keys or columns: {key_names}): name the key or "
            "column with the host name 'host', and write the host name as text",
            record="an entry of --hosts",
        )
    variables: Any = next((fields[key] for key in VARIABLES_KEYS if fields.get(key) is not None), {})
    if isinstance(variables, str):
        variables = _parse_variables(host, variables)
    if not isinstance(variables, dict):
        raise InputError(
            f"{host}: the variables of this host in the file of --hosts are not a JSON object: write them as "
            '{"NAME": VALUE}'
        )
    variables = {**variables, **{name: value for name, value in fields.items() if name.startswith(PREFIX)}}
    if cells:
        variables = {name: _parse_cell(host, name, value) for name, value in variables.items()}
    return HostRecord(host, activemq_variables(variables), dict.fromkeys(_parse_groups(host, fields.get("groups")), 0))


def read_listed_host(host: str, text: str, groups: Mapping[str, int]) -> HostRecord:
    """Return the record of one host (name, variables, groups) from the output of ``ansible-inventory --list``.

    It is given by its name, its variables as JSON, and its position in each of its groups. Raises InputError for a
    value that is still a template.
    """
    variables = activemq_variables(_parse_variables(host, text))
    for name, value in variables.items():
        if any(mark in text for mark in _TEMPLATE_DELIMITERS) and _contains_template(value):
            raise InputError(
                f"{host}: the variable {name} is a template, which ansible-inventory --list does not evaluate: pass "
                "the inventory with -i instead of its list with --hosts"
            )
    return HostRecord(host, variables, groups)


def positions_by_host_and_role_group(groups: Mapping[str, Iterable[str]]) -> dict[str, dict[str, int]]:
    """Return the position (from 0) of each host in the inventory groups of ROLE_GROUPS, by host and group.

    ``groups`` are the hosts by group, in the order of the inventory.
    """
    positions: dict[str, dict[str, int]] = {}
    for role in ROLE_GROUPS:
        for position, host in enumerate(groups.get(role, ())):
            positions.setdefault(host, {})[role] = position
    return positions


def parse_ansible_inventory_list(text: str) -> list[tuple[str, str, dict[str, int]]]:
    """Parse the output of ``ansible-inventory --list``, and return its hosts.

    Each has a name, variables as JSON, and its position in each of ROLE_GROUPS that contains it. As in Ansible, the
    hosts of a group precede those of its children. Raises InputError for any other text.
    """
    try:
        listing = json.loads(text)
        variables = {**listing["_meta"]["hostvars"]} if listing else {}
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        reason = str(error) if isinstance(error, ValueError | RecursionError) else "it has no mapping _meta.hostvars"
        raise _error_of_other_file(reason) from None
    members = {role: _members_with_descendants(role, listing) for role in ROLE_GROUPS}
    positions = positions_by_host_and_role_group(members)
    return [
        (escape_lone_surrogates(host), json.dumps(variables.get(host, {})), positions.get(host, {}))
        for host in {**variables, **positions}
    ]


def _members_with_descendants(role: str, listing: Mapping[str, Any]) -> list[str]:
    """Return the hosts of a group, then those of its children level by level, as far as the listing has them."""
    return hosts_level_by_level(
        role,
        lambda group: _listed_names(group, listing, "hosts"),
        lambda group: _listed_names(group, listing, "children"),
    )


def _listed_names(group: str, listing: Mapping[str, Any], key: str) -> list[str]:
    """Return the names in the list ``hosts`` or ``children`` of a group in a listing, if it has the group."""
    group_fields = listing.get(group)
    names = (group_fields.get(key) if isinstance(group_fields, dict) else None) or []
    if not isinstance(names, list | dict) or not all(isinstance(name, str) for name in names):
        raise _error_of_other_file(f"the key {key} of the group {group} is not a list of names")
    return list(names)


def _error_of_other_file(reason: str) -> InputError:
    return InputError(
        f"the file is not the output of ansible-inventory --list ({reason}): create the file again, or set "
        "--hosts-format to the format of the file"
    )


def escape_lone_surrogates(text: str) -> str:
    """Return a text with its lone surrogates escaped as ``\\udXXX``.

    Neither Arrow nor a terminal accepts lone surrogates.
    """
    return text.encode(errors="backslashreplace").decode()


def activemq_variables(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``activemq_*`` variables among a host's variables.

    Values that Ansible marks as vaulted become ``UndecryptedVaultValue``.
    """
    return {
        name: _decoded_value(value)
        for name, value in variables.items()
        if name.startswith(PREFIX)
        and not name.startswith(_CUSTOM_PREFIX)
        and (name not in NOT_SETTINGS or name == PATTERN_VARIABLE)
    }


def variables_to_json(host: str, variables: Mapping[str, Any]) -> str:
    """Return the variables of a host as JSON text.

    The text is in ASCII, and ``variables_from_json`` reads it. Keys of mappings become texts. Raises InputError, which
    names host and variable, for a key or value that JSON cannot represent, and for keys that become the same text.
    """
    values: dict[str, Any] = {}
    for name, value in variables.items():
        try:
            values[name] = _to_json_value(value)
        except _UnrepresentableError as error:
            raise InputError(f"{host}: the variable {name} contains {error}") from None
    return json.dumps(values, sort_keys=True)


class _UnrepresentableError(Exception):
    """A key, value or mapping that JSON cannot represent; the message describes it and contains the remedy."""


def variables_from_json(text: str) -> dict[str, Any]:
    """Return the variables of a host from the JSON text that ``variables_to_json`` wrote."""
    variables: dict[str, Any] = json.loads(text)
    return {name: _decoded_value(value) for name, value in variables.items()} if _MARK_PREFIX in text else variables


def _to_json_value(value: object) -> Any:
    if isinstance(value, UndecryptedVaultValue):
        return {_VAULT_MARK: value.ciphertext}
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return _to_json_mapping(value)
    if isinstance(value, set | frozenset):
        return [_to_json_value(inner) for inner in sorted(value, key=str)]
    if isinstance(value, list | tuple):
        return [_to_json_value(inner) for inner in value]
    raise _UnrepresentableError(
        f"a value of the Python type {type(value).__name__}, which JSON cannot represent: write a text, number, list "
        "or mapping"
    )


def _to_json_mapping(mapping: Mapping[Any, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for key, value in mapping.items():
        text = _to_json_key(key)
        if text in converted:
            raise _UnrepresentableError(
                f"a mapping with two keys that are the same text in JSON, {json.dumps(text)}: remove one of them"
            )
        converted[text] = _to_json_value(value)
    return converted


def _to_json_key(key: object) -> str:
    """Return a key of a mapping as text, such as ``1`` and ``true``: json.dumps cannot sort keys of several types."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, int | float):
        return json.dumps(key)
    if isinstance(key, date):
        return key.isoformat()
    raise _UnrepresentableError(
        f"a key of the Python type {type(key).__name__}, which JSON cannot represent: write the key as text"
    )


def _decoded_value(value: Any) -> Any:
    if isinstance(value, dict):
        if len(value) == 1:
            ((name, inner),) = value.items()
            if name == _VAULT_MARK and isinstance(inner, str):
                return UndecryptedVaultValue(inner)
            if name == _UNSAFE_MARK:
                return inner
        return {name: _decoded_value(inner) for name, inner in value.items()}
    return [_decoded_value(inner) for inner in value] if isinstance(value, list) else value


def _parse_variables(host: str, text: str) -> dict[str, Any]:
    try:
        variables = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{host}: the variables of this host in the file of --hosts are not JSON ({error}): correct them"
        ) from None
    if not isinstance(variables, dict):
        raise InputError(
            f"{host}: the variables of this host in the file of --hosts are not a JSON object: write them as "
            '{"NAME": VALUE}'
        )
    return variables


def _parse_cell(host: str, name: str, value: Any) -> Any:
    """Return the value in a table's cell: a list or a mapping is parsed from JSON, any other value is unchanged."""
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{host}: the value of {name} begins with [ or {{, but is not JSON ({error}): correct it in the "
            "file of --hosts"
        ) from None


def _parse_groups(host: str, group_value: Any) -> tuple[str, ...]:
    if group_value is None:
        return ()
    groups = (
        group_value.replace(",", " ").split()
        if isinstance(group_value, str) and group_value[:1] != "["
        else group_value
    )
    if isinstance(groups, str):
        groups = _parse_cell(host, "groups", groups)
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise InputError(
            f"{host}: the value of the key groups in --hosts is not a list of names of inventory groups: write a list, "
            "or names separated by commas"
        )
    return tuple(groups)


def _contains_template(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_contains_template(inner) for inner in value.values())
    if isinstance(value, list):
        return any(_contains_template(inner) for inner in value)
    return isinstance(value, str) and any(mark in value for mark in _TEMPLATE_DELIMITERS)
