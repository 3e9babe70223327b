"""Name pages of the documentation in messages, so that a reader of an installed program can open them."""

from __future__ import annotations

import re

SITE = ""
"""The address of the published documentation, without a slash at its end; "" while there is none."""

_PAGE_FILE = re.compile(r"\bdocs/([a-z-]+)\.md(?:#[a-z0-9-]+)?")


def page_address_or_command(page: str, section: str = "") -> str:
    """Return the web address of a documentation page such as ``alerts``, or the command that prints the page.

    ``section`` is the heading of a section of the page.
    """
    if SITE:
        return f"{SITE}/{page}.html{f'#{section.lower()}' if section else ''}"
    return f"activemq-fleet help {page}{f' {section}' if section else ''}"


def rule_address(rule: str) -> str | None:
    """Return the web address of a lint rule's description in the documentation.

    None is returned while no documentation is published.
    """
    return f"{SITE}/rules/{rule}.html" if SITE else None


def rule_address_or_command(rule: str) -> str:
    """Return the web address of a lint rule's description, or the command that prints the description."""
    return rule_address(rule) or f"activemq-fleet rule {rule}"


def replace_paths_by_addresses_or_commands(text: str) -> str:
    """Return a text in which each path ``docs/PAGE.md`` is replaced by the page's web address or a command.

    It is the command that prints the page, while no documentation is published.
    """
    return _PAGE_FILE.sub(lambda match: f"`{page_address_or_command(match[1])}`", text)
