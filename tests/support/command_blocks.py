"""The command blocks of a documentation page, run as a reader would run them, with their output compared.

A ``console`` block lists commands after ``$ ``, each followed by its output. An ``sh`` block lists commands without
output. A fenced block with ``title="FILE"`` is a file that the reader writes. In an expected output ``...`` stands
for any number of lines, ``PID``, ``TIME`` and ``N`` for a process id, a duration and a number. A loopback address,
and a number with a point or comma, match any other one. The number of spaces does not matter.
The comment ``<!-- not executed: REASON -->`` excludes the block below it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from activemq_fleet.cli.main import main

_BLOCK = re.compile(
    r"(?:<!-- not executed: (?P<reason>[^>]+?) -->\n+)?"
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
_LOOPBACK = re.compile(r"127\.\d+\.\d+\.\d+")
_FIGURE = re.compile(r"\d+(?:[.,]\d+)+")
_MASKS = {"PID": r"\d+", "TIME": r"\d+ \w+", "N": r"[\d,.]+"}


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page, and the lines of output that the page shows; None where the page shows no output."""

    line: str
    output: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Page:
    """What a reader of a documentation page writes and runs, in the order of the page."""

    steps: tuple[Command | tuple[str, str], ...]
    """Commands, and files as name and content."""
    excluded: tuple[str, ...]
    """The reason for each block that is not executed."""


def read_page(path: Path) -> Page:
    """Return the files and commands of a Markdown page."""
    steps: list[Command | tuple[str, str]] = []
    excluded: list[str] = []
    for block in _BLOCK.finditer(path.read_text(encoding="utf-8")):
        if block["title"]:
            steps.append((block["title"], block["text"]))
        elif block["language"] not in {"console", "sh"}:
            continue
        elif block["reason"]:
            excluded.append(block["reason"])
        elif block["language"] == "console":
            steps += _console_commands(block["text"])
        else:
            steps += [Command(line, None) for line in _joined_lines(block["text"])]
    return Page(tuple(steps), tuple(excluded))


def run_page(page: Page, directory: Path, variables: Mapping[str, str] | None = None) -> None:
    """Run all steps of a page in ``directory``. Raises AssertionError for an exit code or an output that differs."""
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": programs, "NO_COLOR": "1", "COLUMNS": "200"} | dict(variables or {})
    for step in page.steps:
        if isinstance(step, Command):
            run_command(step, directory, environment)
        else:
            name, content = step
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(content, encoding="utf-8")


def run_lab_page(page: Page, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a page that starts a lab of ``hosts.yml``, in ``directory`` as the working directory; the lab is stopped."""
    monkeypatch.chdir(directory)
    try:
        run_page(page, directory)
    finally:
        main(["lab", "down", "-i", "hosts.yml"])


def run_command(command: Command, directory: Path, environment: Mapping[str, str]) -> None:
    """Run one command, and compare its standard output with the lines that the page shows."""
    done = subprocess.run(
        ["sh", "-c", command.line],
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command.line}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    if command.output is not None:
        printed = [" ".join(line.split()) for line in done.stdout.splitlines() if line.strip()]
        shown = "\n".join(command.output)
        assert matches(printed, command.output), (
            f"{command.line} printed\n{done.stdout}{done.stderr}and the page shows\n{shown}"
        )


def matches(printed: Sequence[str], shown: Sequence[str]) -> bool:
    """Return whether printed lines match the lines that a page shows."""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(matches(printed[skipped:], shown[1:]) for skipped in range(len(printed) + 1))
    return (
        bool(printed) and _line_pattern(shown[0]).fullmatch(printed[0]) is not None and matches(printed[1:], shown[1:])
    )


def _line_pattern(line: str) -> re.Pattern[str]:
    return re.compile(" ".join(_word_pattern(word) for word in line.split()))


def _word_pattern(word: str) -> str:
    for measured in (_LOOPBACK, _FIGURE):
        if measured.fullmatch(word):
            return measured.pattern
    return _MASKS.get(word, re.escape(word))


def _console_commands(text: str) -> list[Command]:
    commands: list[Command] = []
    for chunk in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, *output = (row.rstrip() for row in chunk.rstrip("\n").split("\n"))
        commands.append(Command(line, tuple(" ".join(row.split()) for row in output if row) or None))
    return commands


def _joined_lines(text: str) -> list[str]:
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line and not line.startswith("#")]
