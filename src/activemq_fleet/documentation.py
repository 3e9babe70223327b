"""Name pages of the documentation in messages, so that a reader of an installed program can open them."""

from __future__ import annotations

import re

SITE = ""
"""The address of the published documentation, without a slash at its end; "" while there is none."""

_PAGE_FILE = re.compile(r"\bdocs/([a-z-]+)\.md(?:#[a-z0-9-]+)?")


def page_reference(page: str, section: str = "") -> str:
    """Return what a message names for a page such as ``alerts``: its address, or the command that prints it.

    ``section`` is the heading of a section of the page.
    """
    if SITE:
        return f"{SITE}/{page}.html{f'#{section.lower()}' if section else ''}"
    return f"activemq-fleet help {page}{f' {section}' if section else ''}"


def rule_address(rule: str) -> str | None:
    """Return the address of a rule's description, or None while no documentation is published."""
    return f"{SITE}/rules/{rule}.html" if SITE else None


def rule_reference(rule: str) -> str:
    """Return what a message names for a rule: its address, or the command that prints its description."""
    return rule_address(rule) or f"activemq-fleet rule {rule}"


def with_page_references(text: str) -> str:
    """Return a text in which each file ``docs/PAGE.md`` of a checkout is replaced by the reference of its page."""
    return _PAGE_FILE.sub(lambda match: f"`{page_reference(match[1])}`", text)
