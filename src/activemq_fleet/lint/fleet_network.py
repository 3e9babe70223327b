"""Rules N about a whole network: duplicate routes, names, and the number of bridges that a message may cross."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from activemq_fleet.lint.deployed_links import FleetBridges, LintedLink
from activemq_fleet.lint.document import Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.fleets import FleetView
from activemq_fleet.network.connectors import UNLIMITED
from activemq_fleet.routes.bridges import has_network_connector_fragments

_FIX_OF_PURE_DUPLEX = (
    "no change is required, because with activemq_ha: pure the collection makes these links duplex. To hide this "
    "finding, add a waiver of N010 to activemq_waivers"
)
_Distances = Mapping[str, Mapping[str, int]]


@rule("N010", "error", scope="fleet")
def duplex_links_from_both_ends(view: FleetView) -> Iterator[Problem]:
    """Two duplex links join the same two brokers or pairs, one from each end.

    Why: each duplex link consists of two bridges. With four bridges, each message has two routes, and no log line
        reports this. If both links have the same name, they disconnect each other repeatedly ("already connected").
    Fix: set duplex on one side only, or use two links without duplex.
    Cannot see: whether the second route causes harm. With activemq_ha: pure the multicast links of all masters are
        duplex, and the finding is an info.
    Source: measured on 5.5.1, 5.18.3 and 6.3.1; TransportConnection

    Fires on 5.18.3::

        all:
          activemq_links: [{from: north, to: south, duplex: true}, {from: south, to: north, duplex: true}]
        hosts: {north-mq01-a: {}, north-mq01-b: {}, south-mq01-a: {}, south-mq01-b: {}}

    Silent on 5.18.3::

        all:
          activemq_links: [{from: north, to: south, duplex: true}]
        hosts: {north-mq01-a: {}, north-mq01-b: {}, south-mq01-a: {}, south-mq01-b: {}}
    """
    bridges = view.pair_bridge_graph
    for (source, target), end_links in bridges.bridges_by_source_and_target_pair.items():
        if source < target:
            matching_links = _links_with_shared_destination(
                [duplex_link for duplex_link in end_links if duplex_link.is_duplex],
                _duplex_links(bridges, target, source),
            )
            if matching_links:
                first, second = matching_links
                message = (
                    f"link {second.connector_name} to {source} and link {first.connector_name} in the opposite "
                    "direction are both duplex: "
                    "each message has two routes"
                )
                yield second.problem(message, "duplex")
    for group, links in bridges.multicast.items():
        duplex = [link for link in links if link.is_duplex]
        if len({link.source_pair_name for link in duplex}) > 1:
            is_pure = duplex[0].broker.ha_profile.replicates
            message = (
                f"{len(duplex)} brokers of group {group} have duplex multicast links to each other: "
                "each message has two routes"
            )
            yield duplex[0].problem(
                message, "duplex", severity="info" if is_pure else None, fix=_FIX_OF_PURE_DUPLEX if is_pure else ""
            )


def _duplex_links(bridges: FleetBridges, source: str, target: str) -> list[LintedLink]:
    return [link for link in bridges.bridges_by_source_and_target_pair.get((source, target), ()) if link.is_duplex]


def _links_with_shared_destination(
    links: list[LintedLink], other_links: list[LintedLink]
) -> tuple[LintedLink, LintedLink] | None:
    return next(
        ((link, other_link) for link in links for other_link in other_links if link.may_share_destination(other_link)),
        None,
    )


@rule("N011", "warning", scope="fleet")
def duplex_link_and_another_link(view: FleetView) -> Iterator[Problem]:
    """A duplex link and another link connect the same two brokers or pairs.

    Why: a duplex link already forwards both directions. With another link every message has two routes: the load is
        distributed unevenly, and messages that one bridge resends after a failure may already have been sent by the
        other.
    Fix: remove the link without duplex, or the duplex attribute of the other link. Or give each of the two links
        separate destinations.
    Source: documentation of networks of brokers

    Fires on 5.18.3::

        all:
          activemq_links: [{from: north, to: south, duplex: true}, {from: south, to: north}]
        hosts: {north-mq01-a: {}, north-mq01-b: {}, south-mq01-a: {}, south-mq01-b: {}}

    Silent on 5.18.3::

        all:
          activemq_links:
            - {from: north, to: south, duplex: true, include: ["queue://orders.>"]}
            - {from: south, to: north, include: ["queue://bills.>"]}
        hosts: {north-mq01-a: {}, north-mq01-b: {}, south-mq01-a: {}, south-mq01-b: {}}
    """
    bridges = view.pair_bridge_graph
    for (source, target), links in bridges.bridges_by_source_and_target_pair.items():
        duplex = [link for link in links if link.is_duplex]
        if not duplex:
            continue
        opposite_links = [
            link for link in bridges.bridges_by_source_and_target_pair.get((target, source), ()) if not link.is_duplex
        ]
        if opposite_match := _links_with_shared_destination(duplex, opposite_links):
            message = (
                f"link {opposite_match[1].connector_name} duplicates the reverse direction of the duplex link "
                f"{opposite_match[0].connector_name} of {source}: each message has two routes"
            )
            yield opposite_match[1].problem(message, fix=_fix_of_two_routes(*opposite_match))
        parallel_links = [
            (link, other_link)
            for link in duplex
            for other_link in links
            if link.broker is other_link.broker and not other_link.is_duplex
        ]
        if parallel_match := next(
            ((link, other_link) for link, other_link in parallel_links if link.may_share_destination(other_link)), None
        ):
            message = (
                f"link {parallel_match[1].connector_name} duplicates the duplex link "
                f"{parallel_match[0].connector_name}: each message has two routes"
            )
            yield parallel_match[1].problem(message, fix=_fix_of_two_routes(*parallel_match))


def _fix_of_two_routes(duplex_link: LintedLink, other_link: LintedLink) -> str:
    return (
        f"remove link {other_link.connector_name}, or the duplex attribute of link {duplex_link.connector_name}. "
        "Or give each of the two links separate destinations"
    )


@rule("N013", "error", scope="fleet")
def same_broker_name_on_two_brokers(view: FleetView) -> Iterator[Problem]:
    """Two brokers of a network have the same brokerName.

    Why: client ids, durable subscriptions, leases and vm:// URIs derive from the name, so both brokers use the same
        ones. The brokers do not report the duplicate. A third broker takes their bridges for bridges of one broker, and
        repeatedly disconnects them. The two nodes of a pair count as one broker.
    Fix: remove activemq_broker_name, so that the default applies, or set it to a unique name for each pair.
    Source: measured on 5.17.2, which logs nothing; DemandForwardingBridgeSupport

    Fires on 5.18.3::

        all:
          activemq_broker_name: broker
        hosts: {north-mq01-a: {}, north-mq01-b: {}, north-mq02-a: {}, north-mq02-b: {}}

    Silent on 5.18.3::

        hosts:
          north-mq01-a: {activemq_broker_name: one}
          north-mq01-b: {activemq_broker_name: one}
          north-mq02-a: {activemq_broker_name: two}
          north-mq02-b: {activemq_broker_name: two}
    """
    names: dict[str, list[str]] = defaultdict(list)
    for pair, brokers in view.brokers_by_pair.items():
        for name in {broker.broker_name for broker in brokers}:
            names[name].append(pair)
    component_of_pair = {
        pair: number for number, pairs in enumerate(view.pair_bridge_graph.connected_components) for pair in pairs
    }
    for name, pairs in names.items():
        first_pairs: dict[int, str] = {}
        for pair in pairs:
            if pair in component_of_pair and first_pairs.setdefault(component_of_pair[pair], pair) != pair:
                other = first_pairs[component_of_pair[pair]]
                message = (
                    f"{pair} and {other} are in one network and have the same brokerName {name}: "
                    "other brokers repeatedly disconnect the bridges from both"
                )
                brokers = view.brokers_by_pair[pair]
                has_default_name = all(broker.settings.broker_name is None for broker in brokers)
                fix = f"set activemq_broker_name of {pair} to a unique name" if has_default_name else ""
                yield Problem(message, host=brokers[0].host, fix=fix)


@rule("N017", "warning", scope="fleet")
def network_ttl_shorter_than_longest_path(view: FleetView) -> Iterator[Problem]:
    """A link's network TTL is shorter than the longest path through the network.

    Why: networkTTL limits the number of bridges that a message, or the subscription of a consumer, can cross. A message
        beyond the limit stays on the broker that it reached, and only DEBUG and TRACE lines report it.
    Fix: remove activemq_network_ttl, and ttl from activemq_links, so that the default applies: the length of the
        longest path.
    Cannot see: consumers that move to another broker. With a TTL of exactly the length of the longest path, a message
        that was already forwarded cannot follow its consumer (measured). If consumers move, add to the TTL the number
        of bridges between the old and the new broker of a consumer.
    Source: NetworkBridgeFilter, DemandForwardingBridgeSupport

    Fires on 5.18.3::

        all: {activemq_topology: chain, activemq_network_ttl: 1}
        hosts:
          north-mq01-a: {activemq_ha: none}
          north-mq02-a: {activemq_ha: none}
          north-mq03-a: {activemq_ha: none}

    Silent on 5.18.3::

        all: {activemq_topology: chain, activemq_network_ttl: 2}
        hosts:
          north-mq01-a: {activemq_ha: none}
          north-mq02-a: {activemq_ha: none}
          north-mq03-a: {activemq_ha: none}
    """
    if not _ttl_may_be_too_short(view):
        return
    bridges = view.pair_bridge_graph
    for component in bridges.connected_components:
        distances = bridges.hops_between_pairs(component)
        longest = max(max(hops.values()) for hops in distances.values())
        for pair in sorted(component):
            reported: set[str] = set()
            for bridge in bridges.bridges_opened_by(pair):
                if (
                    min(bridge.connector.message_hop_limit, bridge.connector.demand_hop_limit) >= longest
                    or bridge.connector_name in reported
                ):
                    continue
                if message := _short_ttl_message(bridge, distances, bridges.pair_names_by_multicast_group):
                    reported.add(bridge.connector_name)
                    yield bridge.problem(message, "networkTTL")


def _ttl_may_be_too_short(view: FleetView) -> bool:
    """Return whether the TTL of a network bridge may be too short.

    A TTL is set, fragments add links, or multicast is mixed with links.
    """
    rest = view.fleet.rest
    if rest is not None and any(link.ttl for link, _, _ in rest.links):
        return True
    for broker in view.brokers:
        settings = broker.settings
        if settings.network_ttl or any(link.ttl for link in settings.links) or has_network_connector_fragments(broker):
            return True
        if broker.links and broker.links[0].kind == "multicast" and len(broker.links) > 1:
            return True
    return False


def _short_ttl_message(bridge: LintedLink, distances: _Distances, groups: Mapping[str, frozenset[str]]) -> str:
    """Return the message about a network bridge whose TTL is too short; "" for a bridge with a sufficient TTL."""
    targets = [bridge.target] if bridge.target else sorted(groups[bridge.broker.group] - {bridge.source_pair_name})
    routes = [(bridge.source_pair_name, target) for target in targets]
    if bridge.is_duplex:
        routes += [(target, bridge.source_pair_name) for target in targets]
    messages, demand = bridge.connector.message_hop_limit, bridge.connector.demand_hop_limit
    for source, target in routes:
        hops, origin = _most_hops_of_messages(source, target, distances)
        if messages < hops:
            return (
                f"the TTL of link {bridge.connector_name} is too short: a message from {origin} to {target} must cross "
                f"{hops} bridges, but the TTL permits {messages}"
            )
        hops, origin = _most_hops_of_demand(source, target, distances)
        if demand < hops:
            return (
                f"the TTL of link {bridge.connector_name} is too short: a subscription of {origin} must cross {hops} "
                f"bridges to {source}, but the TTL permits {demand}"
            )
    return ""


def _most_hops_of_messages(source: str, target: str, distances: _Distances) -> tuple[int, str]:
    """Return the most bridges that a message has crossed when it arrives over the bridge from ``source`` to ``target``.

    Its origin is also returned. Bridges are counted along shortest paths.
    """
    hops_and_origins = (
        (hops[source] + 1, origin)
        for origin, hops in distances.items()
        if source in hops and hops[target] == hops[source] + 1
    )
    return max(hops_and_origins, default=(1, source))


def _most_hops_of_demand(source: str, target: str, distances: _Distances) -> tuple[int, str]:
    """Return the most bridges that a consumer's demand has crossed when it arrives at ``source`` over ``target``.

    Its origin is also returned. Bridges are counted along shortest paths.
    """
    hops_from_source = distances[source]
    hops_and_origins = (
        (hops + 1, origin) for origin, hops in distances[target].items() if hops_from_source.get(origin) == hops + 1
    )
    return max(hops_and_origins, default=(1, target))


@rule("N018", "warning", scope="fleet")
def subscriptions_cross_bridges_in_full_mesh(view: FleetView) -> Iterator[Problem]:
    """Consumers' subscriptions cross more than one bridge in a full mesh.

    Why: every broker forwards the subscriptions of other brokers. One consumer then causes as many subscriptions as
        there are routes, messages take detours, and routes remain after the consumer disconnects.
    Fix: set activemq_network_ttl to {consumer: 1, message: -1}, or before 5.9 to 1. Remove ttl from activemq_links, and
        networkTTL, consumerTTL and messageTTL from activemq_xml_fragments, because they override activemq_network_ttl.
    Source: AMQ-4607; DemandForwardingBridgeSupport

    Fires on 5.18.3::

        all: {activemq_network_ttl: 3}
        hosts:
          north-mq01-a: {activemq_ha: none}
          north-mq02-a: {activemq_ha: none}
          north-mq03-a: {activemq_ha: none}

    Silent on 5.18.3::

        hosts:
          north-mq01-a: {activemq_ha: none}
          north-mq02-a: {activemq_ha: none}
          north-mq03-a: {activemq_ha: none}
    """
    bridges = view.pair_bridge_graph
    for component in bridges.connected_components:
        other_count = len(component) - 1
        if other_count < 2 or any(len(bridges.one_hop_targets_by_pair[pair]) < other_count for pair in component):
            continue
        for pair in sorted(component):
            if long_ttl_bridge := next(
                (bridge for bridge in bridges.bridges_opened_by(pair) if bridge.connector.demand_hop_limit > 1), None
            ):
                hop_limit_text = (
                    "any number of"
                    if long_ttl_bridge.connector.demand_hop_limit == UNLIMITED
                    else str(long_ttl_bridge.connector.demand_hop_limit)
                )
                message = (
                    f"link {long_ttl_bridge.connector_name} accepts consumers' subscriptions over {hop_limit_text} "
                    f"bridges, but 1 bridge is enough in this full mesh of {other_count + 1} pairs or brokers"
                )
                ttl = "{consumer: 1, message: -1}" if long_ttl_bridge.broker.release.has_consumer_ttl else "1"
                fix = (
                    f"set activemq_network_ttl to {ttl}. Remove ttl from activemq_links, and networkTTL, consumerTTL "
                    "and messageTTL from activemq_xml_fragments, because they override activemq_network_ttl"
                )
                yield long_ttl_bridge.problem(message, "consumerTTL", fix=fix)
