"""Rewrite the links of the collection's pages that lead to documentation, which its archive does not contain.

The library prints each page of the documentation, and the collection requires the library.
"""

from __future__ import annotations

import re
from collections.abc import Container
from pathlib import PurePosixPath

_LINK = re.compile(r"(?P<opening>\(?)\[(?P<label>[^\[\]]+)\]\((?P<target>[^()\s]+)\)(?P<closing>\)?)")
_RST_LINK = re.compile(r"(?P<opening>\(?)`(?P<label>[^`<>]+?)\s+<(?P<target>[^<>\s]+)>`__(?P<closing>\)?)")
_PAGE = re.compile(r"docs/(?P<topic>[a-z-]+)\.md")


class DeadLinkError(Exception):
    """A link leads to a file that is neither in the archive nor a page of the documentation."""


def name_help_topics(text: str, page: str, files: Container[str]) -> str:
    """Return the Markdown ``text`` of an archived page, with the command that prints a page in place of a link to it.

    ``page`` is the path of the page, and ``files`` are the paths of all files of the archive.
    """

    def rewritten(match: re.Match[str]) -> str:
        topic = _help_topic(match["target"], page, files)
        if not topic:
            return match[0]
        command = f"`activemq-fleet help {topic}`"
        if match["opening"] and match["closing"]:
            return f"({match['label']}: {command})"
        return f"{match['opening']}{match['label']} ({command}){match['closing']}"

    return _LINK.sub(rewritten, text)


def name_help_topics_in_changelog(text: str, page: str, files: Container[str]) -> str:
    """Return the YAML ``text`` of changelogs/changelog.yaml, with commands in place of links in its reStructuredText.

    Links are relative to the root of the collection, where CHANGELOG.md is. The other parameters are those of
    ``name_help_topics``. The result is the same YAML structure: a command contains no character that YAML interprets.
    """

    def rewritten(match: re.Match[str]) -> str:
        topic = _help_topic(match["target"], page, files)
        if not topic:
            return match[0]
        command = f"``activemq-fleet help {topic}``"
        if match["opening"] and match["closing"]:
            return f"({match['label']}, {command})"
        return f"{match['opening']}{match['label']} ({command}){match['closing']}"

    return _RST_LINK.sub(rewritten, text)


def _help_topic(link: str, page: str, files: Container[str]) -> str:
    """Return the page of the documentation that a link leads to; "" for a link that works in the archive.

    Raises DeadLinkError for any other link.
    """
    target = link.partition("#")[0]
    if not target or ":" in target or str(PurePosixPath(page).parent / target) in files:
        return ""
    topic = _PAGE.fullmatch(target)
    if topic is None:
        raise DeadLinkError(f"{page} links {target}, which the archive of the collection does not contain")
    return topic["topic"]
