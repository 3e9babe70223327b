"""What the driver asks of all hosts together, as a task saw it; the driver adds up what tasks saw. Pure.

Each question to Spark is a job, whose time goes into planning and compiling it. So the tasks that read the hosts
answer all of them at once. It is small: numbers, names of groups, and what few hosts say.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

_QUICKLY = 1
_SAID = ("problems", "points", "address", "own_directory")
MOST_NAMED = 3
"""Hosts of which a message says the names."""


class Store(NamedTuple):
    """Who uses a store: the first host and its unit, the first and the last unit by name, and groups."""

    host: str
    unit: str
    least: str
    greatest: str
    groups: tuple[str, ...]

    def and_also(self, other: Store) -> Store:
        """The same of the hosts of both."""
        host, unit = min((self.host, self.unit), (other.host, other.unit))
        return Store(
            host,
            unit,
            min(self.least, other.least),
            max(self.greatest, other.greatest),
            self.groups if other.groups == self.groups else tuple(sorted({*self.groups, *other.groups})),
        )


@dataclass
class Digest:
    """Numbers of hosts, and of rows that say something; what there is of a few things, and who says it first.

    ``links`` and ``waivers`` are JSON lists; of a waiver the order is that in which the core takes them.
    """

    numbers: Counter[str] = field(default_factory=Counter)
    groups: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    releases: set[str] = field(default_factory=set)
    links: dict[str, tuple[str, str]] = field(default_factory=dict)
    waivers: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    stores: dict[str, Store] = field(default_factory=dict)
    nearly: list[str] = field(default_factory=list)

    def add(self, row: Mapping[str, Any]) -> None:
        """One row of ``bundles``."""
        hosts, host = row["rows"], row["host"]
        self.numbers["rows"] += hosts
        for name in ("broker", "agent", "balancer", "by_hand", "nearly"):
            if row.get(name):
                self.numbers[name] += hosts
        for name in _SAID:
            self.numbers[name] += bool(row.get(name))
        if row.get("pattern") is not None:
            self.numbers["pattern"] += hosts
            self.patterns.add(writable(row["pattern"]))
        if row.get("nearly"):
            self._near([writable(host)])
        if row.get("waivers") is not None:
            rank = 0 if row["broker"] else 1 if row["agent"] else 2
            _keep_first(self.waivers, row["waivers"], (rank, row["place"] if rank else 0, host))
        if row.get("group") is not None:
            self._broker(row)

    def _broker(self, row: Mapping[str, Any]) -> None:
        group = row["group"]
        self.groups.add(group)
        if row.get("release") is not None:
            self.releases.add(row["release"])
        if row.get("links") is not None:
            _keep_first(self.links, row["links"], (row["host"], group))
        for store, host, unit in row.get("stores") or ():
            self._use(store, Store(host, unit, unit, unit, (group,)))

    def and_also(self, other: Digest) -> Digest:
        """This, with the hosts of both."""
        self.numbers += other.numbers
        self.groups |= other.groups
        self.patterns |= other.patterns
        self.releases |= other.releases
        for text, first in other.links.items():
            _keep_first(self.links, text, first)
        for text, order in other.waivers.items():
            _keep_first(self.waivers, text, order)
        for store, using in other.stores.items():
            self._use(store, using)
        self._near(other.nearly)
        return self

    def _use(self, store: str, using: Store) -> None:
        known = self.stores.get(store)
        self.stores[store] = known.and_also(using) if known else using

    def _near(self, hosts: Iterable[str]) -> None:
        self.nearly = sorted([*self.nearly, *hosts])[:MOST_NAMED]

    def packed(self) -> bytes:
        """For the way to the driver."""
        said = {name: sorted(value) if isinstance(value, set) else value for name, value in vars(self).items()}
        return zlib.compress(json.dumps(said).encode(), _QUICKLY)

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        """From what it was packed to."""
        said = json.loads(zlib.decompress(data))
        return cls(
            numbers=Counter(said["numbers"]),
            groups=set(said["groups"]),
            patterns=set(said["patterns"]),
            releases=set(said["releases"]),
            links={text: (first[0], first[1]) for text, first in said["links"].items()},
            waivers={text: (order[0], order[1], order[2]) for text, order in said["waivers"].items()},
            stores={store: Store._make((*one, tuple(groups))) for store, (*one, groups) in said["stores"].items()},
            nearly=said["nearly"],
        )


def writable(text: str) -> str:
    """A text without half a surrogate pair, which JSON can say and no file or terminal can hold."""
    return text.encode(errors="backslashreplace").decode()


def _keep_first(known: dict[str, Any], text: str, first: tuple[Any, ...]) -> None:
    if text not in known or first < known[text]:
        known[text] = first
