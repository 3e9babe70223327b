"""Extract the facts about one host that concern other hosts, and the problems of its variables."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from activemq_fleet.lint.fleet_stores import store_identity_key
from activemq_fleet.naming import PATTERN_VARIABLE, Identity
from activemq_fleet.planning.host_records import HostRecord, variables_from_json, variables_to_json
from activemq_fleet.releases import Release
from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.topology.brokers import BrokerHost, store_directory_of
from activemq_fleet.topology.hosts_by_role import (
    AGENTS,
    BALANCERS,
    SettingsReadFromVariables,
    classify_host,
    problems_independent_of_settings,
)
from activemq_fleet.topology.model.broker import multicast_group_name, pair_or_short_host_name

_HOST_AND_PORT = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_.-]+)):[0-9]+")
_MULTICAST_GROUP = re.compile(r"\bgroup=([^&;\"'\s)]+)")
_MULTICAST = "group:"  # prefix of a multicast group among the names of hosts


@dataclass(frozen=True, slots=True)
class HostFactsForSeparatePlanning:
    """The facts about one inventory host by which a fleet is divided into parts that are planned separately.

    They are its roles, names, addresses, and variable problems. ``agent_position`` and ``balancer_position`` are its
    positions in the inventory groups of agents and of load balancers, and ``pattern`` is the naming pattern that its
    variables set. Only hosts with a role have the other facts: ``address`` is
    the one that the variables set, ``connection_targets`` are other hosts or multicast groups in its variables,
    and ``names`` are those by which other hosts may connect to it. ``links``, ``waivers`` and ``store`` are JSON;
    ``sets_store`` is False for a store whose directory follows from the pair's name. ``input_error`` is the message of
    an error in the record itself, and ``has_host`` is False for a record without a host.
    """

    host: str
    agent_position: int = 0
    balancer_position: int = 0
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
    problems: tuple[str, ...] = ()
    release_problems: tuple[str, ...] = ()
    input_error: str = ""
    has_host: bool = True

    @property
    def has_role(self) -> bool:
        """Whether the host has a role: it is a broker, an agent or a load balancer.

        A host whose name nearly matches the naming pattern counts, too.
        """
        return self.broker or self.agent or self.balancer or self.by_hand or self.nearly


@dataclass(frozen=True, slots=True)
class _VariablesWithTexts:
    """The variables that hosts with equal variables share, as they were read and as the facts contain them."""

    read: SettingsReadFromVariables
    links: str | None = None
    waivers: str | None = None
    connection_targets: tuple[str, ...] = ()


def host_component_facts_and_variables(
    record: HostRecord, pattern: str | None
) -> tuple[HostFactsForSeparatePlanning, str | None]:
    """Return the facts that determine with which other hosts a host must be planned, and its variables as JSON text.

    The variables are those of a broker, agent or balancer. ``pattern`` is the naming pattern of the inventory, None
    while that is unknown. Raises InputError for a pattern that is no regular expression, for a name that no host can
    have, and for a value that JSON cannot represent.
    """
    role = classify_host(record.host, record.variables, record.groups, pattern)
    text = None
    if role.has_settings or role.unparsable:
        variables = {name: value for name, value in record.variables.items() if name != PATTERN_VARIABLE}
        text = variables_to_json(record.host, variables)
    host_pattern = record.variables.get(PATTERN_VARIABLE)
    facts: dict[str, Any] = {
        "host": record.host,
        "agent_position": record.groups.get(AGENTS, 0),
        "balancer_position": record.groups.get(BALANCERS, 0),
        "pattern": str(host_pattern) if host_pattern else None,
        "broker": role.identity is not None,
        "agent": role.agent,
        "balancer": role.balancer,
        "by_hand": role.is_unclear,
        "nearly": role.resembles_broker,
        "problems": problems_independent_of_settings(record.host, role, record.variables),
    }
    if text is not None and role.has_settings:
        shared = _read_shared_variables(text, is_broker=role.identity is not None)
        facts["problems"] += shared.read.problems
        facts |= {"release_problems": shared.read.release_problems, **_facts_of_variables(role.identity, shared)}
    return HostFactsForSeparatePlanning(**facts), text


def _facts_of_variables(identity: Identity | None, variables: _VariablesWithTexts) -> dict[str, Any]:
    settings, release = variables.read.settings, variables.read.release
    if settings is None:
        return {}
    facts: dict[str, Any] = {
        "waivers": variables.waivers,
        "vip": settings.vip is not None or settings.vip_router_id is not None,
        "agent_group": settings.agent_group,
    }
    if identity is None or release is None:
        return facts
    broker_host = BrokerHost(identity, settings, release)
    return facts | {
        "group": identity.group,
        "pair": identity.pair,
        "unit": pair_or_short_host_name(identity, settings),
        "release": release.text,
        "address": settings.address.lower() if settings.address else None,
        "connection_targets": (*variables.connection_targets, *_connection_targets_of_settings(identity, settings)),
        "names": (identity.name, broker_host.address, _MULTICAST + multicast_group_name(identity.group, settings)),
        "store": _shared_store(broker_host),
        "sets_store": settings.store_directory is not None or settings.ha_profile.has_database_lease,
        "links": variables.links,
    }


def release_of_variables(variables_json: str) -> Release | None:
    """Return the release that a broker's variables (JSON text) set; None if they set no known release."""
    return _read_shared_variables(variables_json, is_broker=True).read.release


@lru_cache(maxsize=1024)
def _read_shared_variables(variables_json: str, *, is_broker: bool) -> _VariablesWithTexts:
    """Read the variables of hosts. The result is cached, so that hosts with equal variables share it."""
    read = SettingsReadFromVariables.read(variables_from_json(variables_json), is_broker=is_broker)
    if read.settings is None:
        return _VariablesWithTexts(read)
    return _VariablesWithTexts(
        read,
        _json_or_none([link.model_dump(mode="json", by_alias=True) for link in read.settings.links]),
        _json_or_none([waiver.model_dump(mode="json") for waiver in read.settings.waivers]),
        _connection_targets_in_texts(read.settings),
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
    store = store_identity_key(member.settings, member.address, store_directory_of(member))
    return None if store[0] == "machine" else json.dumps(store)


def _json_or_none(items: list[Any]) -> str | None:
    return json.dumps(items) if items else None
