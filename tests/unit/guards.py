"""Guard processes, each with a program that locks and waits as a broker does."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.waiting import wait_until

GUARD = [sys.executable, "-m", "activemq_fleet.node.fence.guard_cli"]
BROKER = """
import fcntl, os, signal, sys, time
link, log = sys.argv[1:]
signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
while True:
    try:
        lock = open(f"{link}/lock", "a")
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        time.sleep(0.02)
        continue
    with open(log, "a") as file:
        print(os.getpid(), os.path.basename(os.path.realpath(link)), file=file, flush=True)
    while True:
        time.sleep(1)
"""


CRASHING = """
import os, sys
from activemq_fleet.node.fence import guard_cli
from activemq_fleet.node.files import disk, new_files
left, signal = int(sys.argv.pop(1)), int(sys.argv.pop(1))
def crash_before(module, name):
    real = getattr(module, name)
    def call(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal)
        return real(*arguments, **options)
    setattr(module, name, call)
for name in (
    "write_new_file", "sync_directory", "rename_within_parent_and_sync", "set_symlink_target", "remove_file_or_link",
    "remove_tree_or_file",
):
    crash_before(disk, name)
for name in ("write_new_file", "sync_directory"):
    crash_before(new_files, name)
for name in ("link", "fsync", "mkdir"):
    crash_before(os, name)
guard_cli.main()
"""

FIRST_READING_FAILS = """
from activemq_fleet.node.fence import guard_cli, shared_store
read_evidence = shared_store.SharedStore.gather_lock_and_claim_evidence
def fail_once(*_arguments, **_options):
    shared_store.SharedStore.gather_lock_and_claim_evidence = read_evidence
    raise OSError("the server of the share does not respond")
shared_store.SharedStore.gather_lock_and_claim_evidence = fail_once
guard_cli.main()
"""


class Node:
    """A guard with its broker; ``served`` lists the numbers of the generations that its brokers have served."""

    def __init__(self, root: Path, name: str) -> None:
        self.store, self.local, self.log = root / "store", root / name, root / f"{name}.log"
        self.guard: subprocess.Popen[str] | None = None

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Start the guard, with these options, and its broker."""
        return self._start(GUARD, *options)

    def start_crashing(self, step: int, number: signal.Signals) -> subprocess.Popen[str]:
        """Start a guard that sends itself this signal before each change of the store after ``step`` changes."""
        return self._start([sys.executable, "-c", CRASHING, f"{step}", f"{number:d}"])

    def start_with_first_reading_failing(self) -> subprocess.Popen[str]:
        """Start a guard that cannot read the lock and the claims of the store the first time."""
        return self._start([sys.executable, "-c", FIRST_READING_FAILS])

    def _start(self, program: list[str], *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", BROKER, str(self.local / "store"), str(self.log)]
        words = ["--store", str(self.store), "--local", str(self.local), *options, "--", *command]
        self.guard = subprocess.Popen([*program, *words], stdout=subprocess.PIPE, text=True)
        return self.guard

    def terminate(self) -> None:
        """Terminate guard and broker, frozen or not."""
        if self.guard:
            self.guard.send_signal(signal.SIGCONT)
            self.guard.kill()
            self.guard.wait()
            if self.guard.stdout:
                self.guard.stdout.close()

    @property
    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []

    @property
    def served(self) -> list[int]:
        return [int(directory.partition("-")[0]) for _, directory in self.rows]

    def is_waiting(self) -> bool:
        """Return whether the broker waits for the lock of the gate."""
        return (self.local / "gate/lock").exists()


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    """Return when ``condition()`` is true; fail after ``seconds``."""
    wait_until(condition, "the condition holds", patience=seconds, pause=0.02)


def output_of(guard: subprocess.Popen[str]) -> str:
    assert guard.stdout
    return guard.stdout.read()


def is_alive(pid: str) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
