"""Rewrite the links of a page for its path in the documentation site."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

_ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_SECTION_OF_RULE = re.compile(r"^[a-z]\d{3}$")


def rewrite_links(
    text: str, source: PurePosixPath, page: PurePosixPath, pages: Mapping[PurePosixPath, PurePosixPath]
) -> str:
    """Return the Markdown ``text`` with each relative link pointing to a page of the site.

    ``source`` is the file that contains the text, relative to the repository, and ``page`` its path in the site.
    ``pages`` maps each file of the repository that the site contains to its path. A link to another file of
    the repository is replaced by its text, because the site does not contain the file. A link to a file that does not
    exist stays, so that Zensical reports it. Code blocks are unchanged.
    """
    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        parts += [_rewrite_prose(text[end : fence.start()], source, page, pages), fence[0]]
        end = fence.end()
    return "".join([*parts, _rewrite_prose(text[end:], source, page, pages)])


def _rewrite_prose(
    text: str, source: PurePosixPath, page: PurePosixPath, pages: Mapping[PurePosixPath, PurePosixPath]
) -> str:
    def rewritten(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, _, section = target.partition("#")
        repository_file = PurePosixPath(os.path.normpath(source.parent / path))
        destination = pages.get(repository_file)
        if destination is None:
            return label if (_ROOT / repository_file).exists() else match[0]
        if repository_file.name == "rules.md" and _SECTION_OF_RULE.match(section):
            destination, section = PurePosixPath("rules") / f"{section.upper()}.md", ""
        relative = os.path.relpath(destination, page.parent)
        return f"{mark}[{label}]({relative}{'#' if section else ''}{section})"

    return _LINK.sub(rewritten, text)
