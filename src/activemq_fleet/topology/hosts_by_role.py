"""Identify the hosts of an inventory (brokers, agents, load balancers), and read their settings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from activemq_fleet.errors import InputError, ReleaseError, SettingsError, group_hosts_by_problem, hosts_by_error_line
from activemq_fleet.findings import Finding
from activemq_fleet.naming import DEFAULT_PATTERN, PATTERN_VARIABLE, Identity, Naming, UnparsableBrokerNameError
from activemq_fleet.releases import Release
from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.settings.variable_validation import check_known_variables, read_settings
from activemq_fleet.topology.brokers import BrokerHost
from activemq_fleet.topology.name_problems import (
    misspelled_broker_name_findings,
    naming_pattern_mismatch_findings,
)

BROKERS, AGENTS, BALANCERS = "activemq_brokers", "activemq_agents", "activemq_loadbalancers"
ROLE_GROUPS = (AGENTS, BALANCERS, BROKERS)
"""The inventory groups that give a host its role."""
RELEASE_NOT_SET = "activemq_release is not set: set it to the release of the broker, such as '5.18.3'"
NAME = re.compile(r"\w[\w.:-]*")

_ANY_HOST = "?"
_EVERY_HOST = frozenset({"all", "ungrouped"})
_CONTROLLERS = frozenset({"localhost", "127.0.0.1"})
Variables = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class HostRoles:
    """The roles of one host: it is a broker, an agent and a load balancer, or several or none of these.

    ``identity`` is that of a broker. ``misnamed`` is the error of a host whose variables state an impossible identity.
    ``is_unclear``: the host is meant as a broker and has no identity, for the reason ``unparsable`` if its variables
    state a part of one. ``resembles_broker``: it has no role, and its name is probably a misspelled broker name.
    """

    identity: Identity | None
    agent: bool
    balancer: bool
    is_unclear: bool
    misnamed: SettingsError | None = None
    unparsable: UnparsableBrokerNameError | None = None
    resembles_broker: bool = False

    @property
    def has_settings(self) -> bool:
        """Whether the host has a role (broker, agent, load balancer), so that its ``activemq_*`` variables are read."""
        return self.identity is not None or self.agent or self.balancer

    @property
    def is_known(self) -> bool:
        """Whether the host has a role or is meant as a broker."""
        return self.has_settings or self.is_unclear or self.misnamed is not None


@dataclass(frozen=True, slots=True)
class HostsByRole:
    """The hosts of an inventory by role: brokers, agents and load balancers.

    ``roles`` are those of all hosts, by name. ``agents``, ``balancers`` and ``unclear`` are names in the order of the
    inventory groups. ``others`` are all hosts without a role, and ``unread`` those of them whose groups, if they have
    any, contain brokers too.
    """

    pattern: str
    roles: Mapping[str, HostRoles]
    agents: Sequence[str]
    balancers: Sequence[str]
    unclear: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def identities(self) -> dict[str, Identity]:
        """The identities (group, pair, node) of all brokers, by host."""
        return {name: role.identity for name, role in self.roles.items() if role.identity is not None}

    @property
    def broker_agent_and_balancer_names(self) -> tuple[str, ...]:
        """The names of all brokers, agents and load balancers.

        A host that is two of them is listed twice.
        """
        return (*self.identities, *self.agents, *self.balancers)


def classify_host(
    host: str, variables: Mapping[str, Any], groups: Collection[str], naming_pattern: str | None
) -> HostRoles:
    """Return the roles of one host, from its name, its variables and the inventory groups that contain it.

    Raises InputError for a pattern that cannot be used, and for the name of a host with a role whose characters could
    leave the directory, line or list it is written to.
    """
    identity, misnamed, unparsable, resembles_broker = None, None, None, False
    try:
        naming = Naming.naming_of_host(host, variables, naming_pattern)
        identity = naming.identify_broker(host)
        resembles_broker = not any(group in groups for group in ROLE_GROUPS) and naming.looks_like_misspelled_broker(
            host
        )
    except SettingsError as error:
        misnamed = error
    except UnparsableBrokerNameError as error:
        unparsable = error
    is_unclear = unparsable is not None or (BROKERS in groups and identity is None)
    role = HostRoles(
        identity, AGENTS in groups, BALANCERS in groups, is_unclear, misnamed, unparsable, resembles_broker
    )
    if (role.has_settings or is_unclear) and not NAME.fullmatch(host):
        raise InputError(
            f"{host[:80]!r} cannot be the name of a host: rename the host. Use only letters, digits and "
            "the characters '.', '-', '_' and ':', and begin the name with a letter or digit"
        )
    return role


def classify_hosts_by_role(
    hosts: Variables, groups: Mapping[str, Sequence[str]], naming_pattern: str | None
) -> tuple[HostsByRole, list[Finding]]:
    """Classify the hosts of an inventory by role: brokers, agents and load balancers.

    Findings about hosts that may be meant as brokers are returned, too. The findings are T001 and T017.

    Raises InputError where no host is a broker, for different naming patterns, and as ``classify_host`` does.
    """
    pattern = naming_pattern or common_naming_pattern(
        str(variables[PATTERN_VARIABLE]) for variables in hosts.values() if variables.get(PATTERN_VARIABLE)
    )
    role_groups = {group: frozenset(groups.get(group, ())) for group in ROLE_GROUPS}
    roles = {
        name: classify_host(
            name, hosts[name], frozenset(group for group in ROLE_GROUPS if name in role_groups[group]), pattern
        )
        for name in sorted(hosts)
    }
    if not any(role.identity or role.is_unclear or role.misnamed for role in roles.values()):
        raise fleet_without_brokers_error(len(hosts), pattern)
    unclear = [name for name in dict.fromkeys((*groups.get(BROKERS, ()), *roles)) if roles[name].is_unclear]
    others = [name for name in hosts if not roles[name].is_known]
    misspelt = [name for name in others if roles[name].resembles_broker]
    identities = {name for name, role in roles.items() if role.identity is not None}
    elsewhere = {
        name
        for group, members in groups.items()
        if group not in _EVERY_HOST and identities.isdisjoint(members)
        for name in members
    }
    unread = tuple(name for name in others if name not in {*misspelt, *elsewhere, *_CONTROLLERS})
    reasons = {name: error for name, role in roles.items() if (error := role.unparsable)}
    findings = [
        *naming_pattern_mismatch_findings(unclear, reasons, pattern),
        *misspelled_broker_name_findings(misspelt, pattern),
    ]
    agents, balancers = ([name for name in groups.get(group, ()) if name in hosts] for group in (AGENTS, BALANCERS))
    return HostsByRole(pattern, roles, agents, balancers, tuple(unclear), tuple(others), unread), findings


def common_naming_pattern(patterns: Iterable[str]) -> str:
    """Return the pattern of host names that all hosts share; raise InputError if they set different patterns.

    ``patterns`` are the values of ``activemq_naming_pattern``. Returns the default pattern where no host sets one.
    """
    different = set(patterns)
    if len(different) > 1:
        raise InputError(
            "activemq_naming_pattern differs between hosts: set one value for all hosts, such as in group_vars/all.yml"
        )
    return different.pop() if different else DEFAULT_PATTERN


def fleet_without_brokers_error(hosts: int, pattern: str) -> InputError:
    """Return the error for an inventory in which no host is a broker."""
    if not hosts:
        return InputError(
            "no host of this inventory is a broker, because the inventory has no hosts: add the hosts of the brokers"
        )
    return InputError(
        f"no host of this inventory is a broker: none of {hosts} host names matches the pattern {pattern} of the "
        "variable activemq_naming_pattern. The default pattern matches orders-mq01-a.example.com. Run `activemq-fleet "
        "names -i INVENTORY`, or `activemq-fleet names HOST...` for single brokers, and set activemq_naming_pattern "
        "or the other variables that this command proposes"
    )


@dataclass(frozen=True, slots=True)
class SettingsReadFromVariables:
    """The settings and the release of a host, read from its variables, and the problems of these, without its name.

    ``settings`` is None if the variables have problems; ``release`` is that of a broker, None if it is not known.
    """

    settings: HostSettings | None
    release: Release | None = None
    problems: tuple[str, ...] = ()
    release_problems: tuple[str, ...] = ()

    @classmethod
    def read(cls, variables: Mapping[str, Any], *, is_broker: bool) -> SettingsReadFromVariables:
        """Read a host's settings, and for a broker its ActiveMQ release, from its variables."""
        try:
            settings = read_settings(_ANY_HOST, variables)
        except SettingsError as error:
            return cls(None, problems=tuple(error.problems_by_host[_ANY_HOST]))
        if not is_broker:
            return cls(settings)
        if settings.release is None:
            return cls(settings, problems=(RELEASE_NOT_SET,))
        try:
            return cls(settings, Release.of(settings.release))
        except ReleaseError as error:
            return cls(settings, release_problems=(str(error),))


def problems_independent_of_settings(host: str, role: HostRoles, variables: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the errors about a host's identity and unknown variables, as messages without the host name.

    They are those of its identity, and the unknown variables of a host whose settings are not read.
    """
    if role.misnamed:
        return tuple(role.misnamed.problems_by_host[host])
    try:
        if not role.has_settings:
            check_known_variables(host, variables, certain=not role.is_unclear)
    except SettingsError as error:
        return tuple(error.problems_by_host[host])
    return ()


def raise_for_problems(
    problems_by_host: Mapping[str, Sequence[str]], release_problems_by_host: Mapping[str, Sequence[str]]
) -> None:
    """Raise SettingsError with the problems of all hosts' variables, or ReleaseError if only releases are unknown.

    Hosts share a line for each problem.
    """
    hosts_by_problem = group_hosts_by_problem(problems_by_host)
    if RELEASE_NOT_SET in hosts_by_problem:  # The problems of variables that are set come first.
        hosts_by_problem[RELEASE_NOT_SET] = hosts_by_problem.pop(RELEASE_NOT_SET)
    problems = hosts_by_error_line(hosts_by_problem)
    hosts_by_release_problem = group_hosts_by_problem(release_problems_by_host)
    release_problems = hosts_by_error_line(
        {f"in activemq_release, {text}": names for text, names in hosts_by_release_problem.items()}
    )
    if problems:
        lines = problems | release_problems
        raise SettingsError(*lines, hosts_by_line=lines)
    if release_problems:
        raise ReleaseError(*release_problems, hosts_by_line=release_problems)


def read_settings_by_host_and_broker_hosts(
    hosts: Variables, hosts_by_role: HostsByRole
) -> tuple[dict[str, HostSettings], list[BrokerHost]]:
    """Read the settings of brokers, agents and load balancers from variables, and return (settings, broker hosts).

    Settings are by host. A broker host has its settings and its release. Raises the errors of ``raise_for_problems``.
    """
    settings: dict[str, HostSettings] = {}
    members: list[BrokerHost] = []
    problems: dict[str, tuple[str, ...]] = {}
    release_problems: dict[str, tuple[str, ...]] = {}
    roles = hosts_by_role.roles
    misnamed = [name for name, role in roles.items() if role.misnamed]
    with_settings = hosts_by_role.broker_agent_and_balancer_names
    for name in dict.fromkeys((*misnamed, *with_settings, *hosts_by_role.unclear, *hosts_by_role.others)):
        role = roles[name]
        problems[name] = problems_independent_of_settings(name, role, hosts[name])
        if role.has_settings:
            read = SettingsReadFromVariables.read(hosts[name], is_broker=role.identity is not None)
            problems[name] += read.problems
            release_problems[name] = read.release_problems
            if read.settings is not None:
                settings[name] = read.settings
                if role.identity is not None and read.release is not None:
                    members.append(BrokerHost(role.identity, read.settings, read.release))
    raise_for_problems(problems, release_problems)
    return settings, members
