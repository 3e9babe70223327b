"""Define ``activemq-fleet rule``, which explains a rule of ``check`` without a network or a documentation page."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from activemq_fleet import InputError
from activemq_fleet.cli.completion_values import complete_rules
from activemq_fleet.cli.options import format_option
from activemq_fleet.cli.printing import print_escaped
from activemq_fleet.cli.terminal import print_through_pager, wrap_text
from activemq_fleet.documentation_links import page_address_or_command, replace_paths_by_addresses_or_commands
from activemq_fleet.node.printable import terminal_safe_json
from activemq_fleet.similar_names import similar_names

if TYPE_CHECKING:
    from activemq_fleet.validation import DescribedRule

_COLORS = {"error": "red", "warning": "yellow", "info": "blue"}
_NARROWEST, _WIDEST = 80, 100
_FAMILIES_OF_INVENTORIES = {
    "T": "the inventory and its topology",
    "R": "the routes of messages",
    "X": "comments in files",
}


@click.command("rule")
@click.argument("ids", metavar="[ID]...", nargs=-1, shell_complete=complete_rules)
@format_option()
def rule_command(ids: tuple[str, ...], form: str) -> int:
    """Explain rules by ID, such as N003 or T002, or list all rules.

    For a family, such as N, list its rules. The explanation names the severity, the releases, the consequence of
    the mistake, its fix, the limits of the rule, the source, an example that the rule reports, and an example
    that it accepts.
    """
    from activemq_fleet.validation import lint_and_inventory_rules_by_id

    described = lint_and_inventory_rules_by_id()
    selected_ids = [name for text in ids for name in _matching_ids(text, list(described))]
    if form == "json":
        print_escaped(terminal_safe_json([_to_dict(described[name]) for name in selected_ids or described]))
    elif selected_ids and all(text.upper() in described for text in ids):
        print_through_pager("\n\n".join(_explanation(described[name]) for name in selected_ids))
    else:
        print_through_pager("\n".join(_list_lines([described[name] for name in selected_ids or described])))
    return 0


def _matching_ids(text: str, known: Sequence[str]) -> list[str]:
    """Return the ids that a word names: one rule, or all rules of a family. Raises InputError for another word."""
    name = text.strip().upper()
    if name in known:
        return [name]
    family = [rule for rule in known if name and rule.startswith(name)]
    if family:
        return family
    similar_ids = similar_names(name, known)
    # Among equally similar ids, the most likely one has the most characters in the same positions.
    suggestion = max(similar_ids, key=lambda rule: sum(map(str.__eq__, rule, name)), default=None)
    hint = f"did you mean {suggestion}? " if suggestion else ""
    raise InputError(f"no rule has the id {text}: {hint}`activemq-fleet rule` lists all rules")


def _to_dict(rule: DescribedRule) -> dict[str, Any]:
    from activemq_fleet.lint import Rule

    described = {name: getattr(rule, name) for name in ("id", "severity", "title", "why", "fix")}
    if isinstance(rule, Rule):
        described |= {"cannot_see": rule.limitations, "source": rule.evidence_from_docstring, "scope": rule.scope}
        described["releases"] = rule.releases_in_words
        described["fires"] = [{"release": example.release, "text": example.text} for example in rule.failing_examples]
        described["silent"] = [{"release": example.release, "text": example.text} for example in rule.passing_examples]
    return described


def _list_lines(rules: Sequence[DescribedRule]) -> Iterator[str]:
    from activemq_fleet.lint import FAMILIES

    families = FAMILIES | _FAMILIES_OF_INVENTORIES
    previous = ""
    for rule in rules:
        family = rule.id[0]
        if family != previous:
            yield from [""] if previous else []
            yield click.style(f"{family}: {families.get(family, '')}", bold=True)
            previous = family
        severity = click.style(f"{rule.severity:<7}", fg=_COLORS[rule.severity])
        yield f"{rule.id}  {severity}  {_as_plain_text(rule.title)}"


def _explanation(rule: DescribedRule) -> str:
    return "\n".join(_explanation_lines(rule))


def _explanation_lines(rule: DescribedRule) -> Iterator[str]:
    from activemq_fleet.lint import SCOPES, Rule

    yield f"{click.style(rule.id, bold=True)}  {click.style(rule.severity, fg=_COLORS[rule.severity])}"
    yield wrap_text(_as_plain_text(rule.title), _width())
    yield ""
    if not isinstance(rule, Rule):
        subject = "comments in one file (`check --file`)" if rule.id.startswith("X") else "an inventory (`check -i`)"
        parts = {"Checks": subject, "Why": rule.why, "Fix": rule.fix}
        yield from _part_lines(parts)
        if rule.id != "T000" and not rule.id.startswith("X"):
            yield ""
            yield f"All rules about inventories: {page_address_or_command('topology-errors')}"
        return
    yield from _part_lines({
        "Releases": rule.releases_in_words,
        "Checks": SCOPES[rule.scope],
        "Why": rule.why,
        "Fix": rule.fix,
        "Cannot see": rule.limitations,
        "Source": rule.evidence_from_docstring,
    })  # fmt: skip
    for kind, examples in (
        ("reports", rule.failing_examples[:1]),
        ("does not report", rule.passing_examples[:1]),
    ):
        for example in examples:
            file_note = "" if example.file == "activemq.xml" else f", in {example.file}"
            yield ""
            yield click.style(f"Example that {rule.id} {kind} on {example.release}{file_note}:", bold=True)
            yield textwrap.indent(example.text.rstrip(), "    ")


def _part_lines(parts: dict[str, str]) -> Iterator[str]:
    for name, text in parts.items():
        if text:
            label = f"{name}: "
            yield wrap_text(_as_plain_text(text), _width(), first=label, rest="    ").replace(
                label, click.style(label, bold=True), 1
            )


def _as_plain_text(text: str) -> str:
    """Return a text without Markdown links, in which files of a checkout are replaced by commands."""
    from activemq_fleet.cli.help_pages import replace_page_links_and_remove_pictures

    return replace_paths_by_addresses_or_commands(replace_page_links_and_remove_pictures(text))


def _width() -> int:
    return min(max(shutil.get_terminal_size((_NARROWEST, 24)).columns, _NARROWEST), _WIDEST)
