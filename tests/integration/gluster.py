"""A GlusterFS volume of two bricks, in private namespaces, for brokers that share a store on it.

Use it in a program that runs ``in_namespaces``: the kernel removes all daemons and mounts with the last process.
GlusterFS refuses loopback addresses, so its server has the address of a bridge. Each client is in a separate network
namespace, whose connection can be cut.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil

from tests.integration.waiting import PATIENCE, until

_SERVER = "10.77.0.1"
_PROGRAMS = ("glusterd", "gluster", "glusterfs", "ip", "nft", "nsenter", "unshare")
_PRIVATE_DIRECTORIES = ("/run", "/var/lib/glusterd", "/var/log/glusterfs")
SIZE = "600m"
"""Size of the file system of both bricks."""
PING_TIMEOUT = 5
"""Seconds after which a client that does not respond counts as disconnected (network.ping-timeout)."""


def missing_requirement() -> str:
    """Return why GlusterFS cannot run on this machine; empty if it can."""
    if os.geteuid() != 0:
        return "GlusterFS requires root: run the tests as root"
    if not os.path.exists("/dev/fuse"):
        return "this kernel has no FUSE (/dev/fuse)"
    absent = [name for name in _PROGRAMS if not shutil.which(name)]
    if absent:
        return f"these programs are not installed: {', '.join(absent)}. Run scripts/setup.sh --gluster --packets"
    return ""


def _run(*command: str) -> str:
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        raise AssertionError(f"the command {' '.join(command)} failed: {completed.stdout}{completed.stderr}")
    return completed.stdout


def _process(name: str, word: str) -> psutil.Process:
    """Return the running process with a name and with a word in its command line."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.name() == name and word in process.cmdline():
                return process
    raise AssertionError(f"no process {name} with {word} in its command line runs")


class GlusterFS:
    """A volume of two replicated bricks; ``mount`` starts a separate client for a directory."""

    def __init__(self, directory: Path) -> None:
        """Start the volume in the namespaces of this process, with its bricks below ``directory``."""
        self.directory = directory
        self._bricks = directory / "bricks"
        self._bricks.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(self._bricks))
        for path in _PRIVATE_DIRECTORIES:
            os.makedirs(path, exist_ok=True)
            _run("mount", "-t", "tmpfs", "none", path)
        os.makedirs("/run/gluster")
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "gluster", "type", "bridge")
        _run("ip", "address", "add", f"{_SERVER}/24", "dev", "gluster")
        _run("ip", "link", "set", "gluster", "up")
        _run("glusterd")
        until(self._responds, PATIENCE, "glusterd responds")
        bricks = [f"{_SERVER}:{self._bricks}/{number}" for number in (1, 2)]
        self.gluster("volume", "create", "store", "replica", "2", *bricks, "force")
        self.gluster("volume", "set", "store", "network.ping-timeout", str(PING_TIMEOUT))
        self.gluster("volume", "start", "store")
        self._clients: dict[Path, psutil.Process] = {}

    @staticmethod
    def gluster(*words: str) -> str:
        """Run a command of the GlusterFS console."""
        return _run("gluster", "--mode=script", *words)

    def _responds(self) -> bool:
        return (
            subprocess.run(["gluster", "--mode=script", "pool", "list"], capture_output=True, check=False).returncode
            == 0
        )

    def mount(self, directory: Path) -> None:
        """Mount the volume at a directory with a client in a separate network namespace."""
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

    def _interface(self, directory: Path) -> str:
        return f"client{list(self._clients).index(directory) + 1}"

    def cut(self, directory: Path) -> None:
        """Disconnect the client of a mount from the network."""
        _run("ip", "link", "set", self._interface(directory), "down")

    def join(self, directory: Path) -> None:
        """Connect the client of a mount to the network again."""
        _run("ip", "link", "set", self._interface(directory), "up")

    def client(self, directory: Path) -> psutil.Process:
        """Return the process that serves a mount."""
        return self._clients[directory]

    def brick(self, number: int) -> psutil.Process:
        """Return the process of a brick."""
        return _process("glusterfsd", str(self._bricks / str(number)))

    def cut_from_brick(self, directory: Path, number: int) -> None:
        """Disconnect the client of a mount from one brick; the other brick stays reachable."""
        words = self.brick(number).cmdline()
        port = words[words.index("--brick-port") + 1]
        inside = ("nsenter", f"--net=/run/netns/{self._interface(directory)}", "nft")
        _run(*inside, "add table inet cut")
        _run(*inside, "add chain inet cut input { type filter hook input priority 0; }")
        _run(*inside, f"add rule inet cut input tcp sport {port} drop")

    def join_bricks(self, directory: Path) -> None:
        """Connect the client of a mount to both bricks again."""
        _run("nsenter", f"--net=/run/netns/{self._interface(directory)}", "nft", "delete table inet cut")

    def fill(self) -> Path:
        """Fill the file system of the bricks; return the file that fills it."""
        filler = self._bricks / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 16)):
                pass
        return filler

    def split_brain(self) -> list[str]:
        """Return the files whose copies on the bricks differ, and which GlusterFS does not heal automatically."""
        report = self.gluster("volume", "heal", "store", "info", "split-brain")
        return sorted({line for line in report.splitlines() if line.startswith(("/", "<gfid"))})

    def clear_locks(self, path: str) -> None:
        """Remove all POSIX locks of a file of the volume; their holders do not notice it.

        A range such as ``0,0-0`` removes only the locks of exactly this range, such as the lock of a guard. The lock of
        a broker has another range.
        """
        self.gluster("volume", "clear-locks", "store", path, "kind", "all", "posix")
