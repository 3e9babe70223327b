"""Write the reasons why messages reach a consumer, or do not reach it, as sentences."""

from __future__ import annotations

from collections.abc import Sequence

from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.routes.bridges import Bridge, NetworkWithAtMostOneBrokerDown
from activemq_fleet.routes.forwarding_choices import ChoiceOutcome
from activemq_fleet.topology import PairOrSingleBroker


def unreachable_pair_sentence(pair: PairOrSingleBroker, down: str | None) -> str:
    """Return a sentence with the reason why no client can connect to a pair while the broker ``down`` is dead."""
    active = pair.active_broker_without(down)
    if active is None:
        return f"{pair.name} is down: no consumer can connect to it"
    return (
        f"{active.identity.short_host_name} has taken over {pair.name} but opens no port: no consumer can connect to it"
    )


def no_bridges_sentence(source: str, target: str) -> str:
    """Return a sentence that reports that no bridges lead from ``source`` to ``target``."""
    return f"no bridges lead from {source} to {target}"


def route_sentence(
    source: PairOrSingleBroker,
    target: PairOrSingleBroker,
    route: Sequence[Bridge],
    choice: ChoiceOutcome,
    down: str | None,
    destination: str | None,
) -> str:
    """Return a sentence that describes a message's route.

    It names the bridges, and what can stop messages on it.
    """
    links = ", ".join(f"{b.connector.name}{' in its reverse direction' if b.back else ''}" for b in route)
    text = f"messages go from {source.name} to {target.name} over {count_with_noun(len(route), 'bridge')} ({links})"
    active = source.active_broker_without(down)
    if active and not active.connectors:
        text += f"; these are the stored messages of {source.name}, which {active.identity.short_host_name} now sends"
    if choice == "strands":
        text += f"; a broker may also choose a route that ends before {target.name}, and the messages then stay there"
    elif choice == "full":
        text += "; while a bridge has 1,000 unacknowledged messages, more messages may take a longer route, and stay "
        text += "on a broker of that route"
    elif choice == "unknown":
        text += "; it was not checked whether messages can stay on other routes, because there are too many of them"
    bridges_with_filters = [b for b in route if b.connector.carried_destinations or b.connector.exclude]
    if bridges_with_filters and destination is None:
        text += "; " + "; ".join(dict.fromkeys(map(_filter_text, bridges_with_filters)))
    return text


def _filter_text(bridge: Bridge) -> str:
    connector = bridge.connector
    parts = []
    if connector.carried_destinations:
        parts.append(f"only {', '.join(connector.carried_destinations)}")
    if connector.exclude:
        parts.append(f"not {', '.join(connector.exclude)}")
    return f"link {connector.name} carries {' and '.join(parts)}"


def no_arrival_sentence(
    state: NetworkWithAtMostOneBrokerDown,
    network_of_all_destinations: NetworkWithAtMostOneBrokerDown,
    source: int,
    target: int,
    destination: str | None,
) -> str:
    """Return a sentence with the reason why no message from ``source`` arrives at ``target``.

    The sentence is empty if no bridges lead there. ``network_of_all_destinations`` also has the bridges that do not
    carry ``destination``.
    """
    names = state.names
    route = state.shape.bridge_indices_of_shortest_route(source, target, within_limits=False)
    if not route:
        if destination and network_of_all_destinations.shape.bridge_indices_of_shortest_route(
            source, target, within_limits=False
        ):
            return f"no bridges between {names[source]} and {names[target]} carry {destination}"
        return ""
    edges = state.shape.edges
    length = len(route)
    for hop, number in reversed(list(enumerate(route, 1))):
        edge = edges[number]
        bridge = state.bridges[number]
        if edge.consumer_ttl < length - hop + 1 and not edge.always:
            reason = f"the subscription of a consumer on {names[target]} ends at {names[edge.target]}"
            if not edge.consumer_ttl:
                reason += f", because link {bridge.connector.name} does not forward subscriptions"
                if bridge.connector.static and not bridge.back and edge.message_ttl >= hop:
                    carried = ", ".join(bridge.connector.static)
                    reason += f": the link carries only messages of {carried}, also without a consumer"
                return reason
            return (
                f"{reason}, because link {bridge.connector.name} has the consumerTTL (networkTTL) {edge.consumer_ttl}, "
                f"but the route requires {length - hop + 1}"
            )
    for hop, number in enumerate(route, 1):
        if edges[number].message_ttl < hop:
            return (
                f"messages stop at {names[edges[number].source]}, because link {state.bridges[number].connector.name} "
                f"has the messageTTL (networkTTL) {edges[number].message_ttl}, but the route requires {hop}"
            )
    return f"each route from {names[source]} to {names[target]} is longer than the TTL of its bridges"
