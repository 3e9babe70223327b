"""What of all that was read has to be parsed anew. Pure.

A slab is some megabytes of one file. Its ``mark`` is a digest of all that its rows come from: its bytes, the name of
the file, what is known of the host, what reaches over its ends. A share is one or several slabs whose rows lie in one
file of the result; equal marks give equal rows, so that those of an earlier micro-batch can be taken over.
"""

from __future__ import annotations

import hashlib
import uuid
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from activemq_fleet import __version__

SLAB = 8 << 20
"""Bytes of a file that are parsed at once, and so what a few new bytes cost at most."""
_SMALL = 1 << 20
"""Bytes below which a slab shares its file of rows with others: thousands of files would cost more than they save."""
_VERSION = 1
_CONCERNS = ("host", "number", "kind", "file", "release", "timezone", "slab")


@dataclass(frozen=True, slots=True)
class Slab:
    """``about``: what is known of its file, as ``view.about`` has it, and ``slab``, its place in that."""

    about: Mapping[str, Any]
    size: int
    mark: str


@dataclass(frozen=True, slots=True)
class Share:
    """Slabs whose rows are kept together."""

    mark: str
    slabs: tuple[Slab, ...]


def slabs_of(files: Iterable[Mapping[str, Any]], pieces: Iterable[Mapping[str, Any]]) -> list[Slab]:
    """The slabs of ``files`` from their ``pieces`` (host, number, begin, line, size, hash, problem), in any order."""
    found: dict[tuple[str, int], dict[int, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for piece in pieces:
        found[piece["host"], piece["number"]][piece["begin"] // SLAB].append(piece)
    return [
        _slab({**about, "slab": slab}, sorted(mine, key=lambda piece: (piece["begin"], piece["size"])))
        for about in files
        for slab, mine in sorted(found[about["host"], about["number"]].items())
    ]


def _slab(about: Mapping[str, Any], pieces: list[Mapping[str, Any]]) -> Slab:
    size = sum(piece["size"] for piece in pieces)
    if any(piece["hash"] is None for piece in pieces):
        return Slab(about, size, uuid.uuid4().hex)  # nobody knows: it is parsed each time
    concerns = [about[name] for name in _CONCERNS]
    first = pieces[0]
    ends = first["begin"] + size == about["end"]
    edges = [about["skip"] if first["begin"] == 0 else 0, about["after"] if ends else None, ends]
    bytes_ = [(piece["begin"], piece["line"], piece["size"], piece["hash"], piece["problem"]) for piece in pieces]
    return Slab(about, size, _digest(repr((_VERSION, __version__, concerns, edges, bytes_))))


def shares_of(slabs: Iterable[Slab], kind: str) -> list[Share]:
    """Slabs of a kind, large ones each alone, and small ones by their files' numbers."""
    mine = [slab for slab in slabs if slab.about["kind"] == kind]
    small = [slab for slab in mine if slab.size < _SMALL]
    count = 1
    while count * SLAB < sum(slab.size for slab in small):
        count *= 2
    groups: dict[int, list[Slab]] = defaultdict(list)
    for slab in small:
        groups[zlib.crc32(f"{slab.about['host']}/{slab.about['number']}".encode()) % count].append(slab)
    alone = [[slab] for slab in mine if slab.size >= _SMALL]
    return [Share(_digest(" ".join(sorted(one.mark for one in group))), tuple(group)) for group in _all(groups, alone)]


def _all(groups: Mapping[int, list[Slab]], alone: list[list[Slab]]) -> Iterator[list[Slab]]:
    yield from (groups[number] for number in sorted(groups))
    yield from alone


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
