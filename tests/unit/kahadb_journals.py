"""Store journals as kahaDB of 5.5 writes them: batches of records, each a framed protocol buffer."""

from __future__ import annotations

import fcntl
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_F_OFD_SETLK = 37  # linux/fcntl.h
LOADED = "LOADED Sat Nov 21 13:46:31 UTC 2026"


def _varint(number: int) -> bytes:
    encoded = b""
    while True:
        number, digit = number >> 7, number & 0x7F
        encoded += bytes([digit | 0x80 if number else digit])
        if not number:
            return encoded


def _field(number: int, content: bytes | str | int) -> bytes:
    if isinstance(content, int):
        return _varint(number << 3) + _varint(content)
    data = content.encode() if isinstance(content, str) else content
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _record(kind: int, body: bytes) -> bytes:
    data = bytes([kind]) + _varint(len(body)) + body
    return struct.pack(">iB", len(data) + 5, 1) + data


def _destination(name: str) -> bytes:
    kind, _, plain = name.rpartition("/")
    return _field(1, 1 if kind == "topic" else 0) + _field(2, plain)


def _transaction(number: int) -> bytes:
    return _field(1, _field(1, "ID:c") + _field(2, number)) if number else b""


def add_record(message: str, destination: str = "work", transaction: int = 0) -> bytes:
    """Return the record of a message to a queue or to ``topic/NAME``; the body of the message resembles records."""
    transaction_field = _field(1, _transaction(transaction)) if transaction else b""
    body = (
        transaction_field + _field(2, _destination(destination)) + _field(3, message) + _field(4, b"\x08\x96\x01WRITE")
    )
    return _record(1, body + _field(5, 4))


def remove_record(message: str, destination: str = "work", subscription: str = "", transaction: int = 0) -> bytes:
    """Return the record of the removal or the acknowledgement of a message."""
    transaction_field = _field(1, _transaction(transaction)) if transaction else b""
    body = transaction_field + _field(2, _destination(destination)) + _field(3, message)
    return _record(2, body + (_field(5, subscription) if subscription else b""))


def commit_record(transaction: int) -> bytes:
    """Return the record of the commit of a transaction."""
    return _record(4, _field(1, _transaction(transaction)))


def rollback_record(transaction: int) -> bytes:
    """Return the record of the rollback of a transaction."""
    return _record(5, _field(1, _transaction(transaction)))


def destination_removal_record(destination: str) -> bytes:
    """Return the record of the removal of a destination."""
    return _record(6, _field(1, _destination(destination)))


def subscription_record(topic: str, key: str) -> bytes:
    """Return the record of a new durable subscription."""
    return _record(7, _field(1, _destination(f"topic/{topic}")) + _field(2, key) + _field(4, b"info"))


def subscription_removal_record(topic: str, key: str) -> bytes:
    """Return the record of the removal of a durable subscription."""
    return _record(7, _field(1, _destination(f"topic/{topic}")) + _field(2, key))


def trace_record(text: str = LOADED) -> bytes:
    """Return a trace record, by default about the load of a store."""
    return _record(0, _field(1, text))


def audit_record() -> bytes:
    """Return the record of a producer audit."""
    return _record(8, _field(1, b"\xac\xed\x00\x05"))


def update_record(message: str, destination: str = "work") -> bytes:
    """Return the record of a message that was delivered again, as 5.9 and later write it."""
    command = _field(2, _destination(destination)) + _field(3, message) + _field(4, b"\x08\x96\x01WRITE")
    return _record(10, _field(1, command))


def moved_acks_record(number: int) -> bytes:
    """Return the first record of a data file to which a broker moved acknowledgements of data file ``number``."""
    return _record(16, _field(1, number))


def record_batch(*records: bytes, checksum: bool = False) -> bytes:
    """Return a batch of records as kahaDB writes it."""
    content = b"".join(records)
    adler32 = zlib.adler32(content) if checksum else 0
    return struct.pack(">iB", 28, 2) + b"WRITE BATCH" + struct.pack(">iq", len(content), adler32) + content


def write_data_file(
    store: Path, *records: bytes, number: int = 1, reserved: int = 4096, each: int = 2, checksum: bool = False
) -> Path:
    """Write a data file with ``each`` records per batch, followed by reserved space."""
    store.mkdir(exist_ok=True, parents=True)
    batches: Sequence[bytes] = [
        record_batch(*records[at : at + each], checksum=checksum) for at in range(0, len(records), each)
    ]
    path = store / f"db-{number}.log"
    path.write_bytes(b"".join(batches) + bytes(reserved))
    return path


def index_content(
    last_update: int | None = None,
    in_progress: int | None = None,
    audit: int | None = None,
    acks: int | None = None,
) -> bytes:
    """Return the beginning of ``db.data``; positions are numbers of data files, or None if absent."""

    def position(number: int | None) -> bytes:
        return b"\0" if number is None else struct.pack(">?ii", True, number, 0)

    positions = b"".join(map(position, (last_update, in_progress, audit)))
    root = struct.pack(">iQ", 2, 1) + positions + struct.pack(">i", 5) + position(acks)
    return bytes(4096) + index_page(root) + index_page(_index_leaf([], []))


@contextmanager
def hold_store_lock(store: Path) -> Iterator[None]:
    """Hold the lock of a store as a broker does: the lock belongs to the open file, and also blocks this process."""
    with (store / "lock").open("w") as lock:
        fcntl.fcntl(lock, _F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        yield


def index_with_topics(subscriptions: dict[str, list[str]], last_update: int, version: int = 5) -> bytes:
    """Return an index (``db.data``) of 5.9 with topics and the keys of their durable subscriptions.

    Page 1 contains the tree of destinations, page N + 2 the tree of the subscriptions of topic N. The topics have no
    messages: the last pages contain an empty tree for each topic.
    """

    positions = struct.pack(">?ii", True, last_update, 0) + b"\0\0" + struct.pack(">i", version) + b"\0"
    pages = [index_page(struct.pack(">iq", 2, 1) + positions)]
    records = [
        struct.pack(">qqq?qqqqqq", 9, number + 2 + len(subscriptions), 9, True, number + 2, 9, 9, 9, 9, 9)
        for number in range(len(subscriptions))
    ]
    trees = [_index_leaf([_index_text(f"1:{topic}") for topic in sorted(subscriptions)], records)]
    for topic in sorted(subscriptions):
        keys = sorted(subscriptions[topic])
        values = [_varint(len(body)) + body for key in keys for body in [_field(2, key)]]
        trees.append(_index_leaf([_index_text(key) for key in keys], values))
    trees += [_index_leaf([], []) for _topic in subscriptions]
    return bytes(4096) + b"".join([*pages, *map(index_page, trees)])


def index_with_messages(
    last_update: tuple[int, int], messages: dict[str, list[tuple[int, int]]], version: int = 7
) -> bytes:
    """Return an index (``db.data``) with queues and the positions (data file, offset) of their messages.

    Page 1 contains the tree of destinations, page N + 2 the tree of the positions of queue N.
    """
    root = struct.pack(">iq?ii", 2, 1, True, *last_update) + b"\0\0" + struct.pack(">i", version) + b"\0"
    statistics = struct.pack(">q", 9) if version >= 7 else b""
    records = [struct.pack(">qqq?qq", 9, number + 2, 9, False, 9, 9) + statistics for number in range(len(messages))]
    size = struct.pack(">i", 99) if version >= 6 else b""
    trees = [
        _index_leaf(
            [struct.pack(">ii", *position) + size for position in positions],
            [struct.pack(">q", number) for number in range(len(positions))],
        )
        for positions in messages.values()
    ]
    queues = _index_leaf([_index_text(f"0:{queue}") for queue in messages], records)
    return bytes(4096) + b"".join(map(index_page, (root, queues, *trees)))


def redo_content(index: bytes) -> bytes:
    """Return the ``db.redo`` with all pages of an index, as a broker writes it before the pages of ``db.data``."""
    pages = [index[at : at + 4096] for at in range(4096, len(index), 4096)]
    head = struct.pack(">qqi", 7, zlib.adler32(b"".join(pages)), len(pages)).ljust(4096, b"\0")
    return head + b"".join(struct.pack(">q", number) + page for number, page in enumerate(pages))


def index_page(record: bytes) -> bytes:
    """Return the page of an index with a record."""
    return (struct.pack(">Bqqi", 2, 7, len(record), 0) + record).ljust(4096, b"\0")


def _index_leaf(keys: Sequence[bytes], values: Sequence[bytes]) -> bytes:
    return struct.pack(">H", len(keys)) + b"".join(keys) + b"\0" + b"".join(values) + struct.pack(">q", -1)


def _index_text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
