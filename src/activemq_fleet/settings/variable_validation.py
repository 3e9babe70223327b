"""Validate the variables of a host into settings, with one error a problem, in the words of who wrote them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from activemq_fleet.errors import SettingsError, text_required_message
from activemq_fleet.node.printable import escape_unprintable
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.settings.host_settings import NOT_SETTINGS, PREFIX, USERS_OWN, HostSettings
from activemq_fleet.settings.variable_types import SETTING_VALUE
from activemq_fleet.similar_names import most_similar_name, similar_names

KNOWN = frozenset(PREFIX + name for name in HostSettings.model_fields) | NOT_SETTINGS


def read_settings(host: str, variables: Mapping[str, Any]) -> HostSettings:
    """Return the validated settings of a host, given its variables.

    Variables without the prefix ``activemq_`` are ignored. Raises SettingsError with one line a problem: an unknown
    variable (with a suggestion), or a value of the wrong type, each naming host and variable.
    """
    fleet_variables = {
        name: value
        for name, value in variables.items()
        if name.startswith(PREFIX) and not name.startswith(USERS_OWN) and name not in NOT_SETTINGS
    }
    problems = [_unknown_variable_problem(name) for name in sorted(fleet_variables.keys() - KNOWN)]
    known = {
        name.removeprefix(PREFIX): value
        for name, value in fleet_variables.items()
        if name in KNOWN and value is not None
    }
    try:
        settings = HostSettings.model_validate(known)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            if detail["type"] == "default_factory_not_called":
                continue  # another error of the same value is the cause
            name = str(next(iter(detail["loc"]), ""))
            detail["loc"] = _written_location(detail["loc"], known)
            similar = _similar_variable(name, detail) if detail["input"] is known.get(name) else None
            hint = f". Did you mean {PREFIX}{similar}?" if similar else ""
            problems.append(f"{_explain_error(detail)}{hint}")
    if problems:
        raise SettingsError.of_host(host, *problems)
    return settings


def check_known_variables(host: str, variables: Mapping[str, Any], *, certain: bool) -> None:
    """Raise SettingsError if a host has unknown ``activemq_*`` variables, with the variable that each probably means.

    Nothing else of the host is read. ``certain``: only for those that differ from a known variable in a letter or two.
    """
    unknown = (name for name in sorted(variables) if name.startswith(PREFIX) and name not in KNOWN)
    problems = [
        _unknown_variable_problem(name)
        for name in unknown
        if not name.startswith(USERS_OWN) and (most_similar_name(name, KNOWN, certain=True) or not certain)
    ]
    if problems:
        raise SettingsError.of_host(host, *problems)


@lru_cache(maxsize=4096)
def probable_activemq_variable(name: str) -> str | None:
    """Return the ``activemq_*`` variable that a misspelled name such as ``active_mq_fence`` probably means.

    The result is None for a name that is not similar to any. Names without the prefix ``activemq_`` are examined,
    because ``read_settings`` ignores them.
    """
    # Roles begin the names of their internal variables with _, and a name such as activemqs is too short for a prefix.
    if name.startswith((PREFIX, "_")) or len(name) <= len(PREFIX):
        return None
    return most_similar_name(name, KNOWN, certain=True)


def variables_by_misspelled_name(names: Iterable[object]) -> dict[str, str]:
    """Return a dictionary from each misspelled name to the ``activemq_*`` variable that it probably means.

    Names for which ``probable_activemq_variable`` returns None are left out, such as those that have this prefix.
    """
    meant = {name: probable_activemq_variable(name) for name in names if isinstance(name, str)}
    return {name: variable for name, variable in meant.items() if variable}


def _unknown_variable_problem(name: str) -> str:
    # The prefix, which all names have, would make unrelated names similar.
    near = most_similar_name(name.removeprefix(PREFIX), [known_name.removeprefix(PREFIX) for known_name in KNOWN])
    hint = (
        f"did you mean {PREFIX}{near}?"
        if near
        else f"remove it, or begin its name with {USERS_OWN} if it has another purpose"
    )
    return f"{_shown_name(name)} is not a variable of activemq.fleet: {hint}"


def _shown_name(name: str) -> str:
    """Return the name of a variable or key for an error: in one line, and shortened if it is very long."""
    return escape_unprintable(name[:_MAX_NAME_CHARACTERS])


def _similar_variable(name: str, detail: ErrorDetails) -> str | None:
    """Return the variable with a similar name that accepts a list, a mapping or a text in the place of another."""
    value = detail["input"]
    if not (isinstance(value, list | dict) or detail["type"] in _COLLECTION_EXPECTED):
        return None
    similar = similar_names(name, HostSettings.model_fields.keys() - {name}, certain=True)
    return next((other for other in similar if _accepts(other, value)), None)


def _accepts(name: str, value: object) -> bool:
    try:
        HostSettings.model_validate({name: value})
    except ValidationError as error:
        return all(detail["loc"][:1] != (name,) for detail in error.errors(include_url=False))
    return True


def _explain_error(detail: ErrorDetails) -> str:
    place = _variable_path(detail["loc"])
    value, kind = detail["input"], detail["type"]
    if kind == "value_error" and not isinstance(value, UndecryptedVaultValue):
        sentence = str(detail["ctx"]["error"])
        if detail["loc"][-1:] == ("[key]",):
            place = _variable_path(detail["loc"][:-2])
            sentence = sentence.replace(SETTING_VALUE, "the key", 1).replace("the value", "the key", 1)
        return _sentence_with_place(sentence, place)
    if isinstance(value, UndecryptedVaultValue):
        problem = (
            f"the value of {place} is encrypted, and no given vault password decrypts it: set --vault-password-file or "
            "--vault-id"
        )
    elif kind in ("extra_forbidden", "invalid_key"):  # a number as key is not a known key either
        problem = f"{place} is not a known key: {_key_hint(detail['loc'])}"
    elif kind == "missing":
        problem = f"{place} is required, but missing: set this key"
    elif kind == "string_type" and isinstance(value, list | dict):
        problem = text_required_message(place, value)
    elif kind in _LENGTHS:
        problem = f"{place} must have {_LENGTHS[kind].format_map(detail['ctx'])}"
    else:
        hidden = isinstance(value, dict | list) or _may_be_secret(place, str(value))
        shown = repr(value[:60]) if isinstance(value, str) else _yaml_text(value)[:60]
        problem = f"{place} must be {_expected(detail['msg'])}" + ("" if hidden else f", not {shown}")
    if detail["loc"][-1:] and detail["loc"][-1] in _IN_MILLISECONDS:
        problem = f"{problem.replace(' such as 10', '')}. Write a number of milliseconds, such as 5000 for 5 s"
    return problem


def _sentence_with_place(sentence: str, place: str) -> str:
    """Return the sentence of an error with the path of its setting, where it has no such path yet."""
    if not place:
        return sentence
    if sentence.startswith(SETTING_VALUE):
        return sentence.replace(SETTING_VALUE, f"the value of {place}", 1)
    entry = f"an entry of {place.rpartition('[')[0]} "
    if sentence.startswith(entry):
        return sentence.replace(entry, f"{place} ", 1)
    is_named = re.search(rf"(?<![\w.]){re.escape(place)}(?![\w.\[])", sentence)
    return sentence if is_named else f"in {place}, {sentence}"


def _expected(message: str) -> str:
    """Return what a value must be, given the message of pydantic, as ``a whole number such as 10``."""
    expected = _DETAIL.split(message.removeprefix("Input should be "))[0]
    for pydantic_word, word in _PLAIN.items():
        if expected.startswith(pydantic_word):
            return word
    return expected.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")


def _may_be_secret(place: str, text: str) -> bool:
    """Return whether a value may be a secret or contain one, by its place and by its text."""
    from activemq_fleet.node.masking import mask_text  # only errors need its many patterns

    return "password" in place or place.startswith(_WITH_SECRETS) or mask_text(text) != text


def _key_hint(location: tuple[int | str, ...]) -> str:
    """Return what to write in place of an unknown key, given its pydantic location."""
    *outer, key = location
    models: set[type[BaseModel]] = {HostSettings}
    for part in outer:
        models = {nested_model for model in models for nested_model in _models_of(_fields(model).get(part))} or models
    keys = sorted({str(name) for model in models for name in _fields(model)})
    near = most_similar_name(str(key), keys)
    if near:
        return f"did you mean {near}?"
    few = len(keys) <= _MAX_KEYS_LISTED
    if few:
        return f"use one of the keys {', '.join(keys)}"
    return "use one of the keys that `ansible-doc -t role activemq.fleet.broker` lists"


def _fields(model: type[BaseModel]) -> dict[int | str, object]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _models_of(annotation: object) -> set[type[BaseModel]]:
    """Return every model that an annotation names, inside lists, mappings and unions, too."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return {model for argument in get_args(annotation) for model in _models_of(argument)}


_MAX_KEYS_LISTED = 20
_MAX_NAME_CHARACTERS = 60
_COLLECTION_EXPECTED = frozenset({"dict_type", "list_type", "model_type", "tuple_type", "mapping_type"})
# What pydantic adds about its internals.
_DETAIL = re.compile(r", unable| or instance of |(?<=datetime), ")
_LENGTHS = {
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "at least {min_length} character",
    "too_long": "at most {max_length} entries",
    "too_short": "at least {min_length} entry",
}
"""By type of error of pydantic what a value must have; the placeholders are those of the error's context."""
# A lower limit makes a value in seconds an error; times without one accept it.
# Their values are often written in seconds.
_IN_MILLISECONDS = frozenset({
    "initial_redelivery_delay",
    "lock_acquire_interval",
    "lock_keepalive_interval",
    "redelivery_delay",
})  # fmt: skip
# A password may be in the place of a mapping that holds one.
_WITH_SECRETS = (
    "activemq_users",
    "activemq_jdbc",
    "activemq_tls",
    "activemq_metrics_tls",
    "activemq_jmx",
    "activemq_xml",
)
# The beginnings of pydantic's words for what a user of YAML calls otherwise.
_PLAIN = {
    "a valid boolean": "true or false",
    "a valid date": "a date such as 2030-12-31",
    "Datetimes provided to dates": "a date such as 2030-12-31",
    "a valid dictionary": "a mapping (lines of the form 'KEY: VALUE')",
    "a valid integer": "a whole number such as 10",
    "Unable to parse input string as an integer": "a whole number such as 10",
    "a valid number": "a number such as 1.5",
    "a finite number": "a number such as 1.5",
    "a valid string": "text in quotes",
    "a valid tuple": "a list (lines of the form '- VALUE')",
}


# Parts of pydantic's locations that no inventory holds.
_UNWRITTEN = frozenset({"[key]", "redelivery_policy_map", "persistence_adapter"})


def _written_location(location: tuple[int | str, ...], written: object) -> tuple[int | str, ...]:
    """Return a pydantic location with the keys of mappings that validators turned into lists of pairs.

    ``("connectors", 0, "attributes", 2, 1)`` becomes ``("connectors", 0, "attributes", "discoveryUri")``.
    """
    parts: list[int | str] = []
    rest = list(location)
    while rest:
        part = rest.pop(0)
        if isinstance(written, Mapping):
            if isinstance(part, int) and rest[:1] in ([0], [1]) and part < len(written):
                key, written = list(written.items())[part]
                parts += [_yaml_text(key), "[key]"] if rest.pop(0) == 0 else [_yaml_text(key)]
            else:  # A number that is no position is a key that the user wrote without quotes: true has the location 1.
                key = next((key for key in written if part in (key, repr(key))), part)
                parts.append(_yaml_text(key))
                written = written.get(key)
            continue
        parts.append(part)
        if isinstance(written, list) and isinstance(part, int) and part < len(written):
            written = written[part]
    return tuple(parts)


def _yaml_text(value: object) -> str:
    """Return a key or value as YAML has it: true, false and null, and not the names of Python."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _variable_path(location: tuple[int | str, ...]) -> str:
    """Return a pydantic location as users write it: ``('links', 2, 'to')`` is ``activemq_links[2].to``."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif not text:
            text = PREFIX + part
        elif part not in _UNWRITTEN:
            text += f".{_shown_name(part)}"
    return text
