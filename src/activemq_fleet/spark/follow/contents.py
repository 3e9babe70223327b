"""One file's bytes as unpacked, whatever its name is now. It may be renamed, packed or cut while it is read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from activemq_fleet.spark.events.chunks import unpacked
from activemq_fleet.spark.follow.places import HEAD, Place, digest
from activemq_fleet.spark.input_directory import open_inside

_STEP = 1 << 20


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells cheaply that a file is still the one that was looked at."""

    device: int
    inode: int
    size: int
    changed: int


class Content:
    """A file that is open. A packed one is unpacked into memory at once; ``problem`` says why not all of it.

    Raises OSError if it cannot be opened, InputError if it lies outside of ``root`` or is no regular file. Use as a
    context manager.
    """

    def __init__(self, path: Path, root: Path) -> None:
        self._descriptor = open_inside(path, root)
        try:
            self.stamp = _stamp(os.fstat(self._descriptor))
            self.packed = path.suffix == ".gz"
            self._unpacked, self.problem = self._unpack() if self.packed else (b"", "")
        except BaseException:
            os.close(self._descriptor)
            raise
        self.size = len(self._unpacked) if self.packed else self.stamp.size

    def __enter__(self) -> Content:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._descriptor)

    def read(self, begin: int, end: int) -> bytes:
        """The bytes from ``begin`` to ``end``, or fewer where the file ends before."""
        if self.packed:
            return self._unpacked[begin:end]
        pieces = []
        while begin < end:
            piece = os.pread(self._descriptor, min(_STEP, end - begin), begin)
            if not piece:
                break
            pieces.append(piece)
            begin += len(piece)
        return b"".join(pieces)

    def head(self) -> bytes:
        return self.read(0, HEAD)

    def tail(self, end: int) -> str:
        """Digest of the last bytes before ``end``; empty at the beginning."""
        return digest(self.read(max(0, end - HEAD), end)) if end else ""

    def holds(self, place: Place) -> bool:
        """Whether this is the file of ``place``, and reaches as far as nothing can change any more."""
        return self.size >= place.sure and place.knows(self.head()) and self.tail(place.sure) == place.tail

    def _unpack(self) -> tuple[bytes, str]:
        packed = b"".join(iter(lambda: os.read(self._descriptor, _STEP), b""))
        pieces, problem = [], ""
        for piece, _, problem in unpacked(memoryview(packed), compressed=True):  # noqa: B007 -- the last one's
            pieces.append(bytes(piece))
        return b"".join(pieces), problem


def stamp(path: Path) -> Stamp:
    """Raises OSError if there is no such file."""
    return _stamp(path.stat())


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
