# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The watchdog as one file that the host's Python runs."""

from __future__ import annotations

from types import ModuleType

from .. import foreign_data, printable, protocols, root_cause, text_lines
from ..fence import decision, shared_store
from ..host import (
    broker_configuration,
    broker_connection,
    broker_log,
    certificates,
    deadline_socket,
    held_by_process,
    judge,
    peer_account,
    probe,
    probe_account,
    process,
    textfile,
    timeouts,
    untrusted_paths,
    versions,
)
from ..install import configuration_archive, disk, pending_restart
from ..install.program_archive import pack
from ..kahadb import risk_records
from . import hang_detection, watchdog

_PARTS: tuple[ModuleType, ...] = (
    broker_configuration,
    broker_connection,
    broker_log,
    certificates,
    deadline_socket,
    decision,
    disk,
    hang_detection,
    configuration_archive,
    pending_restart,
    printable,
    foreign_data,
    root_cause,
    judge,
    peer_account,
    probe,
    probe_account,
    process,
    protocols,
    risk_records,
    shared_store,
    held_by_process,
    text_lines,
    textfile,
    timeouts,
    untrusted_paths,
    versions,
    watchdog,
)


def program(python: str) -> bytes:
    """Return the content of the watchdog's executable file; ``python`` is the interpreter that runs it."""
    return pack(watchdog, _PARTS, python)
