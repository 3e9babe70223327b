# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads every record of the journal of a kahaDB store, as 5.3 to 6.3 write them, and encodes trace records.

A data file ``db-N.log`` is a sequence of batches. A batch begins with a control record (length, type 2,
``WRITE BATCH``, size, Adler-32 or 0); each record in it is length, type 1, the kind of the command in
one byte, and the command as a framed protocol buffer (activemq-core's ``journal-data.proto``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
import re
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..errors import NodeError
from ..files.untrusted_paths import Directory, open_directory, open_file
from ..protocols import read_varint_and_next_offset
from .protocol_buffers import field_bytes_within_size_limit, field_numbers_and_offsets

MAX_FILE = 4 << 30
"""Maximum bytes of a data file: a broker counts them in 31 bits, so it writes no larger file."""
TOPICS = ("1:", "3:")
"""The prefixes of ``Command.destination`` for topics, including temporary topics."""
_MAX_SPARSE_RATIO = 64
"""Maximum ratio of a journal's size to its disk usage, in addition to the preallocated part of its last file."""
_MAX_BATCH_BYTES = 32 << 20
"""Maximum bytes of a batch that brokers up to 5.11 read (Journal.MAX_BATCH_SIZE)."""
FILE = re.compile(r"db-([0-9]{1,18})\.log")
TRACE, ADD, REMOVE, PREPARE, COMMIT, ROLLBACK, REMOVE_DESTINATION, SUBSCRIPTION, AUDIT, ACK_FILES, UPDATE = range(11)
LISTED = 1000
"""Maximum number of damaged places of a journal that are listed, the first ones."""
MOVED_ACKS = 16
"""The kind of the first record of a file into which 5.14 and later move acknowledgements of older files."""
_CONTROL = struct.Struct(">iB11siq")
_RECORD = struct.Struct(">iB")
_MAGIC = b"WRITE BATCH"
_END_OF_FILE = b"-qMa4"
"""The bytes that 5.14 and later write after the last batch of a data file, and at its end (Journal.EOF_RECORD)."""
_HEADER = struct.pack(">iB", _CONTROL.size, 2) + _MAGIC
RECOVERY_FROM_COPY = (
    "With such a copy, do not replace the data file in this store, because brokers append new records to it from the "
    "next start on. Instead, restore the copy of the whole store to a different directory, start another broker with "
    "it, and move the lost messages from there to this broker. Without such a copy, no action is necessary: the broker "
    "serves the other messages"
)
"""What to do if the end of a journal is missing, for messages to operators."""


@dataclass(frozen=True)
class JournalCommand:
    """A command (one record) of a kahaDB journal, such as a message that was added, or an acknowledgement.

    ``destination`` is type and name (``0:orders``: a queue), or empty. ``kind`` is a constant such as ``ADD``,
    ``REMOVE`` or ``COMMIT``. ``transaction`` is the encoded transaction id, empty outside of transactions; ``xa``:
    whether it is an XA transaction. ``message`` is the message id, or the text of a trace. ``subscription`` is the key
    of a durable subscription; ``info`` False: the subscription is removed. ``content`` are start and end of an added
    message in its data file, ``span`` those of the record. ``is_suspect``: the checksum of its batch does not match.
    """

    kind: int
    destination: str = ""
    message: str = ""
    subscription: str = ""
    transaction: bytes = b""
    xa: bool = False
    info: bool = False
    content: tuple[int, int] = dataclasses.field(default=(0, 0), compare=False)
    span: tuple[int, int] = dataclasses.field(default=(0, 0), compare=False)
    is_suspect: bool = dataclasses.field(default=False, compare=False)


@dataclass(frozen=True)
class DamagedRange:
    """A damaged range of a kahaDB journal, which is unreadable.

    It has the data file, the first offset, and the offset after it.
    """

    file: int
    start: int
    stop: int
    reason: str


@dataclass
class JournalEnd:
    """The end of a kahaDB journal: its last data file and offset.

    The unreadable places of the journal are included. ``places`` lists the first 1,000 of them. ``damaged`` counts all
    damaged ranges, ``unread`` all records that cannot be decoded. ``ends`` are the offsets at which the batches of each
    data file end. ``unfinished`` is the number of bytes after the last batch, 4096 at most, that belong to a batch
    which a killed broker was writing. ``checked`` of ``batches`` have a checksum. ``is_last_batch_cut``: the last data
    file ends inside of a batch without a checksum. A killed broker does not leave such a file, because it allocates the
    space of a data file first. Brokers up to 5.11 do not start with it (Journal.recoveryCheck).
    """

    file: int = 0
    offset: int = 0
    damaged: int = 0
    unread: int = 0
    places: list[DamagedRange] = dataclasses.field(default_factory=list)
    ends: dict[int, int] = dataclasses.field(default_factory=dict)
    unfinished: int = 0
    batches: int = 0
    checked: int = 0
    is_last_batch_cut: bool = False

    def record_damaged_range(self, start: int, stop: int, reason: str) -> None:
        """Record a damaged range of the current file of a kahaDB journal."""
        self.damaged += 1
        self._add_range(start, stop, reason)

    def record_undecodable_range(self, start: int, stop: int, reason: str) -> None:
        """Record an undecodable range of the current file of a kahaDB journal.

        It holds a record which cannot be decoded.
        """
        self.unread += 1
        self._add_range(start, stop, reason)

    def _add_range(self, start: int, stop: int, reason: str) -> None:
        if len(self.places) < LISTED:
            self.places.append(DamagedRange(self.file, start, stop, reason))


class OpenTransactions:
    """The open transactions in a kahaDB journal.

    They are held with their records. ``held`` is the number of records.
    """

    def __init__(self) -> None:
        self.held = 0
        self._records: dict[tuple[bool, bytes], list[JournalCommand]] = {}
        self._prepared: set[tuple[bool, bytes]] = set()

    def records_applied_by_command(self, command: JournalCommand) -> Sequence[JournalCommand]:
        """Return the kahaDB journal records that take effect by a record: for a commit, those of its transaction.

        A commit returns the records of its transaction. A rollback, a prepare, and an addition or removal within a
        transaction return none, any other command itself.
        """
        transaction = (command.xa, command.transaction)
        if command.kind in (ADD, REMOVE) and command.transaction:
            self._records.setdefault(transaction, []).append(command)
            self.held += 1
            return ()
        if command.kind == PREPARE:
            self._prepared |= {transaction} & self._records.keys()
            return ()
        if command.kind in (COMMIT, ROLLBACK):
            ended = self._records.pop(transaction, [])
            self._prepared.discard(transaction)
            self.held -= len(ended)
            return ended if command.kind == COMMIT else ()
        return (command,)

    def prepared_xa_count(self) -> int:
        """Return the number of XA transactions in a kahaDB journal that are in doubt: prepared, but not ended.

        They are neither committed nor rolled back.
        """
        return sum(xa for xa, _unused in self._prepared)

    def unended_xa_transaction_records(self) -> Iterator[JournalCommand]:
        """Yield the records of the XA transactions in a kahaDB journal that have not ended, prepared or not.

        They are neither committed nor rolled back.
        """
        for (xa, _unused), records in self._records.items():
            yield from records if xa else ()


def destination_url(destination: str) -> str:
    """Return a destination of a kahaDB record (``0:orders``) as a URL (``queue://orders``)."""
    return f"{'topic' if destination.startswith(TOPICS) else 'queue'}://{destination.partition(':')[2]}"


def data_file_number(name: str) -> int:
    """Return the number of a kahaDB data file, by its name (``db-7.log``: 7).

    Returns 0 for any other name.
    """
    match = FILE.fullmatch(name)
    return int(match[1]) if match else 0


def last_data_file(names: Iterable[str]) -> str:
    """Return the kahaDB data file with the highest number among file names, also if it is empty; "" without one."""
    return max(filter(FILE.fullmatch, names), key=lambda name: (data_file_number(name), name), default="")


def data_file_numbers_and_names(directory: Directory) -> list[tuple[int, str]]:
    """Return the number and the name of each kahaDB data file in a directory, in order.

    Their names are ``db-N.log``.
    """
    return sorted((int(match[1]), name) for name in directory.entry_names() if (match := FILE.fullmatch(name)))


def data_file_numbers_and_sizes(store: str) -> list[list[int]]:
    """Return the number and the size in bytes of each kahaDB data file of a store, in order.

    The result is empty without a store. Raises NodeError, OSError.
    """
    file_sizes: list[list[int]] = []
    with contextlib.suppress(FileNotFoundError), open_directory(store) as directory:
        for number, name in data_file_numbers_and_names(directory):
            with contextlib.suppress(FileNotFoundError):
                file_sizes.append([number, directory.entry_status(name).st_size])
    return file_sizes


def read_journal_commands_and_set_tail(
    store: str, tail: JournalEnd, *, verify: bool = False
) -> Iterator[JournalCommand]:
    """Read the commands (records) in the journal of a kahaDB store, and yield each of them.

    Unreadable ones are left out. ``tail`` is set to the position after the last one. Yields nothing without a store.
    ``verify``: also compare the checksums of batches that have one.

    An unfinished batch at the end of the last file is not damage, because a killed broker was writing it. A file that a
    running broker removes at the same time counts as empty. Time and memory are proportional to the disk usage of the
    journal. Raises NodeError for files that no broker writes, OSError.
    """
    try:
        directory = open_directory(store)
    except FileNotFoundError:
        return
    with directory:
        files = data_file_numbers_and_names(directory)
        _check_not_sparse(directory, files)
        last = last_data_file(name for _unused, name in files)
        for number, name in files:
            tail.file, tail.offset = number, 0
            with contextlib.suppress(FileNotFoundError), os.fdopen(directory.open_file(name), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size > MAX_FILE:
                    tail.record_damaged_range(0, size, "file too large")
                elif size:
                    with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
                        for start, stop, checksum in _read_batches(data, tail, 0, size):
                            tail.batches += 1
                            tail.checked += checksum != 0
                            is_suspect = verify and bool(checksum) and zlib.adler32(data[start:stop]) != checksum
                            if is_suspect:
                                tail.record_damaged_range(start, stop, "wrong checksum")
                            for command in _read_records(data, start, stop, tail):
                                yield dataclasses.replace(command, is_suspect=True) if is_suspect else command
                        trailing_bytes = data[tail.offset : tail.offset + 4096].replace(_END_OF_FILE, b"").rstrip(b"\0")
                        # A batch is written from its beginning; a page that was never written contains zeros.
                        is_batch_start = _HEADER.startswith(trailing_bytes[: len(_HEADER)].rstrip(b"\0"))
                        if trailing_bytes and (name != last or not is_batch_start):
                            tail.record_damaged_range(tail.offset, size, "no records")
                        tail.unfinished = len(trailing_bytes) if is_batch_start else 0
                        tail.is_last_batch_cut = name == last and _is_batch_cut(data, tail.offset)
            tail.ends[number] = tail.offset


def read_data_file_commands(
    path: str, offset: int, end: int | None = None, kinds: Collection[int] | None = None
) -> Iterator[JournalCommand]:
    """Read the commands (records) of one kahaDB data file between two offsets, and yield each of them.

    By default it ends at the last complete batch. Both offsets are ends of batches. ``kinds``: yield only records of
    these kinds, such as ``COMMIT``, which is faster because the other records are not decoded.
    """
    with os.fdopen(open_file(path), "rb") as file:
        if os.fstat(file.fileno()).st_size > offset:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                end = end_of_last_batch(data) if end is None else end
                for start, stop, _unused in _read_batches(data, JournalEnd(), offset, end):
                    yield from _read_records(data, start, stop, JournalEnd(), kinds)


def _check_not_sparse(directory: Directory, files: list[tuple[int, str]]) -> None:
    size = allocated = 0
    for _unused, name in files:
        with contextlib.suppress(FileNotFoundError):
            status = directory.entry_status(name)
            size, allocated = size + status.st_size, allocated + status.st_blocks * 512
    if size > _MAX_SPARSE_RATIO * allocated + 2 * MAX_FILE:
        raise NodeError(
            f"the data files db-*.log in {directory.path} have a size of {size >> 20} MiB, but use only "
            f"{allocated >> 20} MiB of the disk, so the store was not read. A broker does not write sparse files: find "
            "the program that created or changed these data files, and restore the store from a backup"
        )


def _read_batches(data: mmap.mmap, tail: JournalEnd, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield start and end of each batch's records and its checksum; set the ``offset`` of ``tail`` at the end.

    Other bytes count as damage if another batch follows them.
    """
    while at + _CONTROL.size <= end:
        length, kind, magic, size, checksum = _CONTROL.unpack_from(data, at)
        body = at + _CONTROL.size
        if (length, kind, magic) == (_CONTROL.size, 2, _MAGIC) and 0 <= size <= end - body:
            at = body + size
            yield body, at, checksum
            continue
        following = data.find(_HEADER, at + 1)
        if following < 0:
            break
        tail.record_damaged_range(at, following, "no records")
        at = following
    tail.offset = at


def _is_batch_cut(data: mmap.mmap, at: int) -> bool:
    """Return whether a batch without a checksum begins at an offset, and the file ends inside of its records."""
    if at + _CONTROL.size > len(data):
        return False
    length, kind, magic, size, checksum = _CONTROL.unpack_from(data, at)
    is_batch = (length, kind, magic) == (_CONTROL.size, 2, _MAGIC) and 0 <= size <= _MAX_BATCH_BYTES
    return is_batch and not checksum and size > len(data) - at - _CONTROL.size


def start_offset_of_truncated_last_batch(path: str) -> int | None:
    """Return the offset of the batch without a checksum inside of which a kahaDB data file ends; None without one.

    Only the ends of two kinds of files are read: a file whose first batch has a checksum is of a release that writes
    checksums, and a file that ends with zeros has reserved space after its last batch. Raises OSError.
    """
    with os.fdopen(open_file(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        first, last = (os.pread(file.fileno(), _CONTROL.size, at) for at in (0, max(0, size - _CONTROL.size)))
        if len(first) < _CONTROL.size or _CONTROL.unpack(first)[-1] or not last.strip(b"\0"):
            return None
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
            tail = JournalEnd()
            for _batch in _read_batches(data, tail, 0, size):
                pass
            return tail.offset if _is_batch_cut(data, tail.offset) else None


def end_of_last_batch(data: mmap.mmap) -> int:
    """Return the offset at which the last complete batch of records in a kahaDB data file ends.

    Returns 0 without one.
    """
    batch_ends = [
        stop
        for start, stop, checksum in _read_batches(data, JournalEnd(), 0, len(data))
        if not checksum or zlib.adler32(data[start:stop]) == checksum
    ]
    return max(batch_ends, default=0)


def first_record_kind(path: str) -> int | None:
    """Return the type of the first record in a kahaDB data file, as an integer (see the constants, such as ``ADD``).

    Returns -1 if it has no record, None if it is empty. Raises OSError.
    """
    at = _CONTROL.size
    with os.fdopen(open_file(path), "rb") as file:
        data = file.read(at + _RECORD.size + 1)
    if not data:
        return None
    if len(data) <= at + _RECORD.size or data[: len(_HEADER)] != _HEADER:
        return -1
    return data[at + _RECORD.size]


def encode_trace_batch(text: str) -> bytes:
    """Encode a text as a trace record of kahaDB, and return the bytes of a journal batch with this record.

    An end-of-file record is after it, as 5.14 and later write them. Brokers skip trace records. ``text`` has less than
    120 bytes.
    """
    encoded_text = text.encode()
    message = bytes([1 << 3 | 2, len(encoded_text)]) + encoded_text
    command = bytes([TRACE, len(message)]) + message
    record = _RECORD.pack(_RECORD.size + len(command), 1) + command
    return _CONTROL.pack(_CONTROL.size, 2, _MAGIC, len(record), zlib.adler32(record)) + record + _END_OF_FILE


def _read_records(
    data: mmap.mmap, at: int, end: int, tail: JournalEnd, kinds: Collection[int] | None = None
) -> Iterator[JournalCommand]:
    while at + _RECORD.size < end:
        length, kind = _RECORD.unpack_from(data, at)
        if length <= _RECORD.size or at + length > end:
            tail.record_damaged_range(at, end, f"record length {length}")
            return
        command = data[at + _RECORD.size]
        if kind == 1 and (kinds is None or command in kinds):
            if command in _FIELD_NUMBERS or command in _KINDS_WITHOUT_MESSAGE:
                try:
                    yield _parse_command(data, at + _RECORD.size, at + length)
                except (ValueError, IndexError):
                    tail.record_undecodable_range(at, at + length, "undecodable record")
            else:
                tail.record_undecodable_range(
                    at, at + length, f"unknown record type {command}, perhaps of a newer release"
                )
        at += length


def _parse_command(data: mmap.mmap, at: int, end: int) -> JournalCommand:
    span = (at - _RECORD.size, end)
    kind = data[at]
    size, at = read_varint_and_next_offset(data, at + 1)
    if at + size > end:
        raise ValueError(size)
    if kind in _KINDS_WITHOUT_MESSAGE:
        return JournalCommand(kind, span=span)
    transaction, destination, message, subscription, info = _FIELD_NUMBERS[kind]
    field_spans = {field: (start, stop) for field, start, stop in field_numbers_and_offsets(data, at, at + size)}
    if kind == UPDATE:  # contains the updated record of the message
        field_spans = {
            field: (start, stop) for field, start, stop in field_numbers_and_offsets(data, *field_spans.get(1, (0, 0)))
        }
    name, xa = _parse_transaction(data, *field_spans[transaction]) if transaction in field_spans else (b"", False)
    return JournalCommand(
        kind,
        destination=_parse_destination(data, *field_spans[destination]) if destination in field_spans else "",
        message=_decode_field(data, field_spans.get(message)),
        subscription=_decode_field(data, field_spans.get(subscription)),
        transaction=name,
        xa=xa,
        info=bool(info) and info in field_spans,
        content=field_spans.get(_CONTENT_FIELD, (0, 0)) if kind in (ADD, UPDATE) else (0, 0),
        span=span,
    )


# By kind, the protocol buffer's field numbers of: transaction, destination, message id, subscription key, subscription.
_FIELD_NUMBERS = {
    TRACE: (0, 0, 1, 0, 0),
    ADD: (1, 2, 3, 0, 0),
    REMOVE: (1, 2, 3, 5, 0),
    PREPARE: (1, 0, 0, 0, 0),
    COMMIT: (1, 0, 0, 0, 0),
    ROLLBACK: (1, 0, 0, 0, 0),
    REMOVE_DESTINATION: (0, 1, 0, 0, 0),
    SUBSCRIPTION: (0, 1, 0, 2, 4),
    UPDATE: (1, 2, 3, 0, 0),
}
_KINDS_WITHOUT_MESSAGE = frozenset({AUDIT, ACK_FILES, MOVED_ACKS})
_CONTENT_FIELD = 4


def _parse_destination(data: mmap.mmap, at: int, end: int) -> str:
    kind, name = 0, ""
    for field, start, stop in field_numbers_and_offsets(data, at, end):
        if field == 1:
            kind = read_varint_and_next_offset(data, start)[0]
        elif field == 2:
            name = field_bytes_within_size_limit(data, start, stop).decode(errors="surrogateescape")
    return f"{kind}:{name}"


def _parse_transaction(data: mmap.mmap, at: int, end: int) -> tuple[bytes, bool]:
    for field, start, stop in field_numbers_and_offsets(data, at, end):
        if field in (1, 2):
            return field_bytes_within_size_limit(data, start, stop), field == 2
    return b"?", False


def _decode_field(data: mmap.mmap, field_span: tuple[int, int] | None) -> str:
    return field_bytes_within_size_limit(data, *field_span).decode(errors="surrogateescape") if field_span else ""
