"""The version has one source, and a command writes it into the files that repeat it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts.set_version import (
    SOURCE,
    VersionError,
    find_differences,
    find_release_problems,
    set_version,
    source_version,
)

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a checkout of version 0.1.0."""
    files = {
        SOURCE: '__version__ = "0.1.0"\n',
        "galaxy.yml": "namespace: activemq\nversion: 0.1.0\n",
        "plugins/plugin_utils/library.py": 'COLLECTION_VERSION = "0.1.0"\n',
        "CHANGELOG.md": "# Changelog\n\nactivemq_fleet-0.0.9-py3-none-any.whl\n",
        "changelogs/changelog.yaml": "releases:\n  0.1.0: {}\n",
        "docs/install.md": (
            "pip install 'dist/activemq_fleet-0.1.0-py3-none-any.whl[lab]' dist/activemq_agent-0.1.0-py3-none-any.whl\n"
            "ansible-galaxy collection install activemq-fleet-0.1.0.tar.gz\nactivemq-agent==0.1.0\nRelease 6.3.1\n"
        ),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return tmp_path


def test_every_file_of_this_checkout_has_version_of_project() -> None:
    assert list(find_differences(ROOT)) == []


def test_set_version_changes_every_file_that_repeats_it(project: Path) -> None:
    assert set_version(project, "0.2.0") == [SOURCE, "galaxy.yml", "docs/install.md", "plugins/plugin_utils/library.py"]
    assert source_version(project) == "0.2.0"
    assert "version: 0.2.0" in (project / "galaxy.yml").read_text()
    page = (project / "docs/install.md").read_text()
    assert page.count("0.2.0") == 4
    assert "0.1.0" not in page
    assert "Release 6.3.1" in page
    assert "0.0.9" in (project / "CHANGELOG.md").read_text()
    assert list(find_differences(project)) == []


def test_file_with_other_version_than_project_is_reported_with_line(project: Path) -> None:
    (project / SOURCE).write_text('__version__ = "0.2.0"\n')
    problems = list(find_differences(project))
    assert problems[0].startswith("galaxy.yml:2: 0.1.0 is not the version 0.2.0")
    assert len(problems) == 6


@pytest.mark.parametrize("version", ["0.2", "v0.2.0", "0.2.0rc1", "0.2.0-rc1", "01.2.0", "", "0.2.0\n"])
def test_set_version_refuses_versions_that_pip_and_galaxy_write_differently(project: Path, version: str) -> None:
    with pytest.raises(VersionError, match=r"MAJOR\.MINOR\.PATCH"):
        set_version(project, version)
    assert source_version(project) == "0.1.0"


@pytest.mark.parametrize(("tag", "count"), [("v0.1.0", 0), ("0.1.0", 1), ("v0.1.1", 1)])
def test_tag_of_release_must_match_version_of_project(project: Path, tag: str, count: int) -> None:
    assert len(list(find_release_problems(project, tag))) == count


def test_release_that_changelog_lacks_is_refused(project: Path) -> None:
    set_version(project, "0.2.0")
    (problem,) = find_release_problems(project, "v0.2.0")
    assert problem.startswith("changelogs/changelog.yaml has no release 0.2.0")


def test_release_with_remaining_fragment_is_refused(project: Path) -> None:
    fragment = project / "changelogs" / "fragments" / "status.yml"
    fragment.parent.mkdir()
    fragment.write_text("bugfixes: [status - a fix.]\n")
    (problem,) = find_release_problems(project, "v0.1.0")
    assert problem.startswith("the release 0.1.0 lacks the fragment status.yml (1 in all)")
