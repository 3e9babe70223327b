"""The wheel contains the schemas of releases, so that `check` needs no network: scripts.bundle_schemas."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from activemq_fleet.artifacts import _schemas, fetch_schema_to_cache
from activemq_fleet.cli.main import main
from activemq_fleet.releases import Release, known_release_lines
from scripts.bundle_schemas import releases, write_bundle
from tests.xsds import small_xsd


@pytest.fixture
def schema_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the bundle of the wheel by one with a schema of 5.18.3, without Maven and cache, and return its path."""
    path = tmp_path / "schemas.zip"
    write_bundle({"5.18.3.xsd": small_xsd()}, path)
    monkeypatch.setattr(_schemas.packaged_schema_bytes, "__defaults__", (path,))
    monkeypatch.setenv("ACTIVEMQ_FLEET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return path


def test_xml_schema_in_wheel_requires_no_maven(schema_bundle: Path) -> None:
    lines: list[str] = []

    path = fetch_schema_to_cache(Release.of("5.18.3"), progress=lines.append)

    assert path.read_bytes() == small_xsd()
    assert lines == []


def test_schema_fetch_takes_several_releases(schema_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle({"5.18.3.xsd": small_xsd(), "6.3.1.xsd": small_xsd()}, schema_bundle)

    assert main(["schema", "fetch", "5.18.3", "6.3.1"]) == 0

    assert capsys.readouterr().out.count("schema of ") == 2


def test_schema_fetch_rejects_file_of_single_release_for_two_releases(
    schema_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "fetch", "5.18.3", "6.3.1", "--from", str(schema_bundle)]) == 2

    assert "is the file of a single release: name only one RELEASE" in capsys.readouterr().err


def test_schema_bundle_has_license_notice_and_no_date(tmp_path: Path) -> None:
    write_bundle({"5.18.3.xsd": b"<a/>"}, tmp_path / "one.zip")
    write_bundle({"5.18.3.xsd": b"<a/>"}, tmp_path / "two.zip")

    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert "Apache License, Version 2.0" in archive.read("NOTICE").decode()


def test_schema_bundle_covers_most_release_lines() -> None:
    lines = {release.line for release in releases()}

    assert lines <= set(known_release_lines())
    assert {"5.5", "5.15", "5.18", "6.3"} <= lines
