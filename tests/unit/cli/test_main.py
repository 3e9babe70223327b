"""The command line as a whole: what it says, and how it ends."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import click
import pytest

from activemq_fleet import __version__
from activemq_fleet.cli import main as cli
from activemq_fleet.errors import FleetError, InputError, LabError, SettingsError
from activemq_fleet.install_hint import install_hint


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | int]:
    """``check`` raises what the test puts into this list, or returns it when it is a number."""
    what: list[BaseException | int] = []

    @click.command()
    def command() -> int:
        if isinstance(what[0], BaseException):
            raise what[0]
        return what[0]

    module = ModuleType("activemq_fleet.cli.check")
    module.__spec__ = ModuleSpec(module.__name__, loader=None)
    setattr(module, "check_command", command)  # noqa: B010 -- a made-up module has no such attribute for mypy
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delenv("ACTIVEMQ_FLEET_DEBUG", raising=False)
    return what


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip().endswith(__version__)


def test_help_names_every_command_whose_module_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    listed = cli.fleet_cli.list_commands(click.Context(cli.fleet_cli))
    assert listed
    assert all(f"\n  {name} " in out for name in listed)


def test_version_loads_neither_ansible_nor_lxml() -> None:
    code = (
        "import sys; from activemq_fleet.cli.main import main; main(['--version']);"
        "sys.exit(bool({'ansible', 'lxml', 'jinja2', 'pydantic'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize("name", ["C", "POSIX"])
def test_command_reads_inventory_in_locale_without_utf8(name: str) -> None:
    environment = {**os.environ, "LC_ALL": name}
    words = ["names", "-i", "orders-mq01-a,orders-mq01-b,"]
    ended = subprocess.run(
        [sys.executable, "-m", "activemq_fleet", *words], check=False, capture_output=True, env=environment
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_an_unknown_command_is_one_line_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["frobnicate"]) == 2
    assert capsys.readouterr().err == (
        "activemq-fleet: error: No such command 'frobnicate' (see activemq-fleet --help)\n"
    )


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("inventory.yml: is empty"), 2, "inventory.yml: is empty"),
        (LabError("orders-mq01-a: did not start"), 1, "orders-mq01-a: did not start"),
        (FleetError("two\nlines"), 2, "two lines"),
        (FleetError("a \x1b[31mred\x1b[0m host"), 2, r"a \u001b[31mred\u001b[0m host"),
        (
            ModuleNotFoundError("No module named 'psutil'", name="psutil"),
            2,
            f"the Python package psutil of the lab is not installed: {install_hint('lab')}",
        ),
        (
            ModuleNotFoundError("No module named 'pyspark'", name="pyspark"),
            2,
            f"the Python package pyspark of this command is not installed: {install_hint('pipeline')}",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/etc/x"),
            2,
            "/etc/x: this path cannot be used (Permission denied): correct the path or its permissions",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_for_the_user_is_one_line(
    raising: list[BaseException | int],
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
    line: str,
) -> None:
    raising.append(error)
    assert cli.main(["check"]) == code
    assert capsys.readouterr() == ("", f"activemq-fleet: error: {line}\n")


def test_every_wrong_variable_has_a_line_of_its_own(
    raising: list[BaseException | int], capsys: pytest.CaptureFixture[str]
) -> None:
    raising.append(SettingsError("a: activemq_heap: what", "b: activemq_relase: unknown"))
    assert cli.main(["check"]) == 2
    assert capsys.readouterr().err == (
        "activemq-fleet: error: a: activemq_heap: what\nactivemq-fleet: error: b: activemq_relase: unknown\n"
    )


def test_a_bug_is_one_line_that_says_how_to_see_more(
    raising: list[BaseException | int], capsys: pytest.CaptureFixture[str]
) -> None:
    raising.append(KeyError("queue"))
    assert cli.main(["check"]) == 2
    assert capsys.readouterr().err == (
        "activemq-fleet: error: KeyError: 'queue'. This is a bug in activemq-fleet: run the command again with "
        "ACTIVEMQ_FLEET_DEBUG=1 in the environment, and report the traceback\n"
    )


def test_the_debug_variable_brings_the_traceback(
    raising: list[BaseException | int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACTIVEMQ_FLEET_DEBUG", "1")
    raising.append(KeyError("queue"))
    assert cli.main(["check"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupted_command_is_quiet(
    raising: list[BaseException | int], capsys: pytest.CaptureFixture[str]
) -> None:
    raising.append(KeyboardInterrupt())
    assert cli.main(["check"]) == 130
    assert capsys.readouterr() == ("", "")


def test_what_a_command_returns_is_the_exit_code(raising: list[BaseException | int]) -> None:
    raising.append(1)
    assert cli.main(["check"]) == 1


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-m", "activemq_fleet", "--help"],
        check=False,
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, b"")


def leaf_commands() -> list[tuple[str, ...]]:
    """Return the words of each command and subcommand."""
    context = click.Context(cli.fleet_cli)
    commands = {name: cli.fleet_cli.get_command(context, name) for name in cli.fleet_cli.list_commands(context)}
    words: list[tuple[str, ...]] = []
    for name, command in commands.items():
        below = command.list_commands(context) if isinstance(command, click.Group) else []
        words += [(name, subcommand) for subcommand in below] or [(name,)]
    return words


@pytest.mark.parametrize("words", leaf_commands(), ids=" ".join)
def test_every_command_exits_with_2_for_wrong_usage_and_0_for_help(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*words, "--no-such-option"]) == 2
    assert cli.main([*words, "--help"]) == 0
    assert "Usage: activemq-fleet" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ("render", "-o", "out"),
        ("check",),
        ("explain", "a"),
        ("graph", "-o", "fleet.svg"),
        ("status",),
        ("names",),
        ("lab", "up"),
        ("lab", "prepare"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_command_exits_with_2_for_inventory_that_does_not_exist(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([*words, "-i", "nowhere.yml"]) == 2
    assert list(tmp_path.iterdir()) == []
