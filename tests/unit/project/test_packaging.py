"""What must agree between the files that describe the project."""

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
OWN = "activemq-agent"
"""In no index that the project holds: an extra that required it would make pip take a stranger's."""


def pins(name: str) -> dict[str, str]:
    """Package -> version, of a file in requirements/."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==(\S+) \\$", (ROOT / "requirements" / name).read_text(), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", package).lower(): version for package, version in found}


def test_library_and_agent_have_one_version() -> None:
    assert activemq_agent.__version__ == __version__
    assert not [text for texts in EXTRAS.values() for text in texts if text.startswith(OWN)]


def test_the_agent_needs_what_is_pinned_for_its_hosts_and_no_more() -> None:
    pinned = pins("agent.txt")
    assert {Requirement(text).name for text in AGENT["dependencies"]} == pinned.keys()
    assert not pinned.keys() & {"ansible-core", "lxml", "pydantic", "rich", "xmlschema"}
    assert pinned.items() <= pins("run.txt").items()


def test_collection_and_library_ask_for_one_ansible() -> None:
    (wanted,) = (text for text in PROJECT["dependencies"] if text.startswith("ansible-core"))
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())
    assert Requirement(f"ansible-core{runtime['requires_ansible']}").specifier.contains("2.19.0")
    assert wanted == f"ansible-core{runtime['requires_ansible'].removesuffix('.0')}"


def test_a_user_of_render_installs_nothing_that_only_an_extra_needs() -> None:
    imports = {"ansible-core": "ansible", "pyyaml": "yaml"}
    sources = [path for path in (ROOT / "src" / "activemq_fleet").rglob("*.py") if path.is_file()]
    needed = [path.read_text() for path in sources if not {"lab", "spark", "audit", "drills"} & set(path.parts)]
    for text in PROJECT["dependencies"]:
        name = Requirement(text).name.lower()
        statement = re.compile(rf"^\s*(?:import|from) {imports.get(name, name)}\b", re.MULTILINE)
        assert any(statement.search(source) for source in needed), name


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("run.txt", ["lab", "agent"]),
        *((name, ["lab", "agent", "pipeline"]) for name in ("pipeline.txt", "demo.txt", "dev.txt")),
    ],
)
def test_what_the_package_needs_is_pinned(name: str, extras: list[str]) -> None:
    pinned = pins(name)
    wanted = [*PROJECT["dependencies"], *AGENT["dependencies"], *(one for extra in extras for one in EXTRAS[extra])]
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(pinned[re.sub(r"[-_.]+", "-", requirement.name).lower()])


def test_what_is_tested_is_what_runs() -> None:
    assert pins("run.txt").items() <= pins("pipeline.txt").items() <= pins("dev.txt").items()


def test_demo_installs_no_tool_of_developers() -> None:
    assert pins("pipeline.txt").items() <= pins("demo.txt").items() <= pins("dev.txt").items()
    assert not pins("demo.txt").keys() & {"mypy", "pytest", "ansible-lint", "polars", "duckdb"}


def test_an_agents_host_does_not_get_spark() -> None:
    assert not pins("run.txt").keys() & {"pyspark", "pyarrow", "pandas"}


@pytest.mark.parametrize(
    "name", ["agent.txt", "run.txt", "pipeline.txt", "demo.txt", "dev.txt", "versions.txt", "installer.txt"]
)
def test_pins_carry_hashes_and_no_address(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    blocks = re.split(r"\n(?=\S)", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).strip())
    assert [block for block in blocks if "--hash=sha256:" not in block] == []
    assert re.search(r"://|find-links|index-url", text) is None


OLDEST_PYTHON = "3.11.2"
"""The Python of Debian 12, the oldest on which the README's commands work."""


def test_installed_requirements_support_python_of_debian_12() -> None:
    requirements = {dist.name: dist.metadata["Requires-Python"] for dist in importlib.metadata.distributions()}
    refused = {name: text for name, text in requirements.items() if OLDEST_PYTHON not in SpecifierSet(text or "")}
    assert refused == {}


def test_the_checkouts_collection_is_found_beside_the_library() -> None:
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
    done = subprocess.run([sys.executable, "-c", WITHOUT_PIPELINE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
