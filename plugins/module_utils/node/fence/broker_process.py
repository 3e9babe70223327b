# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Functions with which the guard starts and stops its broker, writes to the log, and starts its own program again."""
# pylint: disable=ansible-bad-function # The package also runs without Ansible, which has no run_command there.

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1
ENDED = 75
"""Exit status of a guard that killed its broker (EX_TEMPFAIL): the unit starts the guard again, and it waits."""


def exit_status_of_return_code(code: int) -> int:
    """Convert the return code of a broker's process to an exit status: 128 + N if signal N ended the process."""
    return code if code >= 0 else 128 - code


def start_broker(command: list[str], inherited: tuple[int, ...]) -> subprocess.Popen[bytes]:
    """Start the broker, and return its process.

    The kernel kills the broker when the guard's first thread ends.
    """
    prctl = ctypes.CDLL(None).prctl
    guard = os.getpid()

    def die_with_guard() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(ENDED)

    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=inherited, preexec_fn=die_with_guard)


def signal_broker(broker: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to the broker's process if it still runs."""
    if broker.poll() is None:
        broker.send_signal(number)


def kill_broker(broker: subprocess.Popen[bytes]) -> None:
    """Kill the broker's process if it still runs, and wait until it has ended."""
    signal_broker(broker, signal.SIGKILL)
    broker.wait()


def print_to_unit_log(text: str) -> None:
    """Print a line to the log of the systemd unit.

    Errors, such as a full disk, are ignored.
    """
    with contextlib.suppress(OSError):
        sys.stdout.write(f"guard: {text}\n")
        sys.stdout.flush()


def command_to_start_guard() -> list[str]:
    """Return the command, without options, that starts the guard: the process that starts and fences a broker.

    It is Python with a module, or with the packed file.
    """
    spec = sys.modules["__main__"].__spec__
    return [sys.executable, "-m", spec.name] if spec and spec.parent else [sys.executable, "-I", sys.argv[0]]
