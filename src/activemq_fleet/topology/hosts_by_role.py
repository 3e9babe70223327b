"""Identify the hosts of an inventory (brokers, agents, load balancers), and read their settings."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from activemq_fleet.errors import InputError, ReleaseError, SettingsError, hosts_by_error_line, hosts_with_problem
from activemq_fleet.findings import Finding
from activemq_fleet.naming import DEFAULT_PATTERN, PATTERN_VARIABLE, Identity, Naming, UnparsableBrokerNameError
from activemq_fleet.releases import Release
from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.settings.variable_validation import check_known_variables, read_settings
from activemq_fleet.topology.brokers import BrokerHost
from activemq_fleet.topology.name_problems import (
    broker_like_host_name_findings,
    naming_pattern_mismatch_findings,
)

BROKERS, AGENTS, BALANCERS = "activemq_brokers", "activemq_agents", "activemq_loadbalancers"
RELEASE_NOT_SET = "activemq_release is not set: set it to the release of the broker, such as '5.18.3'"
NAME = re.compile(r"\w[\w.:-]*")

_EVERY_HOST = frozenset({"all", "ungrouped"})
_CONTROLLERS = frozenset({"localhost", "127.0.0.1"})
Variables = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class HostsByRole:
    """The hosts of an inventory by role: brokers, agents and load balancers.

    ``identities`` are those of brokers. ``misnamed`` are the hosts whose variables state an impossible identity.
    ``unclear`` are the hosts that are meant as brokers and have no identity, ``others`` all hosts without a role, and
    ``unread`` those of them whose groups, if they have any, contain brokers too.
    """

    pattern: str
    identities: Mapping[str, Identity]
    agents: Sequence[str]
    balancers: Sequence[str]
    misnamed: Mapping[str, SettingsError]
    unclear: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def broker_agent_and_balancer_names(self) -> tuple[str, ...]:
        """The names of all brokers, agents and load balancers.

        A host that is two of them is listed twice.
        """
        return (*self.identities, *self.agents, *self.balancers)


def classify_hosts_by_role(
    hosts: Variables, groups: Mapping[str, Sequence[str]], naming_pattern: str | None
) -> tuple[HostsByRole, list[Finding]]:
    """Classify the hosts of an inventory by role: brokers, agents and load balancers.

    Findings about hosts that may be meant as brokers are returned, too. The findings are T001 and T017.

    Raises InputError where no host is a broker, for different naming patterns, and for a name whose characters could
    leave the directory, line or list it is written to.
    """
    pattern = naming_pattern or common_naming_pattern(
        str(variables[PATTERN_VARIABLE]) for variables in hosts.values() if variables.get(PATTERN_VARIABLE)
    )
    identities: dict[str, Identity] = {}
    unclear: dict[str, UnparsableBrokerNameError] = {}
    misnamed: dict[str, SettingsError] = {}
    for name in sorted(hosts):
        try:
            identity = Naming.naming_of_host(name, hosts[name], pattern).identify_broker(name)
        except SettingsError as error:
            misnamed[name] = error
        except UnparsableBrokerNameError as error:
            unclear[name] = error
        else:
            if identity is not None:
                identities[name] = identity
    unmatched = [name for name in dict.fromkeys((*groups.get(BROKERS, ()), *unclear)) if name not in identities]
    agents = [name for name in groups.get(AGENTS, ()) if name in hosts]
    balancers = [name for name in groups.get(BALANCERS, ()) if name in hosts]
    for name in (*identities, *unmatched, *agents, *balancers):
        if not NAME.fullmatch(name):
            raise InputError(
                f"{name[:80]!r} cannot be the name of a host: rename the host. Use only letters, digits and "
                "the characters '.', '-', '_' and ':', and begin the name with a letter or digit"
            )
    if not (identities or unmatched or misnamed):
        raise fleet_without_brokers_error(len(hosts), pattern)
    known = {*identities, *unmatched, *misnamed, *agents, *balancers}
    rest = [name for name in hosts if name not in known]
    misspelt = [name for name in rest if Naming(pattern).looks_like_misspelled_broker(name)]
    elsewhere = {
        name
        for group, members in groups.items()
        if group not in _EVERY_HOST and identities.keys().isdisjoint(members)
        for name in members
    }
    unread = tuple(name for name in rest if name not in {*misspelt, *elsewhere, *_CONTROLLERS})
    findings = [
        *naming_pattern_mismatch_findings(unmatched, unclear, pattern),
        *broker_like_host_name_findings(misspelt, pattern),
    ]
    return HostsByRole(
        pattern, identities, agents, balancers, misnamed, tuple(unmatched), tuple(rest), unread
    ), findings


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


def read_settings_by_host(
    hosts: Variables, hosts_by_role: HostsByRole
) -> tuple[dict[str, HostSettings], list[BrokerHost]]:
    """Read the variables of brokers, agents and load balancers, and return (settings by host, hosts of brokers).

    A host of a broker has its settings and its release.

    Raises SettingsError with the problems of all hosts; hosts share a line for each problem. Raises ReleaseError where
    only releases are unknown.
    """
    settings: dict[str, HostSettings] = {}
    errors = dict(hosts_by_role.misnamed)
    for name in dict.fromkeys(hosts_by_role.broker_agent_and_balancer_names):
        try:
            settings[name] = read_settings(name, hosts[name])
        except SettingsError as error:
            errors[name] = error
    for name in (*hosts_by_role.unclear, *hosts_by_role.others):
        try:
            check_known_variables(name, hosts[name], certain=name in hosts_by_role.others)
        except SettingsError as error:
            errors[name] = error
    hosts_by_problem = hosts_with_problem(SettingsError.join_errors(errors.values()).problems_by_host)
    members: list[BrokerHost] = []
    without_release: list[str] = []
    hosts_by_release_error: dict[str, list[str]] = defaultdict(list)
    for name, identity in hosts_by_role.identities.items():
        if name not in settings:
            continue
        release = settings[name].release
        if release is None:
            without_release.append(name)
            continue
        try:
            members.append(BrokerHost(identity, settings[name], Release.of(release)))
        except ReleaseError as error:
            hosts_by_release_error[str(error)].append(name)
    if without_release:
        hosts_by_problem[RELEASE_NOT_SET] = without_release
    problems = hosts_by_error_line(hosts_by_problem)
    release_problems = hosts_by_error_line(
        {f"in activemq_release, {text}": names for text, names in hosts_by_release_error.items()}
    )
    if problems:
        lines = problems | release_problems
        raise SettingsError(*lines, hosts_by_line=lines)
    if release_problems:
        raise ReleaseError(*release_problems, hosts_by_line=release_problems)
    return settings, members
