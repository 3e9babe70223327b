# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the broker's process by the account that runs it and by its command line, never by a pid file.

Invariant: values that any account may choose, such as a command line, a start time or the name of a program, are never
sufficient. A process counts if systemd started it for the broker's unit. Outside of the unit it must run as root or as
the account that owns the broker's data, and have the broker's files open.
"""
# pylint: disable=ansible-bad-function # The package also runs without Ansible, which has no run_command there.

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..text_lines import split_lines

_BROKER_JAR_PATH = re.compile(r"/(?:activemq|run|activemq-[^/]+)\.jar(?: \(deleted\))?$")
BASE = "-Dactivemq.base="
"""The option of a broker's JVM that names its directory."""
_HIERARCHIES = ("", "name=systemd")
_SYSTEMCTL_TIMEOUT = 10


@dataclass(frozen=True)
class Process:
    """A running process, as /proc shows it: pid, start time, state and command line.

    ``started`` is in seconds since the boot of the machine, and does not depend on the wall clock; ``state`` is the
    state letter of /proc, such as ``T`` for a process that a signal stopped.
    """

    pid: int
    started: float
    state: str
    command: tuple[str, ...]

    @property
    def start_time(self) -> float:
        """The start time of a process, in seconds since the epoch."""
        return time.time() - (seconds_since_boot() - self.started)


def seconds_since_boot() -> float:
    """Return the seconds since the machine booted.

    Suspended time is included.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Return the kernel's boot id, which changes with every boot.

    The result is empty where the kernel has none.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def read_process(pid: int) -> Process | None:
    """Read a process from /proc by its pid; return None if it does not run.

    It has ended, is a zombie or a kernel thread.
    """
    command = tuple(read_proc_file(pid, "cmdline").split("\0")[:-1])
    fields = _stat_fields(pid)
    if not command or not fields or fields[0] in ("Z", "X"):
        return None
    return Process(pid, int(fields[19]) / os.sysconf("SC_CLK_TCK"), fields[0], command)


def process_ids() -> list[int]:
    """Return the sorted pids of all processes of this machine.

    Processes that /proc hides from this process are missing.
    """
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def open_files_with_descriptors(pid: int) -> Iterator[tuple[str, str]]:
    """Yield a pair (descriptor number, path) for each open file of a process.

    They are read from /proc/PID/fd. Raises OSError if they are hidden.
    """
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            yield number, os.readlink(f"/proc/{pid}/fd/{number}")


def find_broker_process(base: str, unit: str | None = None, pids: Iterable[int] | None = None) -> Process | None:
    """Find the process that runs the broker of the directory ``base``; return None if there is none.

    It has the option -Dactivemq.base. ``unit`` is the broker's unit of systemd, by default the unit that is named after
    the directory. ``pids`` are the processes to search, by default all.
    """
    base_option = f"{BASE}{base}"
    unit = unit or f"{os.path.basename(base)}.service"
    accounts = {0, uid_of_broker_data_owner(base)} - {None}
    patterns = _unit_patterns(unit)
    in_unit, outside_unit = [], []
    for pid in process_ids() if pids is None else pids:
        # The account is checked first, because reading a command line reads the memory of that process.
        if uid_of_process(pid) not in accounts and not _is_in_unit_cgroup(pid, patterns):
            continue
        process = read_process(pid) if base_option in read_proc_file(pid, "cmdline") else None
        # A control command (stop, query) has the same option, but only start runs a broker. The command line of a guard
        # contains that of the broker.
        if (
            process is None
            or base_option not in process.command
            or "start" not in process.command
            or _is_guard(process)
        ):
            continue
        if _is_in_unit_cgroup(pid, patterns):
            in_unit.append(process)
        else:
            outside_unit.append((_open_file_evidence(pid, base), process))
    if len(in_unit) > 1:
        main = [unit_properties.get("MainPID") for unit_properties in properties_of_systemd_units("MainPID", [unit])]
        in_unit = [process for process in in_unit if str(process.pid) in main] or in_unit
    if in_unit:
        return min(in_unit, key=lambda process: process.started)
    candidates = [(-files, process.started, process) for files, process in outside_unit if files]
    return min(candidates, key=lambda candidate: candidate[:2])[2] if candidates else None


def activemq_bases_in_command(pid: int) -> list[str]:
    """Return a list of the brokers' base directories (``activemq.base``) that the command line of a process names."""
    words = read_proc_file(pid, "cmdline").split("\0")
    return [word[len(BASE) :] for word in words if word.startswith(BASE)]


def is_process_of_running_broker(pid: int) -> bool:
    """Return whether a process runs a broker: not a control command such as stop or query, and not a guard."""
    process = read_process(pid)
    return process is not None and "start" in process.command and not _is_guard(process)


def _is_guard(process: Process) -> bool:
    """Return whether a process is the guard of a broker, whose arguments end with the broker's own command line."""
    return "--" in process.command


def guard_pid_of_broker(broker: Process) -> int | None:
    """Return the pid of a broker's guard, the parent process that fences its shared store; None without a guard."""
    fields = _stat_fields(broker.pid)
    parent = read_process(int(fields[1])) if fields else None
    is_guarded = parent is not None and _is_guard(parent) and parent.command[-len(broker.command) :] == broker.command
    return parent.pid if parent and is_guarded else None


def uid_of_broker_data_owner(base: str) -> int | None:
    """Return the uid of the owner of a broker's data directory.

    Without a data directory it is the owner of the broker's directory; None if neither exists.
    """
    for directory in (os.path.join(base, "data"), base):
        with contextlib.suppress(OSError):
            return os.stat(directory).st_uid
    return None


def uid_of_process(pid: int) -> int | None:
    """Return the uid that a process runs as.

    Returns None if it has ended, or has more than one. A program with the set-user-id bit has a command line of the
    calling account, which stays its real uid. The owner of /proc/PID would only be the effective uid, and files there
    belong to root if the process hides its memory.
    """
    return _id_in_status(pid, "Uid")


def gid_of_process(pid: int) -> int | None:
    """Return the gid that a process runs as.

    Returns None if it has ended, or has more than one.
    """
    return _id_in_status(pid, "Gid")


def _id_in_status(pid: int, field: str) -> int | None:
    real_effective_saved = set(proc_status_field_words(pid, field)[:3])
    return int(real_effective_saved.pop()) if len(real_effective_saved) == 1 else None


def proc_status_field_words(pid: int, field: str) -> list[str]:
    """Return a field of /proc/PID/status, such as ``Uid``, as a list of words.

    Returns [] if the process has ended or is hidden.
    """
    lines = (line.partition(":") for line in split_lines(read_proc_file(pid, "status")))
    return next((text.split() for name, _unused, text in lines if name == field), [])


def handles_sigquit(pid: int) -> bool:
    """Return whether a process handles SIGQUIT.

    A JVM does so for thread dumps, so that the signal does not end it.
    """
    caught_signals = proc_status_field_words(pid, "SigCgt")
    return bool(caught_signals) and bool(int(caught_signals[0], 16) & (1 << (signal.SIGQUIT - 1)))


def is_in_systemd_unit(pid: int, unit: str) -> bool:
    """Return whether a process belongs to a systemd unit of the system, not of a user.

    Only the system's systemd creates cgroups that are directly below slices: the units of an account are below its
    user@UID.service.
    """
    return _is_in_unit_cgroup(pid, _unit_patterns(unit))


def service_of_main_process(pid: int) -> str | None:
    """Return the systemd service of the system whose main process is a broker or its guard; None without one.

    ``pid`` is the pid of the broker. Other processes in the cgroup of a service do not count: a broker that an operator
    started by hand can be in that of the SSH server, and a process manager that starts it can run other programs.
    """
    patterns = _cgroup_patterns(r"((?!user@)[^/]+\.service)")
    matches = [patterns[kind].fullmatch(path) for kind, path in _cgroups(pid)]
    broker = read_process(pid)
    guard = guard_pid_of_broker(broker) if broker else None
    main_pids = {str(main) for main in (pid, guard) if main}
    for name in sorted({match[1] for match in matches if match}):
        properties = properties_of_systemd_units("MainPID", [name])
        if properties and properties[0].get("MainPID") in main_pids:
            return name
    return None


def _unit_patterns(unit: str) -> dict[str, re.Pattern[str]]:
    """Return, by hierarchy, a pattern that matches the cgroups of a unit of the system's systemd (process 1)."""
    return _cgroup_patterns(re.escape(unit))


def _cgroup_patterns(unit_pattern: str) -> dict[str, re.Pattern[str]]:
    """Return, by hierarchy, a pattern of the cgroups of the units whose name matches ``unit_pattern``."""
    roots = {kind: path.partition("/init.scope")[0] for kind, path in _cgroups(1) if path.endswith("/init.scope")}
    path_below_root = r"(?:/[^/]+\.slice)*/" + unit_pattern + r"(?:/.*)?"
    return {kind: re.compile(re.escape(roots.get(kind, "")) + path_below_root) for kind in _HIERARCHIES}


def _is_in_unit_cgroup(pid: int, patterns: Mapping[str, re.Pattern[str]]) -> bool:
    return any(patterns[kind].fullmatch(path) for kind, path in _cgroups(pid))


def _cgroups(pid: int) -> Iterator[tuple[str, str]]:
    """Yield each cgroup hierarchy that systemd uses, with the process's path in it (cgroups(7))."""
    for line in split_lines(read_proc_file(pid, "cgroup")):
        _unused, kind, path = line.split(":", 2)
        if kind in _HIERARCHIES:
            yield kind, path


def _open_file_evidence(pid: int, base: str) -> int:
    """Return 2 if a process has files below ``base`` or a broker's jars open, 0 if not, 1 if that cannot be seen."""
    try:
        is_holder = any(
            path.startswith(f"{base}/") or _BROKER_JAR_PATH.search(path)
            for _unused, path in open_files_with_descriptors(pid)
        )
    except OSError:
        return 1
    return 2 if is_holder else 0


def properties_of_systemd_units(properties: str, units: Sequence[str]) -> list[dict[str, str]]:
    """Return a list with a dict of properties for each of the given systemd units; [] if systemd does not answer.

    The values are texts, as ``systemctl show`` prints them. ``properties``: names, separated by commas.
    """
    command = ["systemctl", "show", f"--property={properties}", *units]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_SYSTEMCTL_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    texts = result.stdout.split("\n\n")
    return [dict(line.split("=", 1) for line in split_lines(text) if "=" in line) for text in texts]


def _stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the program's name; [] if it is unreadable.

    The name may contain any character.
    """
    return read_proc_file(pid, "stat").rpartition(")")[2].split()


def read_proc_file(pid: int, name: str) -> str:
    """Read and return the text of a file in /proc/PID.

    The result is empty if the process has ended or is hidden.
    """
    return read_system_file(f"/proc/{pid}/{name}")


def read_system_file(path: str) -> str:
    """Read and return the text of a small system file, such as one in /proc; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def is_still_running(process: Process) -> bool:
    """Return whether the process that a ``Process`` object describes, read at some earlier time, is still running.

    It is running if the pid has the same start time and command line.
    """
    current = read_process(process.pid)
    return current is not None and (current.started, current.command) == (process.started, process.command)


@contextlib.contextmanager
def open_process_handle(process: Process) -> Iterator[int | None]:
    """Open a handle (pidfd) of a process for a ``with`` block.

    It never refers to a later process with this pid. Yields None on kernels before 5.3.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except (OSError, AttributeError):
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


def send_signal(handle: int | None, process: Process, number: signal.Signals) -> bool:
    """Send a signal to a process.

    Returns whether the process still existed. The signal is never sent to a later process with its pid.
    """
    if not is_still_running(process):
        return False
    try:
        if handle is not None:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True
