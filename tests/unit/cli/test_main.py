"""Messages, help and exit status of all commands."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import click
import pytest

from activemq_fleet import __version__
from activemq_fleet.cli import main as cli
from activemq_fleet.errors import FleetError, InputError, LabError, SettingsError
from activemq_fleet.install_hint import install_hint

SetOutcome = Callable[[BaseException | int], None]


@pytest.fixture
def set_check_outcome(monkeypatch: pytest.MonkeyPatch) -> SetOutcome:
    """Return a function that sets the exception which ``check`` raises, or the number which it returns."""
    outcomes: list[BaseException | int] = []

    @click.command()
    def command() -> int:
        if isinstance(outcomes[0], BaseException):
            raise outcomes[0]
        return outcomes[0]

    module = ModuleType("activemq_fleet.cli.check")
    module.__spec__ = ModuleSpec(module.__name__, loader=None)
    setattr(module, "check_command", command)  # noqa: B010 -- a made-up module has no such attribute for mypy
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delenv("ACTIVEMQ_FLEET_DEBUG", raising=False)
    return outcomes.append


def test_version_option_prints_version_of_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip().endswith(__version__)


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    help_text = capsys.readouterr().out
    names = cli.fleet_cli.list_commands(click.Context(cli.fleet_cli))
    assert names
    assert all(f"\n  {name} " in help_text for name in names)


def test_empty_path_is_wrong_usage_of_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    context = click.Context(cli.fleet_cli)
    pending: list[tuple[tuple[str, ...], click.Command | None]] = [
        ((name,), cli.fleet_cli.get_command(context, name)) for name in cli.fleet_cli.list_commands(context)
    ]
    options: list[list[str]] = []
    while pending:
        words, command = pending.pop()
        assert command is not None
        if isinstance(command, click.Group):
            pending += [((*words, name), subcommand) for name, subcommand in command.commands.items()]
        options += [
            [*words, *option.opts[:1], ""]
            for option in command.params
            if isinstance(option, click.Option) and isinstance(option.type, click.Path)
        ]

    assert ["check", "--file", ""] in options
    assert ["lab", "drill", "--report", ""] in options
    assert ["plan", "-o", ""] in options
    assert ["lab", "status", "-i", ""] in options
    for arguments in [*options, ["check", ""], ["store", "inspect", ""]]:
        assert cli.main(arguments) == 2, arguments
        assert "the path is empty: write a path" in capsys.readouterr().err, arguments


@pytest.mark.parametrize("identity", ["", "production@"])
def test_vault_identity_without_file_is_wrong_usage(identity: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["names", "-i", "orders-mq01-a,orders-mq01-b,", "--vault-id", identity]) == 2
    assert f"'--vault-id': the identity {identity!r} has no file: write LABEL@FILE" in capsys.readouterr().err


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
    process = subprocess.run(
        [sys.executable, "-m", "activemq_fleet", *words], check=False, capture_output=True, env=environment
    )
    assert (process.returncode, process.stderr) == (0, b"")


def test_unknown_command_is_single_line_and_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
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
def test_expected_error_of_command_is_single_line_with_its_exit_code(
    set_check_outcome: SetOutcome,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
    line: str,
) -> None:
    set_check_outcome(error)
    assert cli.main(["check"]) == code
    assert capsys.readouterr() == ("", f"activemq-fleet: error: {line}\n")


def test_every_wrong_variable_has_separate_line(
    set_check_outcome: SetOutcome, capsys: pytest.CaptureFixture[str]
) -> None:
    set_check_outcome(SettingsError("a: activemq_heap: what", "b: activemq_relase: unknown"))
    assert cli.main(["check"]) == 2
    assert capsys.readouterr().err == (
        "activemq-fleet: error: a: activemq_heap: what\nactivemq-fleet: error: b: activemq_relase: unknown\n"
    )


def test_unexpected_exception_of_command_is_single_line_with_debug_variable(
    set_check_outcome: SetOutcome, capsys: pytest.CaptureFixture[str]
) -> None:
    set_check_outcome(KeyError("queue"))
    assert cli.main(["check"]) == 2
    assert capsys.readouterr().err == (
        "activemq-fleet: error: KeyError: 'queue'. This is a bug in activemq-fleet: run the command again with "
        "ACTIVEMQ_FLEET_DEBUG=1 in the environment, and report the traceback\n"
    )


def test_debug_variable_shows_traceback(
    set_check_outcome: SetOutcome,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACTIVEMQ_FLEET_DEBUG", "1")
    set_check_outcome(KeyError("queue"))
    assert cli.main(["check"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_interrupted_command_exits_with_130_and_prints_nothing(
    set_check_outcome: SetOutcome, capsys: pytest.CaptureFixture[str]
) -> None:
    set_check_outcome(KeyboardInterrupt())
    assert cli.main(["check"]) == 130
    assert capsys.readouterr() == ("", "")


def test_return_value_of_command_is_exit_code(set_check_outcome: SetOutcome) -> None:
    set_check_outcome(1)
    assert cli.main(["check"]) == 1


@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("words", "code"), [(["names", "orders-mq01-a"], 0), (["names", "-i", "absent.yml"], 2)])
def test_closed_standard_streams_do_not_change_exit_code(
    words: list[str], code: int, redirection: str, tmp_path: Path
) -> None:
    command = shlex.join([sys.executable, "-m", "activemq_fleet", *words])
    process = subprocess.run(
        ["/bin/sh", "-c", f"{command} {redirection}"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert process.returncode == code, process.stderr
    is_output_closed, is_error_closed = " >&-" in f" {redirection}", "2>&-" in redirection
    assert bool(process.stdout) is (code == 0 and not is_output_closed)
    assert bool(process.stderr) is (code == 2 and not is_error_closed)
    assert "This is a bug" not in process.stderr


def test_started_process_gets_null_device_for_closed_stream() -> None:
    code = (
        "import os, subprocess, sys; from activemq_fleet.cli.error_lines import open_closed_standard_streams;"
        "open_closed_standard_streams();"
        "sys.exit(subprocess.run(['sh', '-c', 'echo x && echo y >&2']).returncode or "
        "any(os.readlink(f'/proc/self/fd/{number}') != os.devnull for number in range(3)))"
    )
    command = shlex.join([sys.executable, "-c", code])
    assert subprocess.run(["/bin/sh", "-c", f"{command} <&- >&- 2>&-"], check=False).returncode == 0


def test_closed_output_pipe_exits_with_141_without_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, "-m", "activemq_fleet", "--help"],
        check=False,
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    assert (process.returncode, process.stderr) == (141, b"")


@pytest.mark.parametrize("debug", ["", "1"])
@pytest.mark.parametrize("stderr", ["closed pipe", "/dev/full"])
def test_error_exits_with_2_if_stderr_cannot_be_written(stderr: str, debug: str, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full", "w") as full_device:
        process = subprocess.run(
            [sys.executable, "-m", "activemq_fleet", "names", "-i", "absent.yml"],
            check=False,
            cwd=tmp_path,
            env={**os.environ, "ACTIVEMQ_FLEET_DEBUG": debug},
            stdout=subprocess.PIPE,
            stderr=full_device if stderr == "/dev/full" else writer,
        )
    os.close(writer)
    assert (process.returncode, process.stdout) == (2, b"")


def test_full_stdout_and_stderr_exit_with_2() -> None:
    with open("/dev/full", "w") as full_device:
        process = subprocess.run(
            [sys.executable, "-m", "activemq_fleet", "names", "orders-mq01-a"],
            check=False,
            stdout=full_device,
            stderr=full_device,
        )
    assert process.returncode == 2


def leaf_commands() -> list[tuple[str, ...]]:
    """Return the words of each command and subcommand."""
    context = click.Context(cli.fleet_cli)
    commands = {name: cli.fleet_cli.get_command(context, name) for name in cli.fleet_cli.list_commands(context)}
    words: list[tuple[str, ...]] = []
    for name, command in commands.items():
        subcommands = command.list_commands(context) if isinstance(command, click.Group) else []
        words += [(name, subcommand) for subcommand in subcommands] or [(name,)]
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
