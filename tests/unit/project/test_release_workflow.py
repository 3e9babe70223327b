"""The release workflow runs pinned actions with few rights, and publishes only if a maintainer enabled it."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.build_packages import CHECKSUMS, REQUIREMENTS

WORKFLOW = Path(__file__).resolve().parents[3] / ".github" / "workflows" / "release.yml"
DOCUMENT: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())
JOBS: dict[str, Any] = DOCUMENT["jobs"]


@pytest.mark.parametrize("job", JOBS)
def test_every_action_is_pinned_by_commit(job: str) -> None:
    used = [step["uses"] for step in JOBS[job]["steps"] if "uses" in step]
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []


@pytest.mark.parametrize("job", JOBS)
def test_release_workflow_expands_no_expression_in_shell_script(job: str) -> None:
    # The name of a tag or a file could contain commands.
    assert [step["run"] for step in JOBS[job]["steps"] if "${{" in step.get("run", "")] == []


def test_only_jobs_of_release_workflow_that_require_write_permission_have_it() -> None:
    assert DOCUMENT["permissions"] == {}
    rights = {
        (right, name) for name, job in JOBS.items() for right, value in job["permissions"].items() if value == "write"
    }
    assert rights == {
        ("attestations", "attest"),
        ("id-token", "attest"),
        ("contents", "release"),
        ("id-token", "pypi"),
    }


@pytest.mark.parametrize(("job", "variable"), [("pypi", "PUBLISH_TO_PYPI"), ("galaxy", "PUBLISH_TO_GALAXY")])
def test_publication_of_release_requires_variable_and_environment(job: str, variable: str) -> None:
    assert JOBS[job]["if"] == f"vars.{variable} == 'true'"
    assert JOBS[job]["environment"] == job


def test_release_workflow_publishes_only_after_tests_and_equal_builds() -> None:
    order = {"build": "test", "attest": "build", "release": "attest", "pypi": "release", "galaxy": "release"}
    assert {name: job["needs"] for name, job in JOBS.items() if "needs" in job} == order
    scripts = [step.get("run", "") for step in JOBS["test"]["steps"]]
    assert any("scripts.set_version --check --tag" in script for script in scripts)
    assert any("diff --recursive dist" in step.get("run", "") for step in JOBS["build"]["steps"])


@pytest.mark.parametrize("name", ["a.whl", "a.tar.gz", "a.whl.cdx.json", CHECKSUMS, *REQUIREMENTS])
def test_release_workflow_uploads_each_kind_of_built_file(name: str) -> None:
    (upload,) = (step for step in JOBS["build"]["steps"] if "upload-artifact" in step.get("uses", ""))
    assert any(fnmatch(f"dist/{name}", pattern) for pattern in upload["with"]["path"].split())
