"""Fuzz target: hostile kahaDB journals. Their readers may raise no exception except NodeError."""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.kahadb import (
    content_hashes,
    remaining_messages,
    store_files,
)
from tests.unit import kahadb_journals as records

from .target import Target

_LENGTHS = (0, 1, 4, 5, 6, 27, 28, 255, 1 << 16, (1 << 31) - 1, -1, -(1 << 31))
_SIZES = (0, 1, 1 << 20, 1 << 26, (1 << 32) + 1, 1 << 40)


def _generate(random: Random, samples: Sequence[bytes]) -> bytes:
    """Return a line of JSON with the size of the hole at the end of each file, and the files, each after its length."""
    seeds = [*samples, *(_journal(random) for _ in range(3))]
    files = random.sample(seeds, random.choice((1, 1, 1, 2, 3)))
    files = [_damaged(random, data) if random.random() < 0.8 else data for data in files]
    holes = [random.choice(_SIZES) if random.random() < 0.2 else 0 for _ in files]
    return json.dumps(holes).encode() + b"\n" + b"".join(struct.pack(">I", len(data)) + data for data in files)


def _journal(random: Random) -> bytes:
    journal_records = [_record(random) for _ in range(random.choice((1, 5, 50, 400)))]
    batch_size = random.choice((1, 2, 50))
    return b"".join(
        records.record_batch(*journal_records[at : at + batch_size])
        for at in range(0, len(journal_records), batch_size)
    ) + bytes(random.choice((0, 64)))


def _record(random: Random) -> bytes:
    """Return a record of a random kind. Its few names of messages, topics and subscribers repeat."""
    name, topic = f"m{random.randrange(30)}", f"t{random.randrange(3)}"
    where = random.choice((f"topic/{topic}", "work", "x" * random.choice((1, 5000))))
    subscriber, transaction = f"c:{random.randrange(20)}", random.randrange(5)
    return random.choice(
        (
            lambda: records.add_record(name, where, transaction),
            lambda: records.remove_record(name, where, subscriber, transaction),
            lambda: records.commit_record(transaction),
            lambda: records.rollback_record(transaction),
            lambda: records.destination_removal_record(where),
            lambda: records.subscription_record(topic, subscriber),
            lambda: records.subscription_removal_record(topic, subscriber),
            records.trace_record,
            records.audit_record,
        )
    )()


def _damaged(random: Random, data: bytes) -> bytes:
    """Return the journal with some changed lengths, bytes and spans."""
    broken = bytearray(data or b"\0")
    for _ in range(random.choice((1, 2, 5, 30))):
        at = random.randrange(len(broken) + 1)
        kind = random.randrange(6)
        if kind == 0:
            broken[at : at + 4] = struct.pack(">i", random.choice(_LENGTHS))
        elif kind == 1:
            broken[at : at + 1] = bytes([random.randrange(256)])
        elif kind == 2:
            broken[at : at + random.randrange(10)] = b"\xff" * random.randrange(12)
        elif kind == 3:
            del broken[at : at + random.randrange(100)]
        elif kind == 4:
            start = random.randrange(len(broken) + 1)
            broken[at:at] = broken[start : start + random.randrange(2000)]
        else:
            broken[at:at] = records.record_batch()[: random.randrange(29)]
    return bytes(broken)


def _run(data: bytes) -> str:
    line, _, rest = data.partition(b"\n")
    with tempfile.TemporaryDirectory() as directory:
        for number, hole in enumerate(json.loads(line), start=1):
            (length,) = struct.unpack_from(">I", rest)
            path = Path(directory) / f"db-{number}.log"
            path.write_bytes(rest[4 : 4 + length])
            os.truncate(path, length + hole)
            rest = rest[4 + length :]
        return _read(directory)


def _read(directory: str) -> str:
    try:
        contents = content_hashes.compute_message_and_subscription_hashes(directory)
        if json.loads(json.dumps(contents)) != contents:
            return "the contents cannot be represented in JSON"
    except NodeError:
        pass
    try:
        counts = remaining_messages.count_remaining_messages(directory)
        if any(number < 0 for number in [*counts.queues.values(), *counts.subscriptions.values()]):
            return f"a count is below zero: {counts}"
    except NodeError:
        pass
    store_files.allocated_bytes(directory)
    return ""


TARGET = Target("hostile store journals, read by their readers", _generate, _run, suffix=".journals")
