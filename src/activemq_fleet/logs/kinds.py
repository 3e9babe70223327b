"""Name the kinds of log messages of ActiveMQ 5.3.0 to 6.3.1, as data.

``kinds.json`` was made from the source of all 114 release tags of apache/activemq and checked against the logs of real
brokers; ``releases`` says which releases write a message, and at which level. ``kinds_extra.json`` holds further kinds
that real logs show often; their ids begin with ``X-`` and they are tried last. ``classes`` are the classes whose source
has the message in any release; a message of another class only resembles it, as a client's name in a message may.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from activemq_fleet.logs.grammar import ParsedRecord

_FILES = ("kinds.json", "kinds_extra.json")
CLIENT_THREAD = re.compile(r"ActiveMQ (?:NIO Worker|Transport: \w[\w+.-]*:///)|qtp\d")
"""Matches names of threads that serve connections."""
COMPARED = 1000
"""Characters of a message that are compared with the kinds. Clients put names of any length into messages, and some
kinds take time with the square of that length."""
NEVER_OF_CLIENTS = frozenset(
    {"LIFE-STORE-CHOSEN", "LIFE-STARTING", "LIFE-STARTING-OLD", "LIFE-STARTED", "LIFE-STARTED-OLD", "LIFE-PA-STARTED"}
    | {"LOCK-FILE-WAIT", "LOCK-FILE-WAIT-OLD", "LOCK-DB-TRY", "LOCK-DB-WAIT", "LOCK-DB-GOT"}
    | {"LOCK-LEASE-TRY", "LOCK-LEASE-WAIT", "LOCK-LEASE-GOT", "KDB-OPENING", "KDB-VERSION"}
)
"""Kinds about a start or about waiting for a lock, which no broker logs on a thread that serves connections."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of log message; ``releases`` says at which level which releases write it, as in ``INFO 5.3.0-5.8.0``.

    ``classes`` are the simple names of the classes that write it; empty where they are not known.
    """

    id: str
    regex: re.Pattern[str]
    releases: str
    classes: frozenset[str] = frozenset()

    def is_written_by(self, logger: str, thread: str) -> bool:
        """Return whether a logger's class may write messages of the kind on this thread;
        True where both are unknown.
        """
        if logger and self.classes and logger.rpartition(".")[2] not in self.classes:
            return False
        return self.id not in NEVER_OF_CLIENTS or CLIENT_THREAD.match(thread) is None


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A log record of a known kind, with the values that its message names; absent values are left out."""

    kind: str
    record: ParsedRecord
    fields: Mapping[str, str]


@cache
def _entries() -> dict[str, dict[str, Any]]:
    texts = [(files("activemq_fleet.logs") / name).read_text(encoding="utf-8") for name in _FILES]
    return {entry["id"]: entry for text in texts for entry in json.loads(text)}


def kinds() -> tuple[str, ...]:
    """Return the ids of all kinds of log messages, in the order in which a message is compared with them."""
    return tuple(_entries())


@cache
def kind(id_: str) -> Kind:
    """Return the kind of log message with an id, compiled on first use. Raises KeyError for an unknown id."""
    entry = _entries()[id_]
    return Kind(id_, re.compile(entry["regex"]), entry["releases"], frozenset(entry.get("classes", ())))


def classify(record: ParsedRecord, among: Iterable[str] | None = None) -> LogEvent | None:
    """Return a log record as an event of the first kind (in ``among``, or of all) that its message matches, or None.

    Returns None where no kind matches, or where the record's class or thread does not write the first match.
    """
    for id_ in kinds() if among is None else among:
        match = kind(id_).regex.search(record.message[:COMPARED])
        if match is not None:
            if not kind(id_).is_written_by(record.logger, record.thread):
                return None
            named = {key: value for key, value in match.groupdict().items() if value is not None}
            return LogEvent(id_, record, named)
    return None
