"""Components of a fleet, and what the core says of them. Pure.

Several small components are one call of the core, which has a cost of its own. Of networks that are the
same but for their names one is computed (``recurring``).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from activemq_fleet.errors import FleetError, InputError
from activemq_fleet.findings import Finding
from activemq_fleet.lint.files import SCHEMA_RULE
from activemq_fleet.pipeline.plan.context import Context
from activemq_fleet.pipeline.plan.outcome import Lists, Tables
from activemq_fleet.pipeline.plan.recurring import Rows
from activemq_fleet.pipeline.plan.renaming import Form, form_of
from activemq_fleet.pipeline.plan.rows import FINDING, HOST, LINK, STORE, Row
from activemq_fleet.pipeline.plan.saying import said
from activemq_fleet.releases import Release
from activemq_fleet.render import ACTIVEMQ_XML, render_clients, render_hosts
from activemq_fleet.settings import LinkSettings, Settings
from activemq_fleet.topology import AGENTS, BALANCERS, BROKERS, Fleet, Rest, build_fleet
from activemq_fleet.validation import checked

_NOBODY = -1
_TOGETHER = 400  # brokers: so many share the fixed cost of a call


@dataclass(slots=True)
class Component:
    """Rows that the core is to see together, with their fingerprint, and the form that another may have too."""

    name: str
    rows: Sequence[Row]
    fingerprint: str
    form: Form | None

    @classmethod
    def of(cls, name: str, rows: Sequence[Row], fingerprint: str, context: Context) -> Component:
        one = cls(name, rows, fingerprint, None)
        if one.speaks_for_itself:
            one.form = _form(rows, context)
        return one

    @property
    def hosts(self) -> list[str]:
        return [row.host for row in self.rows if row.kind == HOST]

    @property
    def speaks_for_itself(self) -> bool:
        """Whether all that is said of it is said by hosts of its own: what is found may be told of who says it."""
        said_by = {row.host for row in self.rows if row.kind in (LINK, FINDING)}
        return not said_by or said_by.issubset(self.hosts)


def _form(rows: Sequence[Row], context: Context) -> Form | None:
    """Of a network of brokers and links, of which no waiver speaks by name."""
    if any(row.kind != LINK and not _is_broker_only(row) for row in rows):
        return None
    if context.is_waived_by_name(row.host for row in rows if row.kind == HOST):
        return None
    texts = dict.fromkeys(row.text or "" for row in rows)
    places = {text: place for place, text in enumerate(texts)}
    lines = [f"{row.kind} {row.host} {places[row.text or '']} {row.place if row.kind == LINK else ''}" for row in rows]
    return form_of({row.home or "" for row in rows}, [*lines, *texts], context)


def _is_broker_only(row: Row) -> bool:
    return row.kind == HOST and row.broker and not (row.agent or row.balancer or row.by_hand)


class Queue:
    """Components on their way through the core; results come as there are enough of them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._waiting: list[Component] = []
        self._later: list[Component] = []
        self._brokers = 0
        self._ready, self._number = Tables(), 0

    def add(self, one: Component) -> Iterator[Tables]:
        """One more; gives what is ready."""
        self._sort(one)
        if self._brokers >= _TOGETHER:
            yield from self._computed()
        if self._number >= _TOGETHER:
            yield from self._filled()

    def rest(self) -> Iterator[Tables]:
        """What is left."""
        while self._waiting:
            yield from self._computed()
        yield from self._filled()

    def _sort(self, one: Component) -> None:
        known = self._known(one)
        if known:
            self._ready.component(one.name, one.fingerprint, one.hosts)
            self._ready.add(known.tables, known.blocking, known.withheld)
            self._number += len(one.rows)
        elif one.form and any(other.form and other.form.key == one.form.key for other in self._waiting):
            self._later.append(one)
            self._brokers += len(one.rows)
        else:
            self._waiting.append(one)
            self._brokers += len(one.rows)

    def _known(self, one: Component) -> Rows | None:
        context = self._context
        known = context.recurring.rows(one.form) if one.form else None
        if known is None or all(context.schema_of(Release.of(text)).is_valid(data) for text, data in known.sampled):
            return known
        # No name makes a document invalid. If one did all the same, what is known of others would be worth nothing.
        context.recurring.forget()
        context.proof.forget()
        return None

    def _computed(self) -> Iterator[Tables]:
        yield result_of(self._waiting, self._context)
        later, self._waiting, self._later, self._brokers = self._later, [], [], 0
        for one in later:
            self._sort(one)

    def _filled(self) -> Iterator[Tables]:
        if self._number:
            yield self._ready
        self._ready, self._number = Tables(), 0


def result_of(part: Sequence[Component], context: Context) -> Tables:
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
    alone = all(one.speaks_for_itself for one in part)
    for one, rows in _apart(part, fleet, trees):
        tables.add(rows.tables, rows.blocking, rows.withheld)
        if one is None:
            continue
        tables.component(one.name, one.fingerprint, one.hosts)
        if one.form and alone and not _has_words_of_a_schema(rows):
            context.recurring.learn(one.form, rows)
    return tables


def _has_words_of_a_schema(rows: Rows) -> bool:
    findings = rows.tables.get("findings")
    return findings is not None and SCHEMA_RULE in findings["rule"].to_pylist()


def _apart(
    part: Sequence[Component], fleet: Fleet, trees: Mapping[str, Mapping[str, bytes]]
) -> Iterator[tuple[Component | None, Rows]]:
    """The rows of each component, and of none: what is told of a host that says a link of others."""
    home = {host: place for place, one in enumerate(part) for host in one.hosts}
    brokers, findings, clients = (defaultdict[int, list[Any]](list) for _ in range(3))
    for broker in fleet.brokers:
        brokers[home[broker.host]].append(broker)
    for finding in fleet.findings:
        findings[home.get(finding.host, _NOBODY)].append(finding)
    first = {group.name: group.brokers[0].host for group in fleet.groups}
    for path, content in render_clients(fleet).items():
        clients[home[first[path.split("/")[1]]]].append((None, {path: content}))
    hashes: dict[bytes, str] = {}
    for place, one in enumerate(part):
        lists = Lists()
        lists.brokers(brokers[place])
        lists.findings(findings[place])
        withheld = len(brokers[place]) if lists.blocking else 0
        if not lists.blocking:
            own = ((host, trees[host]) for host in sorted(one.hosts) if host in trees)
            lists.files((*clients[place], *own), hashes)
        yield one, Rows(lists.tables(), lists.blocking, withheld)
    if findings[_NOBODY]:
        lists = Lists()
        lists.findings(findings[_NOBODY])
        yield None, Rows(lists.tables(), lists.blocking, 0)


def _fleet(part: Sequence[Component], context: Context) -> Fleet:
    rows = [row for one in part for row in one.rows if row.kind == HOST]
    in_order = sorted((row for row in rows if row.agent or row.balancer), key=lambda row: (row.place, row.host))
    groups = {
        AGENTS: [row.host for row in in_order if row.agent],
        BALANCERS: [row.host for row in in_order if row.balancer],
        BROKERS: [row.host for row in rows if row.by_hand],
    }
    known = {row.host: _settings(row) for row in rows if row.text is not None}
    others = [row.host for row in rows if not (row.broker or row.agent or row.balancer or row.by_hand)]
    return build_fleet(
        {host: {"activemq_master_node": settings.master_node} for host, settings in known.items()}
        | {host: {} for host in others},
        groups,
        naming_pattern=context.pattern,
        rest=_rest([row for one in part for row in one.rows if row.kind != HOST], context),
        read=lambda host, _: known[host],
    )


def _settings(row: Row) -> Settings:
    settings = said(row.text or "{}", row.host).settings
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


def _refuse_doubles(part: Sequence[Component]) -> None:
    for component in part:
        for one, other in pairwise(component.rows):
            if one.kind == other.kind == HOST and one.host == other.host:
                raise InputError(f"{one.host}: --hosts has it twice: leave one of its records")
