"""The work itself: components of a fleet, one after another, through the core.

A component is some groups that nothing joins to the others, so that what the core says of it alone is
what it says of it in the whole fleet. Rows come sorted by component; several small ones are one call
of the core.
"""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby, pairwise

import pyarrow as pa

from activemq_fleet.errors import FleetError, InputError
from activemq_fleet.findings import Finding
from activemq_fleet.pipeline.plan.context import Context
from activemq_fleet.pipeline.plan.facts import said
from activemq_fleet.pipeline.plan.large import LargeComponent
from activemq_fleet.pipeline.plan.outcome import Tables
from activemq_fleet.pipeline.plan.packing import PACK
from activemq_fleet.render import ACTIVEMQ_XML, render_hosts
from activemq_fleet.settings import LinkSettings, Settings
from activemq_fleet.topology import AGENTS, BALANCERS, BROKERS, Fleet, Rest, build_fleet
from activemq_fleet.validation import checked

LINK, STORE, FINDING, HOST = 0, 1, 2, 3
"""Kinds of rows of a part, in their order."""

COLUMNS = ("component", "kind", "host", "text", "place", "broker", "agent", "balancer", "by_hand")
_TOGETHER = 400  # brokers: so many share the fixed cost of a call
_YOUNG, _PARTS_A_SEARCH = 0, 64  # the garbage collector's generation, and how often it looks at all of them


@dataclass(slots=True)
class Row:
    """Of a host its variables; else who says it first and where, and what, as JSON."""

    component: str
    kind: int
    host: str
    text: str | None
    place: int
    broker: bool = False
    agent: bool = False
    balancer: bool = False
    by_hand: bool = False


@dataclass(slots=True)
class Part:
    """One or more components, each with its fingerprint."""

    components: dict[str, list[Row]] = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)

    def add(self, component: str, rows: list[Row], fingerprint: str) -> None:
        """One more."""
        self.components[component] = rows
        self.marks[component] = fingerprint

    @property
    def hosts(self) -> list[Row]:
        return [row for rows in self.components.values() for row in rows if row.kind == HOST]


def compute(batches: Iterable[pa.RecordBatch], *, context: Context) -> Iterator[pa.RecordBatch]:
    """Rows of parts, sorted -> packs, for ``mapInArrow``."""
    for tables in computed(batches, context):
        yield pa.RecordBatch.from_pylist([tables.pack(content=context.content)], PACK)


def computed(batches: Iterable[pa.RecordBatch], context: Context) -> Iterator[Tables]:
    """Rows of parts, sorted -> their tables, one part after another."""
    with _rarely_collecting():
        for number, tables in enumerate(_results(rows_of(batches), context), 1):
            yield tables
            # What a part left is young; what is remembered for the next parts is much, and seldom garbage.
            gc.collect(_YOUNG if number % _PARTS_A_SEARCH else 2)


@contextmanager
def _rarely_collecting() -> Iterator[None]:
    """Look for garbage between parts only, and at what parts left: else a fifth of the time goes there."""
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def fingerprints(batches: Iterable[pa.RecordBatch], *, context: Context) -> Iterator[pa.RecordBatch]:
    """The same rows -> component, fingerprint: whether anything has changed, without the work."""
    for component, rows in groupby(rows_of(batches), key=lambda row: row.component):
        mark = Fingerprint(context)
        for row in rows:
            mark.add(row)
        yield pa.RecordBatch.from_pydict({"component": [component], "fingerprint": [mark.value]})


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Rows of ``COLUMNS``."""
    for batch in batches:
        for values in zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True):
            yield Row(*values)


class Fingerprint:
    """A hash over all that the rows of a component follow from."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._hash = hashlib.sha256()
        self._releases: set[str] = set()
        self._asks = False

    def add(self, row: Row) -> None:
        """Rows come in their order. The place counts where an order does: of links, agents and balancers."""
        place = row.place if row.agent or row.balancer or row.kind == LINK else 0
        flags = f"{row.kind}{row.broker:d}{row.agent:d}{row.balancer:d}{row.by_hand:d}"
        self._hash.update(f"{flags}\0{row.host}\0{place}\0{row.text or ''}\0\0".encode())
        self._asks |= row.agent or row.balancer
        if row.broker and row.text is not None:
            release = said(row.text).release
            self._releases.add(release.text if release else "")

    @property
    def value(self) -> str:
        """In hexadecimal."""
        context = self._context.fingerprint(sorted(self._releases), asks_for_groups=self._asks)
        whole = self._hash.copy()
        whole.update(context.encode())
        return whole.hexdigest()[:32]


def _results(rows: Iterable[Row], context: Context) -> Iterator[Tables]:
    waiting, number = Part(), 0
    for component, found in groupby(rows, key=lambda row: row.component):
        mark, kept, brokers = Fingerprint(context), list[Row](), 0
        for row in found:
            mark.add(row)
            kept.append(row)
            brokers += row.broker
            if brokers > context.largest:
                large = LargeComponent(component, context)
                for early in kept:
                    large.add(early)
                for late in found:
                    mark.add(late)
                    large.add(late)
                yield from large.results(mark)
                break
        else:
            waiting.add(component, kept, mark.value)
            number += brokers
            if number >= _TOGETHER:
                yield result_of(waiting, context)
                waiting, number = Part(), 0
    if waiting.components:
        yield result_of(waiting, context)


def result_of(part: Part, context: Context) -> Tables:
    """Everything about a part. What the core refuses becomes the error of the tables."""
    tables = Tables()
    try:
        _refuse_doubles(part)
        fleet = _fleet(part, context)
        trees = render_hosts(fleet)
        documents = {broker.host: trees[broker.host][ACTIVEMQ_XML] for broker in fleet.brokers}
        fleet = checked(fleet, documents, context.schema_of, proof=context.proof)
    except FleetError as error:
        tables.error = str(error)
        return tables
    blocked = {finding.host for finding in fleet.findings if finding.blocks}
    withheld: set[str] = set()
    for component, rows in part.components.items():
        members = [row.host for row in rows if row.kind == HOST]
        tables.component(component, part.marks[component], members)
        if not blocked.isdisjoint(members):
            withheld.update(members)
    tables.fleet(fleet)
    tables.files(fleet, trees, withheld)
    return tables


def _fleet(part: Part, context: Context) -> Fleet:
    rows = part.hosts
    in_order = sorted((row for row in rows if row.agent or row.balancer), key=lambda row: (row.place, row.host))
    groups = {
        AGENTS: [row.host for row in in_order if row.agent],
        BALANCERS: [row.host for row in in_order if row.balancer],
        BROKERS: [row.host for row in rows if row.by_hand],
    }
    known = {row.host: _settings(row) for row in rows if row.text is not None}
    return build_fleet(
        {host: {"activemq_master_node": settings.master_node} for host, settings in known.items()},
        groups,
        naming_pattern=context.pattern,
        rest=_rest([row for found in part.components.values() for row in found if row.kind != HOST], context),
        read=lambda host, _: known[host],
    )


def _settings(row: Row) -> Settings:
    settings = said(row.text or "{}").settings
    assert settings is not None  # noqa: S101 -- mistakes of variables have ended the run before this
    return settings


def _rest(rows: Sequence[Row], context: Context) -> Rest:
    links = sorted({(row.host, row.place, row.text or "") for row in rows if row.kind == LINK})
    stores = {tuple(json.loads(row.text or "")): row.host for row in rows if row.kind == STORE}
    return Rest(
        groups=context.groups,
        links=tuple((LinkSettings.model_validate_json(text), host, place) for host, place, text in links),
        waivers=context.waived,
        stores=stores,
        findings=tuple(Finding(**json.loads(row.text or "")) for row in rows if row.kind == FINDING),
    )


def _refuse_doubles(part: Part) -> None:
    for rows in part.components.values():
        for one, other in pairwise(rows):
            if one.kind == other.kind == HOST and one.host == other.host:
                raise InputError(f"{one.host}: --hosts has it twice: leave one of its records")
