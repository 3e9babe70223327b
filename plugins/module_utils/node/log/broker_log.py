# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads from a broker's own log which phase the broker is in (starting, waiting, started …), and its last error.

A small part of the grammar in ``activemq_fleet.logs``, which is not on the hosts; a test reads
the samples with both. Clients choose names that stand in messages, and log4j 1 writes their line ends
as they are: so a record counts only by the class that writes it, and what a log says never outranks
what the broker's sockets and answers show.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..files.untrusted_paths import UntrustedPathError, open_directory, open_owned_file
from .root_cause import CAUSE, root_cause

_HEAD = re.compile(r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(?P<ms>\d{3}) \| +(?P<level>[A-Z]+) +\| (?P<rest>.*)")
_END = re.compile(r"(.*) \| ([^\s|]+) \| (.*)")
_ERRORS = ("ERROR", "FATAL")
_LINE_END = re.compile(r"\\r\\n|\\[rn]")
_FRAME = re.compile(r"\s*(?:at \S+\(.*\)?$|\.\.\. \d+ (?:more|common frames omitted))")
_NAMES_ERROR = re.compile(r"(?:[a-z]\w*\.)+\w*(?:Exception|Error)\b|\b(?:ERROR|Error|Unrecognized|Invalid|Could not)\b")
_SHOWN = 400
SEARCHED = 1000
"""Characters of a line or message that are searched. Clients put names of any length into one."""
_SLACK = 1.5  # seconds
_MESSAGE = 120
"""Characters of a message that are shown at least, before its cause."""
_LONGEST = 200
"""Lines that one message may have at most; Spring's have some dozens."""
_NAME = r"\((?:[^()]+)\)"
_BROKER = ("BrokerService",)
_SLAVE = ("MasterConnector",)
_FILE_LOCK = ("SharedFileLocker", "MessageDatabase", "JobSchedulerStore", "JobSchedulerStoreImpl")
_DATABASE_LOCK = ("DefaultDatabaseLocker", "TransactDatabaseLocker", "LeaseDatabaseLocker")
_LOST_LOCK = ("LockableServiceSupport", "JDBCPersistenceAdapter")
# The phase into which a record puts a broker, the classes that write it (every release's, from their
# source), and its text. ``started`` means attached for a pure slave.
_MEANINGS = (
    ("begin", _BROKER, r"Using Persistence Adapter: "),
    ("waiting", _FILE_LOCK, r"Database .+ is locked by another server\. This broker is now in slave mode"),
    ("waiting", _FILE_LOCK, r"Database .+ is locked\.\.\. waiting [\d.]+ seconds for the database to be unlocked"),
    ("waiting", _DATABASE_LOCK, r"Attempting to acquire the exclusive lock to become the Master broker"),
    ("waiting", _DATABASE_LOCK, r"Failed to acquire lock\.\s+Sleeping for \d+ milli"),
    ("waiting", _DATABASE_LOCK, r".+ attempting to acquire exclusive lease to become the [Mm]aster"),
    ("waiting", _DATABASE_LOCK, r".+ failed to acquire lease\.\s+Sleeping for \d+ milli"),
    ("starting", _DATABASE_LOCK, r"Becoming the master on dataSource: "),
    ("starting", _DATABASE_LOCK, r".+, becoming (?:the )?master (?:with lease expiry .+ )?on dataSource: "),
    ("starting", ("MessageDatabase",), r"KahaDB is version "),
    ("starting", _BROKER, rf"Apache ActiveMQ \S+ {_NAME} is starting"),
    ("starting", _BROKER, rf"ActiveMQ \S+ JMS Message Broker {_NAME} is starting"),
    ("started", _BROKER, rf"Apache ActiveMQ \S+ {_NAME} started"),
    ("started", _BROKER, rf"ActiveMQ JMS Message Broker {_NAME} started"),
    ("slave", _SLAVE, r"Starting a slave connection between .+ and "),
    ("attached", _SLAVE, r"Slave connection between .+ and .+ has been (?:re)?established\."),
    ("alone", _SLAVE, r"Failed to start network bridge: "),
    ("promoted", _BROKER, r"Master Failed - starting all connectors"),
    ("stopping", _BROKER, r"The Master has failed \.\.\. shutting down"),
    ("stopping", _LOST_LOCK, r"(?:.+, )?[Nn]o longer able to keep the exclusive lock so giving up being a master"),
    ("stopping", _BROKER, rf"(?:Apache ActiveMQ \S+|ActiveMQ Message Broker) {_NAME} is shutting down"),
    ("stopped", _BROKER, rf"Apache ActiveMQ \S+ {_NAME} is shutdown"),
    ("stopped", _BROKER, rf"ActiveMQ JMS Message Broker {_NAME} stopped"),
    ("failed", _BROKER, r"Failed to start (?:Apache ActiveMQ|ActiveMQ JMS Message Broker)"),
    ("failed", ("XBeanBrokerFactory",), r"Failed to load: .+?, reason: "),
)
_PATTERNS = tuple((meaning, classes, re.compile(pattern)) for meaning, classes, pattern in _MEANINGS)
# Threads that serve connections. On them no broker starts or waits for a lock.
_NEVER_OF_CLIENTS = ("begin", "waiting", "starting", "started")
_CLIENT_THREAD = re.compile(r"ActiveMQ (?:NIO Worker|Transport: \w[\w+.-]*:///)|qtp\d")
# Far more than a start writes; a log that has rolled since says nothing of the start any more.
_READ = 4 << 20


@dataclass(frozen=True)
class Phase:
    """The phase of a broker's life that its log shows, such as starting, waiting for the lock, or started.

    ``name``: starting, waiting, attached, started, stopping, stopped, failed, or unknown. ``message`` is the record
    that shows the phase, ``time`` its local time in whole seconds. ``has_started``: the same process logged before that
    it is started, or attached.
    """

    name: str
    message: str = ""
    time: str = ""
    has_started: bool = False
    milliseconds: int = 0


@dataclass(frozen=True)
class Record:
    """One record of activemq.log: ``time`` is local, in whole seconds, ``logger`` the Java class that wrote it."""

    time: str
    level: str
    message: str
    logger: str
    thread: str
    milliseconds: int = 0

    def is_by(self, classes: Sequence[str]) -> bool:
        """Return whether one of the named classes of ActiveMQ wrote the log record."""
        return self.logger.startswith("org.apache.activemq.") and self.logger.rpartition(".")[2] in classes

    @property
    def is_of_a_client(self) -> bool:
        """Whether the log record was written by a thread that serves a client's connection."""
        return _CLIENT_THREAD.match(self.thread) is not None


UNKNOWN = Phase("unknown")


def read_phase(data: str, since: float) -> Phase:
    """Return the broker's phase by ``data``/activemq.log, from records no older than ``since`` (epoch seconds)."""
    return phase_since(read_records(data, since), since)


def phase_since(found: Sequence[Record], since: float) -> Phase:
    """Return how far the broker process that began at ``since`` (epoch seconds) has come, by its log records ``found``.

    Pure.
    """
    # No JVM starts a broker within its first second: records that old are of the previous process.
    own = phase_after(record for record in found if _is_of(record, since + _SLACK))
    return replace(phase_after(found), has_started=own.has_started)


def read_records(data: str, since: float) -> list[Record]:
    """Return the records of ``data``/activemq.log and the file before it that are no older than ``since``.

    ``since`` is in seconds since the epoch; of each file its last 4 MiB are read.
    """
    lines = [*_tail(data, "activemq.log.1"), *_tail(data, "activemq.log")]
    return [record for record in parse_records(lines) if _is_of(record, since)]


def last_error(data: str, since: float = 0) -> str:
    """Return the last error in ``data``/activemq.log since a time, on one line with its root cause; or empty."""
    error = ""
    stack: list[str] = []
    for line, record in _followed(_tail(data, "activemq.log")):
        if record is not None and record.level in _ERRORS:
            error, stack = record.message if _is_of(record, since) else "", []
        elif record is None and error:
            stack.append(line)
    return _with_cause(error, root_cause(stack))


def printed_error(lines: Sequence[str]) -> str:
    """Return why a process ended, on one line, from the lines it printed last: its root cause, else its first error.

    Frames of a stack trace, also those that are only counted (``... 20 more``), are passed over.
    """
    lines = [line[:SEARCHED] for line in lines]
    printed = [line.strip() for line in lines if line.strip() and not _FRAME.match(line)]
    error = next((line for line in printed if _NAMES_ERROR.search(line)), printed[-1] if printed else "")
    return _with_cause("" if error.startswith(CAUSE) else error, root_cause(lines))


def _with_cause(error: str, cause: str) -> str:
    """Return error and cause on one line; when it is too long, the end of the message is cut and never the cause."""
    error, cause = (" ".join(_LINE_END.sub(" ", text).split()) for text in (error, cause))
    if not cause or cause in error[:_SHOWN]:
        return error[:_SHOWN]
    cause = cause[:_SHOWN]
    if len(error) + len(cause) > _SHOWN:
        error = error[: max(_SHOWN - len(cause), _MESSAGE)] + "…"
    return f"{error}: {cause}" if error else cause


def _tail(data: str, name: str) -> list[str]:
    try:
        with open_directory(data) as directory, os.fdopen(open_owned_file(directory, name), "rb") as file:
            begin = max(0, os.fstat(file.fileno()).st_size - _READ)
            file.seek(begin)
            lines = file.read(_READ).decode(errors="replace").split("\n")
            # What is read from its middle on is no line.
            return lines[1:] if begin else lines
    except (UntrustedPathError, OSError):
        return []


def parse_records(lines: Iterable[str]) -> Iterator[Record]:
    """Return an iterator of the whole records in lines of a log; a record without logger and thread is left out."""
    return (record for _, record in _followed(lines) if record is not None)


def _followed(lines: Iterable[str]) -> Iterator[tuple[str, Record | None]]:
    """Yield each line with the record that it completes, or None: a message may go on over several lines."""
    head: re.Match[str] | None = None
    message: list[str] = []
    for line in lines:
        found = _HEAD.match(line)
        if found:
            head, message = found, [found["rest"]]
        elif head is not None:
            message.append(line)
        end = _END.fullmatch(message[-1]) if head is not None else None
        if head is not None and end:
            text = "\n".join([*message[:-1], end[1]])
            yield line, Record(head["time"], head["level"], text, end[2], end[3], int(head["ms"]))
            head = None
        else:
            yield line, None
            head = head if len(message) < _LONGEST else None


def _is_of(record: Record, since: float) -> bool:
    """Return whether a record was written after ``since`` and not in the future.

    The log has whole seconds: 1.5 s of slack.
    """
    written = epoch_seconds(record.time)
    return written is not None and since - _SLACK <= written <= time.time() + _SLACK


def epoch_seconds(local_time: str) -> float | None:
    """Return a local time as activemq.log writes it in seconds since the epoch; None for an impossible time."""
    try:
        return time.mktime(time.strptime(local_time, "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def phase_after(records: Iterable[Record]) -> Phase:
    """Return the phase of a broker (starting, waiting, started …) after it wrote the given log records. Pure."""
    phase, slave, started = UNKNOWN, False, False
    for record in records:
        meaning = _meaning(record)
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
        started = started or meaning in ("started", "attached")
        phase = Phase(meaning, record.message, record.time, started, record.milliseconds)
    return phase


def _meaning(record: Record) -> str | None:
    for meaning, classes, pattern in _PATTERNS:
        if record.is_by(classes) and pattern.match(record.message[:SEARCHED]):
            return None if meaning in _NEVER_OF_CLIENTS and record.is_of_a_client else meaning
    return None
