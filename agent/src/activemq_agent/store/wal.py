"""Checks SQLite's write-ahead file for damage before SQLite reads it.

SQLite stops at the first frame whose checksum is wrong and silently forgets every transaction after it
(https://www.sqlite.org/walformat.html). Here a frame is also checked on its own, seeded with the checksum that is
stored in the frame before it: committed frames after a bad one are damage, and can still be read.
A last frame that is bad cannot be told from one that a crash has torn; SQLite's answer stands then.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from activemq_agent.store.schema import PAGE

_HEADER, _FRAME_HEADER = 32, 24
_FRAME = _FRAME_HEADER + PAGE
_MASK = 0xFFFFFFFF
_LITTLE, _BIG = 0x377F0682, 0x377F0683

Sum = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a SQLite write-ahead file: a database page as a transaction wrote it.

    ``commit``: last frame of its transaction; ``whole``: its checksum is right, seeded from the frame before;
    ``chained``: so are all frames before it.
    """

    number: int
    page: int
    commit: bool
    salt: bytes
    whole: bool
    chained: bool
    content: bytes


@dataclass(frozen=True, slots=True)
class Wal:
    """The frames of a SQLite write-ahead file up to its last commit, and whether a frame is damaged."""

    frames: tuple[Frame, ...]
    damaged: bool


def read_frames(path: Path) -> Wal:
    """Return the frames of a SQLite write-ahead file up to its last commit; none if the file is missing or empty."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    if len(data) < _HEADER + _FRAME:
        return Wal((), damaged=False)
    header_whole = _sum_of(data[:24], (0, 0), _order(data)) == struct.unpack(">II", data[24:32])
    header_whole = header_whole and struct.unpack(">I", data[8:12])[0] == PAGE
    frames = list(_frames(data))
    salt = data[16:24] if header_whole else next((frame.salt for frame in frames if frame.whole), b"")
    believed = 0  # frames that SQLite will believe: a chain without a break, up to a commit
    for frame in frames if header_whole else ():
        if not (frame.chained and frame.salt == salt):
            break
        if frame.commit:
            believed = frame.number
    # Everything in front of a whole commit of this generation belongs to it, whatever has become of it.
    last = max((f.number for f in frames if f.commit and f.whole and f.salt == salt), default=0)
    return Wal(tuple(f for f in frames if f.number <= max(last, believed)), damaged=last > believed)


def _order(data: bytes) -> str:
    return ">" if struct.unpack(">I", data[:4])[0] == _BIG else "<"


def _frames(data: bytes) -> Iterator[Frame]:
    order = _order(data)
    before: Sum = struct.unpack(">II", data[24:32])
    chained = True
    for number, at in enumerate(range(_HEADER, len(data) - _FRAME + 1, _FRAME), 1):
        page, size = struct.unpack(">II", data[at : at + 8])
        stored: Sum = struct.unpack(">II", data[at + 16 : at + 24])
        content = data[at + _FRAME_HEADER : at + _FRAME]
        whole = _sum_of(content, _sum_of(data[at : at + 8], before, order), order) == stored
        chained = chained and whole
        if not whole:
            page = _corrected(data[at : at + 8], content, before, stored, order) or page
        yield Frame(number, page, size != 0, data[at + 8 : at + 16], whole, chained, content)
        before = stored


def _corrected(numbers: bytes, content: bytes, before: Sum, stored: Sum, order: str) -> int | None:
    """Return the page number of a bad frame if one flipped bit of that number is all that is wrong, else None."""
    for bit in range(32):
        tried = (int.from_bytes(numbers[:4]) ^ 1 << bit).to_bytes(4) + numbers[4:]
        if _sum_of(content, _sum_of(tried, before, order), order) == stored:
            return int.from_bytes(tried[:4])
    return None


def _sum_of(data: bytes, seed: Sum, order: str) -> Sum:
    first, second = seed
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second
