"""Which values a variable takes: asked of the settings themselves."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from activemq_fleet.adopt.secrets import build_value
from activemq_fleet.settings import fields
from activemq_fleet.settings.broker import Settings

NAMES = tuple(Settings.model_fields)
_principal, _name = TypeAdapter(fields.Principal), TypeAdapter(fields.Name)


def fits(name: str, value: Any) -> bool:
    """Whether ``activemq_NAME`` may have this value, whatever the other variables are."""
    try:
        Settings.model_validate({name: build_value(value)})
    except ValidationError:
        return False
    return True


def is_default(name: str, value: Any) -> bool:
    """Whether a variable need not be written."""
    return bool(Settings.model_fields[name].get_default(call_default_factory=True) == value)


def literal(text: str) -> str | int | bool:
    """The text of an option or attribute as one would write it in YAML; it is rendered as it was."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isascii() and text.isdigit() and str(int(text)) == text else text


def principal(text: str) -> bool:
    """Whether a user or a group may be called so."""
    return _accepts(_principal, text)


def bean_name(text: str) -> bool:
    """Whether a connector or a link may be called so."""
    return _accepts(_name, text)


def _accepts(adapter: TypeAdapter[Any], value: Any) -> bool:
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True
