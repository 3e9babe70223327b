"""The CI files that users copy from the documentation and the examples are valid, without known security problems."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.situations import some_situations
from tests.support.command_blocks import Command, read_page

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(sys.executable).parent
EXAMPLE = ROOT / "examples" / "ci-lint"
# check-jsonschema reads the tag !reference of GitLab only with the transformation.
GITLAB_SCHEMA = ("--builtin-schema=vendor.gitlab-ci", "--data-transform=gitlab-ci")


def read_blocks(title: str) -> dict[str, str]:
    """Return the blocks of all pages whose titles start with ``title``, by page and title."""
    return {
        f"{page.name} {step[0]}": step[1]
        for page in sorted((ROOT / "docs").glob("*.md"))
        for step in read_page(page).steps
        if not isinstance(step, Command) and step[0].startswith(title)
    }


GITHUB = read_blocks(".github/workflows/") | {
    "examples/ci-lint": (EXAMPLE / "github-workflow.yml").read_text(),
}
GITLAB = read_blocks(".gitlab-ci.yml") | {"examples/ci-lint": (EXAMPLE / "gitlab-ci.yml").read_text()}


def run_program(program: str, *arguments: str) -> None:
    """Run a program of the virtual environment, and fail with its output if it fails."""
    process = subprocess.run([PROGRAMS / program, *arguments], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr


def test_pages_have_workflows_of_github_and_gitlab() -> None:
    assert len(GITHUB) > 1
    assert len(GITLAB) > 1


@pytest.mark.parametrize("workflows", [GITHUB, GITLAB], ids=["github", "gitlab"])
def test_page_and_example_have_same_job(workflows: dict[str, str]) -> None:
    (page,) = (text for source, text in workflows.items() if source.startswith("ci.md "))
    assert page == workflows["examples/ci-lint"]


@some_situations(1)
@pytest.mark.parametrize("source", GITHUB)
def test_workflow_for_github_is_valid_and_secure(tmp_path: Path, source: str) -> None:
    file = tmp_path / ".github" / "workflows" / "activemq.yml"
    file.parent.mkdir(parents=True)
    file.write_text(GITHUB[source])
    run_program("check-jsonschema", "--builtin-schema=vendor.github-workflows", str(file))
    run_program("zizmor", "--offline", "--no-progress", "--quiet", str(file))


@some_situations(1)
@pytest.mark.parametrize("source", GITLAB)
def test_pipeline_for_gitlab_is_valid(tmp_path: Path, source: str) -> None:
    file = tmp_path / ".gitlab-ci.yml"
    file.write_text(GITLAB[source])
    run_program("check-jsonschema", *GITLAB_SCHEMA, str(file))
