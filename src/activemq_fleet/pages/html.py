"""Write parts of a report as HTML: one file without external resources, for light and dark mode and for paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from activemq_fleet.pages.style import STYLE
from activemq_fleet.pages.svg import PATTERNS
from activemq_fleet.printable import escape_html


def page(title: str, body: Iterable[str], *, style: str = "") -> str:
    """Return a whole HTML page; ``body`` is HTML, ``title`` text, ``style`` CSS added to the common style sheet."""
    return "\n".join([
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape_html(title)}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n<main>",
        PATTERNS,
        *body,
        "</main>\n</body>\n</html>\n",
    ])  # fmt: skip


def tiles(entries: Iterable[tuple[str, str, str]]) -> Iterable[str]:
    """Yield the HTML of figures in tiles; each entry is value, label and kind (good, bad or ""), as text."""
    yield '<div class="tiles">'
    yield from (
        f'<div class="tile {kind}"><b>{escape_html(value)}</b><span>{escape_html(label)}</span></div>'
        for value, label, kind in entries
    )
    yield "</div>"


def section(title: str, note: str, *content: str) -> Iterable[str]:
    """Yield the HTML of a section; ``title`` and ``note`` are text, ``content`` is HTML."""
    yield f"<section>\n<h2>{escape_html(title)}</h2>"
    if note:
        yield f'<p class="note">{escape_html(note)}</p>'
    yield from content
    yield "</section>"


def legend(states: Iterable[tuple[str, str]], strips: Iterable[tuple[str, str]]) -> str:
    """Return a drawing's legend as HTML; states and strips are (class, word), a state's class without its ``s-``."""
    boxes = "".join(
        f'<span><svg viewBox="0 0 26 13" width="26" height="13"><rect class="s-{state}" x="0.5" y="0.5" width="25" '
        f'height="12"/></svg>{word}</span>'
        for state, word in states
    )
    lines = "".join(
        f'<span><svg viewBox="0 0 26 13" width="26" height="13"><rect class="{kind}" y="3" width="26" '
        f'height="8"/></svg>{word}</span>'
        for kind, word in strips
    )
    return f'<p class="legend">{boxes}{lines}</p>'


def table(head: Sequence[str], kinds: Sequence[str], rows: Iterable[str]) -> str:
    """Return an HTML table; ``head`` is text, ``kinds`` are the CSS classes of its columns, ``rows`` are HTML."""
    cells = "".join(f'<th class="{kind}">{escape_html(name)}</th>' for name, kind in zip(head, kinds, strict=True))
    return (
        f'<div class="wide"><table>\n<thead><tr>{cells}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table></div>"
    )


def row(cells: Sequence[str], kinds: Sequence[str], kind: str) -> str:
    """Return an HTML table row; ``cells`` are text, ``kinds`` the cells' CSS classes, ``kind`` that of the row."""
    inside = "".join(f'<td class="{of}">{escape_html(cell)}</td>' for cell, of in zip(cells, kinds, strict=True))
    return f'<tr class="{kind}">{inside}</tr>'


def seconds(value: float | None) -> str:
    """Return a duration in seconds as text; a dash where the duration is None."""
    return "–" if value is None else f"{value:.1f} s"
