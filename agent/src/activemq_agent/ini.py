"""Reads the agent's INI file into texts by key with configparser, and finds their line numbers in a second pass."""

from __future__ import annotations

import configparser
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from activemq_agent.agent_errors import ConfigError

SECTION = "agent"
LARGEST = 1 << 20
"""Largest number of bytes of a configuration."""
_NO_SECTION = f"the section [{SECTION}] of agent.conf is missing: write [{SECTION}] as the first line of the file"


@dataclass(frozen=True, slots=True)
class IniContent:
    """The content of an INI file: its values, their lines, and the problems of its syntax.

    ``values`` maps keys to texts, ``lines`` keys to line numbers from 1.
    """

    values: dict[str, str]
    lines: dict[str, int]
    problems: tuple[tuple[int, str], ...]
    """The syntax errors as (line, reason); line 0 means the file as a whole."""


def read_agent_section(path: Path) -> IniContent:
    """Read the section ``[agent]`` of an INI file, and return its content.

    Raises ConfigError if the file cannot be read as text at all.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ConfigError(
                f"the file {path} has more than {LARGEST} bytes, so it is not the configuration of an agent: set the "
                "path of agent.conf with --config"
            )
        text = content.decode().removeprefix("\ufeff")
    except OSError as error:
        raise ConfigError(
            f"the agent's configuration {path} cannot be read ({error.strerror}): check that the file "
            "exists and that the user that runs activemq-agent can read it, or set the path of agent.conf with --config"
        ) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{path}:{line}: this line of the agent's configuration is not UTF-8 text: save the file in UTF-8"
        ) from error
    return _parse_ini(text)


def _parse_ini(text: str) -> IniContent:
    """Parse the section ``[agent]`` of an INI text, and return its content.

    The content includes the problems of the syntax. Keys are in lower case, whatever the file has. A line that is
    indented deeper than its key's continues the value.
    """
    parser = configparser.RawConfigParser(strict=False, default_section="", empty_lines_in_values=False)
    problems: list[tuple[int, str]] = []
    try:
        parser.read_string(text)
    except configparser.MissingSectionHeaderError as error:
        return IniContent({}, {}, ((error.lineno, _NO_SECTION),))
    except configparser.ParsingError as error:
        problems = [
            (number, "this line of agent.conf is neither 'key = value' nor a comment: correct or remove the line")
            for number, _ in error.errors
        ]
    lines: dict[str, int] = {}
    sections = {SECTION}
    for number, section, key in _section_and_key_lines(text):
        if section not in sections:
            differs_only_in_case = section.lower() == SECTION
            hint = (
                f"write [{SECTION}] in lower case"
                if differs_only_in_case
                else f"move its keys to the section [{SECTION}]"
            )
            problems.append(
                (
                    number,
                    f"agent.conf has the section [{section}], but only the section [{SECTION}] is permitted: {hint}",
                )
            )
            sections.add(section)
        if key and section == SECTION:
            if key in lines:
                problems.append(
                    (
                        number,
                        f"agent.conf sets the key {key} twice, in lines {lines[key]} and {number}: remove one of these "
                        "lines",
                    )
                )
            lines.setdefault(key, number)
    if not parser.has_section(SECTION):
        return IniContent({}, {}, (*sorted([*problems, (0, _NO_SECTION)]),))
    return IniContent({key: parser[SECTION].get(key, "") for key in lines}, lines, tuple(sorted(problems)))


def _section_and_key_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, section, key) for each line that begins a section, with an empty key, or the value of a key.

    configparser does not keep the numbers of lines.
    """
    section = key = ""
    key_indent = 0
    for number, line in enumerate(io.StringIO(text), 1):
        content = line.strip()
        line_indent = len(line) - len(line.lstrip())
        if not content or content[0] in "#;":
            key = ""
        elif not key or line_indent <= key_indent:
            key_indent = line_indent
            if header := re.match(r"\[(.+)\]", content):
                section, key = header[1], ""
                yield number, section, key
            elif pair := re.match(r"([^=:]+)[=:]", content):
                key = pair[1].strip().lower()
                yield number, section, key
