"""Fixtures of the tests of adopt: files to adopt, and a network that has no schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.cli import warnings_and_schemas
from activemq_fleet.errors import SchemaUnavailableError
from tests.unit.adopt_files import activemq_xml_by_host, write_files
from tests.unit.adopt_runs import HANDWRITTEN
from tests.unit.fleets import fleet


@pytest.fixture
def schemas_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each request for a schema fail."""

    def load(release: Any, **options: Any) -> Any:
        raise SchemaUnavailableError("there is no network in a unit test")

    monkeypatch.setattr(warnings_and_schemas, "load_schema", load)


@pytest.fixture
def rendered_directory(tmp_path: Path) -> Path:
    """Return a directory with the rendered files of two pairs."""
    return write_files(tmp_path / "rendered", activemq_xml_by_host(fleet("o-mq1", "o-mq2")))


@pytest.fixture
def handwritten_file(tmp_path: Path) -> Path:
    """Return a handwritten file in a directory whose name contains no host."""
    path = tmp_path / "etc" / "broker.xml"
    path.parent.mkdir()
    path.write_bytes(HANDWRITTEN)
    return path
