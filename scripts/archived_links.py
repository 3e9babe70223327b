"""Rewrite the links of the collection's pages that lead to documentation, which its archive does not contain.

The library prints each page of the documentation, and the collection requires the library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
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
    return _rewrite_links(text, _LINK, lambda target: _help_topic(target, page, files), ": ", "`")


def name_help_topics_in_changelog(text: str, page: str, files: Container[str]) -> str:
    """Return the YAML ``text`` of changelogs/changelog.yaml, with commands in place of links in its reStructuredText.

    Links are relative to the root of the collection, where CHANGELOG.md is. The other parameters are those of
    ``name_help_topics``. The result is the same YAML structure: a command contains no character that YAML interprets.
    """
    return _rewrite_links(text, _RST_LINK, lambda target: _help_topic(target, page, files), ", ", "``")


def _rewrite_links(text: str, link: re.Pattern[str], topic_of: Callable[[str], str], separator: str, quote: str) -> str:
    """Return a text with the command that prints a page in place of each link to it.

    ``topic_of`` returns the page that a target leads to, or an empty text. ``separator`` precedes the command where the
    link is alone in parentheses, and ``quote`` encloses the command.
    """

    def rewritten(match: re.Match[str]) -> str:
        topic = topic_of(match["target"])
        if not topic:
            return match[0]
        command = f"{quote}activemq-fleet help {topic}{quote}"
        if match["opening"] and match["closing"]:
            return f"({match['label']}{separator}{command})"
        return f"{match['opening']}{match['label']} ({command}){match['closing']}"

    return link.sub(rewritten, text)


def _help_topic(link: str, page: str, files: Container[str]) -> str:
    """Return the page of the documentation that a link leads to; "" for a link that works in the archive.

    Raises DeadLinkError for any other link.
    """
    target = link.partition("#")[0]
    if not target or ":" in target or str(PurePosixPath(page).parent / target) in files:
        return ""
    topic = _PAGE.fullmatch(target)
    if topic is None:
        raise DeadLinkError(
            f"{page} has a link to {target}, which the archive of the collection does not contain: remove the link"
        )
    return topic["topic"]
