"""A host and its variables -> what decides who has to be looked at together with whom. Pure.

One row a host, see ``SCHEMA``. Everything that only a whole component shows is left to ``parts.py``;
what is wrong with one host's variables alone is said here, so that nothing is computed for a fleet
with such a mistake.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from activemq_fleet.alike import Alike
from activemq_fleet.errors import InputError, ReleaseError, SettingsError
from activemq_fleet.likeness import with_database
from activemq_fleet.lint.fleet_stores import store_of
from activemq_fleet.naming import DEFAULT_PATTERN, Identity, Naming
from activemq_fleet.pipeline.plan.records import (
    PATTERN,
    Record,
    plain,
    read_line,
    read_listed,
    read_record,
    text_of,
    variables_of,
)
from activemq_fleet.releases import Release
from activemq_fleet.settings import Settings, read_settings
from activemq_fleet.topology import AGENTS, BALANCERS, BROKERS
from activemq_fleet.topology.brokers import Member, shares_store, store_directory
from activemq_fleet.topology.build import NAME

# Problems by the order in which they are told: a kind is told only when there is none before it.
INPUT, SETTINGS, NO_RELEASE, RELEASE = "1", "2", "3", "4"
_REMEMBERED, _FEW = 4096, 64
_NOBODY = "?"
_PLACE = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_.-]+)):[0-9]+")
_GROUP = re.compile(r"\bgroup=([^&;\"'\s)]+)")
_MULTICAST = "group:"
_DATABASE, _ELSEWHERE = "activemq_jdbc", "\0"  # which no JSON holds
_with_databases: dict[str, Said] = {}
_quoted = json.JSONEncoder().encode

_TEXTS = pa.list_(pa.string())
SCHEMA = pa.schema(
    [
        ("host", pa.string()),
        ("variables", pa.string()),
        ("place", pa.int64()),
        ("broker", pa.bool_()),
        ("agent", pa.bool_()),
        ("balancer", pa.bool_()),
        ("by_hand", pa.bool_()),
        ("group", pa.string()),
        ("pair", pa.string()),
        ("unit", pa.string()),
        ("release", pa.string()),
        ("address", pa.string()),  # where the variables say one
        ("names", _TEXTS),  # by which others may mean this host
        ("points", _TEXTS),  # names that it means
        ("store", pa.string()),
        ("own_store", pa.bool_()),  # said, and not made from the pair's name
        ("links", pa.string()),
        ("waivers", pa.string()),
        ("vip", pa.bool_()),
        ("agent_group", pa.string()),
        ("pattern", pa.string()),
        ("nearly", pa.bool_()),
        ("problems", _TEXTS),
    ]
)
"""``links`` and ``waivers`` are JSON lists; ``problems`` begin with one of the kinds above."""


@dataclass(frozen=True, slots=True)
class Said:
    """What variables say, whoever's they are."""

    settings: Settings | None
    problems: tuple[str, ...] = ()
    release: Release | None = None
    links: str | None = None
    waivers: str | None = None
    dialled: tuple[str, ...] = ()
    announced: tuple[str, ...] = ()


@lru_cache(maxsize=_REMEMBERED)
def said(variables: str) -> Said:
    """The settings that a text of ``records.text_of`` holds: those of a group are the same for many hosts."""
    found = variables_of(variables)
    found.pop(PATTERN, None)
    database = found.get(_DATABASE)
    if not isinstance(database, dict):
        return _read(found)
    url = json.dumps(database.get("url"))
    if variables.count(url) != 1:
        return _read(found)
    # Pairs with databases of their own have texts that differ in this one place, and settings that differ in it.
    but_for_url = variables.replace(url, _ELSEWHERE)
    first = _with_databases.get(but_for_url)
    if first is not None and first.settings is not None:
        settings = with_database(first.settings, database)
        if settings is not None:
            return replace(first, settings=settings)
    if len(_with_databases) >= _FEW:
        _with_databases.clear()
    _with_databases[but_for_url] = first = _read(found)
    return first


def _read(variables: Mapping[str, Any]) -> Said:
    try:
        settings = read_settings(_NOBODY, variables)
    except SettingsError as error:
        return Said(None, tuple(SETTINGS + problem.removeprefix(f"{_NOBODY}: ") for problem in error.problems))
    release: Release | None = None
    problems: tuple[str, ...] = ()
    if settings.release is not None:
        try:
            release = Release.of(settings.release)
        except ReleaseError as error:
            problems = (f"{RELEASE}{error}",)
    texts = _texts(settings)
    return Said(
        settings,
        problems,
        release,
        _json([link.model_dump(mode="json", by_alias=True) for link in settings.links]),
        _json([waiver.model_dump(mode="json") for waiver in settings.waivers]),
        tuple(dict.fromkeys((bracketed or name).lower() for bracketed, name in _PLACE.findall(texts))),
        tuple(dict.fromkeys(_MULTICAST + name for name in _GROUP.findall(texts))) if "multicast:" in texts else (),
    )


def _texts(settings: Settings) -> str:
    """All that the user wrote himself, in which any host of the fleet may be named."""
    parts = [*settings.java_options, *settings.broker_attributes.values()]
    parts += [fragment.xml for fragment in settings.xml_fragments]
    parts += [file.content for file in settings.extra_files]
    return "\n".join(map(str, parts))


def _json(found: list[Any]) -> str | None:
    return json.dumps(found) if found else None


@dataclass(frozen=True, slots=True)
class _Variables:
    """What variables say before anything is known of the host: ``own`` are those without ``pattern``."""

    own: Mapping[str, Any]
    pattern: str | None
    letter: str

    @classmethod
    def of(cls, variables: Mapping[str, Any]) -> _Variables:
        own = dict(variables)
        pattern = own.pop(PATTERN, None) or None
        return cls(own, None if pattern is None else str(pattern), str(own.get("activemq_master_node") or "a"))


@dataclass(frozen=True, slots=True)
class _Shared:
    """What hosts with the very same variables have in common: columns of any of them, and of brokers."""

    text: str
    found: Said
    every: dict[str, Any] = field(default_factory=dict)
    broker: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, variables: Mapping[str, Any]) -> _Shared:
        """Raises InputError for what no text can say."""
        text = text_of(variables)
        found = said(text)
        settings, release = found.settings, found.release
        if settings is None:
            return cls(text, found)
        every = {
            "variables": text,
            "waivers": found.waivers,
            "vip": settings.vip is not None or settings.vip_router_id is not None,
            "agent_group": settings.agent_group,
            "problems": None,
        }
        if release is None:
            return cls(text, found, every)
        broker = every | {
            "release": release.text,
            "own_store": settings.store_directory is not None or settings.ha == "shared-jdbc",
            "links": found.links,
        }
        return cls(text, found, every, broker)


_variables: Alike[_Variables] = Alike()
_shared: Alike[_Shared] = Alike()


def facts_of(record: Record, place: int | None, pattern: str | None) -> dict[str, Any]:
    """One row. ``pattern`` is the naming pattern of the whole inventory, None where it is not known yet."""
    variables = _variables.get(lambda: _Variables.of(record.variables), record.variables)
    host, groups = record.host, record.groups
    naming = _naming(pattern or variables.pattern or DEFAULT_PATTERN, variables.letter)
    identity = naming.identify(host)
    row: dict[str, Any] = {
        "host": host,
        "place": place or 0,
        "pattern": variables.pattern,
        "broker": identity is not None,
        "agent": AGENTS in groups,
        "balancer": BALANCERS in groups,
        "by_hand": BROKERS in groups and identity is None,
        "nearly": identity is None and naming.looks_like_broker(host),
    }
    has_role = row["broker"] or row["agent"] or row["balancer"]
    if not (has_role or row["by_hand"]):
        return row
    if not NAME.fullmatch(host):
        what = "cannot be a host of a fleet: letters, digits and . - _ : only; rename it"
        return row | {"problems": [f"{INPUT}{host[:80]!r} {what}"]}
    if not has_role:
        return row
    try:
        shared = _shared.get(lambda: _Shared.of(variables.own), record.variables)
    except InputError as error:
        return row | {"problems": [f"{INPUT}{host}: {error}"]}
    return row | _of_role(host, identity, shared)


def _of_role(host: str, identity: Identity | None, shared: _Shared) -> dict[str, Any]:
    """Columns of a host that has a role."""
    found = shared.found
    if found.settings is None:
        return {"variables": shared.text, "problems": list(found.problems)}
    if identity is None:
        return shared.every
    if found.release is None:
        missing = f"{NO_RELEASE}activemq_release is not set: say the release that runs there, '5.18.3'"
        return {**shared.every, "problems": list(found.problems) or [missing]}
    return {**shared.broker, **_of_name(host, identity, found.settings, found)}


def _of_name(host: str, identity: Identity, settings: Settings, found: Said) -> dict[str, Any]:
    """Columns of a broker that its name decides, together with its settings."""
    lower, label, address = host.lower(), identity.host, (settings.address or "").lower()
    group = identity.group
    announced = f"{_MULTICAST}{settings.environment}-{group}" if settings.environment else _MULTICAST + group
    points = [*found.dialled, *found.announced, *([announced] if settings.environment else ())]
    short = label.lower()
    if address and address not in (lower, short):
        points.append(address)
    if settings.vip:
        points.append(settings.vip.lower())
    return {
        "group": group,
        "pair": identity.pair,
        "unit": label if settings.ha == "none" else identity.pair,
        "address": address or None,
        "names": list({lower, short, address or short, announced}),
        "points": points or None,
        "store": _store(host, identity, settings, found),
    }


def _store(host: str, identity: Identity, settings: Settings, found: Said) -> str | None:
    """The store that others may name too; None for one on the machine's own disk."""
    if found.release is None or not shares_store(settings):
        return None
    store = store_of(settings, settings.address or host, store_directory(Member(identity, settings, found.release)))
    return None if store[0] == "machine" else f"[{', '.join(map(_quoted, store))}]"


@lru_cache(maxsize=64)
def _naming(pattern: str, letter: str) -> Naming:
    return Naming(pattern, letter)


def facts(batches: Iterable[pa.RecordBatch], *, form: str, pattern: str | None) -> Iterator[pa.RecordBatch]:
    """Rows of the input (``text``, and of some forms ``host``, ``groups``, ``place``) -> rows of ``SCHEMA``."""
    for batch in batches:
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        empty: list[None] = [None] * batch.num_rows
        rows = []
        for text, host, groups, place in zip(
            columns["text"],
            columns.get("host", empty),
            columns.get("groups", empty),
            columns.get("place", empty),
            strict=True,
        ):
            if text is None or not text.strip():
                continue
            rows.append(_row(form, text, host, groups, place, pattern))
        yield pa.RecordBatch.from_arrays([_array(field, rows) for field in SCHEMA], schema=SCHEMA)


def _row(
    form: str, text: str, host: str | None, groups: list[str] | None, place: int | None, pattern: str | None
) -> dict[str, Any]:
    try:
        if form == "listed":
            record = read_listed(host or "", text, groups or ())
        elif form == "given":
            record = Record(host or "", plain(variables_of(text)), tuple(groups or ()))
        else:
            record = read_record(text, cells=True) if form == "table" else read_line(text)
        return facts_of(record, place, pattern)
    except InputError as error:
        return {"host": host or "", "problems": [f"{INPUT}{error}"]}


def _array(field: pa.Field, rows: list[dict[str, Any]]) -> pa.Array:
    values = [row.get(field.name) for row in rows]
    try:
        return pa.array(values, field.type)
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can say and no file can hold
        return pa.array([_encodable(value) for value in values], field.type)


def _encodable(value: Any) -> Any:
    if isinstance(value, list):
        return [_encodable(inside) for inside in value]
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value
