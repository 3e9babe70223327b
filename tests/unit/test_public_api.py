"""The public API: what ``import activemq_fleet`` loads, its names and examples, and which code uses it."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import activemq_fleet
from activemq_fleet.lab import Lab

PROCESS_TIMEOUT = 500
"""Seconds after which a process of a test counts as hung. On a busy machine, all imports together take a minute."""
pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src/activemq_fleet"
MANAGED_HOSTS = (ROOT / "plugins/modules", ROOT / "plugins/module_utils")
FUNCTIONS = tuple(name for name in activemq_fleet.__all__ if inspect.isfunction(getattr(activemq_fleet, name)))
VERSION = "activemq_fleet._version"
NOT_LOADED = {"ansible", "pyspark", "activemq_fleet.lab"}
PRINT_LOADED = "; import sys, json; print(json.dumps(sorted(sys.modules)))"

DEEP_IMPORTS = {"cli": 100, "plugins": 43, "spark": 67}
"""The most modules below ``activemq_fleet`` that the files of each part may import; lower it when there are fewer.

Outputs are written by ``atomic_files`` alone, so a new output needs an import."""

LOWEST_MODULES = {
    "activemq_fleet.errors",
    "activemq_fleet.node.host_paths",
    "activemq_fleet.node.log.log_file_names",
    "activemq_fleet.node.printable",
    "activemq_fleet.node.text_lines",
    "activemq_fleet.similar_names",
}
"""Modules below all others that do not count: every part formats text, or names files of hosts."""

CALL_EVERY_FUNCTION = """
import contextlib, importlib, io, json, pathlib, pkgutil, sys, tempfile
import activemq_fleet

def is_program(name):
    return name.endswith(".__main__")

names = [module.name for module in pkgutil.walk_packages(activemq_fleet.__path__, "activemq_fleet.")]
for name in names:
    if not is_program(name):
        importlib.import_module(name)

variables = {"activemq_release": "5.18.3", "activemq_ha": "none"}
loaded = activemq_fleet.load_fleet("orders-mq01-a,", extra_vars=["activemq_release=5.18.3", "activemq_ha=none"])
fleet = activemq_fleet.build_fleet({"orders-mq01-a": variables})
files = activemq_fleet.render_fleet(fleet)
content = files["hosts/orders-mq01-a/conf/activemq.xml"]
path = pathlib.Path(sys.argv[1], "orders-mq01-a.xml")
path.write_bytes(content)
called = {
    "load_fleet": loaded,
    "build_fleet": fleet,
    "render_fleet": files,
    "check_fleet": activemq_fleet.check_fleet(fleet, schema_of=None),
    "lint_file": activemq_fleet.lint_file(content, activemq_fleet.Release.of("5.18.3"), schema_of=None),
    "lint_links_between_files": activemq_fleet.lint_links_between_files(
        {"orders.xml": content}, {"orders.xml": activemq_fleet.Release.of("5.18.3")}
    ),
    "repair_file": activemq_fleet.repair_file(content, activemq_fleet.Release.of("5.18.3"), schema_of=None),
    "explain_host": activemq_fleet.explain_host(fleet, "orders-mq01-a"),
    "find_routes": activemq_fleet.find_routes(fleet),
    "fleet_status": activemq_fleet.fleet_status(fleet, {}),
    "adopt_files": activemq_fleet.adopt_files([path], schema_of=None),
}
types = {name: type(returned).__name__ for name, returned in called.items()}
print(json.dumps({"modules": len(names), "types": types}))
"""


def loaded_after(statement: str) -> set[str]:
    command = [sys.executable, "-c", statement + PRINT_LOADED]
    return set(
        json.loads(subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_TIMEOUT, check=True).stdout)
    )


def parse_module(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_modules(path: Path) -> Iterator[str]:
    """Yield the full name of each module of the library that a file imports, also by the plugins' ``library("…")``."""
    for node in ast.walk(parse_module(path)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            prefix = {"library": "activemq_fleet.", "import_module_of_node_package": "activemq_fleet.node."}.get(
                node.func.id
            )
            if prefix and isinstance(node.args[0], ast.Constant):
                yield prefix + str(node.args[0].value)


def deep_imports(directory: Path, package: str) -> set[tuple[str, str]]:
    """Return (file, module) of each import of a private module of the library from files below a directory."""
    return {
        (str(path.relative_to(ROOT)), module)
        for path in directory.rglob("*.py")
        if "module_utils" not in path.parts
        for module in imported_modules(path)
        if module.startswith("activemq_fleet.") and module not in {"activemq_fleet.lab", *LOWEST_MODULES}
        if module != package and not module.startswith(f"{package}.")
    }


def test_import_of_library_loads_only_version_and_standard_library() -> None:
    added = loaded_after("import activemq_fleet") - loaded_after("pass")
    assert {name for name in added if name.startswith("activemq_fleet")} == {"activemq_fleet", VERSION}
    assert {name.partition(".")[0] for name in added} <= {"activemq_fleet", *sys.stdlib_module_names}


def test_import_of_every_name_loads_neither_ansible_nor_spark_nor_lab() -> None:
    added = loaded_after("from activemq_fleet import *")
    assert {"activemq_fleet.adopt", "activemq_fleet.validation"} <= added
    assert added & NOT_LOADED == set()


def test_unknown_name_of_api_causes_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'activemq_fleet' has no attribute 'renderfleet'"):
        activemq_fleet.renderfleet  # type: ignore[attr-defined]  # noqa: B018
    assert set(activemq_fleet.__all__) <= set(dir(activemq_fleet))


def test_names_for_type_checkers_match_lazily_imported_names() -> None:
    tests = [node for node in parse_module(SOURCES / "__init__.py").body if isinstance(node, ast.If)]
    block = next(node for node in tests if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
    declared = {
        alias.name: str(node.module) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert sorted(declared) == sorted(activemq_fleet.__all__)
    for name, module in declared.items():
        assert getattr(activemq_fleet, name) is getattr(importlib.import_module(module), name)


def test_api_has_documented_functions_and_types() -> None:
    assert set(FUNCTIONS) == {
        *("load_fleet", "build_fleet", "render_fleet", "check_fleet", "lint_file"),
        *("lint_links_between_files", "repair_file"),
        *("explain_host", "find_routes", "fleet_status", "adopt_files"),
    }
    assert set(activemq_fleet.__all__) - set(FUNCTIONS) == {
        *("Fleet", "Broker", "Agent", "Group", "Pair", "Link", "Finding", "FileRepair", "Release", "FleetStatus"),
        *("FleetError", "InputError", "SettingsError", "ReleaseError"),
    }


def test_every_function_works_after_import_of_every_submodule(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CALL_EVERY_FUNCTION, str(tmp_path)]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_TIMEOUT, check=False)
    assert completed.returncode == 0, completed.stderr
    outcome = json.loads(completed.stdout.splitlines()[-1])
    assert outcome["modules"] > 400
    assert outcome["types"] == {
        "load_fleet": "Fleet",
        "build_fleet": "Fleet",
        "render_fleet": "dict",
        "check_fleet": "tuple",
        "lint_file": "tuple",
        "lint_links_between_files": "tuple",
        "repair_file": "FileRepair",
        "explain_host": "HostExplanation",
        "find_routes": "Routes",
        "fleet_status": "FleetStatus",
        "adopt_files": "AdoptedInventory",
    }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_example_in_docstring_of_function_prints_documented_output(name: str) -> None:
    # A later import of this module would use the stdout of the example as the terminal.
    importlib.import_module("ansible.utils.display")
    (examples,) = doctest.DocTestFinder(recurse=False).find(getattr(activemq_fleet, name), name)
    assert any(example.want for example in examples.examples)
    failures: list[str] = []
    doctest.DocTestRunner().run(examples, out=failures.append)
    assert failures == []


def test_examples_on_page_of_api_print_documented_output() -> None:
    page = ROOT / "docs/python-api.md"
    blocks = re.findall(r"^```python\n(>>> .*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    examples = doctest.DocTestParser().get_doctest("".join(blocks), {}, page.name, str(page), 0)
    assert len(examples.examples) > 10
    failures: list[str] = []
    doctest.DocTestRunner().run(examples, out=failures.append)
    assert failures == []


def test_page_of_api_names_every_function_type_and_error() -> None:
    page = (ROOT / "docs/python-api.md").read_text(encoding="utf-8")
    assert [name for name in activemq_fleet.__all__ if f"`{name}`" not in page] == []


def test_methods_on_page_of_api_exist_in_lab() -> None:
    page = (ROOT / "docs/python-api.md").read_text(encoding="utf-8")
    table = page.partition("| method | effect |")[2]
    methods = re.findall(r"`(\w+)\(", table)
    assert len(methods) > 15
    assert [name for name in methods if not callable(getattr(Lab, name, None))] == []


@pytest.mark.parametrize("part", DEEP_IMPORTS)
def test_number_of_deep_imports_does_not_grow(part: str) -> None:
    directory = ROOT / part if part == "plugins" else SOURCES / part
    deep = deep_imports(directory, f"activemq_fleet.{part}")
    assert len(deep) <= DEEP_IMPORTS[part], "\n".join(map(str, sorted(deep)))


def test_only_upper_layers_import_api() -> None:
    """A lower layer that imports the API imports modules above it, and import-linter does not detect this."""
    importing = [
        path for path in SOURCES.rglob("*.py") if "from activemq_fleet import" in path.read_text(encoding="utf-8")
    ]
    assert importing
    for path in importing:
        package = path.relative_to(SOURCES).parts[0]
        names = {
            alias.name
            for node in ast.walk(parse_module(path))
            if isinstance(node, ast.ImportFrom) and node.module == "activemq_fleet" and not node.level
            for alias in node.names
        }
        assert package in ("cli", "lab", "spark") or names & set(activemq_fleet.__all__) == set(), path


def test_code_for_managed_hosts_imports_nothing_of_library() -> None:
    files = [path for directory in MANAGED_HOSTS for path in directory.rglob("*.py")]
    imported = {(path.name, module) for path in files for module in imported_modules(path)}
    assert ("judge.py", "__future__") in imported
    assert {(name, module) for name, module in imported if module.split(".")[0] == "activemq_fleet"} == set()


def test_import_of_node_modules_loads_only_standard_library() -> None:
    names = sorted(
        "activemq_fleet.node." + ".".join(path.relative_to(SOURCES / "node").with_suffix("").parts)
        for path in (SOURCES / "node").rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py", "run_module.py")
    )
    assert len(names) > 50
    added = loaded_after(f"import {', '.join(names)}") - loaded_after("pass")
    assert {name.partition(".")[0] for name in added} <= {"activemq_fleet", *sys.stdlib_module_names}
    assert {name for name in added if name.startswith("activemq_fleet.")} <= {
        VERSION,
        "activemq_fleet.node",
        *names,
    } | {name.rpartition(".")[0] for name in names}
