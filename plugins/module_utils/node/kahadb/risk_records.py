# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Records in a kahaDB store which messages a start without a usable index put at risk, and reads these records.

STORE/at-risk/TIME-N.json   one such start; operators remove the file after they have read it
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..files import disk
from ..foreign_data import parse_untrusted_json
from ..printable import count_with_noun, escape_unprintable

DIRECTORY = "at-risk"
"""The directory in a store with the records of starts without a usable index."""
_MAX_NAMED = 3
_MAX_BYTES = 1 << 20
_MAX_RECORDS = 100
_MAX_ROWS = 1000
_LONGEST_TEXT = 1000
_END_OF_TIME = 253_402_300_800
"""The end of the year 9999, in seconds since the epoch."""


@dataclass(frozen=True)
class RebuildRisk:
    """The risk of rebuilding a store's index: the messages that may be lost by it.

    These are messages of durable subscriptions. A broker builds the index from the journal. ``messages`` is the maximum
    number of messages that each subscription can lose, by topic and key (``client:name``); None if the journal is too
    large to count them. The key is empty for subscriptions without a known name, which are neither in the journal nor
    in a readable index. ``is_complete`` False: there may be such subscriptions.
    """

    messages: Mapping[tuple[str, str], int | None]
    is_complete: bool

    def __bool__(self) -> bool:
        return bool(self.messages)

    def describe_subscriptions(self) -> str:
        """Return a text that names the durable subscriptions that may lose messages by the rebuild of a kahaDB index.

        The first three are named.
        """
        names = [
            f"{escape_unprintable(key) or 'unknown subscriptions'} of topic://{escape_unprintable(topic)} "
            f"({_describe_message_count(number)})"
            for (topic, key), number in list(self.messages.items())[:_MAX_NAMED]
        ]
        more = len(self.messages) - len(names)
        text = ", ".join(names) + (f" and {count_with_noun(more, 'more subscription')}" if more else "")
        return text if self.is_complete else f"{text}; the index cannot be read, so there may be others"

    def rows_of_subscriptions_with_possible_loss(self) -> list[dict[str, Any]]:
        """Return the durable subscriptions at risk of losing messages as rows for JSON.

        A row has topic, subscription and number of messages. Only the first 1,000 are returned.
        """
        return [
            {"topic": topic, "subscription": key, "messages": number}
            for (topic, key), number in list(self.messages.items())[:_MAX_ROWS]
        ]


def _describe_message_count(number: int | None) -> str:
    if number is None:
        return "an unknown number of messages"
    return f"at most {number:,} {'message' if number == 1 else 'messages'}"


NO_RISK = RebuildRisk({}, is_complete=True)


@dataclass(frozen=True)
class RebuildMessageLossRiskRecord:
    """A record of the risk of losing messages by the rebuild of a store's index at a start of its broker.

    The time of the start is included. The record is in the store's directory; ``time`` is in seconds since the epoch.
    ``more``: how many subscriptions the record does not list.
    """

    path: str
    time: float
    store: str
    risk: RebuildRisk
    more: int = 0

    @property
    def count_of_subscriptions_with_possible_loss(self) -> int:
        """The number of durable subscriptions that may have lost messages by the rebuild of a kahaDB index.

        Subscriptions that the risk record does not list are included.
        """
        return len(self.risk.messages) + self.more

    def describe_risk(self) -> str:
        """Return a text that describes a risk record, that is, a recorded risk of losing messages.

        It has the subscriptions at risk, the start's time, and the record's path.
        """
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.time))
        return f"{self._subscription_description()}, at the start of {moment} ({escape_unprintable(self.path)})"

    def to_dict(self) -> dict[str, Any]:
        """Return the recorded risk of losing messages by the rebuild of a kahaDB index as a dict for JSON.

        It has ``time``, ``path``, the number of ``subscriptions`` and their ``description``.
        """
        return {
            "time": self.time,
            "path": escape_unprintable(self.path)[:_LONGEST_TEXT],
            "subscriptions": self.count_of_subscriptions_with_possible_loss,
            "description": self._subscription_description(),
        }

    def _subscription_description(self) -> str:
        return self.risk.describe_subscriptions()[:_LONGEST_TEXT]


def record_rebuild_risk(directory: str, store: str, reason: str, risk: RebuildRisk) -> str:
    """Write to a file which durable subscriptions may lose messages by the rebuild of a kahaDB store's index.

    The broker started without the index of its store. The record is written durably. Returns its path. ``directory`` is
    the store, or the shared directory of a fenced store. If the newest record has the same content, no new record is
    written. Raises OSError.
    """
    rows = risk.rows_of_subscriptions_with_possible_loss()
    earlier = read_newest_risk_records_of_store(directory)
    if earlier and earlier[-1].store == store and earlier[-1].risk.rows_of_subscriptions_with_possible_loss() == rows:
        return earlier[-1].path
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


def read_newest_risk_records_of_store(store_directory: str) -> list[RebuildMessageLossRiskRecord]:
    """Read the newest 100 risk records of one store, and return them as a list, oldest first.

    They are recorded risks of losing messages by a rebuild of the store's index. ``store_directory`` is the store, or
    the shared directory of a fenced store. Other files are skipped. Empty without records. Raises OSError.
    """
    records = []
    folder = os.path.join(store_directory, DIRECTORY)
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))[-_MAX_RECORDS:]
    except (FileNotFoundError, NotADirectoryError):
        return []
    for name in names:
        path = os.path.join(folder, name)
        with suppress(OSError, ValueError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:
                records.append(_parse_record(path, file.read(_MAX_BYTES)))
    return records


def _parse_record(path: str, content: bytes) -> RebuildMessageLossRiskRecord:
    """Return the risk record (a recorded risk of losing messages) in a file. Raises ValueError for other content."""
    try:
        fields = parse_untrusted_json(content)
        moment, more = fields["time"], fields["more"]
        messages = {(row["topic"], row["subscription"]): row["messages"] for row in fields["subscriptions"]}
        texts = (fields["store"], *(text for key in messages for text in key))
        is_valid = (
            all(isinstance(text, str) for text in texts)
            and all(number is None or isinstance(number, int) for number in (more, *messages.values()))
            and isinstance(moment, (int, float))
            and 0 <= moment < _END_OF_TIME
        )
        if not is_valid:
            raise ValueError(path)
        risk = RebuildRisk(messages, fields["complete"] is True)
        return RebuildMessageLossRiskRecord(path, float(moment), fields["store"], risk, max(0, more or 0))
    except (KeyError, TypeError, AttributeError):
        raise ValueError(path) from None
