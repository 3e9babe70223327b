"""Reads the agent's INI file into texts by key, each with its line number, using configparser."""

from __future__ import annotations

import configparser
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from activemq_agent.errors import ConfigError

SECTION = "agent"
LARGEST = 1 << 20
"""Bytes that a configuration may have."""


@dataclass(frozen=True, slots=True)
class Ini:
    """The content of an INI file: ``values`` key -> text, ``lines`` key -> line (from 1), ``problems`` of its form."""

    values: dict[str, str]
    lines: dict[str, int]
    problems: tuple[tuple[int, str], ...]
    """(line, reason); line 0 stands for the file as a whole."""


def read_ini(path: Path) -> Ini:
    """Return the content of section ``[agent]`` of a file.

    Raises ConfigError if the file cannot be read as text at all.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ConfigError(f"{path}: has more than {LARGEST} bytes: that is no agent's configuration")
        text = content.decode().removeprefix("\ufeff")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}: name the configuration with --config") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8 text") from error
    return parse_ini(text)


class _Lines:
    """Lines of a text that note at which line configparser stores a section or a key, while it reads that line."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.now: int | None = None
        self.seen: list[tuple[str, int]] = []

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(io.StringIO(self._text), 1):
            self.now = number
            yield line
        self.now = None

    def mapping(self) -> type[dict[str, Any]]:
        """Return a class of dictionaries that note each stored key with the current line."""
        notes = self

        class Noting(dict[str, Any]):
            def __setitem__(self, key: str, value: Any) -> None:
                if notes.now is not None:
                    notes.seen.append((key, notes.now))
                super().__setitem__(key, value)

        return Noting


def parse_ini(text: str) -> Ini:
    """Return the content of section ``[agent]`` of a text, with the problems of its form."""
    lines = _Lines(text)
    parser = configparser.RawConfigParser(
        dict_type=lines.mapping(), strict=False, default_section="", empty_lines_in_values=False
    )
    problems: list[tuple[int, str]] = []
    try:
        parser.read_file(lines)
    except configparser.MissingSectionHeaderError as error:
        return Ini({}, {}, ((error.lineno, f"the first line must be [{SECTION}]"),))
    except configparser.ParsingError as error:
        problems += [(number, "is neither 'key = value' nor a comment") for number, _ in error.errors]
    for section in parser.sections():
        if section != SECTION:
            hint = f"; write [{SECTION}]" if section.lower() == SECTION else ""
            problems.append((_line(lines, section), f"section [{section}] is not known: all keys are in [agent]{hint}"))
    if not parser.has_section(SECTION):
        problems.append((0, f"section [{SECTION}] is missing"))
        return Ini({}, {}, tuple(problems))
    found: dict[str, int] = {}
    inside = {key for key in parser[SECTION] if key != "__name__"}
    for key, number in lines.seen:
        if key in inside and key in found:
            problems.append((number, f"{key}: stands here again, after line {found[key]}: keep one"))
        elif key in inside:
            found[key] = number
    values = {key: value for key, value in parser[SECTION].items() if key in inside and isinstance(value, str)}
    return Ini(values, found, tuple(sorted(problems)))


def _line(lines: _Lines, name: str) -> int:
    return next((number for key, number in lines.seen if key == name), 0)
