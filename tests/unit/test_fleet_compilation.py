"""The fleet that the module compile returns, without Ansible's plugin: facts, files, archives and errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet import artifacts
from activemq_fleet.errors import InputError
from activemq_fleet.fleet_compilation import compile_fleet, error_list_text, write_archives
from activemq_fleet.inventory import InventoryData, read_inventory
from activemq_fleet.node.config.configuration_archive import unpack_configuration
from activemq_fleet.schema import CompiledActivemqXsd
from tests.support.played_sites import PERMISSIVE_SCHEMA

A, B = "orders-mq01-a", "orders-mq01-b"


@pytest.fixture(autouse=True)
def permissive_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = CompiledActivemqXsd(PERMISSIVE_SCHEMA.encode())
    monkeypatch.setattr(artifacts, "load_schema", lambda release: schema)


def inventory_data(directory: Path, **variables: Any) -> InventoryData:
    settings = {"release": "5.18.3", "users": "[{name: till, password: canary}]", **variables}
    lines = [f"    activemq_{name}: {value}" for name, value in settings.items()]
    path = directory / "hosts.yml"
    path.write_text("\n".join(["all:", f"  hosts: {{{A}: , {B}: }}", "  vars:", *lines, ""]))
    return read_inventory([str(path)])


def ignore_warning(text: str) -> None:
    """Accept a warning."""


def test_compiled_fleet_has_facts_files_and_warnings(tmp_path: Path) -> None:
    warnings: list[str] = []
    compiled = compile_fleet(inventory_data(tmp_path), [A], warn=warnings.append)

    assert [*compiled.facts.brokers] == [A, B]
    assert compiled.facts.expected == (A,)
    assert (compiled.returned["expected"], [*compiled.returned["brokers"]]) == ([A], [A, B])
    assert compiled.returned["brokers"][A]["persistence"]["kind"] == "kahaDB"
    assert {*compiled.files} == {("broker", A), ("broker", B)}
    assert any(text.startswith("T030") for text in warnings)
    assert "canary" not in compiled.facts.to_json()


def test_unchecked_fleet_has_facts_and_no_files_although_it_has_errors(tmp_path: Path) -> None:
    data = inventory_data(tmp_path, topology="mesh", node="a")
    compiled = compile_fleet(data, None, checked=False, warn=ignore_warning)

    assert compiled.facts.expected == (A, B)
    assert {*compiled.returned} == {"brokers", "agents"}
    assert compiled.returned["brokers"][A]["persistence"] is None
    assert not compiled.files


@pytest.mark.parametrize(
    ("variables", "options", "text"),
    [
        ({"topology": "mesh", "node": "a"}, {}, "T003 orders-mq01-b"),
        ({"archive": "/missing.tar.gz"}, {"installs": True}, "T030 orders-mq01-a"),
    ],
)
def test_fleet_with_error_is_refused_with_line_of_inventory(
    tmp_path: Path, variables: Mapping[str, Any], options: Mapping[str, bool], text: str
) -> None:
    data = inventory_data(tmp_path, **variables)

    with pytest.raises(InputError) as refusal:
        compile_fleet(data, None, **options, warn=ignore_warning)

    first, *lines = error_list_text(refusal.value).splitlines()
    assert first == f"the fleet has {len(lines)} error{'s' if len(lines) > 1 else ''}, so no configuration was created:"
    assert any(line.startswith(f"  {text}") for line in lines), lines


def test_archive_of_host_contains_its_files_and_is_private(tmp_path: Path) -> None:
    compiled = compile_fleet(inventory_data(tmp_path), None, warn=ignore_warning)
    written = write_archives(compiled.files, str(tmp_path))

    directory, archive = Path(written["directory"]), Path(written["archives"][B]["broker"]["path"])
    assert (directory.parent, archive.parent) == (tmp_path, directory)
    assert (directory.stat().st_mode & 0o777, archive.stat().st_mode & 0o777) == (0o700, 0o600)
    assert archive.name == f"{written['archives'][B]['broker']['sha256']}.broker.tar"
    assert unpack_configuration(archive.read_bytes()) == compiled.files["broker", B]
