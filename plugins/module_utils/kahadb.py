# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""What is left in a kahaDB store of 5.3 to 5.7, counted from its journal.

A broker of these releases cannot say it: the management view of a durable subscription without a
client says 0, whatever waits for it (measured on 5.5.1). The journal says it, whether the broker runs
or not: every message that was stored and every acknowledgement stands there, and a file of it is
only removed when no message in it is left (source: MessageDatabase.checkpointUpdate).

Invariant: a count is never too low for a queue or for a subscription that is known. It may be too
high where the file with the acknowledgement was removed before the one with the message.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ansible_collections.activemq.fleet.plugins.module_utils.archive import InstallError

_FILE = re.compile(r"db-(\d+)\.log")
_HEAD = struct.Struct(">IB")
_USER, _CONTROL = 1, 2
_CONTROL_HEAD = b"WRITE BATCH"
ADD, REMOVE, PREPARE, COMMIT, ROLLBACK, FORGET, SUBSCRIBE = 1, 2, 3, 4, 5, 6, 7
_KINDS = ("queue", "topic", "temp-queue", "temp-topic")
_LATEST = 1 << 30


@dataclass(frozen=True)
class Entry:
    """One command of the journal. ``destination`` is ``queue:NAME`` and so on, ``transaction`` a key or nothing."""

    kind: int
    destination: str = ""
    message: str = ""
    subscription: str = ""
    transaction: bytes = b""
    creates: bool = False


@dataclass
class Counts:
    """What is left: messages by queue, and by (topic, subscription).

    ``prepared`` are XA transactions in doubt. ``whole``: the journal was never shortened, so that every
    subscription that exists stands in it.
    """

    queues: dict[str, int] = field(default_factory=dict)
    subscriptions: dict[tuple[str, str], int] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    prepared: int = 0
    whole: bool = True


def count(directory: str, known: Iterable[tuple[str, str]] | None = None) -> Counts:
    """What the journal in ``directory`` says is left; ``known`` are the (topic, subscription key) that exist.

    None: those that the journal itself knows. Raises InstallError for a journal that cannot be read
    to its end.
    """
    paths = _files(directory)
    replay = Replay()
    for entry in entries(paths):
        replay.apply(entry)
    counts = replay.counts(None if known is None else set(known))
    counts.whole = not paths or _number(paths[0]) <= 1
    return counts


def _files(directory: str) -> list[str]:
    try:
        names = [name for name in os.listdir(directory) if _FILE.fullmatch(name)]
    except OSError as error:
        raise InstallError(f"{directory}: {error.strerror}") from None
    return sorted((os.path.join(directory, name) for name in names), key=_number)


def _number(path: str) -> int:
    found = _FILE.fullmatch(os.path.basename(path))
    return int(found[1]) if found else 0


def entries(paths: Iterable[str]) -> Iterator[Entry]:
    """Every command in the order of writing. A file that a running broker removes meanwhile held nothing."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            for offset, data in _records(path, file.read(_LATEST)):
                try:
                    entry = _entry(data)
                except (IndexError, ValueError):
                    raise InstallError(f"{path}: the record at {offset} is damaged: nothing can be counted") from None
                if entry:
                    yield entry


def _records(path: str, data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset + _HEAD.size <= len(data):
        size, kind = _HEAD.unpack_from(data, offset)
        if size == 0 and kind == 0:
            # A file is made as long as it may become; from here on nothing was written. Zeros
            # before a later batch are a hole in the journal.
            if data.find(_CONTROL_HEAD, offset) >= 0:
                raise InstallError(f"{path}: there is a hole at {offset}: nothing can be counted")
            return
        if size < _HEAD.size or offset + size > len(data):
            # The last batch of a broker that was killed: it was never receipted.
            if data.find(_CONTROL_HEAD, offset + 1) >= 0:
                raise InstallError(f"{path}: the record at {offset} is damaged: nothing can be counted")
            return
        if kind == _USER:
            yield offset, data[offset + _HEAD.size : offset + size]
        elif kind != _CONTROL or data[offset + _HEAD.size : offset + 16] != _CONTROL_HEAD:
            raise InstallError(f"{path}: the record at {offset} is of no known kind: nothing can be counted")
        offset += size


def _entry(data: bytes) -> Entry | None:
    """A command, or None for one that is about neither messages nor subscriptions."""
    kind = data[0]
    if not ADD <= kind <= SUBSCRIBE:
        return None
    length, start = _varint(data, 1)
    if start + length > len(data):
        raise ValueError("it ends too early")
    fields = _fields(data[start : start + length])
    if kind in (PREPARE, COMMIT, ROLLBACK):
        return Entry(kind, transaction=_transaction(fields.get(1)))
    if kind in (FORGET, SUBSCRIBE):
        key = _text(fields.get(2)) if kind == SUBSCRIBE else ""
        return Entry(kind, _destination(fields[1]), subscription=key, creates=4 in fields)
    return Entry(
        kind,
        _destination(fields[2]),
        _text(fields[3]),
        _text(fields.get(5)) if kind == REMOVE else "",
        _transaction(fields.get(1)),
    )


def _fields(data: bytes) -> dict[int, bytes | int]:
    """Fields of a protobuf message by number; where one number has two types, the text is kept first."""
    found: dict[int, bytes | int] = {}
    offset = 0
    while offset < len(data):
        tag, offset = _varint(data, offset)
        value: bytes | int
        if tag & 7 == 0:
            value, offset = _varint(data, offset)
        elif tag & 7 == 2:
            length, offset = _varint(data, offset)
            if offset + length > len(data):
                raise ValueError("a field ends too late")
            value, offset = data[offset : offset + length], offset + length
        else:
            raise ValueError(f"type {tag & 7} is used nowhere")
        found.setdefault(tag >> 3, value)
    return found


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        digit = data[offset]
        offset += 1
        value |= (digit & 0x7F) << shift
        shift += 7
        if not digit & 0x80:
            return value, offset


def _text(value: bytes | int | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _destination(value: bytes | int | None) -> str:
    fields = _fields(value) if isinstance(value, bytes) else {}
    kind = fields.get(1, 0)
    return f"{_KINDS[kind if isinstance(kind, int) else 0]}:{_text(fields.get(2))}"


def _transaction(value: bytes | int | None) -> bytes:
    """A key for a transaction: its identity, without the place of its previous command (field 3)."""
    if not isinstance(value, bytes):
        return b""
    fields = _fields(value)
    local, xa = fields.get(1), fields.get(2)
    return b"l" + local if isinstance(local, bytes) else b"x" + (xa if isinstance(xa, bytes) else b"")


class Replay:
    """The journal's commands, applied one after the other as the broker does when it recovers. Pure."""

    def __init__(self) -> None:
        self._queues: dict[str, dict[str, None]] = defaultdict(dict)
        self._topics: dict[str, dict[str, None]] = defaultdict(dict)
        self._known: dict[str, set[str]] = defaultdict(set)
        self._acked: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._born: dict[tuple[str, str], int] = {}
        self._gone: set[tuple[str, str]] = set()
        self._open: dict[bytes, list[Entry]] = {}
        self._prepared: dict[bytes, list[Entry]] = {}

    def apply(self, entry: Entry) -> None:
        if entry.kind in (ADD, REMOVE) and entry.transaction:
            self._open.setdefault(entry.transaction, []).append(entry)
        elif entry.kind == PREPARE:
            if entry.transaction in self._open:
                self._prepared[entry.transaction] = self._open.pop(entry.transaction)
        elif entry.kind in (COMMIT, ROLLBACK):
            done = self._open.pop(entry.transaction, None) or self._prepared.pop(entry.transaction, [])
            for one in done if entry.kind == COMMIT else ():
                self._do(one)
        else:
            self._do(entry)

    def _do(self, entry: Entry) -> None:
        name = entry.destination
        is_topic = name.startswith(("topic:", "temp-topic:"))
        if entry.kind == FORGET:
            self._queues.pop(name, None)
            self._topics.pop(name, None)
            self._known.pop(name, None)
        elif entry.kind == SUBSCRIBE:
            self._subscribe(name, entry.subscription, entry.creates)
        elif not is_topic and entry.kind == ADD:
            self._queues[name][entry.message] = None
        elif not is_topic:
            self._queues[name].pop(entry.message, None)
        elif entry.kind == ADD:
            self._topics[name][entry.message] = None
        else:
            self._acked[name, entry.subscription].add(entry.message)

    def _subscribe(self, topic: str, key: str, creates: bool) -> None:
        """Made or removed. One that is made again keeps what waits for it."""
        if creates and key not in self._known[topic]:
            self._acked.pop((topic, key), None)
            self._known[topic] |= {key}
            self._born[topic, key] = len(self._topics[topic])
            self._gone.discard((topic, key))
        elif not creates:
            self._acked.pop((topic, key), None)
            self._born.pop((topic, key), None)
            self._known[topic] -= {key}
            self._gone.add((topic, key))

    def counts(self, existing: set[tuple[str, str]] | None = None) -> Counts:
        """What is left. A subscription that the journal does not see made counts all that it has not taken."""
        seen = {(topic, key) for topic, keys in self._known.items() for key in keys}
        seen |= {pair for pair in self._acked if pair not in self._gone}
        named = seen if existing is None else {(f"topic:{topic}", key) for topic, key in existing}
        left = {pair: self._left(*pair) for pair in named}
        return Counts(
            queues={name.partition(":")[2]: len(ids) for name, ids in self._queues.items() if ids},
            subscriptions={(topic.partition(":")[2], key): number for (topic, key), number in sorted(left.items())},
            topics={name.partition(":")[2]: len(ids) for name, ids in self._topics.items() if ids},
            prepared=len([key for key in self._prepared if key.startswith(b"x")]),
        )

    def _left(self, topic: str, key: str) -> int:
        acked, born = self._acked.get((topic, key), set()), self._born.get((topic, key), 0)
        return sum(
            1 for number, message in enumerate(self._topics.get(topic, {})) if number >= born and message not in acked
        )
