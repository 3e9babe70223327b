"""Define ``activemq-fleet adopt``, which turns existing activemq.xml files into an inventory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from activemq_fleet import InputError
from activemq_fleet.atomic_files import paths_in, write_tree
from activemq_fleet.cli.activity import ACTIVITY
from activemq_fleet.cli.options import format_option, output_option
from activemq_fleet.cli.printing import command_line, counted, echo, shorten_list, warn
from activemq_fleet.naming import DEFAULT_PATTERN

if TYPE_CHECKING:
    from activemq_fleet.adopt import Adoption

_Key = tuple[str, str, str | None, str | None]
"""Path, direction, original and rendered value of a difference."""
_LONGEST = 400
_LONGEST_ADDITION = 100


@click.command("adopt")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@output_option(
    "INVENTORY",
    "Directory to write, atomically. An unchanged directory that adopt wrote is replaced.",
    click.Path(path_type=Path),
)
@click.option(
    "--release",
    "releases",
    metavar="[HOST=]X",
    multiple=True,
    help="Release of the files, for all or for one host. May be repeated. Files that render wrote name their release.",
)
@click.option(
    "--address",
    "addresses",
    metavar="HOST=ADDRESS",
    multiple=True,
    help="Address by which peers connect to a host (default: its name). May be repeated.",
)
@click.option(
    "--properties",
    metavar="[HOST=]FILE",
    multiple=True,
    help="File with lines NAME=VALUE: the values of ${NAME} in the files, for all or for one host. May be repeated.",
)
@click.option(
    "--shared-store",
    "shared",
    metavar="PAIR",
    multiple=True,
    help="Pair whose nodes share their kahaDB store, if no file shows it. May be repeated.",
)
@click.option("--naming-pattern", metavar="REGEX", default=DEFAULT_PATTERN, help="Set activemq_naming_pattern.")
@click.option("--naming-parity", type=click.Choice(["odd-even", "even-odd"]), help="Set activemq_naming_parity.")
@click.option(
    "--node", metavar="MARK", help="Set activemq_node for hosts whose names have no node: each becomes a single broker."
)
@format_option(help="Format of the list.")
def command(
    files: tuple[str, ...],
    output: Path,
    releases: tuple[str, ...],
    addresses: tuple[str, ...],
    properties: tuple[str, ...],
    shared: tuple[str, ...],
    naming_pattern: str,
    naming_parity: str | None,
    node: str | None,
    form: str,
) -> int:
    """Convert existing activemq.xml files to an inventory, and list the settings that it cannot express.

    FILE is HOST=FILE, a file whose path contains the host's name, or a directory: every activemq.xml
    below it. The list contains every difference between the files and those that the inventory
    renders. Passwords are not copied.
    """
    import json

    from activemq_fleet import adopt_files
    from activemq_fleet.cli.fleet_checks import schema_of

    check_inventory(output)
    with ACTIVITY.during("Reading the files"):
        adopted = adopt_files(
            files,
            releases=releases,
            addresses=addresses,
            properties=properties,
            shared_stores=shared,
            naming_pattern=naming_pattern,
            naming_parity=naming_parity,
            node=node,
            schema_of=schema_of,
            warn=warn,
        )
    write_tree(output, adopted.files, check_target=check_inventory)
    if form == "json":
        echo(json.dumps([asdict(difference) for difference in adopted.differences], indent=2))
        for line in (*_to_do(output, adopted), *_files_read(adopted), f"Next: {command_line('check', output)}"):
            echo(line, err=True)
    else:
        echo("\n".join(_as_text(output, adopted)))
    return 0


def check_inventory(directory: Path) -> None:
    """Raise InputError unless ``directory`` is absent, empty, or holds only files that ``adopt`` wrote."""
    from activemq_fleet.adopt import MARK, is_unchanged

    files = {}
    for path in sorted(paths_in(directory, below=True)):
        name = str(path.relative_to(directory))
        if path.is_file():
            files[name] = path.read_bytes()
        if path.is_symlink() or MARK.encode() not in files.get(name, MARK.encode())[:200]:
            raise InputError(
                f"{directory}: the directory contains {name}, which adopt did not write and would remove; choose "
                "another directory"
            )
    if files and not is_unchanged(files):
        raise InputError(f"{directory}: the directory was changed after adopt wrote it; choose another directory")


def _as_text(output: Path, adopted: Adoption) -> Iterator[str]:
    """Yield the lines of the report: first what the operator must act on, last what needs no action."""
    number = len(adopted.fleet.brokers)
    yield f"{output}: {counted(number, 'host')}, {counted(len(adopted.files), 'file')}"
    yield from _to_do(output, adopted)
    by_difference: dict[_Key, list[str]] = defaultdict(list)
    for difference in adopted.differences:
        key = difference.path, difference.direction, difference.original, difference.rendered
        by_difference[key].append(difference.host)
    changes = {key: hosts for key, hosts in by_difference.items() if key[1] != "rendered adds"}
    additions = {key: hosts for key, hosts in by_difference.items() if key not in changes}
    limits = dict(_replaced_limits(changes, additions))
    for limit, (_, replaced_by) in limits.items():
        del changes[limit]
        for addition in replaced_by:
            del additions[addition]
    if not by_difference:
        yield "It renders the same documents."
    elif changes or limits:
        number_of_places = counted(len(changes) + len(limits), "place")
        yield f"The rendered files differ from the original files in {number_of_places}:"
    for (path, *_), (text, _) in limits.items():
        yield f"\n{path}: {text}"
    for (path, direction, original, rendered), hosts in changes.items():
        yield f"\n{path}: {direction}"
        yield f"    hosts:    {shorten_list(hosts)}"
        if original is not None:
            yield f"    original: {_short(original)}"
        if rendered is not None:
            yield f"    rendered: {_short(rendered)}"
    if additions:
        yield "" if changes or limits else "The rendered files keep everything that the original files contain."
        yield from _additions_as_text(additions, number)
    yield from _files_read(adopted)
    yield f"Next: {command_line('check', output)}"


def _replaced_limits(
    changes: Mapping[_Key, list[str]], additions: Mapping[_Key, list[str]]
) -> Iterator[tuple[_Key, tuple[str, tuple[_Key, _Key]]]]:
    """Yield each limit that is written as a percentage of a total, the line for it, and the two additions."""
    by_path = {key[0]: key for key in additions}
    for key in changes:
        path, direction, original, _ = key
        element = path.removesuffix("/@limit")
        percent, total = (by_path.get(f"{element}/@{name}") for name in ("percentLimit", "total"))
        if direction != "rendered lacks" or element == path or percent is None or total is None:
            continue
        if changes[key] == additions[percent] == additions[total]:
            line = f"limit {original} becomes percentLimit {percent[3]} of total {total[3]} (C012)"
            yield key, (line, (percent, total))


def _additions_as_text(additions: Mapping[_Key, list[str]], number: int) -> Iterator[str]:
    """Yield the additions that change how a broker behaves, each with its effect, and a line with all others."""
    from activemq_fleet.adopt import effect_of_addition

    effects = {key: effect for key in additions if (effect := effect_of_addition(key[0], key[3] or ""))}
    if effects:
        yield f"{counted(len(effects), 'addition')} of the rendered files change how a broker behaves:"
    for key, effect in effects.items():
        path, _, _, rendered = key
        hosts = additions[key]
        of = f" ({shorten_list(hosts)})" if len(hosts) < number else ""
        yield f"    {path}{of}: {_short(rendered or '', _LONGEST_ADDITION)}: {effect}"
    others = [key[0].removeprefix("beans/") for key in additions if key not in effects]
    if others:
        yield f"{counted(len(others), 'other addition')}, with no known effect on clients: {', '.join(others)}"


def _to_do(output: Path, adopted: Adoption) -> Iterator[str]:
    for note in adopted.notes:
        yield f"note: {_printable(note)}"
    for label, what in adopted.secrets.items():
        yield f"secret: {output}/.secrets/{label}: the {what}; put it there, or set the variable with ansible-vault"


def _files_read(adopted: Adoption) -> Iterator[str]:
    for host, paths in adopted.files_read.items():
        yield f"read: {host}: {', '.join(map(_printable, paths))}"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def _short(text: str, longest: int = _LONGEST) -> str:
    flat = _printable(text)
    return flat if len(flat) <= longest else f"{flat[:longest]}…"
