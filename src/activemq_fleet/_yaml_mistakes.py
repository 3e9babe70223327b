"""Find the position of a mistake in a YAML file: Ansible names the position at which its parser detects the mistake."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import yaml

_VAULT = "$ANSIBLE_VAULT"
_IN_SIMPLE_KEY = "while scanning a simple key"
_IN_QUOTED_SCALAR = "while scanning a quoted scalar"
_IN_BRACKETS = frozenset({"while parsing a flow mapping", "while parsing a flow sequence", "while parsing a flow node"})
_ORPHANED_VALUE = "mapping values are not allowed here"
_OPEN_QUOTE = "the quote of a value is not closed: add the quote at the end of the value"
_TEMPLATE = "{{"
_MAXIMUM_LEVELS = 100
"""The number of levels that Ansible can read with Python's default limit of recursion, which is about 150."""
_KEY = re.compile(r"[ -]*([A-Za-z][\w.-]*)")


@dataclass(frozen=True, slots=True)
class LocatedYamlMistake:
    """A mistake in a YAML file: its line and its description.

    The line is that of its beginning, and counts from 1.
    """

    line: int
    reason: str


def find_yaml_mistake(path: str) -> LocatedYamlMistake | None:
    """Return the first mistake in a YAML file, or None.

    None is also returned for a file that cannot be read, such as an encrypted one.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    if text.startswith(_VAULT):
        return None
    try:
        yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        return _mistake_from_error(error, text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return LocatedYamlMistake(line, f"the value contains the control character U+{error.character:04X}: remove it")
    except yaml.YAMLError:
        return None
    return None


def too_deep_value_message(sources: Iterable[str], extra_vars: Iterable[str]) -> str:
    """Return the error message about a value of an inventory that contains itself, or has too many levels.

    ``sources`` are the inventory sources, ``extra_vars`` the extra variables. The message names the file and the line
    if one of their files has the value.
    """
    names = list(sources)
    for path in _files_of_inventory([*names, *(text[1:] for text in extra_vars if text.startswith("@"))]):
        if mistake := _find_too_deep_value(path):
            return f"{path}:{mistake.line}: {mistake.reason}"
    return (
        f"{', '.join(names)}: a value of the inventory contains itself, or has too many levels of lists and mappings: "
        "correct this value"
    )


def _files_of_inventory(paths: Iterable[str]) -> Iterator[str]:
    """Yield the files of an inventory: the given ones, those of given directories, and the variables next to files."""
    for path in paths:
        if os.path.isfile(path):
            yield path
        parent = os.path.dirname(path)
        directories = [os.path.join(parent, name) for name in ("group_vars", "host_vars")]
        for directory in [path] if os.path.isdir(path) else directories:
            for name, _, files in os.walk(directory):
                yield from (os.path.join(name, file) for file in sorted(files))


def _find_too_deep_value(path: str) -> LocatedYamlMistake | None:
    """Return the first value in a YAML file that contains itself or has too many levels, or None.

    None is also returned for a file that is no YAML.
    """
    anchors: list[str | None] = []
    with suppress(OSError, ValueError, yaml.YAMLError):
        for event in yaml.parse(Path(path).read_text(encoding="utf-8"), yaml.SafeLoader):
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, yaml.CollectionEndEvent):
                anchors.pop()
            elif isinstance(event, yaml.CollectionStartEvent):
                anchors.append(event.anchor)
                if len(anchors) > _MAXIMUM_LEVELS:
                    return LocatedYamlMistake(
                        line, f"the value has more than {_MAXIMUM_LEVELS} levels of lists and mappings: remove levels"
                    )
            elif isinstance(event, yaml.AliasEvent) and event.anchor in anchors:
                reason = f"the value of the anchor &{event.anchor} contains itself: remove the alias *{event.anchor}"
                return LocatedYamlMistake(line, reason)
    return None


def _mistake_from_error(error: yaml.MarkedYAMLError, text: str) -> LocatedYamlMistake | None:
    context_mark, problem_mark = error.context_mark, error.problem_mark
    if problem_mark is None:
        return None
    lines = text.split("\n")
    if problem_mark.line < len(lines) and "\t" in lines[problem_mark.line]:
        return None  # Ansible's message explains tabs.
    context = error.context or ""
    if context_mark is not None and context == _IN_SIMPLE_KEY:
        return LocatedYamlMistake(context_mark.line + 1, _missing_colon_reason(lines[context_mark.line]))
    if context_mark is not None and context == _IN_QUOTED_SCALAR:
        return LocatedYamlMistake(context_mark.line + 1, _OPEN_QUOTE)
    if (quote_line := _line_of_open_quote(text, problem_mark)) is not None:
        return LocatedYamlMistake(quote_line + 1, _OPEN_QUOTE)
    if context in _IN_BRACKETS and (bracket := _open_bracket(text, problem_mark.index)) is not None:
        line = lines[bracket.line]
        if line.startswith(_TEMPLATE, max(bracket.column - 1, 0)):
            return None  # Ansible's message explains templates without quotes.
        reason = (
            f"the bracket {line[bracket.column]} is not closed, or a comma between two entries inside it is missing: "
            "add the closing bracket or the comma"
        )
        if problem_mark.line > bracket.line:
            reason = f"{reason} (the parser noticed it on line {problem_mark.line + 1})"
        return LocatedYamlMistake(bracket.line + 1, reason)
    if error.problem == _ORPHANED_VALUE:
        return _orphaned_value_mistake(text, problem_mark.line)
    return None


def _tokens(text: str) -> Iterator[yaml.Token]:
    """Yield the YAML tokens of a text before its first mistake."""
    with suppress(yaml.MarkedYAMLError):
        yield from yaml.scan(text, yaml.SafeLoader)


def _line_of_open_quote(text: str, problem_mark: yaml.Mark) -> int | None:
    """Return the index of the line with a quoted YAML value that is not closed in its line; None without one.

    The parser reads the text up to the first quote of a later value as one value, and detects the mistake after that
    quote.
    """
    for token in _tokens(text):
        if token.start_mark.index >= problem_mark.index:
            break
        is_quoted = isinstance(token, yaml.ScalarToken) and token.style in ("'", '"')
        if is_quoted and token.start_mark.line < token.end_mark.line == problem_mark.line:
            return int(token.start_mark.line)
    return None


def _open_bracket(text: str, index: int) -> yaml.Mark | None:
    """Return the place of the innermost YAML bracket that is open at the character ``index`` of a text."""
    brackets: list[yaml.Mark] = []
    for token in _tokens(text):
        if token.start_mark.index >= index:
            break
        if isinstance(token, yaml.FlowMappingStartToken | yaml.FlowSequenceStartToken):
            brackets.append(token.start_mark)
        elif isinstance(token, yaml.FlowMappingEndToken | yaml.FlowSequenceEndToken):
            del brackets[-1:]
    return brackets[-1] if brackets else None


def _orphaned_value_mistake(text: str, line: int) -> LocatedYamlMistake:
    """Return the YAML mistake of a colon after text that is no key: ``line`` is the index of its line."""
    begin, column = line, 0
    for token in _tokens(text):
        if isinstance(token, yaml.ScalarToken):
            begin, column = token.start_mark.line, token.start_mark.column
    lines = text.split("\n")
    if begin == line:
        return LocatedYamlMistake(line + 1, "a value contains a colon and a space: write the value in quotes")
    if lines[begin][:column].strip(" -"):
        return LocatedYamlMistake(line + 1, "the line is not indented like the keys before it: indent it like them")
    return LocatedYamlMistake(begin + 1, _missing_colon_reason(lines[begin]))


def _missing_colon_reason(line: str) -> str:
    """Return the description of a YAML line without a colon; its value may be a secret, and is not shown."""
    key = _KEY.match(line)
    if key is None:
        return "a key in this line has no colon and space after it: add the colon and the space"
    return f"the key {key[1]} has no colon and space after it: add the colon and the space"
