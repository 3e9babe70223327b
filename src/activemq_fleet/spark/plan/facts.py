"""A host and its variables -> what decides who has to be looked at together with whom. Pure.

Everything that only a whole component shows is left to ``parts.py``; what is wrong with one host's
variables alone is said here, so that nothing is computed for a fleet with such a mistake.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from activemq_fleet.errors import InputError
from activemq_fleet.lint.fleet_stores import store_of
from activemq_fleet.naming import DEFAULT_PATTERN, Identity, Naming
from activemq_fleet.releases import Release
from activemq_fleet.settings.broker import Settings
from activemq_fleet.spark.plan.records import PATTERN, Record, text_of, variables_in
from activemq_fleet.spark.plan.saying import INPUT, MULTICAST, NO_RELEASE, Said, said
from activemq_fleet.topology import AGENTS, BALANCERS, BROKERS
from activemq_fleet.topology.brokers import Member, store_directory
from activemq_fleet.topology.build import NAME

_quoted = json.JSONEncoder().encode

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """What hosts of the very same variables have in common: columns of any of them, and of brokers."""

    text: str
    found: Said
    every: Row
    broker: Row

    @property
    def settled(self) -> tuple[Settings, Release] | None:
        """Settings and release; None where the variables are not those of a broker yet."""
        settings, release = self.found.settings, self.found.release
        return None if settings is None or release is None else (settings, release)


@dataclass(frozen=True, slots=True)
class Kin:
    """Hosts with equal variables: as ``text`` but for the ``pattern``, or ``wrong`` if none can say them."""

    text: str
    pattern: str | None
    letter: str
    wrong: InputError | None = field(default=None, compare=False)

    @classmethod
    def of(cls, variables: Mapping[str, Any]) -> Kin:
        own = dict(variables)
        pattern = own.pop(PATTERN, None) or None
        letter = str(own.get("activemq_master_node") or "a")
        text, wrong = "", None
        try:
            text = text_of(own)
        except InputError as error:
            wrong = error
        return cls(text, None if pattern is None else str(pattern), letter, wrong)

    def shared(self) -> Shared:
        """What one of them has in common with the others. Raises InputError for what no text can say."""
        if self.wrong:
            raise self.wrong
        return shared_of(self.text)

    def naming(self, pattern: str | None) -> Naming:
        """``pattern`` is that of the whole inventory, None where it is not known yet."""
        return _naming(pattern or self.pattern or DEFAULT_PATTERN, self.letter)


@lru_cache(maxsize=1024)
def kin_of_text(variables: str) -> Kin | None:
    """Of variables as a line of JSON has them; None where they have to be read with their host."""
    found = variables_in(variables)
    return None if found is None else Kin.of(found)


@lru_cache(maxsize=64)
def _naming(pattern: str, letter: str) -> Naming:
    return Naming(pattern, letter)


@lru_cache(maxsize=64)
def shared_of(text: str) -> Shared:
    """What hosts have in common of which a text of ``records.text_of`` says the variables."""
    found = said(text)
    settings, release = found.settings, found.release
    if settings is None:
        return Shared(text, found, {}, {})
    every: Row = {
        "variables": text,
        "waivers": found.waivers,
        "vip": settings.vip is not None or settings.vip_router_id is not None,
        "agent_group": settings.agent_group,
        "problems": None,
    }
    if release is None:
        return Shared(text, found, every, {})
    broker = every | {
        "release": release.text,
        "own_store": settings.store_directory is not None or settings.profile.has_database_lease,
        "links": found.links,
    }
    return Shared(text, found, every, broker)


def facts_of(record: Record, place: int | None, pattern: str | None) -> Row:
    """What is known of a host. ``pattern`` is the naming pattern of the whole inventory, None if not known yet."""
    return facts_of_kin(record.host, Kin.of(record.variables), record.groups, place, pattern)


def facts_of_kin(host: str, kin: Kin, groups: tuple[str, ...], place: int | None, pattern: str | None) -> Row:
    """The same of a host whose variables are known."""
    naming = kin.naming(pattern)
    identity = naming.identify(host)
    row: Row = {
        "host": host,
        "place": place or 0,
        "pattern": kin.pattern,
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
        shared = kin.shared()
    except InputError as error:
        return row | {"problems": [f"{INPUT}{host}: {error}"]}
    return row | _of_role(host, identity, shared)


def _of_role(host: str, identity: Identity | None, shared: Shared) -> Row:
    """Columns of a host that has a role."""
    if shared.found.settings is None:
        return {"variables": shared.text, "problems": list(shared.found.problems)}
    if identity is None:
        return shared.every
    if shared.settled is None:
        missing = f"{NO_RELEASE}activemq_release is not set: say the release that runs there, '5.18.3'"
        return {**shared.every, "problems": list(shared.found.problems) or [missing]}
    return {**shared.broker, **member_of(identity, shared)}


def member_of(identity: Identity, shared: Shared) -> Row:
    """Columns of a broker that its name decides, together with its settings."""
    settings, _ = _of_broker(shared)
    group, lower, short = identity.group, identity.name.lower(), identity.host.lower()
    address = settings.address.lower() if settings.address else None
    return {
        "group": group,
        "pair": identity.pair,
        "unit": identity.pair if settings.profile.has_peer else identity.host,
        "address": address,
        "names": list({lower, short, address or short, _announced(group, settings)}),
        "points": points_of(identity, shared) or None,
        "store": store_said(identity, shared),
    }


def points_of(identity: Identity, shared: Shared) -> list[str]:
    """The names that a broker means. Where it has no address of its own they are those of all alike in its group."""
    settings, _ = _of_broker(shared)
    points = [*shared.found.dialled, *shared.found.announced]
    if settings.environment:
        points.append(_announced(identity.group, settings))
    if settings.address and settings.address.lower() not in (identity.name.lower(), identity.host.lower()):
        points.append(settings.address.lower())
    if settings.vip:
        points.append(settings.vip.lower())
    return points


def _announced(group: str, settings: Settings) -> str:
    return f"{MULTICAST}{settings.environment}-{group}" if settings.environment else MULTICAST + group


def _of_broker(shared: Shared) -> tuple[Settings, Release]:
    assert shared.settled is not None  # noqa: S101 -- the caller has looked
    return shared.settled


def store_said(identity: Identity, shared: Shared) -> str | None:
    """The store that others may name too; None for one on the machine's own disk."""
    settings, release = _of_broker(shared)
    if not settings.profile.shares_store:
        return None
    directory = store_directory(Member(identity, settings, release))
    kind, *where = store_of(settings, settings.address or identity.name, directory)
    if kind == "machine":
        return None
    return f"[{', '.join(map(_quoted, (kind, *where)))}]"
