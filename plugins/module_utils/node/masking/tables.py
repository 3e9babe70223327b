# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Finds secrets in tables: the cells below a heading such as ``password``, in CSV, Markdown or aligned columns.

A heading is a line of names alone. A row has as many cells as the heading. A record of a log is no row: an account
that writes a heading into a log hides no record with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .names import is_secret_name
from .spans import Span, Spans

_DELIMITERS = tuple(
    re.compile(rf'"[^"\n]*"|(?P<delimiter>{pattern})') for pattern in (r"\|", r"\t", r";", r",", r"[ ]{2,}")
)
"""What divides the cells of a line, one kind a table; a quoted cell may hold it, too."""
_NAME = re.compile(r"[\"']?[A-Za-z][\w .-]{0,39}[\"']?")
_RULE = re.compile(r"[-+|:=\s]+")
_RECORD = re.compile(r"\d{4}-\d\d-\d\d|\s*(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")
_LONGEST_HEADING = 1000


def table_spans(text: str, candidates: Iterable[int]) -> Spans:
    """Return the (start, end) of each cell below a secret's name; ``candidates`` are positions of such names."""
    spans: Spans = []
    done = 0
    for candidate in candidates:
        if candidate < done:
            continue
        start = text.rfind("\n", 0, candidate) + 1
        end = _line_end(text, candidate)
        done = end
        for delimiter in _DELIMITERS:
            columns = _secret_columns(text, start, end, delimiter)
            if columns:
                cells, done = _cells_below(text, end, delimiter, *columns)
                spans += cells
                break
    return spans


def _secret_columns(text: str, start: int, end: int, delimiter: re.Pattern[str]) -> tuple[int, tuple[int, ...]] | None:
    """Return how many cells a heading has, and which of them name secrets; None for a line that is no heading."""
    if end - start > _LONGEST_HEADING:
        return None
    cells = _cells(text, start, end, delimiter)
    names = [text[slice(*cell)] for cell in cells]
    if len(cells) < 2 or not all(not name or _NAME.fullmatch(name) for name in names):
        return None
    secret = tuple(number for number, name in enumerate(names) if name and is_secret_name(name.strip("\"'")))
    return (len(cells), secret) if secret else None


def _cells_below(
    text: str, end: int, delimiter: re.Pattern[str], number: int, secret: tuple[int, ...]
) -> tuple[Spans, int]:
    """Return the spans of the secret cells in the rows after a heading, and the end of the last row."""
    spans: Spans = []
    while end < len(text):
        start, next_end = end + 1, _line_end(text, end + 1)
        if _RULE.fullmatch(text, start, next_end) is None:
            cells = _cells(text, start, next_end, delimiter)
            if len(cells) != number or _RECORD.match(text, start, next_end):
                break
            spans += [cells[column] for column in secret if cells[column][0] < cells[column][1]]
        end = next_end
    return spans, end


def _cells(text: str, start: int, end: int, delimiter: re.Pattern[str]) -> list[Span]:
    """Return the (start, end) of each cell of a line, without the blanks around it."""
    edges = [start]
    for match in delimiter.finditer(text, start, end):
        edges += match.span() if match["delimiter"] else ()
    edges.append(end)
    cells = []
    for left, right in zip(edges[::2], edges[1::2]):  # noqa: B905 -- strict= is of Python 3.10
        cell = text[left:right]
        begin = left + len(cell) - len(cell.lstrip())
        cells.append((begin, max(begin, left + len(cell.rstrip()))))
    return cells


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
