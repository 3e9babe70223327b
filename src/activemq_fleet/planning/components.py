"""Divide a fleet into components: sets of brokers that have no connection to brokers of other components.

The result for a component alone equals its part of the result for the whole fleet. A component joins the ends of
``activemq_links``, groups with one ``activemq_address``, a group and the host to which it connects, an agent on a
broker's machine, and groups with a virtual address.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import chain, pairwise, product

from activemq_fleet.errors import InputError, names_to_text
from activemq_fleet.findings import Finding, merged_finding_lines
from activemq_fleet.planning.host_facts import HostFactsForSeparatePlanning
from activemq_fleet.planning.host_records import RecordWithoutHostError
from activemq_fleet.releases import Release
from activemq_fleet.settings.connectors_and_links import LinkSettings
from activemq_fleet.settings.host_settings import WaiverSettings
from activemq_fleet.topology import MAX_LISTED, ShortenedGroupList
from activemq_fleet.topology.brokers_by_address import HostsByName
from activemq_fleet.topology.build import apply_waivers, waivers_in_force_and_expiry_warnings
from activemq_fleet.topology.hosts_by_role import common_naming_pattern, fleet_without_brokers_error, raise_for_problems
from activemq_fleet.topology.link_end_problems import unknown_link_end_findings
from activemq_fleet.topology.links import component_representative_by_name, first_places_of_entries

LinkEntry = tuple[LinkSettings, str, int]
"""An entry of ``activemq_links``, the first host whose variables contain it, and its position in that list."""


@dataclass
class RestOfFleetFacts:
    """The links, stores and findings from the rest of the fleet that one component (hosts planned together) requires.

    ``stores`` maps each store to the first pair or single broker that uses it. ``findings`` are those about unknown
    ends of links, and about the hosts of the component in the inventory.
    """

    links: list[LinkEntry] = field(default_factory=list)
    stores: dict[tuple[str, ...], str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class FleetDivision:
    """The division of a fleet into components (hosts that are planned together).

    The fleet-wide facts of each are included. ``component_of`` has the component by ``component_lookup_key``,
    for all hosts with a role; ``rest_by_component`` has only components that require facts about other hosts.
    ``brokers`` is their number, ``pattern`` the naming pattern, ``groups`` and ``releases`` are those of the brokers,
    ``waivers`` those in force, in the order of a report.
    """

    brokers: int
    pattern: str
    groups: tuple[str, ...]
    known_groups: ShortenedGroupList
    releases: tuple[str, ...]
    waivers: tuple[WaiverSettings, ...]
    warnings: tuple[str, ...]
    component_of: Mapping[str, str]
    rest_by_component: Mapping[str, RestOfFleetFacts]


def component_lookup_key(host_facts: HostFactsForSeparatePlanning) -> str | None:
    """Return the key by which ``FleetDivision.component_of`` maps a host to its component (hosts planned together).

    The key is ``group NAME`` or ``host NAME``; None for a host that is no broker, agent or load balancer.
    """
    if host_facts.group is not None:
        return f"group {host_facts.group}"
    return f"host {host_facts.host}" if host_facts.has_role else None


def naming_pattern_set_by_other_hosts(facts: Sequence[HostFactsForSeparatePlanning]) -> str | None:
    """Return the host naming pattern that applies to hosts without one: the pattern that other hosts set, or None.

    The result is None if every host sets a pattern, and if no host does. Raises InputError for different patterns.
    """
    patterns = {host.pattern for host in facts}
    return _common_naming_pattern(facts) if None in patterns and len(patterns) > 1 else None


def divide_into_components(
    facts: Sequence[HostFactsForSeparatePlanning], today: date, inventory_findings: Sequence[Finding] = ()
) -> FleetDivision:
    """Return the division of a fleet into components of hosts that are planned together.

    ``today`` is the date by which waivers expire. ``inventory_findings`` are findings about the inventory. Those about
    hosts without a role, and about files, become warnings. Raises FleetError for wrong variables of any host, and for a
    fleet without brokers.
    """
    _raise_for_inventory_problems(facts)
    pattern = _common_naming_pattern(facts)
    if not any(host.broker or host.by_hand for host in facts):
        raise fleet_without_brokers_error(len(facts), pattern)
    brokers = [host for host in facts if host.group is not None]
    groups = tuple(sorted({broker.group or "" for broker in brokers}))
    links = _distinct_links(brokers)
    homes, edges_of_roles = _home_groups_and_edges(facts, groups)
    ends = _groups_by_name({name for link, _, _ in links for name in (link.source, link.to)}, brokers)
    edges = chain(
        _group_edges_of_brokers(brokers),
        edges_of_roles,
        *(product(ends.get(link.source, ()), ends.get(link.to, ())) for link, _, _ in links),
    )
    representatives = component_representative_by_name(edges)
    releases = tuple(sorted({broker.release for broker in brokers if broker.release}))
    waivers, expiry_warnings = _waivers_in_force(facts, today)
    requires_group_names = any(host.agent or host.balancer for host in facts)
    component_of = {f"group {group}": representatives.get(group, group) for group in groups}
    component_of |= {f"host {host}": representatives.get(home, home) for host, home in homes.items()}
    rest_by_component = _outside_facts_by_component(brokers, links, ends, representatives)
    keys = {host.host: component_lookup_key(host) for host in facts} if inventory_findings else {}
    fleet_findings = []
    for finding in inventory_findings:
        if key := keys.get(finding.host):
            rest_by_component.setdefault(component_of[key], RestOfFleetFacts()).findings.append(finding)
        else:
            fleet_findings.append(finding)
    lines = merged_finding_lines(
        finding for finding in apply_waivers(fleet_findings, waivers) if finding.waived is None
    )
    return FleetDivision(
        brokers=len(brokers),
        pattern=pattern,
        groups=groups,
        known_groups=ShortenedGroupList(groups[:MAX_LISTED] if requires_group_names else (), len(groups)),
        releases=releases,
        waivers=tuple(waivers),
        warnings=(*_fleet_warnings(facts, releases), *expiry_warnings, *lines),
        component_of=component_of,
        rest_by_component=rest_by_component,
    )


def _raise_for_inventory_problems(facts: Sequence[HostFactsForSeparatePlanning]) -> None:
    """Raise FleetError if the facts about the hosts contain errors or problems; errors in records come first."""
    errors = sorted((host.has_host, host.host, host.input_error) for host in facts if host.input_error)
    if errors:
        texts = list(dict.fromkeys(text for has_host, _, text in errors if has_host == errors[0][0]))
        more = f" (and {len(texts) - 1} more such errors)" if len(texts) > 1 else ""
        raise (InputError if errors[0][0] else RecordWithoutHostError)(f"{texts[0]}{more}")
    in_order = sorted(facts, key=lambda host: host.host)
    raise_for_problems(
        {host.host: host.problems for host in in_order}, {host.host: host.release_problems for host in in_order}
    )


def _common_naming_pattern(facts: Iterable[HostFactsForSeparatePlanning]) -> str:
    return common_naming_pattern(host.pattern for host in facts if host.pattern is not None)


def _fleet_warnings(facts: Iterable[HostFactsForSeparatePlanning], releases: Iterable[str]) -> list[str]:
    texts = list(dict.fromkeys(text for release in releases for text in Release.of(release).warnings))
    similarly_named_hosts = sorted(host.host for host in facts if host.nearly)
    if similarly_named_hosts:
        texts.append(
            f"{names_to_text(similarly_named_hosts)}: the host is not read as a broker, because its name does not "
            "match activemq_naming_pattern. The name is similar to the name of a broker, because it contains -mq and "
            "digits. If the host is a broker, correct its name or activemq_naming_pattern"
        )
    return texts


def _waivers_in_force(
    facts: Iterable[HostFactsForSeparatePlanning], today: date
) -> tuple[list[WaiverSettings], list[str]]:
    """Return the waivers in force, brokers' first, and warnings of those that have expired."""
    first_positions: dict[str, tuple[int, int, str]] = {}
    for host in facts:
        if host.waivers is not None:
            if host.broker:
                rank, position = 0, 0
            elif host.agent:
                rank, position = 1, host.agent_position
            else:
                rank, position = 2, host.balancer_position
            order = rank, position, host.host
            first_positions[host.waivers] = min(order, first_positions.get(host.waivers, order))
    lists = (json.loads(text) for text in sorted(first_positions, key=lambda text: first_positions[text]))
    return waivers_in_force_and_expiry_warnings(
        (WaiverSettings.model_validate(waiver) for waiver in chain.from_iterable(lists)), today
    )


def _distinct_links(brokers: Iterable[HostFactsForSeparatePlanning]) -> list[LinkEntry]:
    first_hosts: dict[str, str] = {}
    for broker in brokers:
        if broker.links is not None:
            first_hosts[broker.links] = min(broker.host, first_hosts.get(broker.links, broker.host))
    hosts_and_texts = sorted((host, text) for text, host in first_hosts.items())
    places = first_places_of_entries(
        (host, map(LinkSettings.model_validate, json.loads(text))) for host, text in hosts_and_texts
    )
    return [(link, host, position) for link, (host, position) in places.items()]


def _groups_by_name(names: set[str], brokers: Iterable[HostFactsForSeparatePlanning]) -> dict[str, tuple[str, ...]]:
    """Return the groups for each name of a link's end: the group of that name, else those of the pair."""
    groups, of_pair = set(), defaultdict[str, set[str]](set)
    for broker in brokers if names else ():
        if broker.group in names:
            groups.add(broker.group)
        if broker.pair in names:
            of_pair[broker.pair].add(broker.group or "")
    return {name: tuple(sorted(pair_groups)) for name, pair_groups in of_pair.items()} | {
        name: (name,) for name in groups
    }


def _home_groups_and_edges(
    facts: Iterable[HostFactsForSeparatePlanning], groups: Sequence[str]
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the home group of each host that is not a broker, and the pairs of groups that these hosts connect.

    A host is planned together with its home group.
    """
    facts = [host for host in facts if host.has_role]
    first_group, has_balancers = (groups[0] if groups else ""), any(host.balancer for host in facts)
    groups_with_address = (host.group for host in facts if host.vip and host.group is not None)
    balancer_group = min(groups_with_address, default=first_group) if has_balancers else first_group
    homes, edges = {}, []
    for host in facts:
        agent_group = host.agent_group if host.agent_group is not None and host.agent_group in groups else first_group
        home = host.group if host.group is not None else agent_group if host.agent else balancer_group
        if host.group is None:
            homes[host.host] = home
        if host.agent:
            edges.append((home, agent_group))
        if host.balancer or (has_balancers and host.vip and host.group is not None):
            edges.append((home, balancer_group))
    return homes, edges


def _group_edges_of_brokers(brokers: Sequence[HostFactsForSeparatePlanning]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of groups that share an address, a pair or a unit, or of which one connects to the other."""
    groups_by_value: dict[tuple[str, str], set[str]] = defaultdict(set)
    groups_by_target: dict[str, set[str]] = defaultdict(set)
    for broker in brokers:
        group = broker.group or ""
        for column in ("address", "pair", "unit"):
            if (value := getattr(broker, column)) is not None:
                groups_by_value[column, value].add(group)
        for name in broker.connection_targets:
            groups_by_target[name].add(group)
    for groups in groups_by_value.values():
        yield from pairwise(sorted(groups))
    groups_by_name = HostsByName(
        (name, b.group or "") for b in (brokers if groups_by_target else ()) for name in b.names
    )
    for name, sources in groups_by_target.items():
        yield from product(sources, groups_by_name.possible_hosts(name))


def _outside_facts_by_component(
    brokers: Sequence[HostFactsForSeparatePlanning],
    links: Iterable[LinkEntry],
    ends: Mapping[str, Sequence[str]],
    representatives: Mapping[str, str],
) -> dict[str, RestOfFleetFacts]:
    rest: dict[str, RestOfFleetFacts] = defaultdict(RestOfFleetFacts)
    unknown: list[LinkEntry] = []
    for entry in links:
        link = entry[0]
        if link.source in ends and (link.to in ends or link.addresses):
            group = ends[link.source][0]
            rest[representatives.get(group, group)].links.append(entry)
        else:
            unknown.append(entry)
    group_of = {broker.host: broker.group or "" for broker in brokers} if unknown else {}
    names = {name for broker in (brokers if unknown else ()) for name in (broker.group or "", broker.pair or "")}
    for entry in unknown:
        group = group_of[entry[1]]
        rest[representatives.get(group, group)].findings += unknown_link_end_findings(*entry, names)
    for store, unit, groups in _stores_of_several_units(brokers):
        for group in groups:
            rest[representatives.get(group, group)].stores[store] = unit
    return dict(rest)


def _stores_of_several_units(
    brokers: Sequence[HostFactsForSeparatePlanning],
) -> Iterator[tuple[tuple[str, ...], str, list[str]]]:
    """Yield each store that several units use, the unit of the first host that does, and the groups of all."""
    configured = {broker.store for broker in brokers if broker.sets_store} - {None}
    users: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for broker in brokers if configured else ():
        if broker.store is not None and broker.store in configured:
            users[broker.store].append((broker.host, broker.unit or "", broker.group or ""))
    for store, store_users in users.items():
        if len({unit for _, unit, _ in store_users}) > 1:
            yield tuple(json.loads(store)), min(store_users)[1], sorted({group for _, _, group in store_users})
