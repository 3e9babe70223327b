"""``check`` of a file with comments that suppress findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from activemq_fleet.cli import warnings_and_schemas as shared
from activemq_fleet.cli.main import main
from activemq_fleet.schema import SchemaProblem
from tests.hostile_files import document


class AcceptingSchema:
    def find_problems(self, document: bytes) -> tuple[SchemaProblem, ...]:
        return ()


def test_comment_in_file_suppresses_finding_and_is_reported_when_unused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "load_schema", lambda release, **options: AcceptingSchema())
    path = tmp_path / "activemq.xml"
    comment = "<!-- activemq-fleet: disable=N001,N009 the peer was removed -->"
    link = '<networkConnector name="x" uri="masterslave:(tcp://a:61616)"/>'
    path.write_bytes(document(f"<networkConnectors>{comment}\n{link}</networkConnectors>"))
    words = ["check", "--file", str(path), "--release", "5.18.3", "--select", "N001,N009,X"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "waived: the peer was removed" in out
    assert "warning X002" in out
    assert main([*words, "--strict"]) == 1
    capsys.readouterr()
    assert main([*words, "--format", "sarif"]) == 0
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert [result.get("suppressions", [{}])[0].get("kind") for result in results] == ["inSource", None]
