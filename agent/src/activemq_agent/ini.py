"""Reads the agent's INI file into texts by key, each with its line number, as configparser does without numbers."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path

from activemq_agent.errors import ConfigError

SECTION = "agent"
LARGEST = 1 << 20
"""Bytes that a configuration may have."""


@dataclass(frozen=True, slots=True)
class Ini:
    """The content of an INI file: ``values`` (key -> text), ``lines`` (key -> line, from 1), ``problems`` of its
    syntax.
    """

    values: dict[str, str]
    lines: dict[str, int]
    problems: tuple[tuple[int, str], ...]
    """(line, reason); line 0 stands for the file as a whole."""


def read_ini(path: Path) -> Ini:
    """Return the content of section ``[agent]`` of an INI file.

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


def parse_ini(text: str) -> Ini:
    """Return the content of section ``[agent]`` of an INI text, with its syntax problems.

    Keys are in lower case, whatever the file has. A line that is indented deeper than its key's continues the value.
    """
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    problems: list[tuple[int, str]] = []
    sections: set[str] = set()
    section = key = ""
    indent = 0
    for number, line in enumerate(io.StringIO(text), 1):
        content = line.strip()
        if not content or content[0] in "#;":
            key = ""
            continue
        depth = len(line) - len(line.lstrip())
        if key and depth > indent:
            if section == SECTION:
                values[key] += f"\n{content}"
            continue
        indent = depth
        if header := re.match(r"\[(.+)\]", content):
            section, key = header[1], ""
            if section not in {SECTION, *sections}:
                hint = f"; write [{SECTION}]" if section.lower() == SECTION else ""
                problems.append((number, f"section [{section}] is not known: all keys are in [agent]{hint}"))
            sections.add(section)
        elif not section:
            return Ini({}, {}, ((number, f"the first line must be [{SECTION}]"),))
        elif not (pair := re.match(r"([^=:]+)[=:](.*)", content)):
            problems.append((number, "is neither 'key = value' nor a comment"))
        else:
            key = pair[1].strip().lower()
            if section != SECTION:
                continue
            values[key] = pair[2].strip()
            if key in lines:
                problems.append((number, f"{key}: stands here again, after line {lines[key]}: keep one"))
            lines.setdefault(key, number)
    if SECTION not in sections:
        problems.append((0, f"section [{SECTION}] is missing"))
    return Ini(values, lines, tuple(sorted(problems)))
