"""The argument specs of the roles: they document every variable of the library and no other."""

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


def options_of_role(role: str) -> dict[str, Any]:
    spec = yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text())
    options: dict[str, Any] = spec["argument_specs"]["main"]["options"]
    return options


BROKER, AGENT, BALANCER = options_of_role("broker"), options_of_role("agent"), options_of_role("loadbalancer")
FIELDS = {f"{PREFIX}{name}": field for name, field in HostSettings.model_fields.items()}


def test_every_variable_is_documented_in_exactly_one_role() -> None:
    agents = {name for name in FIELDS if name.startswith(f"{PREFIX}agent_")}
    balancers = {name for name in FIELDS if name.startswith(f"{PREFIX}vip")}
    assert AGENT.keys() == agents
    assert BALANCER.keys() == balancers
    assert BROKER.keys() == (FIELDS.keys() - agents - balancers) | {"activemq_naming_pattern"}
    assert "activemq_naming_pattern" in NOT_SETTINGS


def default_of(field: FieldInfo) -> Any:
    default = field.default_factory() if field.default_factory else field.default  # type: ignore[call-arg]
    if isinstance(default, tuple):
        # Settings of this type keep a mapping as pairs, so that they can be hashed.
        return (
            dict(default)
            if any(isinstance(metadata, PlainSerializer) for metadata in field.metadata)
            else list(default)
        )
    return default


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_documented_default_of_role_variable_is_default_of_setting(name: str) -> None:
    documented = {**BROKER, **AGENT, **BALANCER}[name].get("default")
    default = default_of(FIELDS[name])
    if default is PydanticUndefined:
        pytest.fail(f"the setting {name} has no default: add one to HostSettings")
    assert documented == default


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_documented_choices_of_role_variable_are_accepted_choices(name: str) -> None:
    annotation = FIELDS[name].annotation
    literals = [
        part for part in (annotation, *typing.get_args(annotation)) if typing.get_origin(part) is typing.Literal
    ]
    accepted = [choice for literal in literals for choice in typing.get_args(literal)]
    assert sorted({**BROKER, **AGENT, **BALANCER}[name].get("choices", [])) == sorted(accepted)


def no_log_by_password(specs: dict[str, Any], place: str = "") -> dict[str, bool]:
    no_log: dict[str, bool] = {}
    for name, spec in specs.items():
        if name.endswith("password"):
            no_log[place + name] = spec.get("no_log", False)
        no_log |= no_log_by_password(spec.get("options", {}), f"{place}{name}.")
    return no_log


@pytest.mark.parametrize("role", ["broker", "agent", "loadbalancer"])
def test_every_password_option_of_roles_has_no_log(role: str) -> None:
    no_log = no_log_by_password(options_of_role(role))
    assert no_log
    assert [name for name, hidden in no_log.items() if not hidden] == []


def test_description_of_activemq_tls_states_missing_support() -> None:
    assert "yet" in str(BROKER[f"{PREFIX}tls"]["description"])
