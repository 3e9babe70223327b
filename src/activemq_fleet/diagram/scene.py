"""Derive from a fleet what its pictures show: groups and their shapes, pairs and agents, links and findings.

A link is rendered once for each node of a pair. Here all links of one kind between the same two ends are one
connection. The SVG and the Mermaid picture are drawn from this.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from activemq_fleet.diagram.network_shape import NetworkShape, names_in_flow_order, network_shape
from activemq_fleet.findings import SEVERITIES, Finding
from activemq_fleet.profiles import HighAvailabilityProfile
from activemq_fleet.topology import Balancer, Broker, Fleet, Group, Link, LinkKind, Pair

Flow = Literal["forward", "backward", "duplex", "each way"]
Ends = tuple[str, str]
_LARGEST_UNGROUPED_FLEET = 2
_MAXIMUM_TOOLTIP_LINKS = 20
MAX_NAMED_AGENTS = 3
"""Largest number of agents of a pair that its box names one by one; of more agents it shows the number."""


class _PlacedLink(NamedTuple):
    """A link from the node (broker) ``node`` to another pair, with the pairs at both ends."""

    node: str
    source: Pair
    target: Pair
    link: Link

    @property
    def pairs(self) -> Ends:
        return self.source.name, self.target.name

    @property
    def groups(self) -> Ends:
        return self.source.group, self.target.group


@dataclass(frozen=True, slots=True)
class DrawnConnection:
    """A connection in a picture: one line for all links of one kind between two nodes, pairs or groups.

    ``a`` is placed before ``b``. ``forward`` are the (source, target) pairs of the links from ``a`` to ``b``,
    ``backward`` those of the others. ``destinations`` are what all links carry, empty where they carry everything or
    differ.
    """

    a: str
    b: str
    kind: LinkKind
    flow: Flow
    forward: tuple[Ends, ...] = ()
    backward: tuple[Ends, ...] = ()
    destinations: tuple[str, ...] = ()
    tooltip: str = ""

    @property
    def represented_link_count(self) -> int:
        """The number of links that the drawn connection represents.

        Both directions are counted.
        """
        return len(self.forward) + len(self.backward)

    @property
    def direction_arrow(self) -> str:
        """The arrow character for the direction in which messages flow over a connection.

        The direction is as seen from the connection's end ``a``.
        """
        return {"forward": "→", "backward": "←", "duplex": "↔", "each way": "⇄"}[self.flow]


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A broker as shown in a picture of a fleet.

    ``findings`` are those with which the picture marks the broker, worst first. ``state`` is the broker's at run time,
    empty in a picture of a planned fleet.
    """

    broker: Broker
    findings: tuple[Finding, ...]
    state: str

    @property
    def short_host_name(self) -> str:
        """The short name of the broker's host, without the domain."""
        return self.broker.identity.short_host_name

    @property
    def preferred_role(self) -> str:
        """The preferred role of the broker in its pair, ``master`` or ``slave``.

        The role is empty for a broker whose high-availability profile has no peer.
        """
        return self.broker.role if self.broker.ha_profile.has_peer else ""

    @property
    def worst_severity(self) -> str | None:
        """The worst severity among the findings of the broker, or None.

        The severity is ``waived`` where all findings are waived.
        """
        return severity_or_waived(self.findings[0]) if self.findings else None


@dataclass(frozen=True, slots=True)
class PairView:
    """A broker pair as shown in a picture of a fleet.

    The view has the pair's nodes (preferred master first), its agents, and the links between its nodes.
    """

    name: str
    nodes: tuple[BrokerView, ...]
    agents: tuple[str, ...]
    links: tuple[DrawnConnection, ...]

    @property
    def pair_releases_text(self) -> str:
        """The ActiveMQ releases of the pair's brokers, as text.

        The text contains each different release once.
        """
        return " + ".join(dict.fromkeys(node.broker.release.text for node in self.nodes))

    @property
    def high_availability_profile(self) -> HighAvailabilityProfile:
        """The high-availability profile of the pair: how one node takes over from the other.

        The variable ``activemq_ha`` names it.
        """
        return self.nodes[0].broker.ha_profile

    @property
    def pair_number_digits(self) -> str:
        """The digits of the number in the pair's name, such as ``01``.

        The text is empty where the name has no number.
        """
        return self.nodes[0].broker.identity.number

    @property
    def has_only_one_of_two_nodes(self) -> bool:
        """Whether the inventory has only one of the two nodes (brokers) that the pair requires."""
        return len(self.nodes) == 1 and self.high_availability_profile.has_peer


@dataclass(frozen=True, slots=True)
class BalancerView:
    """A load balancer as shown in a picture of a fleet.

    The load balancer holds the virtual address ``address`` of a group, or can take it over. ``ports`` are texts such as
    ``openwire 61616``.
    """

    host: str
    address: str
    ports: tuple[str, ...]
    tooltip: str


class PairCountAndNoun(NamedTuple):
    """A group's number of broker pairs and the noun ``pair``, or its number of brokers and the noun ``broker``.

    The noun is ``broker`` where no broker of the group has a peer.
    """

    number: int
    noun: str


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group of broker pairs as shown in a picture of a fleet.

    ``connections`` are those between the pairs, and ``shape`` is the shape that they make. ``multicast`` is the link by
    which the group's brokers discover each other, None without multicast; ``balancers`` hold the group's virtual
    address, the one that normally holds it first.
    """

    name: str
    pairs: tuple[PairView, ...]
    connections: tuple[DrawnConnection, ...]
    shape: NetworkShape
    multicast: Link | None
    balancers: tuple[BalancerView, ...]

    @property
    def nodes_of_all_pairs(self) -> tuple[BrokerView, ...]:
        """The nodes (brokers) of all pairs of the group."""
        return tuple(node for pair in self.pairs for node in pair.nodes)

    @property
    def pair_count_and_noun(self) -> PairCountAndNoun:
        """The number of the group's broker pairs and the noun ``pair``, for texts such as ``3 pairs``.

        A group without pairs of two brokers counts its brokers, with the noun ``broker``.
        """
        return PairCountAndNoun(
            len(self.pairs), "pair" if any(pair.high_availability_profile.has_peer for pair in self.pairs) else "broker"
        )


@dataclass(frozen=True, slots=True)
class FindingWithHosts:
    """A finding together with all hosts that have it.

    ``everywhere``: every broker of a fleet of more than two brokers has it. ``marked``: the picture marks each of the
    hosts. It does not if every broker of a fleet of more than two brokers has a finding of the rule.
    """

    finding: Finding
    hosts: tuple[str, ...]
    everywhere: bool
    marked: bool


@dataclass(frozen=True, slots=True)
class PictureContent:
    """The content of a picture of a fleet: groups, connections, findings and load balancers.

    ``between`` are connections of groups; ``findings`` are worst first, each message once. ``balancers`` are the hosts
    of all load balancers, ``idle_balancers`` the hosts that hold no virtual address.
    """

    groups: tuple[GroupView, ...]
    between: tuple[DrawnConnection, ...]
    findings: tuple[FindingWithHosts, ...]
    balancers: tuple[str, ...]
    idle_balancers: tuple[str, ...]

    @property
    def pairs(self) -> tuple[PairView, ...]:
        """The broker pairs of all groups in the picture."""
        return tuple(pair for group in self.groups for pair in group.pairs)

    @property
    def pair_count_and_noun_by_group(self) -> dict[str, PairCountAndNoun]:
        """The number of broker pairs (or brokers) in each group of the picture, as a PairCountAndNoun by group name.

        A PairCountAndNoun is the number of the group's broker pairs and the noun ``pair``, or the number of its brokers
        and the noun ``broker``.
        """
        return {group.name: group.pair_count_and_noun for group in self.groups}


def severity_or_waived(finding: Finding) -> str:
    """Return the severity of a finding; ``waived`` if a waiver covers it."""
    return finding.severity if finding.waived is None else "waived"


def picture_content(fleet: Fleet, states: Mapping[str, str] = MappingProxyType({})) -> PictureContent:
    """Return the content of a picture of a fleet: groups, connections, findings and load balancers.

    Groups are in the order in which messages flow. ``states`` are those of brokers at run time, by host.
    """
    findings = _findings_with_hosts(
        sorted(fleet.findings, key=_severity_sort_key), {broker.host for broker in fleet.brokers}
    )
    findings_by_host: dict[str, list[Finding]] = defaultdict(list)
    for grouped in findings:
        for host in grouped.hosts if grouped.marked else ():
            findings_by_host[host].append(grouped.finding)
    agents: dict[str, list[str]] = defaultdict(list)
    for agent in fleet.agents:
        agents[agent.pair].append(agent.host)
    placed_links = _placed_links(fleet)
    links_inside_pairs: dict[str, list[_PlacedLink]] = defaultdict(list)
    links_inside_groups: dict[str, list[_PlacedLink]] = defaultdict(list)
    for link in placed_links:
        if link.source is link.target:
            links_inside_pairs[link.source.name].append(link)
        elif link.source.group == link.target.group:
            links_inside_groups[link.source.group].append(link)

    def pair_view(pair: Pair) -> PairView:
        nodes = tuple(
            BrokerView(b, tuple(findings_by_host[b.host]), states.get(b.host, ""))
            for b in pair.brokers_in_dialling_order
        )
        order = [node.short_host_name for node in nodes]
        links = _connections(links_inside_pairs[pair.name], order, lambda link: (link.node, link.link.target))
        return PairView(pair.name, nodes, tuple(agents[pair.name]), links)

    def group_view(group: Group) -> GroupView:
        pairs = tuple(map(pair_view, sorted(group.pairs, key=lambda pair: _natural_sort_key(pair.name))))
        order = [pair.name for pair in pairs]
        connections = _connections(links_inside_groups[group.name], order, lambda link: link.pairs)
        directions = {ends: c.flow == "duplex" for c in connections for ends in (*c.forward, *c.backward)}
        shape = network_shape(order, directions, group.brokers[0].settings.topology)
        multicast = next((link for b in group.brokers for link in b.links if link.kind == "multicast"), None)
        return GroupView(group.name, pairs, connections, shape, multicast, _balancers_of(group.name, fleet.balancers))

    links_between_groups = [link for link in placed_links if link.source.group != link.target.group]
    names = names_in_flow_order([group.name for group in fleet.groups], {link.groups for link in links_between_groups})
    return PictureContent(
        tuple(sorted(map(group_view, fleet.groups), key=lambda group: names.index(group.name))),
        _connections(links_between_groups, names, lambda link: link.groups),
        findings,
        tuple(balancer.host for balancer in fleet.balancers),
        tuple(balancer.host for balancer in fleet.balancers if not balancer.addresses),
    )


def _balancers_of(group: str, balancers: Iterable[Balancer]) -> tuple[BalancerView, ...]:
    """Return the load balancers that have a virtual address of a group, by priority."""
    views = []
    for balancer in balancers:
        for address in balancer.addresses:
            if address.group == group:
                ports = tuple(f"{front.connector} {front.port}" for front in address.fronts)
                target_noun = "preferred masters" if address.masters_only else "pairs"
                address_text = f"{address.address} ({', '.join(ports)})" if ports else address.address
                tooltip = f"load balancer {balancer.host}: {address_text} for the {target_noun} of group {group}"
                view = BalancerView(balancer.host, address.address, ports, tooltip)
                views.append((-address.priority, balancer.host, view))
    return tuple(view for *_, view in sorted(views, key=lambda ranked: ranked[:2]))


def _findings_with_hosts(findings: Iterable[Finding], brokers: AbstractSet[str]) -> tuple[FindingWithHosts, ...]:
    """Return findings that differ in nothing but their host as one, in the order of the first."""
    findings_by_text: dict[tuple[str, str, str | None, str], list[Finding]] = defaultdict(list)
    hosts_by_rule: dict[tuple[str, str], set[str]] = defaultdict(set)
    for finding in findings:
        findings_by_text[finding.rule, finding.severity, finding.waived, finding.message].append(finding)
        hosts_by_rule[finding.rule, severity_or_waived(finding)].add(finding.host)
    is_large_fleet = len(brokers) > _LARGEST_UNGROUPED_FLEET
    grouped = []
    for first, *others in findings_by_text.values():
        hosts = tuple(dict.fromkeys(finding.host for finding in (first, *others)))
        marked = not is_large_fleet or hosts_by_rule[first.rule, severity_or_waived(first)] != brokers
        grouped.append(
            FindingWithHosts(first, hosts, everywhere=is_large_fleet and set(hosts) == brokers, marked=marked)
        )
    return tuple(grouped)


def _placed_links(fleet: Fleet) -> list[_PlacedLink]:
    """Return each link of each pair once; a link to a single node counts as a link to its pair."""
    pairs: dict[str, Pair] = {}
    for pair in fleet.pairs_by_name.values():
        pairs[pair.name] = pair
        for broker in pair.brokers:
            pairs.setdefault(broker.name_in_links, pair)
            pairs.setdefault(broker.identity.short_host_name, pair)
    placed: dict[tuple[str, str, str], _PlacedLink] = {}
    for broker in fleet.brokers:
        for link in broker.links:
            target = pairs.get(link.target)
            if link.kind == "multicast" or target is None:
                continue
            key = (broker.name_in_links, link.name, link.target)
            # In a pure pair, only the link of the master is duplex. The link of the master shows the direction.
            if key not in placed or (link.duplex and not placed[key].link.duplex):
                placed[key] = _PlacedLink(broker.identity.short_host_name, pairs[broker.pair], target, link)
    return list(placed.values())


def _connections(
    placed: Iterable[_PlacedLink], names: list[str], ends_of: Callable[[_PlacedLink], Ends]
) -> tuple[DrawnConnection, ...]:
    """Return the connections that links make between ends that are placed in the order of ``names``."""
    order = {name: position for position, name in enumerate(names)}
    bundles: dict[tuple[int, int, LinkKind, bool], list[_PlacedLink]] = defaultdict(list)
    for placed_link in placed:
        a, b = sorted(order[name] for name in ends_of(placed_link))
        bundles[a, b, placed_link.link.kind, placed_link.link.duplex].append(placed_link)
    return tuple(
        _connection(names[a], names[b], bundle, ends_of)
        for (a, b, *_), bundle in sorted(bundles.items(), key=lambda keyed: keyed[0])
    )


def _connection(a: str, b: str, bundle: list[_PlacedLink], ends_of: Callable[[_PlacedLink], Ends]) -> DrawnConnection:
    """Return the connection of ``a`` and ``b`` that represents a bundle of links of one kind."""
    forward = tuple(placed.pairs for placed in bundle if ends_of(placed)[0] == a)
    backward = tuple(placed.pairs for placed in bundle if ends_of(placed)[0] != a)
    first = bundle[0].link
    flow: Flow = "duplex" if first.duplex else "forward" if not backward else "each way" if forward else "backward"
    carry_same_destinations = all(placed.link.carried_destinations == first.carried_destinations for placed in bundle)
    tooltip_lines = [_link_tooltip(placed) for placed in bundle[:_MAXIMUM_TOOLTIP_LINKS]]
    if len(bundle) > _MAXIMUM_TOOLTIP_LINKS:
        tooltip_lines.append(f"and {len(bundle) - _MAXIMUM_TOOLTIP_LINKS} more links")
    return DrawnConnection(
        a,
        b,
        first.kind,
        flow,
        forward,
        backward,
        first.carried_destinations if carry_same_destinations else (),
        "\n".join(tooltip_lines),
    )


def _natural_sort_key(name: str) -> list[tuple[int, str]]:
    """Return a sort key that orders numbers in names by value, so that mq100 follows mq99."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _severity_sort_key(finding: Finding) -> tuple[bool, int, str, str, str]:
    severity = SEVERITIES.index(finding.severity)
    return finding.waived is not None, severity, finding.host, finding.rule, finding.message


def _ttl_text(ttl: int | None) -> str:
    return "no limit" if ttl == -1 else str(ttl)


def _link_tooltip(placed: _PlacedLink) -> str:
    """Return a line of a tooltip: the name, ends, kind, TTL and destinations of a link."""
    link = placed.link
    if link.network_ttl is not None:
        ttl = f"TTL {_ttl_text(link.network_ttl)}"
    else:
        ttl = f"consumer TTL {_ttl_text(link.consumer_ttl)}, message TTL {_ttl_text(link.message_ttl)}"
    carried = link.carried_destinations
    included = f", carries only {', '.join(carried)}" if carried else ""
    excluded = f", does not carry {', '.join(link.exclude)}" if link.exclude else ""
    direction = "duplex" if link.duplex else "one way"
    ends = f"{placed.source.name} to {placed.target.name}"
    return f"{link.name}: {ends}, {link.kind}, {direction}, {ttl}{included}{excluded}"
