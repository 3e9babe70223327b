"""A host and its variables -> what decides who has to be looked at together with whom. Pure.

One row a host, see ``SCHEMA``. Everything that only a whole component shows is left to ``parts.py``;
what is wrong with one host's variables alone is said here, so that nothing is computed for a fleet
with such a mistake.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa

from activemq_fleet.alike import Alike
from activemq_fleet.errors import InputError, ReleaseError, SettingsError
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
from activemq_fleet.topology.brokers import Member, store_directory
from activemq_fleet.topology.build import NAME

# Problems by the order in which they are told: a kind is told only when there is none before it.
INPUT, SETTINGS, NO_RELEASE, RELEASE = "1", "2", "3", "4"
_REMEMBERED = 4096
_NOBODY = "?"
_written: Alike[str] = Alike()
_PLACE = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_.-]+)):[0-9]+")
_GROUP = re.compile(r"\bgroup=([^&;\"'\s)]+)")
_MULTICAST = "group:"

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
        ("likeness", pa.string()),  # equal where networks and documents are probably alike
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
    try:
        settings = read_settings(_NOBODY, found)
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


def facts_of(record: Record, place: int | None, pattern: str | None) -> dict[str, Any]:
    """One row. ``pattern`` is the naming pattern of the whole inventory, None where it is not known yet."""
    variables = dict(record.variables)
    own = variables.pop(PATTERN, None) or None
    row: dict[str, Any] = {"host": record.host, "place": place or 0, "pattern": None if own is None else str(own)}
    naming = _naming(pattern or row["pattern"] or DEFAULT_PATTERN, str(variables.get("activemq_master_node") or "a"))
    identity = naming.identify(record.host)
    roles = {"agent": AGENTS in record.groups, "balancer": BALANCERS in record.groups, "broker": identity is not None}
    row |= roles | {"by_hand": BROKERS in record.groups and identity is None}
    row["nearly"] = identity is None and naming.looks_like_broker(record.host)
    if not (any(roles.values()) or row["by_hand"]):
        return row
    if not NAME.fullmatch(record.host):
        what = "cannot be a host of a fleet: letters, digits and . - _ : only; rename it"
        return row | {"problems": [f"{INPUT}{record.host[:80]!r} {what}"]}
    if not any(roles.values()):
        return row
    try:
        row["variables"] = _written.get(partial(text_of, variables), record.variables)
    except InputError as error:
        return row | {"problems": [f"{INPUT}{record.host}: {error}"]}
    found = said(row["variables"])
    problems = list(found.problems) if identity or not found.settings else []
    if found.settings is None:
        return row | {"problems": problems}
    row |= _of_settings(record.host, identity, found)
    if identity and found.settings.release is None:
        problems = [f"{NO_RELEASE}activemq_release is not set: say the release that runs there, '5.18.3'"]
    return row | {"problems": problems or None}


def _of_settings(host: str, identity: Identity | None, found: Said) -> dict[str, Any]:
    settings = found.settings
    assert settings is not None  # noqa: S101 -- the caller has told the problems of those without
    row: dict[str, Any] = {
        "waivers": found.waivers,
        "vip": settings.vip is not None or settings.vip_router_id is not None,
        "agent_group": settings.agent_group,
    }
    if identity is None or found.release is None:
        return row
    label, address = identity.host.lower(), (settings.address or "").lower()
    announced = _MULTICAST + (f"{settings.environment}-{identity.group}" if settings.environment else identity.group)
    points = [*found.dialled, *found.announced, *([announced] if settings.environment else ())]
    if address and address not in (host.lower(), label):
        points.append(address)
    if settings.vip:
        points.append(settings.vip.lower())
    store = store_of(settings, settings.address or host, store_directory(Member(identity, settings, found.release)))
    return row | {
        "group": identity.group,
        "pair": identity.pair,
        "unit": identity.host if settings.ha == "none" else identity.pair,
        "release": found.release.text,
        "likeness": f"{settings.topology} {settings.ha} {found.release.text}",
        "address": address or None,
        "names": list({host.lower(), label, address or label, announced}),
        "points": points or None,
        "store": None if store[0] == "machine" else json.dumps(store),
        "own_store": store[0] == "database" or settings.store_directory is not None,
        "links": found.links,
    }


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
