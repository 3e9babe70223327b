# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the content of a kahaDB store in a form that can be compared with the store of another host.

The comparison does not use times, because the clocks of two hosts may differ by minutes. It uses the messages that a
store has, and those that it has ever had.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..errors import NodeError
from . import journal
from .indexed_messages import read_journal_positions_in_index
from .journal import JournalCommand

LIMIT = 1_000_000
"""Maximum number of a store's records that are returned, the newest ones, with about 9 bytes per record."""
MAX_LIVE = 20_000_000
"""Maximum number of messages and subscriptions in memory; a message of a topic counts once per subscriber."""
MAX_UNDECIDED = 2_000_000
"""Maximum number of records of open transactions in memory."""
MAX_DELIVERIES = 200_000_000
"""Maximum number of deliveries of topic messages to subscribers in the whole journal; more would take hours."""
_MAX_STARTS = 1000
_MAX_START_TEXT = 200
_RECORD = struct.Struct(">BQ")
_KEY_PAIR = struct.Struct(">QQ")


def _message_key(*parts: str) -> int:
    """Return the key of a message or subscription: a 64-bit hash of destination, message id and subscription.

    Any of the parts may be empty.
    """
    text = "\0".join(parts).encode(errors="surrogateescape")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


@dataclass
class StoreContentHashes:
    """The hashes of the messages and durable subscriptions in a kahaDB store, calculated from its journal's records.

    Each record adds or removes some, in order; those that no record removed are left. A hash is the key of a message or
    subscription. ``kinds`` and ``keys`` list every record about a message or subscription, in order, with a 0 for each
    start of a broker, whose text is in ``loads``. Above two million records the oldest are dropped. ``live`` has, by
    destination, each message of a queue, each message of a topic for a durable subscription, and each durable
    subscription that is left, with the key of the record that added it.
    """

    kinds: array[int] = field(default_factory=lambda: array("B"))
    keys: array[int] = field(default_factory=lambda: array("Q"))
    live: dict[str, dict[int, int]] = field(default_factory=dict)
    subscribers: dict[str, set[str]] = field(default_factory=dict)
    transactions: journal.OpenTransactions = field(default_factory=journal.OpenTransactions)
    loads: list[str] = field(default_factory=list)
    dropped: int = 0
    held: int = 0
    deliveries: int = 0

    def apply_records(self, commands: Iterable[JournalCommand]) -> None:
        """Apply a kahaDB store's journal records, in order, to the messages and subscriptions in this object's memory.

        A local transaction without an end was rolled back; an XA transaction without an end is in doubt. Raises
        NodeError if the limits of this module are exceeded.
        """
        for command in commands:
            self._record_command(command)
            for effective_command in self.transactions.records_applied_by_command(command):
                self._apply_command(effective_command)
            _check_limit(self.transactions.held, MAX_UNDECIDED, "records of transactions that have not ended")
        for command in self.transactions.unended_xa_transaction_records():
            if command.kind == journal.ADD:
                self._apply_command(command)

    def _record_command(self, command: JournalCommand) -> None:
        if command.kind == journal.TRACE:
            self.loads.append(command.message[:_MAX_START_TEXT])
            if len(self.loads) > 2 * _MAX_STARTS:
                del self.loads[:_MAX_STARTS]
            self._append_record(journal.TRACE, 0)
        elif command.kind in (journal.ADD, journal.REMOVE):
            self._append_record(command.kind, _message_key(command.destination, command.message, command.subscription))
        elif command.kind == journal.SUBSCRIPTION:
            self._append_record(command.kind, _message_key(command.destination, "", command.subscription))

    def _append_record(self, kind: int, name: int) -> None:
        self.kinds.append(kind)
        self.keys.append(name)
        if len(self.kinds) >= 2 * LIMIT:
            self.dropped += LIMIT
            del self.kinds[:LIMIT]
            del self.keys[:LIMIT]

    def _apply_command(self, command: JournalCommand) -> None:
        destination_keys = self.live.setdefault(command.destination, {})
        previous_count = len(destination_keys)
        self._update_keys(destination_keys, command)
        self.held += len(destination_keys) - previous_count
        _check_limit(self.held, MAX_LIVE, "messages and subscriptions")
        _check_limit(len(self.live), MAX_LIVE, "destinations")

    def _update_keys(self, destination_keys: dict[int, int], command: JournalCommand) -> None:
        if command.kind == journal.ADD:
            message_key = _message_key(command.destination, command.message, "")
            if command.destination.startswith(journal.TOPICS):
                subscribers = self.subscribers.get(command.destination, ())
                self.deliveries += len(subscribers)
                _check_limit(self.deliveries, MAX_DELIVERIES, "deliveries to durable subscribers")
                for subscriber in subscribers:
                    destination_keys[_message_key(command.destination, command.message, subscriber)] = message_key
            else:
                destination_keys[message_key] = message_key
        elif command.kind == journal.REMOVE:
            destination_keys.pop(_message_key(command.destination, command.message, command.subscription), None)
        elif command.kind == journal.REMOVE_DESTINATION:
            destination_keys.clear()
            self.subscribers.pop(command.destination, None)
        elif command.kind == journal.SUBSCRIPTION:
            self._update_subscription(command, destination_keys)

    def _update_subscription(self, command: JournalCommand, destination_keys: dict[int, int]) -> None:
        subscription_key = _message_key(command.destination, "", command.subscription)
        subscribers = self.subscribers.setdefault(command.destination, set())
        if command.info:
            subscribers.add(command.subscription)
            destination_keys[subscription_key] = subscription_key
        else:
            subscribers.discard(command.subscription)
            destination_keys.pop(subscription_key, None)

    def remaining_message_and_subscription_keys(self) -> list[tuple[int, int]]:
        """Return a sorted list of the keys (hashes) of the messages and subscriptions left in a kahaDB store.

        Each is a pair: the key, and the key of the record that added it.
        """
        return sorted(pair for destination_keys in self.live.values() for pair in destination_keys.items())


def _check_limit(number: int, limit: int, description: str) -> None:
    if number > limit:
        raise NodeError(
            f"the stores of the two nodes cannot be compared, because the journal of this host's store has more than "
            f"{limit} {description}. Find out from activemq.log of both nodes which node served clients last, and run "
            "the playbook resync again with -e activemq_resync_from=HOST, the host of that node. The store that the "
            "playbook replaces is kept as a backup"
        )


UNSEEN: dict[str, Any] = {
    "seen": False,
    "files": [],
    "end": [0, 0],
    "damaged": 0,
    "loads": [],
    "messages": None,
    "records": None,
    "whole": False,
    "order": "",
    "live": "",
    "state": "",
}
"""The result of ``compute_message_and_subscription_hashes`` for a store that is not read."""


def compute_message_and_subscription_hashes(store: str) -> dict[str, Any]:
    """Read a kahaDB store, and return the hashes of its messages, of its subscriptions and of its newest records.

    The result is a dict for JSON with the fields of ``UNSEEN``; it is compared with that of another host. ``damaged``
    also counts an index that cannot be read, and a journal without records to which the index refers: brokers of 5.5 do
    not start with such a store. Nothing is opened for writing. Raises NodeError, OSError.
    """
    # The index first: a broker writes a record to the journal before the index refers to it.
    reading = read_journal_positions_in_index(store)
    tail, contents = journal.JournalEnd(), StoreContentHashes()
    contents.apply_records(journal.read_journal_commands_and_set_tail(store, tail))
    items = contents.remaining_message_and_subscription_keys()
    files = journal.data_file_numbers_and_sizes(store)
    ends = {number: tail.ends.get(number, size) for number, size in files}
    is_index_damaged = reading.state == "damaged" or reading.records_missing_at_journal_end(ends) is not None
    order = list(map(_RECORD.pack, contents.kinds[-LIMIT:], contents.keys[-LIMIT:]))
    records = len(contents.kinds) + contents.dropped
    packed = b"".join(_KEY_PAIR.pack(*item) for item in items)
    return {
        "seen": True,
        "files": files,
        "end": [tail.file, tail.offset],
        "damaged": tail.damaged + tail.unread + is_index_damaged,
        "loads": contents.loads[-_MAX_STARTS:],
        "messages": len(items),
        "records": records,
        "whole": records == len(order) and len(items) <= LIMIT,
        "order": _compress_to_base64(b"".join(order)),
        "live": _compress_to_base64(packed[: LIMIT * _KEY_PAIR.size]),
        "state": hashlib.sha256(packed).hexdigest(),
    }


def _compress_to_base64(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 1)).decode()
