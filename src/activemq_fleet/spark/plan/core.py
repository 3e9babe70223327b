"""Components of a fleet, and what the core says of them. Pure.

Several small components are one call of the core, which has a cost of its own.
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
from activemq_fleet.render import ACTIVEMQ_XML, render_clients, render_hosts
from activemq_fleet.settings.broker import LinkSettings
from activemq_fleet.spark.plan.context import Context
from activemq_fleet.spark.plan.outcome import Lists, Tables
from activemq_fleet.spark.plan.records import variables_of
from activemq_fleet.spark.plan.rows import FINDING, HOST, LINK, STORE, Row
from activemq_fleet.topology import AGENTS, BALANCERS, BROKERS, Fleet, Rest, build_fleet
from activemq_fleet.validation import checked

_NOBODY = -1
_TOGETHER = 400  # brokers: so many share the fixed cost of a call


@dataclass(frozen=True, slots=True)
class Component:
    """Rows that the core is to see together, with their fingerprint."""

    name: str
    rows: Sequence[Row]
    fingerprint: str

    @property
    def hosts(self) -> list[str]:
        """The names of its hosts, in the order of the rows."""
        return [row.host for row in self.rows if row.kind == HOST]


class Queue:
    """Components that wait until there are enough of them for a call of the core."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._waiting: list[Component] = []
        self._brokers = 0

    def add(self, one: Component) -> Iterator[Tables]:
        """Add a component; yields the tables of all that wait once they are enough for a call."""
        self._waiting.append(one)
        self._brokers += len(one.rows)
        if self._brokers >= _TOGETHER:
            yield from self.rest()

    def rest(self) -> Iterator[Tables]:
        """Yield the tables of all components that wait."""
        if self._waiting:
            yield result_of(self._waiting, self._context)
        self._waiting, self._brokers = [], 0


def result_of(part: Sequence[Component], context: Context) -> Tables:
    """Everything about a part. What the core refuses becomes the error of the tables."""
    tables = Tables()
    try:
        _refuse_doubles(part)
        fleet = _fleet(part, context)
        trees = render_hosts(fleet)
        documents = {broker.host: trees[broker.host][ACTIVEMQ_XML] for broker in fleet.brokers}
        fleet = checked(fleet, documents, context.schema_of)
    except FleetError as error:
        tables.error = str(error)
        return tables
    for one, rows, withheld in _apart(part, fleet, trees):
        tables.add(rows.tables(), rows.blocking, withheld)
        if one is not None:
            tables.component(one.name, one.fingerprint, one.hosts)
    return tables


def _apart(
    part: Sequence[Component], fleet: Fleet, trees: Mapping[str, Mapping[str, bytes]]
) -> Iterator[tuple[Component | None, Lists, int]]:
    """The rows of each component, and its number of brokers without files.

    The component is None for what is told of a host that says a link of others.
    """
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
        yield one, lists, withheld
    if findings[_NOBODY]:
        lists = Lists()
        lists.findings(findings[_NOBODY])
        yield None, lists, 0


def _fleet(part: Sequence[Component], context: Context) -> Fleet:
    rows = [row for one in part for row in one.rows if row.kind == HOST]
    in_order = sorted((row for row in rows if row.agent or row.balancer), key=lambda row: (row.place, row.host))
    groups = {
        AGENTS: [row.host for row in in_order if row.agent],
        BALANCERS: [row.host for row in in_order if row.balancer],
        BROKERS: [row.host for row in rows if row.by_hand],
    }
    variables = {text: variables_of(text) for text in {row.text or "{}" for row in rows}}
    return build_fleet(
        {row.host: variables[row.text or "{}"] for row in rows},
        groups,
        naming_pattern=context.pattern,
        rest=_rest([row for one in part for row in one.rows if row.kind != HOST], context),
    )


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
