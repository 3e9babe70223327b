"""Complete words of the command line in a shell: ids of rules, topics of help.

An error completes nothing: a shell would print it into the line that the user types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completer(values: Callable[[click.Context], Iterable[tuple[str, str]]]) -> Completer:
    """Return a function that completes a word by pairs of value and help."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            offered = list(values(context))
        except Exception:  # noqa: BLE001 -- the shell shows nothing else while the user types
            return []
        folded = incomplete.lower()
        return [CompletionItem(value, help=help) for value, help in offered if value.lower().startswith(folded)]

    return complete


def _rules(_context: click.Context) -> Iterable[tuple[str, str]]:
    from activemq_fleet.validation import described_rules

    return ((name, rule.title) for name, rule in described_rules().items())


def _topics(context: click.Context) -> Iterable[tuple[str, str]]:
    from activemq_fleet.cli.help_pages import help_page_names

    group = context.find_root().command
    commands = group.list_commands(context) if isinstance(group, click.Group) else []
    return ((name, "") for name in sorted({*commands, *help_page_names()}))


complete_rules = _completer(_rules)
"""Completes the id of a rule."""
complete_topics = _completer(_topics)
"""Completes the name of a command or of a page of the documentation."""
