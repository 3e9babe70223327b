"""A rack: the machines of one run, with their network, shared directories and way in.

Everything a rack makes carries an id that follows from its state directory. So two runs
side by side share nothing, and ``down`` finds what to remove even if its record is lost.
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
_SSH_CONFIG = """\
Host *
    User root
    IdentityFile "{state}/id"
    IdentitiesOnly yes
    UserKnownHostsFile /dev/null
    StrictHostKeyChecking no
    LogLevel ERROR
    ConnectTimeout 15
    ServerAliveInterval 5
    ServerAliveCountMax 4
"""


def base_directory() -> Path:
    """Where the base is kept: in the library's own cache."""
    return cache_directory() / "hosts"


@dataclass(frozen=True, slots=True)
class Rack:
    """The machines of one state directory; a context manager that always ends with ``down``.

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
        """The machines on record, in the order in which they were given."""
        record = self._record()
        return tuple(self._machine(name, record) for name in record["machines"])

    def __getitem__(self, name: str) -> Machine:
        record = self._record()
        if name not in record["machines"]:
            known = ", ".join(record["machines"]) or "none"
            raise MachinesError(f"no machine {name} in {self.state}; there are: {known}")
        return self._machine(name, record)

    def serve(self, software: Path) -> None:
        """Have a directory of the host's at ``STATE.software``, which inventories name. Once more does no harm."""
        link = self.state.with_name(f"{self.state.name}.software")
        link.unlink(missing_ok=True)
        link.symlink_to(software)

    def shared(self, target: str) -> Path:
        """The controller's directory behind the mount point ``target``."""
        return self.state / "shared" / target.strip("/").replace("/", "-")

    def up(
        self,
        machines: Mapping[str, str],
        *,
        shares: tuple[str, ...] | list[str] = (),
        owner: int | None = None,
    ) -> None:
        """Start ``machines`` (name -> address in 10.77.0.0/24) and wait until all are ready.

        ``shares`` are mount points of directories that all of them share. Calling it again
        starts those that are off. ``owner`` is the process without which the rack is of no
        use: a later ``up`` of anyone clears what a killed owner left behind.

        Raises UnsupportedError when this system cannot run machines, MachinesError when one does
        not start; then everything is taken down again.
        """
        _check(machines)
        kernel.require()
        sweep()
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
        """Stop all machines and remove everything that ``up`` made, the directory included."""
        if self.state.exists():
            with self._locked():
                self._down()
            with contextlib.suppress(OSError):  # what is not ours stays, and the directory then
                self.state.rmdir()
        else:
            self._down()

    def _down(self) -> None:
        hierarchies = find_hierarchies()
        whole = ControlGroup(self._group, hierarchies)
        whole.kill()
        self.lan.remove()
        whole.remove()
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
        """Where ssh keeps connections open; short, because a socket's path must be."""
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
        claim = {"state": str(self.state), "owner": owner, "started": _started(owner)}
        (_OWNERS / self.run_id).write_text(json.dumps(claim))
        self.lan.create()

    def _write_ssh(self) -> None:
        """Programs like ssh, scp and sftp that look from inside the run's own network."""
        config = self.state / "ssh_config"
        config.write_text(_SSH_CONFIG.format(state=self.state))
        self._sockets.mkdir(mode=0o700, exist_ok=True)
        for program in _PROGRAMS:
            wrapper = self.state / program
            # First given, first obeyed: Ansible's own path would be that of another rack with this address.
            socket = f"ControlPath={self._sockets}/%C"
            argv = self.lan.inside(program, "-F", f"'{config}'", "-o", socket)
            wrapper.write_text(f'#!/bin/sh\nexec {" ".join(argv)} "$@"\n')
            wrapper.chmod(0o755)

    def _record(self) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads((self.state / _RECORD).read_text())
        except FileNotFoundError:
            raise MachinesError(f"no machines in {self.state}: start some with up") from None
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


def sweep() -> None:
    """Take down the racks whose owner was killed before it could do so itself; one process at a time does."""
    if not _OWNERS.is_dir():
        return
    with _OWNERS.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for claim in sorted(_OWNERS.glob("*")):
            try:
                data = json.loads(claim.read_text())
            except (OSError, ValueError):
                continue
            if data["owner"] is not None and _started(data["owner"]) != data["started"]:
                Rack(Path(data["state"])).down()


def _started(pid: int | None) -> str | None:
    """When ``pid`` was started, in clock ticks since boot: a number used again differs."""
    if pid is None:
        return None
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def _check(machines: Mapping[str, str]) -> None:
    if not machines:
        raise MachinesError("no machine given: NAME=ADDRESS")
    for name, address in machines.items():
        if not _NAME.fullmatch(name):
            raise MachinesError(f"{name!r}: a machine's name is a host name")
        try:
            usable = any(address == str(host) for host in GATEWAY.network.hosts())
        except ValueError:
            usable = False
        if not usable or address == str(GATEWAY.ip):
            raise MachinesError(f"{name}: address {address} is none of {GATEWAY.network}")
    if len(set(machines.values())) < len(machines):
        raise MachinesError("two machines with one address")


def _hosts_file(machines: Mapping[str, str]) -> str:
    lines = ["127.0.0.1 localhost", "::1 localhost"]
    for name, address in machines.items():
        short = name.split(".")[0]
        lines.append(f"{address} {name}" + (f" {short}" if short != name else ""))
    return "\n".join(lines) + "\n"
