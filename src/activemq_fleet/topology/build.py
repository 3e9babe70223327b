"""Build the Fleet from hosts and their variables; a pure function of the inventory."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from activemq_fleet.errors import InputError, ReleaseError, SettingsError, shorten_list
from activemq_fleet.findings import Finding, error
from activemq_fleet.naming import DEFAULT_PATTERN, Identity, Naming, UnclearNameError
from activemq_fleet.releases import Release
from activemq_fleet.settings.broker import Settings, WaiverSettings
from activemq_fleet.settings.network import LinkSettings
from activemq_fleet.settings.reading import read_settings
from activemq_fleet.topology import access, name_problems, problems
from activemq_fleet.topology.agents import place_agent
from activemq_fleet.topology.balancers import place_balancers
from activemq_fleet.topology.brokers import Member, build_broker
from activemq_fleet.topology.links import Network, PlannedLink, links_of, plan_between, plan_group, units_of
from activemq_fleet.topology.metrics_problems import agent_metrics_findings, metrics_findings
from activemq_fleet.topology.model.balancer import Balancer
from activemq_fleet.topology.model.broker import Broker, Permission
from activemq_fleet.topology.model.fleet import (
    MOST_LISTED,
    Agent,
    Fleet,
    Group,
    KnownGroups,
    Pair,
    Unit,
    WholeInventory,
)

BROKERS, AGENTS, BALANCERS = "activemq_brokers", "activemq_agents", "activemq_loadbalancers"
NAME = re.compile(r"\w[\w.:-]*")

Variables = Mapping[str, Mapping[str, Any]]


def build_fleet(
    hosts: Variables,
    groups: Mapping[str, Sequence[str]],
    *,
    naming_pattern: str | None = None,
    today: date | None = None,
    rest: WholeInventory | None = None,
) -> Fleet:
    """Return the fleet of an inventory, given ``hosts`` (variables by host name) and ``groups`` (host
    names by inventory group).

    ``naming_pattern`` is that of the inventory plugin's file; ``activemq_naming_pattern`` of the hosts is used without
    it. ``today`` decides whether a waiver has expired. With ``rest`` the hosts are a part of an inventory. What is
    wrong with the topology is in ``Fleet.findings``. Raises SettingsError for variables that are unknown, mistyped or
    missing, ReleaseError for an unknown release, InputError for no brokers at all or a name that no file could hold.
    """
    pattern = naming_pattern or _pattern(hosts)
    identities, unclear, misnamed = _identify(hosts, pattern)
    by_hand = [name for name in dict.fromkeys((*groups.get(BROKERS, ()), *unclear)) if name not in identities]
    agents = [name for name in groups.get(AGENTS, ()) if name in hosts]
    balancers = [name for name in groups.get(BALANCERS, ()) if name in hosts]
    _refuse_names([*identities, *by_hand, *agents, *balancers])
    if not (identities or by_hand or misnamed):
        raise _no_broker(len(hosts), pattern)
    settings, wrong = _settings(hosts, [*identities, *agents, *balancers], misnamed)
    members = _members(identities, settings, wrong)
    brokers, findings = _brokers(members)
    others = [name for name in hosts if name not in {*identities, *by_hand, *misnamed, *agents, *balancers}]
    findings = [*_name_findings(by_hand, unclear, others, pattern), *findings, *(rest.findings if rest else ())]
    network = _network(brokers, findings, rest)
    fleet_groups = _groups(map(_pair, _by_pair(brokers).values()))
    known = rest.groups if rest else KnownGroups.of([group.name for group in fleet_groups])
    placed_agents = _agents(agents, settings, fleet_groups, known, findings)
    balancing, found = place_balancers(balancers, settings, fleet_groups, known)
    findings += [*found, *agent_metrics_findings(placed_agents, brokers)]
    brokers = _complete(brokers, network, placed_agents, balancing, findings)
    said = [settings[name] for name in (*identities, *agents, *balancers)]
    waivers, warnings = (list(rest.waivers), []) if rest else _waivers(said, today or date.today())
    release_warnings = dict.fromkeys(text for member in members for text in member.release.warnings)
    return Fleet(
        brokers=tuple(brokers),
        groups=_groups(map(_pair, _by_pair(brokers).values())),
        agents=placed_agents,
        balancers=balancing,
        findings=tuple(waive(findings, waivers)),
        waivers=tuple(waiver.model_dump(mode="json") for waiver in waivers),
        warnings=(*release_warnings, *warnings),
        naming_pattern=pattern,
        rest=rest,
    )


def _no_broker(number: int, pattern: str) -> InputError:
    return InputError(
        f"no host of this inventory is a broker: none of {number} names matches {pattern} "
        "(such as orders-mq01-a.example.com); set activemq_naming_pattern if yours differ"
    )


def _name_findings(
    by_hand: Sequence[str], unclear: Mapping[str, UnclearNameError], others: Iterable[str], pattern: str
) -> Iterator[Finding]:
    """Yield the findings about hosts that are no brokers, and may be meant to be: by their group or by their name."""
    yield from name_problems.unmatched_name_findings(by_hand, unclear, pattern)
    yield from name_problems.misspelt_name_findings(filter(Naming(pattern).looks_like_broker, others), pattern)


def _pattern(hosts: Variables) -> str:
    said = {str(v["activemq_naming_pattern"]) for v in hosts.values() if v.get("activemq_naming_pattern")}
    if len(said) > 1:
        raise InputError("activemq_naming_pattern differs between hosts: set it once, for all")
    return said.pop() if said else DEFAULT_PATTERN


def _identify(
    hosts: Variables, pattern: str
) -> tuple[dict[str, Identity], dict[str, UnclearNameError], dict[str, SettingsError]]:
    """Return by host the identities, the reasons why a broker has none, and the errors of variables that state one."""
    found: dict[str, Identity] = {}
    unclear: dict[str, UnclearNameError] = {}
    wrong: dict[str, SettingsError] = {}
    for name in sorted(hosts):
        try:
            identity = Naming.of_host(name, hosts[name], pattern).identify(name)
        except SettingsError as error:
            wrong[name] = error
        except UnclearNameError as error:
            unclear[name] = error
        else:
            if identity is not None:
                found[name] = identity
    return found, unclear, wrong


def _refuse_names(names: Iterable[str]) -> None:
    """Raise InputError for a host name whose characters could leave the directory, line or list it is written to."""
    for name in names:
        if not NAME.fullmatch(name):
            raise InputError(f"{name[:80]!r} cannot be a host of a fleet: letters, digits and . - _ : only; rename it")


def _settings(
    hosts: Variables, names: Iterable[str], misnamed: Mapping[str, SettingsError]
) -> tuple[dict[str, Settings], list[str]]:
    """Return the settings of each host with valid variables, and the errors of the others, those of ``misnamed`` too;
    hosts share a line per error.
    """
    settings: dict[str, Settings] = {}
    errors = dict(misnamed)
    for name in dict.fromkeys(names):
        try:
            settings[name] = read_settings(name, hosts[name])
        except SettingsError as error:
            errors[name] = error
    wrong: dict[str, list[str]] = defaultdict(list)
    for name, found in errors.items():
        for problem in found.problems:
            wrong[problem.removeprefix(f"{name}: ")].append(name)
    return settings, [f"{shorten_list(hosts)}: {problem}" for problem, hosts in wrong.items()]


def _members(
    identities: Mapping[str, Identity], settings: Mapping[str, Settings], wrong: Sequence[str]
) -> list[Member]:
    """Return every broker's host with its settings and release.

    Raises SettingsError with all errors of ``wrong``, of missing and of unknown releases; ReleaseError where only
    releases are unknown.
    """
    members, unknown = [], defaultdict[str, list[str]](list)
    missing = [name for name in identities if name in settings and settings[name].release is None]
    for name, identity in identities.items():
        own = settings.get(name)
        if own is None or own.release is None:
            continue
        try:
            members.append(Member(identity, own, Release.of(own.release)))
        except ReleaseError as error:
            unknown[str(error)].append(name)
    texts = [f"{shorten_list(hosts)}: activemq_release: {text}" for text, hosts in unknown.items()]
    unset = [f"{shorten_list(missing)}: activemq_release is not set: say the release that runs there, '5.18.3'"] * bool(
        missing
    )
    if wrong or unset:
        raise SettingsError(*wrong, *unset, *texts)
    if texts:
        raise ReleaseError("; ".join(texts))
    return members


def _brokers(members: Sequence[Member]) -> tuple[list[Broker], list[Finding]]:
    nodes: dict[str, list[Member]] = defaultdict(list)
    for member in members:
        nodes[member.identity.pair].append(member)
    built = [build_broker(member, _peer(member, nodes[member.identity.pair])) for member in members]
    brokers = [broker for broker, _ in built]
    findings = [finding for _, found in built for finding in found]
    by_pair = _by_pair(brokers)
    by_group: dict[str, list[Broker]] = defaultdict(list)
    for broker in brokers:
        by_group[broker.group].append(broker)
    findings += name_problems.duplicate_node_findings(brokers)
    findings += name_problems.name_clash_findings(brokers)
    findings += name_problems.name_conflict_findings(brokers)
    findings += problems.findings_within_pairs(by_pair)
    findings += problems.findings_within_groups(by_group)
    findings += problems.port_findings(brokers)
    findings += problems.instance_findings(brokers)
    return brokers, findings


def _by_pair(brokers: Iterable[Broker]) -> dict[str, list[Broker]]:
    found: dict[str, list[Broker]] = defaultdict(list)
    for broker in brokers:
        found[broker.pair].append(broker)
    return found


def _peer(member: Member, pair: Sequence[Member]) -> Member | None:
    for other in pair:
        if other.identity.node != member.identity.node:
            return other
    return None


def _network(brokers: Sequence[Broker], findings: list[Finding], rest: WholeInventory | None) -> Network:
    units = units_of(brokers)
    by_group: dict[str, list[Unit]] = defaultdict(list)
    for unit in units.values():
        by_group[unit.group].append(unit)
    plans = [plan for members in by_group.values() for plan in plan_group(members)]
    plans += _links_between(_configured_links(brokers, rest), units, by_group, findings, partly=rest is not None)
    network = Network.of(units, plans)
    findings += problems.network_findings(network)
    return network


def _configured_links(brokers: Sequence[Broker], rest: WholeInventory | None) -> dict[LinkSettings, tuple[str, int]]:
    """Return every distinct entry of ``activemq_links`` with the first host that has it and its position there."""
    if rest is not None:
        return {link: (host, position) for link, host, position in rest.links}
    said: dict[LinkSettings, tuple[str, int]] = {}
    for broker in brokers:
        for position, link in enumerate(broker.settings.links):
            said.setdefault(link, (broker.host, position))
    return said


def _links_between(
    said: Mapping[LinkSettings, tuple[str, int]],
    units: Mapping[str, Unit],
    by_group: Mapping[str, Sequence[Unit]],
    findings: list[Finding],
    *,
    partly: bool,
) -> list[PlannedLink]:
    """Return the planned links of every ``activemq_links``; T007 is added for an end that is no group or pair."""
    by_pair: dict[str, list[Unit]] = defaultdict(list)
    for unit in units.values():
        by_pair[unit.brokers[0].pair].append(unit)
    plans: list[PlannedLink] = []
    for link, (host, position) in said.items():
        ends = []
        for key, name in (("from", link.source), ("to", link.to)):
            found = by_group.get(name) or by_pair.get(name)
            if key == "to" and link.addresses:
                if found:
                    findings.append(_known_end(host, position, name))
                found = ()
            elif not found and not partly:
                known = [*by_group, *by_pair]
                near = difflib.get_close_matches(name, known, n=1)
                variable = f"activemq_links[{position}].{key}"
                findings.append(unknown_end(host, variable, name, near[0] if near else "", sorted(known)))
            ends.append(found or ())
        plans += plan_between(link, *ends)
    return plans


def _known_end(host: str, position: int, name: str) -> Finding:
    message = f"activemq_links[{position}] has addresses, and its to, {name!r}, is a group or pair of this inventory"
    return error("T007", host, message, "leave addresses out, or give to a name of its own")


def unknown_end(host: str, variable: str, name: str, near: str, known: Sequence[str]) -> Finding:
    """Return the T007 finding for a link whose ``from`` or ``to`` is no group or pair of the inventory.

    ``near`` is the name that was probably meant, empty where there is none; ``known`` are the first groups and pairs.
    """
    fix = f"did you mean {near}?" if near else f"groups and pairs: {', '.join(known[:MOST_LISTED])}"
    return error("T007", host, f"{variable} is {name!r}, which is no group or pair of this inventory", fix)


def _pair(brokers: Sequence[Broker]) -> Pair:
    return Pair(brokers[0].pair, brokers[0].group, tuple(brokers))


def _groups(pairs: Iterable[Pair]) -> tuple[Group, ...]:
    found: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        found[pair.group].append(pair)
    return tuple(Group(name, tuple(sorted(members, key=lambda p: p.name))) for name, members in sorted(found.items()))


def _agents(
    names: Sequence[str],
    settings: Mapping[str, Settings],
    groups: Sequence[Group],
    known: KnownGroups,
    findings: list[Finding],
) -> tuple[Agent, ...]:
    by_name = {group.name: group for group in groups}
    placed_agents = []
    for name in sorted(names):
        agent, found = place_agent(name, settings[name], by_name, known)
        findings += found
        if agent:
            placed_agents.append(agent)
    return tuple(placed_agents)


def _complete(
    brokers: Sequence[Broker],
    network: Network,
    agents: Sequence[Agent],
    balancers: Sequence[Balancer],
    findings: list[Finding],
) -> list[Broker]:
    """Return the brokers with links, accounts and permissions, and add findings about accounts and names."""
    agents_of_group: dict[str, list[Agent]] = defaultdict(list)
    for agent in agents:
        agents_of_group[agent.group].append(agent)
    findings += problems.agent_password_findings(agents)
    findings += problems.shared_account_findings(agents)
    includes: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for plans in network.plans.values():
        for plan in plans:
            includes[plan.source].append(plan.include)
            includes[plan.target].append(plan.include)
    complete = []
    for broker in brokers:
        group, unit = broker.group, broker.unit
        mine = agents_of_group.get(group, [])
        looking = [one for one in balancers if any(address.group == group for address in one.addresses)]
        accounts = access.accounts_of(broker, mine, looking)
        links = links_of(broker, network)
        permissions: tuple[Permission, ...] = ()
        if broker.settings.acl:
            carried = access.carried_destinations([*includes.get(unit, ()), *(link.include for link in links)])
            permissions = access.permissions_of(broker, accounts, mine, carried)
        bridged = unit in includes or len(network.multicast_groups.get(group, ())) > 1
        done = replace(broker, links=links, accounts=accounts, permissions=permissions, networked=bridged)
        complete.append(done)
        findings += problems.missing_account_findings(done)
        findings += problems.account_password_findings(done, mine, looking)
        findings += problems.duplicate_name_findings(done)
        findings += metrics_findings(done)
    return complete


def _waivers(settings: Iterable[Settings], today: date) -> tuple[list[WaiverSettings], list[str]]:
    every = list(dict.fromkeys(waiver for s in settings for waiver in s.waivers))
    expired = [waiver for waiver in every if waiver.until and waiver.until < today]
    warnings = [f"the waiver of {w.rule} expired on {w.until}: {w.reason}" for w in expired]
    return [waiver for waiver in every if waiver not in expired], warnings


def waive(findings: Iterable[Finding], waivers: Sequence[WaiverSettings]) -> list[Finding]:
    """Return the findings sorted by host, rule and message, without duplicates, with waived ones marked by the waiver's
    reason.
    """

    def waived(finding: Finding) -> Finding:
        for waiver in waivers:
            if waiver.rule == finding.rule and any(fnmatch.fnmatchcase(finding.host, host) for host in waiver.hosts):
                return replace(finding, waived=waiver.reason)
        return finding

    order: Callable[[Finding], tuple[str, ...]] = lambda f: (f.host, f.rule, f.message)  # noqa: E731
    return [waived(finding) for finding in sorted(dict.fromkeys(findings), key=order)]
