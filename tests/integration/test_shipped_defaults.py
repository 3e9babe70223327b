"""Tests of the linter's findings about the files that releases ship: reviewed one by one, and kept as golden files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from activemq_fleet.artifacts import fetch_and_unpack_distribution, load_schema
from activemq_fleet.cli.checked_files import USUAL_COMPANION_FILES
from activemq_fleet.errors import ArtifactError
from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings
from activemq_fleet.releases import Release
from activemq_fleet.schema import XmlDocument
from tests.golden_files import Golden
from tests.situations import further

# This distribution must exist. Without any distribution, this file would test nothing.
REQUIRED = "5.18.3"
RELEASES = [*further("5.14.5", "5.15.16", "5.16.7", "5.17.6"), REQUIRED]


@cache
def distribution_or_reason(release: Release) -> Path | str:
    try:
        directory = fetch_and_unpack_distribution(release)
    except ArtifactError as error:
        return str(error)
    return directory or f"no distribution of {release}"


def distribution(release: Release) -> Path:
    directory_or_reason = distribution_or_reason(release)
    if isinstance(directory_or_reason, str):
        assert release.text != REQUIRED, directory_or_reason
        pytest.skip(directory_or_reason)
    return directory_or_reason


def other_files(directory: Path) -> Mapping[str, bytes]:
    return {name: (directory / name).read_bytes() for name in USUAL_COMPANION_FILES if (directory / name).is_file()}


def findings_of(file: Path, release: Release, files: Mapping[str, bytes]) -> tuple[Finding, ...]:
    return file_findings(
        file.read_bytes(), release, schema=load_schema(release), file=f"conf/{file.name}", other_files=files
    )


def format_findings(findings: tuple[Finding, ...]) -> str:
    """Return a line for each finding, file by file."""
    ordered = sorted(findings, key=lambda f: (f.file or "", f.line or 0, f.column or 0, f.rule, f.message))
    return "".join(f"{f.file}:{f.line}:{f.column}: {f.severity} {f.rule} {f.message}\n" for f in ordered)


@pytest.mark.parametrize("text", RELEASES)
def test_findings_about_shipped_activemq_xml_match_review(text: str, golden: Golden) -> None:
    release = Release.of(text)
    conf = distribution(release) / "conf"
    golden.file(f"shipped/{text}.txt", format_findings(findings_of(conf / "activemq.xml", release, other_files(conf))))


@pytest.mark.parametrize("text", RELEASES)
def test_findings_about_shipped_examples_match_review(text: str, golden: Golden) -> None:
    """The examples have networks, JDBC stores, encrypted accounts and multicast. Users begin with a copy of one."""
    release = Release.of(text)
    home = distribution(release)
    files = other_files(home / "conf")
    default = set(findings_of(home / "conf" / "activemq.xml", release, files))
    report = ""
    for example in sorted((home / "examples" / "conf").glob("activemq*.xml")):
        # The golden file of the default file has the findings about the files next to it.
        example_findings = [f for f in findings_of(example, release, files) if f not in default]
        report += f"{example.name}\n{format_findings(tuple(example_findings)) or 'nothing'}\n"
    golden.file(f"shipped/{text}-examples.txt", report)


@pytest.mark.parametrize("text", RELEASES)
def test_shipped_examples_are_valid_in_schema_of_release(text: str) -> None:
    release = Release.of(text)
    examples = sorted((distribution(release) / "examples" / "conf").glob("activemq*.xml"))
    assert len(examples) > 10
    assert {e.name: load_schema(release).find_problems(XmlDocument(e.read_bytes())) for e in examples} == {
        e.name: () for e in examples
    }
