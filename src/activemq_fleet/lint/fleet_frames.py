"""Rule N048: compare the messages that the connectors of a broker accept with the frames that its links carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from activemq_fleet.lint.document import Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.fleet_network_links import LintedLink
from activemq_fleet.lint.fleets import FleetView
from activemq_fleet.network.uri import Uri
from activemq_fleet.node.protocols import protocol_name_of_scheme
from activemq_fleet.settings.network import FRAME_SIZE
from activemq_fleet.topology import Broker, Connector

_MIB = 1 << 20
_NO_LIMIT = 1 << 62
_STOMP_GROWTH = 3
"""A byte of a STOMP frame that is not UTF-8 becomes a character of three bytes."""
_STOMP_HEADERS = 1001 * 10_241
"""The headers of a STOMP frame. Up to 5.11 its body does not grow: measured on 5.8.0 and 5.11.4."""
_HEADERS = 64 << 10
"""Bytes that suffice for what OpenWire adds to a message: measured 32 for each broker, 8 KiB for 1,000 headers."""
_ADDED = 64
"""Bytes by which each message of STOMP and MQTT grows: at least 79 were measured."""
_DEFAULT_FRAMES = {"amqp": _NO_LIMIT, "stomp": 100 * _MIB, "ws": 100 * _MIB, "mqtt": 256 * _MIB}
_OPENWIRE_100_MIB = "5.6.0 !5.7.0"
_DIGITS = 15


class FrameLimit(NamedTuple):
    """The largest frame, in bytes, that a connector or a network link accepts.

    ``is_set``: the inventory sets the limit. ``added`` and ``most_added``: the bytes by which a frame grows in OpenWire
    at least and at most. Those of an OpenWire frame are not counted, see "Cannot see" of the rule.
    """

    place: str
    size: int
    is_set: bool
    added: int = 0
    most_added: int = 0

    @property
    def size_text(self) -> str:
        """The size of the largest frame that a connector or a network link accepts, as text such as ``100 MiB``."""
        if self.size >= _NO_LIMIT:
            return "messages of any size"
        is_whole = self.size % _MIB == 0
        return f"{self.size // _MIB} MiB" if is_whole else f"{self.size} bytes"


@rule("N048", "warning", scope="fleet")
def messages_too_large_for_link(view: FleetView) -> Iterator[Problem]:
    """A connector accepts messages that are too large for a link of the broker.

    Why: the link fails at such a message, reconnects and fails at the same message again, every two seconds,
        indefinitely. The message and all messages after it in its queue stay on the sending broker. All other
        destinations of the link lose most of their throughput.
    Fix: in activemq_connectors, set wireFormat.maxFrameSize of the OpenWire connectors of all brokers to the same
        value. It must be at least three times the wireFormat.maxFrameSize of the STOMP connectors, and at least 64 KiB
        above that of the MQTT connectors.
    Cannot see: OpenWire messages that are only a few hundred bytes smaller than the limit. Each broker adds at least 32
        bytes to a message, so that it can become too large for a link. To prevent this, set wireFormat.maxFrameSize in
        the broker URL of the clients to 1024 bytes less than on the connectors. AMQP messages with lists and maps also
        grow. The finding is an info if the inventory sets no limit and only the defaults of the releases differ. It is
        also an info if only STOMP messages with many bytes that are not UTF-8 are too large.
    Source: OpenWireFormat, StompWireFormat and MQTTWireFormat of the release tags; measured on 5.8.0, 5.11.4, 5.18.3
        and 6.3.1

    Fires on 5.18.3::

        all: {activemq_ha: none}
        hosts:
          north-mq01-a: {}
          north-mq02-a:
            activemq_connectors:
              - {name: openwire, scheme: nio, port: 61616, options: {wireFormat.maxFrameSize: 1048576}}

    Silent on 5.18.3::

        all: {activemq_ha: none}
        hosts: {north-mq01-a: {}, north-mq02-a: {}}
    """
    limits = {broker.host: _limits_of(broker) for broker in view.brokers}
    reported: set[tuple[str, str, str]] = set()
    for link in (
        *view.bridge_graph.planned,
        *(link for links in view.bridge_graph.multicast.values() for link in links),
    ):
        for source in (link.broker,) if link.node else view.brokers_by_pair[link.source_pair_name]:
            for target, carried in _limits_of_link(view, link, limits):
                pairs = [(source, target), (target, source)] if link.is_duplex else [(source, target)]
                for sender, receiver in pairs:
                    key = sender.host, receiver.host, carried.place
                    if sender.link_end_name != receiver.link_end_name and key not in reported:
                        reported.add(key)
                        yield from _compare(limits[sender.host], sender, receiver, link, carried)


def _compare(
    limits: Mapping[str, FrameLimit], sender: Broker, receiver: Broker, link: LintedLink, carried: FrameLimit
) -> Iterator[Problem]:
    accepted = {name: limit for name, limit in limits.items() if name != "replication"}
    too_large = {name: limit for name, limit in accepted.items() if limit.size + limit.added > carried.size}
    if not too_large:
        too_large = {name: limit for name, limit in accepted.items() if limit.size + limit.most_added > carried.size}
        certain = False
    else:
        certain = any(limit.is_set for limit in (carried, *too_large.values()))
    if too_large:
        grows = ", but the same message is larger in OpenWire"
        accepting = ", ".join(
            f"{name} ({limit.size_text}{'' if limit.size > carried.size else grows})"
            for name, limit in too_large.items()
        )
        yield Problem(
            f"link {link.connector_name} to {receiver.host} is blocked by the first message of more than "
            f"{carried.size_text}, the "
            f"limit of {carried.place}. Connectors of {sender.host} accept larger messages: {accepting}",
            node=link.node,
            severity=None if certain else "info",
            host=sender.host,
        )


def _limits_of_link(
    view: FleetView, link: LintedLink, limits: Mapping[str, Mapping[str, FrameLimit]]
) -> Iterator[tuple[Broker, FrameLimit]]:
    """Yield (broker, frame limit) of each listener to which a network link connects.

    The smaller limit of both ends applies.
    """
    if not link.target:
        for broker in view.fleet.brokers:
            announced = next((c for c in broker.connectors if c.discovery_uri and c.name != "replication"), None)
            if announced and broker.group == link.broker.group:
                yield broker, limits[broker.host][announced.name]
        return
    uri = link.node.uri_attribute_or_empty() if link.node else Uri.parse(link.connector.uri)
    for transport in uri.transport_uris if uri else ():
        listener = view.listener_lookup.listener_at(transport.host, transport.port or 0)
        if listener:
            both_ends = [limits[listener.broker.host][listener.connector.name]]
            if (size := _size_in(transport.options.get(FRAME_SIZE))) and link.broker.release.has_max_frame_size:
                both_ends.append(FrameLimit(f"the URI of the link at {link.broker.host}", size, is_set=True))
            yield listener.broker, min(both_ends, key=lambda limit: limit.size)


def _limits_of(broker: Broker) -> dict[str, FrameLimit]:
    """Return the frame limit of each connector of a broker by name."""
    listed = {known.name for known in broker.settings.connectors or () if "options" in known.model_fields_set}
    return {connector.name: _limit_of(broker, connector, connector.name in listed) for connector in broker.connectors}


def _limit_of(broker: Broker, connector: Connector, is_listed: bool) -> FrameLimit:
    place = f"connector {connector.name} of {broker.host}"
    protocol = protocol_name_of_scheme(connector.scheme)
    size = _size_in(connector.options.get(FRAME_SIZE))
    if protocol == "openwire":
        default = 100 * _MIB if broker.release.is_within_span(_OPENWIRE_100_MIB) else _NO_LIMIT
        return FrameLimit(place, (size if broker.release.has_max_frame_size else None) or default, is_listed)
    if protocol not in _DEFAULT_FRAMES:
        return FrameLimit(place, 0, is_listed)
    is_limited = broker.release.limits_client_frames
    size = (size if is_limited else None) or _DEFAULT_FRAMES[protocol]
    growing = 0 if protocol in ("amqp", "mqtt") else size if is_limited else min(size, _STOMP_HEADERS)
    return FrameLimit(place, size, is_listed, _ADDED, _HEADERS + (_STOMP_GROWTH - 1) * growing)


def _size_in(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < _DIGITS else None
