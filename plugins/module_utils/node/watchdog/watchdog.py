# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The watchdog: probes a broker every few seconds, and reports or kills a hung broker.

It runs under systemd as the broker's own account, which is sufficient to probe and to kill the broker.
``hang_detection`` decides whether a broker is hung. ``watchdog_cli`` contains the command line of the program.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn
from xml.etree.ElementTree import ParseError

from ..config import pending_restart
from ..config.broker_configuration import DeployedBrokerSettings, Listener, read_deployed_broker_settings
from ..config.versions import ConfigurationPaths
from ..errors import NodeError
from ..fence.shared_store import shared_store_directory
from ..files import disk
from ..judge import Evidence
from ..kahadb.risk_records import read_newest_risk_records_of_store
from ..log import broker_log
from ..log.broker_run import LoggedBrokerPhase
from ..log.unit_records import HEALTHY_AGAIN, KILL_FAILED
from ..observer import observe_broker, probe_connectors_together
from ..printable import escape_unprintable
from ..probe.broker_connection import ExpectedBroker
from ..probe.certificates import fetch_connector_certificate_expiry_times
from ..probe.connector_probe import ProbeAnswer, can_probe_protocol
from ..process import held_by_process
from ..process.proc import (
    Process,
    find_broker_process,
    is_in_systemd_unit,
    is_still_running,
    open_process_handle,
    read_process,
    seconds_since_boot,
    send_signal,
)
from ..process.systemd_notification import notify_systemd
from ..protocols import supports_round_trip
from ..textfile import MetricSample, to_prometheus_text
from ..timeouts import PROBE
from . import hang_detection

_REPLICATION = "replication"
_THREAD_DUMP_TIME = 2.0
"""Seconds that a JVM has to print a thread dump before it is killed."""
_CERTIFICATE_INTERVAL = 600.0
"""Seconds between two reads of the expiry times of certificates."""
_KILL_TIMEOUT = 30.0
"""Seconds in which a killed process must end."""
_STORE_READ_INTERVAL = 60.0
"""Seconds between two reads of the records in a store."""
_ERROR, _WARNING, _INFO = 3, 4, 6


@dataclass(frozen=True)
class WatchdogOptions:
    """The options of a watchdog, as its command line sets them.

    ``base`` is the directory of the broker, ``unit`` its systemd unit, and ``ha`` its profile (``activemq_ha``).
    ``every`` is the interval between two checks in seconds. ``metrics`` is the path of the metrics file, None to write
    none, and ``label`` contains the labels NAME=VALUE of each metric. ``action`` is ``warn`` or ``kill``.
    """

    base: str
    unit: str
    ha: str
    every: float
    metrics: str | None
    label: Sequence[str]
    action: str


class Watchdog:
    """A watchdog of one broker, which detects that the broker hangs, and warns or kills it.

    ``kills`` is the path of the file with the times of the last kills, None to keep none.
    """

    def __init__(self, options: WatchdogOptions, kills: str | None) -> None:
        self._options = options
        self._layout = ConfigurationPaths(os.path.abspath(options.base))
        self._kills_path = kills
        self._process: Process | None = None
        self._answering_process: tuple[int, float] | None = None
        self._streak = hang_detection.SameDiagnosisStreak()
        self._configuration: tuple[str | None, DeployedBrokerSettings] | None = None
        self._kill_count = 0
        self._certificates: dict[str, float] = {}
        self._certificates_read = -_CERTIFICATE_INTERVAL
        self._risks = _StoreRisks()

    def check_broker_periodically(self) -> NoReturn:
        """Check the watched broker at the configured interval, until systemd stops this watchdog program."""
        base, interval = self._options.base, self._options.every
        unreadable = ""
        while True:
            began = time.monotonic()
            try:
                self.check_broker()
                unreadable = ""
            except (OSError, ParseError, NodeError) as error:
                reason = (
                    f"{hang_detection.NOT_WATCHED}, because its files below {base} cannot be read ({error}). "
                    "Correct this error: until then the watchdog does not detect a hang"
                )
                if reason != unreadable:
                    _print_log_line(_WARNING, reason)
                unreadable = reason
                notify_systemd(f"STATUS={escape_unprintable(' '.join(reason.split()))}", "WATCHDOG=1")
            time.sleep(max(0.0, interval - (time.monotonic() - began)))

    def check_broker(self) -> None:
        """Check once whether the watchdog's broker is hung, and log a warning or kill it if so.

        The watchdog acts only if the state of the broker was wrong for long enough.
        """
        sample = self._take_sample()
        diagnosis, process, now = (
            hang_detection.hang_diagnosis_of_sample(sample),
            sample.evidence.process,
            seconds_since_boot(),
        )
        before = self._streak
        self._streak = before.streak_after_diagnosis(diagnosis, process, now)
        notify_systemd(f"STATUS={diagnosis.text}", "WATCHDOG=1")
        if self._options.metrics:
            self._write_metrics(self._options.metrics, diagnosis, now)
        if before.logged_at is not None and diagnosis.kind == hang_detection.FINE:
            _print_log_line(_INFO, f"{HEALTHY_AGAIN}{diagnosis.text}")
        if diagnosis.kind in (hang_detection.FINE, hang_detection.IDLE) or not self._streak.is_action_due(
            now, diagnosis.patience
        ):
            return
        self._streak = replace(self._streak, logged_at=now)
        if diagnosis.kind == hang_detection.ODD:
            _print_log_line(_WARNING, diagnosis.text)
        elif process is not None:
            self._warn_or_kill(diagnosis, process, now)

    def _take_sample(self) -> hang_detection.WatchdogSample:
        process = self._find_process()
        if process is None:
            return hang_detection.WatchdogSample(Evidence(None))
        deployed = self._read_configuration(process)
        process_identity = (process.pid, process.started)
        is_pure = self._options.ha == "pure"
        evidence = observe_broker(process, deployed, self._probe_connectors, self._read_phase, briefly=True)
        if any(answer.greeted for answer in evidence.answers.values()):
            self._answering_process = process_identity
        evidence = replace(evidence, pure=is_pure, has_answered=self._answering_process == process_identity)
        slave = None
        if is_pure and (evidence.is_stopped_by_signal or evidence.silent_connector_descriptions):
            slave = has_connected_client(self._replication_connector(deployed))
        return hang_detection.WatchdogSample(evidence, slave)

    def _read_phase(self, process: Process) -> LoggedBrokerPhase:
        return broker_log.read_broker_phase(self._layout.data, process.start_time)

    def _find_process(self) -> Process | None:
        """Return the process of the watchdog's broker.

        It is the last known one if it is still in the unit, else the result of a new search.
        """
        last = self._process
        if last is not None and is_in_systemd_unit(last.pid, self._options.unit):
            now = read_process(last.pid)
            if now is not None and (now.started, now.command) == (last.started, last.command):
                return now
        self._process = find_broker_process(self._layout.base, self._options.unit)
        return self._process

    def _read_configuration(self, process: Process) -> DeployedBrokerSettings:
        """Return the configuration with which the broker was started: an earlier version while a restart is pending."""
        pending = pending_restart.pending_restart_of_process(self._layout, process)
        name = pending.previous if pending and pending.previous else self._layout.current_version_name()
        if self._configuration is None or self._configuration[0] != name:
            self._configuration = (name, read_deployed_broker_settings(self._layout, name))
        return self._configuration[1]

    def _probe_connectors(self, deployed: DeployedBrokerSettings, expected: ExpectedBroker) -> dict[str, ProbeAnswer]:
        """Probe one connector (STOMP or MQTT) of the broker with a round trip.

        Probe all connectors if that fails or failed last time.
        """
        listeners = [
            listener
            for listener in deployed.listeners
            if can_probe_protocol(listener.scheme) and listener.name != _REPLICATION
        ]
        listeners.sort(key=lambda listener: not supports_round_trip(listener.scheme))
        first = 1 if self._streak.kind == hang_detection.FINE else len(listeners)
        answers = probe_connectors_together(listeners[:first], deployed, expected, PROBE)
        notify_systemd("WATCHDOG=1")
        if not all(answer.greeted and answer.returned is not False for answer in answers.values()):
            answers |= probe_connectors_together(listeners[first:], deployed, expected, PROBE)
            notify_systemd("WATCHDOG=1")
        return answers

    def _replication_connector(self, deployed: DeployedBrokerSettings) -> Listener | None:
        return next((listener for listener in deployed.listeners if listener.name == _REPLICATION), None)

    def _warn_or_kill(self, diagnosis: hang_detection.HangDiagnosis, process: Process, now: float) -> None:
        options = self._options
        kills = read_kill_times_in_seconds_since_boot(self._kills_path)
        allowed = hang_detection.can_kill_again(kills, now)
        line = hang_detection.format_hung_broker_message(
            diagnosis.text,
            action=options.action,
            ha=options.ha,
            unit=options.unit,
            seconds=now - self._streak.since,
            kills=allowed,
        )
        _print_log_line(_ERROR, line)
        if options.action != "kill" or not allowed:
            return
        # Recorded before the kill, because the watchdog may stop together with its broker.
        write_kill_times(self._kills_path, [*kills, now])
        self._kill_count += 1
        if try_kill_with_thread_dump(process):
            _print_log_line(_WARNING, f"the watchdog killed the hung broker, process {process.pid}")
        else:
            _print_log_line(
                _WARNING,
                f"{KILL_FAILED} {process.pid}. Run ps -o stat -p {process.pid} on this host. If the state is D, the "
                "process waits for its storage: check the mount of the store. If ps prints no state, the process has "
                "already ended",
            )

    def _write_metrics(self, path: str, diagnosis: hang_detection.HangDiagnosis, now: float) -> None:
        """Replace the metrics file, for the textfile collector of the host's node exporter."""
        if now - self._certificates_read >= _CERTIFICATE_INTERVAL and self._configuration and self._process:
            self._certificates_read = now
            rows = fetch_connector_certificate_expiry_times(self._configuration[1], self._process, PROBE)
            ends = {str(row["name"]).removeprefix("connector "): row["ends"] for row in rows}
            self._certificates = {name: end for name, end in ends.items() if isinstance(end, float)}
        is_hung = diagnosis.is_hung and self._streak.has_lasted(now, diagnosis.patience)
        samples = [
            MetricSample("activemq_watchdog_hung", "gauge", "1 while the broker is hung", int(is_hung)),
            MetricSample(
                "activemq_watchdog_kills_total",
                "counter",
                "number of times that this watchdog killed its hung broker",
                self._kill_count,
            ),
            MetricSample(
                "activemq_watchdog_checked_timestamp_seconds",
                "gauge",
                "time of the watchdog's last check of the broker, in seconds since the epoch",
                time.time(),
            ),
        ]
        subscriptions = self._risks.count_subscriptions_with_possible_loss(
            self._configuration[1].store if self._configuration else "", now
        )
        if subscriptions is not None:
            meaning = (
                "number of durable subscriptions that may have lost messages, because a broker started without a "
                "usable index of its store"
            )
            samples.append(MetricSample("activemq_watchdog_subscriptions_at_risk", "gauge", meaning, subscriptions))
        samples += [
            MetricSample(
                "activemq_certificate_expiry_timestamp_seconds",
                "gauge",
                "expiry time of the certificate that a connector presents, in seconds since the epoch",
                end,
                {"connector": name},
            )
            for name, end in self._certificates.items()
        ]
        labels = dict(label.split("=", 1) for label in self._options.label)
        with contextlib.suppress(OSError):  # a full /run: the node exporter shows how old the file is
            disk.replace_file(path, to_prometheus_text(samples, labels), 0o644)


class _StoreRisks:
    """A reader of the number of durable subscriptions that may lose messages, as recorded in a broker's store.

    The records are read in a separate thread. A read that hangs does not delay the checks of the broker. At most one
    read runs at a time, and the last count remains valid until it ends.
    """

    def __init__(self) -> None:
        self._count: int | None = None
        self._reader: threading.Thread | None = None
        self._due = 0.0

    def count_subscriptions_with_possible_loss(self, store: str, now: float) -> int | None:
        """Return the number of durable subscriptions that may have lost messages, as last read from records in a store.

        The broker started without a usable index. The number is the last one that was read from the records, None
        before the first read has ended. Start another read if the last one has ended and is older than a minute.
        """
        is_reading = self._reader is not None and self._reader.is_alive()
        if store and now >= self._due and not is_reading:
            self._due = now + _STORE_READ_INTERVAL
            self._reader = threading.Thread(target=self._read, args=(store,), daemon=True)
            self._reader.start()
        return self._count

    def _read(self, store: str) -> None:
        with contextlib.suppress(OSError):
            records = read_newest_risk_records_of_store(shared_store_directory(store))
            self._count = sum(record.count_of_subscriptions_with_possible_loss for record in records)


def try_kill_with_thread_dump(process: Process) -> bool:
    """Make a JVM print a thread dump, then kill it.

    Returns whether it ended within 30 s. Never kills another process that got its pid.
    """
    with open_process_handle(process) as handle:
        if not is_still_running(process):
            return False
        if process.state != "T":
            # The JVM prints a thread dump, which is the only evidence of the cause after the kill.
            send_signal(handle, process, signal.SIGQUIT)
            time.sleep(_THREAD_DUMP_TIME)
        send_signal(handle, process, signal.SIGKILL)
        end = time.monotonic() + _KILL_TIMEOUT
        while is_still_running(process) and time.monotonic() < end:
            notify_systemd("WATCHDOG=1")
            time.sleep(0.1)
        return not is_still_running(process)


def has_connected_client(listener: Listener | None) -> bool:
    """Return whether any client is connected to the port of a broker's listener on this machine.

    A client is a pure master's slave, for instance.
    """
    return listener is not None and held_by_process.has_connected_client_on(listener.address[1])


def read_kill_times_in_seconds_since_boot(path: str | None) -> list[float]:
    """Read the times at which the watchdog killed its broker, in seconds since boot.

    Only the last times are kept.
    """
    try:
        with open(path or "", encoding="ascii") as file:
            return [float(line) for line in file]
    except (OSError, ValueError):
        return []


def write_kill_times(path: str | None, kills: Sequence[float]) -> None:
    if path is None:
        return
    with contextlib.suppress(OSError), open(path, "w", encoding="ascii") as file:
        file.writelines(f"{moment}\n" for moment in kills[-hang_detection.MAX_KILLS :])


def _print_log_line(priority: int, text: str) -> None:
    """Print one line for the systemd journal, with its priority (sd-daemon(3))."""
    sys.stdout.write(f"<{priority}>{escape_unprintable(' '.join(text.split()))}\n")
    sys.stdout.flush()
