"""How far a stream has read: for each host its files, known by what stands in them and not by their names.

An ``Offset`` is what Spark writes into its checkpoint before each micro-batch. It says everything that reading needs,
so that a killed stream reads the same bytes again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

VERSION = 2
"""Of what is written below OUT/.follow: offsets, and how what was read is laid down."""
HEAD = 1024
"""Bytes of a file's beginning, and before the place where reading goes on, that are hashed to know it again."""
GONE = 1000
"""Files of a host that are no longer there and are remembered, in case they come back packed or restored."""


def digest(data: bytes) -> str:
    """Sixteen hex digits of SHA-256: short enough for thousands of files in one offset."""
    return hashlib.sha256(data).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Place:
    """How far one file has been read. Bytes and lines are those of the unpacked file.

    ``file``: where it was last seen, relative to DIR/HOST. ``head``: digest of its first ``hashed`` bytes.
    ``at``: where the next reading begins, the start of a record or line; ``line``: line ends before ``at``.
    ``upto``: the end of what has been read, ``at`` or later, as the last record may go on. ``sure``: the end of the
    last whole line before it, as half a line may be taken back; ``tail``: digest of the bytes before ``sure``.
    """

    file: str
    kind: str
    head: str = ""
    hashed: int = 0
    at: int = 0
    line: int = 0
    upto: int = 0
    sure: int = 0
    tail: str = ""
    gone: bool = False

    def knows(self, head: bytes) -> bool:
        """Whether a file that begins with ``head`` may be this one."""
        return len(head) >= self.hashed and digest(head[: self.hashed]) == self.head


@dataclass(frozen=True, slots=True)
class Seat:
    """One host: its files by number, the number that the next new one gets, and a digest of what is known of it."""

    facts: str = ""
    following: int = 1
    files: Mapping[int, Place] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Offset:
    """Where a stream stands: a ``Seat`` for each host."""

    hosts: Mapping[str, Seat] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Equal offsets give equal text: Spark compares them as text."""
        return {"v": VERSION, "hosts": {host: _seat(seat) for host, seat in sorted(self.hosts.items())}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what ``to_json`` made. Raises ValueError for what another version wrote."""
        if value.get("v") != VERSION:
            found = value.get("v")
            raise ValueError(f"the state is of version {found}, and this program knows {VERSION}: name another OUT")
        return cls({host: _seat_of(seat) for host, seat in value["hosts"].items()})


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes ``begin`` to ``end`` of a file, which begins with line ``line`` + 1."""

    host: str
    number: int
    place: Place
    begin: int
    end: int
    line: int


@dataclass(frozen=True, slots=True)
class Name:
    """What a file is called now, and whether it is still there; number 0: what is known of a host has changed."""

    host: str
    number: int
    place: Place


def changes(start: Offset, end: Offset) -> tuple[list[Range], list[Name]]:
    """What lies between two offsets: bytes to be read, and files that are new, renamed, gone or back."""
    ranges, names = [], []
    for host, seat in sorted(end.hosts.items()):
        old_seat = start.hosts.get(host, Seat())
        before = old_seat.files
        if seat.facts != old_seat.facts:
            names.append(Name(host, 0, Place("host.json", "host")))
        for number, place in sorted(seat.files.items()):
            old = before.get(number)
            if old is None or (old.file, old.gone) != (place.file, place.gone):
                names.append(Name(host, number, place))
            if old is None:
                ranges.append(Range(host, number, place, 0, place.upto, 0))
            elif place.upto != old.upto:
                ranges.append(Range(host, number, place, old.at, place.upto, old.line))
    return ranges, names


def _seat(seat: Seat) -> dict[str, Any]:
    files = {str(number): _place(place) for number, place in sorted(seat.files.items())}
    return {"facts": seat.facts, "next": seat.following, "files": files}


def _seat_of(value: Mapping[str, Any]) -> Seat:
    files = {int(number): _place_of(place) for number, place in value["files"].items()}
    return Seat(value["facts"], value["next"], files)


def _place(place: Place) -> dict[str, Any]:
    shown: dict[str, Any] = {"file": place.file, "kind": place.kind, "head": f"{place.hashed}:{place.head}"}
    shown |= {"at": place.at, "line": place.line, "upto": place.upto}
    shown |= {"tail": f"{place.sure}:{place.tail}"}
    if place.gone:
        shown["gone"] = True
    return shown


def _place_of(value: Mapping[str, Any]) -> Place:
    hashed, _, head = value["head"].partition(":")
    sure, _, tail = value["tail"].partition(":")
    numbers = {name: value[name] for name in ("at", "line", "upto")}
    gone = value.get("gone", False)
    return Place(value["file"], value["kind"], head, int(hashed), sure=int(sure), tail=tail, gone=gone, **numbers)
