"""Rewrite the links of the collection's pages that lead to documentation, which its archive does not contain.

The library prints each page of the documentation, and the collection requires the library.
"""

from __future__ import annotations

import re
from collections.abc import Container
from pathlib import PurePosixPath

_LINK = re.compile(r"(?P<opening>\(?)\[(?P<label>[^\[\]]+)\]\((?P<target>[^()\s]+)\)(?P<closing>\)?)")
_PAGE = re.compile(r"docs/(?P<topic>[a-z-]+)\.md")


class DeadLinkError(Exception):
    """A link leads to a file that is neither in the archive nor a page of the documentation."""


def name_help_topics(text: str, page: str, files: Container[str]) -> str:
    """Return the Markdown ``text`` of an archived page, with the command that prints a page in place of a link to it.

    ``page`` is the path of the page, and ``files`` are the paths of all files of the archive.
    """

    def rewritten(match: re.Match[str]) -> str:
        target = match["target"].partition("#")[0]
        if not target or ":" in target or str(PurePosixPath(page).parent / target) in files:
            return match[0]
        topic = _PAGE.fullmatch(target)
        if topic is None:
            raise DeadLinkError(f"{page} links {target}, which the archive of the collection does not contain")
        command = f"`activemq-fleet help {topic['topic']}`"
        if match["opening"] and match["closing"]:
            return f"({match['label']}: {command})"
        return f"{match['opening']}{match['label']} ({command}){match['closing']}"

    return _LINK.sub(rewritten, text)
