"""The changelog: fragments and releases in changelogs/, and the page that is generated from them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from scripts.changelog_page import ROOT, render_changelog
from scripts.generated_page import simplify_markdown

PROGRAM = str(Path(sys.executable).with_name("antsibull-changelog"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with the changelog of this checkout: the release 0.1.0 and one fragment."""
    shutil.copy(ROOT / "galaxy.yml", tmp_path)
    (tmp_path / "changelogs" / "fragments").mkdir(parents=True)
    for name in ("config.yaml", "changelog.yaml"):
        shutil.copy(ROOT / "changelogs" / name, tmp_path / "changelogs")
    (tmp_path / "changelogs" / "fragments" / "status.yml").write_text(
        "---\nbugfixes:\n  - status - a *link* named ``<a_b>`` is shown (`page <docs/status.md>`__).\n"
    )
    return tmp_path


def run_antsibull_changelog(project: Path, *arguments: str) -> None:
    subprocess.run([PROGRAM, *arguments], cwd=project, check=True, capture_output=True)


def test_fragments_are_section_before_releases(project: Path) -> None:
    page = simplify_markdown(render_changelog(project))

    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## Unreleased", "## v0.1.0"]
    assert "* status - a <em>link</em> named `<a_b>` is shown ([page](docs/status.md)).\n" in page


def test_release_moves_fragments_into_its_section(project: Path) -> None:
    run_antsibull_changelog(project, "release", "--version", "0.2.0", "--date", "2027-01-01")
    page = simplify_markdown(render_changelog(project))

    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## v0.2.0", "## v0.1.0"]
    assert list((project / "changelogs" / "fragments").iterdir()) == []


def test_changelog_page_of_releases_equals_page_of_antsibull_changelog(project: Path) -> None:
    run_antsibull_changelog(project, "release", "--version", "0.2.0", "--date", "2027-01-01")
    run_antsibull_changelog(project, "generate")

    assert render_changelog(project) == (project / "CHANGELOG.md").read_text("utf-8")


def test_simplified_changelog_page_renders_as_same_html() -> None:
    page = render_changelog(ROOT)

    assert rendered_html(simplify_markdown(page)) == rendered_html(page)


def rendered_html(page: str) -> str:
    # Code in backticks has quotation marks as entities; the HTML of the page has them unescaped.
    return str(MarkdownIt().render(page)).replace("&quot;", '"')
