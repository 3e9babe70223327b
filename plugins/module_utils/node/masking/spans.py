# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Recognises pieces of a text that are not masked (marks, references, notes of cut lines), and merges positions."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable

UNKNOWN = "@secret@"
MARK = r"@(?:secret|activemq_[^@\s]{0,200})@"
Span = typing.Tuple[int, int]  # noqa: UP006
Spans = typing.List[Span]  # noqa: UP006

CUT_NOTE = " [{} more characters of this line were left out]"
"""The note at the end of a line that was cut."""

_CUT_NOTE = re.compile(r" \[\d{1,12} more characters of this line were left out\]\r?\Z")
_REFERENCE = re.compile(rf"\$\{{[^}}:]*\}}|{MARK}|\*{{3,}}|(?:true|false|null|none|)", re.IGNORECASE)
_ATOM = re.compile(
    rf"(?:\$\{{[^}}:\s]{{1,200}}\}}|{MARK}|\*{{3,}})(?=[\s\"'`&<>;,)}}\]|\\]|\Z)"
    r"|(?:true|false|null|none)(?=[,;)}\]]+(?:\s|\Z)|[\"'<\r\n]|\Z)",
    re.IGNORECASE,
)
_MARK = re.compile(MARK)


def is_reference(value: str) -> bool:
    """Return whether a value contains no secret: ``${variable}``, a mark ``@secret@``, a boolean, or empty."""
    return _REFERENCE.fullmatch(value.strip()) is not None


def is_mark(value: str) -> bool:
    """Return whether a value is a mark in place of a secret, ``@VARIABLE@`` or ``@secret@``."""
    return _MARK.fullmatch(value) is not None


def reference_end(text: str, start: int, end: int) -> int:
    """Return the end of a value that needs no mask (a variable, mark, boolean or null); -1 for any other value."""
    match = _ATOM.match(text, start, end)
    return match.end() if match else -1


def cut_note_start(text: str, end: int) -> int:
    """Return the position of the note on a cut line that says how much was left out; -1 without a note."""
    match = _CUT_NOTE.search(text, max(0, end - 80), end)
    return match.start() if match else -1


def merged_spans(spans: Iterable[Span]) -> Spans:
    """Return (start, end) positions sorted, with overlapping ones joined to one."""
    result: Spans = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if result and start < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result
