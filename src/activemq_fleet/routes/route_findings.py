"""Report the rules R001 to R004: brokers that messages do not reach, and bridges that carry no messages.

A missing route, and a route that the failure of a broker interrupts, have the severity warning and not error: every
broker works, and messages wait instead of being lost. A route that messages use only while a bridge is full is part of
the answers, but not a finding. Messages that wait on a stopped broker without a peer are the expected effect of
``activemq_ha: none``, and not a finding either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from activemq_fleet.errors import names_to_text
from activemq_fleet.findings import Finding, Severity
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.routes.answers import Routes, RoutesFromSourceLostWithoutBroker
from activemq_fleet.routes.bridges import NetworkWithAtMostOneBrokerDown
from activemq_fleet.routes.forwarding_choices import message_outcome_for_all_bridge_choices
from activemq_fleet.routes.reachability import BridgeGraph, broker_numbers
from activemq_fleet.topology import PairOrSingleBroker

RULES = {
    "R001": "the messages stay on a broker without a consumer for them, even if all brokers are active, and no broker "
    "logs an error",
    "R002": "messages on these routes wait until the broker is active again, although the brokers at both ends of each "
    "route are active",
    "R003": "consumers on the remote broker do not receive the messages of this broker, unless another link leads to "
    "the remote broker",
    "R004": "a broker with several links chooses one of them for each message. If no link leads on from the next "
    "broker within the TTL, the message stays there, even while the consumer is connected",
}

_MAXIMUM_PAIRS = 300
_MAXIMUM_STATES_PER_PAIR = 500
"""The limits of R004 for each network: the number of pairs of brokers, and of a message's states for each pair."""


def route_findings(routes: Routes) -> tuple[Finding, ...]:
    """Return findings about brokers that messages of other brokers do not reach, and about links without messages.

    Their rules are R001 to R004.
    """
    return tuple(_route_findings(routes))


def _route_findings(routes: Routes) -> Iterator[Finding]:
    yield from _links_within_pairs_findings(routes)
    for names in routes.network.connected_pair_components:
        if len(names) > 1:
            state = routes.network_of_running_brokers(names)
            yield from _unreachable_pair_findings(routes, state)
            yield from _single_point_of_failure_findings(routes, state)
            yield from _dead_end_findings(routes, state)
    yield from _separate_network_findings(routes)


def _finding(rule: str, host: str, message: str, fix: str, severity: Severity = "warning") -> Finding:
    return Finding(rule=rule, severity=severity, host=host, message=message, fix=fix, why=RULES[rule])


def _group_networked_units(routes: Routes, units: list[PairOrSingleBroker]) -> dict[str, list[PairOrSingleBroker]]:
    """Return the pairs and single brokers by group, without groups whose topology is ``none``."""
    units_by_group: dict[str, list[PairOrSingleBroker]] = {}
    for unit in units:
        if unit.preferred_broker.settings.topology != "none" or any(
            link.kind == "multicast" for link in unit.preferred_broker.links
        ):
            units_by_group.setdefault(unit.group, []).append(unit)
    return units_by_group


def _unreachable_pair_findings(routes: Routes, state: NetworkWithAtMostOneBrokerDown) -> Iterator[Finding]:
    """Yield a finding for each group in whose network messages do not reach every pair (R001)."""
    all_brokers = state.shape.all_brokers_mask
    if all(
        reach.arrives | 1 << number == all_brokers for number, reach in enumerate(state.shape.message_reach_by_broker)
    ):
        return
    for group, units in _group_networked_units(routes, [routes.network.units[name] for name in state.names]).items():
        numbers = [state.vertex_number_by_pair[unit.name] for unit in units]
        missing_routes = [
            (a, b)
            for a in numbers
            for b in numbers
            if a != b and not state.shape.message_reach_by_broker[a].arrives >> b & 1
        ]
        if missing_routes:
            source, target = (state.names[number] for number in min(missing_routes))
            fix = _remedy_for_missing_route(state, *min(missing_routes))
            total = len(units) * (len(units) - 1)
            yield _finding(
                "R001",
                routes.network.units[source].preferred_broker.host,
                f"messages sent to {source} never reach consumers on {target}: {routes.reaches(source, target).why}. "
                f"In group {group}, {len(missing_routes)} of {count_with_noun(total, 'route')} between brokers carry "
                "no messages",
                f"{fix}. If the brokers of group {group} must not exchange messages, set activemq_topology: none",
            )


def _remedy_for_missing_route(state: NetworkWithAtMostOneBrokerDown, source: int, target: int) -> str:
    route = state.shape.bridge_indices_of_shortest_route(source, target, within_limits=False)
    if not route:
        return f"add a link from {state.names[source]} to {state.names[target]} to activemq_links"
    bridges_without_demand = [
        state.bridges[number]
        for number in route
        if not state.shape.edges[number].consumer_ttl and not state.shape.edges[number].always
    ]
    static_bridges = [bridge.connector.name for bridge in bridges_without_demand if not bridge.connector.subscribes]
    if static_bridges:
        return _static_bridge_remedy(static_bridges)
    silent_brokers = [bridge.target for bridge in bridges_without_demand if bridge.connector.demand_hop_limit]
    if silent_brokers:
        return f"remove advisorySupport from activemq_broker_attributes of {' and '.join(silent_brokers)}"
    return (
        "remove activemq_network_ttl, and ttl from the entries of activemq_links: the default TTL is sufficient for "
        "each route"
    )


def _static_bridge_remedy(link_names: Sequence[str]) -> str:
    return (
        "remove staticBridge from activemq_network_attributes, and from the attributes (or the networkConnector in "
        f"activemq_xml_fragments) of {'link' if len(link_names) == 1 else 'the links'} {names_to_text(link_names)}"
    )


def _separate_network_findings(routes: Routes) -> Iterator[Finding]:
    """Yield a finding for each group whose pairs form several networks that no link joins (R001)."""
    by_group: dict[str, list[tuple[str, ...]]] = {}
    for names in routes.network.connected_pair_components:
        for group in _group_networked_units(routes, [routes.network.units[name] for name in names]):
            by_group.setdefault(group, []).append(names)
    for group, networks in by_group.items():
        if len(networks) > 1:
            first, second = (next(n for n in names if routes.network.units[n].group == group) for names in networks[:2])
            yield _finding(
                "R001",
                routes.network.units[first].preferred_broker.host,
                f"messages sent to {first} never reach consumers on {second}, because no link joins them: the brokers "
                f"of group {group} form {len(networks)} separate networks",
                f"add a link between {first} and {second} to activemq_links. If the networks must be separate, set "
                f"activemq_topology: none for group {group}",
            )


def _single_point_of_failure_findings(routes: Routes, state: NetworkWithAtMostOneBrokerDown) -> Iterator[Finding]:
    """Yield a finding for each broker whose failure interrupts routes between other brokers (R002)."""
    for name in state.names:
        unit = routes.network.units[name]
        lost_routes = list(routes.routes_lost_without(unit.preferred_broker.host))
        if lost_routes:
            source, target = _first_lost_route(lost_routes)
            yield _finding(
                "R002",
                unit.preferred_broker.host,
                f"if the broker {unit.preferred_broker.host} fails, "
                f"{count_with_noun(sum(lost.targets.bit_count() for lost in lost_routes), 'route')} "
                f"between other brokers no longer carry messages, such as from {state.names[source]} to consumers on "
                f"{state.names[target]}",
                _remedy_for_lost_routes(unit),
            )


def _first_lost_route(lost_routes: Sequence[RoutesFromSourceLostWithoutBroker]) -> tuple[int, int]:
    """Return the numbers of the source and target of the first lost route, if possible one that was the only route."""
    for lost in lost_routes:
        if only_routes := lost.targets & ~lost.had_another_route:
            return lost.source, next(broker_numbers(only_routes))
    return lost_routes[0].source, next(broker_numbers(lost_routes[0].targets))


def _remedy_for_lost_routes(unit: PairOrSingleBroker) -> str:
    if len(unit.brokers) == 1:
        return (
            "add a second node with activemq_ha: shared-file, or add links that bypass the broker, "
            "with activemq_topology: mesh or activemq_links"
        )
    if unit.preferred_broker.ha_profile.replicates:
        return (
            "add links that bypass the broker, with activemq_topology: mesh or activemq_links: a slave of a pure pair "
            "that takes over opens no port, so no bridge can connect to it"
        )
    return (
        f"list both nodes of pair {unit.name} in the uri of each link to this pair: masterslave:(tcp://A:61616,"
        f"tcp://B:61616). Set the same activemq_links for both nodes of pair {unit.name}"
    )


def _links_within_pairs_findings(routes: Routes) -> Iterator[Finding]:
    """Yield a finding for each broker with links that carry no messages (R003).

    For links within a pair, which ``activemq_pair_links`` requests, it has the severity info.
    """
    pairs = {(host, connector.name) for host, connector in routes.network.hosts_and_connectors_of_links_within_pairs()}
    by_host: dict[tuple[str, bool], list[str]] = {}
    for host, link in routes.idle_links():
        by_host.setdefault((host, (host, link) in pairs), []).append(link)
    for (host, is_within_pair), links in by_host.items():
        link_names = names_to_text(links)
        reason = (
            "the other node of the pair is a standby while this broker is active"
            if is_within_pair
            else "the TTL of the link is 0, or one broker of the link ignores the consumers of the other broker "
            "(staticBridge, advisorySupport=false)"
        )
        yield _finding(
            "R003",
            host,
            f"the broker sends no messages over {'link' if len(links) == 1 else 'the links'} {link_names}: {reason}",
            "remove the link from activemq_links. If activemq_pair_links created it, set activemq_pair_links: none"
            if is_within_pair
            else "if the TTL of the link is 0, set ttl of the link in activemq_links, or activemq_network_ttl, to 1 or "
            f"more. Otherwise {_static_bridge_remedy(links)}, or advisorySupport from "
            "activemq_broker_attributes of the other broker. If the link is not needed, remove it from activemq_links",
            "info" if is_within_pair else "warning",
        )


def _dead_end_findings(routes: Routes, state: NetworkWithAtMostOneBrokerDown) -> Iterator[Finding]:
    """Yield a finding for a network in which messages can remain on a broker that cannot forward them (R004)."""
    examined_count, stranded_routes = _examined_and_stranded_routes(state.shape)
    if stranded_routes:
        source_name, target_name = (state.names[end] for end in stranded_routes[0])
        at_least = "at least " if examined_count == _MAXIMUM_PAIRS else ""
        yield _finding(
            "R004",
            routes.network.units[source_name].preferred_broker.host,
            f"messages sent to {source_name} for consumers on {target_name} can remain on a third broker, which cannot "
            f"forward them within the TTL. This concerns {at_least}{count_with_noun(len(stranded_routes), 'route')} of "
            "this network",
            "set activemq_network_ttl for all brokers of this network to the number of links of the longest route. If "
            "each broker has a link to each other broker, set activemq_network_ttl: {consumer: 1, message: -1} instead "
            "(5.9 or later). In both cases, set activemq_network_attributes: {decreaseNetworkConsumerPriority: true}, "
            "so brokers prefer the shortest route",
        )


def _examined_and_stranded_routes(shape: BridgeGraph) -> tuple[int, list[tuple[int, int]]]:
    """Return the number of routes that were examined, and those on which messages can remain on a third broker.

    A route is a pair of brokers. The broker that a bridge chooses in ordinary operation decides.
    """
    if shape.has_ample_ttl and not shape.merges:
        return 0, []
    forked_pairs = (
        (s, t)
        for s, reach in enumerate(shape.message_reach_by_broker)
        for t in broker_numbers(reach.arrives & reach.forked)
    )
    examined_pairs = list(islice(forked_pairs, _MAXIMUM_PAIRS))
    return len(examined_pairs), [
        pair
        for pair in examined_pairs
        if message_outcome_for_all_bridge_choices(shape, *pair, patience=_MAXIMUM_STATES_PER_PAIR) == "strands"
    ]
