"""``check --fix`` and ``--diff``: written files, printed output, and files that stay unchanged."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from activemq_fleet.cli import warnings_and_schemas
from activemq_fleet.cli.main import main
from activemq_fleet.releases import Release
from activemq_fleet.schema import CompiledActivemqXsd
from tests.xsds import broker, small_xsd

SCHEMA = CompiledActivemqXsd(small_xsd())
WRONG = broker("<plugin/>", attributes=' persistant="true"').replace(b"\n", b"\r\n")
RIGHT = WRONG.replace(b"plugin", b"plugins").replace(b"persistant", b"persistent")
CHECK = ("check", "--release", "5.18.3", "--select", "V002", "--file")


@pytest.fixture(autouse=True)
def small_schema(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def load(_release: Release, **_: object) -> CompiledActivemqXsd:
        return SCHEMA

    monkeypatch.setattr(warnings_and_schemas, "load_schema", load)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "activemq.xml"
    path.write_bytes(WRONG)
    return path


def contents_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_check_marks_fixable_findings_and_counts_them(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CHECK, "activemq.xml"]) == 1
    output = capsys.readouterr().out
    assert "error V002 [fixable] 2:56: <broker> has no attribute persistant" in output
    assert output.endswith(
        "1 file: 2 errors, 0 warnings, 0 info\n"
        "2 findings are fixable with --fix (to only show the changes, use --diff instead of --fix)\n"
    )
    assert main([*CHECK, "activemq.xml", "--format", "json"]) == 1
    assert [finding["fixable"] for finding in json.loads(capsys.readouterr().out)["findings"]] == [True, True]
    assert file.read_bytes() == WRONG


def test_option_diff_shows_repairs_and_writes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contents_before = contents_of(file.parent)
    assert main([*CHECK, "activemq.xml", "--diff"]) == 1
    output = capsys.readouterr()
    assert output.out == (
        "--- activemq.xml\n"
        "+++ activemq.xml\n"
        "@@ -1,5 +1,5 @@\n"
        ' <beans xmlns="http://www.springframework.org/schema/beans">\n'
        '-<broker xmlns="http://activemq.apache.org/schema/core" persistant="true">\n'
        "-<plugin/>\n"
        '+<broker xmlns="http://activemq.apache.org/schema/core" persistent="true">\n'
        "+<plugins/>\n"
        " </broker>\n"
        " </beans>\n"
    )
    assert output.err == "--fix would repair 2 findings in 1 file\n"
    assert contents_of(file.parent) == contents_before


def test_option_diff_without_fixable_findings_exits_with_0(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(RIGHT)
    assert main([*CHECK, "activemq.xml", "--diff"]) == 0
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "--fix would repair 0 findings in 0 files\n")


def test_fix_writes_repairs_shows_them_and_keeps_previous_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.chmod(0o640)
    assert main([*CHECK, "activemq.xml", "--fix"]) == 0
    output = capsys.readouterr()
    assert "-<plugin/>\n" in output.out
    assert output.out.endswith("1 file: 0 errors, 0 warnings, 0 info\n")
    assert output.err == "activemq.xml: 2 findings repaired; the previous content is in activemq.xml.orig\n"
    assert contents_of(file.parent) == {"activemq.xml": RIGHT, "activemq.xml.orig": WRONG}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
    assert modes == {0o640}


def test_fix_keeps_copies_of_earlier_repairs(file: Path) -> None:
    earlier_backup = file.with_name("activemq.xml.orig")
    earlier_backup.write_bytes(b"an earlier file")
    for _ in range(2):
        file.write_bytes(WRONG)
        assert main([*CHECK, "activemq.xml", "--fix"]) == 0
    assert contents_of(file.parent) == {
        "activemq.xml": RIGHT,
        "activemq.xml.orig": b"an earlier file",
        "activemq.xml.orig.2": WRONG,
    }


def test_fix_without_backup_keeps_no_copy(file: Path) -> None:
    assert main([*CHECK, "activemq.xml", "--fix", "--no-backup"]) == 0
    assert contents_of(file.parent) == {"activemq.xml": RIGHT}


def test_second_fix_changes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CHECK, "activemq.xml", "--fix"]) == 0
    contents_before = contents_of(file.parent)
    capsys.readouterr()
    assert main([*CHECK, "activemq.xml", "--fix"]) == 0
    assert contents_of(file.parent) == contents_before
    assert capsys.readouterr().err == ""


def test_fix_reports_remaining_findings_and_exits_with_1(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(WRONG.replace(b"persistant", b"entirelyUnknown"))
    assert main([*CHECK, "activemq.xml", "--fix"]) == 1
    assert file.read_bytes() == RIGHT.replace(b"persistent", b"entirelyUnknown")
    assert "1 file: 1 error, 0 warnings, 0 info" in capsys.readouterr().out


def test_repair_that_would_cause_error_is_reported_and_not_made(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = WRONG.replace(b'"true"', b'"perhaps"')
    file.write_bytes(content)
    assert main([*CHECK, "activemq.xml", "--fix"]) == 1
    assert file.read_bytes() == content.replace(b"plugin", b"plugins")
    output = capsys.readouterr()
    assert "V002 [fixable]" not in output.out
    assert (
        "activemq.xml:2: --fix does not repair the finding V002, because the repair would cause the error V050 "
        '(persistent="perhaps" of <broker> must be true or false): correct the file by hand\n'
    ) in output.err


def test_fix_prints_only_report_to_stdout_for_programs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CHECK, "activemq.xml", "--fix", "--format", "json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["findings"] == []
    assert "+<plugins/>" in output.err
    assert file.read_bytes() == RIGHT


def test_sarif_has_edits_of_fixable_findings(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CHECK, "activemq.xml", "--format", "sarif"]) == 1
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    text = WRONG.decode()
    for result in results:
        (change,) = result["fixes"][0]["artifactChanges"]
        assert change["artifactLocation"] == {"uri": "activemq.xml"}
        for replacement in change["replacements"]:
            begin, length = replacement["deletedRegion"]["charOffset"], replacement["deletedRegion"]["charLength"]
            replaced = (text[begin : begin + length], replacement["insertedContent"]["text"])
            assert replaced in {("plugin", "plugins"), ("persistant", "persistent")}
    assert len(results) == 2


def test_sarif_names_same_file_for_finding_and_repair_below_repository(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = file.parent / "conf"
    directory.mkdir()
    file.rename(directory / file.name)
    (file.parent / ".git").mkdir()
    monkeypatch.chdir(directory)
    assert main([*CHECK, "activemq.xml", "--format", "sarif"]) == 1
    (result, *_) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    expected = {"uri": "conf/activemq.xml"}
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == expected
    assert result["fixes"][0]["artifactChanges"][0]["artifactLocation"] == expected


def test_fix_repairs_only_selected_rules(file: Path) -> None:
    assert main(["check", "--release", "5.18.3", "--select", "N", "--file", "activemq.xml", "--fix"]) == 0
    assert contents_of(file.parent) == {"activemq.xml": WRONG}


def test_fix_does_not_repair_suppressed_findings(file: Path) -> None:
    comment = b"<!-- activemq-fleet: disable=V002 a tool replaces it --><plugin/>"
    content = WRONG.replace(b"<plugin/>", comment)
    file.write_bytes(content)
    assert main([*CHECK, "activemq.xml", "--fix"]) == 0
    assert file.read_bytes() == content.replace(b"persistant", b"persistent")


def test_fix_replaces_target_of_symbolic_link_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = file.rename(file.with_name("real.xml"))
    file.symlink_to("real.xml")
    assert main([*CHECK, "activemq.xml", "--file", "real.xml", "--fix"]) == 0
    assert file.is_symlink()
    assert target.read_bytes() == RIGHT
    assert capsys.readouterr().out.count("+<plugins/>") == 1


def test_fix_repairs_all_files_of_directory(tmp_path: Path) -> None:
    paths = [tmp_path / host / "activemq.xml" for host in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(WRONG)
    assert main([*CHECK, str(tmp_path), "--fix"]) == 0
    assert [path.read_bytes() for path in paths] == [RIGHT, RIGHT]


def test_fix_refuses_read_only_file_and_repairs_others(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other_file = tmp_path / "other.xml"
    other_file.write_bytes(WRONG)
    file.chmod(0o440)
    assert main([*CHECK, "activemq.xml", "--file", "other.xml", "--fix"]) == 2
    assert (file.read_bytes(), other_file.read_bytes()) == (WRONG, RIGHT)
    assert (
        f"error: activemq.xml: the file is read-only, so it was not repaired: run chmod u+w {file} first\n"
    ) in capsys.readouterr().err


def test_fix_refuses_file_with_several_hard_links(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.link(file, file.with_name("second.xml"))
    assert main([*CHECK, "activemq.xml", "--fix"]) == 2
    assert file.read_bytes() == WRONG
    assert "its other hard links would keep the old content" in capsys.readouterr().err


def test_fix_refuses_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.write(writer, WRONG)
    os.close(writer)
    try:
        assert main([*CHECK, f"/dev/fd/{reader}", "--fix"]) == 2
    finally:
        os.close(reader)
    assert "it is not a regular file: name a file, or use --diff" in capsys.readouterr().err
    assert contents_of(tmp_path) == {}


@pytest.mark.parametrize("option", ["--fix", "--diff"])
def test_fix_of_inventory_is_refused_with_remedy(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hosts.yml").write_text("all: {hosts: {orders-mq01-a: {activemq_release: 5.18.3}}}\n")
    assert main(["check", "-i", "hosts.yml", option]) == 2
    assert (
        "--fix and --diff require --file: they cannot change an inventory. In the inventory, correct the variables "
        "that the findings name"
    ) in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "options",
    [["--output", "findings.txt"], ["--write-baseline", "b.json"], ["--format", "json"], ["--format", "github"]],
)
def test_diff_excludes_options_whose_output_it_does_not_have(
    options: list[str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents_of(file.parent)
    assert main([*CHECK, "activemq.xml", "--diff", *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"--diff and {options[0]} " in printed.err
    assert contents_of(file.parent) == before
    assert main([*CHECK, "activemq.xml", "--diff", "--format", "text"]) == 1


def test_fix_and_diff_exclude_each_other(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CHECK, "activemq.xml", "--fix", "--diff"]) == 2
    assert "Remove one of the options" in capsys.readouterr().err
    assert file.read_bytes() == WRONG
