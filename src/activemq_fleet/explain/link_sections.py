"""Explain the links of a broker: those that it opens, and those that other brokers open to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from activemq_fleet.addresses import host_name_without_domain, join_host_port
from activemq_fleet.errors import names_to_text
from activemq_fleet.explain.explanation import (
    NONE,
    ExplanationSection,
    HostStatement,
    Origin,
    broker_or_pair_noun,
    is_only_pair_in_group,
)
from activemq_fleet.network.connectors import NetworkConnector
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.routes import Routes
from activemq_fleet.routes.bridges import has_network_connector_fragments
from activemq_fleet.schema import XmlDocument
from activemq_fleet.settings.host_settings import PREFIX
from activemq_fleet.topology import Broker, Fleet, Link

_KINDS = {
    "multicast": "the broker opens a link to each broker that it discovers",
    "masterslave": "the link connects to the active node of the pair",
    "failover": "the link connects to the active node of the pair: the broker tries the addresses in turn",
    "static": "the link connects to one fixed address",
}
_MAX_LISTED = 12


def outgoing_links_section(
    fleet: Fleet, broker: Broker, document: XmlDocument, routes: Routes | None
) -> ExplanationSection:
    """Return the section of the output of the command ``explain`` about the network links that a broker opens.

    It shows target, TTL and carried destinations of each. ``document`` is the broker's activemq.xml. With ``routes``,
    links of ``activemq_xml_fragments`` have the brokers to which they lead.
    """
    links = [_outgoing_link_entry(fleet, broker, link) for link in broker.links]
    if has_network_connector_fragments(broker):
        peers = {connector.name: brokers for connector, brokers in _connectors_in_xml(broker, routes)}
        planned = {link.name for link in broker.links}
        added_connectors = [connector for connector in document.network_connectors if connector.name not in planned]
        links += [_outgoing_connector_entry(connector, peers.get(connector.name, ())) for connector in added_connectors]
    entries = links or [HostStatement("none", _no_links_reason(fleet, broker))]
    intro = ""
    if broker.links and broker.ha_profile.shares_store and broker.peer:
        noun = "links to other pairs" if broker.settings.pair_links == "static" else "links"
        intro = (
            f"Only the active node of pair {broker.pair} opens its links. Both nodes define the same {noun}, with the "
            "same names."
        )
    elif broker.links and broker.is_replication_slave:
        intro = (
            f"The slave {broker.host} opens these links only after promotion, to send its messages to other masters."
        )
    return ExplanationSection("links-out", "Outgoing links", tuple(entries), intro=intro, stacked=bool(links))


def _connectors_in_xml(broker: Broker, routes: Routes | None) -> Iterator[tuple[NetworkConnector, tuple[Broker, ...]]]:
    """Yield the networkConnectors of a broker that its XML fragments add, each with the brokers of its addresses."""
    planned = {link.name for link in broker.links}
    for connector, peers in routes.network.connectors_to_other_pairs(broker.host) if routes else ():
        if connector.name not in planned:
            yield connector, peers


def _outgoing_connector_entry(connector: NetworkConnector, peers: Sequence[Broker]) -> HostStatement:
    hosts = [peer.identity.short_host_name for peer in peers]
    direction = "messages flow in both directions" if connector.duplex else "messages flow from this broker"
    target = f"to {names_to_text(hosts, most=_MAX_LISTED)}: " if hosts else ""
    return HostStatement(
        connector.name or "without a name",
        f"{target}{direction}",
        details=(connector.uri,),
        variable=f"{PREFIX}xml_fragments",
        origin="inventory",
        data={"name": connector.name, "uri": connector.uri, "to": hosts, "duplex": connector.duplex},
    )


def _no_links_reason(fleet: Fleet, broker: Broker) -> str:
    name = broker.name_in_links
    if is_only_pair_in_group(fleet, broker):
        noun = broker_or_pair_noun(broker)
        return f"{name} is the only {noun} of group {broker.group}, and activemq_links has no link from {name}"
    return f"activemq_topology is {broker.settings.topology}, and activemq_links has no link from {name}"


def _outgoing_link_entry(fleet: Fleet, broker: Broker, link: Link) -> HostStatement:
    variable, origin = _deciding_variable(fleet, broker, link)
    direction = "messages flow in both directions" if link.duplex else "messages flow from this broker"
    return HostStatement(
        link.name,
        f"to {_target_text(fleet, link)}, {link.kind}: {direction}",
        why=_idle_reason(broker, link) or _KINDS[link.kind],
        details=(link.uri, *_carried_destination_texts(link), ttl_in_words(link)),
        variable=variable,
        origin=origin,
        data=link.to_dict(),
    )


def _idle_reason(broker: Broker, link: Link) -> str:
    """Return the reason why a link to the other node of a shared store is never up; "" for every other link."""
    to_peer = broker.peer is not None and link.target == host_name_without_domain(broker.peer)
    if not to_peer or not broker.ha_profile.shares_store:
        return ""
    return f"this link is never up: while {broker.host} is active, {broker.peer} is a standby with closed ports"


def _target_text(fleet: Fleet, link: Link) -> str:
    if link.kind == "multicast":
        return f"the brokers of group {link.target}"
    pair = fleet.pairs_by_name.get(link.target)
    if pair is None:
        return link.target
    return f"{pair.name} ({', '.join(b.identity.short_host_name for b in pair.brokers_in_dialling_order)})"


def ttl_in_words(link: Link) -> str:
    """Return the TTL of a network link in words.

    The TTL is the number of bridges that messages and consumers' demand can cross.
    """
    if link.network_ttl is not None:
        limit_text = "" if link.network_ttl == -1 else "at most "
        return f"networkTTL {link.network_ttl}: a message crosses {limit_text}{_bridge_count_text(link.network_ttl)}"
    limit, demand = _bridge_count_text(link.message_ttl or 0), _bridge_count_text(link.consumer_ttl or 0)
    ttl = f"consumerTTL {link.consumer_ttl}, messageTTL {link.message_ttl}"
    return f"{ttl}: a subscription crosses {demand}, a message crosses {limit}"


def _bridge_count_text(ttl: int) -> str:
    return "any number of bridges" if ttl == -1 else count_with_noun(ttl, "bridge")


def _carried_destination_texts(link: Link) -> tuple[str, ...]:
    carried = link.carried_destinations
    included_text = f"the link carries only {', '.join(carried)}" if carried else ""
    static_names = ", ".join(link.static_include)
    static_text = f"the link carries {static_names} even if no consumer is connected" if static_names else ""
    excluded_text = f"the link does not carry {', '.join(link.exclude)}" if link.exclude else ""
    return tuple(filter(None, (included_text, static_text, excluded_text)))


def _deciding_variable(fleet: Fleet, broker: Broker, link: Link) -> tuple[str, Origin]:
    """Return the variable that made a link, and whether the inventory or a default sets it."""
    set_variables = broker.settings.model_fields_set

    def variable_and_origin(name: str) -> tuple[str, Origin]:
        return PREFIX + name, "inventory" if name in set_variables else "default"

    if link.kind == "multicast":
        return variable_and_origin(
            "discovery" if broker.settings.discovery or not broker.ha_profile.default_discovery else "ha"
        )
    if broker.peer and link.target == host_name_without_domain(broker.peer):
        return variable_and_origin("pair_links")
    for position, entry in enumerate(broker.settings.links):
        starts_at_broker = entry.source in (broker.name_in_links, broker.pair, broker.group)
        link_name = entry.name or f"{broker.name_in_links}-to-{link.target}"
        if (
            starts_at_broker
            and link.name in (link_name, f"{entry.name}-{link.target}")
            and entry.to in _target_names(fleet, link.target)
        ):
            return f"{PREFIX}links[{position}]", "inventory"
    return variable_and_origin("topology")


def _target_names(fleet: Fleet, target: str) -> set[str]:
    """Return the names by which an entry of ``activemq_links`` may mean a target: itself, its pair, its group."""
    pair = fleet.pairs_by_name.get(target)
    if pair is None:
        broker = next((b for b in fleet.brokers if target in (b.name_in_links, b.identity.short_host_name)), None)
        return {target} | ({broker.pair, broker.group} if broker else set())
    return {target, pair.group}


def incoming_links_section(fleet: Fleet, broker: Broker, routes: Routes | None = None) -> ExplanationSection:
    """Return the section of the output of ``explain`` about the network links from other brokers to a broker.

    The section shows whether messages also go back. Links of ``activemq_xml_fragments`` are included if ``routes`` are
    given.
    """
    names = {broker.name_in_links, broker.identity.short_host_name}
    incoming_links: dict[tuple[str, str], list[tuple[Broker, Link]]] = {}
    multicast_peers: list[Broker] = []
    for other in fleet.brokers:
        if other is broker:
            continue
        for link in other.links:
            if link.kind == "multicast" and link.target == broker.group and other.name_in_links != broker.name_in_links:
                multicast_peers.append(other)
            elif link.target in names:
                incoming_links.setdefault((other.name_in_links, link.name), []).append((other, link))
    entries = [
        _incoming_link_entry(unit, name, brokers_and_links)
        for (unit, name), brokers_and_links in incoming_links.items()
    ]
    for other in fleet.brokers:
        for connector, peers in _connectors_in_xml(other, routes) if other is not broker else ():
            if broker in peers:
                entries.append(_incoming_connector_entry(other, connector))
    if multicast_peers and broker.openwire:
        host_list = names_to_text([b.identity.short_host_name for b in multicast_peers], most=_MAX_LISTED)
        text = f"each broker of group {broker.group} that discovers {broker.host} opens a link to it: {host_list}"
        entries.append(HostStatement("multicast", text, data={"from": [b.host for b in multicast_peers]}))
    if entries:
        return ExplanationSection("links-in", "Incoming links", tuple(entries), stacked=True)
    reason = (
        f"no broker can open a link to {broker.host}, which has no OpenWire connector"
        if broker.openwire is None
        else ""
    )
    return ExplanationSection("links-in", "Incoming links", (HostStatement(NONE, NONE, why=reason),))


def _incoming_connector_entry(opener: Broker, connector: NetworkConnector) -> HostStatement:
    direction = "messages flow in both directions" if connector.duplex else "messages flow to this broker"
    return HostStatement(
        connector.name or "without a name",
        f"{opener.identity.short_host_name} opens this link: {direction}",
        details=(f"at {connector.uri}",),
        variable=f"{PREFIX}xml_fragments",
        origin="inventory",
        data={"from": opener.name_in_links, "duplex": connector.duplex, "dialled_by": [opener.host]},
    )


def _incoming_link_entry(unit: str, name: str, brokers_and_links: list[tuple[Broker, Link]]) -> HostStatement:
    link = next((link for _, link in brokers_and_links if link.duplex), brokers_and_links[0][1])
    hosts = [broker.identity.short_host_name for broker, _ in brokers_and_links]
    opener = hosts[0] if len(hosts) == 1 else f"the active node of {' and '.join(hosts)}"
    direction = "messages flow in both directions" if link.duplex else "messages flow to this broker"
    at = ", ".join(join_host_port(*address) for address in link.addresses)
    data = {
        "from": unit,
        "kind": link.kind,
        "duplex": link.duplex,
        "dialled_by": [b.host for b, _ in brokers_and_links],
    }
    return HostStatement(
        name,
        f"{opener} opens this {link.kind} link: {direction}",
        details=(f"at {at}", *_carried_destination_texts(link)),
        data=data,
    )
