"""Format an explanation as text of 80 to 100 columns, with the same words with and without colours."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator

from activemq_fleet.explain.explanation import NONE, ExplanationSection, HostExplanation, HostStatement
from activemq_fleet.node.printable import escape_unprintable

MAX_LABEL = 30
_INDENT = 2
# A word that does not fit is not broken, so that a URI can be copied.
_UNBROKEN_WORDS = {"break_long_words": False, "break_on_hyphens": False}

Emphasis = Callable[[str, str], str]
"""(text, kind) -> text; kinds are title, heading, label, variable, error, warning, info, waived."""


def explanation_to_text(
    explanation: HostExplanation, *, width: int = 88, emphasis: Emphasis = lambda text, kind: text
) -> str:
    """Return the explanation of a host as plain text.

    Lines are wrapped at ``width`` characters.
    """
    title = textwrap.wrap(_strip_control_characters(explanation.title), width, **_UNBROKEN_WORDS)  # type: ignore[arg-type]
    lines = [emphasis(line, "title") for line in title]
    for section in explanation.sections:
        lines += ["", *_section_lines(section, width, emphasis)]
    return "\n".join(lines)


def _section_lines(section: ExplanationSection, width: int, emphasis: Emphasis) -> Iterator[str]:
    yield emphasis(section.title, "heading")
    if section.intro:
        yield from _wrap(section.intro, width, _INDENT)
    longest = max((len(entry.label) for entry in section.entries), default=0)
    column = 2 * _INDENT if section.stacked else 2 * _INDENT + min(longest, MAX_LABEL)
    for entry in section.entries:
        yield from _entry_lines(entry, width, column, emphasis)


def _entry_lines(entry: HostStatement, width: int, column: int, emphasis: Emphasis) -> Iterator[str]:
    text = f"{entry.text} ({entry.why})" if entry.why else entry.text
    if entry.label == entry.text == NONE:
        yield from _wrap(text, width, _INDENT)
        return
    variable = _variable_word(entry)
    lines = _wrap(f"{text} {variable}" if variable else text, width, column)
    if variable:
        lines[-1:] = [_emphasize_variable(lines[-1], variable, emphasis)]
    label = _strip_control_characters(entry.label)
    start = " " * _INDENT + emphasis(label, entry.severity or "label")
    room = column - _INDENT - len(label)
    if room >= 2:
        yield start + " " * room + lines[0][column:]
        yield from lines[1:]
    else:
        yield start
        yield from lines
    for detail in entry.details:
        yield from _wrap(detail, width, column)


def _variable_word(entry: HostStatement) -> str:
    """Return an entry's variable as an unbreakable word: ``[activemq_ha]`` or ``[activemq_ha:\u00a0default]``."""
    if not entry.variable:
        return ""
    return f"[{entry.variable}:\u00a0default]" if entry.origin == "default" else f"[{entry.variable}]"


def _emphasize_variable(line: str, variable: str, emphasis: Emphasis) -> str:
    printed_variable = variable.replace("\u00a0", " ")
    head, occurrence, tail = line.rpartition(printed_variable)
    return f"{head}{emphasis(occurrence, 'variable')}{tail}" if occurrence else line


def _wrap(text: str, width: int, column: int) -> list[str]:
    # Even on a narrow terminal, a line has room for several words.
    room = max(width - column, 24)
    wrapped = textwrap.wrap(_strip_control_characters(text), room, **_UNBROKEN_WORDS) or [""]  # type: ignore[arg-type]
    return [" " * column + line.replace("\u00a0", " ") for line in wrapped]


def _strip_control_characters(text: str) -> str:
    """Return the text without terminal control characters, because a reason or a path may hold any text."""
    return escape_unprintable(text, lines=True)
