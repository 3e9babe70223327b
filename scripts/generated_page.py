"""Writes a page of docs/ that is generated, or says whether it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def write_or_check(path: Path, page: str, source: str, arguments: list[str]) -> int:
    """Write a page of docs/ and return 0; with --check return 1 when the file there is another one.

    ``source`` is what the page is made of, for the message.
    """
    if "--check" not in arguments:
        path.write_text(page, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == page:
        return 0
    print(f"{path.name} is not what {source}: run `make rules`", file=sys.stderr)
    return 1
