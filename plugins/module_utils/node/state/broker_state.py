# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Gathers the evidence of a broker's state on its host, and returns it with the state that the judge concludes."""
# pylint: disable=ansible-bad-function # The package also runs without Ansible, which has no run_command there.

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any
from xml.etree.ElementTree import ParseError

from ..config import pending_restart
from ..config.broker_configuration import DeployedBrokerSettings, read_deployed_configuration
from ..config.versions import ConfigurationPaths
from ..errors import NodeError
from ..fence.shared_store import shared_store_directory
from ..judge import Evidence, conclude_state
from ..log import broker_log
from ..log.broker_run import Phase
from ..log.log_records import Record
from ..masking import mask_text
from ..observer import observe_broker, probe_connectors_until_first_silent
from ..printable import escape_unprintable
from ..probe.settling import READY, ReadinessDetector
from ..process.proc import find_broker_process, guard_pid_of_broker, properties_of_systemd_units
from ..process.service_names import watchdog_service_name
from ..process.taken_ports import taken_ports
from ..text_lines import split_lines
from ..timeouts import HUNG
from . import health

_POLL = 0.5
_HOPELESS = 3
_JUST = 10
_PRINTED = 200  # lines: a stack trace of Spring's has a hundred
_PROPERTIES = "Id,ActiveState,SubState,Result,UnitFileState,NRestarts,LoadState,MainPID,Job,ConditionTimestampMonotonic"
_OF_WATCHDOG = "StatusText"
_ATTEMPT = 60
"""Seconds before a start that has not ended yet, in which an error counts as that of the attempt before it."""


@dataclass(frozen=True)
class EvidenceWithSources:
    """The evidence of a broker's state, and the sources from which the evidence was gathered, such as log records.

    ``deployed`` is the configuration that the process was started with, ``records`` are those of that process.
    ``watchdog`` holds the properties that systemd shows of the watchdog's unit; empty without systemd.
    """

    evidence: Evidence
    deployed: DeployedBrokerSettings
    records: list[Record]
    watchdog: Mapping[str, str]


def gather_broker_state(base: str, unit: str | None, wait: float = 0, wanted: tuple[str, ...] = ()) -> dict[str, Any]:
    """Gather the state of a broker on its host (such as active or standby), as the result of the module broker_info.

    The evidence is included. ``base`` is its directory. With ``wait`` the broker is checked repeatedly, for at most
    that many seconds, until its state is one of ``wanted``. A ready broker must stay ready: ``settled`` of the result
    is True if an active broker has loaded its configuration completely (module ``settling``), False if it has not, and
    None without ``wait``. The wait ends early if systemd has stopped restarting the broker, or restarts it repeatedly.
    A silent broker counts as hung, and an unhealthy broker as unhealthy, after ``HUNG`` (30) seconds. Raises NodeError
    if the configuration cannot be read.
    """
    return gather_state_and_sources(base, unit, wait, wanted)[0]


def gather_state_and_sources(
    base: str, unit: str | None, wait: float = 0, wanted: tuple[str, ...] = (), pids: Collection[int] | None = None
) -> tuple[dict[str, Any], EvidenceWithSources]:
    """Gather the state of a broker (such as active or standby), and the sources of its evidence, such as log records.

    The state is the result of ``gather_broker_state``. ``pids`` are the processes to search, by default all.
    """
    end, first, silent = time.monotonic() + wait, None, None
    settling = ReadinessDetector() if wait and wanted else None
    # A caller that waits has just started the broker: earlier records of its log are not about this start.
    recent = time.time() - _JUST if wait else 0
    while True:
        result, more, sources = _gather_now(ConfigurationPaths(os.path.abspath(base)), unit, recent, pids)
        first = first or result
        is_silent = result["state"] in ("hung", "unhealthy") and not result["frozen"]
        silent = (silent or time.monotonic()) if is_silent else None
        is_wanted = _is_in(wanted, result) and (silent is None or time.monotonic() >= silent + HUNG)
        if settling and is_wanted and result["state"] in READY:
            result["settled"] = is_wanted = settling.is_stably_ready(sources.evidence.process, result["state"])
        if not wanted or is_wanted or time.monotonic() >= end or _is_hopeless(first, result):
            return {**result, **more()}, sources
        time.sleep(_POLL)


def unmet_expectation(
    result: Mapping[str, Any], states: Collection[str], old_pid: int | None, release: str | None
) -> str:
    """Return one line about the first expectation that a broker does not meet; empty if it meets all of them.

    The expectations are a state, a new process and a release. ``states``: the expected states. ``old_pid``: the
    process that must have been replaced. ``release``: the release that must run.
    """
    unit, log = (result["unit"] or {}).get("Id") or "the unit", f"{result['data']}/activemq.log"
    where = f"check {log} and journalctl -u {unit}" if result["unit"] else f"check {log}"
    if not _is_in(states, result):
        reason = result["error"] or result["how"]
        return f"the broker is {result['state']}: {reason} ({where})"
    if result.get("settled") is False:
        return f"the broker is {result['state']}, but a bean blocks the loading of its configuration ({where})"
    if old_pid is not None and result["pid"] == old_pid:
        return f"process {old_pid} of the broker, which the restart should have ended, still runs ({where})"
    if release and result["release"] != release:
        return f"the broker runs {result['release'] or 'an unknown release'} instead of {release} ({where})"
    return ""


def _is_in(states: Collection[str], result: Mapping[str, Any]) -> bool:
    """Return whether a broker is in one of the states; an unhealthy broker, which does not serve, also matches hung."""
    return result["state"] in states or (result["state"] == "unhealthy" and "hung" in states)


def _is_hopeless(first: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    was, is_now = first["unit"], now["unit"]
    if not was or not is_now or now["state"] != "stopped":
        return False
    starts = int(is_now.get("NRestarts") or 0) - int(was.get("NRestarts") or 0)
    return is_now.get("ActiveState") == "failed" or starts >= _HOPELESS


def _gather_now(
    layout: ConfigurationPaths, unit: str | None, recent: float, pids: Collection[int] | None
) -> tuple[dict[str, Any], Callable[[], dict[str, Any]], EvidenceWithSources]:
    """Return the broker's current state, a function that gathers the rest of the result, which takes longer, and the
    sources of both.
    """
    process = find_broker_process(layout.base, unit, pids)
    pending = pending_restart.pending_restart_of_process(layout, process)
    name = layout.current_version_name()
    # A broker with a pending restart listens on the addresses of its old configuration.
    deployed = _deployed(layout, pending.previous if pending and pending.previous else name)
    records = broker_log.read_log_records(layout.data, process.start_time) if process else []
    evidence = observe_broker(
        process,
        deployed,
        probe_connectors_until_first_silent,
        lambda running: broker_log.phase_of_process_since(records, running.start_time),
    )
    systemd_properties, watchdog = _properties_of_units(unit) if unit else (None, {})
    since = recent or _last_start(systemd_properties or {}, time.time() - time.monotonic())
    error = (
        ""
        if process
        else mask_text(broker_log.last_logged_error(layout.data, since) or _last_journal_error(unit, since))
    )
    ending = _ending(systemd_properties, error) if systemd_properties and not process else ""
    conclusion = conclude_state(replace(evidence, ending=ending))
    phase = evidence.phase
    returned = {answer.returned for answer in evidence.answers.values()} - {None}
    result = {
        "changed": False,
        "state": conclusion.state,
        "how": escape_unprintable(conclusion.reason),
        "frozen": evidence.is_stopped_by_signal,
        "pid": process.pid if process else None,
        "guard": guard_pid_of_broker(process) if process else None,
        "since": _moment(process.start_time) if process else None,
        "version": name,
        "settled": None,
        "restart_required": pending is not None,
        "restart_reasons": list(pending.reasons) if pending else [],
        "previous": pending.previous if pending else None,
        "unit": systemd_properties,
        "log": {"phase": phase.name, "message": escape_unprintable(phase.message), "time": _local_time(phase)},
        "connectors": {key: escape_unprintable(answer.detail) for key, answer in evidence.answers.items()},
        "answering_connectors": [key for key, answer in evidence.answers.items() if answer.answered],
        "message_returned": True in returned if returned else None,
        "error": escape_unprintable(error),
        "data": layout.data,
        "store": shared_store_directory(deployed.store) if deployed.store else None,
        "persistence": deployed.persistence,
    }
    # Only a standby opens its ports later: at the failover. It opens those of JMX and of the metrics at its start.
    ports = [(listener.bind, listener.address[1]) for listener in deployed.listeners] + list(deployed.consoles)
    if conclusion.state != "standby":
        ports = []

    def gather_rest() -> dict[str, Any]:
        return {
            **health.gather_broker_health(layout, process, pending, deployed.store),
            "taken_ports": taken_ports(ports, process, unit, layout.base),
        }

    return result, gather_rest, EvidenceWithSources(evidence, deployed, records, watchdog)


def _deployed(layout: ConfigurationPaths, name: str | None) -> DeployedBrokerSettings:
    try:
        return read_deployed_configuration(layout, name)
    except (OSError, ParseError) as error:
        raise NodeError(
            f"the broker's configuration {layout.directory(name or '')}/conf/activemq.xml cannot be read "
            f"({error}): run the playbook site again"
        ) from None


def _properties_of_units(unit: str) -> tuple[dict[str, str] | None, dict[str, str]]:
    """Return systemd's properties of a broker's unit, and those of its watchdog's unit; (None, {}) without systemd.

    ``Returns`` is the state of the unit that restarts a broker which was stopped so that its peer takes over.
    """
    instance = unit.removesuffix(".service")
    names = unit, f"{instance}-fleet-return.service", f"{watchdog_service_name(instance)}.service"
    shown = properties_of_systemd_units(f"{_PROPERTIES},{_OF_WATCHDOG}", names)
    if not shown:
        return None, {}
    broker, returning, watchdog = (*shown, {}, {})[: len(names)]
    broker.pop(_OF_WATCHDOG, None)
    return {**broker, "Returns": returning.get("ActiveState", "")}, watchdog


def _last_start(unit: Mapping[str, str], boot: float) -> float:
    """Return the time, in seconds since the epoch, from which errors are about the last start of a unit; 0 if unknown.

    ``boot`` is the time at which the monotonic clock of the machine was 0.
    systemd checks the conditions of a unit when each start begins, also before a restart. A start that has not ended
    yet may have no error, so that the errors of the attempt before it count.
    """
    microseconds = unit.get("ConditionTimestampMonotonic", "")
    if not microseconds.isdigit() or microseconds == "0":
        return 0
    began = boot + int(microseconds) / 1e6
    has_ended = unit.get("ActiveState") in ("failed", "inactive") or unit.get("SubState") == "auto-restart"
    return began - (0 if has_ended else _ATTEMPT)


def _last_journal_error(unit: str | None, since: float) -> str:
    """Return the last error in a unit's systemd journal: why Java did not start, or why a check of the unit failed."""
    if not unit:
        return ""
    command = ["journalctl", f"--unit={unit}", f"--lines={_PRINTED}", "--output=cat", "--no-pager", "_TRANSPORT=stdout"]
    command += [f"--since=@{int(since)}"] if since else []
    try:
        # Read as bytes, because text mode treats a carriage return in a client's name as a line end.
        done = subprocess.run(command, capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return str(broker_log.find_error_in_output(split_lines(done.stdout.decode(errors="replace"))))


def _ending(unit: Mapping[str, str], error: str) -> str:
    """Return how a broker ended, from systemd and its last error; empty for a broker that was stopped in order.

    During the next start by systemd only the restart counter shows that the broker had ended.
    """
    result, restarts = unit.get("Result", "success"), unit.get("NRestarts", "0")
    if result == "success" and restarts in ("", "0"):
        return ""
    ended = (
        f"systemd reports that the broker's unit ended with the result {result}, and has the state "
        f"{unit.get('SubState')} after {restarts} restarts"
    )
    return f"{ended}. The last error of the broker is: {error}" if error else ended


def _local_time(phase: Phase) -> str | None:
    """Return the time of the log record that shows a broker's phase, as the log has it but without milliseconds."""
    return f"{phase.time:%Y-%m-%d %H:%M:%S}" if phase.time else None


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
