"""Output files of commands, and the errors if they cannot be written."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from activemq_fleet.cli import warnings_and_schemas as shared
from activemq_fleet.cli.main import main
from tests.hostile_files import document

INVENTORY = "all: {hosts: {a-mq01-a: , a-mq01-b: }, vars: {activemq_release: 5.18.3}}\n"


@pytest.fixture(autouse=True)
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write an inventory to the current directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "hosts.yml"
    path.write_text(INVENTORY)
    return path


def check_link(form: str, *words: str) -> int:
    link = '<networkConnector name="x" uri="masterslave:(tcp://a:61616)"/>'
    Path("activemq.xml").write_bytes(document(f"<networkConnectors>{link}</networkConnectors>"))
    options = ("--release", "5.18.3", "--select", "N001", "--format", form)
    return main(["check", "--file", "activemq.xml", *options, *words])


@pytest.fixture
def no_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    class AcceptingSchema:
        warnings = ()

        def is_valid(self, document: bytes) -> bool:
            return True

        def find_problems(self, document: bytes) -> tuple[()]:
            return ()

    monkeypatch.setattr(shared, "load_schema", lambda release, **options: AcceptingSchema())


@pytest.mark.usefixtures("no_schema")
@pytest.mark.parametrize("form", ["text", "json", "sarif", "github", "junit", "codeclimate"])
def test_check_writes_selected_format_to_output_file_and_prints_text(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_link(form) == 1
    formatted = capsys.readouterr().out
    assert check_link("text") == 1
    text = capsys.readouterr().out
    assert check_link(form, "--output", "report") == 1
    assert (Path("report").read_text(), capsys.readouterr().out) == (formatted, text)


def test_check_writes_finding_about_unusable_input_to_output_file(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", "-i", "absent.yml", "--format", "codeclimate", "--output", "report.json"]
    assert main(words) == 2
    assert [issue["check_name"] for issue in json.loads(Path("report.json").read_text())] == ["T000"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "absent.yml" in captured.err


def test_graph_without_output_writes_drawing_to_current_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "-i", "hosts.yml"]) == 0
    assert Path("fleet.svg").read_text().startswith("<svg")
    assert capsys.readouterr().out == "fleet.svg: 2 brokers, 1 pair\n"


@pytest.mark.usefixtures("no_schema")
@pytest.mark.parametrize(
    ("words", "action"),
    [
        (["render", "-i", "hosts.yml", "-o"], "create the directory"),
        (["init", "a-mq01-a", "--release", "5.18.3", "-o"], "create the directory"),
        (["graph", "-i", "hosts.yml", "-o"], "write the file"),
        (["check", "-i", "hosts.yml", "--write-baseline"], "write the file"),
        (["check", "-i", "hosts.yml", "--output"], "write the file"),
        (["pack", "-o"], "write the file"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_output_below_file_is_error_that_names_action_and_path(
    words: list[str], action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suffix = {"graph": ".svg", "pack": ".tar.gz"}.get(words[0], "")
    (tmp_path / "hosts.yml").write_text(INVENTORY.replace("}}", ", activemq_waivers: [{rule: T002, reason: x}]}}"))
    assert main([*words, f"hosts.yml/out{suffix}"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    reason = f"{tmp_path}/hosts.yml is not a directory"
    expected = f"cannot {action} {tmp_path}/hosts.yml/out{suffix} ({reason}): choose another path"
    assert error == f"activemq-fleet: error: {expected}"


def test_drill_refuses_unwritable_report_before_it_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**options: object) -> None:
        raise PermissionError(13, "Permission denied", "directory")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    assert main(["lab", "drill", "-i", "hosts.yml", "--dir", "lab", "--report", "report.html"]) == 2
    file = Path.cwd() / "report.html"
    error = f"cannot write the file {file} (Permission denied): allow this account to write to this path"
    assert capsys.readouterr().err == f"activemq-fleet: error: {error}, or choose another path\n"
