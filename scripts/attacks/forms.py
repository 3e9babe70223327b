"""Define the forms of an attack: how the active node of a pair freezes, or loses its lock while it runs.

A form is a function of a ``Target``. It begins with an active node under load, and ends when a permitted node serves.
SIGSTOP simulates a paused machine. A replaced lock file simulates a network file system that lost its locks. A lock
that is cleared while it is held simulates ``clear-locks`` of GlusterFS.
"""

from __future__ import annotations

import ctypes
import fcntl
import itertools
import os
import random
import signal
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from activemq_fleet.errors import LabError
from activemq_fleet.lab.freeze import lock_file_path, replace_lock_file
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.polling import poll_for_true_result
from activemq_fleet.render.broker_paths import kahadb_directory_in_xml
from scripts.attacks.clients import wait_until
from scripts.attacks.store_image import StoreImage

_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_F_OFD_SETLK = 37
_FLOCK = struct.Struct("hhqqi4x")
_SERVED_MEANWHILE = 3.0
"""Seconds that the next node serves before the frozen node thaws."""
_THAWED_FIRST = 10.0
"""Seconds from the thaw of a Java process to the thaw of its guard."""
_GUARD_WATCHDOG = 30.0
"""Seconds without a notification after which systemd kills a guard (``WatchdogSec``)."""
_SHORT_OF_MEMORY = 10.0
"""Seconds until a guard without free memory is killed, as the kernel does."""


@dataclass
class Target:
    """The pair under attack: ``active`` is the node that serves, ``peer`` the other node; ``dice`` selects the moment.

    ``image`` is the file system of the store, if the form requires one. ``moment`` is the selected moment.
    """

    lab: Lab
    active: str
    peer: str
    guarded: bool
    dice: random.Random
    image: StoreImage | None = None
    seconds: float = 60.0
    moment: str = ""
    most_room: int = 0

    @property
    def lock(self) -> str:
        """Return the path of the lock file, whose lock decides which node serves."""
        return lock_file_path(self.lab.fleet.broker(self.active))

    def processes(self, host: str) -> tuple[psutil.Process | None, psutil.Process]:
        """Return the guard of a node, or None, and its Java process."""
        name = f"/{self.lab.fleet.broker(host).host}/"
        node_processes: dict[bool, psutil.Process] = {}
        for process in psutil.process_iter():
            try:
                words = process.cmdline()
            except psutil.Error:
                continue
            if any(word.startswith(f"-Dactivemq.data={self.lab.directory}") and name in word for word in words):
                node_processes[any("activemq_fleet.node.fence" in word for word in words)] = process
        if False not in node_processes:
            raise LabError(f"{host} has no running Java process")
        return node_processes.get(True), node_processes[False]

    def replace_lock(self) -> None:
        """Replace the lock file: its holder keeps the lock of the old file, which no process checks any longer."""
        replace_lock_file(self.lock)

    def clear_lock(self) -> None:
        """Unlock the lock file of the guard with a copy of its file descriptor; the file remains the same."""
        guard, _ = self.processes(self.active)
        if guard is None:
            raise LabError(
                "the lock of a Java process belongs to the process and cannot be cleared: use a pair with guards"
            )
        for number, path in _open_files(guard.pid):
            if path == self.lock:
                with _copied_descriptor(guard.pid, number) as descriptor:
                    fcntl.fcntl(descriptor, _F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))

    def wait_for_peer(self) -> None:
        """Return when the peer serves. Raises LabError if it does not."""
        wait_until(self.peer_serves, f"{self.peer} serves")

    def peer_serves(self) -> bool:
        """Return whether the peer serves."""
        return self.lab.state(self.peer) == "active"

    def wait_for_moment(self) -> None:
        """Wait for a random moment of the load, or for the next operation of a random kind on the store."""
        self.moment = self.dice.choice(list(_MOMENTS))
        time.sleep(self.dice.uniform(0.2, 2.5))
        has_begun = _MOMENTS[self.moment]
        directory = os.path.realpath(kahadb_directory_in_xml(self.lab.fleet.broker(self.active)))
        before = _files_of(directory)
        if not poll_for_true_result(lambda: has_begun(before, _files_of(directory)), _LONGEST_MOMENT, 0.001):
            self.moment += ", which did not begin"


def _files_of(directory: str) -> dict[str, tuple[int, int]]:
    """Return the size and the modification time of each file of a store by name."""
    files = {}
    for entry in os.scandir(directory):
        with suppress(OSError):
            status = entry.stat()
            files[entry.name] = status.st_size, status.st_mtime_ns
    return files


_Files = dict[str, tuple[int, int]]
_MOMENTS: dict[str, Callable[[_Files, _Files], bool]] = {
    "any": lambda before, now: True,
    "roll of the journal": lambda before, now: any(name.startswith("db-") for name in now.keys() - before.keys()),
    "cleanup": lambda before, now: any(name.startswith("db-") for name in before.keys() - now.keys()),
    "index write": lambda before, now: before.get("db.data") != now.get("db.data"),
    "checkpoint": lambda before, now: before.get("db.redo") != now.get("db.redo"),
}
"""Functions that detect an operation on a store from its files before and now. Moved acknowledgements create a file."""
_LONGEST_MOMENT = 8.0


def _open_files(pid: int) -> Iterator[tuple[int, str]]:
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        yield int(entry.name), os.readlink(entry)


@contextmanager
def _copied_descriptor(pid: int, number: int) -> Iterator[int]:
    """Yield a copy of the file descriptor ``number`` of a process."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    process_descriptor = call(_PIDFD_OPEN, pid, 0)
    descriptor = call(_PIDFD_GETFD, process_descriptor, number, 0)
    if descriptor < 0:
        raise LabError(f"the file descriptors of process {pid} cannot be opened: {os.strerror(ctypes.get_errno())}")
    try:
        yield descriptor
    finally:
        os.close(descriptor)
        os.close(process_descriptor)


def _free_lock_and_wait(target: Target, free_lock: Callable[[], None]) -> None:
    """Free the lock of the frozen node, and wait until its peer has served for some seconds."""
    free_lock()
    target.wait_for_peer()
    time.sleep(_SERVED_MEANWHILE)


def whole_node(target: Target) -> None:
    """Freeze guard and Java, replace the lock file, and thaw both while the peer serves."""
    target.wait_for_moment()
    with _frozen(*target.processes(target.active)):
        _free_lock_and_wait(target, target.replace_lock)


def guard_alone(target: Target) -> None:
    """Freeze the guard while its Java continues to acknowledge; as systemd does, kill the guard after 30 s."""
    target.wait_for_moment()
    guard, _ = _guard_and_java(target)

    def free_lock() -> None:
        target.replace_lock()
        if not poll_for_true_result(target.peer_serves, _GUARD_WATCHDOG):
            guard.kill()

    with _frozen(guard):
        _free_lock_and_wait(target, free_lock)


def java_alone(target: Target) -> None:
    """Freeze Java while its guard continues."""
    target.wait_for_moment()
    _, java = target.processes(target.active)
    with _frozen(java):
        _free_lock_and_wait(target, target.replace_lock)


def java_thaws_first(target: Target) -> None:
    """Freeze both, and thaw Java ten seconds before its guard."""
    target.wait_for_moment()
    guard, java = target.processes(target.active)
    with _frozen(guard):
        with _frozen(java):
            target.replace_lock()
            target.wait_for_peer()
        time.sleep(_THAWED_FIRST)


def lock_cleared(target: Target) -> None:
    """Freeze both, and clear the lock of the lock file, as an administrator of GlusterFS can."""
    target.wait_for_moment()
    with _frozen(*target.processes(target.active)):
        _free_lock_and_wait(target, target.clear_lock)


def lock_replaced_unfrozen(target: Target) -> None:
    """Replace the lock file under load; no process is frozen."""
    target.wait_for_moment()
    target.replace_lock()
    wait_until(lambda: _serves(target), "a node serves")
    time.sleep(_SERVED_MEANWHILE)


def lock_cleared_unfrozen(target: Target) -> None:
    """Clear the lock under load; no process is frozen."""
    target.wait_for_moment()
    target.clear_lock()
    wait_until(lambda: _serves(target), "a node serves")
    time.sleep(_SERVED_MEANWHILE)


def successor_freezes(target: Target) -> None:
    """Kill the active node, freeze its peer at a random step of the takeover, and start the first node again."""
    target.lab.kill(target.active)
    time.sleep(target.dice.uniform(0, 0.5))
    with _frozen(*target.processes(target.peer)):
        if os.path.exists(target.lock):
            target.replace_lock()
        target.lab.start(target.active, wait=False)
        wait_until(lambda: target.lab.state(target.active) == "active", f"{target.active} serves again")
        time.sleep(_SERVED_MEANWHILE)


def killed(target: Target) -> None:
    """Kill the active node: a takeover without a freeze."""
    target.wait_for_moment()
    target.lab.kill(target.active)
    target.wait_for_peer()


def guard_killed(target: Target) -> None:
    """Kill the guard alone: its Java process stops with it, before the peer can serve."""
    target.wait_for_moment()
    guard, java = _guard_and_java(target)
    guard.kill()
    _wait_for_java_end(target, java)


def guard_out_of_memory(target: Target) -> None:
    """Limit the guard to its current memory: it continues to serve, or stops together with its Java process."""
    target.wait_for_moment()
    guard, java = _guard_and_java(target)
    size = guard.memory_info().vms
    guard.rlimit(psutil.RLIMIT_AS, (size, size))
    poll_for_true_result(lambda: not _runs(guard), _SHORT_OF_MEMORY)
    if _runs(guard):
        guard.kill()
    _wait_for_java_end(target, java)


def _guard_and_java(target: Target) -> tuple[psutil.Process, psutil.Process]:
    guard, java = target.processes(target.active)
    if guard is None:
        raise LabError(f"{target.active} has no guard: use a pair with guards")
    return guard, java


def _wait_for_java_end(target: Target, java: psutil.Process) -> None:
    wait_until(lambda: not _runs(java), f"the Java process of {target.active} stops with its guard", 2)
    target.wait_for_peer()


def power_cut(target: Target) -> None:
    """Cut the power of both nodes and of the store at a random step of a takeover; unsynced data are lost."""
    if target.image is None:
        raise LabError("a power cut requires a separate file system for the store")
    target.wait_for_moment()
    if target.dice.random() < 0.75:
        target.lab.kill(target.active)
        time.sleep(target.dice.uniform(0, 0.6))
    running_hosts = [host for host in (target.active, target.peer) if target.lab.is_alive(host)]
    with _frozen(*itertools.chain.from_iterable(target.processes(host) for host in running_hosts)):
        target.image.copy()
        for host in running_hosts:
            target.lab.kill(host)
    target.image.restore()
    for host in (target.active, target.peer):
        target.lab.start(host, wait=False)
    wait_until(lambda: _serves(target), "a node serves")


def full_volume(target: Target) -> None:
    """Fill the volume before the peer takes over; the peer serves when the volume has free space again."""
    if target.image is None:
        raise LabError("a full volume requires a separate file system for the store")
    target.wait_for_moment()
    with _frozen(*target.processes(target.peer)):
        target.lab.kill(target.active)
        target.image.fill()
    time.sleep(_SERVED_MEANWHILE)
    if target.peer_serves():
        raise LabError(f"{target.peer} serves on a full volume")
    target.image.remove_ballast()
    target.wait_for_peer()


def crash_loop(target: Target) -> None:
    """Kill the guard or the Java process of a random node repeatedly, at random moments, and start the node at once."""
    end = time.monotonic() + target.seconds
    hosts = (target.active, target.peer)
    store = str(target.lab.fleet.broker(target.active).shared_store_directory)
    while time.monotonic() < end:
        host = target.dice.choice(hosts)
        if target.lab.is_alive(host):
            with suppress(LabError):
                guard, java = target.processes(host)
                (target.dice.choice([guard, java]) or java).kill()
        time.sleep(target.dice.uniform(0, 3))
        for node in hosts:
            if not target.lab.is_alive(node):
                target.lab.start(node, wait=False)
        target.most_room = max(target.most_room, allocated_size(store))
    wait_until(lambda: _serves(target), "a node serves")


def allocated_size(directory: str) -> int:
    """Return the bytes that a directory allocates; a file with several names counts once."""
    sizes = {}
    for parent, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                status = os.lstat(os.path.join(parent, name))
                sizes[status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


def _runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def _serves(target: Target) -> bool:
    return "active" in (target.lab.state(target.active), target.lab.state(target.peer))


@contextmanager
def _frozen(*processes: psutil.Process | None) -> Iterator[None]:
    """Freeze processes with SIGSTOP, the guard first, and continue them at the end in the same order."""
    frozen = [process for process in processes if process]
    for process in frozen:
        process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    try:
        yield
    finally:
        for process in frozen:
            if process.is_running():
                process.send_signal(signal.SIGCONT)


Form = Callable[[Target], None]

FORMS: dict[str, Form] = {
    form.__name__.replace("_", "-"): form
    for form in (
        whole_node,
        guard_alone,
        java_alone,
        java_thaws_first,
        lock_cleared,
        lock_replaced_unfrozen,
        lock_cleared_unfrozen,
        successor_freezes,
        killed,
        guard_killed,
        guard_out_of_memory,
        power_cut,
        full_volume,
        crash_loop,
    )
}
ON_AN_IMAGE = ("power-cut", "full-volume")
"""The forms that require a separate file system for the store."""
WITHOUT_GUARD = ("whole-node", "lock-replaced-unfrozen", "killed")
"""The forms that do not require a guard."""
