# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""How far a broker's own log says that it is.

A small part of the grammar in ``activemq_fleet.logs``, which is not on the hosts; a test reads
the samples with both.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_RECORD = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d{3} \| +[A-Z]+ +\| (.*)")
_TAIL = " | "
_ERROR = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d{3} \| +(?:ERROR|FATAL) +\| ")
_CAUSE = "Caused by: "
_SHOWN = 400
_NAME = r"\((?:[^()]+)\)"
# What a record says, and the phase it puts a broker into. ``started`` means attached for a pure slave.
_MEANINGS = (
    ("begin", r"Using Persistence Adapter: "),
    ("waiting", r"Database .+ is locked by another server\. This broker is now in slave mode"),
    ("waiting", r"Database .+ is locked\.\.\. waiting [\d.]+ seconds for the database to be unlocked"),
    ("waiting", r"Attempting to acquire the exclusive lock to become the Master broker"),
    ("waiting", r"Failed to acquire lock\.\s+Sleeping for \d+ milli"),
    ("waiting", r".+ attempting to acquire exclusive lease to become the [Mm]aster"),
    ("waiting", r".+ failed to acquire lease\.\s+Sleeping for \d+ milli"),
    ("starting", r"Becoming the master on dataSource: "),
    ("starting", r".+, becoming (?:the )?master (?:with lease expiry .+ )?on dataSource: "),
    ("starting", r"KahaDB is version "),
    ("starting", rf"Apache ActiveMQ \S+ {_NAME} is starting"),
    ("starting", rf"ActiveMQ \S+ JMS Message Broker {_NAME} is starting"),
    ("started", rf"Apache ActiveMQ \S+ {_NAME} started"),
    ("started", rf"ActiveMQ JMS Message Broker {_NAME} started"),
    ("slave", r"Starting a slave connection between .+ and "),
    ("attached", r"Slave connection between .+ and .+ has been (?:re)?established\."),
    ("alone", r"Failed to start network bridge: "),
    ("promoted", r"Master Failed - starting all connectors"),
    ("stopping", r"The Master has failed \.\.\. shutting down"),
    ("stopping", r"(?:.+, )?[Nn]o longer able to keep the exclusive lock so giving up being a master"),
    ("stopping", rf"(?:Apache ActiveMQ \S+|ActiveMQ Message Broker) {_NAME} is shutting down"),
    ("stopped", rf"Apache ActiveMQ \S+ {_NAME} is shutdown"),
    ("stopped", rf"ActiveMQ JMS Message Broker {_NAME} stopped"),
    ("failed", r"Failed to start (?:Apache ActiveMQ|ActiveMQ JMS Message Broker)"),
    ("failed", r"Failed to load: .+?, reason: "),
)
_PATTERNS = tuple((meaning, re.compile(pattern)) for meaning, pattern in _MEANINGS)
# Far more than a start writes; a log that has rolled since says nothing of the start any more.
_READ = 4 << 20


@dataclass(frozen=True)
class Phase:
    """``name``: starting, waiting, attached, started, stopping, stopped, failed, or unknown.

    ``message`` is the record that says so, ``time`` its local time.
    """

    name: str
    message: str = ""
    time: str = ""


UNKNOWN = Phase("unknown")


def read_phase(data: str, since: float) -> Phase:
    """The phase by ``data``/activemq.log, from records no older than ``since`` (seconds since the epoch)."""
    return follow(_since([*_tail(data, "activemq.log.1"), *_tail(data, "activemq.log")], since))


def last_error(data: str, since: float = 0) -> str:
    """What went wrong last and not before ``since``, in one line with its root cause; or nothing."""
    error = cause = ""
    for line in _tail(data, "activemq.log"):
        found = _ERROR.match(line)
        if found:
            is_late = time.mktime(time.strptime(found[1], "%Y-%m-%d %H:%M:%S")) >= since - 1.5
            error, cause = line.split(_TAIL, 2)[2].rsplit(_TAIL, 2)[0] if is_late else "", ""
        elif error and line.startswith(_CAUSE):
            cause = line[len(_CAUSE) :]
    return " ".join((f"{error}: {cause}" if cause and cause not in error else error).split())[:_SHOWN]


def _tail(data: str, name: str) -> list[str]:
    try:
        with open(os.path.join(data, name), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _READ))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []


def _since(lines: Iterable[str], since: float) -> Iterator[tuple[str, str]]:
    """Time and message of each record. The log has whole local seconds, so one of slack is given."""
    for line in lines:
        found = _RECORD.match(line)
        if not found:
            continue
        try:
            written = time.mktime(time.strptime(found[1], "%Y-%m-%d %H:%M:%S"))
        except ValueError:
            continue
        if written >= since - 1.5:
            yield found[1], found[2].rsplit(_TAIL, 2)[0]


def follow(records: Iterable[tuple[str, str]]) -> Phase:
    """The phase after these records. Pure."""
    phase, slave = UNKNOWN, False
    for moment, message in records:
        meaning = next((meaning for meaning, pattern in _PATTERNS if pattern.match(message)), None)
        if meaning is None or (meaning == "starting" and phase.name not in ("waiting", "unknown", "stopped", "failed")):
            continue
        if meaning in ("slave", "alone"):
            slave = meaning == "slave"
            continue
        if meaning == "begin":
            slave, meaning = False, "starting"
        elif meaning == "promoted":
            slave, meaning = False, "started"
        elif meaning == "started" and slave:
            meaning = "attached"
        phase = Phase(meaning, message, moment)
    return phase
