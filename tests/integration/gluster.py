"""A GlusterFS of two bricks, in namespaces that nobody else sees, for brokers that share a store on it.

``in_namespaces`` runs a module in a mount, network and process namespace of its own: with its last process all daemons
and mounts of it are gone. GlusterFS refuses loopback addresses, so its server has one of a bridge, and each
client is in a network namespace of its own, whose cable can be pulled.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.integration.waiting import PATIENCE, until

_SERVER = "10.77.0.1"
_PROGRAMS = ("glusterd", "gluster", "glusterfs", "ip", "nsenter", "unshare")
_OWN = ("/run", "/var/lib/glusterd", "/var/log/glusterfs")
PING_TIMEOUT = 5
"""Seconds after which a client that does not answer counts as away (network.ping-timeout)."""


def missing() -> str:
    """Return why GlusterFS cannot be run here, empty where it can."""
    if os.geteuid() != 0:
        return "GlusterFS needs root"
    if not os.path.exists("/dev/fuse"):
        return "this kernel has no FUSE (/dev/fuse)"
    absent = [name for name in _PROGRAMS if not shutil.which(name)]
    return f"no {', '.join(absent)}: scripts/setup.sh --gluster installs GlusterFS" if absent else ""


def in_namespaces(module: str, *arguments: str, timeout: float) -> dict[str, Any]:
    """Run ``python -m module`` in namespaces of its own; return the JSON object on the last line of what it prints."""
    own = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command = [*own, sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{module} {arguments}: {done.stdout[-3000:]}{done.stderr[-6000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def _process(name: str, word: str) -> psutil.Process:
    """Return the running process of that name with that word in its command line."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.name() == name and word in process.cmdline():
                return process
    raise AssertionError(f"no {name} runs with {word}")


class GlusterFS:
    """A volume of two replicated bricks; ``mount`` gives a directory a client of its own."""

    def __init__(self, directory: Path) -> None:
        """Start it in this process' namespaces; bricks are below ``directory``."""
        self.directory = directory
        for path in _OWN:
            os.makedirs(path, exist_ok=True)
            _run("mount", "-t", "tmpfs", "none", path)
        os.makedirs("/run/gluster")
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "gluster", "type", "bridge")
        _run("ip", "address", "add", f"{_SERVER}/24", "dev", "gluster")
        _run("ip", "link", "set", "gluster", "up")
        _run("glusterd")
        until(self._answers, PATIENCE, "glusterd answers")
        bricks = [f"{_SERVER}:{directory}/brick{number}" for number in (1, 2)]
        self.gluster("volume", "create", "store", "replica", "2", *bricks, "force")
        self.gluster("volume", "set", "store", "network.ping-timeout", str(PING_TIMEOUT))
        self.gluster("volume", "start", "store")
        self._clients: dict[Path, psutil.Process] = {}

    @staticmethod
    def gluster(*words: str) -> str:
        """Run a command of the GlusterFS console."""
        return _run("gluster", "--mode=script", *words)

    def _answers(self) -> bool:
        return (
            subprocess.run(["gluster", "--mode=script", "pool", "list"], capture_output=True, check=False).returncode
            == 0
        )

    def mount(self, directory: Path) -> None:
        """Mount the volume at a directory, by a client in a network namespace of its own."""
        number = len(self._clients) + 1
        name = f"client{number}"
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        _run("ip", "link", "set", name, "master", "gluster", "up")
        inside = ["nsenter", f"--net=/run/netns/{name}"]
        _run(*inside, "ip", "link", "set", "lo", "up")
        _run(*inside, "ip", "address", "add", f"10.77.0.{10 + number}/24", "dev", "eth0")
        _run(*inside, "ip", "link", "set", "eth0", "up")
        directory.mkdir(parents=True, exist_ok=True)
        _run(*inside, "glusterfs", f"--volfile-server={_SERVER}", "--volfile-id=store", str(directory))
        until(lambda: os.path.ismount(directory), PATIENCE, f"{directory} is mounted")
        self._clients[directory] = _process("glusterfs", str(directory))

    def _cable(self, directory: Path) -> str:
        return f"client{list(self._clients).index(directory) + 1}"

    def cut(self, directory: Path) -> None:
        """Pull the cable of the client of a mount."""
        _run("ip", "link", "set", self._cable(directory), "down")

    def join(self, directory: Path) -> None:
        """Plug the cable of the client of a mount in again."""
        _run("ip", "link", "set", self._cable(directory), "up")

    def client(self, directory: Path) -> psutil.Process:
        """Return the process that serves a mount."""
        return self._clients[directory]

    def brick(self, number: int) -> psutil.Process:
        """Return the process of a brick."""
        return _process("glusterfsd", f"{self.directory}/brick{number}")

    def clear_locks(self, path: str) -> None:
        """Take all POSIX locks of a file of the volume away, unseen by those who hold them."""
        self.gluster("volume", "clear-locks", "store", path, "kind", "all", "posix", "0,0-0")
