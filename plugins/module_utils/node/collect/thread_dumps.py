# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Takes thread dumps of a hung broker: three, some seconds apart, which shows the threads that make no progress.

On SIGQUIT a JVM prints a thread dump on its standard output: the journal for a unit of systemd, else a file. This
requires no JDK on the host. The signal terminates a process that does not handle it, so it is sent only to processes
that do.
"""
# pylint: disable=ansible-bad-function # The package also runs without Ansible, which has no run_command there.

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..files.untrusted_paths import UntrustedPathError, reopen_file_of_process
from ..process.proc import Process, handles_sigquit, open_process_handle, read_proc_file, send_signal, uid_of_process

COUNT = 3
PAUSE = 5.0
_DUMP_TIMEOUT = 20.0
_POLL_SECONDS = 0.5
_MAX_OUTPUT_BYTES = 16 << 20
_DUMP_BEGIN = "Full thread dump"
# The last lines of a dump: of its threads, and of the heap after them.
_DUMP_ENDS = ("JNI global ref", "Metaspace", "PSPermGen")


@dataclass
class ThreadDumps:
    """The thread dumps taken of a JVM.

    Notes describe missing or incomplete dumps. ``texts`` has one text per dump.
    """

    texts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def take_thread_dumps(process: Process, count: int = COUNT, pause: float = PAUSE) -> ThreadDumps:
    """Take ``count`` thread dumps of a JVM, ``pause`` seconds apart, and return them.

    The JVM prints them on SIGQUIT.
    """
    dumps = ThreadDumps()
    if process.state == "T":
        dumps.notes.append(
            f"no thread dump was taken, because a signal stopped process {process.pid}. Send SIGCONT to continue this "
            "broker, or SIGKILL to make its standby take over"
        )
        return dumps
    if not handles_sigquit(process.pid):
        dumps.notes.append(
            f"no thread dump was taken, because process {process.pid} does not catch SIGQUIT and would stop. Remove "
            "-Xrs from its JVM options"
        )
        return dumps
    with _open_output(process) as read:
        if read is None:
            dumps.notes.append(
                f"no thread dump was taken, because the standard output of process {process.pid} is neither the "
                f"journal of systemd nor a file of the broker's account. Run jstack {process.pid} as this account "
                "instead"
            )
        else:
            _add_dumps(dumps, process, read, count, pause)
    return dumps


def _add_dumps(dumps: ThreadDumps, process: Process, read: Callable[[], str], count: int, pause: float) -> None:
    for number in range(count):
        started_at = time.monotonic()
        read()  # skips earlier output
        with open_process_handle(process) as handle:
            # A later process with this pid may not handle the signal, and would be terminated.
            was_sent = handles_sigquit(process.pid) and send_signal(handle, process, signal.SIGQUIT)
        if not was_sent:
            dumps.notes.append(
                f"only {number} of {count} thread dumps were taken, because process {process.pid} ended. Check the "
                "broker's log for the reason"
            )
            break
        text = _wait_for_dump(read)
        if _DUMP_BEGIN not in text:
            dumps.notes.append(
                f"process {process.pid} printed no thread dump within {_DUMP_TIMEOUT:g} s after SIGQUIT: check whether "
                "the process hangs or its disk is full"
            )
            break
        dumps.texts.append(text[text.index(_DUMP_BEGIN) :])
        if not any(end in text for end in _DUMP_ENDS):
            dumps.notes.append(
                f"thread dump {number + 1} is incomplete, because journald drops lines above its rate limit: increase "
                "RateLimitBurst in journald.conf"
            )
        if number < count - 1:
            time.sleep(max(0.0, pause - (time.monotonic() - started_at)))


def os_thread_states_text(pid: int) -> str:
    """Return a text with the state of each operating system thread of a process, from ``/proc``.

    Each line has id, state, CPU seconds, wait channel and name. This also works if the process hangs.
    """
    lines = []
    try:
        threads = sorted(os.listdir(f"/proc/{pid}/task"), key=int)
    except OSError:
        return ""
    for thread in threads:
        fields = read_proc_file(pid, f"task/{thread}/stat").rpartition(")")[2].split()
        state = fields[0] if fields else "?"
        ticks = sum(map(int, fields[11:13])) if len(fields) > 12 else 0
        name, wait = (read_proc_file(pid, f"task/{thread}/{file}").strip() for file in ("comm", "wchan"))
        lines.append(f"{thread:>8} {state} cpu={ticks / os.sysconf('SC_CLK_TCK'):.2f}s {wait or '-'} {name}")
    return "\n".join(lines) + "\n"


def _wait_for_dump(read: Callable[[], str]) -> str:
    """Return the output of a JVM that contains a complete thread dump, or the output until no more follows."""
    text, silent_reads, end = "", 0, time.monotonic() + _DUMP_TIMEOUT
    while time.monotonic() < end and not (silent_reads >= 2 and _DUMP_BEGIN in text):
        time.sleep(_POLL_SECONDS)
        new_output = read()
        text += new_output
        silent_reads = 0 if new_output else silent_reads + 1
    return text


@contextlib.contextmanager
def _open_output(process: Process) -> Iterator[Callable[[], str] | None]:
    """Yield a function that returns what the process has printed since it was last called.

    Yields None if the process prints to something that cannot be read, such as a file of another account.
    """
    path, account = f"/proc/{process.pid}/fd/1", uid_of_process(process.pid)
    try:
        is_socket = stat.S_ISSOCK(os.stat(path).st_mode)
        descriptor = None if is_socket else reopen_file_of_process(path, () if account is None else (account,))
    except (OSError, UntrustedPathError):
        yield None
        return
    if descriptor is None:
        yield _journal_reader(process.pid)
        return
    # The file is opened only once, because the process may replace its descriptor between two reads.
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0, os.SEEK_END)
        yield lambda: file.read(_MAX_OUTPUT_BYTES).decode(errors="replace")


def _journal_reader(pid: int) -> Callable[[], str]:
    command = ["journalctl", f"_PID={pid}", "--output=cat", "--no-pager", "--quiet", f"--since=@{time.time():.3f}"]
    read_bytes = 0

    def read() -> str:
        nonlocal read_bytes
        try:
            result = subprocess.run(command, capture_output=True, timeout=30, check=True)
        except (OSError, subprocess.SubprocessError):
            return ""
        new_output = result.stdout[read_bytes:]
        read_bytes += len(new_output)
        return new_output.decode(errors="replace")

    return read
