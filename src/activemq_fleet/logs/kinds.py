"""What a message means: the kinds of log message from 5.3.0 to 6.3.1, as data.

``kinds.json`` was made from the source of all 114 release tags of apache/activemq and checked
against the logs of real brokers; ``releases`` says at which level which releases write a message.
``kinds_extra.json`` has what else real logs show often; its ids begin with ``X-`` and it is tried last.
``classes`` are those whose source has the message, in any release: what another one writes only looks like
it, as a client's name in a message may.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from activemq_fleet.logs.grammar import Record

_FILES = ("kinds.json", "kinds_extra.json")
CLIENT_THREAD = re.compile(r"ActiveMQ (?:NIO Worker|Transport: \w[\w+.-]*:///)|qtp\d")
"""Threads that serve connections."""
NEVER_OF_CLIENTS = frozenset(
    {"LIFE-STORE-CHOSEN", "LIFE-STARTING", "LIFE-STARTING-OLD", "LIFE-STARTED", "LIFE-STARTED-OLD", "LIFE-PA-STARTED"}
    | {"LOCK-FILE-WAIT", "LOCK-FILE-WAIT-OLD", "LOCK-DB-TRY", "LOCK-DB-WAIT", "LOCK-DB-GOT"}
    | {"LOCK-LEASE-TRY", "LOCK-LEASE-WAIT", "LOCK-LEASE-GOT", "KDB-OPENING", "KDB-VERSION"}
)
"""Kinds that tell of a start or of waiting for a lock, which no broker does on such a thread."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of message. ``releases`` is text, as in ``INFO 5.3.0-5.8.0; ERROR 5.9.0+``.

    ``classes`` are the simple names of the classes that write it; empty where that is not known.
    """

    id: str
    regex: re.Pattern[str]
    releases: str
    classes: frozenset[str] = frozenset()

    def is_written_by(self, logger: str, thread: str) -> bool:
        """Whether this class writes it on this thread. True where a layout names neither."""
        if logger and self.classes and logger.rpartition(".")[2] not in self.classes:
            return False
        return self.id not in NEVER_OF_CLIENTS or CLIENT_THREAD.match(thread) is None


@dataclass(frozen=True, slots=True)
class Event:
    """A record whose kind is known, with what the message names; absent parts are left out."""

    kind: str
    record: Record
    fields: Mapping[str, str]


@cache
def _entries() -> dict[str, dict[str, Any]]:
    texts = [(files("activemq_fleet.logs") / name).read_text(encoding="utf-8") for name in _FILES]
    return {entry["id"]: entry for text in texts for entry in json.loads(text)}


def kinds() -> tuple[str, ...]:
    """The ids of all kinds, in the order in which they are tried."""
    return tuple(_entries())


@cache
def kind(id_: str) -> Kind:
    """The kind of that id. Compiled on first use: nobody needs all of them. Raises KeyError."""
    entry = _entries()[id_]
    return Kind(id_, re.compile(entry["regex"]), entry["releases"], frozenset(entry.get("classes", ())))


def classify(record: Record, among: Iterable[str] | None = None) -> Event | None:
    """The first kind, of those ``among`` or of all, that the record's message matches; None where another wrote it."""
    for id_ in kinds() if among is None else among:
        match = kind(id_).regex.search(record.message)
        if match is not None:
            if not kind(id_).is_written_by(record.logger, record.thread):
                return None
            named = {key: value for key, value in match.groupdict().items() if value is not None}
            return Event(id_, record, named)
    return None
