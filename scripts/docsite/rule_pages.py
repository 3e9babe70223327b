"""One page per rule of `check`, with a stable address, and the index of all rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from activemq_fleet.lint import FAMILIES, rules
from scripts.rules_page import page_head, rule_section

_ROW = re.compile(r"^\| (T\d{3}) \| (.*?) \| (.*?) \| (.*?) \|$", re.MULTILINE)


def rule_pages(topology_errors: str) -> Mapping[PurePosixPath, str]:
    """Return the text of each page below rules/: of the lint rules, and of the rows of docs/topology-errors.md.

    Links in the texts are relative to docs/.
    """
    pages = {PurePosixPath("rules") / f"{rule.id}.md": "".join(rule_section(rule, level=1)) for rule in rules()}
    for number, message, why, fix in _ROW.findall(topology_errors):
        pages[PurePosixPath("rules") / f"{number}.md"] = (
            f"# {number}\n\n**{_capitalized(message)}.**\n\nWhy: {why}.\n\nFix: {fix}.\n\n"
            "See [Topology errors](topology-errors.md) for how to waive a finding of an inventory.\n"
        )
    return pages


def rules_index() -> str:
    """Return the page rules.md of the site: the tables of all families, each row linked to the page of its rule."""
    return "".join(_index())


def _index() -> Iterator[str]:
    yield page_head()
    for letter, subject in FAMILIES.items():
        family = [rule for rule in rules() if rule.id.startswith(letter)]
        if not family:
            continue
        yield f"\n## {letter}: {subject}\n\n| rule | severity | reports |\n|---|---|---|\n"
        for rule in family:
            title = rule.title.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_").replace("|", "\\|")
            yield f"| [{rule.id}](rules/{rule.id}.md) | {rule.severity} | {title} |\n"


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".")
