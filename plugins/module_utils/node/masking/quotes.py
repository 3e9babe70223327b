# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Finds where a quoted value ends: with escapes, with quotes inside quotes, as XML entities or encoded for URIs."""

from __future__ import annotations

import re

OPENING = re.compile(r"\\{0,15}[\"'`]|&(?:quot|apos);|&#(?:34|39|x22|x27);|%2[27]|\\{1,7}u002[27]|[“‘«]", re.IGNORECASE)
"""Matches what opens a quoted value, with the backslashes before it, which are escapes of the text around."""

_CLOSING = {quote: re.compile(rf"(?<!\\)\\*{quote}") for quote in "\"'`"}
_OTHER_CLOSING = {"“": "”", "‘": "’", "«": "»"}
# What may stand after a closing quote. After anything else the quote was one inside the value.
_BEHIND = re.compile(r"[\s,;)}\]>&|:/\\.=<#]|\Z")
_TOKEN = re.compile(r"\\.|[\"'\n]", re.DOTALL)
_BEFORE_APOSTROPHE = " \t=(,[{:"


def quoted_value_end(text: str, opening: str, start: int, end: int) -> int:
    r"""Return the position at which a quoted value ends, given its opening quote; -1 if the quote is not closed.

    A quote with more escapes than the opening one is part of the value, as in ``\"a\\\"b\"``.
    """
    quote = opening[-1]
    if quote not in _CLOSING:
        return text.find(_OTHER_CLOSING.get(opening, opening), start, end)
    escapes = len(opening) - 1
    for match in _CLOSING[quote].finditer(text, start, end):
        surplus = len(match[0]) - 1 - escapes
        if surplus >= 0 and surplus % (2 * (escapes + 1)) == 0 and _BEHIND.match(text, match.end(), end):
            return match.end() - escapes - 1
    return -1


class OpenQuotes:
    """A reader that tells, for ascending positions in a text, which quote is open at a position on its line."""

    def __init__(self, text: str, start: int) -> None:
        self._text, self._at, self._open = text, start, ""

    def quote_at(self, position: int) -> str:
        """Return the quote character that is open at a position in the text; empty outside quotes."""
        text = self._text
        if position <= self._at:
            return self._open
        line = text.rfind("\n", self._at, position)
        if line >= 0:
            self._at, self._open = line + 1, ""
        for match in _TOKEN.finditer(text, self._at, position):
            mark = match[0]
            if mark not in ("'", '"'):
                continue
            if self._open:
                after = text[match.end() : match.end() + 1]
                if mark == self._open and not after.isalnum():
                    self._open = ""
            else:
                before = text[match.start() - 1 : match.start()] or " "
                if before in _BEFORE_APOSTROPHE or before == "\n" or (mark == '"' and not before.isalnum()):
                    self._open = mark
        self._at = max(self._at, position)
        return self._open
