"""The roles' argument specs tell of every variable that the library knows, and of no other."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import PlainSerializer
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from activemq_fleet.settings.host_settings import NOT_SETTINGS, HostSettings

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "activemq_"


def options(role: str) -> dict[str, Any]:
    spec = yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text())
    found: dict[str, Any] = spec["argument_specs"]["main"]["options"]
    return found


BROKER, AGENT, BALANCER = options("broker"), options("agent"), options("loadbalancer")
FIELDS = {f"{PREFIX}{name}": field for name, field in HostSettings.model_fields.items()}


def test_every_variable_is_documented_in_one_role() -> None:
    agents = {name for name in FIELDS if name.startswith(f"{PREFIX}agent_")}
    balancers = {name for name in FIELDS if name.startswith(f"{PREFIX}vip")}
    assert AGENT.keys() == agents
    assert BALANCER.keys() == balancers
    assert BROKER.keys() == (FIELDS.keys() - agents - balancers) | {"activemq_naming_pattern"}
    assert "activemq_naming_pattern" in NOT_SETTINGS


def default_of(field: FieldInfo) -> Any:
    value = field.default_factory() if field.default_factory else field.default  # type: ignore[call-arg]
    if isinstance(value, tuple):
        # Of a type that keeps a mapping as pairs, so that settings can be hashed.
        return dict(value) if any(isinstance(one, PlainSerializer) for one in field.metadata) else list(value)
    return value


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_a_default_that_is_told_is_the_one_that_holds(name: str) -> None:
    told = {**BROKER, **AGENT, **BALANCER}[name].get("default")
    held = default_of(FIELDS[name])
    if held is PydanticUndefined:
        pytest.fail(f"{name} must have a default")
    assert told == held


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_the_choices_that_are_told_are_those_that_are_taken(name: str) -> None:
    annotation = FIELDS[name].annotation
    literals = [
        part for part in (annotation, *typing.get_args(annotation)) if typing.get_origin(part) is typing.Literal
    ]
    taken = [choice for literal in literals for choice in typing.get_args(literal)]
    assert sorted({**BROKER, **AGENT, **BALANCER}[name].get("choices", [])) == sorted(taken)


def secrets(specs: dict[str, Any], place: str = "") -> dict[str, bool]:
    found: dict[str, bool] = {}
    for name, spec in specs.items():
        if name.endswith("password"):
            found[place + name] = spec.get("no_log", False)
        found |= secrets(spec.get("options", {}), f"{place}{name}.")
    return found


@pytest.mark.parametrize("role", ["broker", "agent", "loadbalancer"])
def test_every_password_is_kept_out_of_logs(role: str) -> None:
    found = secrets(options(role))
    assert found
    assert all(found.values()), [name for name, hidden in found.items() if not hidden]


def test_what_is_not_done_yet_says_so() -> None:
    assert "yet" in str(BROKER[f"{PREFIX}tls"]["description"])
