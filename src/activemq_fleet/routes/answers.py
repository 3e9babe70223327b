"""Answer whether messages from one broker reach consumers at another, with all brokers up or one down.

An answer is about one consumer: does the consumer, which is connected to the broker Y and to no other broker, receive a
message that a client sends to the broker X? ``reaches`` means that the message arrives by every route that the brokers
usually choose. ``may strand`` means that some routes end at a broker that cannot forward the message. ``does not
reach`` means that no route arrives, so that the message waits at X. Routes that brokers choose only while a bridge is
full, and routes that are too many to examine, are notes on a route that ``reaches``, and not a separate outcome. The
answers apply to a settled network: all bridges are connected again after the failure, and have subscribed for all
consumers. (Releases from 5.19.8, 6.2.7 and 6.3.0 to at least 6.3.1 can lose advisories that are sent at the same time.
A bridge then has no subscription for a consumer until the consumer connects again. The routes ignore this defect.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from activemq_fleet.errors import InputError
from activemq_fleet.network.connectors import NetworkConnector
from activemq_fleet.routes import reasons
from activemq_fleet.routes.bridges import FleetNetworkConnectors, NetworkWithAtMostOneBrokerDown, accepts_clients
from activemq_fleet.routes.destinations import carries_destination, has_static_subscription, qualified_destination
from activemq_fleet.routes.forwarding_choices import message_outcome_for_all_bridge_choices
from activemq_fleet.routes.reachability import BridgeEdge, BridgeGraph, broker_numbers
from activemq_fleet.topology import Broker, Fleet, PairOrSingleBroker

Outcome = Literal["reaches", "may strand", "does not reach"]


@dataclass(frozen=True, slots=True)
class Hop:
    """One bridge on the route of a message.

    ``link`` is a networkConnector of ``host``. ``back``: the message crosses a duplex connector against its direction.
    """

    source: str
    target: str
    link: str
    host: str
    back: bool = False


class RoutesFromSourceLostWithoutBroker(NamedTuple):
    """The routes of messages from one source broker that are lost while one broker is down.

    ``targets`` are the ends of the routes, as bits. ``had_another_route``: those to which a standby or another bridge
    might have carried the messages, and does not.
    """

    source: int
    targets: int
    had_another_route: int


@dataclass(frozen=True, slots=True)
class MessageReachAnswer:
    """The answer to the question whether messages from one broker reach a consumer at another broker.

    It has the reason and the shortest route. The reason is a sentence. The route is empty if none exists.
    """

    outcome: Outcome
    why: str
    path: tuple[Hop, ...] = ()

    @property
    def arrives_for_every_bridge_choice(self) -> bool:
        """Whether a message reaches the consumer over every route that the brokers may choose for it."""
        return self.outcome == "reaches"


class Routes:
    """The routes of messages between all brokers of a fleet.

    They are those while all brokers are up or one is down.
    """

    def __init__(
        self, fleet: Fleet, written: Mapping[str, tuple[NetworkConnector, ...]], *, as_planned: bool = False
    ) -> None:
        self.fleet = fleet
        self.network = FleetNetworkConnectors(fleet, written, as_planned=as_planned)
        self._component = {name: names for names in self.network.connected_pair_components for name in names}
        self._states: dict[tuple[tuple[str, ...], str | None, str | None], NetworkWithAtMostOneBrokerDown] = {}

    # -- answers -----------------------------------------------------------------------------

    def reaches(
        self, source: str, target: str, *, down: str | None = None, destination: str | None = None
    ) -> MessageReachAnswer:
        """Return whether messages that clients send to the broker ``source`` reach a consumer at ``target``.

        The answer has the reason. Each is an inventory name, the first label of one, or a pair; ``down`` is the one
        broker that is dead. ``destination`` is a queue (or ``topic://NAME``); without it, the answer names the links
        that forward only some destinations. Raises InputError for an unknown name.
        """
        source_unit, target_unit = self.pair_or_single_broker(source), self.pair_or_single_broker(target)
        dead_host = self._dead_broker_host(down)
        required_destination = qualified_destination(destination) if destination else None
        if source_unit is target_unit:
            if accepts_clients(source_unit, dead_host):
                return MessageReachAnswer(
                    "reaches",
                    f"producer and consumer are both connected to {source_unit.name}: no bridge is needed",
                )
            return MessageReachAnswer("does not reach", reasons.unreachable_pair_sentence(source_unit, dead_host))
        if source_unit.active_broker_without(dead_host) is None:
            return MessageReachAnswer(
                "does not reach", f"{source_unit.name} is down: its messages stay there until it is started again"
            )
        if not accepts_clients(target_unit, dead_host):
            return MessageReachAnswer("does not reach", reasons.unreachable_pair_sentence(target_unit, dead_host))
        if self._component[source_unit.name] is not self._component[target_unit.name]:
            return MessageReachAnswer(
                "does not reach", self._explain_missing_bridges(source_unit.name, target_unit.name)
            )
        return self._answer_over_bridges(source_unit, target_unit, dead_host, required_destination)

    def _answer_over_bridges(
        self,
        source_unit: PairOrSingleBroker,
        target_unit: PairOrSingleBroker,
        dead_host: str | None,
        destination: str | None,
    ) -> MessageReachAnswer:
        """Return the answer for two units of one network, both of which have an active broker."""
        names = self._component[source_unit.name]
        state = self.network_of_running_brokers(names, None, destination)
        source_number, target_number = (
            state.vertex_number_by_pair[source_unit.name],
            state.vertex_number_by_pair[target_unit.name],
        )
        if dead_host and not self._is_outside_the_only_route(dead_host, state, source_number, target_number):
            state = self.network_of_running_brokers(names, dead_host, destination)
        if not state.shape.message_reach_by_broker[source_number].arrives >> target_number & 1:
            network_of_all_destinations = self.network_of_running_brokers(names, dead_host) if destination else state
            missing_route_reason = reasons.no_arrival_sentence(
                state, network_of_all_destinations, source_number, target_number, destination
            )
            return MessageReachAnswer(
                "does not reach",
                missing_route_reason or self._explain_missing_bridges(source_unit.name, target_unit.name),
            )
        route = [
            state.bridges[number]
            for number in state.shape.bridge_indices_of_shortest_route(source_number, target_number)
        ]
        hops = tuple(
            Hop(bridge.source, bridge.target, bridge.connector.name, bridge.host, bridge.back) for bridge in route
        )
        choice = message_outcome_for_all_bridge_choices(state.shape, source_number, target_number)
        reason = reasons.route_sentence(source_unit, target_unit, route, choice, dead_host, destination)
        return MessageReachAnswer("may strand" if choice == "strands" else "reaches", reason, hops)

    def _is_outside_the_only_route(
        self, dead_host: str, healthy_state: NetworkWithAtMostOneBrokerDown, source: int, target: int
    ) -> bool:
        """Return whether messages have only one route, and the broker ``dead_host`` is not on it."""
        unit = self.network.units[self.fleet.broker(dead_host).name_in_links]
        reach = healthy_state.shape.message_reach_by_broker[source]
        vertex = healthy_state.vertex_number_by_pair.get(unit.name, source)
        required_routes = reach.forked | reach.through.get(vertex, 0)
        return not _has_standby(unit) and vertex != source and bool(reach.arrives & ~required_routes & 1 << target)

    def _explain_missing_bridges(self, source: str, target: str) -> str:
        """Return a sentence that no bridges lead to ``target``, with a network link that a peer refuses, if any."""
        component = self._component[source]
        outward_links = [
            (
                refused_connector.peer.name_in_links if refused_connector.unit in component else refused_connector.unit,
                refused_connector,
            )
            for refused_connector in self.network.refused
            if refused_connector.refusal.is_certain_to_fail
            and (
                refused_connector.unit in component
                or (refused_connector.connector.duplex and refused_connector.peer.name_in_links in component)
            )
        ]
        nearest = min(outward_links, key=lambda outward_link: outward_link[0] != target, default=None)
        return reasons.no_bridges_sentence(source, target) + (f": {nearest[1].refusal_sentence}" if nearest else "")

    def path(self, source: str, target: str, *, down: str | None = None) -> tuple[Hop, ...]:
        """Return the shortest route of a message between two brokers, as a tuple of bridges; empty without a route.

        They are in the order in which the message passes them.
        """
        return self.reaches(source, target, down=down).path

    def source_target_pairs_lost_without(self, host: str) -> tuple[tuple[str, str], ...]:
        """Return the (source, target) pairs whose messages no longer arrive without the broker of ``host``.

        They arrive with all brokers up. Pairs that begin or end at ``host`` are left out: messages on a broker without
        a peer wait for its restart, and its consumers stop with it.
        """
        names = self._component[self.pair_or_single_broker(host).name]
        return tuple(
            (names[lost_routes.source], names[target])
            for lost_routes in self.routes_lost_without(host)
            for target in broker_numbers(lost_routes.targets)
        )

    def routes_lost_without(self, host: str) -> Iterator[RoutesFromSourceLostWithoutBroker]:
        """Yield for each source broker the routes of messages that are lost while the broker of ``host`` is down.

        The messages from the source to each target arrive with all brokers up, and not without this broker.
        """
        broker = self.fleet.broker(host)
        unit = self.network.units[broker.name_in_links]
        names = self._component[unit.name]
        if not self.changes_bridges_between_pairs(broker.host, names):
            return
        healthy = self.network_of_running_brokers(names)
        number = healthy.vertex_number_by_pair[unit.name]
        for source, reach in enumerate(healthy.shape.message_reach_by_broker):
            through = reach.through.get(number, 0)
            # If no broker had a choice, the route through the failed broker was the only one.
            possibly_rerouted = through if _has_standby(unit) else through & reach.forked
            had_another_route = 0
            if possibly_rerouted:
                without_broker = self.network_of_running_brokers(names, broker.host).shape
                had_another_route = possibly_rerouted & ~without_broker.reachable_broker_masks_by_source[source]
            if targets := through & ~possibly_rerouted | had_another_route:
                yield RoutesFromSourceLostWithoutBroker(source, targets, had_another_route)

    def idle_links(self) -> tuple[tuple[str, str], ...]:
        """Return (host, link name) for each idle network link, which no message ever crosses.

        All brokers are up.
        """
        idle_connectors = [
            *self.network.hosts_and_connectors_of_links_within_pairs(),
            *self._connectors_without_demand(),
        ]
        return tuple(dict.fromkeys((host, connector.name) for host, connector in idle_connectors))

    # -- networks and their states -----------------------------------------------------------

    def pair_or_single_broker(self, name: str) -> PairOrSingleBroker:
        """Return the pair or single broker with the given name.

        The name can be that of a broker in a pair.
        """
        pair = self.fleet.pairs_by_name.get(name)
        if pair and len(pair.brokers) == 1:
            name = pair.brokers[0].host
        return self.network.units.get(name) or self.network.units[self.fleet.broker(name).name_in_links]

    def _dead_broker_host(self, name: str | None) -> str | None:
        if name is None:
            return None
        pair = self.network.units.get(name)
        if pair and len(pair.brokers) > 1:
            nodes = " or ".join(broker.identity.short_host_name for broker in pair.brokers)
            raise InputError(
                f"the argument 'down' names the pair {name}, but it must name a single broker: set it to {nodes}"
            )
        return self.fleet.broker(name).host

    def network_of_running_brokers(
        self, pair_names: tuple[str, ...], broker_down: str | None = None, destination: str | None = None
    ) -> NetworkWithAtMostOneBrokerDown:
        """Return the network of the given pairs, with the bridges that are open while ``broker_down`` is down.

        None means that no broker is down. With ``destination``, only bridges that carry its messages count. The result
        is cached.
        """
        if broker_down is not None and not self.changes_bridges_between_pairs(broker_down, pair_names):
            broker_down = None
        key = pair_names, broker_down, destination
        if key not in self._states:
            self._states[key] = self._build_state(pair_names, broker_down, destination)
        return self._states[key]

    def changes_bridges_between_pairs(self, down: str, names: tuple[str, ...]) -> bool:
        """Return whether the death of the broker ``down`` changes a bridge among the given pairs."""
        unit = self.network.units[self.fleet.broker(down).name_in_links]
        return (
            unit.preferred_broker.host == down
            and unit.name not in self.network.steady
            and self._component[unit.name] is names
        )

    def _build_state(
        self, names: tuple[str, ...], down: str | None, destination: str | None
    ) -> NetworkWithAtMostOneBrokerDown:
        vertices = {name: number for number, name in enumerate(names)}
        units = self.network.units
        bridges = self.network.bridges_opened_by_pairs(names, down)
        if destination:
            bridges = [b for b in bridges if carries_destination(b, destination, self.fleet.broker(b.host).release)]
        active = [units[name].active_broker_without(down) for name in names]
        silent_units = {
            name for name, broker in zip(names, active, strict=True) if broker and _announces_no_consumers(broker)
        }
        edges = tuple(
            BridgeEdge(
                vertices[b.source],
                vertices[b.target],
                b.connector.demand_hop_limit if b.connector.subscribes and b.target not in silent_units else 0,
                b.connector.message_hop_limit,
                bool(b.connector.near),
                has_static_subscription(b, destination),
            )
            for b in bridges
        )
        replays = merges = 0
        for number, broker in enumerate(active):
            if broker:
                queue = not (destination or "").startswith("topic")
                if queue and broker.networked and broker.release.has_replay_when_no_consumers:
                    replays |= 1 << number
                if not broker.release.has_consumer_ttl:  # AMQ-4607 introduced both features.
                    merges |= 1 << number
        return NetworkWithAtMostOneBrokerDown(
            down, names, tuple(bridges), BridgeGraph(len(names), edges, replays, merges)
        )

    def _connectors_without_demand(self) -> Iterator[tuple[str, NetworkConnector]]:
        """Yield (host, connector) of bridges that are up and carry messages for no consumer."""
        for names in self.network.connected_pair_components:
            if len(names) < 2:
                continue
            state = self.network_of_running_brokers(names)
            used: dict[tuple[str, str], bool] = {}
            for bridge, edge, mask in zip(
                state.bridges, state.shape.edges, state.shape.demand_masks_by_bridge, strict=True
            ):
                key = bridge.host, bridge.connector.name
                carries_static_destinations = bool(bridge.connector.static) and not bridge.back
                used[key] = used.get(key, False) or (
                    edge.message_ttl > 0 and (bool(mask) or carries_static_destinations)
                )
            connectors = {(bridge.host, bridge.connector.name): bridge.connector for bridge in state.bridges}
            yield from ((key[0], connectors[key]) for key, is_used in used.items() if not is_used)


def _has_standby(unit: PairOrSingleBroker) -> bool:
    """Return whether another node takes over the bridges of a unit. If none does, the unit's bridges are missing."""
    return len(unit.brokers) > 1 and not unit.preferred_broker.ha_profile.replicates


def _announces_no_consumers(broker: Broker) -> bool:
    """Return whether a broker announces no consumers to its bridges."""
    return broker.settings.broker_attributes.get("advisorySupport") == "false"
