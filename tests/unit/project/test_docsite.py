"""The pages of the documentation site: scripts.docsite."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from activemq_fleet.lint import rules_of_scope
from activemq_fleet.validation import lint_and_inventory_rules_by_id
from scripts.docsite.command_pages import command_line_page
from scripts.docsite.page_links import rewrite_links
from scripts.docsite.rule_pages import rule_pages, rules_index

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = {
    PurePosixPath("docs/rules.md"): PurePosixPath("rules.md"),
    PurePosixPath("docs/status.md"): PurePosixPath("status.md"),
    PurePosixPath("examples/hub/README.md"): PurePosixPath("examples/hub.md"),
}


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("[Status](status.md#columns)", "[Status](status.md#columns)"),
        ("[L029](rules.md#l029)", "[L029](rules/L029.md)"),
        ("[rules](rules.md)", "[rules](rules.md)"),
        ("[a hub](../examples/hub/README.md)", "[a hub](examples/hub.md)"),
        ("[`library`](../plugins/plugin_utils/library.py)", "`library`"),
        ("[no page](no-such-page.md)", "[no page](no-such-page.md)"),
        ("[site](https://example.com) [below](#below)", "[site](https://example.com) [below](#below)"),
        ("```\n[x](../plugins/judge.py)\n```", "```\n[x](../plugins/judge.py)\n```"),
    ],
)
def test_link_between_documentation_pages_leads_to_page_of_site(text: str, rewritten: str) -> None:
    source, page = PurePosixPath("docs/page.md"), PurePosixPath("page.md")

    assert rewrite_links(text, source, page, PAGES) == rewritten


def test_link_of_example_page_leads_to_parent_directory_of_site() -> None:
    source, page = PurePosixPath("examples/hub/README.md"), PurePosixPath("examples/hub.md")

    assert rewrite_links("[s](../../docs/status.md)", source, page, PAGES) == "[s](../status.md)"


def test_every_rule_has_page_of_documentation_site() -> None:
    assert {page.stem for page in rule_pages()} == set(lint_and_inventory_rules_by_id())


def test_site_page_of_topology_error_has_severity_title_and_fix() -> None:
    page, rule = rule_pages()[PurePosixPath("rules/T016.md")], lint_and_inventory_rules_by_id()["T016"]

    assert page.startswith(f"# T016\n\n**{rule.title[:1].upper()}{rule.title[1:]}.** Warning.\n")
    assert f"\nFix: {rule.fix}.\n" in page


def test_index_of_rules_links_every_rule() -> None:
    index = rules_index()

    assert [rule.id for rule in rules_of_scope() if f"(rules/{rule.id}.md)" not in index] == []


def test_command_line_page_of_site_contains_subcommands_and_options() -> None:
    page = command_line_page()

    assert "### activemq-fleet lab kill" in page
    assert "--inventory" in page
