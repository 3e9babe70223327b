"""One record of the input -> a host with its variables. Pure.

A record is a JSON object: ``host``, its ``variables`` (an object, or the text of one) or ``activemq_…``
keys beside it, and ``groups``, of which those for agents, balancers and brokers count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any

from activemq_fleet.errors import InputError
from activemq_fleet.inventory import PREFIX
from activemq_fleet.settings.broker import NOT_SETTINGS
from activemq_fleet.settings.encrypted import EncryptedValue

PATTERN = "activemq_naming_pattern"
NAMELESS = ("a line of --hosts", "a record of --hosts")
"""How errors begin that have no host to name."""
HOST_KEYS = ("host", "inventory_hostname")
VARIABLES_KEYS = ("variables", "vars", "hostvars")
_VAULT, _UNSAFE, _MARKED = "__ansible_vault", "__ansible_unsafe", "__ansible_"
ESCAPE = "\\u"
"""Of JSON, with which a mark could be written too."""

_TEMPLATE = ("{{", "{%")
_USERS_OWN = PREFIX + "x_"
_MOST_SHOWN = 80
_REMEMBERED = 1024


@dataclass(frozen=True, slots=True)
class Record:
    """``variables`` are those that begin with ``activemq_``; ``cells``: text that may hold JSON."""

    host: str
    variables: Mapping[str, Any]
    groups: tuple[str, ...] = ()


def read_record(text: str, *, cells: bool = False) -> Record:
    """A record of JSON lines, or with ``cells`` a row of a table. Raises InputError that names the host."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{NAMELESS[0]} is not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{NAMELESS[0]} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{NAMELESS[0]} is not a JSON object with host and variables")
    return _record(found, cells=cells)


def _record(found: Mapping[str, Any], *, cells: bool, marked: bool = True) -> Record:
    host = next((found[key] for key in HOST_KEYS if found.get(key)), None)
    if not isinstance(host, str):
        known = ", ".join(sorted(map(str, found)))[:_MOST_SHOWN] or "nothing"
        raise InputError(f"{NAMELESS[1]} has no host: name its column host (it has {known})")
    said: Any = next((found[key] for key in VARIABLES_KEYS if found.get(key) is not None), {})
    if isinstance(said, str):
        said = _object(host, said)
    if not isinstance(said, dict):
        raise InputError(f"{host}: its variables are not an object of names and values")
    beside = {name: value for name, value in found.items() if name.startswith(PREFIX)}
    variables = {**said, **beside}
    if cells:
        variables = {name: _cell(host, name, value) for name, value in variables.items()}
    return Record(host, plain(variables, marked=marked), _groups(host, found.get("groups")))


_USUAL = re.compile(r'\{"host": ?"([^"\\\x00-\x1f]+)", ?"variables": ?(?=\{)')
_USUAL_END = "}}"


def divided(text: str) -> tuple[str, str] | None:
    """Host and variables, as text, of a line in the usual form; None for any other, which may be a record too."""
    usual = _USUAL.match(text)
    return (usual[1], text[usual.end() : -1]) if usual and text.endswith(_USUAL_END) else None


def read_line(text: str) -> Record:
    """A record of JSON lines. Hosts whose variables are written alike have the very same ``variables``."""
    usual = divided(text)
    variables = variables_in(usual[1]) if usual else None
    return read_record(text) if usual is None or variables is None else Record(usual[0], variables)


@lru_cache(maxsize=_REMEMBERED)
def variables_in(text: str) -> Mapping[str, Any] | None:
    """What an object of variables says; None where it is no object alone, or says what has to be told of a host."""
    try:
        marked = _MARKED in text or ESCAPE in text
        return _record({"host": "?", "variables": json.loads(text)}, cells=False, marked=marked).variables
    except (InputError, ValueError, RecursionError):
        return None


def read_listed(host: str, text: str, groups: Iterable[str]) -> Record:
    """A host of ``ansible-inventory --list``. Raises InputError for a value that is still a template."""
    variables = plain(_object(host, text))
    for name, value in variables.items():
        if any(mark in text for mark in _TEMPLATE) and _holds_template(value):
            raise InputError(
                f"{host}: {name} is a template, which ansible-inventory --list does not fill in: "
                "give the inventory itself with -i"
            )
    return Record(host, variables, tuple(groups))


def plain(variables: Mapping[str, Any], *, marked: bool = True) -> dict[str, Any]:
    """Our variables of a host, with what Ansible marks put back (``marked``): closed secrets are ``EncryptedValue``."""
    return {
        name: _plain(value) if marked else value
        for name, value in variables.items()
        if name.startswith(PREFIX) and not name.startswith(_USERS_OWN) and (name not in NOT_SETTINGS or name == PATTERN)
    }


def text_of(variables: Mapping[str, Any]) -> str:
    """Variables as JSON, in ASCII, that :func:`variables_of` reads back."""
    return json.dumps(variables, sort_keys=True, default=_written)


def variables_of(text: str) -> dict[str, Any]:
    """The variables of :func:`text_of`."""
    found: dict[str, Any] = json.loads(text)
    return {name: _plain(value) for name, value in found.items()} if _MARKED in text else found


def _written(value: object) -> Any:
    if isinstance(value, EncryptedValue):
        return {_VAULT: value.ciphertext}
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return list(value)
    raise InputError(f"a variable holds {type(value).__name__}, which JSON cannot say")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        if len(value) == 1:
            ((name, inside),) = value.items()
            if name == _VAULT and isinstance(inside, str):
                return EncryptedValue(inside)
            if name == _UNSAFE:
                return inside
        return {name: _plain(inside) for name, inside in value.items()}
    return [_plain(inside) for inside in value] if isinstance(value, list) else value


def _object(host: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{host}: its variables are not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{host}: its variables are not an object of names and values")
    return found


def _cell(host: str, name: str, value: Any) -> Any:
    """A table's text: a list or a mapping is written as JSON, all else as it is."""
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{host}: {name} is not JSON: {error}") from None


def _groups(host: str, said: Any) -> tuple[str, ...]:
    if said is None:
        return ()
    found = said.replace(",", " ").split() if isinstance(said, str) and said[:1] != "[" else said
    if isinstance(found, str):
        found = _cell(host, "groups", found)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InputError(f"{host}: groups is not a list of names")
    return tuple(found)


def _holds_template(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_template(inside) for inside in value.values())
    if isinstance(value, list):
        return any(_holds_template(inside) for inside in value)
    return isinstance(value, str) and any(mark in value for mark in _TEMPLATE)
