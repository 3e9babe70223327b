"""Write the JSON Schemas of the variables and of inventories from the models in settings/; with --check, compare them.

An editor validates and completes ``group_vars/*.yml`` and ``host_vars/*.yml`` with the first schema, and ``hosts.yml``
with the second. The argument specifications of the roles contain the descriptions.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from activemq_fleet.releases import describe_releases_with
from activemq_fleet.settings import usage, xml_beans
from activemq_fleet.settings.host_settings import NOT_SETTINGS, PREFIX, USERS_OWN, HostSettings
from activemq_fleet.settings.kahadb import DestinationStore
from activemq_fleet.settings.plugins import RedeliveryPlugin

ROOT = Path(__file__).resolve().parents[1]
DIRECTORY = ROOT / "src" / "activemq_fleet" / "settings"
ROLES = ("broker", "agent", "loadbalancer")
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEMPLATE = "#/$defs/template"
_MARKUP = re.compile(r"\b[CVOBIM]\(((?:[^()\\]|\\.)*)\)")
_NO_OBJECTS = {"type": "string"}
# By model, the field whose keys an inventory contains as keys of the model itself.
_NESTED_KEYS = {DestinationStore: "persistence_adapter", RedeliveryPlugin: "redelivery_policy_map"}
_GROUP_REFERENCE = {"$ref": "#/$defs/group"}
_VARIABLES_REFERENCE = {"$ref": "#/$defs/variables"}
# A key without a value is null: a host without variables, an empty file.
_OBJECT = ["object", "null"]

Schema = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Write both schemas, or with --check return 1 if one is out of date."""
    outdated = False
    for name, content in schemas().items():
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        path = DIRECTORY / f"{name}.schema.json"
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path.name} differs from the settings: run `make rules`", file=sys.stderr)
            outdated = True
    return int(outdated)


def schemas() -> dict[str, Schema]:
    """Return the schema of files with variables and that of inventories, by name."""
    definitions = _definitions()
    return {
        "variables": {
            "$schema": _DRAFT,
            "title": "Variables of activemq.fleet: group_vars/*.yml and host_vars/*.yml",
            **_VARIABLES_REFERENCE,
            "$defs": definitions,
        },
        "inventory": {
            "$schema": _DRAFT,
            "title": "An Ansible inventory in YAML with variables of activemq.fleet",
            "type": "object",
            "additionalProperties": _GROUP_REFERENCE,
            "$defs": definitions | {"group": _group()},
        },
    }


def _group() -> Schema:
    """Return the schema of a group of an inventory."""
    return {
        "type": _OBJECT,
        "additionalProperties": False,
        "properties": {
            "hosts": {
                "description": "The hosts of the group, each with its variables.",
                "type": _OBJECT,
                "additionalProperties": _VARIABLES_REFERENCE,
            },
            "vars": {"description": "Variables of all hosts of the group.", **_VARIABLES_REFERENCE},
            "children": {
                "description": "Groups whose hosts belong to the group, too.",
                "type": _OBJECT,
                "additionalProperties": _GROUP_REFERENCE,
            },
        },
    }


def _definitions() -> dict[str, Schema]:
    generated = HostSettings.model_json_schema(mode="validation", by_alias=True)
    definitions: dict[str, Schema] = generated["$defs"]
    properties: dict[str, Schema] = {f"{PREFIX}{name}": schema for name, schema in generated["properties"].items()}
    for name, option in _options().items():
        if name in properties:
            _describe(properties[name], option, definitions)
        elif name in NOT_SETTINGS:
            properties[name] = {"description": _plain(option["description"])}
    properties |= {name: {"description": "A parameter of a playbook."} for name in NOT_SETTINGS - properties.keys()}
    for model in _models(BaseModel):
        if model.__name__ in definitions:
            definitions[model.__name__] = _with_short_forms(model, definitions)
    for schema in (*definitions.values(), *properties.values()):
        _simplify(schema)
    return {
        **{name: _with_templates(schema) for name, schema in sorted(definitions.items())},
        "variables": {
            "type": _OBJECT,
            "properties": {name: _value(schema) for name, schema in sorted(properties.items())},
            "patternProperties": {f"^{USERS_OWN}": {}, f"^(?!{PREFIX})": {}},
            "additionalProperties": False,
        },
        "template": {"description": "A template of Jinja.", "type": "string", "pattern": r"\{\{|\{%"},
    }


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        if model.__module__.startswith("activemq_fleet.settings"):
            yield model
        yield from _models(model)


def _with_short_forms(model: type[BaseModel], definitions: Mapping[str, Schema]) -> Schema:
    """Return the schema of a model with the releases of its keys, and the short forms of an inventory."""
    schema = definitions[model.__name__]
    if issubclass(model, xml_beans.XmlBean):
        for key, described in schema.get("properties", {}).items():
            _add_releases(described, model, key)
    if nested := _NESTED_KEYS.get(model):
        inner = definitions[schema["properties"].pop(nested)["$ref"].rpartition("/")[2]]
        schema["properties"] |= inner["properties"]
        schema["required"] = [key for key in schema.get("required", ()) if key != nested]
    if issubclass(model, xml_beans.BeanWithTypeKey):
        kind = schema["properties"]["type"]
        return {"anyOf": [schema, {name: kind[name] for name in ("enum", "type") if name in kind}]}
    if issubclass(model, xml_beans.NamedDestination | usage._Usage):
        return {"anyOf": [schema, {"type": "string"}]}
    if issubclass(model, xml_beans.SwitchableBean) or model.__name__ in ("SchedulerSettings", "RedeliveryPlugin"):
        return {"anyOf": [schema, {"type": "boolean"}]}
    return schema


def _add_releases(described: Schema, model: type[xml_beans.XmlBean], key: str) -> None:
    releases = describe_releases_with(model.ELEMENT, key) if model.ELEMENT else ""
    if releases:
        sentence = f"Releases: {releases}."
        described["description"] = f"{described.get('description', '')} {sentence}".strip()


def _describe(schema: Schema, option: Mapping[str, Any], definitions: Mapping[str, Schema]) -> None:
    """Add the descriptions of an option of a role, and of the options within it, to a schema."""
    schema.setdefault("description", _plain(option.get("description", "")))
    if "default" in option and schema.get("default") is None:
        schema["default"] = option["default"]
    for name, inner in option.get("options", {}).items():
        for properties in _properties_of(schema, definitions):
            if name in properties:
                _describe(properties[name], inner, definitions)


def _properties_of(schema: Schema, definitions: Mapping[str, Schema]) -> Iterator[dict[str, Schema]]:
    """Yield the properties of each object that a value of the schema may be or hold."""
    if "$ref" in schema:
        yield from _properties_of(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "properties" in schema:
        yield schema["properties"]
    for part in (*schema.get("anyOf", ()), *filter(None, [schema.get("items")])):
        yield from _properties_of(part, definitions)


def _plain(description: str | list[str]) -> str:
    """Return an Ansible description without its markup."""
    text = description if isinstance(description, str) else " ".join(description)
    return _MARKUP.sub(_as_code, " ".join(text.split()))


def _as_code(markup: re.Match[str]) -> str:
    unescaped = re.sub(r"\\(.)", r"\1", markup[1])
    return f"`{unescaped}`"


def _simplify(schema: Any) -> None:
    """Remove titles, and defaults that are null or collections; write descriptions as Markdown in one line."""
    if isinstance(schema, list):
        for part in schema:
            _simplify(part)
    elif isinstance(schema, dict):
        if isinstance(schema.get("title"), str):
            del schema["title"]
        if "default" in schema and (schema["default"] is None or isinstance(schema["default"], list | dict)):
            del schema["default"]
        if isinstance(schema.get("description"), str):
            schema["description"] = re.sub(r":\w+:(?=`)", "", " ".join(schema["description"].split())).replace(
                "``", "`"
            )
        for key, part in schema.items():
            # The keys of properties are names of fields, which may be "default".
            _simplify(list(part.values()) if key == "properties" else part)


def _with_templates(schema: Schema) -> Schema:
    """Return the schema of an object or of alternatives, in which each value may be a template."""
    changed = dict(schema)
    if "properties" in schema:
        changed["properties"] = {name: _value(inner) for name, inner in schema["properties"].items()}
    if isinstance(schema.get("additionalProperties"), dict):
        changed["additionalProperties"] = _value(schema["additionalProperties"])
    if "items" in schema:
        changed["items"] = _value(schema["items"])
    if "anyOf" in schema:
        changed["anyOf"] = [_with_templates(part) for part in schema["anyOf"]]
    return changed


def _value(schema: Schema) -> Schema:
    """Return the schema of a value that may also be written as a template, which Ansible evaluates."""
    inner = _with_templates({key: part for key, part in schema.items() if key not in ("description", "default")})
    outer: Schema = {key: schema[key] for key in ("description", "default") if key in schema}
    parts = inner["anyOf"] if set(inner) == {"anyOf"} else [inner]
    if inner == {} or _NO_OBJECTS in parts:
        return {**outer, **inner}
    return {**outer, "anyOf": [*parts, {"$ref": _TEMPLATE}]}


def _options() -> dict[str, dict[str, Any]]:
    options: dict[str, dict[str, Any]] = {}
    for role in ROLES:
        specification = yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text("utf-8"))
        for name, option in specification["argument_specs"]["main"].get("options", {}).items():
            options.setdefault(name, option)
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
