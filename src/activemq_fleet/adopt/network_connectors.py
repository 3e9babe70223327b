"""Read networkConnector elements of activemq.xml files: their target addresses and the brokers that own them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from activemq_fleet.addresses import join_host_port, may_be_same_host
from activemq_fleet.adopt.compared_element import ComparedElement
from activemq_fleet.adopt.profiles import pure_master_address
from activemq_fleet.adopt.proposal import VariableProposal, is_valid_value
from activemq_fleet.adopt.secrets import with_masked_passwords
from activemq_fleet.adopt.sources import AdoptedDocument
from activemq_fleet.network.connectors import NetworkConnector, parse_network_connector
from activemq_fleet.network.uri import Uri
from activemq_fleet.settings.network import SplitTtl
from activemq_fleet.topology import Broker, Fleet, Link
from activemq_fleet.uris import is_openwire

Ttl = int | SplitTtl

_LOCAL_ADDRESSES = ("0.0.0.0", "::", "127.0.0.1", "localhost", "::1")  # noqa: S104 -- these do not identify a host


@dataclass(frozen=True, slots=True)
class ReplaceableBridge:
    """A bridge (networkConnector) of an existing activemq.xml that an entry of ``activemq_links`` can replace.

    ``addresses`` are the (host, port) pairs as its URI has them; ``ttl`` is as ``activemq_links`` has it, and 1 where
    the element sets none. ``include``, ``static_include`` and ``exclude`` are destination patterns as
    ``activemq_links`` writes them.
    """

    name: str
    node: ComparedElement
    kind: Literal["static", "failover", "masterslave"]
    addresses: tuple[tuple[str, int], ...]
    duplex: bool
    ttl: Ttl
    include: tuple[str, ...]
    static_include: tuple[str, ...]
    exclude: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]
    """The attributes that ``activemq_links`` can set, without those that all links have anyway."""
    options: tuple[tuple[str, str], ...]
    """The options of the discovery agent."""

    @property
    def traffic_key(self) -> tuple[object, ...]:
        """The key of the bridge's traffic, for finding bridges that forward the same messages.

        It is equal for bridges that forward the same messages equally far.
        """
        return self.ttl, self.include, self.static_include, self.exclude, self.attributes, self.options

    @property
    def target_addresses(self) -> list[str]:
        """The addresses to which the bridge connects.

        Their form is that of brokers outside the inventory in ``activemq_links``.
        """
        tls = any("ssl" in transport.scheme for transport in Uri.parse(self.node.get("uri")).transport_uris)
        return [("ssl://" if tls else "") + join_host_port(*address) for address in self.addresses]


def network_connector_elements(document: AdoptedDocument) -> list[ComparedElement]:
    """Return every networkConnector element of an activemq.xml."""
    return document.broker.find_all("networkConnectors/networkConnector")


def replaceable_bridges(document: AdoptedDocument) -> Iterator[ReplaceableBridge]:
    """Yield the bridges (networkConnectors) of an activemq.xml that ``activemq_links`` can replace.

    Their name is unique in the file.
    """
    nodes = network_connector_elements(document)
    names = Counter(node.get("name") for node in nodes)
    for node in nodes:
        connector = parse_network_connector(node)
        if names[connector.name] == 1 and not _inexpressible_reason(connector):
            yield _replaceable_bridge(node, connector)


def reason_for_inexpressible_connector(node: ComparedElement) -> str:
    """Return the reason why inventory variables cannot express a networkConnector, as text.

    The text names the attribute or child that ``activemq_links`` cannot express. Without one, it reports that another
    bridge of the broker has the same name. The text is never empty.
    """
    connector = parse_network_connector(with_masked_passwords(node))
    return _inexpressible_reason(connector) or "another bridge of the same broker has the same name"


def _inexpressible_reason(connector: NetworkConnector) -> str:
    """Return the reason why ``activemq_links`` cannot express a networkConnector; "" if it can.

    The reason is a clause.
    """
    uri = Uri.parse(connector.uri)
    if uri.scheme not in ("static", "masterslave", "simple") or not uri.transport_uris:
        return (
            f"the uri {connector.uri!r} of the bridge names no hosts with static:, masterslave: or simple:, which "
            "activemq_links requires"
        )
    for transport in uri.transport_uris:
        if not (transport.host and transport.port and is_openwire(transport.scheme)):
            return f"the uri of the bridge has {transport.text!r}, which is not a host and port of OpenWire"
    if not is_valid_value("network_options", uri.options):
        return "the uri of the bridge has options that activemq_network_options does not accept"
    entry = {"from": "a", "to": "b", "name": connector.name}
    if not is_valid_value("links", [entry]):
        if not connector.name:
            return "the bridge has no name, and another bridge of the same file has no name either"
        return (
            f"activemq_links does not accept the name {connector.name!r} of the bridge, because a name "
            "may contain only letters, digits, spaces and . _ : + > / @ ( ) -, and must begin and end with a letter or "
            "digit"
        )
    if None in (connector.consumer_ttl, connector.message_ttl) or not is_valid_value("network_ttl", _ttl(connector)):
        return "a networkTTL, consumerTTL or messageTTL of the bridge is neither a number from 1 on nor -1"
    if connector.duplex is None:
        return f"the bridge has duplex={connector.attributes['duplex']!r}, which is neither true nor false"
    lists = {"include": connector.include, "static_include": connector.static, "exclude": connector.exclude}
    if not connector.has_plain_destinations or not is_valid_value("links", [entry | lists]):
        return "the bridge lists a destination that is not a queue or topic with physicalName as its only attribute"
    return ""


def _replaceable_bridge(node: ComparedElement, connector: NetworkConnector) -> ReplaceableBridge:
    uri = Uri.parse(connector.uri)
    kind: Literal["static", "failover", "masterslave"] = (
        "failover" if any(uri.find_uris_with_given_schemes("failover")) else "static"
    )
    if uri.scheme == "masterslave":
        kind = "masterslave"
    return ReplaceableBridge(
        name=connector.name,
        node=node,
        kind=kind,
        addresses=tuple((transport.host, transport.port) for transport in uri.transport_uris),
        duplex=connector.duplex is True,
        ttl=_ttl(connector),
        include=connector.include,
        static_include=connector.static,
        exclude=connector.exclude,
        attributes=expressible_connector_options(node),
        options=tuple(uri.options.items()),
    )


def _ttl(connector: NetworkConnector) -> Ttl:
    """Return the TTL of a networkConnector as ``activemq_links`` has it."""
    consumer, message = connector.consumer_ttl or 0, connector.message_ttl or 0
    return SplitTtl(consumer=consumer, message=message) if connector.has_split_ttl else consumer


def allows_replay_over_bridges(document: AdoptedDocument) -> bool:
    """Return whether a policy in an activemq.xml lets a bridge send messages back to a broker that they came from.

    The policy is a networkBridgeFilterFactory.
    """
    entries = document.broker.find_all("destinationPolicy/policyMap/policyEntries/policyEntry")
    return any(entry.find("networkBridgeFilterFactory") for entry in entries)


def link_ttl_setting(link: Link) -> Ttl:
    """Return the TTL of a planned network link as the value of its setting in ``activemq_links``."""
    if link.network_ttl is not None:
        return link.network_ttl
    return SplitTtl(consumer=link.consumer_ttl or 1, message=link.message_ttl or -1)


def ttl_as_setting(ttl: Ttl) -> int | dict[str, int]:
    """Return a network TTL as a value that YAML can represent: a number, or a mapping of two numbers."""
    return ttl.model_dump() if isinstance(ttl, SplitTtl) else ttl


def expressible_connector_options(node: ComparedElement) -> tuple[tuple[str, str], ...]:
    """Return the options of a networkConnector that ``activemq_links`` can express.

    Each is (name, value).
    """
    return tuple(
        (name, value)
        for name, value in sorted(node.attributes.items())
        if (name, value) != ("decreaseNetworkConsumerPriority", "true")
        and is_valid_value("network_attributes", {name: value})
    )


def propose_preferred_master_per_pair(proposal: VariableProposal) -> None:
    """Propose the preferred master (``activemq_master_node``) of each broker pair that shares a store.

    The preferred master is the node that its file marks as preferred,
    otherwise the first target of most bridges of other brokers.
    """
    names = _HostNames(proposal.documents)
    first_target_counts: Counter[str] = Counter()
    for document in proposal.documents:
        for bridge in replaceable_bridges(document):
            owners = [names.unique_host_with_name(host) or "" for host, _ in bridge.addresses]
            if len(set(owners)) == 2:
                first_target_counts[owners[0]] += 1
    for documents in proposal.existing_activemq_xml_by_pair().values():
        if not proposal.proposed_ha_profile(documents[0].host).shares_store:
            continue
        preferred_documents = [document for document in documents if document.preferred]
        # The nodes of a pair are sorted, so the first of equal nodes is chosen.
        first_target = max(documents, key=lambda d: (first_target_counts[d.host], d.identity.role == "master"))
        preferred_node = (preferred_documents[0] if len(preferred_documents) == 1 else first_target).identity.node
        for document in documents:
            proposal.propose_preferred_master_unless_default(document.host, preferred_node)


def propose_host_addresses(proposal: VariableProposal, known_addresses: Mapping[str, str]) -> None:
    """Propose ``activemq_address`` for each host to which other brokers connect by another name.

    The addresses come from the network connectors of those brokers. ``known_addresses`` take precedence.
    """
    addresses_by_host: dict[str, Counter[str]] = defaultdict(Counter)
    for host, address in known_addresses.items():
        addresses_by_host[host][address] += 1
    names = _HostNames(proposal.documents)
    bridges_to_unknown_hosts: list[tuple[ReplaceableBridge, AdoptedDocument]] = []
    for document in proposal.documents:
        for bridge in replaceable_bridges(document):
            owners = [names.unique_host_with_name(host) for host, _ in bridge.addresses]
            if None in owners:
                bridges_to_unknown_hosts.append((bridge, document))
            for owner, (host, _) in zip(owners, bridge.addresses, strict=True):
                if owner:
                    addresses_by_host[owner][host] += 1
    for owner, address in _addresses_on_one_machine(proposal, bridges_to_unknown_hosts):
        addresses_by_host[owner][address] += 1
    for owner, address in _master_addresses_of_slaves(proposal):
        addresses_by_host[owner][address] += 1
    for document in proposal.documents:
        bind = proposal[document.host].get("bind")
        if bind and bind not in _LOCAL_ADDRESSES and document.host not in addresses_by_host:
            addresses_by_host[document.host][bind] += 1
    for bridge, _ in bridges_to_unknown_hosts:
        for owner, address in _addresses_named_by_link(bridge, proposal):
            addresses_by_host[owner][address] += 1
    for owner, address_counts in addresses_by_host.items():
        address = known_addresses.get(owner) or address_counts.most_common(1)[0][0]
        if address != owner:
            proposal.propose_value_if_valid(owner, "address", address)


def _addresses_on_one_machine(
    proposal: VariableProposal, bridges_to_unknown_hosts: Iterable[tuple[ReplaceableBridge, AdoptedDocument]]
) -> Iterator[tuple[str, str]]:
    """Yield (host, address) of brokers that share a machine.

    One of them connects to the other at its own loopback address.

    The result is empty if two of them would listen on the same port.
    """
    ports_by_host: dict[str, set[int]] = {}
    for document in proposal.documents:
        entries = proposal[document.host].get("connectors", [])
        offset = proposal[document.host].get("port_offset", 0)
        ports_by_host[document.host] = {entry["port"] + offset for entry in entries}
    address_by_host: dict[str, str] = {}
    for bridge, document in bridges_to_unknown_hosts:
        for host, port in bridge.addresses:
            owners = [name for name, ports in ports_by_host.items() if port in ports]
            if host.lower() in _LOCAL_ADDRESSES and len(owners) == 1 and owners != [document.host]:
                address_by_host |= {owners[0]: host, document.host: host}
    ports = [port for host in address_by_host for port in ports_by_host[host]]
    if len(set(address_by_host.values())) == 1 and len(ports) == len(set(ports)):
        yield from address_by_host.items()


def _master_addresses_of_slaves(proposal: VariableProposal) -> Iterator[tuple[str, str]]:
    for documents in proposal.existing_activemq_xml_by_pair().values():
        if proposal.proposed_ha_profile(documents[0].host).replicates:
            for document, master in (documents, documents[::-1]):
                address = pure_master_address(document)
                if address and address[0] not in _LOCAL_ADDRESSES:
                    yield master.host, address[0]


def _addresses_named_by_link(bridge: ReplaceableBridge, proposal: VariableProposal) -> Iterator[tuple[str, str]]:
    """Yield (host, address) for a bridge whose name ``X-to-Y`` names the target.

    Y is a pair or a host, and the ports match.
    """
    target = bridge.name.rpartition("-to-")[2]
    pair = proposal.existing_activemq_xml_by_pair().get(target) or [
        d for d in proposal.documents if d.identity.short_host_name == target
    ]
    preferred_nodes = {proposal[d.host].get("master_node", proposal.naming.preferred_node_mark) for d in pair}
    ordered_documents = sorted(pair, key=lambda d: (d.identity.node not in preferred_nodes, d.identity.node))
    ports = [_openwire_port(proposal[d.host]) for d in ordered_documents]
    if ports == [port for _, port in bridge.addresses]:
        for document, (host, _) in zip(ordered_documents, bridge.addresses, strict=True):
            yield document.host, host


def _openwire_port(variables: Mapping[str, object]) -> int | None:
    connectors = variables.get("connectors")
    offset = variables.get("port_offset", 0)
    for entry in connectors if isinstance(connectors, list) else ():
        if is_openwire(entry["scheme"]) and isinstance(offset, int):
            return int(entry["port"]) + offset
    return None


class _HostNames:
    """A lookup of the host to which a name in a URI refers, among the hosts of all adopted files."""

    def __init__(self, documents: Iterable[AdoptedDocument]) -> None:
        self._hosts = {document.host.lower(): document.host for document in documents}

    def unique_host_with_name(self, name: str) -> str | None:
        """Return the only broker host that a name identifies; None if there is none, or more than one.

        The name may have or lack the domain.
        """
        exact = self._hosts.get(name.lower().rstrip("."))
        similar = [host for host in self._hosts.values() if may_be_same_host(host, name)]
        return exact or (similar[0] if len(similar) == 1 else None)


class BrokersByAddress:
    """A lookup by address (host and port) of the brokers in the fleet that ``adopt`` proposes."""

    def __init__(self, fleet: Fleet, documents: Sequence[AdoptedDocument]) -> None:
        self._names = _HostNames(documents)
        self._brokers: dict[str, list[Broker]] = defaultdict(list)
        for broker in fleet.brokers:
            self._brokers[broker.address.lower()].append(broker)
        self._by_host = {broker.host: broker for broker in fleet.brokers}

    def broker_at(self, host: str, port: int) -> Broker | None:
        """Return the broker at an address (host and port), or None.

        None is also returned where several brokers match.
        """
        brokers = self._brokers.get(host.lower(), [])
        if len(brokers) > 1:
            brokers = [b for b in brokers if any(c.port == port and is_openwire(c.scheme) for c in b.connectors)]
        name = self._names.unique_host_with_name(host)
        if not brokers and name is not None:
            brokers = [self._by_host[name]]
        return brokers[0] if len(brokers) == 1 else None
