"""Build the Fleet from hosts and their variables; a pure function of the inventory.

Each stage returns its result and its findings. The stages are: hosts by role, settings and brokers,
the network of links, agents and load balancers, complete brokers, and checks of the whole fleet.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from types import MappingProxyType

from activemq_fleet.findings import Finding
from activemq_fleet.settings.host_settings import WaiverSettings
from activemq_fleet.topology.access import add_links_accounts_and_permissions
from activemq_fleet.topology.agents import agents_and_home_pair_findings
from activemq_fleet.topology.balancers import build_balancers_and_findings
from activemq_fleet.topology.brokers import build_brokers_without_links_or_accounts
from activemq_fleet.topology.hosts_by_role import (
    Variables,
    classify_hosts_by_role,
    read_settings_by_host_and_broker_hosts,
)
from activemq_fleet.topology.inventory_problems import topology_findings
from activemq_fleet.topology.links import plan_network
from activemq_fleet.topology.model.fleet import Fleet, ShortenedGroupList, WholeInventoryFacts, groups_of

_NO_GROUPS: Mapping[str, Sequence[str]] = MappingProxyType({})


def build_fleet(
    hosts: Variables,
    groups: Mapping[str, Sequence[str]] = _NO_GROUPS,
    *,
    naming_pattern: str | None = None,
    today: date | None = None,
    rest: WholeInventoryFacts | None = None,
) -> Fleet:
    """Build the fleet of an inventory from variables by host name, and host names by inventory group.

    Brokers are the hosts whose names match the naming pattern; agents and load balancers are the members of the groups
    ``activemq_agents`` and ``activemq_loadbalancers``. ``naming_pattern`` is that of the inventory plugin's file;
    ``activemq_naming_pattern`` of the hosts is used without it. ``today`` decides whether a waiver has expired. With
    ``rest`` the hosts are a part of an inventory, as ``plan`` divides it. ``Fleet.findings`` are those about the
    topology.

    Raises SettingsError for variables that are unknown, mistyped or missing, ReleaseError for an unknown release, and
    InputError for an inventory without brokers or a name that no file can have.

    >>> from activemq_fleet import build_fleet
    >>> variables = {"activemq_release": "5.18.3", "activemq_ha": "shared-file", "activemq_store_directory": "/mnt/mq"}
    >>> fleet = build_fleet({host: variables for host in ("orders-mq01-a", "orders-mq01-b")})
    >>> [(broker.host, broker.role, broker.ports["openwire"]) for broker in fleet.brokers]
    [('orders-mq01-a', 'master', 61616), ('orders-mq01-b', 'slave', 61616)]
    >>> list(fleet.pairs_by_name)
    ['orders-mq01']
    """
    hosts_by_role, name_findings = classify_hosts_by_role(hosts, groups, naming_pattern)
    settings, members = read_settings_by_host_and_broker_hosts(hosts, hosts_by_role)
    nodes, node_findings = build_brokers_without_links_or_accounts(members)
    network, link_findings = plan_network(nodes, rest)
    broker_groups = groups_of(nodes)
    known = rest.groups if rest else ShortenedGroupList.shorten_group_names([group.name for group in broker_groups])
    agents, agent_findings = agents_and_home_pair_findings(hosts_by_role.agents, settings, broker_groups, known)
    balancers, balancer_findings = build_balancers_and_findings(hosts_by_role.balancers, settings, broker_groups, known)
    brokers = add_links_accounts_and_permissions(nodes, network, agents, balancers)
    findings = [*name_findings, *node_findings, *link_findings, *agent_findings, *balancer_findings]
    findings += rest.findings if rest else ()
    findings += topology_findings(
        brokers, network, agents, balancers, () if rest else hosts, [hosts[name] for name in hosts_by_role.unclear]
    )
    release_warnings = dict.fromkeys(text for member in members for text in member.release.warnings)
    if rest:
        waivers, waiver_warnings = list(rest.waivers), list[str]()
    else:
        every_waiver = (
            waiver for name in hosts_by_role.broker_agent_and_balancer_names for waiver in settings[name].waivers
        )
        waivers, waiver_warnings = waivers_in_force_and_expiry_warnings(every_waiver, today or date.today())
    return Fleet(
        brokers=brokers,
        agents=agents,
        balancers=balancers,
        findings=tuple(apply_waivers(findings, waivers)),
        waivers=tuple(waiver.model_dump(mode="json") for waiver in waivers),
        warnings=(*release_warnings, *waiver_warnings),
        naming_pattern=hosts_by_role.pattern,
        unread=hosts_by_role.unread,
        rest=rest,
        variables=hosts,
    )


def waivers_in_force_and_expiry_warnings(
    every_waiver: Iterable[WaiverSettings], today: date
) -> tuple[list[WaiverSettings], list[str]]:
    """Return the waivers (exceptions from rules) in force on ``today``, and a warning for each expired waiver.

    The waivers in force have no repeats and keep their order.
    """
    waivers = list(dict.fromkeys(every_waiver))
    expired = [waiver for waiver in waivers if waiver.until and waiver.until < today]
    warnings = [
        f"the waiver of rule {waiver.rule} in activemq_waivers expired on {waiver.until} (its reason: "
        f"{waiver.reason}): "
        "renew or remove the waiver"
        for waiver in expired
    ]
    return [waiver for waiver in waivers if waiver not in expired], warnings


def apply_waivers(findings: Iterable[Finding], waivers: Sequence[WaiverSettings]) -> list[Finding]:
    """Mark findings (problems found by checks) that the operator's waivers suppress as waived, and return all findings.

    They are sorted by host, rule and message, without duplicates, and have the waiver's reason.
    """

    def waived(finding: Finding) -> Finding:
        for waiver in waivers:
            if waiver.rule == finding.rule and any(fnmatch.fnmatchcase(finding.host, host) for host in waiver.hosts):
                return replace(finding, waived=waiver.reason)
        return finding

    unique = dict.fromkeys(findings)
    return [waived(finding) for finding in sorted(unique, key=lambda f: (f.host, f.rule, f.message))]
