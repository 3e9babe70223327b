"""One bridge and one network namespace per machine, all in a separate namespace of the run.

The bridge and both ends of every cable are created in namespaces. No interface of the system is read or changed, so
that two runs may use the same addresses at the same time.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

from .commands import attempt, run
from .errors import LateMachineError, MachinesError

GATEWAY = IPv4Interface("10.77.0.1/24")
"""The address of the bridge and of the controller, and the default route of the machines. Without a default route, a
multicast sender without an interface receives ENETUNREACH."""

_NAMESPACES = Path("/run/netns")


@dataclass(frozen=True, slots=True)
class Lan:
    """The network of one run; the names of all its objects contain ``run_id``."""

    run_id: str

    @property
    def namespace(self) -> str:
        """The namespace of the bridge, from which the controller connects to the machines."""
        return f"amqf-{self.run_id}"

    @property
    def path(self) -> Path:
        return _NAMESPACES / self.namespace

    def namespace_of(self, machine: str) -> str:
        return f"{self.namespace}-{machine}"

    def path_of(self, machine: str) -> Path:
        return _NAMESPACES / self.namespace_of(machine)

    def inside(self, *argv: str) -> list[str]:
        """Return a command that runs ``argv`` in the namespace of the bridge. ``ip netns exec`` would remount /sys."""
        return ["nsenter", f"--net={self.path}", "--", *argv]

    def create(self) -> None:
        if self.path.exists():
            return
        _ip("netns", "add", self.namespace)
        self._ip("link", "set", "lo", "up")
        self._ip("link", "add", "lan", "type", "bridge", "mcast_snooping", "0")
        self._ip("addr", "add", str(GATEWAY), "dev", "lan")
        self._ip("link", "set", "lan", "up")

    def plug_in(self, machine: str, address: str, port: int) -> None:
        """Create a namespace for ``machine`` with ``eth0`` on the ``port`` of the bridge."""
        name = self.namespace_of(machine)
        if self.path_of(machine).exists():
            return
        _ip("netns", "add", name)
        try:
            self._connect(name, address, port)
        except MachinesError:
            self.unplug(machine, port)
            raise

    def _connect(self, name: str, address: str, port: int) -> None:
        self._ip("link", "add", f"port{port}", "type", "veth", "peer", "eth0", "netns", name)
        self._ip("link", "set", f"port{port}", "master", "lan", "up")
        _ip("-n", name, "link", "set", "lo", "up")
        # The same hardware address after every power-off, because the other machines cache it.
        octets = ":".join(f"{octet:02x}" for octet in IPv4Address(address).packed)
        _ip("-n", name, "link", "set", "eth0", "address", f"02:00:{octets}")
        _ip("-n", name, "addr", "add", f"{address}/{GATEWAY.network.prefixlen}", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "route", "add", "default", "via", str(GATEWAY.ip))

    def pull_cable(self, machine: str) -> None:
        """Disconnect ``machine``, so that it sends nothing, not even a TCP reset."""
        _ip("-n", self.namespace_of(machine), "link", "set", "eth0", "down")

    def push_cable(self, machine: str) -> None:
        name = self.namespace_of(machine)
        _ip("-n", name, "link", "set", "eth0", "up")
        deadline = time.monotonic() + 60  # the kernel reports the carrier up to a second later
        while "LOWER_UP" not in _ip("-n", name, "link", "show", "eth0"):
            if time.monotonic() > deadline:
                raise LateMachineError(f"{machine}: timed out: eth0 has no carrier")
            time.sleep(0.02)
        _ip("-n", name, "route", "replace", "default", "via", str(GATEWAY.ip))

    def unplug(self, machine: str, port: int) -> None:
        """Remove the namespace of the machine with its interface and its half-open connections."""
        if self.path_of(machine).exists():
            # The kernel removes a namespace some time after its name, and the cable would still use the port.
            attempt(["ip", "-n", self.namespace, "link", "delete", f"port{port}"])
        _remove_namespace(self.namespace_of(machine))

    def remove(self) -> None:
        """Remove every namespace of the run, including those of machines that the record lacks."""
        if _NAMESPACES.is_dir():
            for path in sorted(_NAMESPACES.glob(f"{self.namespace}-*")):
                _remove_namespace(path.name)
        _remove_namespace(self.namespace)

    def _ip(self, *argv: str) -> None:
        _ip("-n", self.namespace, *argv)


def _ip(*argv: str) -> str:
    return run(["ip", *argv])


def _remove_namespace(name: str) -> None:
    if not (_NAMESPACES / name).exists():
        return
    # Processes that run in it, such as a persistent connection of ssh, belong to this run.
    for pid in _ip("netns", "pids", name).split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
    completed = attempt(["ip", "netns", "delete", name])
    if (_NAMESPACES / name).exists():
        raise MachinesError(f"the network namespace {name} cannot be removed: {completed.stderr.strip()}")
