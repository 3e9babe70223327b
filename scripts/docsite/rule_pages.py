"""One page per rule of `check`, with a stable address, and the index of all rules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from activemq_fleet.lint import rules_of_scope
from activemq_fleet.topology.inventory_rules import INPUT_RULE, inventory_rules
from scripts.rules_page import rule_section, rules_page


def rule_pages() -> Mapping[PurePosixPath, str]:
    """Return the text of each page below rules/: of the lint rules, and of the rules without a function.

    Links in the texts are relative to docs/.
    """
    pages = {
        PurePosixPath("rules") / f"{rule.id}.md": "".join(rule_section(rule, level=1)) for rule in rules_of_scope()
    }
    for rule in (INPUT_RULE, *inventory_rules()):
        place = "[The command line](command-line.md)" if rule.id[0] == "X" else "[Topology errors](topology-errors.md)"
        pages[PurePosixPath("rules") / f"{rule.id}.md"] = (
            f"# {rule.id}\n\n**{_capitalized(rule.title)}.** {rule.severity.capitalize()}.\n\n"
            f"Why: {rule.why}.\n\nFix: {rule.fix}.\n\nSee {place} for how to accept a finding.\n"
        )
    return pages


def rules_index() -> str:
    """Return the page rules.md of the site: the tables of all families, each row linked to the page of its rule."""
    return "".join(rules_page(lambda rule: f"rules/{rule.id}.md", with_sections=False))


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".")
