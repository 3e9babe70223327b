"""Boots single brokers from files as they stand: what does a mistake in activemq.xml do?

A lab runs what we render. Here the document is somebody else's, with the mistake that a rule of
the linter names; a broker of the release that the rule is about says whether the rule is right.
"""

from __future__ import annotations

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
from activemq_fleet.lab.layout import LabLayout
from activemq_fleet.lab.log_tail import LOG, LogTail
from activemq_fleet.lab.loopback_overlay import MARK
from activemq_fleet.lab.processes import ProcessRun
from activemq_fleet.node.log.broker_run import BrokerRun
from activemq_fleet.releases import Release
from activemq_fleet.render.engine import render_template
from activemq_fleet.schema import BEANS, CORE

OPENWIRE, STOMP = 21616, 21613
"""Ports of the planted brokers; below the ephemeral ones, each broker has an address of its own."""

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
_LAST_WORDS = 5.0  # seconds that a JVM whose start failed has to end; some never do
_SETTLED = 0.3  # seconds: a JVM that logs "started" and then exits has not started

Fate = Literal["started", "refused", "neither"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a start.

    ``refused``: the process ended, or its log calls the start failed. ``exit_code`` is None while
    the process lives. ``said`` is the log, then what was printed.
    """

    fate: Fate
    exit_code: int | None
    output: str


@dataclass(frozen=True, slots=True)
class _How:
    """What a broker runs on; see ``Ground.plant``."""

    release: Release
    jars: tuple[Path, ...]
    java: Path
    under: tuple[str, ...]
    log_size: str
    options: tuple[str, ...]


class Ground:
    """A directory, a block of loopback addresses, and the brokers planted there; none is left at the end."""

    def __init__(self, directory: Path) -> None:
        self.layout = LabLayout(directory.resolve())
        self._claims = AddressBlockReservations()
        self._block = 0

    def __enter__(self) -> Self:
        self.layout.make_directory()
        self._block = self._claims.reserve_address_block_number(self.layout.directory)
        self.layout.names.write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            processes.terminate_processes(processes.lab_processes(self.layout), grace=0)
        finally:
            self._claims.release_address_block(self.layout.directory)

    def address(self, number: int) -> str:
        """The ``number``-th loopback address, from 1."""
        return f"127.{self._block}.1.{number}"

    def plant(
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
    ) -> Planted:
        """A broker of this document, not started yet.

        ``jars`` go on its class path; ``java`` runs it in place of the one that runs all others;
        ``under`` is a command that takes the whole line as its arguments and becomes it; its log is
        rolled at ``log_size``. ``options`` are the JVM's, after those that all have.
        """
        how = _How(
            Release.of(release),
            tuple(jars),
            java or artifacts.java_executable(_JAVA),
            tuple(under),
            log_size,
            tuple(options),
        )
        return Planted(self, name, document, how)


class Planted:
    """One broker; ``name`` is its directory's."""

    def __init__(
        self,
        ground: Ground,
        name: str,
        document: str,
        how: _How,
    ) -> None:
        self.name = name
        self.data = ground.layout.directory / name / "data"
        self._ground = ground
        self._how = how
        self._conf = ground.layout.directory / name / "conf"
        self._conf.mkdir(parents=True, exist_ok=True)
        log_settings = how.release.log_file_name
        text = render_template(f"broker/{log_settings}.j2", quiet=(), size=how.log_size, backups=10)
        (self._conf / log_settings).write_bytes(text)
        (self._conf / "activemq.xml").write_text(document, encoding="utf-8")
        self._run: ProcessRun | None = None
        self._process: psutil.Process | None = None
        self._tail: LogTail | None = None

    def launch(self) -> None:
        """Start the process and wait for nothing."""
        layout = self._ground.layout
        self._run = processes.launch_broker(layout, self.name, self._command(), {}, self.data, "")
        # Not looked up by the lab's mark: a command that becomes another has no arguments for a moment.
        self._process = psutil.Process(self._run.pid)
        self._tail = LogTail(self.data, self._run)

    def boot(self, timeout: float = 180.0, *, stays: float = _SETTLED) -> Outcome:
        """Start it, and wait until it is settled whether it does."""
        self.launch()
        return self.settle(timeout, stays=stays)

    def settle(self, timeout: float = 180.0, *, stays: float = _SETTLED) -> Outcome:
        """Wait until a launched broker has started, refused, or let ``timeout`` seconds pass.

        ``stays``: seconds for which one that says that it has started must not end.
        """
        began = time.monotonic()
        fate: Fate = "neither"
        while fate == "neither" and time.monotonic() - began < timeout:
            time.sleep(_POLL)
            phase = self.run_state.phase
            if not self._runs:
                fate = "refused"
            elif phase == "failed":
                until(lambda: not self._runs, _LAST_WORDS)
                fate = "refused"
            elif phase == "started":
                until(lambda: not self._runs or self.run_state.phase != "started", stays)
                fate = "started" if self._runs and self.run_state.phase == "started" else "refused"
        return Outcome(fate, self._exit_code(), self.output)

    @property
    def run_state(self) -> BrokerRun:
        """What its log tells so far of this run."""
        return self._tail.read_run_state() if self._tail else BrokerRun()

    @property
    def output(self) -> str:
        """Its whole log, of earlier runs too, and what this run printed."""
        paths = (self.data / LOG, self.data / "console.log")
        return "\n".join(path.read_text(errors="replace") for path in paths if path.exists())

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Its process is gone."""
        return not self._runs

    def wait_for_phase(self, phase: str, timeout: float = 120.0) -> bool:
        """Whether its log comes to this phase in time."""
        return until(lambda: self.run_state.phase == phase, timeout)

    def wait_for_output(self, text: str, timeout: float = 120.0, *, times: int = 1) -> bool:
        """Whether its log says something, so many times, in time."""
        return until(lambda: self.output.count(text) >= times, timeout)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        if self._run and (process := processes.find_process(self._ground.layout, self._run)):
            processes.terminate_processes([process], grace=0)

    def stop(self, patience: float = 60) -> None:
        """SIGTERM, and wait for the end, so many seconds: it leaves its store closed."""
        if self._run and (process := processes.find_process(self._ground.layout, self._run)):
            processes.terminate_processes([process], grace=patience)

    def _exit_code(self) -> int | None:
        if self._process is None or self._runs:
            return None
        code: int | None = self._process.wait(timeout=2)
        return code

    @property
    def _runs(self) -> bool:
        """Its process is there. A look that leaves the exit code to be had."""
        try:
            return self._process is not None and self._process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def _command(self) -> list[str]:
        release = self._how.release
        key = "log4j.configuration" if release.logging == "log4j1" else "log4j2.configurationFile"
        class_path = [f"{artifacts.fetch_jar_directory(release)}/*", *map(str, self._how.jars)]
        home = self._conf.parent
        return [
            *self._how.under,
            str(self._how.java),
            *_JVM,
            *self._how.options,
            f"-Djdk.net.hosts.file={self._ground.layout.names}",  # they resolve nothing else
            f"-Djava.io.tmpdir={self.data / 'tmp'}",
            f"{MARK}{self._ground.layout.directory}",
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


def until(look: Callable[[], bool], timeout: float) -> bool:
    """Look until it is so, or ``timeout`` seconds have passed; returns which."""
    deadline = time.monotonic() + timeout
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(_POLL)
    return found


def document(name: str, address: str, *children: str, beans: str = "", **attributes: str) -> str:
    """A broker with OpenWire and STOMP on its address, no account, messages in memory unless a store is given.

    ``children`` are elements of ``<broker>``, put in alphabetical order as 5.5 wants them; ``beans``
    stand before it.
    """
    connectors = (
        f'<transportConnectors><transportConnector name="openwire" uri="nio://{address}:{OPENWIRE}"/>'
        f'<transportConnector name="stomp" uri="stomp://{address}:{STOMP}"/></transportConnectors>'
    )
    stored = any(child.startswith("<persistenceAdapter") for child in children)
    known = {"brokerName": name, "useJmx": "false", "persistent": str(stored).lower(), **attributes}
    texts = " ".join(f'{key}="{value}"' for key, value in known.items())
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
    """``<networkConnectors>`` with one connector, called ``link`` unless it is told otherwise."""
    texts = " ".join(f'{key}="{value}"' for key, value in {"name": "link", **attributes}.items())
    return f'<networkConnectors><networkConnector uri="{uri}" {texts}/></networkConnectors>'
