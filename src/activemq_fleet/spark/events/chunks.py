"""Files and blocks of files -> chunks that end where records do. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa

from activemq_fleet.logs.event_batches import begin_of

STEP = 1 << 25
"""Bytes that are unpacked at once."""

Piece = tuple[memoryview, bool, str]
"""Bytes, whether they are the last of their file, and what was wrong with them."""


def unpacked(chunk: memoryview, *, compressed: bool) -> Iterator[Piece]:
    """A file in pieces of whole records: as it is, or unpacked as far as it can be."""
    if not compressed:
        if len(chunk):
            yield chunk, True, ""
        return
    rest = b""
    for data, last, problem in _inflated(chunk):
        rest += data
        if last:
            if rest:
                yield memoryview(rest), True, problem
            return
        cut = last_record(rest)
        if cut:
            yield memoryview(rest)[:cut], False, ""
            rest = rest[cut:]


def _inflated(chunk: memoryview) -> Iterator[tuple[bytes, bool, str]]:
    """The members of a gzip file, one after another. What does not belong to one is left out."""
    data: bytes | memoryview = chunk
    while True:
        inflate = zlib.decompressobj(wbits=31)
        try:
            while not inflate.eof:
                out = inflate.decompress(data, STEP)
                data = inflate.unconsumed_tail
                if not out and not data and not inflate.eof:
                    yield b"", True, "the file is truncated: its gzip data end too early"
                    return
                yield out, False, ""
        except zlib.error as error:
            yield b"", True, f"the rest cannot be unpacked: {error}"
            return
        data = inflate.unused_data.lstrip(b"\0")
        if not data:
            yield b"", True, ""
            return


def last_record(data: bytes | memoryview) -> int:
    """Where the last record begins; 0 where there is none, or only one."""
    begins, _ = begin_of(data)
    end = len(data)
    for back in (1 << 14, 1 << 18, 1 << 22, end):
        at = max(0, end - back)
        found = 0
        for match in begins.finditer(data, at):
            if match.start() and bytes(data[match.start() - 1 : match.start()]) == b"\n":
                found = match.start()
        if found or not at:
            return found
    return 0


@dataclass(slots=True)
class Block:
    """What a block of a file brought so far, not yet scanned."""

    file: int
    start: int
    rest: list[pa.Buffer | bytes] = field(default_factory=list)
    size: int = 0


def blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, bytes, bool]]:
    """Rows of lines (file id, block start, line with its end) -> file, start, bytes, whether the block ends.

    The bytes are whole records but for those of a block's beginning and end. The lines of a batch
    lie side by side in one buffer, which is taken as it is.
    """
    block: Block | None = None
    for batch in batches:
        for file, start, data in _runs(batch):
            if block is not None and (block.file, block.start) != (file, start):
                yield block.file, block.start, _joined(block), True
                block = None
            block = block or Block(file, start)
            block.rest.append(data)
            block.size += len(data)
            if block.size > STEP:
                whole = _joined(block)
                cut = last_record(whole)
                if cut:
                    yield file, start, whole[:cut], False
                block.rest, block.size = [whole[cut:]], len(whole) - cut
    if block is not None:
        yield block.file, block.start, _joined(block), True


def _joined(block: Block) -> bytes:
    return b"".join(bytes(part) for part in block.rest)


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[int, int, bytes]]:
    """The lines of a batch that are of one block, as one run of bytes each."""
    files, starts = batch.column(0).to_numpy(), batch.column(1).to_numpy()
    lines = batch.column(2)
    values = lines.buffers()[2]
    offsets = pa.Array.from_buffers(pa.int32(), len(lines) + 1, [None, lines.buffers()[1]], offset=lines.offset)
    bounds = offsets.to_numpy()
    changes = (files[1:] != files[:-1]) | (starts[1:] != starts[:-1])
    edges = [0, *(changes.nonzero()[0] + 1).tolist(), len(lines)]
    for one, other in pairwise(edges):
        if other > one:
            begin, end = int(bounds[one]), int(bounds[other])
            data = values.slice(begin, end - begin).to_pybytes() if values is not None else b""
            yield int(files[one]), int(starts[one]), data
