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
from .commands import PATIENCE, Completed, attempt, last_line_of, run
from .errors import LateMachineError, MachinesError
from .network import Lan

_CAPABILITY = "CAP_NET_ADMIN"
"""nftables rules in a machine require it, and only affect the interfaces of the machine."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a rack. ``number`` is its position in the rack, and its port on the bridge.

    ``binds`` maps a mount point of the machine to the shared directory of the controller. Its disk
    (``directory``/upper) remains after ``power_off``; ``discard`` removes it.
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
        """The root directory of the machine on the controller, while it is mounted."""
        return self.directory / "tree"

    @property
    def console(self) -> Path:
        return self.directory / "console.log"

    def is_running(self) -> bool:
        return self.group.is_populated()

    def power_on(self) -> None:
        """Start the machine, unless it runs; it is usable after ``wait_until_ready``."""
        if self.is_running():
            return
        self._mount()
        self._write_identity()
        self.lan.plug_in(self.name, self.address, self.number)
        self.group.create()
        with self.console.open("ab") as console:
            process = subprocess.Popen(
                ["setsid", "--fork", *self.group.command_in_group(self._nspawn())],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
            )
        process.wait(timeout=PATIENCE)
        # ``power_off`` requires that the machine is in its group.
        try:
            self.group.wait_until(populated=True)
        except MachinesError as error:
            raise MachinesError(f"{self.name}: the machine does not start: {self._last_console_line()}") from error

    def wait_until_ready(self, timeout: float = PATIENCE) -> None:
        """Return when sshd accepts logins and systemd has started all units without a failure."""
        self.wait_until_reached(timeout)
        # Repeat the query while the system waits for D-Bus or for a unit that restarts.
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
        """Return when the machine executes commands."""
        deadline = time.monotonic() + timeout
        while not self._is_reached():
            if not self.is_running():
                raise MachinesError(f"{self.name}: the machine has stopped unexpectedly: {self._last_console_line()}")
            if time.monotonic() > deadline:
                raise LateMachineError(
                    f"{self.name}: timed out: no login within {timeout:g} s: {self._last_console_line()}"
                )
            time.sleep(0.1)

    def _is_reached(self) -> bool:
        try:
            return self.attempt("true", timeout=30).returncode == 0
        except MachinesError:  # sshd responds, but does not execute commands yet
            return False

    def _system_state(self, timeout: float) -> str:
        state = self.attempt("systemctl", "is-system-running", "--wait", timeout=timeout)
        return state.stdout.strip() or last_line_of(state)

    def power_off(self) -> None:
        """Cut the power: disconnect the network, then kill every process; the disk remains.

        No process receives a signal that it can handle, and no peer receives a FIN or a reset. The kernel releases a
        lock on a shared directory immediately, because the directory is local to the controller. Over NFS, the lock
        would remain until its lease ends.
        """
        if self.lan.path_of(self.name).exists():
            self.lan.pull_cable(self.name)
        self.group.kill()
        self.lan.unplug(self.name, self.number)

    def freeze(self) -> None:
        """Freeze every process without a signal, as a hung hypervisor does."""
        self.group.freeze(frozen=True)

    def thaw(self) -> None:
        self.group.freeze(frozen=False)

    def isolate(self) -> None:
        """Disconnect the running machine from the network; ``reconnect`` reverts this."""
        self.lan.pull_cable(self.name)

    def reconnect(self) -> None:
        """Reconnect the machine to the network; return when it executes commands."""
        self.lan.push_cable(self.name)
        self.wait_until_reached()

    def attempt(self, *argv: str, stdin: str | None = None, timeout: float = PATIENCE) -> Completed:
        """Run ``argv`` as root on the machine over ssh, with any exit status."""
        command = [str(self.ssh_program), self.address, shlex.join(argv)]
        return attempt(command, stdin=stdin, timeout=timeout)

    def run(self, *argv: str, stdin: str | None = None, timeout: float = PATIENCE) -> str:
        """Run ``argv`` as root; return its output. Raises MachinesError if it fails, or ssh for a minute."""
        deadline = time.monotonic() + 60
        while _failed_to_connect(completed := self.attempt(*argv, stdin=stdin, timeout=timeout)):
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
        if completed.returncode:
            raise MachinesError(f"{self.name}: {shlex.join(argv)}: {last_line_of(completed)}")
        return completed.stdout

    def journal(self, unit: str | None = None) -> str:
        """Return the journal from the disk of the machine, which may be off, frozen or broken."""
        command = ["journalctl", "--no-pager", "-o", "short-precise"]
        command += ["-D", str(self.directory / "upper/var/log/journal")]
        if unit is not None:
            command += ["-u", unit]
        return run(command)

    def discard(self) -> None:
        """Stop the machine and remove its processes, namespace, group and disk."""
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
            f"--capability={_CAPABILITY}",
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
        # With a machine id, systemd skips the setup of a first boot, and the id does not change.
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
        return lines[-1] if lines else "the console is empty"


def _failed_to_connect(done: Completed) -> bool:
    """Return whether ssh failed before it executed the command."""
    messages = ("ssh: connect to host", "banner exchange", "kex_exchange_identification")
    return done.returncode == 255 and any(message in done.stderr for message in messages)


def unmount(tree: Path) -> None:
    """Unmount ``tree`` if it is mounted; retry while a file is open."""
    deadline = time.monotonic() + PATIENCE
    while tree.is_mount():
        completed = attempt(["umount", str(tree)])
        if completed.returncode and time.monotonic() > deadline:
            raise LateMachineError(f"timed out: {tree} cannot be unmounted: {last_line_of(completed)}")
        if completed.returncode:
            time.sleep(0.1)
