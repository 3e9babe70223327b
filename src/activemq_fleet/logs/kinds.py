"""What a message means: the kinds of log message from 5.3.0 to 6.3.1, as data.

``kinds.json`` was made from the source of all 114 release tags of apache/activemq and checked
against the logs of real brokers; ``releases`` says at which level which releases write a message.
``kinds_extra.json`` has what else real logs show often; its ids begin with ``X-`` and it is tried last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from activemq_fleet.logs.grammar import Record

_FILES = ("kinds.json", "kinds_extra.json")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of message. ``releases`` is text, as in ``INFO 5.3.0-5.8.0; ERROR 5.9.0+``."""

    id: str
    regex: re.Pattern[str]
    releases: str


@dataclass(frozen=True, slots=True)
class Event:
    """A record whose kind is known, with what the message names; absent parts are left out."""

    kind: str
    record: Record
    fields: Mapping[str, str]


@cache
def _entries() -> dict[str, tuple[str, str]]:
    texts = [(files("activemq_fleet.logs") / name).read_text(encoding="utf-8") for name in _FILES]
    return {entry["id"]: (entry["regex"], entry["releases"]) for text in texts for entry in json.loads(text)}


def kinds() -> tuple[str, ...]:
    """The ids of all kinds, in the order in which they are tried."""
    return tuple(_entries())


@cache
def kind(id_: str) -> Kind:
    """The kind of that id. Compiled on first use: nobody needs all of them. Raises KeyError."""
    regex, releases = _entries()[id_]
    return Kind(id_, re.compile(regex), releases)


def classify(record: Record, among: Iterable[str] | None = None) -> Event | None:
    """The first kind, of those ``among`` or of all, that the record's message matches."""
    for id_ in kinds() if among is None else among:
        match = kind(id_).regex.search(record.message)
        if match is not None:
            named = {key: value for key, value in match.groupdict().items() if value is not None}
            return Event(id_, record, named)
    return None
