"""Define ``activemq-fleet store``: what a store holds, and the messages that only an old generation of it holds."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from activemq_fleet import FleetError, InputError
from activemq_fleet.cli.activity import ACTIVITY
from activemq_fleet.cli.options import format_option, require_option
from activemq_fleet.cli.path_parameters import NonEmptyPath
from activemq_fleet.cli.printing import print_escaped
from activemq_fleet.node.printable import count_with_noun, escape_unprintable

if TYPE_CHECKING:
    from activemq_fleet.addresses import Address
    from activemq_fleet.node.config.probe_account import Login
    from activemq_fleet.node.fence.replay import MessageReplayConnection
    from activemq_fleet.node.fence.shared_store import SharedStore

_T = TypeVar("_T")
_store_argument = click.argument(
    "directory", metavar="STORE", type=NonEmptyPath(exists=True, file_okay=False, path_type=Path)
)
_format_option = format_option(help="Output format.")


class MessageReplayError(FleetError):
    """An error if messages from an old copy (generation) of a store cannot be sent to the pair again."""

    exit_code = 1


@click.group(short_help="Inspect a kahaDB store: contents, damage, and messages that only old copies of it hold.")
def store_command() -> None:
    """Inspect a kahaDB store on a machine that has mounted it: its messages, and its damage.

    STORE is the pair's activemq_store_directory. In a fenced store (activemq_fence), each takeover creates a new
    generation, a numbered copy of the store. A node that resumes after a freeze may still accept messages, which it
    writes to an old generation. The broker of the pair does not have these messages. See `activemq-fleet help fencing`.
    """


@store_command.command("inspect", short_help="Show the contents and the damage of a store.")
@_store_argument
@_format_option
def inspect_command(directory: Path, form: str) -> int:
    """Show the contents and the damage of a kahaDB store before a broker opens it. Nothing is written.

    In a fenced store (activemq_fence) the command reads the newest generation (copy). If you run the command as root,
    it reads the store with the rights of the store's owner.
    Exit codes: 0 no damage; 1 damage.
    """
    from activemq_fleet.cli.store_report import store_report_lines
    from activemq_fleet.node.fence.store_inspection import inspect_store_as_dict

    with ACTIVITY.spinner_with_text("Reading the store"):
        report = _run_as_owner(directory, lambda: inspect_store_as_dict(str(directory)))
    print_escaped(json.dumps(report, indent=2) if form == "json" else "\n".join(store_report_lines(report)))
    return 1 if report["is_damaged"] else 0


@store_command.command("behind", short_help="List the messages that only an old generation (copy) of the store holds.")
@_store_argument
@_format_option
def list_messages_left_behind_command(directory: Path, form: str) -> None:
    """List the messages that only an old generation (numbered copy) of a fenced store holds.

    For each message, the list shows the destination, the message id and, if an agent sent the message, the event id. If
    you run the command as root, it reads the store with the rights of the store's owner.
    """

    def list_messages() -> list[dict[str, Any]]:
        store = _open_fenced_store(directory)
        return [
            {"generation": number, **row}
            for number in store.generation_numbers_with_uncopied_messages()
            for row in store.read_uncopied_message_list(number)
        ]

    with ACTIVITY.spinner_with_text("Reading the store"):
        rows = _run_as_owner(directory, list_messages)
    if form == "json":
        print_escaped(json.dumps(rows, indent=2))
        return
    for row in rows:
        extra_columns = "".join(f"  {escape_unprintable(row[key])}" for key in ("event", "transaction") if key in row)
        print_escaped(
            f"generation {row['generation']}  {escape_unprintable(row['destination'])}  "
            f"{escape_unprintable(row['message'])}{extra_columns}"
        )
    if not rows:
        print_escaped(_no_action_text(directory))


@store_command.command("replay", short_help="Send the messages that `behind` lists to the pair again.")
@_store_argument
@click.option(
    "--to",
    "urls",
    metavar="HOST:PORT",
    required=True,
    multiple=True,
    help="Address of the OpenWire connector on one node of the pair that receives the messages: HOST:PORT, or "
    "ssl://HOST:PORT for TLS. Set this option once for each node.",
)
@click.option(
    "--username",
    default="",
    help="User name with which to log in to the pair. It must have write "
    "permission on the destinations of the messages.",
)
@click.option(
    "--password-file",
    type=NonEmptyPath(exists=True, dir_okay=False, path_type=Path),
    help="File with the password of --username. Default: prompt for the password.",
)
@click.option(
    "--ca-file",
    type=NonEmptyPath(exists=True, dir_okay=False, path_type=Path),
    help="PEM file with the CA certificates that verify the brokers' TLS certificates.",
)
def replay_and_remove_generations_command(
    directory: Path, urls: tuple[str, ...], username: str, password_file: Path | None, ca_file: Path | None
) -> None:
    """Send the messages that `store behind` lists to the pair again, then remove their generations (old copies).

    The command does not send messages of incomplete XA transactions, and keeps their generation. If a replay is
    interrupted, run the command again: it sends all messages of the generation again. The broker discards a message
    that is still in its queue. A message that was already consumed may be delivered twice. If you run the command as
    root, it reads and writes the store with the rights of the store's owner.
    """
    from activemq_fleet.node.config.probe_account import Login

    if not username:
        require_option("--username", "password_file")
    addresses = [_parse_broker_url(url) for url in urls]
    if not any(tls for _, tls in addresses):
        require_option("--to ssl://HOST:PORT", "ca_file")
    numbers = _run_as_owner(
        directory, lambda: _open_fenced_store(directory).generation_numbers_with_uncopied_messages()
    )
    if not numbers:
        print_escaped(_no_action_text(directory))
        return
    login = Login(username, _read_password(username, password_file))
    context = ssl.create_default_context(cafile=ca_file)
    for number in numbers:
        replay = partial(_replay_generation, directory, number, addresses, login, context)
        sent, in_doubt = _run_as_owner(directory, replay, MessageReplayError)
        print_escaped(
            f"{directory}: {count_with_noun(sent, 'message')} of generation (numbered copy) {number} of the store "
            "were sent to the pair again"
        )
        if in_doubt:
            print_escaped(
                f"{directory}: {count_with_noun(in_doubt, 'message')} of generation (numbered copy) {number} of the "
                "store were not sent, because their XA transactions are prepared but not completed. Commit or roll "
                "back these transactions in the transaction manager, and run the command again"
            )
    for sentence in _run_as_owner(directory, partial(_remove_generations, directory), MessageReplayError):
        print_escaped(sentence)


def _no_action_text(directory: Path) -> str:
    return (
        f"{directory}: no action is required, because the store's newest copy (generation) has all messages of its "
        "older copies"
    )


def _run_as_owner(directory: Path, function: Callable[[], _T], failure: type[FleetError] = InputError) -> _T:
    """Call a function that reads or writes a message store, and return its result.

    If the current process is root, the function is called in a child process as the owner of the store. Raises
    ``failure`` with the reason.
    """
    from activemq_fleet.node.errors import NodeError
    from activemq_fleet.node.fence.shared_store import FenceError
    from activemq_fleet.node.process.system_accounts import account_to_access_path_as, run_as

    def call() -> _T:
        try:
            return function()
        except FenceError as error:
            raise NodeError(str(error)) from None

    try:
        return run_as(account_to_access_path_as(str(directory / "fence" / "claims")), call)
    except NodeError as error:
        raise failure(f"{directory}: {error}") from None
    except OSError as error:
        reason = error.strerror or error
        if error.filename:
            raise failure(
                f"{error.filename}: this path in the store {directory} cannot be used ({reason}): check the mount of "
                "the store, or run the command as the account that owns the store"
            ) from None
        raise failure(
            f"{directory}: the store could not be read, or the connection to the pair failed ({reason}). Check the "
            "mount of the store and the addresses in --to, and run the command again"
        ) from None


def _replay_generation(
    directory: Path, number: int, addresses: Sequence[tuple[Address, bool]], login: Login, context: ssl.SSLContext
) -> tuple[int, int]:
    """Send the messages of an old store generation that the current one lacks.

    Return how many were sent, and how many wait for the decision of an XA transaction.
    """
    from activemq_fleet.node.fence.old_generations import uncopied_messages

    store = _open_fenced_store(directory)
    with _connect(addresses, login, context) as connection:
        messages = (message for message in uncopied_messages(store, number) if not message.in_doubt)
        sent = connection.resend_uncopied_messages(messages)
    in_doubt = sum(message.in_doubt for message in uncopied_messages(store, number))
    if not in_doubt:
        store.record_uncopied_messages_replayed(number, sent)
    return sent, in_doubt


def _remove_generations(directory: Path) -> list[str]:
    from activemq_fleet.node.fence.old_generations import remove_and_describe_old_store_copies

    return list(remove_and_describe_old_store_copies(_open_fenced_store(directory)))


def _open_fenced_store(directory: Path) -> SharedStore:
    from activemq_fleet.node.fence.shared_store import FenceError, SharedStore

    if not (directory / "fence" / "claims").is_dir():
        raise FenceError(
            "this directory is not the store of a pair with activemq_fence: guard, because it has no "
            "subdirectory fence/claims. Name the activemq_store_directory of such a pair"
        )
    return SharedStore(str(directory))


def _read_password(username: str, file: Path | None) -> str:
    if file:
        return file.read_text().rstrip("\n")
    return str(click.prompt("Password", hide_input=True, err=True)) if username else ""


def _parse_broker_url(url: str) -> tuple[Address, bool]:
    """Return the address that an URL of ``--to`` names, and whether it is reached over TLS."""
    from activemq_fleet.addresses import parse_address_and_tls

    try:
        return parse_address_and_tls(url)
    except ValueError as error:
        raise InputError(f"--to: {error}") from None


def _connect(
    addresses: Sequence[tuple[Address, bool]], login: Login, context: ssl.SSLContext
) -> MessageReplayConnection:
    """Return a connection to the active node: the first that accepts one."""
    from activemq_fleet.addresses import join_host_port
    from activemq_fleet.node.fence.replay import MessageReplayConnection
    from activemq_fleet.node.fence.shared_store import FenceError

    refusals: list[str] = []
    for address, tls in addresses:
        try:
            # This runs as the account that owns the store, which is the account of a broker on this machine.
            return MessageReplayConnection(address, login, context if tls else None, account=os.geteuid())
        except OSError as error:
            refusals.append(f"{join_host_port(*address)}: {error.strerror or error}")
    raise FenceError(
        f"no address in --to accepts a connection ({'; '.join(refusals)}): start the pair, or correct --to"
    )
