"""What the linter says about the files that the releases ship: reviewed one by one, kept as golden files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from activemq_fleet.artifacts import fetch_and_unpack_distribution, load_schema
from activemq_fleet.cli.companions import USUAL_COMPANION_FILES
from activemq_fleet.errors import ArtifactError
from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings
from activemq_fleet.releases import Release
from activemq_fleet.schema import XmlDocument
from tests.golden_files import Golden
from tests.situations import further

# One must be there: with every distribution missing this file would show nothing.
ALWAYS = "5.18.3"
RELEASES = [*further("5.14.5", "5.15.16", "5.16.7", "5.17.6"), ALWAYS]


@cache
def distribution_or_reason(release: Release) -> Path | str:
    try:
        directory = fetch_and_unpack_distribution(release)
    except ArtifactError as error:
        return str(error)
    return directory or f"no distribution of {release}"


def distribution(release: Release) -> Path:
    found = distribution_or_reason(release)
    if isinstance(found, str):
        assert release.text != ALWAYS, found
        pytest.skip(found)
    return found


def other_files(directory: Path) -> Mapping[str, bytes]:
    return {name: (directory / name).read_bytes() for name in USUAL_COMPANION_FILES if (directory / name).is_file()}


def findings(file: Path, release: Release, files: Mapping[str, bytes]) -> tuple[Finding, ...]:
    return file_findings(
        file.read_bytes(), release, schema=load_schema(release), file=f"conf/{file.name}", other_files=files
    )


def as_text(found: tuple[Finding, ...]) -> str:
    """A line each, file by file."""
    ordered = sorted(found, key=lambda f: (f.file or "", f.line or 0, f.column or 0, f.rule, f.message))
    return "".join(f"{f.file}:{f.line}:{f.column}: {f.severity} {f.rule} {f.message}\n" for f in ordered)


@pytest.mark.parametrize("text", RELEASES)
def test_the_shipped_file_shows_what_was_reviewed_and_no_more(text: str, golden: Golden) -> None:
    release = Release.of(text)
    conf = distribution(release) / "conf"
    golden.file(f"shipped/{text}.txt", as_text(findings(conf / "activemq.xml", release, other_files(conf))))


@pytest.mark.parametrize("text", RELEASES)
def test_the_examples_of_a_release_show_what_was_reviewed_and_no_more(text: str, golden: Golden) -> None:
    """They have networks, JDBC stores, encrypted accounts and multicast; people begin with a copy of one."""
    release = Release.of(text)
    home = distribution(release)
    files = other_files(home / "conf")
    default = set(findings(home / "conf" / "activemq.xml", release, files))
    told = ""
    for example in sorted((home / "examples" / "conf").glob("activemq*.xml")):
        # What the default file says of the files beside it is in its own golden file.
        own = [f for f in findings(example, release, files) if f not in default]
        told += f"{example.name}\n{as_text(tuple(own)) or 'nothing'}\n"
    golden.file(f"shipped/{text}-examples.txt", told)


@pytest.mark.parametrize("text", RELEASES)
def test_the_examples_of_a_release_pass_its_schema(text: str) -> None:
    release = Release.of(text)
    examples = sorted((distribution(release) / "examples" / "conf").glob("activemq*.xml"))
    assert len(examples) > 10
    assert {e.name: load_schema(release).find_problems(XmlDocument(e.read_bytes())) for e in examples} == {
        e.name: () for e in examples
    }
