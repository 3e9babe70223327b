"""Defines the event that a handler gets; finds and runs the executables ``handlers.d/EVENT`` that handle events.

Executables that other users could write are rejected.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import re
import signal
import stat
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from activemq_agent.agent_errors import AgentError

MAX_LINKS = 40
STDERR = 2
"""The file descriptor of the agent's standard error, to which executables write all their output."""
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL for a handler that takes too long."""

_PROGRAM_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_AGENT_VARIABLES = re.compile(r"NOTIFY_SOCKET|WATCHDOG_.*|LISTEN_.*|CREDENTIALS_DIRECTORY|MAINPID|INVOCATION_ID")


@dataclass(frozen=True, slots=True)
class HandlerEvent:
    """An event as handlers get it: topic, payload, attempt (from 1) and ids.

    It is the argument of a Python handler, and, as JSON, the input of an executable handler.

    ``event_id`` is None for a message that came without an id; ``rx_id``, the agent's own id of the message, is never
    None. ``statements`` holds what ``execute`` added.
    """

    event_id: str | None
    rx_id: str
    topic: str
    payload: bytes
    attempt: int
    statements: list[tuple[str, Sequence[Any]]] = field(default_factory=list)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Queue an SQL statement, to be executed in the transaction that will record this event as handled.

        The transaction is one of the agent's store, and begins after the last handler of the event has succeeded: the
        statement takes effect together with the record, or not at all. Tables of handlers begin with ``x_``.
        """
        self.statements.append((sql, values))


def event_name(topic: str) -> str:
    """Return the name of an event: the last segment of its topic."""
    return topic.rpartition("/")[2]


def find_event_program(directory: Path | None, event_name: str) -> Path | None:
    """Return the executable in a directory that handles the events with a name, or None if the directory has none.

    The executable has the name of the event. Hidden files are no handlers. Raises AgentError for a file that exists and
    must not be run, and if the agent cannot find out whether it exists: the event must not count as handled.
    """
    if directory is None or not event_name or event_name.startswith("."):
        return None
    path = directory / event_name
    if not _is_file_present(path):
        return None
    if not _PROGRAM_NAME.fullmatch(event_name):
        raise AgentError(
            f"the agent does not run the handler {event_name!r} in the directory {directory}, because its name is not "
            "supported: rename it, and the events that it handles, with at most 128 of the characters A-Z a-z 0-9 _ . -"
        )
    program = resolve_path_not_replaceable_by_others(path)
    if not stat.S_ISREG(os.stat(program).st_mode):
        raise AgentError(
            f"the handler {path} is not a regular file, so the agent cannot execute it: move {event_name} out of the "
            f"directory {directory}"
        )
    if not os.access(program, os.X_OK):
        raise AgentError(f"the handler {path} is not executable for the agent's user: run chmod +x {path}")
    return program


def _is_file_present(path: Path) -> bool:
    """Return whether a directory of handlers has a file; raise AgentError if the directory cannot be read."""
    try:
        path.lstat()
    except ValueError:
        return False  # no file has such a name, for example one with a null character
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):
            raise _unreadable_directory_error(path.parent, error) from error
        raise_if_no_directory_of_handlers(path.parent)
        return False
    return True


def raise_if_no_directory_of_handlers(directory: Path) -> None:
    """Raise AgentError if a path is not a directory in which the agent can access its executable message handlers."""
    try:
        os.stat(f"{directory}/.")  # fails for a file, and without the permission x
    except OSError as error:
        raise _unreadable_directory_error(directory, error) from error


def _unreadable_directory_error(directory: Path, error: OSError) -> AgentError:
    return AgentError(
        f"the agent cannot find handlers in the directory {directory} ({error.strerror}): create or mount this "
        "directory, set the permission x for the agent's user on it and on the directories above it, or correct the "
        "key handlers of agent.conf"
    )


def resolve_path_not_replaceable_by_others(path: Path) -> Path:
    """Raise AgentError if users other than root and the agent's could replace a file or directory.

    Returns the resolved path. Every directory and link on the way, from ``/`` on, must belong to root or the agent's
    user and be writable by its owner alone; a sticky directory such as ``/tmp`` is refused. The error contains the
    remedy.
    """
    current_path, remaining_parts, links = Path("/"), list(reversed(path.absolute().parts[1:])), 0
    try:
        _raise_if_writable_by_others(current_path, current_path.lstat())
        while remaining_parts:
            name = remaining_parts.pop()
            current_path = current_path.parent if name == ".." else current_path / name
            status = current_path.lstat()
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if status.st_uid not in (0, os.geteuid()):
                    raise AgentError(
                        f"the symbolic link {current_path} in the path of a handler belongs to neither root nor the "
                        "agent's user, so another user could replace the handler: replace it with a link "
                        "that belongs to root"
                    )
                if links > MAX_LINKS:
                    raise AgentError(
                        f"the path {path} of a handler leads through more than {MAX_LINKS} symbolic links: remove "
                        f"the loop of links at {current_path}"
                    )
                target = current_path.readlink()
                remaining_parts += reversed(target.parts[target.is_absolute() :])
                current_path = Path("/") if target.is_absolute() else current_path.parent
            else:
                _raise_if_writable_by_others(current_path, status)
    except OSError as error:
        raise AgentError(
            f"the agent cannot check {current_path}, which is part of the path of a handler ({error.strerror}): set "
            "the permission x for the agent's user on the directories above it, or correct the key handlers "
            "of agent.conf"
        ) from error
    return current_path


def _raise_if_writable_by_others(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise AgentError(
            f"{path} is part of the path of a handler, but belongs to neither root nor the agent's user, so another "
            f"user could replace the handler: run chown root {path}"
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise AgentError(
            f"{path} is part of the path of a handler, but other users can write to it and replace the handler: run "
            f"chmod go-w {path}, or move the handlers to a different directory"
        )


def handler_safety_problems(directory: Path | None) -> list[str]:
    """Return the problems that make executable handlers in a directory unsafe, one line each.

    A handler, or a directory of handlers, is named with the reason. The list is empty if all executables may be run, or
    ``directory`` is None.
    """
    if directory is None:
        return []
    try:
        names = sorted(os.listdir(resolve_path_not_replaceable_by_others(directory)))
    except AgentError as error:
        return [str(error)]
    except OSError as error:
        return [f"{directory}: {error.strerror}"]
    problems = []
    for name in names:
        if not (directory / name).is_dir():
            try:
                find_event_program(directory, name)
            except AgentError as error:
                problems.append(str(error))
    return problems


class ProgramRunner:
    """A runner of the executables that handle an agent's messages.

    One program runs at a time; ``kill`` ends it from another thread.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._killed = False

    def run_handler_program(self, path: Path, timeout: float, event: HandlerEvent) -> None:
        """Run an executable that handles messages, with an event as its input; raise AgentError if it fails.

        Returns nothing after its successful end. It fails if it cannot be started, ends with an error, or does not end
        within ``timeout`` seconds and is killed. The event is JSON on its standard input. Its output goes to the
        agent's standard error.
        """
        try:
            with self._lock:
                if self._killed:
                    raise AgentError(
                        f"the handler {path.name} was not started, because the agent is stopping. The agent runs "
                        "this handler for the event after the agent's next start"
                    )
                self._process = process = subprocess.Popen(
                    [path], stdin=subprocess.PIPE, stdout=STDERR, cwd="/",
                    env=_handler_environment(event), start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            raise AgentError(
                f"the handler {path} cannot be run ({error.strerror}): check that its first line names an "
                "installed interpreter, and that its mode permits execution"
            ) from error
        try:
            process.communicate(_event_to_json(event), timeout=timeout)
        except subprocess.TimeoutExpired:
            _terminate_group(process)
            raise AgentError(
                f"the handler {path.name} did not end in {timeout:g} s and was killed: check its output in the agent's "
                "log, or increase handler.timeout in agent.conf"
            ) from None
        finally:
            with self._lock:
                self._process = None
        if process.returncode:
            cause = f"signal {-process.returncode}" if process.returncode < 0 else f"code {process.returncode}"
            raise AgentError(f"the handler {path.name} ended with {cause}: check its output in the agent's log")

    def kill(self) -> None:
        """Kill the running executable that handles a message.

        Its child processes are killed, too. Later calls of ``run`` raise AgentError.
        """
        with self._lock:
            self._killed = True
            if self._process is not None:
                _signal_group(self._process, signal.SIGKILL)


def _event_to_json(event: HandlerEvent) -> bytes:
    """Convert an event to JSON, the input of an executable handler.

    The JSON object is on one line.
    """
    content: dict[str, object] = {
        "event_id": event.event_id, "rx_id": event.rx_id, "topic": event.topic, "attempt": event.attempt,
    }  # fmt: skip
    try:
        content["payload"] = event.payload.decode()
    except UnicodeDecodeError:
        content["payload_base64"] = base64.b64encode(event.payload).decode()
    return json.dumps(content).encode() + b"\n"


def _handler_environment(event: HandlerEvent) -> dict[str, str]:
    """Return the environment of a handler: the agent's, without systemd's variables, plus the event's ids and topic."""
    inherited = {name: value for name, value in os.environ.items() if not _AGENT_VARIABLES.fullmatch(name)}
    event_variables = {
        "ATTEMPT": str(event.attempt),
        "EVENT_ID": event.event_id or "",
        "RX_ID": event.rx_id,
        "TOPIC": event.topic,
    }
    return inherited | {name: value for name, value in event_variables.items() if "\0" not in value}


def _terminate_group(process: subprocess.Popen[bytes]) -> None:
    _signal_group(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    _signal_group(process, signal.SIGKILL)  # and all processes that it has started
    process.wait()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
