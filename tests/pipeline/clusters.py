"""A standalone cluster on loopback: one master, workers of one core, from an empty environment.

Where the kernel lets, they run in a mount namespace in which the checkout and its virtual environment are
empty directories: what Python functions need can only come from the archive that is shipped.
"""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import psutil
import pyspark

from activemq_fleet.spark.prerequisites import find_supported_java_home
from tests.waiting import LateError, wait_until

CHECKOUT = Path(__file__).resolve().parents[2]
# A test's job ends before the second compiler's work pays.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PATIENCE = 600.0  # seconds, for a machine that others load
_MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"


def python_prefix() -> str:
    """Where the cluster's Python is: the system's when it is of our version, so that ours can be hidden."""
    system = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    return "/usr" if system.exists() else sys.base_prefix


@cache
def can_hide() -> bool:
    """True where this user may have mounts of its own."""
    probe = ["unshare", "--mount", "--map-root-user", "sh", "-c", "mount -t tmpfs none /mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def free_port() -> int:
    """A port below those that the kernel gives out by itself; by chance, because others look for one, too."""
    for port in random.sample(range(21000, 32000), 200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no port is free on 127.0.0.1")


@dataclass
class Cluster:
    """``place`` has logs and work directories. Every process is ended by its own id."""

    place: Path
    url: str = ""
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _names: dict[int, str] = field(default_factory=dict)

    def start(self, workers: int = 2) -> None:
        """Start the master and its workers, and wait until these are registered."""
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        arguments = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        self._spawn("master", [_MASTER, *arguments])
        self._until("the master is up", lambda: "I have been elected leader" in self.log("master"))
        for number in range(workers):
            self.add_worker(number)
        self._until(
            f"{workers} workers are registered", lambda: self.log("master").count("Registering worker") >= workers
        )

    @property
    def started(self) -> int:
        """How many processes there have been: a number for one more worker."""
        return len(self._started)

    def add_worker(self, number: int) -> subprocess.Popen[bytes]:
        """One more worker, of one core."""
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
        work = self.place / f"work{number}"
        worker = self._spawn(f"worker{number}", [WORKER, *arguments, "--work-dir", str(work), self.url])
        self.workers.append(worker)
        return worker

    @contextmanager
    def connect(self, *settings: str) -> Iterator[str]:
        """A Spark Connect server of its own, on this machine alone; its URL. It ends with the block."""
        port = free_port()
        confs = [f"spark.connect.grpc.binding.port={port}", "spark.connect.grpc.binding.address=127.0.0.1", *settings]
        words = [word for conf in confs for word in ("--conf", conf)]
        submit = ["org.apache.spark.deploy.SparkSubmit", "--class", _CONNECT, *words, "spark-internal"]
        server = self._spawn("connect", submit)
        try:
            self._until("the Connect server is up", lambda: _answers(port))
            yield f"sc://127.0.0.1:{port}"
        finally:
            self.kill(server)

    def log(self, name: str) -> str:
        """What a process said so far."""
        return (self.place / f"{name}.log").read_text(errors="replace")

    def kill(self, worker: subprocess.Popen[bytes]) -> list[int]:
        """Kill a worker and its executors, at once and without warning; their process ids."""
        with suppress(psutil.NoSuchProcess):
            family = [psutil.Process(worker.pid), *psutil.Process(worker.pid).children(recursive=True)]
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)
            worker.wait(timeout=PATIENCE)
            return [process.pid for process in family]
        return []

    def stop(self) -> None:
        """End everything that was started here."""
        for process in reversed(self._started):
            if process.poll() is None:
                self.kill(process)

    def _spawn(self, name: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        spark = self.place / "spark"
        home = self.place / "home"
        home.mkdir(exist_ok=True)
        environment = {
            "HOME": str(home),
            "JAVA_HOME": str(find_supported_java_home()),
            "PATH": "/usr/bin:/bin",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "SPARK_HOME": str(spark),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.place / f"local-{name}"),
        }
        command = _hidden(spark) if can_hide() else _linked(spark)
        with (self.place / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, str(spark / "bin" / "spark-class"), *arguments],
                cwd=home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._started.append(process)
        self._names[process.pid] = name
        return process

    def _until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until it holds. LateError with the ends of all logs, at once when a process has ended by itself."""

        def comes() -> bool:
            if holds():
                return True
            if dead := [self._names[one.pid] for one in self._started if one.poll() not in (None, -signal.SIGKILL)]:
                raise LateError(f"{', '.join(dead)} ended before {what}: {self.ends()}")
            return False

        wait_until(comes, what, seen=self.ends, patience=PATIENCE)

    def ends(self) -> str:
        """The last that every process said."""
        return "\n".join(f"== {name}: {self.log(name)[-1500:]}" for name in dict.fromkeys(self._names.values()))

    def local_of(self, worker: subprocess.Popen[bytes]) -> Path:
        """Where a worker's executors keep their temporary files, those of shuffles among them."""
        return self.place / f"local-{self._names[worker.pid]}"


def _hidden(spark: Path) -> list[str]:
    """Spark mounted at a place of its own, and nothing to be seen of where it came from."""
    spark.mkdir(exist_ok=True)
    covered = {CHECKOUT, Path(sys.prefix)}
    if python_prefix() != sys.base_prefix:
        covered.add(Path(sys.base_prefix))
    steps = [f"mount --bind '{Path(pyspark.__file__).parent}' '{spark}'"]
    steps += [f"if [ -d '{path}' ]; then mount -t tmpfs none '{path}'; fi" for path in sorted(covered)]
    return ["unshare", "--mount", "--map-root-user", "sh", "-c", " && ".join([*steps, 'exec "$@"']), "sh"]


def _linked(spark: Path) -> list[str]:
    """No mounts here: at least no variable leads to the checkout."""
    if not spark.is_symlink():
        spark.symlink_to(Path(pyspark.__file__).parent)
    return []


@contextmanager
def cluster(place: Path, workers: int = 2) -> Iterator[Cluster]:
    """A cluster for the length of the block."""
    running = Cluster(place)
    try:
        running.start(workers)
        yield running
    finally:
        running.stop()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
