"""Completion in shells of commands, options, hosts and rules, without unnecessary imports or output to stderr."""

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
    # When Tab is pressed, readline calls this function with the words of the command line.
    "bash": (
        'eval "$(activemq-fleet completion bash)"\n'
        "COMP_WORDS=(activemq-fleet {words}); COMP_CWORD={last}; COMPREPLY=()\n"
        "_activemq_fleet_completion activemq-fleet\n"
        'printf "%s\\n" "${{COMPREPLY[@]}}"\n'
    ),
}


def complete_in_shell(*words: str, shell: str = "bash", cwd: Path | None = None) -> list[str]:
    """Return the completions that a real shell offers for the last word; fail if it prints to stderr."""
    quoted = " ".join(f"'{word}'" for word in words)
    script = SHELLS[shell].format(words=quoted, last=len(words))
    environment = {**os.environ, "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"}
    process = subprocess.run(
        [shell, "--norc", "-c", script], check=False, capture_output=True, text=True, env=environment, cwd=cwd
    )
    assert process.stderr == ""
    return [line for line in process.stdout.splitlines() if line]


def test_bash_completes_command() -> None:
    assert complete_in_shell("ch") == ["check"]


def test_bash_completes_subcommand() -> None:
    assert "kill" in complete_in_shell("lab", "k")


def test_bash_completes_options() -> None:
    assert {"--select", "--no-color"} <= set(complete_in_shell("check", "--"))


def test_bash_completes_values_of_option() -> None:
    assert complete_in_shell("check", "--format", "sa") == ["sarif"]


def test_bash_completes_hosts_of_inventory() -> None:
    inventory = str(EXAMPLES / "shared-store")
    assert complete_in_shell("explain", "-i", inventory, "orders-mq01-a") == ["orders-mq01-a.example.com"]


def test_bash_completes_hosts_of_configured_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_INVENTORY", str(EXAMPLES / "shared-store"))
    assert complete_in_shell("explain", "orders-mq01-a") == ["orders-mq01-a.example.com"]


def test_bash_completes_last_rule_of_list() -> None:
    completions = complete_in_shell("check", "--select", "L001,N00")
    assert "L001,N003" in completions
    assert all(completion.startswith("L001,N00") for completion in completions)


def test_bash_completes_topics_of_help() -> None:
    assert complete_in_shell("help", "topol") == ["topology-errors"]


@some_situations(1)
@pytest.mark.parametrize("content", [None, "not: [an, inventory", "all: {hosts: {x: {activemq_release: !vault no}}}"])
def test_bash_offers_nothing_for_unreadable_inventory(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    if content is not None:
        path.write_text(content)
    assert complete_in_shell("explain", "-i", str(path), "zz") == []


def test_completion_does_not_run_inventory_program(tmp_path: Path) -> None:
    program = tmp_path / "inventory"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho '{{}}'\n")
    program.chmod(0o755)
    assert complete_in_shell("explain", "-i", str(program), "o") == []
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_script_of_shell(shell: str) -> None:
    process = subprocess.run([PROGRAM, "completion", shell], check=False, capture_output=True, text=True)
    assert process.returncode == 0
    assert f"_ACTIVEMQ_FLEET_COMPLETE={shell}_complete" in process.stdout


def test_completion_variable_of_click_prints_script() -> None:
    environment = {**os.environ, "_ACTIVEMQ_FLEET_COMPLETE": "bash_source"}
    process = subprocess.run([PROGRAM], check=False, capture_output=True, text=True, env=environment)
    assert (process.returncode, process.stderr) == (0, "")
    assert "complete -o nosort -F _activemq_fleet_completion activemq-fleet" in process.stdout


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_script_is_accepted_by_shell(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    process = subprocess.run([PROGRAM, "completion", shell], check=True, capture_output=True, text=True)
    syntax_check = subprocess.run([shell, "-n"], input=process.stdout, check=False, capture_output=True, text=True)
    assert (syntax_check.returncode, syntax_check.stderr) == (0, "")


def test_completion_of_commands_loads_neither_ansible_nor_lxml() -> None:
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
    process = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, env=environment)
    assert (process.returncode, process.stdout) == (0, b"plain,check\n")


def test_help_of_completion_lists_setup_line_of_each_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "--help"]) == 0
    out = capsys.readouterr().out
    assert "\\b" not in out
    assert re.findall(r"^  (\w+): +\S", out, re.MULTILINE) == ["bash", "zsh", "fish"]
