"""Warnings about hosts that are not read as brokers, and about misspelled prefixes of variables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from activemq_fleet.cli.main import main
from tests.situations import some_situations


@pytest.fixture
def inventory(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an inventory of ``init``, in which one host of the pair has a name that no broker has."""
    monkeypatch.chdir(tmp_path)
    path = Path("inventory")
    assert main(["init", "mq-kiel-1", "mq-kiel-2", "--release", "6.3.1", "-o", str(path)]) == 0
    hosts = path / "hosts.yml"
    hosts.write_text(hosts.read_text().replace("mq-kiel-2", "mqkiel2"))
    capsys.readouterr()
    return path


def test_check_names_host_that_is_not_read_as_broker(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-i", str(inventory), "--select", "T"]) == 1

    out = " ".join(capsys.readouterr().out.split())
    assert "warning T037 inventory/hosts.yml:8: the host is not read as a broker" in out
    assert "add mq-kiel-2 to the inventory (mqkiel2 has a similar name" in out


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--strict",), 1)])
def test_check_with_option_strict_fails_for_host_that_is_not_read_as_broker(
    inventory: Path, options: tuple[str, ...], code: int
) -> None:
    assert main(["check", "-i", str(inventory), "--select", "T037", *options]) == code


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--strict",), 1)])
def test_check_counts_variable_with_misspelled_prefix_once(
    inventory: Path, options: tuple[str, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = inventory / "group_vars" / "all.yml"
    variables_before = variables.read_text()
    variables.write_text(f"{variables_before}activemqq_heap: 1g\n")
    line_number = variables_before.count("\n") + 1

    assert main(["check", "-i", str(inventory), "--select", "T036", *options]) == code

    out = " ".join(capsys.readouterr().out.split())
    assert f"warning T036 {variables}:{line_number}: the variable activemqq_heap has no effect" in out
    assert "fix: rename activemqq_heap to activemq_heap. If" in out
    assert "0 errors, 1 warning, 0 info" in out

    main(["check", "-i", str(inventory), "--select", "T036", "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    assert report["counts"]["warning"] == 1
    assert report["warnings"] == []
    assert {(finding["file"], finding["line"]) for finding in report["findings"]} == {(str(variables), line_number)}


COMMANDS = pytest.mark.parametrize(
    "words",
    [
        ["explain", "mq-kiel-1"],
        ["graph", "-o", "fleet.svg"],
        ["render", "-o", "out"],
        ["status", "--timeout", "1", "--ansible-options=--syntax-check"],
    ],
    ids=lambda words: words[0],
)


def warnings_of(words: list[str], inventory: Path, added: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines that a command prints to stderr for the inventory without pairs and with added variables."""
    variables = inventory / "group_vars" / "all.yml"
    text = variables.read_text().replace("activemq_ha: shared-file", "activemq_ha: none")
    variables.write_text(f"{text.replace('activemq_fence: guard', 'activemq_fence: none')}{added}\n")
    main([words[0], "-i", str(inventory), *words[1:]])
    return capsys.readouterr().err.splitlines()


@some_situations(1)
@COMMANDS
def test_command_warns_once_of_unread_host_and_misspelled_prefix(
    words: list[str], inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = warnings_of(words, inventory, "activemqq_heap: 1g", capsys)
    for beginning in ("warning: T036 mq-kiel-1", "warning: T037 mqkiel2:"):
        assert len([line for line in lines if line.startswith(beginning)]) == 1


@COMMANDS
def test_command_reports_repeated_inventory_key_once(
    words: list[str], inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = " ".join(" ".join(warnings_of(words, inventory, "activemq_fence: guard", capsys)).split())
    assert text.count("the key activemq_fence exists twice, here and in line") == 1
