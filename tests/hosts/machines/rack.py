"""A rack: the machines of one run, with their network, shared directories and ssh access.

The names of all objects of a rack contain an id that is derived from its state directory. Two concurrent runs share no
object, and ``down`` can remove all objects without the record.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from activemq_fleet.artifacts import cache_directory

from . import base, kernel
from .cgroups import ControlGroup, find_hierarchies
from .commands import run
from .errors import MachinesError
from .machine import Machine, unmount
from .network import GATEWAY, Lan

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")
_OWNERS = Path("/run/activemq-fleet-machines")
_RECORD = "rack.json"
_PROGRAMS = ("ssh", "scp", "sftp")
_FILES = (_RECORD, "id", "id.pub", "ssh_config", "lock", *_PROGRAMS)
# The default key exchange of OpenSSH 9 resists quantum computers and takes two thirds of the CPU time of a login.
_SSH_CONFIG = """\
Host *
    User root
    IdentityFile "{state}/id"
    IdentitiesOnly yes
    UserKnownHostsFile /dev/null
    StrictHostKeyChecking no
    LogLevel ERROR
    ConnectTimeout 15
    KexAlgorithms curve25519-sha256
    ServerAliveInterval 5
    ServerAliveCountMax 4
"""


def base_directory() -> Path:
    """Return the directory of the base: it is in the cache of the library."""
    return cache_directory() / "hosts"


@dataclass(frozen=True, slots=True)
class Rack:
    """The machines of one state directory; a context manager that calls ``down`` at the end.

    >>> with Rack(Path("/tmp/r")) as rack:                              # doctest: +SKIP
    ...     rack.up({"mq01-a": "10.77.0.11", "mq01-b": "10.77.0.12"}, shares=["/srv/activemq"])
    ...     rack["mq01-a"].power_off()
    """

    state: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", Path(self.state).resolve())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.down()

    @property
    def run_id(self) -> str:
        return hashlib.sha256(str(self.state).encode()).hexdigest()[:8]

    @property
    def lan(self) -> Lan:
        return Lan(self.run_id)

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines of the record, in their order."""
        record = self._record()
        return tuple(self._machine(name, record) for name in record["machines"])

    def __getitem__(self, name: str) -> Machine:
        record = self._record()
        if name not in record["machines"]:
            known = ", ".join(record["machines"]) or "none"
            raise MachinesError(f"{self.state} has no machine {name}; its machines: {known}")
        return self._machine(name, record)

    def serve(self, software: Path) -> None:
        """Link a directory of the host as ``STATE.software``, which inventories contain; replace an earlier link."""
        link = self.state.with_name(f"{self.state.name}.software")
        link.unlink(missing_ok=True)
        link.symlink_to(software)

    def shared(self, target: str) -> Path:
        """Return the directory of the controller that the machines mount at ``target``."""
        return self.state / "shared" / target.strip("/").replace("/", "-")

    def up(
        self,
        machines: Mapping[str, str],
        *,
        shares: tuple[str, ...] | list[str] = (),
        owner: int | None = None,
    ) -> None:
        """Start ``machines`` (name -> address in 10.77.0.0/24) and wait until all are ready.

        ``shares`` are mount points of directories that all machines share. A second call starts the machines that are
        off. ``owner`` is the process that uses the rack: if it was killed, the next ``up`` removes its rack.

        Raises UnsupportedError if this system does not support machines, and MachinesError if one does not start; then
        the rack is removed.
        """
        _check(machines)
        kernel.require()
        remove_orphaned_racks()
        root = base.find_or_build(base_directory())
        with self._locked():
            try:
                self._prepare(machines, shares, root, owner)
                for machine in self.machines:
                    machine.power_on()
                for machine in self.machines:
                    machine.wait_until_ready()
            except BaseException:
                self._down()
                raise

    def down(self) -> None:
        """Stop all machines and remove all objects that ``up`` created, including the directory."""
        if self.state.exists():
            with self._locked():
                self._down()
            with contextlib.suppress(OSError):  # a directory with other files remains
                self.state.rmdir()
        else:
            self._down()

    def _down(self) -> None:
        hierarchies = find_hierarchies()
        group = ControlGroup(self._group, hierarchies)
        group.kill()
        self.lan.remove()
        group.remove()
        for tree in sorted(self.state.glob("machines/*/tree")):
            unmount(tree)
        for directory in (self.state / "machines", self.state / "shared", self._sockets):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(directory)
        for name in _FILES:
            (self.state / name).unlink(missing_ok=True)
        (_OWNERS / self.run_id).unlink(missing_ok=True)

    @property
    def _sockets(self) -> Path:
        """The directory of the sockets of ssh; its path is short, because that of a socket must be."""
        return Path(f"/run/{self.lan.namespace}")

    @property
    def _group(self) -> str:
        return f"activemq-fleet-{self.run_id}"

    def _prepare(self, machines: Mapping[str, str], shares: Any, root: Path, owner: int | None) -> None:
        if not (self.state / "id").exists():
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.state / "id")])
        self._write_ssh()
        for target in shares:
            self.shared(target).mkdir(parents=True, exist_ok=True)
        record = {"machines": dict(machines), "shares": list(shares), "base": str(root)}
        (self.state / _RECORD).write_text(json.dumps(record, indent=2) + "\n")
        _OWNERS.mkdir(parents=True, exist_ok=True)
        claim = {"state": str(self.state), "owner": owner, "started": _start_time(owner)}
        (_OWNERS / self.run_id).write_text(json.dumps(claim))
        self.lan.create()

    def _write_ssh(self) -> None:
        """Write wrappers of ssh, scp and sftp that connect from the network of the run."""
        config = self.state / "ssh_config"
        config.write_text(_SSH_CONFIG.format(state=self.state))
        self._sockets.mkdir(mode=0o700, exist_ok=True)
        for program in _PROGRAMS:
            wrapper = self.state / program
            # The first value of an option has effect. Ansible would use one path for all racks with this address.
            socket = f"ControlPath={self._sockets}/%C"
            argv = self.lan.inside(program, "-F", f"'{config}'", "-o", socket)
            wrapper.write_text(f'#!/bin/sh\nexec {" ".join(argv)} "$@"\n')
            wrapper.chmod(0o755)

    def _record(self) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads((self.state / _RECORD).read_text())
        except FileNotFoundError:
            raise MachinesError(f"{self.state} has no machines: start some with `up`") from None
        return record

    def _machine(self, name: str, record: Mapping[str, Any]) -> Machine:
        machines: dict[str, str] = record["machines"]
        return Machine(
            name=name,
            address=machines[name],
            number=list(machines).index(name) + 1,
            directory=self.state / "machines" / name,
            base=Path(record["base"]),
            lan=self.lan,
            group=ControlGroup(f"{self._group}/{name}", find_hierarchies()),
            ssh_program=self.state / "ssh",
            binds={target: self.shared(target) for target in record["shares"]},
            hosts_file=_hosts_file(machines),
            public_key=(self.state / "id.pub").read_text(),
        )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.state.mkdir(parents=True, exist_ok=True)
        with (self.state / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def remove_orphaned_racks() -> None:
    """Remove the racks whose owner was killed; only one process at a time does this."""
    if not _OWNERS.is_dir():
        return
    with _OWNERS.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for claim in sorted(_OWNERS.glob("*")):
            try:
                record = json.loads(claim.read_text())
            except (OSError, ValueError):
                continue
            if record["owner"] is not None and _start_time(record["owner"]) != record["started"]:
                Rack(Path(record["state"])).down()


def _start_time(pid: int | None) -> str | None:
    """Return the start of ``pid`` in clock ticks since boot, which differs if the number is reused."""
    if pid is None:
        return None
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def _check(machines: Mapping[str, str]) -> None:
    if not machines:
        raise MachinesError("no machine is given: give NAME=ADDRESS")
    for name, address in machines.items():
        if not _NAME.fullmatch(name):
            raise MachinesError(f"{name!r}: a machine's name is a host name")
        try:
            is_usable = any(address == str(host) for host in GATEWAY.network.hosts())
        except ValueError:
            is_usable = False
        if not is_usable or address == str(GATEWAY.ip):
            raise MachinesError(f"{name}: address {address} is none of {GATEWAY.network}")
    if len(set(machines.values())) < len(machines):
        raise MachinesError("two machines with one address: give each machine a separate address")


def _hosts_file(machines: Mapping[str, str]) -> str:
    lines = ["127.0.0.1 localhost", "::1 localhost"]
    for name, address in machines.items():
        short = name.split(".")[0]
        lines.append(f"{address} {name}" + (f" {short}" if short != name else ""))
    return "\n".join(lines) + "\n"
