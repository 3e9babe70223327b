"""Extract the facts about one host that concern other hosts, and the problems of its variables."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any

from activemq_fleet.errors import InputError, ReleaseError, SettingsError
from activemq_fleet.lint.fleet_stores import store_identity_key
from activemq_fleet.naming import PATTERN_VARIABLE, Identity, Naming, UnparsableBrokerNameError
from activemq_fleet.planning.host_records import HostRecord, variables_from_json, variables_to_json
from activemq_fleet.releases import Release
from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.settings.variable_validation import read_settings
from activemq_fleet.topology import AGENTS, BALANCERS, BROKERS
from activemq_fleet.topology.brokers import BrokerHost, store_directory_of
from activemq_fleet.topology.hosts_by_role import NAME, RELEASE_NOT_SET
from activemq_fleet.topology.model.broker import multicast_group_name

_ANY_HOST = "?"
_HOST_AND_PORT = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_.-]+)):[0-9]+")
_MULTICAST_GROUP = re.compile(r"\bgroup=([^&;\"'\s)]+)")
_MULTICAST = "group:"  # prefix of a multicast group among the names of hosts


class InventoryProblemKind(IntEnum):
    """The kinds of inventory problems, in the order in which they are reported.

    Only the first kind that a fleet has is reported.
    """

    RECORD_WITHOUT_HOST = 1
    INPUT = 2
    SETTINGS = 3
    NO_RELEASE = 4
    RELEASE = 5


@dataclass(frozen=True, slots=True)
class HostFactsForSeparatePlanning:
    """The facts about one inventory host by which a fleet is divided into parts that are planned separately.

    They are its roles, names, addresses, and variable problems. ``position`` is its position in its inventory group and
    ``pattern`` the naming pattern that its variables set. Only hosts with a role have the other facts: ``address`` is
    the one that the variables set, ``connection_targets`` are other hosts or multicast groups in its variables,
    and ``names`` are those by which other hosts may connect to it. ``links``, ``waivers`` and ``store`` are JSON;
    ``sets_store`` is False for a store whose directory follows from the pair's name.
    """

    host: str
    position: int = 0
    pattern: str | None = None
    broker: bool = False
    agent: bool = False
    balancer: bool = False
    by_hand: bool = False
    nearly: bool = False
    group: str | None = None
    pair: str | None = None
    unit: str | None = None
    release: str | None = None
    address: str | None = None
    connection_targets: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    store: str | None = None
    sets_store: bool = False
    links: str | None = None
    waivers: str | None = None
    vip: bool = False
    agent_group: str | None = None
    problem_kind: int | None = None
    problems: tuple[str, ...] = ()

    @property
    def has_role(self) -> bool:
        """Whether the host has a role: it is a broker, an agent or a load balancer.

        A host whose name nearly matches the naming pattern counts, too.
        """
        return self.broker or self.agent or self.balancer or self.by_hand or self.nearly


@dataclass(frozen=True)
class _ParsedVariables:
    """The parsed variables of one or more hosts. ``settings`` is None if the variables have problems."""

    settings: HostSettings | None
    release: Release | None = None
    problem_kind: InventoryProblemKind | None = None
    problems: tuple[str, ...] = ()
    links: str | None = None
    waivers: str | None = None
    connection_targets: tuple[str, ...] = ()


def host_component_facts_and_variables(
    record: HostRecord, position: int, pattern: str | None
) -> tuple[HostFactsForSeparatePlanning, str | None]:
    """Return the facts that assign a host to a fleet component (hosts planned together), and its variables as JSON.

    The variables are those of a broker, agent or balancer. ``pattern`` is the naming pattern of the inventory, None
    while that is unknown. Raises InputError for a pattern that is no regular expression.
    """
    host_pattern = record.variables.get(PATTERN_VARIABLE) or None
    identity, is_unparsable, is_similar = None, False, False
    try:
        naming = Naming.naming_of_host(record.host, record.variables, pattern)
        identity = naming.identify_broker(record.host)
        is_similar = identity is None and naming.looks_like_misspelled_broker(record.host)
    except UnparsableBrokerNameError:
        is_unparsable = True
    except SettingsError as error:
        return HostFactsForSeparatePlanning(
            record.host,
            position,
            problem_kind=InventoryProblemKind.SETTINGS,
            problems=tuple(error.problems_by_host[record.host]),
        ), None
    roles: dict[str, Any] = {
        "host": record.host,
        "position": position,
        "pattern": None if host_pattern is None else str(host_pattern),
        "broker": identity is not None,
        "agent": AGENTS in record.groups,
        "balancer": BALANCERS in record.groups,
        "by_hand": is_unparsable or (BROKERS in record.groups and identity is None),
        "nearly": is_similar,
    }
    has_settings = roles["broker"] or roles["agent"] or roles["balancer"]
    if (has_settings or roles["by_hand"]) and not NAME.fullmatch(record.host):
        problem = (
            f"the name {record.host[:80]!r} is not valid for a host: rename the host, and use only letters, digits and "
            ". - _ :"
        )
        return HostFactsForSeparatePlanning(**roles, problem_kind=InventoryProblemKind.INPUT, problems=(problem,)), None
    if not has_settings and not is_unparsable:
        return HostFactsForSeparatePlanning(**roles), None
    try:
        variables = {name: value for name, value in record.variables.items() if name != PATTERN_VARIABLE}
        text = variables_to_json(record.host, variables)
    except InputError as error:
        return HostFactsForSeparatePlanning(
            **roles, problem_kind=InventoryProblemKind.INPUT, problems=(str(error),)
        ), None
    if not has_settings:
        return HostFactsForSeparatePlanning(**roles), text
    return HostFactsForSeparatePlanning(
        **roles, **_facts_of_variables(identity, parsed_host_settings_and_problems(text))
    ), text


def _facts_of_variables(identity: Identity | None, variables: _ParsedVariables) -> dict[str, Any]:
    settings, release = variables.settings, variables.release
    if settings is None:
        return {"problem_kind": variables.problem_kind, "problems": variables.problems}
    facts: dict[str, Any] = {
        "waivers": variables.waivers,
        "vip": settings.vip is not None or settings.vip_router_id is not None,
        "agent_group": settings.agent_group,
    }
    if identity is None:
        return facts
    if release is None:
        kind = variables.problem_kind or InventoryProblemKind.NO_RELEASE
        return facts | {"problem_kind": kind, "problems": variables.problems or (RELEASE_NOT_SET,)}
    address = settings.address.lower() if settings.address else None
    return facts | {
        "group": identity.group,
        "pair": identity.pair,
        "unit": identity.pair if settings.ha_profile.has_peer else identity.short_host_name,
        "release": release.text,
        "address": address,
        "connection_targets": (*variables.connection_targets, *_connection_targets_of_settings(identity, settings)),
        "names": (identity.name, address or identity.name, _MULTICAST + multicast_group_name(identity.group, settings)),
        "store": _shared_store(BrokerHost(identity, settings, release)),
        "sets_store": settings.store_directory is not None or settings.ha_profile.has_database_lease,
        "links": variables.links,
    }


@lru_cache(maxsize=1024)
def parsed_host_settings_and_problems(variables_json: str) -> _ParsedVariables:
    """Return the settings parsed from a host's variables (JSON text), and the problems of these variables.

    The release is also returned. The result is cached, so that hosts with equal text share it.
    """
    try:
        settings = read_settings(_ANY_HOST, variables_from_json(variables_json))
    except SettingsError as error:
        return _ParsedVariables(None, None, InventoryProblemKind.SETTINGS, tuple(error.problems_by_host[_ANY_HOST]))
    release, kind, problem_texts = None, None, tuple[str, ...]()
    if settings.release is not None:
        try:
            release = Release.of(settings.release)
        except ReleaseError as error:
            kind, problem_texts = InventoryProblemKind.RELEASE, (str(error),)
    return _ParsedVariables(
        settings,
        release,
        kind,
        problem_texts,
        _json_or_none([link.model_dump(mode="json", by_alias=True) for link in settings.links]),
        _json_or_none([waiver.model_dump(mode="json") for waiver in settings.waivers]),
        _connection_targets_in_texts(settings),
    )


def _connection_targets_in_texts(settings: HostSettings) -> tuple[str, ...]:
    """Return the hosts and multicast groups named in free texts: Java options, attributes, fragments, files."""
    parts = [*settings.java_options, *settings.broker_attributes.values()]
    parts += [fragment.xml for fragment in settings.xml_fragments]
    parts += [file.content for file in settings.extra_files]
    text = "\n".join(map(str, parts))
    groups = _MULTICAST_GROUP.findall(text) if "multicast:" in text else []
    hosts = [(bracketed or name).lower() for bracketed, name in _HOST_AND_PORT.findall(text)]
    return tuple(dict.fromkeys([*hosts, *(_MULTICAST + name for name in groups)]))


def _connection_targets_of_settings(identity: Identity, settings: HostSettings) -> list[str]:
    targets = []
    if settings.environment or settings.multicast_group:
        targets.append(_MULTICAST + multicast_group_name(identity.group, settings))
    if settings.address and settings.address.lower() not in (identity.name.lower(), identity.short_host_name.lower()):
        targets.append(settings.address.lower())
    if settings.vip:
        targets.append(settings.vip.lower())
    return targets


def _shared_store(member: BrokerHost) -> str | None:
    """Return the store as JSON if other units can use it, too; None for a store on a local disk."""
    if not member.settings.ha_profile.shares_store:
        return None
    address = member.settings.address or member.identity.name
    store = store_identity_key(member.settings, address, store_directory_of(member))
    return None if store[0] == "machine" else json.dumps(store)


def _json_or_none(items: list[Any]) -> str | None:
    return json.dumps(items) if items else None
