"""Output files of commands, and the errors if they cannot be written."""

from __future__ import annotations

import json
import os
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


def refuse_to_run(*arguments: object, **options: object) -> None:
    raise AssertionError("the command reads an input before it refuses the output")


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["check", "-i", "hosts.yml", "-o", "hosts.yml"], ("-o", "-i")),
        (["check", "-i", "hosts.yml", "-o", "link"], ("-o", "-i")),
        (["check", "-i", "hosts.yml", "-o", "group_vars/all.yml"], ("-o", "-i")),
        (["check", "-i", "directory", "-o", "directory/hosts.yml"], ("-o", "-i")),
        (["check", "-i", "hosts.yml", "-e", "@more.yml", "-o", "more.yml"], ("-o", "-e")),
        (["check", "-i", "hosts.yml", "--vault-id", "site@vault", "-o", "vault"], ("-o", "--vault-id")),
        (["check", "-i", "hosts.yml", "--vault-password-file", "key", "-o", "key"], ("-o", "--vault-password-file")),
        (["check", "-i", "hosts.yml", "--write-baseline", "hosts.yml"], ("--write-baseline", "-i")),
        (["check", "-i", "hosts.yml", "--baseline", "known.json", "-o", "known.json"], ("-o", "--baseline")),
        (["check", "-i", "hosts.yml", "-o", "activemq-fleet.toml"], ("-o", "--config")),
        (["check", "activemq.xml", "-o", "activemq.xml"], ("-o", "--file")),
        (["check", "--file", "conf", "--format", "sarif", "-o", "conf/activemq.xml"], ("-o", "--file")),
        (["check", "--file", "conf", "-o", "conf/imported.xml"], ("-o", "--file")),
        (["check", "--file", "conf", "-o", "conf/users.properties"], ("-o", "--file")),
        (["check", "--file", "conf", "--release-from", "rel", "-o", "rel"], ("-o", "--release-from")),
        (["check", "--file", "conf", "--write-baseline", "conf/activemq.xml"], ("--write-baseline", "--file")),
        (["graph", "-i", "hosts.yml", "--status", "fleet.svg"], ("-o", "--status")),
        (["graph", "-i", "hosts.svg", "-o", "hosts.svg"], ("-o", "-i")),
        (["render", "-i", "out/hosts/hosts.yml", "-o", "out"], ("-o", "-i")),
        (["plan", "-i", "out/hosts/hosts.yml", "-o", "out"], ("-o", "-i")),
        (["audit", "-i", "out/hosts/hosts.yml", "--logs", "logs", "-o", "out"], ("-o", "-i")),
        (["status", "-i", "hosts.yml", "--html", "hosts.yml"], ("--html", "-i")),
        (["status", "-i", "hosts.yml", "--lab", "--html", "hosts.yml"], ("--html", "-i")),
        (["status", "--dir", "lab", "--html", "lab/lab.json"], ("--html", "--dir")),
        (["lab", "drill", "-i", "hosts.yml", "--dir", "lab", "--report", "hosts.yml"], ("--report", "-i")),
        (["lab", "drill", "-i", "hosts.yml", "--dir", "lab", "--report", "lab/lab.json"], ("--report", "--dir")),
    ],
    ids=" ".join,
)
def test_output_that_is_input_is_refused(
    words: list[str], options: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = {
        "group_vars/all.yml": "{}",
        "directory/hosts.yml": INVENTORY,
        "more.yml": "{}",
        "vault": "secret",
        "key": "secret",
        "known.json": "{}",
        "activemq-fleet.toml": "",
        "activemq.xml": document("").decode(),
        "conf/activemq.xml": '<beans><import resource="imported.xml"/><broker/></beans>',
        "conf/imported.xml": "<beans/>",
        "conf/users.properties": "",
        "rel": "*.xml 6.3.1",
        "fleet.svg": "{}",
        "hosts.svg": INVENTORY,
        "out/fleet.json": "{}",
        "out/hosts/hosts.yml": INVENTORY,
        "lab/lab.json": "{}",
    }
    for name, content in contents.items():
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_text(content)
    Path("link").symlink_to("hosts.yml")
    files = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    monkeypatch.setattr("activemq_fleet.load_fleet", refuse_to_run)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "the command would overwrite a file that it also reads" in error
    assert f"error: {options[0]} " in error
    assert f" ({options[1]} " in error
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == files


@pytest.mark.parametrize(
    ("words", "directory"),
    [
        (["graph", "-i", "."], "."),
        (["render", "-i", "inventory", "-o", "inventory/out"], "inventory"),
        (["render", "-i", "inventory", "-o", "inventory/existing"], "inventory"),
        (["check", "-i", "inventory", "--write-baseline", "inventory/known.json"], "inventory"),
        (["check", "-i", "inventory", "--output", "inventory/group_vars/report.json"], "inventory"),
        (["status", "-i", "inventory", "--html", "inventory/status.html"], "inventory"),
        (["plan", "-i", "inventory", "-o", "inventory/plan"], "inventory"),
        (["audit", "-i", "inventory", "--logs", "logs", "-o", "inventory/audit"], "inventory"),
    ],
    ids=" ".join,
)
def test_new_output_inside_of_inventory_directory_is_refused(
    words: list[str], directory: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ansible would read the output as a part of the inventory, and fail from then on."""
    for name in ("inventory/group_vars", "inventory/existing"):
        Path(name).mkdir(parents=True)
    monkeypatch.setattr("activemq_fleet.load_fleet", refuse_to_run)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert f"Ansible would read this output as a part of the inventory (-i {directory}): set " in error


@pytest.mark.usefixtures("no_schema")
def test_output_that_ansible_does_not_read_may_be_in_inventory_directory() -> None:
    Path("inventory").mkdir()
    Path("hosts.yml").rename("inventory/hosts.yml")
    assert main(["graph", "-i", "inventory", "-o", "inventory/.pictures/fleet.svg"]) == 0
    for _ in range(2):
        assert main(["graph", "-i", "inventory", "-o", "inventory/../fleet.svg"]) == 0


@pytest.mark.usefixtures("no_schema")
def test_earlier_outputs_of_check_may_be_overwritten() -> None:
    words = ("--output", "conf/report.txt", "--baseline", "conf/known.json", "--write-baseline", "conf/known.json")
    Path("conf").mkdir()
    Path("conf/known.json").write_text('{"version": 1, "findings": []}')
    assert check_link("text", *words) == 0
    assert check_link("text", *words) == 0
    assert check_link("text", "--file", "conf/../activemq.xml", "--output", "/dev/null") == 1
    assert Path("/dev/null").is_char_device()


def test_check_refuses_two_outputs_in_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_link("json", "-o", "report", "--write-baseline", "./report") == 2
    assert "-o and --write-baseline name the same file report" in capsys.readouterr().err
    assert not Path("report").exists()


def test_check_does_not_read_pipe_before_it_checks_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("report").write_text("")
    reader, writer = os.pipe()
    os.write(writer, document(""))
    os.close(writer)
    assert main(["check", f"/dev/fd/{reader}", "--release", "5.18.3", "--select", "N001", "-o", "report"]) == 0
    os.close(reader)
    assert capsys.readouterr().err == ""
