"""A real HAProxy on loopback with the configuration of a load balancer, in front of the brokers of a lab."""

from __future__ import annotations

import csv
import itertools
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from activemq_fleet.lab.lab import Lab
from activemq_fleet.render import render_balancer
from activemq_fleet.topology import Balancer
from activemq_fleet.topology.balancers import build_balancers_and_findings
from tests.integration.labs import write_inventory
from tests.waiting import LateError

PATIENCE = 120.0
"""Seconds to wait for a step that takes a few seconds on an idle machine."""
HOST = "lb1.example.com"
LOGIN = {"activemq_vip_username": "look", "activemq_vip_password": "made-up-look"}
_NUMBERS = itertools.count(2)
_UNPRIVILEGED = ("user ", "group ", "chroot ")

needs_haproxy = pytest.mark.skipif(
    shutil.which("haproxy") is None, reason="haproxy is not installed: run scripts/setup.sh --balancer"
)


def write_balanced_inventory(directory: Path, hosts: Sequence[str], **variables: Any) -> Path:
    """Write an inventory of brokers and one load balancer, with a loopback address for the only group."""
    variables_of_balancer = {"activemq_vip_interface": "lo", "activemq_vip_check_port": _free_port()} | LOGIN
    inventory = write_inventory(directory, hosts, vip=_free_address(), **variables)
    inventory_data = {"activemq_loadbalancers": {"hosts": {HOST: variables_of_balancer}}}
    (directory / "balancers.yml").write_text(json.dumps(inventory_data))
    return inventory.parent


def _free_address() -> str:
    """Return a different address for each call and process. Two HAProxys with one address would share its clients."""
    return f"127.{next(_NUMBERS)}.{os.getpid() >> 8 & 0xFF}.{os.getpid() & 0xFF or 1}"


def _free_port() -> int:
    for port in range(21000 + os.getpid() % 5000, 32000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("ports 21000 to 31999 are in use: stop the processes of earlier tests")


def wait(condition: Callable[[], object], complaint: Callable[[], str], timeout: float = PATIENCE) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise LateError(f"timed out after {timeout:g} s: {complaint()}")
        time.sleep(0.2)


@dataclass
class HAProxy:
    """HAProxy with the configuration that is rendered for the load balancer of a lab."""

    lab: Lab
    directory: Path
    login: bool = True
    balancer: Balancer = field(init=False)
    _socket: Path = field(init=False)

    def __enter__(self) -> Self:
        self.directory.mkdir()
        # The path of a socket may have 107 bytes, and the paths of pytest are longer.
        self._socket = Path(tempfile.mkdtemp(prefix="haproxy-")) / "stats"
        fleet = self.lab.client_fleet
        settings = fleet.balancers[0].settings
        if not self.login:
            settings = settings.model_copy(update={"vip_username": None, "vip_password": None})
        # The fleet has the loopback addresses of the brokers: the machine of the lab does not resolve their names.
        self.balancer = build_balancers_and_findings([HOST], {HOST: settings}, fleet.groups)[0][0]
        haproxy_cfg = render_balancer(self.balancer, reveal=True)["haproxy.cfg"].decode()
        if os.geteuid():
            haproxy_cfg = "".join(
                line for line in haproxy_cfg.splitlines(True) if not line.strip().startswith(_UNPRIVILEGED)
            )
        (self.directory / "haproxy.cfg").write_text(haproxy_cfg)
        (self.directory / "socket.cfg").write_text(f"global\n    stats socket {self._socket} level admin\n")
        self._log = (self.directory / "haproxy.log").open("w")
        self._process = subprocess.Popen(
            ["haproxy", "-db", "-f", "haproxy.cfg", "-f", "socket.cfg"],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        wait(self._responds, self.log_tail)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()
        shutil.rmtree(self._socket.parent)

    def _responds(self) -> bool:
        try:
            return bool(self.servers())
        except OSError:
            return False

    def log_tail(self) -> str:
        return (self.directory / "haproxy.log").read_text()[-2000:]

    @property
    def uid(self) -> int:
        """The uid of the account that HAProxy runs as."""
        return os.stat(f"/proc/{self._process.pid}").st_uid

    def at(self, connector: str) -> tuple[str, int]:
        """Return the address and port of the load balancer for a connector."""
        vip = self.balancer.addresses[0]
        return vip.address, next(front.port for front in vip.fronts if front.connector == connector)

    def servers(self) -> dict[tuple[str, str], dict[str, str]]:
        """Return the statistics of HAProxy, by backend and server."""
        with socket.socket(socket.AF_UNIX) as stats:
            stats.settimeout(PATIENCE)
            stats.connect(str(self._socket))
            stats.sendall(b"show stat\n")
            statistics_csv = b"".join(iter(lambda: stats.recv(65536), b"")).decode()
        server_rows = csv.DictReader(statistics_csv.removeprefix("# ").splitlines())
        return {
            (row["pxname"], row["svname"]): row for row in server_rows if row["svname"] not in ("FRONTEND", "BACKEND")
        }

    def up(self) -> set[str]:
        """Return the brokers whose connectors are all ``UP`` according to HAProxy, after at least one check."""
        states_by_server: dict[str, list[bool]] = {}
        for (_backend, server), row in self.servers().items():
            states_by_server.setdefault(server, []).append(row["status"] == "UP" and row["check_status"] == "L7OK")
        return {server for server, states in states_by_server.items() if all(states)}

    def down(self) -> set[str]:
        """Return the brokers whose connectors are all ``DOWN`` according to HAProxy."""
        states_by_server: dict[str, list[bool]] = {}
        for (_backend, server), row in self.servers().items():
            states_by_server.setdefault(server, []).append(row["status"] == "DOWN")
        return {server for server, states in states_by_server.items() if all(states)}

    def wait_for(self, *, up: set[str], down: set[str]) -> None:
        wait(
            lambda: (self.up(), self.down()) == (up, down),
            lambda: f"up {self.up()}, down {self.down()}: {self.log_tail()}",
        )

    def sessions(self, server: str) -> int:
        """Return how many sessions of clients a broker has had, without the checks."""
        return sum(int(row["stot"]) for (_backend, name), row in self.servers().items() if name == server)
