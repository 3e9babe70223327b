# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Finds which messages of durable subscriptions a broker loses that builds its index from the journal.

It records them in the store:

STORE/at-risk/TIME-N.json   what a start without a usable index put at risk; the operator removes it when it is read
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..install import disk
from ..install.configuration_archive import InstallError
from ..printable import counted, printable
from . import journal
from .index import INDEX, UNUSABLE_SUFFIX
from .indexed_subscriptions import IndexPageError, index_version, subscriptions_in_index
from .kept_index import DIRECTORY as KEPT
from .remaining_messages import RecoverySimulation

DIRECTORY = "at-risk"
"""The name of the directory, in a store, with the records of what starts without a usable index put at risk."""
_PASSES_OVER_RECORDS = 5
"""The version of an index of 5.9 to 5.11."""
_LISTED = 3
_MOST_BYTES = 1 << 20
_MOST_RECORDS = 100
_MOST_ROWS = 1000


class RebuildRefusedError(Exception):
    """An error for a start that would lose messages of durable subscriptions, and that nobody has confirmed."""


@dataclass(frozen=True)
class RebuildRisk:
    """The messages that durable subscriptions lose when a broker builds the index of a store from the journal.

    ``messages`` are the most that each subscription can lose, by topic and key (``client:name``); None where the
    journal is too large to count them. The key is empty for subscriptions that nobody can name: the journal no longer
    holds them, and the index cannot be read. ``is_complete`` False: there may be such subscriptions.
    """

    messages: Mapping[tuple[str, str], int | None]
    is_complete: bool

    def __bool__(self) -> bool:
        return bool(self.messages)

    def describe(self) -> str:
        """Return the subscriptions at risk as words, the first three by name."""
        names = [
            f"{printable(key) or 'unknown subscriptions'} of topic://{printable(topic)} "
            f"({'an unknown number' if number is None else f'at most {number:,}'})"
            for (topic, key), number in list(self.messages.items())[:_LISTED]
        ]
        more = len(self.messages) - len(names)
        text = ", ".join(names) + (f" and {counted(more, 'more subscription')}" if more else "")
        return text if self.is_complete else f"{text}; the index cannot be read, so there may be others"

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each subscription, ready for JSON; the first 1,000."""
        return [
            {"topic": topic, "subscription": key, "messages": number}
            for (topic, key), number in list(self.messages.items())[:_MOST_ROWS]
        ]


NO_RISK = RebuildRisk({}, is_complete=True)


def find_rebuild_risk(store: str, index_stores: Iterable[str] = ()) -> RebuildRisk:
    """Return what a broker loses of the durable subscriptions of a kahaDB store that builds its index from the journal.

    The subscriptions are those of the store's index, of an index that was moved aside, of a kept copy, of the same in
    ``index_stores``, and of the journal. While the journal has all data files since its first one nothing is at risk,
    but on releases that pass over the records of subscriptions (5.11.4: "ignoring add sub command during recovery
    replay"), as every release with an index of version 5 may, and one whose index cannot be read. Raises OSError.
    """
    known, versions = _known_subscriptions([store, *index_stores])
    is_complete = bool(versions)
    reads_records = is_complete and _PASSES_OVER_RECORDS not in versions
    numbers = []
    with suppress(FileNotFoundError):
        numbers = sorted(filter(None, map(journal.data_file_number, os.listdir(store))))
    if not numbers or (reads_records and numbers == list(range(1, len(numbers) + 1))):
        return NO_RISK
    simulation = RecoverySimulation()
    try:
        for command in journal.commands(store, journal.JournalEnd()):
            simulation.apply(command)
        lost: dict[tuple[str, str], int | None] = dict(
            simulation.lost_by_rebuild(known, is_complete=is_complete, reads_records=reads_records)
        )
    except InstallError:
        lost = {(destination.partition(":")[2], key): None for destination, key in sorted(known)}
        if not is_complete:
            lost["", ""] = None
    return RebuildRisk(lost, is_complete)


def _known_subscriptions(stores: Iterable[str]) -> tuple[set[tuple[str, str]], set[int]]:
    """Return the subscriptions of all indexes that can be read, and the versions of these."""
    known: set[tuple[str, str]] = set()
    versions: set[int] = set()
    for store in stores:
        for path in (
            os.path.join(store, INDEX[0]),
            os.path.join(store, INDEX[0] + UNUSABLE_SUFFIX),
            os.path.join(store, KEPT, "copy", INDEX[0]),
        ):
            with suppress(IndexPageError, FileNotFoundError):
                known |= subscriptions_in_index(path)
                versions.add(index_version(path))
    return known, versions


def record_risk(directory: str, store: str, reason: str, risk: RebuildRisk) -> str:
    """Record durably what a start of ``store`` without its index puts at risk; return the path of the record.

    ``directory`` is the store, or the shared directory of a fenced one. What the newest record has is not recorded
    once more. Raises OSError.
    """
    rows = risk.rows()
    earlier = read_risk_records(directory)
    if earlier and earlier[-1].get("store") == store and earlier[-1].get("subscriptions") == rows:
        return str(earlier[-1]["path"])
    records = os.path.join(directory, DIRECTORY)
    os.makedirs(records, 0o750, exist_ok=True)
    disk.sync_directory(directory)
    now = time.time()
    path = os.path.join(records, f"{now:.0f}-{os.getpid()}.json")
    content = {
        "time": now,
        "store": store,
        "reason": reason,
        "complete": risk.is_complete,
        "subscriptions": rows,
        "more": max(0, len(risk.messages) - len(rows)),
    }
    disk.replace_file(path, json.dumps(content, indent=1).encode(), 0o640)
    return path


def describe_records(directory: str) -> list[str]:
    """Return a sentence for each record of a store: which subscriptions were at risk, when, and the record's path."""
    sentences = []
    for record in read_risk_records(directory):
        with suppress(KeyError, TypeError, ValueError):
            messages = {
                (str(row["topic"]), str(row["subscription"])): row["messages"] and int(row["messages"])
                for row in record["subscriptions"]
            }
            risk = RebuildRisk(messages, bool(record["complete"]))
            moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(float(record["time"])))
            sentences.append(f"{risk.describe()}, at the start of {moment} ({printable(record['path'])})")
    return sentences


def read_risk_records(directory: str) -> list[dict[str, Any]]:
    """Return the records of a store, oldest first, each with the ``path`` of its file; the newest 100.

    What is no record is left out. Raises OSError.
    """
    records = []
    folder = os.path.join(directory, DIRECTORY)
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))[-_MOST_RECORDS:]
    except (FileNotFoundError, NotADirectoryError):
        return []
    for name in names:
        path = os.path.join(folder, name)
        with suppress(OSError, ValueError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:
                content = json.loads(file.read(_MOST_BYTES))
            if isinstance(content, dict) and isinstance(content.get("subscriptions"), list):
                records.append({**content, "path": path})
    return records
