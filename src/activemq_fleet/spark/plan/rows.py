"""Rows of a part of a fleet, as they come to a worker: sorted by component. Pure.

A component is some groups that nothing joins to the others, so that what the core says of it alone is
what it says of it in the whole fleet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, starmap

import pyarrow as pa

from activemq_fleet.spark.plan.bundles import in_order
from activemq_fleet.spark.plan.context import Context
from activemq_fleet.spark.plan.saying import said

LINK, STORE, FINDING, HOST = 0, 1, 2, 3
"""Kinds of rows of a part, in their order."""

COLUMNS = ("component", "kind", "host", "text", "place", "broker", "agent", "balancer", "by_hand", "home")


@dataclass(slots=True)
class Row:
    """Of a host its variables; else who says it first and where, and what, as JSON. ``home`` is its group."""

    component: str
    kind: int
    host: str
    text: str | None
    place: int
    broker: bool = False
    agent: bool = False
    balancer: bool = False
    by_hand: bool = False
    home: str | None = None


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Rows of ``COLUMNS``, some of them of many hosts (``bundles``) -> each of one; equal texts are one object."""
    every = (zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True) for batch in batches)
    return starmap(Row, in_order(chain.from_iterable(every)))


class Fingerprint:
    """A hash over all that the rows of a component follow from."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._hash = hashlib.sha256()
        self._releases: set[str] = set()
        self._asks = False
        self._text: str | None = None

    def add(self, row: Row) -> None:
        """Rows come in their order. The place counts where an order does: of links, agents and balancers."""
        place = row.place if row.agent or row.balancer or row.kind == LINK else 0
        flags = f"{row.kind}{row.broker:d}{row.agent:d}{row.balancer:d}{row.by_hand:d}"
        self._hash.update(f"{flags}\0{row.host}\0{place}\0{row.text or ''}\0\0".encode())
        self._asks |= row.agent or row.balancer
        if row.broker and row.text is not None and row.text is not self._text:
            self._text = row.text  # of hosts that say the same, the same object
            release = said(row.text).release
            self._releases.add(release.text if release else "")

    @property
    def value(self) -> str:
        """In hexadecimal."""
        context = self._context.fingerprint(sorted(self._releases), asks_for_groups=self._asks)
        whole = self._hash.copy()
        whole.update(context.encode())
        return whole.hexdigest()[:32]
