"""The command ``activemq-agent``: run the agent, test its brokers, and send requests to the running agent.

Exit codes: 0 fine; 1 refused, or it did not work; 2 wrong usage or configuration. Errors are lines on stderr.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from activemq_agent import __version__
from activemq_agent.agent_errors import AgentError, ConfigError
from activemq_agent.printable import count_with_noun

if TYPE_CHECKING:
    from activemq_agent.client import Client
    from activemq_agent.config import Config

PROGRAM = "activemq-agent"
DEFAULT_CONFIG = Path("/etc/activemq-agent/agent.conf")
DEBUG_VARIABLE = "ACTIVEMQ_FLEET_DEBUG"
_DEPENDENCIES = ("paho", "prometheus_client", "structlog")
_INTERRUPTED, _BROKEN_PIPE = 130, 141


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config", "config_path", type=click.Path(), default=DEFAULT_CONFIG, show_default=True,
    envvar="ACTIVEMQ_AGENT_CONFIG", help="read the agent's configuration from this file",
)  # fmt: skip
@click.version_option(__version__, prog_name=PROGRAM)
@click.pass_context
def agent_command_group(context: click.Context, config_path: str | Path) -> None:
    """Publish and receive events at the active broker of a pair, and keep every accepted event on disk.

    Exit codes: 0 success; 1 rejected or failed; 2 wrong usage or configuration.
    """
    if not str(config_path):
        raise click.BadParameter(
            "the path is empty: write a path, or check the shell variable that contains it",
            context,
            param_hint="--config",
        )
    context.obj = Path(config_path)


@agent_command_group.command("run")
@click.option(
    "--drop-expired",
    is_flag=True,
    help="delete events that expire before a broker accepted them; by default, the agent keeps expired events, "
    "and the command requeue sends them again",
)
@click.pass_obj
def run_agent(path: Path, drop_expired: bool) -> int:
    """Run the agent until SIGTERM."""
    config = _read_config(path)
    if drop_expired:
        config = dataclasses.replace(config, drop_expired=True)
    from activemq_agent.service import Service

    return Service(config).run()


@agent_command_group.command("check")
@click.pass_obj
def show_config_and_test_brokers(path: Path) -> int:
    """Show the effective configuration, and test each broker; exit with 0 if at least one test passes, else 1."""
    config = _read_config(path)
    from activemq_agent.configuration_and_connection_check import (
        effective_config_lines,
        raise_for_too_short_dedupe_period,
        raise_for_unsafe_handlers,
        try_brokers,
    )

    for line in effective_config_lines(config):
        click.echo(line)
    raise_for_too_short_dedupe_period(config)
    raise_for_unsafe_handlers(config)
    click.echo("")
    passed = False
    for outcome in try_brokers(config):
        click.echo(outcome.connection_outcome_line)
        passed = passed or outcome.problem is None
    return 0 if passed else 1


@agent_command_group.command()
@click.argument("topic")
@click.argument("payload", default="-")
@click.option(
    "--id",
    "event_id",
    help="set the id of the event; the agent accepts each id only once; by default, it generates a new id",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    help="let the event expire if no broker has accepted the event after this number of seconds",
)
@click.pass_obj
def publish(path: Path, topic: str, payload: str, event_id: str | None, timeout: float | None) -> None:
    """Send an event to the running agent, and print its event id after the agent has stored it on disk.

    Without PAYLOAD, or with -, the payload is read from standard input. The agent must be running.
    """
    content = sys.stdin.buffer.read() if payload == "-" else os.fsencode(payload)
    with _connect_client(path) as client:
        click.echo(client.publish(topic, content, event_id=event_id, timeout=timeout))


@agent_command_group.command("status")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.pass_obj
def print_status(path: Path, form: str) -> None:
    """Print the status of the running agent: its connections, its store and its handlers."""
    with _connect_client(path) as client:
        state = client.status()
    if form == "json":
        click.echo(json.dumps(state, indent=2))
        return
    rows = list(_status_rows(state))
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        click.echo(f"{name:{width}}  {text}".rstrip())


@agent_command_group.command("requeue")
@click.argument("ids", nargs=-1)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="send every expired event again, but no unconfirmed events; repeat this until it reports 0 events",
)
@click.pass_obj
def requeue_expired(path: Path, ids: tuple[str, ...], everything: bool) -> None:
    """Send the expired or unconfirmed events with the given IDS again, or all expired events.

    The events keep their ids. The ids of unconfirmed events are in the records "kind":"unconfirmed" of the event
    journal (agent/*.jsonl in the directory state.directory).
    """
    if bool(ids) == everything:
        raise click.UsageError(
            "activemq-agent requeue: name the ids of expired or unconfirmed events as arguments, or use the option "
            "--all for all expired events, but not both"
        )
    with _connect_client(path) as client:
        count = client.requeue(None if everything else ids)
    click.echo(f"the agent will send {count_with_noun(count, 'event')} again")


def _read_config(path: Path) -> Config:
    from activemq_agent.config_parser import read_config

    return read_config(path)


def _connect_client(path: Path) -> Client:
    from activemq_agent.client import Client

    return Client(_read_config(path).socket)


def _status_rows(state: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in state.items():
        if isinstance(value, dict):
            yield from _status_rows(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _format_status_value(value)


def _format_status_value(value: Any) -> str:
    """Return a value of the agent's status as text; ``-`` for a missing value."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.3f}"
        case list():
            return ", ".join(map(str, value)) or "-"
    return "-" if value is None else str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line ``activemq-agent``, and return its exit code.

    ``arguments`` default to ``sys.argv[1:]``.
    """
    command_words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with agent_command_group.make_context(PROGRAM, command_words) as context:
            result = agent_command_group.invoke(context)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except BrokenPipeError:
        _discard_unwritable_output()
        return _BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 -- every error is printed as lines
        code, lines = _error_lines(error)
        with suppress(OSError):  # The exit code is the same if stderr is a closed pipe, or a file on a full disk.
            if os.environ.get(DEBUG_VARIABLE):
                traceback.print_exception(error)
            for line in lines:
                click.echo(f"{PROGRAM}: error: {_printable_line(line)}", err=True)
        _discard_unwritable_output()
        return code


def _discard_unwritable_output() -> None:
    """Discard output that cannot be written. The interpreter flushes the buffers when it ends, and would fail again."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None if the command began with a closed descriptor
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _error_lines(error: BaseException) -> tuple[int, list[str]]:
    """Return the exit code for an exception, and the lines that the command prints."""
    match error:
        case ConfigError():
            return error.exit_code, list(error.problems)
        case AgentError():
            return error.exit_code, [str(error)]
        case click.exceptions.NoArgsIsHelpError():
            with suppress(OSError):
                click.echo(error.format_message(), err=True)
            return error.exit_code, []
        case click.UsageError():
            where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
            return 2, [error.format_message().rstrip(".") + where]
        case click.ClickException():
            return error.exit_code, [error.format_message()]
        case KeyboardInterrupt() | click.Abort():
            return _INTERRUPTED, []
        case ModuleNotFoundError() if (error.name or "").partition(".")[0] in _DEPENDENCIES:
            return 2, [
                f"the Python package {error.name} is missing. Install the agent again, from the wheel of a release "
                "(`make package` builds it in a checkout): pip install dist/activemq_agent-*.whl"
            ]
        case OSError() if error.strerror:
            where = f"{error.filename}: " if error.filename else ""
            return 1, [f"{where}{error.strerror}"]
    return 1, [
        f"internal error {type(error).__name__}: {error}. This is a bug: run the command again with "
        f"{DEBUG_VARIABLE}=1, and report the traceback"
    ]


def _printable_line(text: str) -> str:
    """Return the text as one line, with every unprintable character (terminal control codes) escaped."""
    line = " ".join(text.split())
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
