"""The JSON Schemas of variables and inventories: an independent validator accepts the examples and rejects mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from activemq_fleet.cli.main import main
from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.settings.json_schemas import read_json_schema_text
from activemq_fleet.settings.variable_validation import KNOWN
from scripts import variables_schema
from tests.situations import some_situations

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
INVENTORIES = sorted(EXAMPLES.glob("*/hosts.yml"))
VARIABLES = sorted({*EXAMPLES.glob("*/group_vars/**/*.yml"), *EXAMPLES.glob("*/host_vars/**/*.yml")})
MOLECULE = Path(__file__).resolve().parents[2] / "molecule"
WITH_BALANCERS = sorted({*MOLECULE.glob("*/inventory/hosts.yml"), *MOLECULE.glob("*/inventory/*_vars/**/*.yml")})
"""The inventories of the scenarios. One of them has load balancers; the examples have none."""
ROLES = ("activemq_agent_", "activemq_vip")
ROLE_VARIABLES = sorted(name for name in KNOWN if name.startswith(ROLES))
"""The variables of agents and load balancers."""


class VaultLoader(yaml.SafeLoader):
    """YAML loader that reads values with a tag, such as those of Ansible Vault, as text."""


VaultLoader.add_multi_constructor("!", lambda loader, _suffix, node: loader.construct_scalar(node))


def problems_of(kind: str, text: str) -> list[str]:
    validator = Draft202012Validator(json.loads(read_json_schema_text(kind)))
    document = yaml.load(text, VaultLoader)  # noqa: S506 -- a SafeLoader
    return [f"{problem.json_path}: {problem.message}" for problem in validator.iter_errors(document)]


@some_situations(1)
@pytest.mark.parametrize("kind", ["variables", "inventory"])
def test_json_schema_is_valid_and_printed_by_command(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", kind]) == 0
    json_schema = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(json_schema)
    assert json_schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_json_schemas_match_models_of_variables() -> None:
    assert variables_schema.main(["--check"]) == 0, "the schemas differ from the models: run `make rules`"


def test_every_variable_has_description_in_json_schema() -> None:
    properties = json.loads(read_json_schema_text("variables"))["$defs"]["variables"]["properties"]
    assert {name for name in KNOWN if not properties[name].get("description")} == set()


def test_every_default_in_json_schema_matches_models() -> None:
    properties = json.loads(read_json_schema_text("variables"))["$defs"]["variables"]["properties"]
    defaults = {
        name: field.default
        for name, field in HostSettings.model_fields.items()
        if type(field.default) in (str, int, bool)
    }
    assert len(defaults) > 30
    assert {name: properties[f"activemq_{name}"].get("default") for name in defaults} == defaults


@pytest.mark.parametrize("path", VARIABLES, ids=lambda path: path.relative_to(EXAMPLES).as_posix())
def test_variables_of_examples_are_valid_in_json_schema(path: Path) -> None:
    assert problems_of("variables", path.read_text()) == []


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.relative_to(EXAMPLES).as_posix())
def test_inventories_of_examples_are_valid_in_json_schema(path: Path) -> None:
    assert problems_of("inventory", path.read_text()) == []


@pytest.mark.parametrize("path", [*INVENTORIES, *VARIABLES], ids=lambda path: path.relative_to(EXAMPLES).as_posix())
def test_every_example_file_names_its_json_schema(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line.startswith("# yaml-language-server: $schema=")]
    assert len(lines) == 1
    schema = (path.parent / lines[0].partition("=")[2]).resolve()
    assert schema.name == ("inventory.schema.json" if path in INVENTORIES else "variables.schema.json")
    assert schema.is_file()


@pytest.mark.parametrize(
    "text",
    [
        "activemq_relase: 5.18.3",
        "activemq_port_offset: many",
        "activemq_port_offset: -1",
        "activemq_ha: shared",
        "activemq_console: maybe",
        "activemq_users: {name: app, password: x}",
        "activemq_users: [{name: app, pasword: x}]",
        "activemq_users: [{name: 'a b', password: x}]",
        "activemq_links: [{from: a, to: b, duplx: true}]",
        "activemq_links: [{from: a, to: b, attributes: {prefetchsize: 1}}]",
        "activemq_kahadb: {journal_max_file_lenght: 64 mb}",
        "activemq_destination_policies: [{kind: queue, destination: a, queue_prefetch: lots}]",
        "activemq_destination_policies: [{kind: queu, destination: a}]",
        "activemq_heap: 5",
        "activemq_vip_router_id: 256",
        "activemq_agent_log_level: loud",
        "activemq_agent_packet_bytes: 1",
    ],
)
def test_json_schema_rejects_variable_with_wrong_key_or_value(text: str) -> None:
    assert problems_of("variables", text)
    (documents,) = [yaml.safe_load(text)]
    inventory: dict[str, Any] = {"all": {"hosts": {"a-mq01-a": documents}}}
    assert problems_of("inventory", yaml.safe_dump(inventory))


@pytest.mark.parametrize("text", ["all: {host: {a: }}", "all: {hosts: [a, b]}", "all: {vars: {activemq_relase: x}}"])
def test_json_schema_rejects_wrong_inventory(text: str) -> None:
    assert problems_of("inventory", text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "activemq_port_offset: '{{ offset }}'",
        "activemq_users: '{{ users }}'",
        "activemq_users: [{name: app, password: !vault xyz, groups: 'a, b'}]",
        "activemq_network_ttl: {consumer: 1, message: 9999}",
        "activemq_links: [{from: a, to: b, attributes: {prefetchSize: 1, conduitSubscriptions: false}}]",
        "activemq_archive: {'5.18.3': /srv/a.tar.gz}",
        "activemq_virtual_destinations: [{type: composite_queue, name: a, forward_to: ['queue://b']}]",
        "activemq_usage: {memory: 70 %, store: {limit: 20 gb}}",
        "activemq_plugins: {statistics: true, redelivery: {default: {maximum_redeliveries: 3}}}",
        "activemq_kahadb: {by_destination: [{destination: a, kind: queue, journal_max_file_length: 64 mb}]}",
        "activemq_x_mine: 1",
        "ansible_user: root",
    ],
)
def test_other_forms_of_values_are_valid(text: str) -> None:
    assert problems_of("variables", text) == []


def kind_of(path: Path) -> str:
    return "inventory" if path.name == "hosts.yml" else "variables"


def role_variables_in(content: Any) -> list[tuple[dict[str, Any], str]]:
    """Return each variable of agents and load balancers in a file, as (the mapping that has it, its name)."""
    if not isinstance(content, dict):
        return []
    direct = [(content, name) for name in content if str(name).startswith(ROLES)]
    return direct + [variable for value in content.values() for variable in role_variables_in(value)]


ROLE_FILES = [
    path
    for path in (*INVENTORIES, *VARIABLES, *WITH_BALANCERS)
    if role_variables_in(yaml.load(path.read_text(), VaultLoader))  # noqa: S506 -- a SafeLoader
]


def test_agents_and_load_balancers_are_in_files_of_examples_and_scenarios() -> None:
    names = {path.parent.parent.name if path.parent.name == "group_vars" else path.parent.name for path in ROLE_FILES}
    variables = [name for path in ROLE_FILES for _, name in role_variables_in(yaml.safe_load(path.read_text()))]
    assert "shared-store" in names
    assert any(name.startswith("activemq_agent_") for name in variables)
    assert any(name.startswith("activemq_vip") for name in variables)


@pytest.mark.parametrize("path", WITH_BALANCERS, ids=lambda path: path.relative_to(MOLECULE).as_posix())
def test_inventories_of_molecule_scenarios_are_valid_in_json_schema(path: Path) -> None:
    assert problems_of(kind_of(path), path.read_text()) == []


@pytest.mark.parametrize("path", ROLE_FILES, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_json_schema_rejects_wrong_key_or_type_of_agent_or_balancer_in_file(path: Path) -> None:
    file_text = path.read_text()
    for position in range(len(role_variables_in(yaml.safe_load(file_text)))):
        misspelled, mistyped = yaml.safe_load(file_text), yaml.safe_load(file_text)
        mapping, name = role_variables_in(misspelled)[position]
        mapping[f"{name}_"] = mapping.pop(name)
        assert problems_of(kind_of(path), yaml.safe_dump(misspelled)), name
        mapping, name = role_variables_in(mistyped)[position]
        mapping[name] = [{"key": 1}]
        assert problems_of(kind_of(path), yaml.safe_dump(mistyped)), name


@some_situations(15)
@pytest.mark.parametrize("name", ROLE_VARIABLES)
def test_json_schema_rejects_wrong_key_or_type_of_each_agent_and_balancer_variable(name: str) -> None:
    assert len(ROLE_VARIABLES) > 45
    for wrong_settings in ({f"{name}s": "a"}, {name[:-1]: "a"}, {name: [{"key": 1}]}, {name: {"key": {"key": 1}}}):
        assert problems_of("variables", yaml.safe_dump(wrong_settings)), wrong_settings
        inventory = {"all": {"children": {"activemq_agents": {"hosts": {"shop01": wrong_settings}}}}}
        assert problems_of("inventory", yaml.safe_dump(inventory)), wrong_settings
