"""Batches of a kahaDB journal that a test writes itself."""

from __future__ import annotations

import struct
import zlib

from activemq_fleet.kahadb.journal import MOVED_ACKS


def moved_acks_batch(source: int) -> bytes:
    """The first batch of a data file into which a broker moved acknowledgements of the data file ``source`` (< 128)."""
    command = bytes([MOVED_ACKS, 2, 1 << 3, source])
    record = struct.pack(">iB", 5 + len(command), 1) + command
    return struct.pack(">iB11siq", 28, 2, b"WRITE BATCH", len(record), zlib.adler32(record)) + record
