"""Colors, pager and activity on a terminal and in a pipe."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from activemq_fleet.cli.main import COMMANDS, fleet_cli, main
from activemq_fleet.cli.options import InventoryOptions
from activemq_fleet.cli.printing import print_table
from activemq_fleet.cli.terminal import add_color_and_pager_options
from tests.situations import some_situations
from tests.support.terminals import run_on_terminal

ROOT = Path(__file__).resolve().parents[3]
RULE = ["-m", "activemq_fleet", "rule", "N003"]
EXPLAIN = ["-m", "activemq_fleet", "explain", "-i", str(ROOT / "examples" / "shared-store"), "orders-mq01-a"]
COLOR = re.compile(r"\x1b\[[0-9;]+m")
SLOW = (
    "import time; from activemq_fleet.cli import activity; activity._SECONDS_HIDDEN = 0.05\n"
    "with activity.ACTIVITY.spinner_with_text('Reading the inventory'):\n"
    "    time.sleep(1)\n"
    "print('done')"
)


def commands_below(command: click.Command, name: str) -> list[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        return [(name, command)]
    subcommands = [
        (f"{name} {word}", command.get_command(click.Context(command), word))
        for word in command.list_commands(click.Context(command))
    ]
    return [
        (name, command),
        *(entry for word, subcommand in subcommands if subcommand for entry in commands_below(subcommand, word)),
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_color_and_pager_options(name: str) -> None:
    command = fleet_cli.get_command(click.Context(fleet_cli), name)
    assert command
    for path, subcommand in commands_below(command, name):
        options = [word for parameter in subcommand.params for word in parameter.opts]
        for option in ("--color", "--no-color", "--no-pager"):
            assert options.count(option) == 1, path


@some_situations(1)
@pytest.mark.parametrize("words", [RULE, EXPLAIN], ids=["rule", "explain"])
def test_output_has_colors_on_terminal_but_not_in_pipe(words: list[str]) -> None:
    assert COLOR.search(run_on_terminal([*words, "--no-pager"]))
    piped = subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True)
    assert not COLOR.search(piped.stdout)


@some_situations(2)
@pytest.mark.parametrize("words", [RULE, EXPLAIN], ids=["rule", "explain"])
@pytest.mark.parametrize(
    ("option", "environment"), [("--no-color", {}), ("--color=never", {}), ("--no-pager", {"NO_COLOR": "1"})]
)
def test_terminal_output_has_no_colors_if_disabled(words: list[str], option: str, environment: dict[str, str]) -> None:
    assert not COLOR.search(run_on_terminal([*words, option], environment={"PAGER": "cat", **environment}))


@pytest.mark.parametrize("place", ["before", "after"])
def test_color_always_overrides_no_color_in_pipe(
    place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    words = ["rule", "N003"]
    assert main(["--color", "always", *words] if place == "before" else [*words, "--color", "always"]) == 0
    assert COLOR.search(capsys.readouterr().out)


@pytest.mark.parametrize(("color", "has_colors"), [(True, True), (False, False), (None, False)])
def test_printed_table_has_colors_if_enabled(
    color: bool | None, has_colors: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with click.Context(add_color_and_pager_options(click.Command("status")), color=color):
        print_table(["state"], [["active"]], {"active": "green"})
    assert bool(COLOR.search(capsys.readouterr().out)) == has_colors


def write_pager(tmp_path: Path) -> str:
    program = tmp_path / "pager"
    program.write_text("#!/bin/sh\necho PAGED\ncat\n")
    program.chmod(0o755)
    return str(program)


def test_output_longer_than_terminal_uses_pager(tmp_path: Path) -> None:
    output = run_on_terminal(RULE, rows=10, environment={"PAGER": write_pager(tmp_path)})
    assert output.startswith("PAGED\n")
    assert "Source: " in output


@some_situations(1)
@pytest.mark.parametrize(
    ("rows", "words", "pager"),
    [(100, [], "pager"), (10, ["--no-pager"], "pager"), (10, [], ""), (10, [], "cat")],
    ids=["short", "no-pager", "empty", "cat"],
)
def test_pager_is_not_started_for_short_output_or_if_disabled(
    rows: int, words: list[str], pager: str, tmp_path: Path
) -> None:
    program = write_pager(tmp_path) if pager == "pager" else pager
    output = run_on_terminal([*RULE, *words], rows=rows, environment={"PAGER": program})
    assert "PAGED" not in output
    assert "N003" in output


def test_spinner_of_long_activity_is_shown_on_terminal_and_removed() -> None:
    output = run_on_terminal(["-c", SLOW])
    assert "Reading the inventory …" in output
    assert click.unstyle(output).rstrip().endswith("done")


def test_spinner_is_not_shown_during_password_prompt() -> None:
    code = SLOW.replace(
        "spinner_with_text('Reading the inventory')", "spinner_with_text('Reading the inventory', prompts=True)"
    )
    assert run_on_terminal(["-c", code]) == "done\n"


@pytest.mark.parametrize(
    ("identities", "prompts"), [((), False), (("prod@prompt",), True), (("prompt",), True), (("prod@file",), False)]
)
def test_vault_id_with_prompt_prompts_for_password(identities: tuple[str, ...], prompts: bool) -> None:
    assert InventoryOptions(("hosts",), vault_ids=identities).prompts_for_vault_password == prompts


def test_spinner_prints_nothing_in_pipe() -> None:
    process = subprocess.run([sys.executable, "-c", SLOW], check=True, capture_output=True, text=True)
    assert (process.stdout, process.stderr) == ("done\n", "")
