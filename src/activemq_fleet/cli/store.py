"""Define ``activemq-fleet store``: what a store holds, and the messages that only an old generation of it holds."""

from __future__ import annotations

import json
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from activemq_fleet.cli.options import format_option
from activemq_fleet.cli.printing import echo
from activemq_fleet.errors import FleetError, InputError

if TYPE_CHECKING:
    from activemq_fleet.fence.replay import Replay
    from activemq_fleet.fence.shared_store import SharedStore
    from activemq_fleet.host.probe import Login

_store = click.argument("directory", metavar="STORE", type=click.Path(exists=True, file_okay=False, path_type=Path))
_format = format_option(help="How to print.")


class ReplayError(FleetError):
    """An error for uncopied messages that could not be sent to the pair again."""

    exit_code = 1


@click.group(short_help="What a store holds, what is damaged, and what only an old generation of it holds.")
def command() -> None:
    """Inspect a kahaDB store on a machine that has mounted it: messages, damage, uncopied messages.

    STORE is the pair's activemq_store_directory. In a fenced store a node that thawed before its guard may have
    acknowledged messages after the other node took over (docs/fencing.md): only an old generation holds them.
    """


@command.command("inspect", short_help="Tell what a store holds and what is damaged.")
@_store
@_format
def inspect_command(directory: Path, form: str) -> int:
    """Tell what a kahaDB store holds, and what in it is damaged, before a broker touches it. Nothing is written.

    Of a fenced store the generation in force is read. Exit 0: no damage was found; 1: there is some.
    """
    from activemq_fleet.cli.store_report import report_lines
    from activemq_fleet.fence.shared_store import FenceError
    from activemq_fleet.install.configuration_archive import InstallError
    from activemq_fleet.kahadb.inspection import inspect_directory

    try:
        report = inspect_directory(str(directory))
    except (InstallError, FenceError) as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise InputError(f"{error.filename or directory}: {error.strerror or error}") from None
    echo(json.dumps(report, indent=2) if form == "json" else "\n".join(report_lines(report)))
    return 1 if report["damaged_places"] or report["index_lacks_files"] else 0


@command.command("behind", short_help="List the messages.")
@_store
@_format
def behind_command(directory: Path, form: str) -> None:
    """List the uncopied messages: those that only an old generation of a fenced store holds.

    Of each its destination and message id, and the event id where an agent sent it."""
    rows = [
        {"generation": number, **row}
        for number in _open(directory).kept_generations()
        for row in _named(directory, number)
    ]
    if form == "json":
        echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        more = "".join(f"  {row[key]}" for key in ("event", "transaction") if key in row)
        echo(f"generation {row['generation']}  {row['destination']}  {row['message']}{more}")
    if not rows:
        echo("no message is known that only an old generation holds")


@command.command("replay", short_help="Send the messages to the pair.")
@_store
@click.option(
    "--to",
    "urls",
    metavar="HOST:PORT",
    required=True,
    multiple=True,
    help="An OpenWire connector of the pair, once for each node; ssl://HOST:PORT where it speaks TLS.",
)
@click.option("--username", default="", help="An account that may write to the messages' destinations.")
@click.option(
    "--password-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Without it, it is asked for."
)
@click.option(
    "--ca-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Whose certificates are trusted."
)
def replay_command(
    directory: Path, urls: tuple[str, ...], username: str, password_file: Path | None, ca_file: Path | None
) -> None:
    """Send the uncopied messages that ``store behind`` lists to the pair again, then remove their generations.

    Messages of XA transactions that nobody has decided are not sent, and their generation stays.
    A replay that broke off is repeated from its beginning: a message that is still in its queue is not taken twice.
    """
    from activemq_fleet.fence.old_generations import remove_old_generations, uncopied_messages
    from activemq_fleet.fence.shared_store import FenceError
    from activemq_fleet.host.probe import Login

    store = _open(directory)
    numbers = store.kept_generations()
    if not numbers:
        echo("no message is known that only an old generation holds")
        return
    password = _password(username, password_file)
    try:
        with _connect(urls, Login(username, password), ca_file) as connection:
            for number in numbers:
                sent = connection.send(message for message in uncopied_messages(store, number) if not message.in_doubt)
                in_doubt = sum(message.in_doubt for message in uncopied_messages(store, number))
                echo(f"generation {number}: {sent} messages were sent")
                if in_doubt:
                    echo(f"generation {number} is kept: {in_doubt} messages wait for the decision of an XA transaction")
                else:
                    store.note_replay(number, sent)
        for sentence in remove_old_generations(store):
            echo(sentence)
    except (FenceError, OSError) as error:
        raise ReplayError(f"{directory}: {error}") from None


def _open(directory: Path) -> SharedStore:
    from activemq_fleet.fence.shared_store import SharedStore

    if not (directory / "fence" / "claims").is_dir():
        raise InputError(f"{directory} is no fenced store: name the pair's activemq_store_directory")
    return SharedStore(str(directory))


def _named(directory: Path, number: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((directory / "fence" / "behind" / str(number)).read_bytes())
    return rows


def _password(username: str, file: Path | None) -> str:
    if file:
        return file.read_text().rstrip("\n")
    return str(click.prompt("Password", hide_input=True, err=True)) if username else ""


def _connect(urls: Sequence[str], login: Login, ca_file: Path | None) -> Replay:
    """Return a connection to the node that serves: the first that takes one."""
    from activemq_fleet.addresses import parse_url
    from activemq_fleet.fence.replay import Replay

    refusals: list[str] = []
    for url in urls:
        try:
            address, tls = parse_url(url)
            return Replay(address, login, ssl.create_default_context(cafile=ca_file) if tls else None)
        except ValueError as error:
            raise InputError(f"--to: {error}") from None
        except OSError as error:
            refusals.append(f"{url}: {error.strerror or error}")
    raise ReplayError(f"no node takes the messages: {'; '.join(refusals)}")
