"""Read networkConnector elements of activemq.xml files: their target addresses, and what variables can express."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from activemq_fleet.addresses import join_host_port
from activemq_fleet.adopt.compared_element import ComparedElement
from activemq_fleet.adopt.proposal import is_valid_value
from activemq_fleet.adopt.secrets import with_masked_passwords
from activemq_fleet.adopt.sources import AdoptedDocument
from activemq_fleet.network.connectors import NetworkConnector, parse_network_connector
from activemq_fleet.network.uri_parser import Uri
from activemq_fleet.settings.connectors_and_links import SplitTtl
from activemq_fleet.topology import Link
from activemq_fleet.uris import is_openwire

Ttl = int | SplitTtl


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
        """The properties of the bridge, such as its TTL and filters, that determine which messages it forwards.

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
    if None in (connector.consumer_ttl, connector.message_ttl) or not is_valid_value(
        "network_ttl", network_ttl_of_connector(connector)
    ):
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
        ttl=network_ttl_of_connector(connector),
        include=connector.include,
        static_include=connector.static,
        exclude=connector.exclude,
        attributes=expressible_connector_options(node),
        options=tuple(uri.options.items()),
    )


def network_ttl_of_connector(connector: NetworkConnector) -> Ttl:
    """Return the TTL of a networkConnector in the form of ``activemq_links``; an invalid number counts as 0."""
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


def ttl_as_number_or_mapping(ttl: Ttl) -> int | dict[str, int]:
    """Return a network TTL as a value for YAML: a number, or a mapping with ``consumer`` and ``message``."""
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
