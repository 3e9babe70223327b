# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Pieces of a text, as positions: marks and references that stay, and lines."""

from __future__ import annotations

import re
from collections.abc import Iterable

UNKNOWN = "@secret@"
MARK = r"@(?:secret|activemq_[^@\s]{0,200})@"
Span = tuple[int, int]
Spans = list[Span]

CUT_NOTE = " [{} more characters of this line were left out]"
"""What the end of a line says that was cut."""

_CUT_NOTE = re.compile(r" \[\d{1,12} more characters of this line were left out\]\r?\Z")
_REFERENCE = re.compile(rf"\$\{{[^}}:]*\}}|{MARK}|\*{{3,}}|(?:true|false|null|none|)", re.IGNORECASE)
_ATOM = re.compile(
    rf"(?:\$\{{[^}}:\s]{{1,200}}\}}|{MARK}|\*{{3,}})(?=[\s\"'`&<>;,)}}\]|\\]|\Z)"
    r"|(?:true|false|null|none)(?=[,;)}\]]+(?:\s|\Z)|[\"'<\r\n]|\Z)",
    re.IGNORECASE,
)
_MARK = re.compile(MARK)


def is_reference(value: str) -> bool:
    """True for a value that tells no secret: ``${variable}``, what is masked already, a switch, nothing."""
    return _REFERENCE.fullmatch(value.strip()) is not None


def is_mark(value: str) -> bool:
    """True for ``@VARIABLE@`` and ``@secret@``."""
    return _MARK.fullmatch(value) is not None


def reference_end(text: str, start: int, end: int) -> int:
    """Where the reference that begins at ``start`` ends; -1 when none does, or when it does not end there."""
    match = _ATOM.match(text, start, end)
    return match.end() if match else -1


def cut_note_start(text: str, end: int) -> int:
    """Where the note begins that the line that ends at ``end`` was cut; -1 for none."""
    match = _CUT_NOTE.search(text, max(0, end - 80), end)
    return match.start() if match else -1


def merged(spans: Iterable[Span]) -> Spans:
    """The spans in order; those that overlap are one."""
    result: Spans = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if result and start < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result
