"""Complete words of the command line in a shell: ids of rules, topics of help.

An error completes nothing: a shell would print it into the line that the user types.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _make_completer(values: Callable[[click.Context], Iterable[tuple[str, str]]]) -> Completer:
    """Return a function that completes a word of a command line by pairs of value and help text."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            candidates = list(values(context))
        except Exception:  # noqa: BLE001 -- an error message would disturb the command line
            return []
        lower_prefix = incomplete.lower()
        return [
            CompletionItem(value, help=help) for value, help in candidates if value.lower().startswith(lower_prefix)
        ]

    return complete


def _rule_values(_context: click.Context) -> Iterable[tuple[str, str]]:
    from activemq_fleet.validation import lint_and_inventory_rules_by_id

    return ((name, rule.title) for name, rule in lint_and_inventory_rules_by_id().items())


def _topic_values(context: click.Context) -> Iterable[tuple[str, str]]:
    from activemq_fleet.cli.help_pages import help_page_names

    group = context.find_root().command
    commands = group.list_commands(context) if isinstance(group, click.Group) else []
    return ((name, "") for name in sorted({*commands, *help_page_names()}))


def _host_values(context: click.Context) -> Iterable[tuple[str, str]]:
    """Return the hosts of the inventory that ``-i`` names.

    Programs that generate inventories are not run, because they may take long.
    """
    from activemq_fleet.cli.options import InventoryOptions

    sources = InventoryOptions(tuple(context.params.get("sources") or ())).with_inventory_from_ansible_config().sources
    if not sources or any(map(_is_dynamic, sources)):
        return []
    from activemq_fleet._ansible import open_ansible_inventory

    with open_ansible_inventory(sources) as loaded:
        return [(host.name, "") for host in loaded.inventory.get_hosts()]


def _is_dynamic(source: str) -> bool:
    """Return whether an inventory source is a program, or a directory that holds one."""
    if not os.path.isdir(source):
        return os.path.isfile(source) and os.access(source, os.X_OK)
    with os.scandir(source) as entries:
        return any(entry.is_file() and os.access(entry, os.X_OK) for entry in entries)


def _release_values(_context: click.Context) -> Iterable[tuple[str, str]]:
    from activemq_fleet.releases import releases_available_in_maven

    return ((release.text, "") for release in releases_available_in_maven())


complete_rules = _make_completer(_rule_values)
"""Completes the id of a rule."""
complete_topics = _make_completer(_topic_values)
"""Completes the name of a command or of a page of the documentation."""
complete_hosts = _make_completer(_host_values)
"""Completes the name of a host of the inventory."""
complete_releases = _make_completer(_release_values)
"""Completes a release whose data are known."""


def complete_rule_list(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a comma-separated list of rule ids on the command line.

    The last id is completed.
    """
    before, comma, last = incomplete.rpartition(",")
    items = complete_rules(context, parameter, last)
    return [CompletionItem(f"{before}{comma}{item.value}", help=item.help) for item in items]
