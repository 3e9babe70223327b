"""Find the line of a file that defines a variable, where Ansible records the line of an earlier definition.

Ansible keeps the key of the first definition with the value of the last one: if a file defines a variable several
times, the recorded line of the name is that of a definition without effect.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache

from activemq_fleet.node.text_lines import split_lines

_WITHOUT_KEY = re.compile(r"[\s\[{-]*(?:#.*)?")
_INDENTATION = re.compile(r"[ \t]*")
_SECTION_BEGIN = re.compile(r"\[|---|\.\.\.")


def line_of_variable_key(path: str, name: str, value_line: int) -> int | None:
    """Return the line number of the key of a variable in an inventory file, from the line of its value, or None.

    ``value_line`` is the line at which the value begins: that of the key, or one below it.
    """
    lines = _lines_of(path)
    for number in range(min(value_line, len(lines)), 0, -1):
        line = lines[number - 1]
        if _key_pattern(name).search(line):
            return number
        if number != value_line and not _WITHOUT_KEY.fullmatch(line):
            break
    return None


def line_of_last_definition_in_section(path: str, name: str, first_line: int) -> int:
    """Return the line number of a variable's last definition in one mapping or INI section of a file.

    ``first_line`` is the line number of the first definition, which is returned if the section does not define the
    variable again.
    """
    lines = _lines_of(path)
    if first_line > len(lines) or not _key_pattern(name).match(lines[first_line - 1].lstrip()):
        return first_line
    indentation = _indentation(lines[first_line - 1])
    last_line = first_line
    for number in range(first_line + 1, len(lines) + 1):
        line = lines[number - 1]
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        if _indentation(line) < indentation or _SECTION_BEGIN.match(line):
            break
        if _indentation(line) == indentation and _key_pattern(name).match(content):
            last_line = number
    return last_line


def _indentation(line: str) -> int:
    match = _INDENTATION.match(line)
    return match.end() if match else 0


@lru_cache(maxsize=1024)
def _key_pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of a key of YAML or INI, with or without quotation marks."""
    return re.compile(rf"(?<![\w.-])[\"']?{re.escape(name)}[\"']?\s*[:=]")


def _lines_of(path: str) -> Sequence[str]:
    """Return the lines of a file; none of a file that cannot be read."""
    try:
        status = os.stat(path)
        return _read_lines(path, status.st_mtime_ns, status.st_size)
    except (OSError, UnicodeDecodeError):
        return ()


@lru_cache(maxsize=64)
def _read_lines(path: str, _mtime_ns: int, _size: int) -> Sequence[str]:
    with open(path, encoding="utf-8") as file:
        return split_lines(file.read())
