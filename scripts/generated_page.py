"""Write a page that is generated, or report whether it is up to date; simplify the Markdown of renderers."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
_CODE = re.compile(r"<code>((?:\\.|[^\\<`])*)</code>")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
# The renderers of antsibull escape each punctuation mark. These have no meaning within a line.
_PLAIN = re.compile(r"\\([,.'\"?!:;()=/%+-])|(?<=\w)\\([#_])(?=\w)")


def write_or_check(path: Path, page: str, source: str, arguments: list[str]) -> int:
    """Write a page and return 0; with --check, write nothing, and return 1 if the file has different content.

    ``source`` names the source of the page for the message.
    """
    if "--check" not in arguments:
        path.write_text(page, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == page:
        return 0
    print(f"{path.name} is out of date: it differs from {source}. Run `make rules`", file=sys.stderr)
    return 1


def simplify_markdown(page: str) -> str:
    """Return Markdown of antsibull with code spans in backticks, and without escapes that change nothing."""
    return _CODE.sub(_code_span, _PLAIN.sub(r"\1\2", page))


def _code_span(match: re.Match[str]) -> str:
    text = html.unescape(_ESCAPED.sub(r"\1", match[1]))
    # A vertical bar would end the cell of a table.
    return match[0] if "|" in text else f"`{text}`"
