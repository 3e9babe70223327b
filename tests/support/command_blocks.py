"""Execution of the command blocks of a documentation page, and comparison of their output.

A ``console`` block lists commands after ``$ ``, each followed by its output. An ``sh`` block is one script without
output. A fenced block with ``title="FILE"`` is a file that the reader writes. In an expected output ``...`` matches
any number of lines, and ``PID``, ``TIME`` and ``N`` match a process id, a duration and a number. A loopback address
matches any loopback address, and a number with a point or comma matches any such number. The number of spaces does not
matter.
The comment ``<!-- not executed: REASON -->`` excludes the block below it. The comment ``<!-- exit code: N -->`` is the
exit code of the last command of the block below it.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

_BLOCK = re.compile(
    r"(?:<!-- not executed: (?P<reason>[^>]+?) -->\n+)?"
    r"(?:<!-- exit code: (?P<code>\d+) -->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_LAB_START = re.compile(r"^activemq-fleet lab up [^#\n]*", re.MULTILINE)
SHELL = ("bash", "-ec")
COMMANDS = ("console", "sh")
"""The languages of blocks that list commands."""
_LOOPBACK = re.compile(r"127\.\d+\.\d+\.\d+")
_FIGURE = re.compile(r"\d+(?:[.,]\d+)+")
_MASKS = {"PID": r"\d+", "TIME": r"\d+ \w+", "N": r"[\d,.]+"}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    language: str
    title: str | None
    """The file that the reader writes with this content."""
    text: str
    reason: str | None
    """Why the block is not executed."""
    exit_code: int
    line: int
    """The line of the page that opens the block, counted from 1."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page, and the lines of output that the page shows; None where the page shows no output."""

    line: str
    output: tuple[str, ...] | None
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """What a reader of a documentation page writes and runs, in the order of the page."""

    steps: tuple[Command | tuple[str, str], ...]
    """Commands, and files as name and content."""
    excluded: tuple[str, ...]
    """The reason for each block that is not executed."""


def read_blocks(text: str) -> tuple[Block, ...]:
    """Return the fenced blocks of a Markdown text."""
    return tuple(
        Block(
            match["language"],
            match["title"],
            textwrap.dedent(match["text"]),
            match["reason"],
            int(match["code"] or 0),
            text.count("\n", 0, match.start("indent")) + 1,
        )
        for match in _BLOCK.finditer(text)
    )


def read_page(path: Path) -> Page:
    """Return the files and commands of a Markdown page."""
    return _page_of(path.read_text(encoding="utf-8"))


def read_section(path: Path, title: str) -> Page:
    """Return the files and commands of one section of the second level of a Markdown page."""
    sections = re.split(r"^## (.+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return _page_of(dict(zip(sections[1::2], sections[2::2], strict=True))[title])


def _page_of(text: str) -> Page:
    steps: list[Command | tuple[str, str]] = []
    excluded: list[str] = []
    for block in read_blocks(text):
        if block.title:
            steps.append((block.title, block.text))
        elif block.language not in COMMANDS:
            continue
        elif block.reason:
            excluded.append(block.reason)
        elif block.language == "console":
            steps += _console_commands(block)
        else:
            steps.append(Command(block.text, None, block.exit_code))
    return Page(tuple(steps), tuple(excluded))


def select_commands(page: Page, start: str) -> Page:
    """Return only those commands of a page that begin with ``start``."""
    commands = tuple(step for step in page.steps if isinstance(step, Command) and step.line.startswith(start))
    return replace(page, steps=commands)


def replace_values(page: Page, values: Mapping[str, str]) -> Page:
    """Return a page with the values of a test in place of its examples, in commands, outputs and files."""

    def replaced(text: str) -> str:
        for example, value in values.items():
            text = text.replace(example, value)
        return text

    steps: list[Command | tuple[str, str]] = []
    for step in page.steps:
        if isinstance(step, Command):
            output = None if step.output is None else tuple(map(replaced, step.output))
            steps.append(replace(step, line=replaced(step.line), output=output))
        else:
            steps.append((step[0], replaced(step[1])))
    return replace(page, steps=tuple(steps))


def run_page(
    page: Page, directory: Path, variables: Mapping[str, str] | None = None, shell: Sequence[str] = SHELL
) -> None:
    """Run all steps of a page in ``directory``. Raises AssertionError for an exit code or an output that differs."""
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": programs, "NO_COLOR": "1", "COLUMNS": "200"} | dict(variables or {})
    run_steps(page, directory, environment, shell)


def run_steps(page: Page, directory: Path, environment: Mapping[str, str], shell: Sequence[str] = SHELL) -> None:
    """Run all steps of a page in ``directory`` with no other environment variables than ``environment``."""
    for step in page.steps:
        if isinstance(step, Command):
            run_command(step, directory, environment, shell)
        else:
            name, content = step
            file = directory / name.lstrip("/")  # A path on a host stays below the directory.
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")


def run_lab_page(page: Page, directory: Path) -> None:
    """Run a page in ``directory``; stop every lab that it starts, also if a command fails."""
    starts = [start for step in page.steps if isinstance(step, Command) for start in _LAB_START.findall(step.line)]
    try:
        run_page(page, directory)
    finally:
        for start in starts:
            stop = Command(start.replace("lab up", "lab down"), None)
            run_page(Page((stop,), ()), directory)


def run_command(
    command: Command, directory: Path, environment: Mapping[str, str], shell: Sequence[str] = SHELL
) -> None:
    """Run one command, and compare its exit code and its standard output with those of the page."""
    process = subprocess.run(
        [*shell, command.line],
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == command.exit_code, (
        f"{command.line}: the exit code is {process.returncode} instead of {command.exit_code}\n"
        f"{process.stdout}{process.stderr}"
    )
    if command.output is not None:
        printed = [" ".join(line.split()) for line in process.stdout.splitlines() if line.strip()]
        shown = "\n".join(command.output)
        assert matches(printed, command.output), (
            f"{command.line} printed\n{process.stdout}{process.stderr}but the page shows\n{shown}"
        )


def matches(printed: Sequence[str], shown: Sequence[str]) -> bool:
    """Return whether printed lines match the lines that a page shows."""
    parts = [tuple(part) for separator, part in itertools.groupby(shown, key="...".__eq__) if not separator]
    starts_open, ends_open = (bool(shown) and shown[end] == "..." for end in (0, -1))
    position = 0
    for index, part in enumerate(parts):
        is_first, is_last = index == 0 and not starts_open, index == len(parts) - 1 and not ends_open
        if is_first and is_last:
            places: Iterable[int] = [0] if len(printed) == len(part) else []
        elif is_first:
            places = [0]
        elif is_last:
            places = [len(printed) - len(part)]
        else:
            places = range(position, len(printed) - len(part) + 1)
        place = next((place for place in places if place >= position and _matches_at(printed, place, part)), None)
        if place is None:
            return False
        position = place + len(part)
    return bool(parts) or bool(shown) or not printed


def _matches_at(printed: Sequence[str], place: int, part: Sequence[str]) -> bool:
    lines = printed[place : place + len(part)]
    return len(lines) == len(part) and all(
        _line_pattern(shown).fullmatch(line) for shown, line in zip(part, lines, strict=True)
    )


def _line_pattern(line: str) -> re.Pattern[str]:
    pattern = " ".join(_word_pattern(word) for word in line.split())
    # The number of warnings can also be 1.
    return re.compile(pattern.replace(f"{_MASKS['N']} warnings", f"{_MASKS['N']} warnings?"))


def _word_pattern(word: str) -> str:
    for measured in (_LOOPBACK, _FIGURE):
        if measured.fullmatch(word):
            return measured.pattern
    return _MASKS.get(word, re.escape(word))


def _console_commands(block: Block) -> list[Command]:
    commands: list[Command] = []
    for chunk in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        lines = chunk.rstrip("\n").split("\n")
        length = 1 + sum(1 for _ in itertools.takewhile(lambda row: row.endswith("\\"), lines))
        output = tuple(" ".join(row.split()) for row in lines[length:] if row.strip())
        commands.append(Command("\n".join(lines[:length]), output or None))
    return [*commands[:-1], replace(commands[-1], exit_code=block.exit_code)]
