"""Completion in shells: commands, options, hosts of the inventory, rules; quick, and without a word on stderr."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from activemq_fleet.cli.main import main
from tests.situations import some_situations

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
PROGRAM = Path(sys.executable).with_name("activemq-fleet")
SHELLS = {
    # What readline does when Tab is pressed: the function of the last word, with the words so far.
    "bash": (
        'eval "$(activemq-fleet completion bash)"\n'
        "COMP_WORDS=(activemq-fleet {words}); COMP_CWORD={last}; COMPREPLY=()\n"
        "_activemq_fleet_completion activemq-fleet\n"
        'printf "%s\\n" "${{COMPREPLY[@]}}"\n'
    ),
}


def completed(*words: str, shell: str = "bash", cwd: Path | None = None) -> list[str]:
    """The completions that a real shell offers for the last of the words; it prints nothing to stderr."""
    quoted = " ".join(f"'{word}'" for word in words)
    script = SHELLS[shell].format(words=quoted, last=len(words))
    environment = {**os.environ, "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run(
        [shell, "--norc", "-c", script], check=False, capture_output=True, text=True, env=environment, cwd=cwd
    )
    assert ended.stderr == ""
    return [line for line in ended.stdout.splitlines() if line]


def test_bash_completes_a_command() -> None:
    assert completed("ch") == ["check"]


def test_bash_completes_a_subcommand() -> None:
    assert "kill" in completed("lab", "k")


def test_bash_completes_options() -> None:
    assert {"--select", "--no-color"} <= set(completed("check", "--"))


def test_bash_completes_values_of_an_option() -> None:
    assert completed("check", "--format", "sa") == ["sarif"]


def test_bash_completes_hosts_of_the_inventory() -> None:
    inventory = str(EXAMPLES / "shared-store")
    assert completed("explain", "-i", inventory, "orders-mq01-a") == ["orders-mq01-a.example.com"]


def test_bash_completes_hosts_of_the_configured_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_INVENTORY", str(EXAMPLES / "shared-store"))
    assert completed("explain", "orders-mq01-a") == ["orders-mq01-a.example.com"]


def test_bash_completes_the_last_rule_of_a_list() -> None:
    offered = completed("check", "--select", "L001,N00")
    assert "L001,N003" in offered
    assert all(value.startswith("L001,N00") for value in offered)


def test_bash_completes_topics_of_help() -> None:
    assert completed("help", "topol") == ["topology-errors"]


@some_situations(1)
@pytest.mark.parametrize("content", [None, "not: [an, inventory", "all: {hosts: {x: {activemq_release: !vault no}}}"])
def test_bash_offers_nothing_for_an_inventory_that_cannot_be_read(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    if content is not None:
        path.write_text(content)
    assert completed("explain", "-i", str(path), "zz") == []


def test_completion_runs_no_program_that_makes_an_inventory(tmp_path: Path) -> None:
    program = tmp_path / "inventory"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho '{{}}'\n")
    program.chmod(0o755)
    assert completed("explain", "-i", str(program), "o") == []
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_of_every_shell_is_printed(shell: str) -> None:
    ended = subprocess.run([PROGRAM, "completion", shell], check=False, capture_output=True, text=True)
    assert ended.returncode == 0
    assert f"_ACTIVEMQ_FLEET_COMPLETE={shell}_complete" in ended.stdout


def test_variable_of_click_prints_the_script_too() -> None:
    environment = {**os.environ, "_ACTIVEMQ_FLEET_COMPLETE": "bash_source"}
    ended = subprocess.run([PROGRAM], check=False, capture_output=True, text=True, env=environment)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "complete -o nosort -F _activemq_fleet_completion activemq-fleet" in ended.stdout


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_script_is_accepted_by_the_shell(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    ended = subprocess.run([PROGRAM, "completion", shell], check=True, capture_output=True, text=True)
    parsed = subprocess.run([shell, "-n"], input=ended.stdout, check=False, capture_output=True, text=True)
    assert (parsed.returncode, parsed.stderr) == (0, "")


def test_completing_commands_loads_neither_ansible_nor_lxml() -> None:
    code = (
        "import sys; from activemq_fleet.cli.main import main; sys.argv = ['activemq-fleet'];"
        "main(); sys.exit(bool({'ansible', 'lxml', 'jinja2'} & sys.modules.keys()))"
    )
    environment = {
        **os.environ,
        "_ACTIVEMQ_FLEET_COMPLETE": "bash_complete",
        "COMP_WORDS": "activemq-fleet ch",
        "COMP_CWORD": "1",
    }
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, env=environment)
    assert (ended.returncode, ended.stdout) == (0, b"plain,check\n")


def test_help_lists_the_line_of_each_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "--help"]) == 0
    out = capsys.readouterr().out
    assert "\\b" not in out
    assert re.findall(r"^  (\w+): +\S", out, re.MULTILINE) == ["bash", "zsh", "fish"]
