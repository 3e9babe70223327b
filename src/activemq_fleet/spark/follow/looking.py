"""What lies below DIR/HOST now, and which of it is which file that is known already."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from activemq_fleet.audit.operation_records import OPERATIONS_FILE
from activemq_fleet.errors import InputError
from activemq_fleet.spark.follow.contents import Content, Stamp, stamp
from activemq_fleet.spark.follow.places import Place, digest
from activemq_fleet.spark.input_directory import open_inside
from activemq_fleet.spark.inputs import HOST_FILE

_LOG = re.compile(r"activemq\.log(?!.*\.lck$).*")
_JOURNAL = re.compile(r"agent/.+\.jsonl.*")
FACTS = (HOST_FILE, OPERATIONS_FILE)


def kind_of(file: str) -> str:
    """``log``, ``journal`` or, for what is not followed, nothing."""
    if _LOG.fullmatch(file):
        return "log"
    return "journal" if _JOURNAL.fullmatch(file) else ""


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it was at one look. ``size`` and ``head`` are of the unpacked bytes.

    ``known``: the numbers of the known files that it is, all the way to where they were read; ``further``: of those
    that begin as it does, and were read further than it reaches.
    """

    file: str
    kind: str
    stamp: Stamp
    size: int
    head: bytes
    tail: str
    packed: bool
    whole: bool
    known: tuple[int, ...] = ()
    further: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Match:
    """Which known file is which found one, and what is new."""

    known: Mapping[int, Found]
    new: tuple[Found, ...]


class Looker:
    """Looks at one host's directory. Remembers between looks, so that only what has changed is opened."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: dict[str, tuple[Found, list[tuple[int, int, str]]]] = {}

    def look(self, known: Mapping[int, Place]) -> list[Found]:
        """Every log and journal there is. A file that went away meanwhile is left out: the next look finds it.

        Raises InputError for one that cannot be read.
        """
        seen = {}
        for file in sorted(followed(self._directory)):
            try:
                seen[file] = self._look_at(file, known)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise InputError(f"{self._directory / file}: {error.strerror or error}") from None
        self._seen = seen
        return [found for found, _ in seen.values() if found.size]

    def facts(self) -> str:
        """Digest of host.json, and of the operations that the host has written down."""
        known = [content for name in FACTS if (content := self._content(name))]
        return digest(b"\0".join(known)) if known else ""

    def _content(self, name: str) -> bytes:
        try:
            with open(open_inside(self._directory / name, self._directory.parent), "rb") as file:
                return file.read()
        except OSError:
            return b""

    def _look_at(self, file: str, known: Mapping[int, Place]) -> tuple[Found, list[tuple[int, int, str]]]:
        path = self._directory / file
        if file in self._seen:
            found, asked = self._seen[file]
            if stamp(path) == found.stamp and _asked(_like(found.kind, found.head, known), known) == asked:
                return self._seen[file]
        with Content(path, self._directory.parent) as content:
            kind, head = kind_of(file), content.head()
            like = _like(kind, head, known)
            same = tuple(number for number in like if content.holds(known[number]))
            further = tuple(number for number in like if content.size < known[number].sure)
            tail = content.tail(content.size)
            found = Found(
                file, kind, content.stamp, content.size, head, tail, content.packed, not content.problem, same, further
            )
        return found, _asked(like, known)


def match(known: Mapping[int, Place], found: Iterable[Found], settled: Callable[[Found], bool]) -> Match:
    """Tell which is which.

    A file may be there twice, while it is copied or packed: the copy is no file of its own. One that begins like
    another but is shorter is a copy in the making, or the known name begun anew, and one that ends in the middle of
    what gzip wrote is being written: both are left alone until they have ``settled``.
    """
    candidates: dict[int, list[Found]] = {}
    strange: list[Found] = []
    for item in found:
        if not item.whole and not settled(item):
            continue
        if item.known:
            candidates.setdefault(_most_read(item, known), []).append(item)
        elif not item.further or settled(item):
            strange.append(item)
    chosen = {number: _best(known[number], items) for number, items in candidates.items()}
    firsts: list[Found] = []
    for item in sorted(strange, key=lambda item: (-item.size, item.packed, item.file)):
        longer = [other for other in firsts if other.kind == item.kind and other.head.startswith(item.head)]
        same = any((other.size, other.tail) == (item.size, item.tail) for other in longer)
        if not same and (not longer or settled(item)):
            firsts.append(item)
    return Match(chosen, tuple(sorted(firsts, key=lambda item: item.file)))


def _like(kind: str, head: bytes, known: Mapping[int, Place]) -> list[int]:
    """The known files that begin as this one does."""
    digests: dict[int, str] = {}
    like = []
    for number, place in known.items():
        if place.kind == kind and place.hashed <= len(head):
            if place.hashed not in digests:
                digests[place.hashed] = digest(head[: place.hashed])
            if digests[place.hashed] == place.head:
                like.append(number)
    return like


def _asked(like: Iterable[int], known: Mapping[int, Place]) -> list[tuple[int, int, str]]:
    return [(number, known[number].sure, known[number].tail) for number in like]


def _most_read(item: Found, known: Mapping[int, Place]) -> int:
    """Of several known files that all fit, the one that says most; of equals the one that had the name."""
    return max(item.known, key=lambda n: (known[n].hashed, known[n].sure, known[n].file == item.file, -n))


def _best(place: Place, items: list[Found]) -> Found:
    """Of several copies the one that has the name still, else one that may still grow, else the longest."""
    return min(items, key=lambda item: (item.file != place.file, item.packed, -item.size, item.file))


def followed(directory: Path) -> Iterator[str]:
    """Every log and journal below a host's directory, relative to it. Raises InputError if that cannot be read."""
    for below in ("", "agent/"):
        try:
            entries = list(os.scandir(directory / below))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise InputError(f"{directory / below}: {error.strerror or error}") from None
        for entry in entries:
            if kind_of(f"{below}{entry.name}") and not os.path.isdir(entry.path):
                yield f"{below}{entry.name}"
