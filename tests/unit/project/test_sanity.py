"""The ignored entries of ansible-test: complete, explained, and limited to errors that cannot be corrected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from scripts import sanity
from scripts.ansible_cores import CORES

ROOT = Path(__file__).resolve().parents[3]
# The importer of Galaxy runs ansible-lint, whose rule `sanity` accepts only a few entries.
ACCEPTED = {"validate-modules:missing-gplv3-license"}


@pytest.mark.parametrize("core", CORES)
def test_ignored_entries_of_ansible_test_are_explained_and_few(core: str) -> None:
    lines = (ROOT / "tests" / "sanity" / f"ignore-{core}.txt").read_text("utf-8").splitlines()
    entries = [line.partition(" # ") for line in lines]
    assert not [line for line, (*_, reason) in zip(lines, entries, strict=True) if not reason]
    assert {entry.split()[1] for entry, *_ in entries} <= ACCEPTED


@pytest.mark.parametrize("core", CORES)
def test_every_module_has_entry_about_license(core: str) -> None:
    ignore_file = (ROOT / "tests" / "sanity" / f"ignore-{core}.txt").read_text("utf-8")
    ignored = {line.split()[0] for line in ignore_file.splitlines() if "missing-gplv3-license" in line}
    plugins = ROOT / "plugins"
    kinds = ("callback", "inventory", "modules")
    assert ignored == {path.relative_to(ROOT).as_posix() for kind in kinds for path in plugins.glob(f"{kind}/*.py")}


def test_each_file_of_plugins_names_its_license() -> None:
    files = [path for path in (ROOT / "plugins").rglob("*.py") if path.stat().st_size]
    head_by_path = {path: path.read_text("utf-8").splitlines()[:3] for path in files}
    assert not [path for path, head in head_by_path.items() if "# SPDX-License-Identifier: Apache-2.0" not in head]


def test_python_interpreter_that_cannot_start_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shims, versions = tmp_path / "shims", tmp_path / "versions"
    working = versions / "3.9.18" / "bin" / "python3.9"
    for path, body in ((shims / "python3.9", "exit 127"), (working, "echo /usr/bin/interpreter")):
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(shims))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert sanity.find_pythons(["3.9", "3.10"]) == {"3.9": "/usr/bin/interpreter"}


def test_sanity_run_without_python_fails_and_names_missing_pythons(tmp_path: Path) -> None:
    result = sanity.run_core("2.21", tmp_path, {"3.9": "/usr/bin/python3.9"}, [])
    assert not result.passed
    assert result.problem == "because Python 3.12 or 3.13 or 3.14 is missing: install one"


def test_sanity_results_are_recorded_with_version_and_tested_pythons(tmp_path: Path) -> None:
    results = [
        sanity.SanityResult("2.21", "3.12", True, version="2.21.5"),
        sanity.SanityResult("2.20", "-", False, "because Python 3.12 is missing: install it"),
        sanity.SanityResult("antsibull-docs", "3.13", False, "because a link is broken", "2.24.0"),
    ]
    sanity.write_records(results, ["3.9", "3.12"], tmp_path)
    assert {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()} == {
        "sanity-2.21.json": {
            "kind": "sanity",
            "core": "2.21",
            "tool": "ansible-test",
            "version": "2.21.5",
            "python": "3.12",
            "result": "passed",
            "tested": "3.9, 3.12",
        },
        "sanity-antsibull-docs.json": {
            "kind": "sanity tool",
            "core": "",
            "tool": "antsibull-docs",
            "version": "2.24.0",
            "python": "3.13",
            "result": "failed",
        },
    }


def test_package_missing_in_sanity_environment_is_error(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    (packages / "ansible_core-2.21.5.dist-info").mkdir(parents=True)
    assert sanity.installed_version(tmp_path, "ansible-core") == "2.21.5"
    with pytest.raises(sanity.SanityError, match="does not contain ansible-builder"):
        sanity.installed_version(tmp_path, "ansible-builder")


def test_definition_of_execution_environment_installs_files_that_it_copies() -> None:
    definition = yaml.safe_load(sanity.read_definition())
    copied = {entry["src"] for entry in definition["additional_build_files"]}
    (requirement,) = definition["dependencies"]["python"]
    (step,) = definition["additional_build_steps"]["prepend_base"]
    directory, _, wheel = requirement.partition("file://")[2].rpartition("/")

    assert copied == {definition["dependencies"]["galaxy"]["collections"][0]["name"], f"dist/{wheel}"}
    assert step == f"COPY _build/dist {directory}"
