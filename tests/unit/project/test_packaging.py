"""Facts that the files which describe the project must agree on: versions, requirements and pins."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import activemq_agent
from activemq_fleet import __version__
from activemq_fleet._collection import directories_with_this_collection

ROOT = Path(__file__).resolve().parents[3]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
AGENT: dict[str, Any] = tomllib.loads((ROOT / "agent" / "pyproject.toml").read_text())["project"]
AGENT_PACKAGE = "activemq-agent"
"""The project does not hold this name in any index: if an extra required it, pip could install a stranger's package."""


def pins(name: str) -> dict[str, str]:
    """Return the version of each package of a file in requirements/."""
    pairs = re.findall(r"^([A-Za-z0-9._-]+)==(\S+) \\$", (ROOT / "requirements" / name).read_text(), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", package).lower(): version for package, version in pairs}


def test_library_and_agent_have_same_version() -> None:
    assert activemq_agent.__version__ == __version__
    assert not [text for texts in EXTRAS.values() for text in texts if text.startswith(AGENT_PACKAGE)]


def test_pins_of_agent_hosts_are_exactly_requirements_of_agent() -> None:
    pinned = pins("agent.txt")
    assert {Requirement(text).name for text in AGENT["dependencies"]} == pinned.keys()
    assert not pinned.keys() & {"ansible-core", "lxml", "pydantic", "rich", "xmlschema"}
    assert pinned.items() <= pins("run.txt").items()


def test_collection_and_library_require_same_ansible() -> None:
    (ansible_requirement,) = (text for text in PROJECT["dependencies"] if text.startswith("ansible-core"))
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())
    assert Requirement(f"ansible-core{runtime['requires_ansible']}").specifier.contains("2.19.0")
    assert ansible_requirement == f"ansible-core{runtime['requires_ansible'].removesuffix('.0')}"


def test_library_requires_no_package_that_only_an_extra_imports() -> None:
    imports = {"ansible-core": "ansible", "pyyaml": "yaml"}
    sources = [path for path in (ROOT / "src" / "activemq_fleet").rglob("*.py") if path.is_file()]
    modules = [path.read_text() for path in sources if not {"lab", "spark", "audit", "drills"} & set(path.parts)]
    for text in PROJECT["dependencies"]:
        name = Requirement(text).name.lower()
        statement = re.compile(rf"^\s*(?:import|from) {imports.get(name, name)}\b", re.MULTILINE)
        assert any(statement.search(source) for source in modules), name


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("run.txt", ["lab", "agent"]),
        *((name, ["lab", "agent", "pipeline"]) for name in ("pipeline.txt", "demo.txt", "dev.txt")),
    ],
)
def test_requirements_of_library_agent_and_extras_are_pinned(name: str, extras: list[str]) -> None:
    pinned = pins(name)
    dependencies = [
        *PROJECT["dependencies"],
        *AGENT["dependencies"],
        *(dependency for extra in extras for dependency in EXTRAS[extra]),
    ]
    for requirement in map(Requirement, dependencies):
        assert requirement.specifier.contains(pinned[re.sub(r"[-_.]+", "-", requirement.name).lower()])


def test_pinned_versions_of_tests_are_versions_that_users_run() -> None:
    assert pins("run.txt").items() <= pins("pipeline.txt").items() <= pins("dev.txt").items()


def test_pinned_requirements_of_demo_omit_tools_of_developers() -> None:
    assert pins("pipeline.txt").items() <= pins("demo.txt").items() <= pins("dev.txt").items()
    assert not pins("demo.txt").keys() & {"mypy", "pytest", "ansible-lint", "polars", "duckdb"}


def test_pinned_requirements_without_pipeline_omit_spark() -> None:
    assert not pins("run.txt").keys() & {"pyspark", "pyarrow", "pandas"}


@pytest.mark.parametrize(
    "name", ["agent.txt", "run.txt", "pipeline.txt", "demo.txt", "dev.txt", "versions.txt", "installer.txt"]
)
def test_pinned_requirements_have_hashes_and_no_index_address(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    blocks = re.split(r"\n(?=\S)", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).strip())
    assert [block for block in blocks if "--hash=sha256:" not in block] == []
    assert re.search(r"://|find-links|index-url", text) is None


OLDEST_PYTHON = "3.11.2"
"""The Python of Debian 12, the oldest with which the commands of the README work."""


def test_installed_requirements_support_python_of_debian_12() -> None:
    requirements = {dist.name: dist.metadata["Requires-Python"] for dist in importlib.metadata.distributions()}
    refused = {name: text for name, text in requirements.items() if OLDEST_PYTHON not in SpecifierSet(text or "")}
    assert refused == {}


def test_collection_of_checkout_is_found_next_to_library() -> None:
    (path,) = directories_with_this_collection()
    assert Path(path, "ansible_collections", "activemq", "fleet").resolve() == ROOT


WITHOUT_PIPELINE = """
import importlib, pkgutil, sys
for name in ("numpy", "pandas", "pyarrow", "pyspark"):
    sys.modules[name] = None
import activemq_fleet
for package in ("cli", "drills", "lab"):
    path = [f"{directory}/{package}" for directory in activemq_fleet.__path__]
    for module in pkgutil.walk_packages(path, f"activemq_fleet.{package}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
"""


def test_drills_and_lab_import_nothing_of_pipeline_extra() -> None:
    process = subprocess.run([sys.executable, "-c", WITHOUT_PIPELINE], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
