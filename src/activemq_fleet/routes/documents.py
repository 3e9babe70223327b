"""Read the networkConnectors that ``activemq_xml_fragments`` bring or change from rendered activemq.xml."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lxml import etree

from activemq_fleet import addresses
from activemq_fleet.errors import InputError
from activemq_fleet.routes.bridges import NetworkConnector, multicast_of
from activemq_fleet.routes.shape import UNLIMITED, limit_of
from activemq_fleet.schema import boolean_of
from activemq_fleet.topology import Broker, Fleet

_CORE = "{http://activemq.apache.org/schema/core}"
_DIALLED = re.compile(r"((?:auto\+)?(?:tcp|nio\+ssl|nio|ssl|auto))://([^,()?/\s]+)")
_CONNECTOR = "networkConnector"
_KINDS = ("queue", "topic")


def connectors_of_documents(fleet: Fleet, documents: Mapping[str, bytes]) -> dict[str, tuple[NetworkConnector, ...]]:
    """Return, by host, all networkConnectors of brokers whose XML fragments add or change networkConnectors.

    Raises InputError for such a document that is no XML, or of a host that is no broker.
    """
    named = ((fleet.broker(host), document) for host, document in documents.items())
    return {
        broker.host: tuple(_connectors(broker, document))
        for broker, document in named
        if changes_network_connectors(broker)
    }


def changes_network_connectors(broker: Broker) -> bool:
    """Return whether a broker's ``activemq_xml_fragments`` add or change networkConnectors."""
    fragments = broker.settings.xml_fragments
    return any(_CONNECTOR in fragment.xml or _CONNECTOR in fragment.parent for fragment in fragments)


def _connectors(broker: Broker, document: bytes) -> Iterator[NetworkConnector]:
    try:
        root = etree.fromstring(document, etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False))
    except etree.XMLSyntaxError as error:
        raise InputError(f"{broker.host}: activemq.xml cannot be read: {error}") from None
    for element in root.iter(f"{_CORE}{_CONNECTOR}"):
        yield _line(element, broker)


def _line(element: etree._Element, broker: Broker) -> NetworkConnector:
    uri = element.get("uri", "")
    network_ttl = element.get("networkTTL", "1")
    way = "multicast" if uri.startswith("multicast:") else "one" if _is_one(uri) else "each"
    near = element.get("decreaseNetworkConsumerPriority")
    dialled = tuple(_dialled(uri)) if way != "multicast" else ()
    return NetworkConnector(
        name=element.get("name", "NC"),
        way=way,  # type: ignore[arg-type]
        addresses=tuple(address for address, _ in dialled),
        multicast=multicast_of(uri) if way == "multicast" else None,
        duplex=boolean_of(element.get("duplex", "")) is True,
        consumer_ttl=_ttl(element.get("consumerTTL", network_ttl)),
        message_ttl=_ttl(element.get("messageTTL", network_ttl)),
        include=_destinations(element, "dynamicallyIncludedDestinations"),
        exclude=_destinations(element, "excludedDestinations"),
        near=boolean_of(near) is True if near is not None else broker.release.decreases_network_priority,
        subscribes=boolean_of(element.get("staticBridge", "")) is not True,
        static=_destinations(element, "staticallyIncludedDestinations"),
        secure=tuple(address for address, tls in dialled if tls),
        user=element.get("userName", ""),
    )


def _is_one(uri: str) -> bool:
    return uri.startswith("masterslave:") or "failover:" in uri


def _ttl(text: str) -> int:
    try:
        return limit_of(int(text))
    except ValueError:  # a placeholder of the user's: nothing is known, so nothing is claimed
        return UNLIMITED


def _dialled(uri: str) -> Iterator[tuple[addresses.Address, bool]]:
    """What a URI dials, each with whether it is dialled with TLS."""
    for scheme, place in _DIALLED.findall(uri):
        try:
            yield addresses.parse(place), "ssl" in scheme
        except ValueError:
            continue  # a place that nobody of this fleet is at


def _destinations(element: etree._Element, property_name: str) -> tuple[str, ...]:
    return tuple(
        f"{kind}://{child.get('physicalName')}"
        for holder in element.iterchildren(f"{_CORE}{property_name}")
        for child in holder.iterchildren()
        for kind in _KINDS
        if child.tag == f"{_CORE}{kind}"
    )
