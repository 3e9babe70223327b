"""Single brokers that run with a given activemq.xml, to test the effect of a mistake in this file.

A lab runs rendered configurations. A broker of a sandbox runs a document of a test, which contains the mistake that a
rule of the linter reports. The broker has the release that the rule names, and shows whether the rule is right.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import psutil

from activemq_fleet import artifacts
from activemq_fleet.lab import processes
from activemq_fleet.lab.address_reservation import AddressBlockReservations
from activemq_fleet.lab.lab_paths import LabPaths
from activemq_fleet.lab.log_tail import LogTail
from activemq_fleet.lab.loopback_overlay import MARK
from activemq_fleet.lab.processes import ProcessRun
from activemq_fleet.node.host_paths import BROKER_LOG
from activemq_fleet.node.log.broker_run import BrokerRun
from activemq_fleet.releases import Release
from activemq_fleet.render.engine import render_template
from activemq_fleet.schema import BEANS, CORE

OPENWIRE, STOMP = 21616, 21613
"""Ports of the brokers, below the ephemeral ports; each broker has a separate address."""

_JAVA = 17
_JVM = (
    "-Xms32m",
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
)
_POLL = 0.1
_EXIT_TIME = 5.0  # seconds within which a JVM whose start failed may exit; some never do
_SETTLED = 0.3  # seconds: a JVM that logs "started" and then exits has not started

Fate = Literal["started", "refused", "neither"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a start.

    ``refused``: the process has exited, or its log reports that the start failed. ``exit_code`` is None while the
    process runs. ``output`` contains the log, then what the process printed.
    """

    fate: Fate
    exit_code: int | None
    output: str


@dataclass(frozen=True, slots=True)
class _BrokerOptions:
    """Options of a broker; see ``BrokerSandbox.add_broker``."""

    release: Release
    jars: tuple[Path, ...]
    java: Path
    under: tuple[str, ...]
    log_size: str
    options: tuple[str, ...]


class BrokerSandbox:
    """A directory and a block of loopback addresses for brokers; all of them are stopped at the end."""

    def __init__(self, directory: Path) -> None:
        self.lab_paths = LabPaths(directory.resolve())
        self._claims = AddressBlockReservations()
        self._block = 0

    def __enter__(self) -> Self:
        self.lab_paths.make_private_lab_directory()
        self._block = self._claims.reserve_address_block_number(self.lab_paths.directory)
        self.lab_paths.names.write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            processes.terminate_processes(processes.lab_processes(self.lab_paths), grace=0)
        finally:
            self._claims.release_address_block(self.lab_paths.directory)

    def address(self, number: int) -> str:
        """Return the ``number``-th loopback address, from 1."""
        return f"127.{self._block}.1.{number}"

    def add_broker(
        self,
        name: str,
        release: str,
        document: str,
        *,
        jars: Sequence[Path] = (),
        java: Path | None = None,
        under: Sequence[str] = (),
        log_size: str = "10MB",
        options: Sequence[str] = (),
    ) -> SandboxBroker:
        """Return a broker with a document as its activemq.xml; the broker is not started.

        ``jars`` are added to its class path. ``java`` replaces the default Java. ``under`` is a command that executes
        the command line of the broker, which it gets as arguments. The log is rolled at ``log_size``. ``options`` are
        added to the common options of the JVM.
        """
        broker_options = _BrokerOptions(
            Release.of(release),
            tuple(jars),
            java or artifacts.java_executable(_JAVA),
            tuple(under),
            log_size,
            tuple(options),
        )
        return SandboxBroker(self, name, document, broker_options)


class SandboxBroker:
    """A broker of a sandbox; ``name`` is the name of its directory."""

    def __init__(
        self,
        sandbox: BrokerSandbox,
        name: str,
        document: str,
        options: _BrokerOptions,
    ) -> None:
        self.name = name
        self.data = sandbox.lab_paths.directory / name / "data"
        self._sandbox = sandbox
        self._options = options
        self._conf = sandbox.lab_paths.directory / name / "conf"
        self._conf.mkdir(parents=True, exist_ok=True)
        log_settings = options.release.log_file_name
        log_settings_text = render_template(f"broker/{log_settings}.j2", quiet=(), size=options.log_size, backups=10)
        (self._conf / log_settings).write_bytes(log_settings_text)
        (self._conf / "activemq.xml").write_text(document, encoding="utf-8")
        self._run: ProcessRun | None = None
        self._process: psutil.Process | None = None
        self._tail: LogTail | None = None

    def launch(self) -> None:
        """Start the process without a wait."""
        lab_paths = self._sandbox.lab_paths
        self._run = processes.launch_broker(lab_paths, self.name, self._command(), {}, self.data, "")
        # The pid identifies the process. During an exec, the command line with the mark of the lab is empty.
        self._process = None
        with contextlib.suppress(psutil.NoSuchProcess):  # A JVM that refuses an option may have ended already.
            self._process = psutil.Process(self._run.pid)
        self._tail = LogTail(self.data, self._run)

    def boot(self, timeout: float = 180.0, *, stays: float = _SETTLED) -> Outcome:
        """Start the broker; return the outcome of the start."""
        self.launch()
        return self.settle(timeout, stays=stays)

    def settle(self, timeout: float = 180.0, *, stays: float = _SETTLED) -> Outcome:
        """Wait until a launched broker has started or refused, at most ``timeout`` seconds; return the outcome.

        ``stays``: seconds for which a broker that reports its start must then run.
        """
        began = time.monotonic()
        fate: Fate = "neither"
        while fate == "neither" and time.monotonic() - began < timeout:
            time.sleep(_POLL)
            phase = self.run_state.phase
            if not self._runs:
                fate = "refused"
            elif phase == "failed":
                until(lambda: not self._runs, _EXIT_TIME)
                fate = "refused"
            elif phase == "started":
                until(lambda: not self._runs or self.run_state.phase != "started", stays)
                fate = "started" if self._runs and self.run_state.phase == "started" else "refused"
        return Outcome(fate, self._exit_code(), self.output)

    @property
    def run_state(self) -> BrokerRun:
        """The state of this run according to the log of the broker."""
        return self._tail.read_run_state() if self._tail else BrokerRun()

    @property
    def output(self) -> str:
        """The complete log of the broker, with earlier runs, and what this run printed."""
        paths = (self.data / BROKER_LOG, self.data / "console.log")
        return "\n".join(path.read_text(errors="replace") for path in paths if path.exists())

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process has exited."""
        return not self._runs

    def wait_for_phase(self, phase: str, timeout: float = 120.0) -> bool:
        """Wait until the log shows a phase; return whether it did so in time."""
        return until(lambda: self.run_state.phase == phase, timeout)

    def wait_for_output(self, text: str, timeout: float = 120.0, *, times: int = 1) -> bool:
        """Wait until the output contains a text that many times; return whether it did so in time."""
        return until(lambda: self.output.count(text) >= times, timeout)

    def kill(self) -> None:
        """Kill the process with SIGKILL, and wait for its exit."""
        if self._run and (process := processes.find_process(self._sandbox.lab_paths, self._run)):
            processes.terminate_processes([process], grace=0)

    def stop(self, patience: float = 60) -> None:
        """Stop the broker with SIGTERM, so that it closes its store; wait at most ``patience`` seconds for its exit."""
        if self._run and (process := processes.find_process(self._sandbox.lab_paths, self._run)):
            processes.terminate_processes([process], grace=patience)

    def _exit_code(self) -> int | None:
        if self._process is None or self._runs:
            return None
        exit_code: int | None = self._process.wait(timeout=2)
        return exit_code

    @property
    def _runs(self) -> bool:
        """Whether the process runs. This check does not consume the exit code."""
        try:
            return self._process is not None and self._process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def _command(self) -> list[str]:
        release = self._options.release
        key = "log4j.configuration" if release.logging == "log4j1" else "log4j2.configurationFile"
        class_path = [f"{artifacts.fetch_jar_directory(release)}/*", *map(str, self._options.jars)]
        home = self._conf.parent
        return [
            *self._options.under,
            str(self._options.java),
            *_JVM,
            *self._options.options,
            f"-Djdk.net.hosts.file={self._sandbox.lab_paths.names}",  # the broker resolves no other names
            f"-Djava.io.tmpdir={self.data / 'tmp'}",
            f"{MARK}{self._sandbox.lab_paths.directory}",
            f"-Dactivemq.home={home}",
            f"-Dactivemq.base={home}",
            f"-Dactivemq.conf={self._conf}",
            f"-Dactivemq.data={self.data}",
            f"-D{key}=file:{self._conf}/{release.log_file_name}",
            "-cp",
            os.pathsep.join(class_path),
            "org.apache.activemq.console.Main",
            "--noDefExt",
            "start",
            f"xbean:file:{self._conf}/activemq.xml",
        ]


def until(condition: Callable[[], bool], timeout: float) -> bool:
    """Wait until a condition holds, at most ``timeout`` seconds; return whether it holds."""
    deadline = time.monotonic() + timeout
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(_POLL)
    return holds


def document(name: str, address: str, *children: str, beans: str = "", **attributes: str) -> str:
    """Return the document of a broker with OpenWire and STOMP on its address, and without authentication.

    Messages are in memory unless ``children`` contains a store. ``children`` are elements of ``<broker>``, in the
    alphabetical order that 5.5 requires; ``beans`` precede it.
    """
    connectors = (
        f'<transportConnectors><transportConnector name="openwire" uri="nio://{address}:{OPENWIRE}"/>'
        f'<transportConnector name="stomp" uri="stomp://{address}:{STOMP}"/></transportConnectors>'
    )
    stored = any(child.startswith("<persistenceAdapter") for child in children)
    all_attributes = {"brokerName": name, "useJmx": "false", "persistent": str(stored).lower(), **attributes}
    texts = " ".join(f'{key}="{value}"' for key, value in all_attributes.items())
    inside = "\n".join(sorted([*children, connectors]))
    return f"""<beans xmlns="{BEANS}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="{BEANS} {BEANS}/spring-beans.xsd {CORE} {CORE}/activemq-core.xsd">
{beans}
<broker xmlns="{CORE}" {texts}>
{inside}
</broker>
</beans>
"""


def link(uri: str, **attributes: str) -> str:
    """Return ``<networkConnectors>`` with one connector, whose default name is ``link``."""
    texts = " ".join(f'{key}="{value}"' for key, value in {"name": "link", **attributes}.items())
    return f'<networkConnectors><networkConnector uri="{uri}" {texts}/></networkConnectors>'
