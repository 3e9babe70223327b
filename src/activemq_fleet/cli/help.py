"""Define ``activemq-fleet help``, which prints the usage of a command or a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from activemq_fleet import InputError
from activemq_fleet.cli.completion_values import complete_topics
from activemq_fleet.cli.terminal import colored_text_of_rich_object, is_terminal, print_through_pager
from activemq_fleet.node.printable import align_columns
from activemq_fleet.similar_names import most_similar_name

_PAGES_OF_PLAYBOOKS: dict[str, tuple[str, str]] = {
    "restart": ("operations", ""),
    "switchover": ("operations", ""),
    "upgrade": ("operations", "Upgrade"),
    "rollback": ("operations", "Roll back a release"),
    "downgrade": ("operations", "Roll back a release"),
    "site": ("first-pair", ""),
    "unfence": ("fencing", "Change the fence"),
}
"""The page and section about each playbook and each operation that has no page of the same name."""


@click.command("help")
@click.argument("topic", metavar="[TOPIC|COMMAND] [SECTION|SUBCOMMAND]", nargs=-1, shell_complete=complete_topics)
@click.pass_context
def help_command(context: click.Context, topic: tuple[str, ...]) -> int:
    """Print the usage and the documentation page of COMMAND, or the documentation page of TOPIC.

    Without an argument, the command lists all commands and topics. SECTION is a heading of the page, or the first cell
    of a row of its tables: `help alerts ActiveMQBrokerHung`, `help status frozen`. For the name of a playbook, such as
    `help upgrade`, the command prints the section about this playbook.
    """
    from activemq_fleet.cli.help_pages import help_page_names, read_help_page, replace_page_links_and_remove_pictures

    root = context.find_root()
    if not topic:
        print_through_pager("\n".join([root.get_help(), "", *_topic_lines()]))
        return 0
    name, *section = topic
    usage = _usage_of(root, topic)
    if usage is None and name in _PAGES_OF_PLAYBOOKS:
        name, heading = _PAGES_OF_PLAYBOOKS[name]
        section = section or [heading] if heading else section
    if name not in help_page_names():
        if usage is None and name in _command_names(root):
            raise InputError(_unknown_subcommand(root, name, section))
        if usage is None:
            raise InputError(_unknown_topic(name, [*_command_names(root), *help_page_names(), *_PAGES_OF_PLAYBOOKS]))
        print_through_pager(usage)
        return 0
    page = read_help_page(name)
    text: str | None = page.text
    if section:
        text = page.find_section(" ".join(section))
        if text is None and usage is None:
            names = page.section_names()
            raise InputError(f"the page {name} has no section {' '.join(section)}: {_section_hint(section, names)}")
    parts = [usage] if usage else []
    parts += [_format_page(replace_page_links_and_remove_pictures(text))] if text else []
    print_through_pager("\n\n".join(parts))
    return 0


def _usage_of(root: click.Context, words: Sequence[str]) -> str | None:
    """Return the usage of a command and subcommand, or None where the words name no command."""
    context = root
    for word in words:
        group = context.command
        command = group.get_command(context, word) if isinstance(group, click.Group) else None
        if command is None:
            return None
        context = click.Context(command, info_name=word, parent=context)
    return context.get_help()


def _command_names(root: click.Context) -> list[str]:
    group = root.command
    return group.list_commands(root) if isinstance(group, click.Group) else []


def _unknown_subcommand(root: click.Context, name: str, words: Sequence[str]) -> str:
    group = root.command
    command = group.get_command(root, name) if isinstance(group, click.Group) else None
    if isinstance(command, click.Group):
        return f"the command {name} has no subcommand {' '.join(words)}: `activemq-fleet help {name}` lists them"
    return (
        f"the command `{name}` has no subcommands: `activemq-fleet help {name}` shows its arguments. To run it, write "
        f"`activemq-fleet {' '.join([name, *words])}`"
    )


def _unknown_topic(name: str, known: Sequence[str]) -> str:
    suggestion = most_similar_name(name, known)
    hint = f"did you mean {suggestion}? " if suggestion else ""
    return f"no command or topic has the name {name}: {hint}`activemq-fleet help` lists all commands and topics"


def _section_hint(section: Sequence[str], names: Sequence[str]) -> str:
    suggestion = most_similar_name(" ".join(section), names)
    return f"did you mean {suggestion!r}?" if suggestion else f"its sections are {', '.join(names)}"


def _topic_lines() -> Iterator[str]:
    from activemq_fleet.cli.help_pages import help_page_names, read_help_page

    yield "Topics, for `activemq-fleet help TOPIC`:"
    yield from (
        f"  {line}" for line in align_columns([(name, read_help_page(name).title) for name in help_page_names()])
    )


def _format_page(markdown: str) -> str:
    """Return a page for a terminal; elsewhere its Markdown, for a reader or another program."""
    if not is_terminal():
        return markdown
    from rich.markdown import Markdown

    return colored_text_of_rich_object(Markdown(markdown, hyperlinks=False))
