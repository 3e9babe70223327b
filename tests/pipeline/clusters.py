"""A standalone Spark cluster on loopback with an empty environment: one master, and workers with one core each.

If the kernel permits it, the cluster runs in a mount namespace in which the checkout and its virtual environment are
empty directories. Then Python functions can only use the archive that is shipped.
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

from activemq_fleet.spark.prerequisites import require_supported_java_home
from tests.waiting import LateError, wait_until

CHECKOUT = Path(__file__).resolve().parents[2]
# The job of a test ends before the work of the second compiler pays off.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PATIENCE = 600.0  # seconds, for a machine under load
_MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"


def python_prefix() -> str:
    """Return the prefix of the cluster's Python: the system's if it has our version, so that ours can be hidden."""
    system = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    return "/usr" if system.exists() else sys.base_prefix


@cache
def can_hide_checkout() -> bool:
    """Return whether this user can mount file systems in a separate namespace."""
    probe = ["unshare", "--mount", "--map-root-user", "sh", "-c", "mount -t tmpfs none /mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def free_port() -> int:
    """Return a random free port below the kernel's ephemeral ports; random, because other processes search, too."""
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
    """A cluster with logs and work directories in ``place``. Each process is terminated by its id."""

    place: Path
    url: str = ""
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _names: dict[int, str] = field(default_factory=dict)

    def start(self, workers: int = 2) -> None:
        """Start the master and its workers, and wait until the workers are registered."""
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
        """Return how many processes were started, which is a number for one more worker."""
        return len(self._started)

    def add_worker(self, number: int) -> subprocess.Popen[bytes]:
        """Start one more worker with one core."""
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
        work = self.place / f"work{number}"
        worker = self._spawn(f"worker{number}", [WORKER, *arguments, "--work-dir", str(work), self.url])
        self.workers.append(worker)
        return worker

    @contextmanager
    def connect(self, *settings: str) -> Iterator[str]:
        """Start a Spark Connect server on this machine only; yield its URL. The server stops with the block."""
        port = free_port()
        confs = [f"spark.connect.grpc.binding.port={port}", "spark.connect.grpc.binding.address=127.0.0.1", *settings]
        words = [word for conf in confs for word in ("--conf", conf)]
        submit = ["org.apache.spark.deploy.SparkSubmit", "--class", _CONNECT, *words, "spark-internal"]
        server = self._spawn("connect", submit)
        try:
            self._until("the Connect server is up", lambda: _accepts_connections(port))
            yield f"sc://127.0.0.1:{port}"
        finally:
            self.kill(server)

    def log(self, name: str) -> str:
        """Return the output of a process until now."""
        return (self.place / f"{name}.log").read_text(errors="replace")

    def kill(self, worker: subprocess.Popen[bytes]) -> list[int]:
        """Kill a worker and its executors at once; return their process ids."""
        with suppress(psutil.NoSuchProcess):
            family = [psutil.Process(worker.pid), *psutil.Process(worker.pid).children(recursive=True)]
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)
            worker.wait(timeout=PATIENCE)
            return [process.pid for process in family]
        return []

    def stop(self) -> None:
        """Terminate all processes that this cluster started."""
        for process in reversed(self._started):
            if process.poll() is None:
                self.kill(process)

    def _spawn(self, name: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        spark = self.place / "spark"
        home = self.place / "home"
        home.mkdir(exist_ok=True)
        environment = {
            "HOME": str(home),
            "JAVA_HOME": str(require_supported_java_home()),
            "PATH": "/usr/bin:/bin",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "SPARK_HOME": str(spark),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.place / f"local-{name}"),
        }
        command = _command_with_hidden_checkout(spark) if can_hide_checkout() else _command_with_linked_spark(spark)
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

    def _until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds. Raise LateError with the last output at the timeout, or if a process stops."""

        def holds() -> bool:
            if condition():
                return True
            stopped = [process for process in self._started if process.poll() not in (None, -signal.SIGKILL)]
            if stopped:
                names = ", ".join(self._names[process.pid] for process in stopped)
                raise LateError(f"{names} stopped before {what}: {self.last_output()}")
            return False

        wait_until(holds, what, seen=self.last_output, patience=PATIENCE)

    def last_output(self) -> str:
        """Return the end of the output of each process."""
        return "\n".join(f"== {name}: {self.log(name)[-1500:]}" for name in dict.fromkeys(self._names.values()))

    def local_of(self, worker: subprocess.Popen[bytes]) -> Path:
        """Return the directory of the temporary files of a worker's executors, including those of shuffles."""
        return self.place / f"local-{self._names[worker.pid]}"


def _command_with_hidden_checkout(spark: Path) -> list[str]:
    """Return a command that mounts Spark at a separate directory, and hides the directories that it comes from."""
    spark.mkdir(exist_ok=True)
    covered = {CHECKOUT, Path(sys.prefix)}
    if python_prefix() != sys.base_prefix:
        covered.add(Path(sys.base_prefix))
    steps = [f"mount --bind '{Path(pyspark.__file__).parent}' '{spark}'"]
    steps += [f"if [ -d '{path}' ]; then mount -t tmpfs none '{path}'; fi" for path in sorted(covered)]
    return ["unshare", "--mount", "--map-root-user", "sh", "-c", " && ".join([*steps, 'exec "$@"']), "sh"]


def _command_with_linked_spark(spark: Path) -> list[str]:
    """Link Spark and return an empty command: without mounts, at least no variable refers to the checkout."""
    if not spark.is_symlink():
        spark.symlink_to(Path(pyspark.__file__).parent)
    return []


@contextmanager
def cluster(place: Path, workers: int = 2) -> Iterator[Cluster]:
    """Start a cluster for the duration of the block."""
    running = Cluster(place)
    try:
        running.start(workers)
        yield running
    finally:
        running.stop()


def _accepts_connections(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
