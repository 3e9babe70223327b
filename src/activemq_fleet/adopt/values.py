"""Check and convert values of single variables, by the settings' own validation."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from activemq_fleet.adopt.secrets import build_value
from activemq_fleet.settings import fields
from activemq_fleet.settings.broker import Settings

NAMES = tuple(Settings.model_fields)
_principal, _name = TypeAdapter(fields.Principal), TypeAdapter(fields.Name)


def is_valid_value(name: str, value: Any) -> bool:
    """Return whether variable ``activemq_NAME`` accepts the value, whatever the other variables are."""
    try:
        Settings.model_validate({name: build_value(value)})
    except ValidationError:
        return False
    return True


def is_default(name: str, value: Any) -> bool:
    """Return whether the value is the variable's default, so that the inventory need not set the variable."""
    return bool(Settings.model_fields[name].get_default(call_default_factory=True) == value)


def literal(text: str) -> str | int | bool:
    """Return an option's text as a YAML value that renders as the same text: a boolean, a number or the text."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isascii() and text.isdigit() and str(int(text)) == text else text


def principal(text: str) -> bool:
    """Return whether a user or a group may have this name."""
    return _accepts(_principal, text)


def bean_name(text: str) -> bool:
    """Return whether a connector or a link may have this name."""
    return _accepts(_name, text)


def _accepts(adapter: TypeAdapter[Any], value: Any) -> bool:
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True
