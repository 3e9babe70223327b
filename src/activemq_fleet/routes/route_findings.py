"""Report the rules R001 to R004: brokers that messages do not reach, and bridges that carry nothing.

Severities. A route that is missing or that a death cuts is a warning and no error: every broker works, and messages
wait instead of being lost. A way that only an overloaded bridge opens is in the answers and no finding. Messages that a
broker without a peer holds while it is down are the expected effect of ``activemq_ha: none``, and no finding either.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from activemq_fleet.findings import Finding, Severity
from activemq_fleet.node.printable import counted
from activemq_fleet.routes.answers import Routes
from activemq_fleet.routes.bridges import NetworkState
from activemq_fleet.routes.choices import outcome_of_bridge_choices
from activemq_fleet.routes.shape import BridgeGraph, broker_numbers
from activemq_fleet.topology import LinkEnd

RULES = {
    "R001": "A message that is sent to one broker of a group never reaches a consumer on another broker, even if all "
    "brokers are active. The rule does not check groups with activemq_topology: none.",
    "R002": "The failure of one broker interrupts the route between other brokers. Messages wait until the broker is "
    "active again. A pair with a shared store causes no interruption: its other node takes over the bridges.",
    "R003": "Messages for consumers on the other broker never use this link. They wait unless another link "
    "leads there.",
    "R004": "A broker can choose between several bridges, and one of them leads to a broker that cannot forward the "
    "messages within the TTL and without passing a broker twice. These messages stay on that broker.",
}

_MOST_PAIRS = 300
_PATIENCE = 500
"""Limits of R004 per network: pairs of brokers, and positions of a message per pair."""


def route_findings(routes: Routes) -> tuple[Finding, ...]:
    """Return the findings R001 to R004: brokers that messages do not reach, and bridges that carry nothing."""
    return tuple(_route_findings(routes))


def _route_findings(routes: Routes) -> Iterator[Finding]:
    yield from _links_within_pairs_findings(routes)
    for names in routes.network.connected_pairs:
        if len(names) > 1:
            state = routes.bridges_while_down(names)
            yield from _unreached_findings(routes, state)
            yield from _stranded_findings(routes, state)
            yield from _dead_end_findings(routes, state)
    yield from _separate_network_findings(routes)


def _finding(rule: str, host: str, message: str, fix: str, severity: Severity = "warning") -> Finding:
    return Finding(rule=rule, severity=severity, host=host, message=message, fix=fix, why=RULES[rule])


def _group_networked_units(routes: Routes, units: list[LinkEnd]) -> dict[str, list[LinkEnd]]:
    """Return the units by group, without groups that are not meant to be one network."""
    units_by_group: dict[str, list[LinkEnd]] = {}
    for unit in units:
        if unit.preferred_broker.settings.topology != "none" or any(
            link.kind == "multicast" for link in unit.preferred_broker.links
        ):
            units_by_group.setdefault(unit.group, []).append(unit)
    return units_by_group


def _unreached_findings(routes: Routes, state: NetworkState) -> Iterator[Finding]:
    """R001 within one network: where units of one group do not reach each other."""
    everyone = state.shape.all_brokers_mask
    if all(
        spread.arrives | 1 << number == everyone for number, spread in enumerate(state.shape.message_reach_by_broker)
    ):
        return
    for group, units in _group_networked_units(routes, [routes.network.units[name] for name in state.names]).items():
        numbers = [state.number_by_pair[unit.name] for unit in units]
        missed = [
            (a, b)
            for a in numbers
            for b in numbers
            if a != b and not state.shape.message_reach_by_broker[a].arrives >> b & 1
        ]
        if missed:
            source, target = (state.names[number] for number in min(missed))
            fix = f"add a link from {source} to {target} to activemq_links"
            if state.shape.shortest_route(*min(missed), within_limits=False):
                fix = "remove activemq_network_ttl and the ttl of links: the default is sufficient for each route"
            yield _finding(
                "R001",
                routes.network.units[source].preferred_broker.host,
                f"in group {group}, {len(missed)} of {len(units) * (len(units) - 1)} routes between brokers carry no "
                f"messages, such as {source} to {target}: {routes.reaches(source, target).why}",
                f"{fix}. If the group must not exchange messages, set activemq_topology: none",
            )


def _separate_network_findings(routes: Routes) -> Iterator[Finding]:
    """R001 where the units of a group are in networks that nothing joins."""
    by_group: dict[str, list[tuple[str, ...]]] = {}
    for names in routes.network.connected_pairs:
        for group in _group_networked_units(routes, [routes.network.units[name] for name in names]):
            by_group.setdefault(group, []).append(names)
    for group, networks in by_group.items():
        if len(networks) > 1:
            first, second = (next(n for n in names if routes.network.units[n].group == group) for names in networks[:2])
            yield _finding(
                "R001",
                routes.network.units[first].preferred_broker.host,
                f"group {group} consists of {len(networks)} separate networks: {first} and {second} exchange no "
                "messages",
                f"add a link between {first} and {second} to activemq_links, or set activemq_topology: none if the "
                "networks are to be separate",
            )


def _stranded_findings(routes: Routes, state: NetworkState) -> Iterator[Finding]:
    """R002, once for each broker whose death strands messages of others."""
    for name in state.names:
        unit = routes.network.units[name]
        stranded = list(routes.routes_cut_without(unit.preferred_broker.host))
        if stranded:
            _, source, target = min(stranded)
            yield _finding(
                "R002",
                unit.preferred_broker.host,
                f"if the broker {unit.preferred_broker.host} fails, {counted(len(stranded), 'route')} between other "
                f"brokers no longer carry messages, such as from {state.names[source]} to consumers on "
                f"{state.names[target]}",
                _remedy(unit),
            )


def _remedy(unit: LinkEnd) -> str:
    if len(unit.brokers) == 1:
        return (
            "add a second node with activemq_ha: shared-file, or add links that bypass the broker, "
            "with activemq_topology: mesh or activemq_links"
        )
    if unit.preferred_broker.profile.replicates:
        return "add links that bypass the broker: its slave takes over its messages, but not its bridges"
    return (
        "name both nodes in every link to this pair, as masterslave:(tcp://…,tcp://…), and set the same links on both"
    )


def _links_within_pairs_findings(routes: Routes) -> Iterator[Finding]:
    """R003, once for each broker; an info for links within a pair that ``activemq_pair_links`` requests."""
    pairs = {(host, connector.name) for host, connector in routes.network.links_within_pairs()}
    by_host: dict[tuple[str, bool], list[str]] = {}
    for host, link in routes.idle_links():
        by_host.setdefault((host, (host, link) in pairs), []).append(link)
    for (host, within), links in by_host.items():
        named = ", ".join(links[:3]) + (f" and {len(links) - 3} more" if len(links) > 3 else "")
        reason = ": the other node of the pair is a standby while this broker is active" if within else ""
        yield _finding(
            "R003",
            host,
            f"no messages can be sent over the link {named}{reason}",
            "remove the link from activemq_links. If activemq_pair_links created it, set activemq_pair_links: none"
            if within
            else "remove the link, or set its TTL (ttl in activemq_links, or activemq_network_ttl) to 1 or more. With "
            "consumerTTL 0 a link forwards no subscriptions, with messageTTL 0 no messages",
            "info" if within else "warning",
        )


def _dead_end_findings(routes: Routes, state: NetworkState) -> Iterator[Finding]:
    """R004, once for a network: where the ordinary choice of a broker strands messages."""
    examined_count, stranding = _stranding(state.shape)
    if stranding:
        source_name, target_name = (state.names[end] for end in stranding[0])
        at_least = "at least " if examined_count == _MOST_PAIRS else ""
        yield _finding(
            "R004",
            routes.network.units[source_name].preferred_broker.host,
            f"on {at_least}{counted(len(stranding), 'route')} between brokers, messages can remain on a broker that "
            f"has no consumer for them, such as messages sent to {source_name} for consumers on {target_name}",
            "set the ttl of all links of this network to the number of links of the longest route. In a mesh, set "
            "ttl: {consumer: 1, message: -1} instead. Also set decreaseNetworkConsumerPriority on all links",
        )


def _stranding(shape: BridgeGraph) -> tuple[int, list[tuple[int, int]]]:
    """Return how many pairs of brokers were examined, and the pairs whose messages the ordinary choice strands."""
    if shape.has_ample_ttl and not shape.merges:
        return 0, []
    forked = (
        (s, t)
        for s, spread in enumerate(shape.message_reach_by_broker)
        for t in broker_numbers(spread.arrives & spread.forked)
    )
    examined_pairs = list(islice(forked, _MOST_PAIRS))
    return len(examined_pairs), [
        pair for pair in examined_pairs if outcome_of_bridge_choices(shape, *pair, patience=_PATIENCE) == "strands"
    ]
