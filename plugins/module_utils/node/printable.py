# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Makes text of unknown origin safe to show: file and host names, log lines, names of brokers, messages of errors."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from typing import Any

# Control characters, direction marks, invisible characters, Unicode line ends, and surrogates.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_NAMED_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def escape_unprintable(text: str, *, lines: bool = False) -> str:
    r"""Return a text with its control and invisible characters escaped.

    Escapes are such as ``\n`` or ``\u001b``. ``lines``: line breaks and tabs stay as they are, for text that is made of
    lines.
    """
    if text.isprintable():
        return text

    def escape_character(character_match: re.Match[str]) -> str:
        char = character_match[0]
        if lines and char in "\n\t":
            return char
        return _NAMED_ESCAPES.get(char) or (f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}")

    return _HIDDEN.sub(escape_character, text)


def terminal_safe_json(data: Any, indent: int = 2) -> str:
    """Return data as JSON text that is safe to print on a terminal.

    All beyond ASCII is escaped if any character is unsafe.
    """
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    return (
        text if escape_unprintable(text, lines=True) == text and "\t" not in text else json.dumps(data, indent=indent)
    )


def escape_html(text: str) -> str:
    """Escape a text for HTML and XML 1.0, in an element or an attribute.

    Hidden characters are made visible.
    """
    return html.escape(escape_unprintable(text, lines=True), quote=True)


def count_with_noun(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun in singular or plural: ``1 pair``, ``4 pairs``, ``1,000 brokers``.

    ``plural`` is for irregular nouns.
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines of text with aligned columns.

    All rows are of one length.
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
