"""The project claims only the versions and systems with which it was tested."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
RECORDS = json.loads((ROOT / "scripts" / "versions.json").read_text())


def passed_pythons(kind: str) -> set[str]:
    """Return the Python versions, without patch level, with which sessions passed."""
    return {
        record["python"].rpartition(".")[0]
        for record in RECORDS.values()
        if record["kind"] == kind and record["result"] == "passed"
    }


def test_every_recorded_session_of_version_matrix_passed() -> None:
    assert {name for name, record in RECORDS.items() if record["result"] != "passed"} == set()


def test_library_claims_only_tested_pythons() -> None:
    prefix = "Programming Language :: Python :: "
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert {text.removeprefix(prefix) for text in classifiers if text.startswith(prefix)} <= passed_pythons(
        "controller"
    )


def test_oldest_ansible_of_collection_was_tested() -> None:
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())
    cores = {record["core"] for record in RECORDS.values() if record["kind"] == "controller"}
    assert min(cores, key=lambda core: int(core.split(".")[1])) == runtime["requires_ansible"].strip(">=").removesuffix(
        ".0"
    )


@pytest.mark.parametrize("role", ["agent", "broker", "loadbalancer"])
def test_role_claims_only_system_of_hosts_tier(role: str) -> None:
    document = yaml.safe_load((ROOT / "roles" / role / "meta" / "main.yml").read_text())
    assert document["galaxy_info"]["platforms"] == [{"name": "Debian", "versions": ["bookworm"]}]
