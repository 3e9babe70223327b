# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Records on disk that a change of configuration needs a restart, until a broker has been started since.

Without the record, a run that is interrupted between the installation and the restart would leave the broker on its old
configuration permanently, because the next run finds no changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from ..files import disk
from ..files.untrusted_paths import UntrustedPathError, read_file
from ..foreign_data import parse_untrusted_json
from ..process.proc import Process, boot_id, find_broker_process, seconds_since_boot
from ..process.service_names import WATCHDOG_SUFFIX
from .configuration_archive import ConfigurationFile
from .versions import ConfigurationPaths, InstalledVersion

# log4j 2 reads its file again every monitorInterval seconds; no other file is read twice.
_LOG4J2 = "conf/log4j2.properties"
_MAX_BYTES = 1 << 20
# The account of the broker also reads the record: the watchdog determines from it which ports to probe.
_FILE_MODE = 0o644
_HAS_MONITOR_INTERVAL = re.compile(rb"^\s*monitorInterval\s*=\s*[1-9]", re.MULTILINE)


@dataclass(frozen=True)
class PendingRestartRecord:
    """The record that a broker needs a restart, because its configuration changed while it was running.

    It contains the reasons. A broker that was started before ``uptime`` (seconds since boot ``boot``) must be
    restarted. ``uptime`` is None until the link is switched. ``previous`` is the last version that a broker was started
    with.
    """

    previous: str
    reasons: tuple[str, ...]
    boot: str
    uptime: float | None = None

    def is_restart_no_longer_needed(self, process: Process | None) -> bool:
        """Return whether a broker no longer needs a restart that a change of its configuration had required.

        This is so if no broker runs, or if the broker was started after the change.

        ``process`` is the broker's process, None if no broker runs.
        """
        if process is None or self.boot != boot_id():
            return True
        return self.uptime is not None and process.started > self.uptime


def restart_reasons(
    changed: Iterable[str], old: InstalledVersion | None, tree: Mapping[str, ConfigurationFile]
) -> list[str]:
    """Return the reasons why changed configuration files require a restart of the broker.

    There is one line for each file that it reads only at its start.
    """
    return [f"{path} changed" for path in changed if not _is_read_at_runtime(path, old, tree)]


def _is_read_at_runtime(path: str, old: InstalledVersion | None, tree: Mapping[str, ConfigurationFile]) -> bool:
    if path.endswith(f"{WATCHDOG_SUFFIX}.service"):
        return True
    if path != _LOG4J2 or old is None or path not in tree:
        return False
    return bool(_HAS_MONITOR_INTERVAL.search(old.read_installed_file(path) or b"")) and bool(
        _HAS_MONITOR_INTERVAL.search(tree[path].content)
    )


def read_pending_restart(layout: ConfigurationPaths) -> PendingRestartRecord | None:
    """Read the record of a broker's pending restart; return None if no restart is pending.

    The broker may have been started since.
    """
    pending = _read_record(layout.pending)
    process = find_broker_process(layout.base) if pending else None
    return None if pending and process and pending.is_restart_no_longer_needed(process) else pending


def pending_restart_of_process(layout: ConfigurationPaths, process: Process | None) -> PendingRestartRecord | None:
    """Return the record of a configuration change for which a broker's process must be restarted; None without one.

    Returns None also if the broker has read its configuration or does not run.
    """
    pending = read_pending_restart(layout)
    return pending if pending and not pending.is_restart_no_longer_needed(process) else None


def _read_record(path: str) -> PendingRestartRecord | None:
    try:
        known = parse_untrusted_json(read_file(path, _MAX_BYTES))
        return PendingRestartRecord(known["previous"], tuple(known["reasons"]), known["boot"], known["uptime"])
    except FileNotFoundError:
        return None
    except (UntrustedPathError, ValueError, KeyError, TypeError):
        # The file is written atomically, so it was edited by hand: the restart stays pending.
        reason = f"the file {path}, which records why the broker requires a restart, was changed by hand"
        return PendingRestartRecord("", (reason,), boot_id())


def was_broker_started_with(layout: ConfigurationPaths, version: str) -> bool:
    """Return whether a broker was last started with the given version of its configuration.

    Reverting to that version needs no restart.
    """
    pending = read_pending_restart(layout)
    return pending is not None and pending.previous == version


def record_pending_restart(layout: ConfigurationPaths, previous: str, more: Iterable[str]) -> PendingRestartRecord:
    """Record that a broker must be restarted, because its configuration changed.

    Returns the record. Reasons that are recorded already stay.
    """
    previous_record = read_pending_restart(layout)
    known = previous_record.reasons if previous_record else ()
    pending = PendingRestartRecord(
        previous=previous_record.previous if previous_record and previous_record.previous else previous,
        reasons=(*known, *(reason for reason in more if reason not in known)),
        boot=boot_id(),
    )
    return _write_record(layout, pending)


def record_deployment_time(layout: ConfigurationPaths, pending: PendingRestartRecord) -> PendingRestartRecord:
    """Set the deployment time of a configuration that requires a restart to now, write this record, and return it.

    A broker that is started later needs no restart.
    """
    return _write_record(layout, replace(pending, uptime=seconds_since_boot(), boot=boot_id()))


def remove_pending_restart(layout: ConfigurationPaths) -> None:
    """Remove the record of a broker's pending restart."""
    disk.remove_file_or_link(layout.pending)


def _write_record(layout: ConfigurationPaths, pending: PendingRestartRecord) -> PendingRestartRecord:
    disk.replace_file(layout.pending, json.dumps(asdict(pending), sort_keys=True).encode() + b"\n", _FILE_MODE)
    return pending
