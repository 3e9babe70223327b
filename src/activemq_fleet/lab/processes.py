"""Start, find and end the processes of brokers, each of which leads a separate session.

A signal is only sent to a process that belongs to the lab, by its id, its start time and the lab's mark on its command
line; a process that reuses an id is left alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from activemq_fleet.errors import LabError
from activemq_fleet.lab.lab_paths import LabPaths, write_lab_file
from activemq_fleet.lab.loopback_overlay import process_mark_arguments
from activemq_fleet.lab.polling import poll_for_true_result
from activemq_fleet.node.host_paths import BROKER_LOG
from activemq_fleet.node.process.proc import Process, boot_id, read_process

_KILL_TIMEOUT = 60.0  # Seconds until a killed process has ended. It may have to write much data to a busy disk.
_POLL = 0.02
_UMASK = 0o027  # The service unit has the same value.
_KEPT_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME")
# Child processes of the current process, which must wait for them to remove zombies.
_children: dict[int, subprocess.Popen[bytes]] = {}
_exit_statuses: dict[int, int] = {}  # By process id, of those child processes that have ended.


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """The record of one run of a process, such as a broker, that a lab launched.

    It names the process, and the position in the log at which the run begins. ``created`` and ``started`` are in
    seconds since the epoch. ``log_inode`` is 0 where there was no log yet. ``version`` is the version of the files that
    the broker was started with. ``release`` is its release of ActiveMQ, empty for a program that is no broker.
    ``boot`` is the kernel's boot id, and ``seconds_after_boot`` the start time that identifies the process: in contrast
    to ``created``, it does not depend on the wall clock, which may be set while the process runs.
    """

    host: str
    pid: int
    created: float
    started: float
    version: str
    log_inode: int = 0
    log_offset: int = 0
    release: str = ""
    boot: str = ""
    seconds_after_boot: float = 0.0


def launch_broker(
    lab_paths: LabPaths,
    host: str,
    command: Sequence[str],
    variables: Mapping[str, str],
    data: Path,
    version: str,
    release: str = "",
) -> ProcessRun:
    """Launch the process of a broker in a lab, and return the record of the run.

    The process has a separate process session. The record is written to a file. ``variables`` are those of the broker's
    environment file. The output of the process goes to ``data/console.log``. Raises LabError if it cannot be started.
    """
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    (data / "tmp").mkdir(mode=0o700, exist_ok=True)
    inode, offset = _log_inode_and_size(data / BROKER_LOG)
    inherited = {name: value for name in _KEPT_ENVIRONMENT if (value := os.environ.get(name))}
    with (data / "console.log").open("wb") as output:
        try:
            child = subprocess.Popen(
                command,
                cwd=data,
                env={**inherited, **variables},
                umask=_UMASK,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise LabError(
                f"{host}: the program {command[0]} cannot be started ({error.strerror}): check that it is installed "
                "and executable"
            ) from None
    _children[child.pid] = child
    _exit_statuses.pop(child.pid, None)
    process = _started_process(child)
    created, seconds_after_boot = (process.start_time, process.started) if process else (time.time(), 0.0)
    run = ProcessRun(
        host, child.pid, created, time.time(), version, inode, offset, release, boot_id(), seconds_after_boot
    )
    write_lab_file(lab_paths.runs / f"{host}.json", json.dumps(asdict(run)))
    return run


def run_command_before_start(host: str, command: Sequence[str]) -> None:
    """Run a command, such as a check, before a broker of a lab starts; raise LabError if the command fails.

    The message of the error has the command's output.
    """
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        reason = done.stderr.strip() or f"{command[0]} failed with exit code {done.returncode}"
        raise LabError(
            f"{host}: the broker is not started, because a check before its start failed. Correct this error: {reason}"
        )


def _started_process(child: subprocess.Popen[bytes]) -> Process | None:
    """Return the process of a child once its command line can be read, or None if it has ended.

    The kernel shows its arguments a moment after the call that starts it returns.
    """
    poll_for_true_result(lambda: read_process(child.pid) is not None or child.poll() is not None, 5, 0.001)
    return read_process(child.pid)


def _log_inode_and_size(log: Path) -> tuple[int, int]:
    try:
        status = log.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_ino, status.st_size


def last_broker_process_run(lab_paths: LabPaths, host: str) -> ProcessRun | None:
    """Return the record of the last broker process of a host in a lab; None if the host was never started.

    The process may have ended.
    """
    try:
        return ProcessRun(**json.loads((lab_paths.runs / f"{host}.json").read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def running_process(lab_paths: LabPaths, name: str) -> psutil.Process | None:
    """Return the running process that a lab launched under a name; None if it has ended.

    The name is a host's or a program's.
    """
    run = last_broker_process_run(lab_paths, name)
    return find_process(lab_paths, run) if run else None


def has_running_process(lab_paths: LabPaths) -> bool:
    """Return whether any process that a lab launched is running."""
    return any(running_process(lab_paths, file.stem) is not None for file in lab_paths.runs.glob("*.json"))


def delete_broker_run_record(lab_paths: LabPaths, host: str) -> None:
    """Delete the record of the last broker run of a host in a lab."""
    (lab_paths.runs / f"{host}.json").unlink(missing_ok=True)


def exit_status_of_run(run: ProcessRun) -> int | None:
    """Return the exit status of a run that the current process launched, negative for the number of a signal.

    None if the process still runs, or if another process launched it.
    """
    _reap(run.pid)
    return _exit_statuses.get(run.pid)


def find_process(lab_paths: LabPaths, run: ProcessRun) -> psutil.Process | None:
    """Return the process that a lab recorded as a ProcessRun when it launched it, or None if the process has ended."""
    _reap(run.pid)
    running = read_process(run.pid)
    if running is None or (boot_id(), running.started) != (run.boot, run.seconds_after_boot):
        return None
    try:
        process = psutil.Process(run.pid)
    except psutil.Error:
        return None
    return process if _is_lab_process(lab_paths, process) else None


def guarded_broker_process(process: psutil.Process) -> psutil.Process | None:
    """Return the broker process that a guard (the process that fences a shared store) started, or None.

    ``process`` is that of the guard. The result is None if the broker does not run.
    """
    try:
        # A guard may have another child for a moment, which checks old generations.
        return next(
            (child for child in process.children() if {"--tidy", "--keep-index"}.isdisjoint(child.cmdline())), None
        )
    except psutil.Error:
        return None


def is_stopped_by_signal(process: psutil.Process) -> bool:
    """Return whether a process is stopped by a signal such as SIGSTOP."""
    try:
        return bool(process.status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False


def lab_processes(lab_paths: LabPaths) -> list[psutil.Process]:
    """Return all running processes of a lab, by the lab's mark on their command line."""
    return [process for process in psutil.process_iter() if _is_lab_process(lab_paths, process)]


def kill_lab_processes(lab_paths: LabPaths) -> int:
    """Kill all running processes of a lab, and return the number of killed sessions.

    A broker, its guard and their children are one session.
    """
    found_processes = lab_processes(lab_paths)
    sessions = {_session_id(process) for process in found_processes}
    terminate_processes(found_processes, grace=0)
    return len(sessions)


def _session_id(process: psutil.Process) -> int:
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return int(process.pid)


def _is_lab_process(lab_paths: LabPaths, process: psutil.Process) -> bool:
    try:
        is_own = set(process.uids()) == {os.getuid()}  # Processes of other users may also have the mark.
        marks = process_mark_arguments(lab_paths.directory)
        return is_own and process.status() != psutil.STATUS_ZOMBIE and not marks.isdisjoint(process.cmdline())
    except psutil.Error:
        return False


def _reap(pid: int) -> None:
    child = _children.get(pid)
    if child is not None and (status := child.poll()) is not None:
        _exit_statuses[pid] = status
        del _children[pid]


def signal_process_group(process: psutil.Process, signal_number: signal.Signals) -> None:
    """Send a signal to the process group of a process.

    A process that leads no group gets the signal alone. Nothing happens if the process is gone.
    """
    with suppress(ProcessLookupError, psutil.NoSuchProcess):
        # The start creates a process group. A process that leads no group gets the signal alone.
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal_number)
        else:
            process.send_signal(signal_number)


def freeze_or_resume_process(process: psutil.Process, frozen: bool) -> None:
    """Freeze a process by SIGSTOP or resume it by SIGCONT, and wait for the change.

    Returns after 5 s at the latest.
    """
    signal_process_group(process, signal.SIGSTOP if frozen else signal.SIGCONT)
    poll_for_true_result(lambda: not _is_alive(process) or is_stopped_by_signal(process) == frozen, 5, _POLL)


def terminate_processes(processes: Iterable[psutil.Process], *, grace: float) -> None:
    """Terminate processes by SIGTERM, and kill those that are left after ``grace`` seconds.

    With 0 they are killed at once. Their children are also terminated. A frozen process does not react to SIGTERM and
    is killed at once. Returns when all are gone: the broker of a guard holds its ports a moment longer than the guard.
    Raises LabError if a process survives 60 s of SIGKILL.
    """
    leaders = list(processes)
    alive = [process for leader in leaders for process in (leader, *_children_of(leader))]
    if grace:
        for process in leaders:
            signal_process_group(process, signal.SIGKILL if is_stopped_by_signal(process) else signal.SIGTERM)
        alive = _alive_after(alive, grace)
    for process in alive:
        signal_process_group(process, signal.SIGKILL)
    survivors = _alive_after(alive, _KILL_TIMEOUT)
    if survivors:
        raise LabError(
            f"process {survivors[0].pid} of the lab does not stop even after SIGKILL, because it waits in the kernel: "
            "check the disks and mounted file systems"
        )


def _children_of(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def ends_within(process: psutil.Process, seconds: float) -> bool:
    """Return whether a process ends within a number of seconds.

    Returns as soon as it has ended. A process that has ended counts as ended even if its parent, which may be this
    program, has not waited for it yet.
    """
    return not _alive_after([process], seconds)


def kill_simultaneously(processes: Iterable[psutil.Process]) -> None:
    """Kill several processes simultaneously, so that none reacts to the death of another.

    A pure slave would promote itself within milliseconds of its master's death, and the stores of the pair would
    differ.
    """
    targets = list(processes)
    for process in targets:
        signal_process_group(process, signal.SIGSTOP)
    terminate_processes(targets, grace=0)


def _alive_after(processes: Sequence[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Return the processes that are still alive after ``seconds``.

    It returns at once when none is.
    """
    poll_for_true_result(lambda: not any(map(_is_alive, processes)), seconds, _POLL)
    return [process for process in processes if _is_alive(process)]


def _is_alive(process: psutil.Process) -> bool:
    """Return whether any thread of a process is alive.

    The last thread may hold the process's ports a moment longer than the first.
    """
    _reap(process.pid)
    try:
        if not process.is_running():
            return False
        return bool(process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1)
    except psutil.Error:
        return False
