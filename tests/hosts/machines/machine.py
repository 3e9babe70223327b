"""One machine: systemd as process 1 in a systemd-nspawn container on an overlay root."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .cgroups import ControlGroup
from .commands import PATIENCE, Completed, attempt, last_words, run
from .errors import LateMachineError, MachinesError
from .network import Lan

_MEANS = "CAP_NET_ADMIN"
"""nftables rules inside a machine need it; its interfaces are its own."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a rack. ``number`` is its place there: its port on the bridge.

    ``binds`` maps a mount point inside to the directory of the controller that is shared
    there. Its disk (``directory``/upper) outlives power-off and is gone after ``discard``.
    """

    name: str
    address: str
    number: int
    directory: Path
    base: Path
    lan: Lan
    group: ControlGroup
    ssh_program: Path
    binds: Mapping[str, Path]
    hosts_file: str
    public_key: str

    @property
    def root(self) -> Path:
        """The machine's root directory as the controller sees it while it is mounted."""
        return self.directory / "tree"

    @property
    def console(self) -> Path:
        return self.directory / "console.log"

    def is_running(self) -> bool:
        return self.group.is_populated()

    def power_on(self) -> None:
        """Start it; it is usable after ``wait_until_ready``. Nothing happens when it runs."""
        if self.is_running():
            return
        self._mount()
        self._write_identity()
        self.lan.plug_in(self.name, self.address, self.number)
        self.group.create()
        with self.console.open("ab") as console:
            process = subprocess.Popen(
                ["setsid", "--fork", *self.group.entering(self._nspawn())],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
            )
        process.wait(timeout=PATIENCE)
        # Until it is in its group, nothing could take its power away again.
        try:
            self.group.wait_until(populated=True)
        except MachinesError as error:
            raise MachinesError(f"{self.name}: does not start: {self._last_console_line()}") from error

    def wait_until_ready(self, timeout: float = PATIENCE) -> None:
        """Return when sshd answers and systemd has started everything, without a failure."""
        self.wait_until_reached(timeout)
        # A system that waits for its bus, or for a unit that is tried again, is asked again.
        deadline = time.monotonic() + timeout
        while (state := self._system_state(timeout)) != "running":
            if time.monotonic() > deadline:
                failed = self.attempt("systemctl", "--failed", "--plain", "--no-legend").stdout
                jobs = self.attempt("systemctl", "list-jobs", "--plain", "--no-legend").stdout
                raise LateMachineError(
                    f"{self.name}: timed out: {state} after {timeout:g} s; failed units: {failed}; jobs: {jobs}"
                )
            time.sleep(1)

    def wait_until_reached(self, timeout: float = PATIENCE) -> None:
        """Return when a command can be run on it."""
        deadline = time.monotonic() + timeout
        while not self._is_reached():
            if not self.is_running():
                raise MachinesError(f"{self.name}: has ended by itself: {self._last_console_line()}")
            if time.monotonic() > deadline:
                raise LateMachineError(
                    f"{self.name}: timed out: no login within {timeout:g} s: {self._last_console_line()}"
                )
            time.sleep(0.1)

    def _is_reached(self) -> bool:
        try:
            return self.attempt("true", timeout=30).returncode == 0
        except MachinesError:  # it answers, and does no more than that yet
            return False

    def _system_state(self, timeout: float) -> str:
        state = self.attempt("systemctl", "is-system-running", "--wait", timeout=timeout)
        return state.stdout.strip() or last_words(state)

    def power_off(self) -> None:
        """Pull the plug: silence on the wire first, then every process dies, the disk stays.

        No process gets a signal that it could act upon and no peer gets a FIN or a reset. A
        lock on a shared directory is free at once, as the directory is the controller's own;
        over NFS it would live on until its lease ends.
        """
        if self.lan.path_of(self.name).exists():
            self.lan.pull_cable(self.name)
        self.group.kill()
        self.lan.unplug(self.name, self.number)

    def freeze(self) -> None:
        """Stop every process without its knowing, as a hung hypervisor does."""
        self.group.freeze(frozen=True)

    def thaw(self) -> None:
        self.group.freeze(frozen=False)

    def isolate(self) -> None:
        """Cut it off from the others; it runs on. ``reconnect`` undoes it."""
        self.lan.pull_cable(self.name)

    def reconnect(self) -> None:
        """Push the cable in again, and return when it is reached."""
        self.lan.push_cable(self.name)
        self.wait_until_reached()

    def attempt(self, *argv: str, stdin: str | None = None, timeout: float = PATIENCE) -> Completed:
        """Run ``argv`` as root on the machine, through ssh, whatever its exit status."""
        command = [str(self.ssh_program), self.address, shlex.join(argv)]
        return attempt(command, stdin=stdin, timeout=timeout)

    def run(self, *argv: str, stdin: str | None = None, timeout: float = PATIENCE) -> str:
        """Run ``argv`` as root; return its output. Raises MachinesError when it fails, or none answers for a minute."""
        deadline = time.monotonic() + 60
        while _was_not_begun(done := self.attempt(*argv, stdin=stdin, timeout=timeout)):
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
        if done.returncode:
            raise MachinesError(f"{self.name}: {shlex.join(argv)}: {last_words(done)}")
        return done.stdout

    def journal(self, unit: str | None = None) -> str:
        """What the machine logged, read from its disk: it may be off, frozen or broken."""
        command = ["journalctl", "--no-pager", "-o", "short-precise"]
        command += ["-D", str(self.directory / "upper/var/log/journal")]
        if unit is not None:
            command += ["-u", unit]
        return run(command)

    def discard(self) -> None:
        """Stop it and remove all that is left of it: processes, namespace, group, disk."""
        self.group.kill()
        self.lan.unplug(self.name, self.number)
        self.group.remove()
        unmount(self.root)
        if self.directory.exists():
            shutil.rmtree(self.directory)

    def _nspawn(self) -> list[str]:
        return [
            "systemd-nspawn",
            "--quiet",
            "--boot",
            "--register=no",
            "--keep-unit",
            f"--directory={self.root}",
            f"--machine={self.lan.run_id}-{self.number}",
            f"--hostname={self.name.split('.')[0]}",
            f"--network-namespace-path={self.lan.path_of(self.name)}",
            f"--capability={_MEANS}",
            *(f"--bind={source}:{target}" for target, source in self.binds.items()),
            "--resolv-conf=off",
            "--timezone=off",
            "--console=pipe",
        ]

    def _mount(self) -> None:
        if self.root.is_mount():
            return
        upper, work = self.directory / "upper", self.directory / "work"
        for directory in (upper, work, self.root):
            directory.mkdir(parents=True, exist_ok=True)
        options = f"lowerdir={self.base},upperdir={upper},workdir={work}"
        run(["mount", "-t", "overlay", f"machine-{self.name}", "-o", options, str(self.root)])

    def _write_identity(self) -> None:
        etc = self.root / "etc"
        (etc / "hostname").write_text(self.name.split(".")[0] + "\n")
        (etc / "hosts").write_text(self.hosts_file)
        # An id that is already set spares the first boot's questions, and stays the same.
        machine_id = hashlib.sha256(f"{self.lan.run_id} {self.name}".encode()).hexdigest()[:32]
        (etc / "machine-id").write_text(machine_id + "\n")
        keys = self.root / "root/.ssh/authorized_keys"
        keys.parent.mkdir(mode=0o700, exist_ok=True)
        keys.write_text(self.public_key)
        keys.chmod(0o600)

    def _last_console_line(self) -> str:
        try:
            lines = self.console.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "its console is empty"


def _was_not_begun(done: Completed) -> bool:
    """Whether ssh itself found nobody who would have run the command."""
    said = ("ssh: connect to host", "banner exchange", "kex_exchange_identification")
    return done.returncode == 255 and any(words in done.stderr for words in said)


def unmount(tree: Path) -> None:
    """Unmount ``tree`` when it is mounted; a last file handle may take a moment to go."""
    deadline = time.monotonic() + PATIENCE
    while tree.is_mount():
        done = attempt(["umount", str(tree)])
        if done.returncode and time.monotonic() > deadline:
            raise LateMachineError(f"timed out: {tree} stays mounted: {last_words(done)}")
        if done.returncode:
            time.sleep(0.1)
