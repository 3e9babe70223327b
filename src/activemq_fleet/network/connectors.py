"""Parse ``<networkConnector>`` elements: their remote brokers, destinations, direction and TTLs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from activemq_fleet import addresses
from activemq_fleet.addresses import Address
from activemq_fleet.network.uri_parser import Uri
from activemq_fleet.node.protocols import is_encrypted, protocol_name_of_scheme
from activemq_fleet.releases import CORE
from activemq_fleet.spring_values import spring_boolean

DEFAULT_CONNECTOR_NAME = "NC"
"""The name of a networkConnector without one (NetworkBridgeConfiguration of the release tags)."""
UNLIMITED = 1 << 20
"""The value for a TTL of -1; no route is as long."""
DEFAULT_MULTICAST_ENDPOINT = "239.255.2.3:6155"
"""The endpoint that ``multicast://default`` represents (MulticastDiscoveryAgent of the release tags)."""
_DEFAULT_MULTICAST_ADDRESS, _, _DEFAULT_MULTICAST_PORT = DEFAULT_MULTICAST_ENDPOINT.partition(":")
_MULTICAST_ENDPOINT = re.compile(r"(?:multicast:)?/*(?P<address>[^/]*?)(?::(?P<port>[0-9]+))?(?:/.*)?", re.ASCII)
_TTL = re.compile("-?[0-9]{1,9}", re.ASCII)
_KINDS = ("queue", "topic")
_ONE_BRIDGE_SCHEMES = ("masterslave", "failover")

Way = Literal["one", "each", "multicast"]


def _hop_limit(ttl: int | None) -> int:
    """Return the maximum number of bridges that demand or messages may cross with a network TTL.

    It is UNLIMITED for a TTL of -1. It is also UNLIMITED for an unknown TTL (None), so that no rule reports the TTL as
    too small.
    """
    return UNLIMITED if ttl is None or ttl < 0 else ttl


@dataclass(frozen=True, slots=True)
class NetworkConnector:
    """A networkConnector of a broker, from an activemq.xml or from the inventory's links.

    ``way``: a bridge to ``one`` of the addresses that answers (masterslave:, failover:), to ``each``, or to all brokers
    that announce themselves at ``multicast``, (endpoint, group). ``addresses`` are those of its URI that a bridge can
    connect to, in the URI's order; to those in ``secure`` it connects with TLS. ``include``, ``exclude`` and
    ``static`` are ``queue://PATTERN`` or ``topic://PATTERN``; ``static`` are destinations that need no demand.
    """

    name: str
    """The name as written, "" for an element without one."""
    way: Way
    addresses: tuple[Address, ...]
    multicast: tuple[str, str] | None
    duplex: bool | None
    """None for a text that is no boolean."""
    consumer_ttl: int | None
    """The networkTTL, or else the consumerTTL; None for a text that is no number, such as a placeholder."""
    message_ttl: int | None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    near: bool | None = True
    """decreaseNetworkConsumerPriority; None for an element without it, which has its release's default."""
    subscribes: bool = True
    """False for a static bridge (staticBridge)."""
    secure: tuple[Address, ...] = ()
    user: str | None = None
    """The userName, "" for none. None for the userName of a link whose two ends T009 compares."""
    has_split_ttl: bool = field(default=False, compare=False)
    """Whether consumerTTL or messageTTL is set, and no networkTTL, which replaces both."""
    has_plain_destinations: bool = field(default=True, compare=False)
    """Whether each destination in its lists is a queue or topic with a physicalName alone."""
    uri: str = field(default="", compare=False)
    attributes: Mapping[str, str] = field(default_factory=dict, compare=False)
    """All XML attributes as written, by name."""

    @property
    def carried_destinations(self) -> tuple[str, ...]:
        """The destinations that the networkConnector carries unless ``exclude`` has them; empty if it carries all.

        It is also empty for a static bridge without ``static``, which carries no messages.
        """
        if not self.subscribes:
            return self.static
        return (*self.include, *self.static) if self.include else ()

    @property
    def demand_hop_limit(self) -> int:
        """The maximum number of bridges between this broker and a consumer that it sends messages to (consumerTTL).

        UNLIMITED means no limit.
        """
        return _hop_limit(self.consumer_ttl)

    @property
    def message_hop_limit(self) -> int:
        """The maximum number of bridges that a message may cross over the networkConnector.

        UNLIMITED means no limit.
        """
        return _hop_limit(self.message_ttl)


def _parse_ttl(text: str) -> int | None:
    """Return the network TTL in a text as a number of bridges, -1 for no limit.

    The result is None for a placeholder and other text.
    """
    return int(text) if _TTL.fullmatch(text) else None


def parse_network_connector(element: Any) -> NetworkConnector:
    """Return the NetworkConnector that an XML element defines.

    The function never raises, whatever the element contains. ``element`` has a ``tag`` (``{namespace}name``), a mapping
    ``attrib`` and its children as an iterable, as elements of lxml do.
    """
    attributes = {str(name): str(text) for name, text in element.attrib.items()}
    uri = attributes.get("uri", "")
    parsed_uri = Uri.parse(uri)
    way: Way = (
        "multicast" if uri.startswith("multicast:") else "one" if _connects_to_one_address(parsed_uri) else "each"
    )
    targets = () if way == "multicast" else tuple(_addresses_with_tls(parsed_uri))
    network_ttl = attributes.get("networkTTL", "1")
    near = attributes.get("decreaseNetworkConsumerPriority")
    lists = {name: list(_destinations_below(element, name)) for name in _LIST_NAMES}
    # The broker sets networkTTL last, in alphabetical order, and it replaces both (measured on 5.11.4 to 6.3.1).
    has_split_ttl = "networkTTL" not in attributes and bool({"consumerTTL", "messageTTL"} & attributes.keys())
    return NetworkConnector(
        name=attributes.get("name", ""),
        way=way,
        addresses=tuple(address for address, _ in targets),
        multicast=multicast_endpoint_and_group(uri) if way == "multicast" else None,
        duplex=spring_boolean(attributes.get("duplex", "false")),
        consumer_ttl=_parse_ttl(attributes.get("consumerTTL", "1") if has_split_ttl else network_ttl),
        message_ttl=_parse_ttl(attributes.get("messageTTL", "1") if has_split_ttl else network_ttl),
        include=_qualified_names(lists[_INCLUDE]),
        exclude=_qualified_names(lists[_EXCLUDE]),
        static=_qualified_names(lists[_STATIC]),
        near=None if near is None else spring_boolean(near) is True,
        subscribes=spring_boolean(attributes.get("staticBridge", "")) is not True,
        secure=tuple(address for address, tls in targets if tls),
        user=attributes.get("userName", ""),
        has_split_ttl=has_split_ttl,
        has_plain_destinations=all(_has_only_physical_name(child) for children in lists.values() for child in children),
        uri=uri,
        attributes=attributes,
    )


_INCLUDE, _EXCLUDE, _STATIC = (
    "dynamicallyIncludedDestinations",
    "excludedDestinations",
    "staticallyIncludedDestinations",
)
_LIST_NAMES = (_INCLUDE, _EXCLUDE, _STATIC)


def _connects_to_one_address(uri: Uri) -> bool:
    """Return whether a networkConnector with a URI opens a single bridge.

    ``static:`` opens one to each member of its list, also if several members are failover: URIs.
    """
    return uri.scheme in _ONE_BRIDGE_SCHEMES or (len(uri.parts) == 1 and uri.parts[0].scheme in _ONE_BRIDGE_SCHEMES)


def _addresses_with_tls(uri: Uri) -> Iterator[tuple[Address, bool]]:
    """Yield each address of a URI at which a broker can listen, and whether the broker connects to it with TLS."""
    for transport in uri.transport_uris:
        if protocol_name_of_scheme(transport.scheme) == "openwire":
            try:
                yield (
                    addresses.parse_host_port(addresses.join_host_port(transport.host, transport.port)),
                    is_encrypted(transport.scheme),
                )
            except ValueError:
                continue  # No broker of a fleet can have such an address.


def multicast_endpoint_and_group(uri: str) -> tuple[str, str]:
    """Return (ENDPOINT, GROUP) of the URI ``multicast://ENDPOINT?group=GROUP``.

    The endpoint is ``ADDRESS:PORT``. A missing address, port or group, and the address ``default``, are replaced by
    the values that the broker uses, so that URIs with the same meaning have equal results. Other options of the URI
    are ignored.
    """
    endpoint, _, query = uri.partition("?")
    options = dict(option.partition("=")[::2] for option in query.replace("&amp;", "&").split("&"))
    match = _MULTICAST_ENDPOINT.fullmatch(endpoint)
    address, port = (match["address"], match["port"]) if match else (endpoint, None)
    if address in ("", "default"):
        address = _DEFAULT_MULTICAST_ADDRESS
    return f"{address}:{port or _DEFAULT_MULTICAST_PORT}", options.get("group", "default")


def _destinations_below(element: Any, list_name: str) -> Iterator[Any]:
    """Yield the elements in the lists of one name below a networkConnector."""
    for holder in element:
        if holder.tag == f"{{{CORE}}}{list_name}":
            yield from (child for child in holder if isinstance(child.tag, str))


def _destination_kind(destination: Any) -> str:
    """Return ``queue`` or ``topic``, or "" for another element."""
    namespace, _, kind = destination.tag.rpartition("}")
    return kind if kind in _KINDS and namespace == f"{{{CORE}" else ""


def _qualified_names(destinations: Iterable[Any]) -> tuple[str, ...]:
    return tuple(
        f"{kind}://{destination.attrib.get('physicalName', '')}"
        for destination in destinations
        if (kind := _destination_kind(destination))
    )


def _has_only_physical_name(destination: Any) -> bool:
    has_children = any(isinstance(child.tag, str) for child in destination)
    return bool(_destination_kind(destination)) and set(destination.attrib) == {"physicalName"} and not has_children
