"""Derive from a fleet what its pictures show: groups and their shapes, pairs and agents, links and findings.

A link is rendered once for each node of a pair. Here a link is one edge between two pairs, and all edges between the
same two ends are one connection. The SVG and the Mermaid picture are drawn from this.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from activemq_fleet.diagram.shapes import Shape, names_in_flow_order, shape_of
from activemq_fleet.findings import Finding
from activemq_fleet.profiles import Profile
from activemq_fleet.topology import Balancer, Broker, Fleet, Group, Link, LinkKind, Pair

Flow = Literal["forward", "backward", "duplex", "each way"]
_FEW = 2
SEVERITIES = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class Edge:
    """One link between two pairs or within one pair, counted once even though both nodes of a pair configure it."""

    source: str
    target: str
    source_group: str
    target_group: str
    link: Link

    @property
    def is_within_pair(self) -> bool:
        """Whether the link joins the two nodes of one pair."""
        return self.source == self.target


@dataclass(frozen=True, slots=True)
class Connection:
    """All links of one kind between two pairs or two groups, drawn as one line; ``a`` stands
    before ``b`` in the picture.
    """

    a: str
    b: str
    kind: LinkKind
    flow: Flow
    edges: tuple[Edge, ...]

    @property
    def count(self) -> int:
        """The number of links."""
        return len(self.edges)

    def flow_from(self, name: str) -> Flow:
        """Return the direction of messages as seen from the end ``name``: ``forward`` where messages leave it."""
        mirrored: dict[Flow, Flow] = {"forward": "backward", "backward": "forward"}
        return self.flow if name == self.a else mirrored.get(self.flow, self.flow)

    @property
    def arrow(self) -> str:
        """The arrow character for the direction of messages, from ``a`` to ``b``."""
        return {"forward": "→", "backward": "←", "duplex": "↔", "each way": "⇄"}[self.flow]

    @property
    def tooltip(self) -> str:
        """The tooltip text of the connection: each link's name, TTL and destinations; at most 20 links are listed."""
        return "\n".join(_described(edge) for edge in self.edges[:20]) + (
            f"\nand {self.count - 20} more" if self.count > 20 else ""
        )


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A broker in the picture, and the findings that the picture marks it with, worst first.

    ``state`` is the broker's at run time, empty in a picture of what is planned.
    """

    broker: Broker
    findings: tuple[Finding, ...]
    state: str = ""

    @property
    def label(self) -> str:
        """The host label of the broker, without its domain."""
        return self.broker.identity.host

    @property
    def is_master(self) -> bool:
        """Whether the broker is the preferred master of its pair."""
        return self.broker.role == "master"

    @property
    def role(self) -> str:
        """The preferred role of the broker, ``master`` or ``slave``; empty where its profile has no peer."""
        return self.broker.role if self.broker.profile.has_peer else ""

    @property
    def caption(self) -> str:
        """The preferred role and the state of the broker as text, where they are known."""
        return " · ".join(filter(None, (self.role, self.state)))

    @property
    def severity(self) -> str | None:
        """The severity of the broker's worst finding; ``waived`` where all are waived, None without findings."""
        if not self.findings:
            return None
        return "waived" if self.findings[0].waived is not None else self.findings[0].severity


@dataclass(frozen=True, slots=True)
class PairView:
    """A pair in the picture: its nodes (preferred master first), its agents, and the links between its nodes."""

    name: str
    nodes: tuple[BrokerView, ...]
    agents: tuple[str, ...]
    inner_edges: tuple[Edge, ...]

    @property
    def releases(self) -> tuple[str, ...]:
        """The different releases that the nodes run, as texts."""
        return tuple(dict.fromkeys(node.broker.release.text for node in self.nodes))

    @property
    def profile(self) -> Profile:
        """The high-availability profile of the pair, by ``activemq_ha``."""
        return self.nodes[0].broker.profile

    @property
    def number(self) -> str:
        """The number in the pair's name, as text; empty where it has none."""
        return self.nodes[0].broker.identity.number

    @property
    def lacks_a_node(self) -> bool:
        """Whether the inventory has only one of the two nodes of the pair."""
        return len(self.nodes) == 1 and self.profile.has_peer


@dataclass(frozen=True, slots=True)
class BalancerView:
    """A load balancer, and a virtual address that it holds or stands by for, on behalf of a group."""

    host: str
    group: str
    address: str
    ports: tuple[str, ...]
    priority: int
    masters_only: bool

    @property
    def served(self) -> str:
        """The virtual address and its ports as text, such as ``192.0.2.10 · openwire 61616``."""
        return " · ".join((self.address, *self.ports))

    @property
    def tooltip(self) -> str:
        """The tooltip text of the balancer: its host, virtual address, ports and group."""
        to = "preferred masters" if self.masters_only else "pairs"
        ports = f" ({', '.join(self.ports)})" if self.ports else ""
        return f"load balancer {self.host}: {self.address}{ports} for the {to} of group {self.group}"


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group in the picture: its pairs, the connections between them, and the shape that the connections make.

    ``multicast`` is the link by which its brokers find each other, None without multicast; ``balancers`` hold the
    group's virtual address, the one that normally has it first.
    """

    name: str
    pairs: tuple[PairView, ...]
    connections: tuple[Connection, ...]
    shape: Shape
    multicast: Link | None
    balancers: tuple[BalancerView, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupedFinding:
    """A finding with all hosts that have it; ``everywhere``: every broker of a fleet of more than two brokers has it.

    ``marked`` says whether the picture marks each of the hosts; it does not where every broker of a fleet of more than
    two has a finding of the rule.
    """

    finding: Finding
    hosts: tuple[str, ...]
    everywhere: bool
    marked: bool


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that a picture of a fleet shows: groups with their pairs, connections between
    groups, findings, balancers.

    ``between`` are connections of groups; ``findings`` are all findings, worst first, and ``grouped_findings`` the same
    with each message once. ``balancers`` are the hosts of all load balancers, ``idle_balancers`` the hosts that hold no
    virtual address.
    """

    groups: tuple[GroupView, ...]
    between: tuple[Connection, ...]
    findings: tuple[Finding, ...]
    grouped_findings: tuple[GroupedFinding, ...]
    balancers: tuple[str, ...]
    idle_balancers: tuple[str, ...]

    @property
    def pairs(self) -> tuple[PairView, ...]:
        """The pairs of all groups."""
        return tuple(pair for group in self.groups for pair in group.pairs)


def scene_of(fleet: Fleet, states: Mapping[str, str] = MappingProxyType({})) -> Scene:
    """Return everything that a picture of the fleet shows, with groups in the order in which messages flow.

    ``states`` are those of brokers at run time, by host.
    """
    by_host: dict[str, list[Finding]] = defaultdict(list)
    findings = sorted(fleet.findings, key=_worst_first)
    grouped = _grouped(findings, {broker.host for broker in fleet.brokers})
    for item in grouped:
        for host in item.hosts if item.marked else ():
            by_host[host].append(item.finding)
    agents: dict[str, list[str]] = defaultdict(list)
    for agent in fleet.agents:
        agents[agent.pair].append(agent.host)
    edges = _edges(fleet)
    inner: dict[str, list[Edge]] = defaultdict(list)
    within: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        if edge.is_within_pair:
            inner[edge.source].append(edge)
        elif edge.source_group == edge.target_group:
            within[edge.source_group].append(edge)
    groups = []
    for group in fleet.groups:
        ordered = sorted(group.pairs, key=lambda pair: _counting(pair.name))
        pairs = tuple(_pair_view(pair, by_host, agents, inner[pair.name], states) for pair in ordered)
        view = _group_view(group, pairs, within[group.name])
        groups.append(replace(view, balancers=_balancers_of(group.name, fleet.balancers)))
    crossing = [edge for edge in edges if edge.source_group != edge.target_group]
    names = names_in_flow_order([group.name for group in groups], {(e.source_group, e.target_group) for e in crossing})
    groups.sort(key=lambda group: names.index(group.name))
    order = {name: position for position, name in enumerate(names)}
    between = _connections(crossing, order, lambda edge: (edge.source_group, edge.target_group))
    balancers = tuple(balancer.host for balancer in fleet.balancers)
    idle = tuple(balancer.host for balancer in fleet.balancers if not balancer.addresses)
    return Scene(tuple(groups), between, tuple(findings), grouped, balancers, idle)


def _balancers_of(group: str, balancers: Iterable[Balancer]) -> tuple[BalancerView, ...]:
    views = [
        BalancerView(
            balancer.host,
            group,
            one.address,
            tuple(f"{front.connector} {front.port}" for front in one.fronts),
            one.priority,
            one.masters_only,
        )
        for balancer in balancers
        for one in balancer.addresses
        if one.group == group
    ]
    return tuple(sorted(views, key=lambda view: (-view.priority, view.host)))


def _grouped(findings: Iterable[Finding], brokers: AbstractSet[str]) -> tuple[GroupedFinding, ...]:
    """Return findings that differ in nothing but their host as one, in the order of the first."""
    together: dict[tuple[str, str, str | None, str], list[str]] = defaultdict(list)
    by_rule: dict[tuple[str, str, bool], set[str]] = defaultdict(set)
    first: dict[tuple[str, str, str | None, str], Finding] = {}
    for finding in findings:
        key = finding.rule, finding.severity, finding.waived, finding.message
        first.setdefault(key, finding)
        together[key].append(finding.host)
        by_rule[finding.rule, finding.severity, finding.waived is None].add(finding.host)
    many = len(brokers) > _FEW
    return tuple(
        GroupedFinding(
            first[key],
            tuple(dict.fromkeys(hosts)),
            everywhere=many and set(hosts) == brokers,
            marked=not many or by_rule[key[0], key[1], key[2] is None] != brokers,
        )
        for key, hosts in together.items()
    )


def _pair_view(
    pair: Pair,
    findings: Mapping[str, Sequence[Finding]],
    agents: Mapping[str, Sequence[str]],
    inner: Iterable[Edge],
    states: Mapping[str, str],
) -> PairView:
    nodes = tuple(
        BrokerView(broker, tuple(findings.get(broker.host, ())), states.get(broker.host, ""))
        for broker in pair.in_order
    )
    return PairView(pair.name, nodes, tuple(agents.get(pair.name, ())), tuple(inner))


def _group_view(group: Group, pairs: tuple[PairView, ...], edges: Iterable[Edge]) -> GroupView:
    order = {pair.name: position for position, pair in enumerate(pairs)}
    connections = _connections(edges, order, lambda edge: (edge.source, edge.target))
    multicast = next((link for b in group.brokers for link in b.links if link.kind == "multicast"), None)
    wanted = group.brokers[0].settings.topology
    ways = {(e.source, e.target): e.link.duplex for c in connections for e in c.edges}
    return GroupView(group.name, pairs, connections, shape_of(list(order), ways, wanted), multicast)


def _edges(fleet: Fleet) -> list[Edge]:
    """Return each link of each pair once, as an edge; a link to a single node counts as a link to its pair."""
    place: dict[str, Pair] = {}
    for pair in fleet.pairs.values():
        place[pair.name] = pair
        for broker in pair.brokers:
            place.setdefault(broker.identity.host, pair)
    found: dict[tuple[str, str, str], Edge] = {}
    for broker in fleet.brokers:
        for link in broker.links:
            target = place.get(link.target)
            if link.kind == "multicast" or target is None:
                continue
            key = (broker.unit, link.name, link.target)
            edge = Edge(broker.pair, target.name, place[broker.pair].group, target.group, link)
            # Of a pure pair only the master's link is duplex, and the master's says what is meant.
            if key not in found or (link.duplex and not found[key].link.duplex):
                found[key] = edge
    return list(found.values())


def _connections(
    edges: Iterable[Edge], order: Mapping[str, int], ends: Callable[[Edge], tuple[str, str]]
) -> tuple[Connection, ...]:
    together: dict[tuple[int, int, LinkKind, bool], list[tuple[bool, Edge]]] = defaultdict(list)
    names = list(order)
    for edge in edges:
        source, target = (order[end] for end in ends(edge))
        key = (min(source, target), max(source, target), edge.link.kind, edge.link.duplex)
        together[key].append((source < target, edge))
    connections = []
    for (a, b, kind, duplex), found in sorted(together.items(), key=lambda item: item[0]):
        ways = {forward for forward, _ in found}
        flow: Flow = "duplex" if duplex else "each way" if len(ways) == 2 else "forward" if True in ways else "backward"
        connections.append(Connection(names[a], names[b], kind, flow, tuple(edge for _, edge in found)))
    return tuple(connections)


def _counting(name: str) -> list[tuple[int, str]]:
    """Return a sort key that orders numbers in names by value, so that mq100 follows mq99."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _worst_first(finding: Finding) -> tuple[bool, int, str, str, str]:
    return (
        finding.waived is not None, SEVERITIES.index(finding.severity), finding.host, finding.rule, finding.message,
    )  # fmt: skip


def _limit(ttl: int | None) -> str:
    return "no limit" if ttl == -1 else str(ttl)


def _described(edge: Edge) -> str:
    link = edge.link
    if link.network_ttl is not None:
        reach = f"TTL {_limit(link.network_ttl)}"
    else:
        reach = f"consumer TTL {_limit(link.consumer_ttl)}, message TTL {_limit(link.message_ttl)}"
    carried = f", only {', '.join(link.include)}" if link.include else ""
    refused = f", without {', '.join(link.exclude)}" if link.exclude else ""
    way = "duplex" if link.duplex else "one way"
    return f"{link.name}: {edge.source} to {edge.target}, {link.kind}, {way}, {reach}{carried}{refused}"
