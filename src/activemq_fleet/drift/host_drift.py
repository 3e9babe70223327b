"""Compare the planned files of one host with the collected ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

from activemq_fleet.drift.differences import unified
from activemq_fleet.drift.judging import FileEvidence, file_status
from activemq_fleet.drift.records import FileRecord

Side = Literal["both", "planned", "found"]
Row = dict[str, str | None]


def side_of(records: Iterable[dict[str, Any]]) -> Side | None:
    """Return whether a host is planned, was collected, or both; None for files of a host that is neither."""
    is_planned = is_collected = False
    for record in records:
        is_planned |= record["planned"] is not None
        is_collected |= record["collected"]
    if is_planned:
        return "both" if is_collected else "planned"
    return "found" if is_collected else None


def drift_of_host(records: list[dict[str, Any]]) -> Iterator[Row]:
    """Yield the rows of the dataset ``drift`` for one host from its ``FileRecord`` as dictionaries, by path."""
    was_installed = any(record["manifest"] is not None for record in records)
    for path, parts in groupby(sorted(records, key=itemgetter("path")), key=itemgetter("path")):
        known = _together(list(parts))
        # A file that was deployed once, is planned no more and is not there has nothing to tell.
        if path and (known["planned"] or known["found"] or known["told"] == "unreadable"):
            yield _row(known, was_installed)


def _together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return all that is known of a file; every piece is in one of its records."""
    return {name: max((part[name] for part in parts if part[name]), default=None) for name in FileRecord._fields}


def _row(known: dict[str, Any], was_installed: bool) -> Row:
    status, cause = file_status(
        FileEvidence(known["planned"], known["found"], known["manifest"], known["told"], installed=was_installed)
    )
    return {
        "host": known["host"],
        "path": known["path"],
        "status": status,
        "cause": cause,
        "planned_sha256": known["planned"],
        "found_sha256": known["found"],
        "diff": None if status == "same" else _difference(known),
    }


def _difference(known: dict[str, Any]) -> str | None:
    if known["why"]:
        return f"not shown: {known['why']}\n"
    if known["told"] == "unreadable":
        return "the file could not be read on its host\n"
    old, new = known["planned_text"], known["found_text"]
    if (known["planned"] and old is None) or (known["found"] and new is None):
        return None  # planned without content
    return unified(known["path"], old, new)
