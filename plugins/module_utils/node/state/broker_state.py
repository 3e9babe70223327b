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
from ..config.broker_configuration import DeployedBrokerSettings, read_deployed_broker_settings
from ..config.versions import ConfigurationPaths
from ..errors import NodeError
from ..fence.shared_store import shared_store_directory
from ..host_paths import BROKER_LOG
from ..judge import Evidence, conclude_state
from ..log import broker_log
from ..log.broker_run import LoggedBrokerPhase
from ..log.log_records import Record
from ..masking import mask_text
from ..observer import observe_broker, probe_connectors_until_first_silent
from ..printable import escape_unprintable
from ..probe.settling import READY_STATES, ReadinessDetector
from ..process.proc import find_broker_process, guard_pid_of_broker, properties_of_systemd_units
from ..process.service_names import watchdog_service_name
from ..process.taken_ports import taken_ports
from ..text_lines import split_lines
from ..timeouts import HUNG
from . import broker_health

_POLL_SECONDS = 0.5
_MAX_RESTARTS = 3
_RECENT_SECONDS = 10
_MAX_JOURNAL_LINES = 200  # a stack trace of Spring has about a hundred lines
_UNIT_PROPERTIES = (
    "Id,ActiveState,SubState,Result,UnitFileState,NRestarts,LoadState,MainPID,Job,ConditionTimestampMonotonic"
)
_WATCHDOG_PROPERTY = "StatusText"
_START_ATTEMPT_SECONDS = 60
"""Seconds before a start that has not ended yet, in which an error counts as that of the attempt before it."""


@dataclass(frozen=True)
class StateEvidenceWithSourceData:
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
) -> tuple[dict[str, Any], StateEvidenceWithSourceData]:
    """Gather the state of a broker (such as active or standby), and the sources of its evidence, such as log records.

    The state is the result of ``gather_broker_state``. ``pids`` are the processes to search, by default all.
    """
    deadline, first_result, silent_since = time.monotonic() + wait, None, None
    settling = ReadinessDetector() if wait and wanted else None
    # A caller that waits has just started the broker: earlier records of its log are not about this start.
    recent = time.time() - _RECENT_SECONDS if wait else 0
    while True:
        result, gather_rest, sources = _gather_once(ConfigurationPaths(os.path.abspath(base)), unit, recent, pids)
        first_result = first_result or result
        is_silent = result["state"] in ("hung", "unhealthy") and not result["frozen"]
        silent_since = (silent_since or time.monotonic()) if is_silent else None
        is_expected = _matches_state(wanted, result) and (
            silent_since is None or time.monotonic() >= silent_since + HUNG
        )
        if settling and is_expected and result["state"] in READY_STATES:
            result["settled"] = is_expected = settling.is_stably_ready(sources.evidence.process, result["state"])
        if not wanted or is_expected or time.monotonic() >= deadline or _is_start_hopeless(first_result, result):
            return {**result, **gather_rest()}, sources
        time.sleep(_POLL_SECONDS)


def unmet_expectation(
    result: Mapping[str, Any], states: Collection[str], old_pid: int | None, release: str | None
) -> str:
    """Return one line about how a broker differs from its expected state, process or release; empty if it does not.

    The expectations are a state, a new process and a release. ``states``: the expected states. ``old_pid``: the
    process that must have been replaced. ``release``: the release that must run.
    """
    unit, log = (result["unit"] or {}).get("Id") or "the unit", f"{result['data']}/{BROKER_LOG}"
    advice = f"check {log} and journalctl -u {unit}" if result["unit"] else f"check {log}"
    if not _matches_state(states, result):
        reason = result["error"] or result["how"]
        return f"the broker is {result['state']}: {reason} ({advice})"
    if result.get("settled") is False:
        return f"the broker is {result['state']}, but a bean blocks the loading of its configuration ({advice})"
    if old_pid is not None and result["pid"] == old_pid:
        return f"process {old_pid} of the broker, which the restart should have ended, still runs ({advice})"
    if release and result["release"] != release:
        return f"the broker runs {result['release'] or 'an unknown release'} instead of {release} ({advice})"
    return ""


def _matches_state(states: Collection[str], result: Mapping[str, Any]) -> bool:
    """Return whether a broker is in one of the states; an unhealthy broker, which does not serve, also matches hung."""
    return result["state"] in states or (result["state"] == "unhealthy" and "hung" in states)


def _is_start_hopeless(first_result: Mapping[str, Any], current_result: Mapping[str, Any]) -> bool:
    first_unit, current_unit = first_result["unit"], current_result["unit"]
    if not first_unit or not current_unit or current_result["state"] != "stopped":
        return False
    starts = int(current_unit.get("NRestarts") or 0) - int(first_unit.get("NRestarts") or 0)
    return current_unit.get("ActiveState") == "failed" or starts >= _MAX_RESTARTS


def _gather_once(
    layout: ConfigurationPaths, unit: str | None, recent: float, pids: Collection[int] | None
) -> tuple[dict[str, Any], Callable[[], dict[str, Any]], StateEvidenceWithSourceData]:
    """Return the broker's current state, a function that gathers the rest of the result, which takes longer, and the
    sources of both.
    """
    process = find_broker_process(layout.base, unit, pids)
    pending = pending_restart.pending_restart_of_process(layout, process)
    name = layout.current_version_name()
    # A broker with a pending restart listens on the addresses of its old configuration.
    deployed = _read_deployed_settings(layout, pending.previous if pending and pending.previous else name)
    records = broker_log.read_log_records(layout.data, process.start_time) if process else []
    evidence = observe_broker(
        process,
        deployed,
        probe_connectors_until_first_silent,
        lambda running: broker_log.phase_of_process_since(records, running.start_time),
    )
    systemd_properties, watchdog = _properties_of_units(unit) if unit else (None, {})
    since = recent or _last_start_time(systemd_properties or {}, time.time() - time.monotonic())
    error = "" if process else broker_log.last_logged_error(layout.data, since) or _last_journal_error(unit, since)
    ending = _describe_end(systemd_properties, error) if systemd_properties and not process else ""
    conclusion = conclude_state(replace(evidence, ending=ending))
    phase, logged_message = evidence.phase, mask_text(evidence.phase.message)
    returned = {answer.returned for answer in evidence.answers.values()} - {None}
    result = {
        "changed": False,
        "state": conclusion.state,
        "how": escape_unprintable(mask_text(conclusion.reason)),
        "frozen": evidence.is_stopped_by_signal,
        "pid": process.pid if process else None,
        "guard": guard_pid_of_broker(process) if process else None,
        "since": _utc_time_text(process.start_time) if process else None,
        "version": name,
        "settled": None,
        "restart_required": pending is not None,
        "restart_reasons": list(pending.reasons) if pending else [],
        "previous": pending.previous if pending else None,
        "unit": systemd_properties,
        "log": {
            "phase": phase.name,
            "message": escape_unprintable(logged_message),
            "time": _local_time(phase),
        },
        "connectors": {key: escape_unprintable(mask_text(answer.detail)) for key, answer in evidence.answers.items()},
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
            **broker_health.gather_release_drift_and_store_facts(layout, process, pending, deployed.store),
            "taken_ports": taken_ports(ports, process, unit, layout.base),
        }

    return result, gather_rest, StateEvidenceWithSourceData(evidence, deployed, records, watchdog)


def _read_deployed_settings(layout: ConfigurationPaths, name: str | None) -> DeployedBrokerSettings:
    try:
        return read_deployed_broker_settings(layout, name)
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
    unit_properties = properties_of_systemd_units(f"{_UNIT_PROPERTIES},{_WATCHDOG_PROPERTY}", names)
    if not unit_properties:
        return None, {}
    broker, returning, watchdog = (*unit_properties, {}, {})[: len(names)]
    broker.pop(_WATCHDOG_PROPERTY, None)
    return {**broker, "Returns": returning.get("ActiveState", "")}, watchdog


def _last_start_time(unit: Mapping[str, str], boot: float) -> float:
    """Return the time, in seconds since the epoch, from which errors are about the last start of a unit; 0 if unknown.

    ``boot`` is the time at which the monotonic clock of the machine was 0.
    systemd checks the conditions of a unit when each start begins, also before a restart. A start that has not ended
    yet may have no error, so that the errors of the attempt before it count.
    """
    microseconds = unit.get("ConditionTimestampMonotonic", "")
    if not microseconds.isdigit() or microseconds == "0":
        return 0
    started_at = boot + int(microseconds) / 1e6
    has_ended = unit.get("ActiveState") in ("failed", "inactive") or unit.get("SubState") == "auto-restart"
    return started_at - (0 if has_ended else _START_ATTEMPT_SECONDS)


def _last_journal_error(unit: str | None, since: float) -> str:
    """Return the last error in a unit's systemd journal: why Java did not start, or why a check of the unit failed."""
    if not unit:
        return ""
    command = [
        "journalctl",
        f"--unit={unit}",
        f"--lines={_MAX_JOURNAL_LINES}",
        "--output=cat",
        "--no-pager",
        "_TRANSPORT=stdout",
    ]
    command += [f"--since=@{int(since)}"] if since else []
    try:
        # Read as bytes, because text mode treats a carriage return in a client's name as a line end.
        journal = subprocess.run(command, capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return str(broker_log.find_error_in_output(split_lines(journal.stdout.decode(errors="replace"))))


def _describe_end(unit: Mapping[str, str], error: str) -> str:
    """Return how a broker ended, from systemd and its last error; empty for a broker that was stopped in order.

    During the next start by systemd only the restart counter shows that the broker had ended.
    """
    result, restarts = unit.get("Result", "success"), unit.get("NRestarts", "0")
    if result == "success" and restarts in ("", "0"):
        return ""
    end_text = (
        f"systemd reports that the broker's unit ended with the result {result}, and has the state "
        f"{unit.get('SubState')} after {restarts} restarts"
    )
    return f"{end_text}. The last error of the broker is: {error}" if error else end_text


def _local_time(phase: LoggedBrokerPhase) -> str | None:
    """Return the time of the log record that shows a broker's phase, as the log has it but without milliseconds."""
    return f"{phase.time:%Y-%m-%d %H:%M:%S}" if phase.time else None


def _utc_time_text(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
