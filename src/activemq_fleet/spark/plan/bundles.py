"""The hosts of a fleet, a group in one row: what the driver asks of them, and what workers compute them from. Pure.

Hosts are many and groups few, and those of a group say the same. So Spark is given a row of each group, or some
where its hosts come in several batches or say what concerns others differently. ``variables`` are lines there: what
hosts say, as JSON, then the names of those hosts, then what others of the group say, and so on. Who is more than a
broker, or has an address of its own, has a row of its own; hosts of no role are only counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

import pyarrow as pa

from activemq_fleet.errors import InputError
from activemq_fleet.naming import Identity, Naming
from activemq_fleet.spark.plan.digest import Digest, writable
from activemq_fleet.spark.plan.facts import (
    Kin,
    Row,
    Shared,
    facts_of_kin,
    kin_of_text,
    member_of,
    points_of,
    shared_of,
    store_said,
)
from activemq_fleet.spark.plan.records import (
    Record,
    divided,
    plain,
    read_line,
    read_listed,
    read_record,
    variables_of,
)
from activemq_fleet.spark.plan.saying import INPUT
from activemq_fleet.topology import AGENTS, BALANCERS
from activemq_fleet.topology.build import NAME

_END = "\n"  # which no JSON of ours holds, and no name of a host
_TEXT, _INT, _BOOL, _BYTES, _TEXTS = pa.string(), pa.int64(), pa.bool_(), pa.binary(), pa.list_(pa.string())
_DIRECTORY = '["share"'  # how a store begins that is no database
_ROLES = ("broker", "agent", "balancer", "by_hand")
_HOST, _HOST_AND_PLACE = 2, itemgetter(2, 4)  # of a row for workers
_SAME = ("release", "own_store", "links", "waivers", "vip", "agent_group")

SCHEMA = pa.schema(
    [
        ("host", _TEXT),  # the first of them
        ("variables", _TEXT),
        ("place", _INT),
        *((role, _BOOL) for role in (*_ROLES, "nearly")),
        ("group", _TEXT),
        ("address", _TEXT),  # where the variables say one
        ("points", _TEXTS),  # names that they mean
        ("vip", _BOOL),
        ("agent_group", _TEXT),
        ("problems", _TEXTS),  # which begin with their kind (``saying``)
        ("digest", _BYTES),  # a row of its own, the last of a task
    ]
)

MEMBERS = pa.schema(
    [
        *((name, _TEXT) for name in ("host", "group", "pair", "unit", "store")),
        ("own_store", _BOOL),  # said, and not made from the pair's name
        ("names", _TEXTS),  # by which others may mean this host
    ]
)

_DDL = {
    _TEXT: "string",
    _INT: "bigint",
    _BOOL: "boolean",
    _BYTES: "binary",
    _TEXTS: "array<string>",
}


def ddl_of(schema: pa.Schema) -> str:
    """A schema of this module as Spark writes it."""
    return ", ".join(f"`{field.name}` {_DDL[field.type]}" for field in schema)


def bundles(batches: Iterable[pa.RecordBatch], *, form: str, pattern: str | None) -> Iterator[pa.RecordBatch]:
    """Rows of the input (``text``, and of some forms ``host``, ``groups``, ``place``) -> rows of ``SCHEMA``.

    ``pattern`` is the naming pattern of the whole inventory, None where it is not known yet.
    """
    digest = Digest()
    for batch in batches:
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        empty: list[None] = [None] * batch.num_rows
        found = _Bundles(pattern)
        for text, host, groups, place in zip(
            columns["text"],
            columns.get("host", empty),
            columns.get("groups", empty),
            columns.get("place", empty),
            strict=True,
        ):
            if text is None or not text.strip():
                continue
            try:
                if form != "line" or not found.add_line(text):
                    found.add(_record(form, text, host, groups), place)
            except InputError as error:
                found.single({"host": host or "", "problems": [f"{INPUT}{error}"]})
        rows = found.rows()
        for row in rows:
            digest.add(row)
        yield _batch(SCHEMA, [row for row in rows if row["host"] or row.get("problems")])
    yield _batch(SCHEMA, [{"digest": digest.packed()}])


def _record(form: str, text: str, host: str | None, groups: list[str] | None) -> Record:
    if form == "line":
        return read_line(text)
    if form == "listed":
        return read_listed(host or "", text, groups or ())
    if form == "given":
        return Record(host or "", plain(variables_of(text)), tuple(groups or ()))
    return read_record(text, cells=True)


class _Bundles:
    """The rows of one batch."""

    def __init__(self, pattern: str | None) -> None:
        self._pattern = pattern
        self._bundles: dict[tuple[Any, ...], _Bundle] = {}
        self._alike: dict[tuple[str, Kin], list[str] | None] = {}
        self._variables: str = ""
        self._kin: Kin | None = None
        self._singles: list[Row] = []
        self._nobodies: Counter[str | None] = Counter()

    def add(self, record: Record, place: int | None) -> None:
        """One host. Raises InputError for a pattern that is none."""
        self._add(record.host, Kin.of(record.variables), record.groups, place)

    def add_line(self, text: str) -> bool:
        """The same of a line, if it is in the usual form."""
        found = divided(text)
        if found is None:
            return False
        host, variables = found
        if variables != self._variables:
            self._variables, self._kin = variables, kin_of_text(variables)
        if self._kin is None:
            return False
        self._add(host, self._kin, (), None)
        return True

    def _add(self, host: str, kin: Kin, groups: tuple[str, ...], place: int | None) -> None:
        if AGENTS not in groups and BALANCERS not in groups:
            group = kin.naming(self._pattern).group_of(host)
            hosts = self._hosts_like(group, host, kin) if group and NAME.fullmatch(host) else None
            if hosts is not None:
                hosts.append(host)
                return
        row = facts_of_kin(host, kin, groups, place, self._pattern)
        if any(row[role] for role in _ROLES) or row["nearly"]:
            self.single(row)
        else:
            self._nobodies[row["pattern"]] += 1

    def single(self, row: Row) -> None:
        """A row of one host."""
        own = row.get("own_store") and row["store"]
        stores = [(own, row["host"], row["unit"])] if own else []
        self._singles.append(row | {"rows": 1, "stores": stores, "own_directory": _is_directory(own)})

    def rows(self) -> list[Row]:
        """Of ``SCHEMA`` and what ``Digest`` takes; what they lack is null."""
        nobodies = [{"host": "", "pattern": pattern, "rows": number} for pattern, number in self._nobodies.items()]
        return [*(bundle.row() for bundle in self._bundles.values()), *self._singles, *nobodies]

    def _hosts_like(self, group: str, host: str, kin: Kin) -> list[str] | None:
        """Where to add a broker; None for one that has to have a row of its own."""
        key = group, kin
        if key not in self._alike:
            identity = kin.naming(self._pattern).identify(host)
            self._alike[key] = self._new(identity, kin) if identity else None
        return self._alike[key]

    def _new(self, identity: Identity, kin: Kin) -> list[str] | None:
        if kin.wrong:
            return None
        shared = kin.shared()
        if shared.settled is None or shared.settled[0].address:
            return None
        same = {name: shared.broker[name] for name in _SAME} | {"group": identity.group, "pattern": kin.pattern}
        key = tuple(same.values())
        if key not in self._bundles:
            self._bundles[key] = _Bundle(same, kin.naming(self._pattern))
        return self._bundles[key].hosts_like(identity, shared)


class _Bundle:
    """Brokers of one group that are nothing else, and say the same to others."""

    def __init__(self, same: Mapping[str, Any], naming: Naming) -> None:
        self._same = same
        self._naming = naming
        self._hosts: dict[str, list[str]] = defaultdict(list)
        self._points: dict[str, None] = {}
        self._stores: dict[str, str] = {}

    def hosts_like(self, one: Identity, shared: Shared) -> list[str]:
        """Where those stand that say the same as one."""
        self._points |= dict.fromkeys(points_of(one, shared))
        store = store_said(one, shared) if shared.broker["own_store"] else None
        if store is not None:  # said, and so the same for all who say it
            self._stores[shared.text] = store
        return self._hosts[shared.text]

    def row(self) -> Row:
        """As ``_Bundles.rows``."""
        every = [host for hosts in self._hosts.values() for host in hosts]
        lines = [line for text, hosts in self._hosts.items() for line in (text, *hosts)]
        return {
            **self._same,
            "host": min(every),
            "variables": _END.join(lines if len(every) > 1 else lines[:1]),
            "place": 0,
            "broker": True,
            "points": list(self._points) or None,
            "stores": self._units(),
            "own_directory": any(map(_is_directory, self._stores.values())),
            "rows": len(every),
            **dict.fromkeys(("agent", "balancer", "by_hand", "nearly"), False),
        }

    def _units(self) -> list[tuple[str, str, str]]:
        first: dict[tuple[str, str], str] = {}
        for text, store in self._stores.items():
            for host in self._hosts[text]:
                identity = self._naming.identify(host)
                key = store, identity.pair if identity else ""
                first[key] = min(host, first.get(key, host))
        return [(store, host, unit) for (store, unit), host in first.items()]


def _is_directory(store: Any) -> bool:
    return bool(store) and store.startswith(_DIRECTORY)


def members(batches: Iterable[pa.RecordBatch], *, pattern: str) -> Iterator[pa.RecordBatch]:
    """Brokers' rows of ``SCHEMA`` -> a row each of ``MEMBERS``: what is asked for seldom."""
    naming = Naming(pattern)
    for batch in batches:
        rows: list[Row] = []
        for first, lines in zip(*(batch.column(name).to_pylist() for name in ("host", "variables")), strict=True):
            for host, text in apart(first, lines):
                identity = naming.identify(host)
                shared = shared_of(text)
                if identity is not None and shared.settled is not None:
                    rows.append({"host": host, **shared.broker, **member_of(identity, shared)})
        yield _batch(MEMBERS, rows)


def apart(first: str, lines: str) -> Iterator[tuple[str, str]]:
    """The hosts of a row with what they say. Those who say the same have the very same text."""
    text, *more = lines.split(_END)
    if not more:
        yield first, text
    for line in more:
        if line[0] == "{":
            text = line
        else:
            yield line, text


def in_order(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Rows (component, kind, host, text, place, …) in order, some of many hosts -> in order, each of one."""
    waiting: list[tuple[Any, ...]] = []
    for row in rows:
        component, kind, first, text, *_ = row
        if waiting and not (waiting[-1][:2] == (component, kind) and first <= waiting[-1][_HOST]):
            yield from waiting
            waiting = []
        alone = text is None or _END not in text
        waiting += [row] if alone else [(component, kind, *one, *row[_HOST + 2 :]) for one in apart(first, text)]
        if len(waiting) > 1:
            waiting.sort(key=_HOST_AND_PLACE)
    yield from waiting


def _batch(schema: pa.Schema, rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_array(field, rows) for field in schema], schema=schema)


def _array(field: pa.Field, rows: list[Row]) -> pa.Array:
    values = [row.get(field.name) for row in rows]
    try:
        return pa.array(values, field.type)
    except UnicodeEncodeError:
        return pa.array([_encodable(value) for value in values], field.type)


def _encodable(value: Any) -> Any:
    if isinstance(value, list):
        return [_encodable(inside) for inside in value]
    return writable(value) if isinstance(value, str) else value
