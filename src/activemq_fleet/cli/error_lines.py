"""Turn an exception into lines on stderr and an exit code; tracebacks only in debug mode."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

import click

from activemq_fleet import FleetError
from activemq_fleet.errors import OutputError
from activemq_fleet.install_hint import install_hint
from activemq_fleet.node.printable import escape_unprintable
from activemq_fleet.node.text_lines import split_lines

PROGRAM = "activemq-fleet"
DEBUG_VARIABLE = "ACTIVEMQ_FLEET_DEBUG"
_RUN_AGAIN = (
    f"run the command again with {DEBUG_VARIABLE}=1 in the environment to see which operation failed, and correct the "
    "cause"
)

# Packages of the extras. All other packages are always installed.
_LAB_PACKAGES = ("paho", "psutil")
_PIPELINE_PACKAGES = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "grpc", "grpc_status", "google", "venv_pack")

_INTERRUPTED = 130  # 128 + SIGINT, as in a shell
_BROKEN_PIPE = 141  # 128 + SIGPIPE: this code means neither success nor error findings


def _exit_code_and_lines(error: BaseException) -> tuple[int, list[str]]:
    """Return the exit code of an exception and the lines for stderr.

    Exit codes: a FleetError's own; 2 for wrong usage and for bugs; 130 when interrupted; 141 if the reader of the
    output closed the pipe.
    """
    match error:
        case FleetError():
            remedies = (text for pair in error.remedies.items() for text in (pair[0], f"  {pair[1]}"))
            return error.exit_code, [*map(_error_line, error.lines), *map(escape_unprintable, remedies)]
        case click.exceptions.NoArgsIsHelpError():
            return error.exit_code, split_lines(error.format_message())
        case click.ClickException():
            return error.exit_code, [_error_line(_usage_message(error))]
        case KeyboardInterrupt() | EOFError() | click.Abort():
            return _INTERRUPTED, []
        case BrokenPipeError():
            return _BROKEN_PIPE, []
        case OSError() if error.errno == errno.EPIPE:
            return _BROKEN_PIPE, []
        case OutputError():
            return 2, [_error_line(str(error))]
        case OSError() if error.strerror:
            if not isinstance(error.filename, str | bytes):
                return 2, [_error_line(f"the system refused an operation ({error.strerror}): {_RUN_AGAIN}")]
            path = os.fsdecode(error.filename)
            return 2, [
                _error_line(f"{path}: this path cannot be used ({error.strerror}): correct the path or its permissions")
            ]
        case ModuleNotFoundError() if (error.name or "").partition(".")[0] in _LAB_PACKAGES:
            return 2, [
                _error_line(f"the Python package {error.name} of the lab is not installed: {install_hint('lab')}")
            ]
        case ModuleNotFoundError() if (error.name or "").partition(".")[0] in _PIPELINE_PACKAGES:
            return 2, [
                _error_line(
                    f"the Python package {error.name} of this command is not installed: {install_hint('pipeline')}"
                )
            ]
    error_text = f"{type(error).__name__}: {error}"
    return 2, [
        _error_line(
            f"{error_text}. This is a bug in activemq-fleet: run the command again with {DEBUG_VARIABLE}=1 in the "
            "environment, and report the traceback"
        )
    ]


def open_closed_standard_streams() -> None:
    """Open ``/dev/null`` for each standard stream that the caller of the process has closed.

    Otherwise Python has no object for the stream, and the next file that the process opens gets its descriptor, so that
    the output of a started process would be written into this file.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # This is the lowest free descriptor.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 -- open until the process ends


def run_and_print_errors(command: Callable[[], int]) -> int:
    """Run the function of an ``activemq-fleet`` command, print its errors to stderr, and return the exit code."""
    _escape_unencodable_characters()
    try:
        try:
            code = command()
        except click.exceptions.Exit as end:
            code = end.exit_code
        # If the reader has closed the pipe, a flush at the end of the interpreter would print a traceback.
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 -- the command prints each exception as one line
        return _print_error(error)
    return code


def _print_error(error: BaseException) -> int:
    code, lines = _exit_code_and_lines(error)
    with suppress(OSError):  # The exit code is the same if stderr is a closed pipe, or a file on a full disk.
        if os.environ.get(DEBUG_VARIABLE) and code != _BROKEN_PIPE:
            traceback.print_exception(error)
        for line in lines:
            print(line, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # The interpreter flushes the buffer when it ends, which would raise the exception again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _usage_message(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{message} (see {context.command_path} --help)" if context else message


def _error_line(message: str) -> str:
    """Return an error message as one line without control characters."""
    return f"{PROGRAM}: error: {escape_unprintable(' '.join(message.split()))}"


def _escape_unencodable_characters() -> None:
    """Make stdout and stderr escape characters that the terminal's encoding lacks, instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
