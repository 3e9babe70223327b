"""Name the warnings and errors that need no action, each with its reason.

``harmless.json`` lists them by the ids of kinds; message, releases and source of each are those of its kind. Entries of
kinds without known classes name their source. Every other warning or error belongs to an incident, or an audit reports
it as unexplained (docs/log-records.md).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from activemq_fleet.logs.kinds import log_message_kind


@dataclass(frozen=True, slots=True)
class HarmlessRecordKind:
    """A kind of harmless log record: a warning or error that needs no action.

    It has a message, releases, source classes and a reason.
    """

    id: str
    message: str
    releases: str
    source: tuple[str, ...]
    reason: str


@cache
def harmless_record_kinds() -> tuple[HarmlessRecordKind, ...]:
    """Return the kinds of harmless log records: warnings and errors that need no action.

    They are in the order of the list.
    """
    entries = json.loads((files("activemq_fleet.logs") / "harmless.json").read_text(encoding="utf-8"))
    return tuple(
        HarmlessRecordKind(
            entry["id"],
            log_message_kind(entry["id"]).regex.pattern,
            log_message_kind(entry["id"]).releases,
            tuple(sorted(log_message_kind(entry["id"]).classes)) or (entry["source"],),
            entry["reason"],
        )
        for entry in entries
    )


@cache
def harmless_kind_ids() -> frozenset[str]:
    """Return the ids of the kinds of harmless log messages, which need no action."""
    return frozenset(record.id for record in harmless_record_kinds())
