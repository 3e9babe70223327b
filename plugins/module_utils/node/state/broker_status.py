# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Gathers in one call all evidence that ``status`` shows of a broker, on its host or in a lab. It changes nothing.

In addition to the state, as in ``broker_info``, these are values of the broker's MBeans, log records about links, the
installed configuration, and the expiry times of its certificates.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Collection, Mapping
from typing import Any

from ..config.versions import ConfigurationPaths
from ..errors import NodeError
from ..judge import SERVING
from ..log.bridge_breaks import flapping_bridges
from ..log.broker_log import log_time_to_epoch_seconds, unreadable_log_reason
from ..log.broker_run import LoggedBrokerPhase
from ..log.log_records import Record
from ..masking import mask_and_shorten, mask_text
from ..printable import escape_unprintable
from ..probe.broker_usage import read_broker_jmx_statistics
from ..probe.certificates import fetch_connector_certificate_expiry_times
from ..timeouts import PROBE
from .broker_state import gather_state_and_sources

_MAX_RECORDS = 40
_MAX_CHARACTERS = 300
# Records about links and rejected connections, in addition to warnings and errors.
_LINK_RECORD = re.compile(
    r"Started responder end of duplex bridge |Stopping \S+ because Failed with |Could not accept conn"
)


def gather_broker_status(base: str, unit: str | None, pids: Collection[int] | None = None) -> dict[str, Any]:
    """Gather the status of a broker on its host: its state, resource usage, log records, files and certificates.

    The status is the result of ``broker_info`` with further keys. ``base`` is the broker's directory. ``pids``: the
    processes to search for the broker, by default all.

    ``holds_lock``: whether its process holds the lock of its store, None without a kahaDB store or a process, and on
    FUSE. ``state_since``: since when it is in its state, in seconds since the epoch, None if unknown. ``usage``: as
    ``broker_usage`` describes it, empty for a broker that is not active; ``usage_error`` is the reason why it is
    missing. ``records``: the newest ``message`` s of its log about links and its newest warnings, each with ``level``,
    with secrets masked. ``breaking_bridges``: the result of ``flapping_bridges``, with secrets masked. ``watchdog``:
    ``state`` and ``text`` of the watchdog's unit, as systemd shows them; None without a running broker or without the
    unit. ``deployed``: the SHA-256 of each installed file; for a file with secrets, of its masked text. ``log_error``:
    why no record of the process can be read from its log, empty if records can be read. ``certificates``: the result of
    ``fetch_connector_certificate_expiry_times``.

    If the configuration cannot be read, the state is None, and ``how`` is the reason.
    """
    layout = ConfigurationPaths(os.path.abspath(base))
    try:
        status, sources = gather_state_and_sources(layout.base, unit, pids=pids)
    except (NodeError, OSError) as error:
        return {"state": None, "how": escape_unprintable(str(error))}
    process, deployed = sources.evidence.process, sources.deployed
    status.update(
        holds_lock=None, usage={}, usage_error="", log_error="", records=[], breaking_bridges=[], certificates=[]
    )
    status["watchdog"] = _watchdog_state(sources.watchdog) if process else None
    if process and deployed.store:
        status["holds_lock"] = sources.evidence.holds_lock
    if process:
        if not sources.records:
            status["log_error"] = unreadable_log_reason(layout.data, process.start_time)
        status["records"] = _link_and_warning_records(sources.records)
        status["breaking_bridges"] = [_mask_bridge(bridge) for bridge in flapping_bridges(sources.records, time.time())]
        status["state_since"] = _state_since(status["state"], sources.evidence.phase, process.start_time)
    if process and status["state"] in SERVING:
        try:
            status["usage"] = read_broker_jmx_statistics(process, PROBE)
        except (NodeError, OSError) as error:
            status["usage_error"] = escape_unprintable(mask_text(str(error)))
        status["certificates"] = fetch_connector_certificate_expiry_times(deployed, process, PROBE)
    return {**status, "deployed": deployed_file_hashes(layout)}


def _watchdog_state(properties: Mapping[str, str]) -> dict[str, str] | None:
    if properties.get("LoadState") != "loaded":
        return None
    return {
        "state": properties.get("ActiveState", ""),
        "text": escape_unprintable(mask_text(properties.get("StatusText", ""))),
    }


def _mask_bridge(bridge: dict[str, Any]) -> dict[str, Any]:
    return {
        name: escape_unprintable(mask_text(text)) if isinstance(text, str) else text for name, text in bridge.items()
    }


def deployed_file_hashes(layout: ConfigurationPaths) -> dict[str, str]:
    """Return the SHA-256 of each deployed configuration file of a broker, by path.

    For a file with secrets it is that of the masked text. Empty if no complete version is in force. The hash of a
    secret would allow an attacker to try passwords.
    """
    try:
        version = layout.current_version()
    except NodeError:
        return {}
    if version is None:
        return {}
    return {
        **version.manifest,
        **{path: hashlib.sha256(text.encode()).hexdigest() for path, text in version.masked.items()},
    }


def _link_and_warning_records(records: list[Record]) -> list[dict[str, str]]:
    selected = [record for record in records if record.level in ("WARN", "ERROR") or _LINK_RECORD.match(record.message)]
    return [
        {"level": record.level, "message": _shorten_message(record.message_with_error)}
        for record in selected[-_MAX_RECORDS:]
    ]


def _shorten_message(message: str) -> str:
    return escape_unprintable(mask_and_shorten(" ".join(message.split()), _MAX_CHARACTERS))


def _state_since(state: str, phase: LoggedBrokerPhase, started: float) -> float | None:
    """Return since when a broker is in its state: the time of the log record that shows it, else its start time."""
    if state in SERVING and phase.name == "started" and phase.time:
        return log_time_to_epoch_seconds(phase.time, time.time())
    return round(started, 3) if state in ("standby", "starting") else None
