# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Marks that replace secrets, values that contain no secret, and notes on lines that were cut."""

from __future__ import annotations

import re

UNKNOWN = "@secret@"
MARK = r"@(?:secret|activemq_[^@\s]{0,200})@"

CUT_NOTE = " [{} more characters of this line were left out]"
"""The note at the end of a line that was cut."""

_CUT_NOTE = r" \[\d{1,12} more characters of this line were left out\]"
IS_CUT = re.compile(rf"{_CUT_NOTE}\r?\Z")
# The text after a value on a log line that is not part of it: the logger and the thread of a record, and the note.
_RECORD_TAIL = re.compile(rf"(?: \| [A-Za-z_$][\w$-]*(?:\.[\w$-]+)+ \| [^|\n\"']{{0,400}})?(?:{_CUT_NOTE})?\r?\Z")
_LONGEST_TAIL = 900

_REFERENCE = re.compile(rf"\$\{{[^}}:]*\}}|{MARK}|\*{{3,}}|(?:true|false|null|none|)", re.IGNORECASE)
_LEADING_REFERENCE = re.compile(
    rf"(?:\$\{{[^}}:\s]{{1,200}}\}}|{MARK}|\*{{3,}})(?=[\s\"'`&<>;,)}}\]|\\]|\Z)"
    r"|(?:true|false|null|none)(?=[,;)}\]]+(?:\s|\Z)|[\"'<\r\n]|\Z)",
    re.IGNORECASE,
)


def is_secret_free_value(value: str) -> bool:
    """Return whether a value is free of secrets: a reference ``${variable}``, a mark of a masked value, or a boolean.

    An empty value is free of secrets, too.
    """
    return _REFERENCE.fullmatch(value.strip()) is not None


def end_of_value_if_secret_free(text: str, value_start: int, search_end: int) -> int:
    """Return the end offset of the value that begins at ``value_start`` in a text if it contains no secret; else -1.

    Examples are ``${variable}``, a mark, a boolean and null.
    """
    match = _LEADING_REFERENCE.match(text, value_start, search_end)
    return match.end() if match else -1


def logger_and_thread_start(text: str, start: int, end: int) -> int:
    """Return the position in a text at which the logger and thread start, the last fields of a log record.

    A note on a cut line also counts. Both begin before ``end``.
    """
    match = _RECORD_TAIL.search(text, max(start, end - _LONGEST_TAIL), end)
    return match.start() if match else end
