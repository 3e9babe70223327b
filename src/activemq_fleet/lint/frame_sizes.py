"""Rules N and S about frame sizes: the sizes that clients can send, and the sizes that links can carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from activemq_fleet.addresses import is_loopback
from activemq_fleet.findings import Severity
from activemq_fleet.lint.clients_connectors import listener_uri
from activemq_fleet.lint.deployed_links import LintedLink
from activemq_fleet.lint.document import Element, Problem
from activemq_fleet.lint.engine import XML_FRAGMENTS, rule, variable_to_change
from activemq_fleet.lint.fleets import FleetView
from activemq_fleet.network.uri_parser import Uri
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.node.protocols import PROTOCOLS, protocol_name_of_scheme
from activemq_fleet.releases import Release
from activemq_fleet.settings.connectors_and_links import FRAME_SIZE
from activemq_fleet.settings.java_memory_options import largest_heap_bytes
from activemq_fleet.topology import Broker, Connector
from activemq_fleet.uris import is_openwire

_MIB = 1 << 20
_NO_LIMIT = 1 << 62
_STOMP_GROWTH = 3
"""The factor by which a byte of a STOMP frame that is not UTF-8 grows: it becomes a character of 3 bytes."""
_STOMP_HEADER_BYTES = 1001 * 10_241
"""The maximum size of a STOMP frame's headers. Up to 5.11 its body does not grow: measured on 5.8.0 and 5.11.4."""
_MAX_OPENWIRE_OVERHEAD = 64 << 10
"""The maximum number of bytes that OpenWire adds: measured 32 per broker, and 8 KiB for 1,000 headers."""
_MIN_OPENWIRE_OVERHEAD = 64
"""The minimum number of bytes by which each message of STOMP and MQTT grows: at least 79 were measured."""
_DEFAULT_FRAME_SIZES = {"amqp": _NO_LIMIT, "stomp": 100 * _MIB, "ws": 100 * _MIB, "mqtt": 256 * _MIB}
_OPENWIRE_100_MIB = "5.6.0 !5.7.0"
# The default limit of a frame: no limit from 5.7 on (OpenWireFormat), 100 MB in 5.6.
_OPENWIRE_UNLIMITED = "5.7.0"
_LIMIT_OPTIONS = (FRAME_SIZE, "maximumConnections")
_FEW_FRAMES = 5
_MAX_DIGITS = 15


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
        is_mib_multiple = self.size % _MIB == 0
        return f"{self.size // _MIB} MiB" if is_mib_multiple else f"{self.size} bytes"


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
    limits = {broker.host: _limits_by_connector(broker) for broker in view.brokers}
    reported: set[tuple[str, str, str]] = set()
    for link in (
        *view.pair_bridge_graph.planned,
        *(link for links in view.pair_bridge_graph.multicast.values() for link in links),
    ):
        for source in (link.broker,) if link.node else view.brokers_by_pair[link.source_pair_name]:
            for target, link_limit in _limits_of_link(view, link, limits):
                pairs = [(source, target), (target, source)] if link.is_duplex else [(source, target)]
                for sender, receiver in pairs:
                    key = sender.host, receiver.host, link_limit.place
                    if sender.name_in_links != receiver.name_in_links and key not in reported:
                        reported.add(key)
                        yield from _link_size_problems(limits[sender.host], sender, receiver, link, link_limit)


def _link_size_problems(
    limits: Mapping[str, FrameLimit], sender: Broker, receiver: Broker, link: LintedLink, link_limit: FrameLimit
) -> Iterator[Problem]:
    accepted = {name: limit for name, limit in limits.items() if name != "replication"}
    too_large = {name: limit for name, limit in accepted.items() if limit.size + limit.added > link_limit.size}
    if not too_large:
        too_large = {name: limit for name, limit in accepted.items() if limit.size + limit.most_added > link_limit.size}
        is_certain = False
    else:
        is_certain = any(limit.is_set for limit in (link_limit, *too_large.values()))
    if too_large:
        growth_note = ", but the same message is larger in OpenWire"
        accepting_connectors = ", ".join(
            f"{name} ({limit.size_text}{'' if limit.size > link_limit.size else growth_note})"
            for name, limit in too_large.items()
        )
        yield Problem(
            f"link {link.connector_name} to {receiver.host} is blocked by the first message of more than "
            f"{link_limit.size_text}, the limit of {link_limit.place}. Connectors of {sender.host} accept larger "
            f"messages: {accepting_connectors}",
            node=link.node,
            severity=None if is_certain else "info",
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
        listener = view.brokers_by_address.listener_at(transport.host, transport.port or 0)
        if listener:
            both_ends = [limits[listener.broker.host][listener.connector.name]]
            if (size := _parse_number(transport.options.get(FRAME_SIZE))) and link.broker.release.has_max_frame_size:
                both_ends.append(FrameLimit(f"the URI of the link at {link.broker.host}", size, is_set=True))
            yield listener.broker, min(both_ends, key=lambda limit: limit.size)


def _limits_by_connector(broker: Broker) -> dict[str, FrameLimit]:
    """Return the frame limit of each connector of a broker by name."""
    names_with_options = {
        connector.name for connector in broker.settings.connectors or () if "options" in connector.model_fields_set
    }
    return {
        connector.name: _limit_of_connector(broker, connector, connector.name in names_with_options)
        for connector in broker.connectors
    }


def _limit_of_connector(broker: Broker, connector: Connector, is_listed: bool) -> FrameLimit:
    place = f"connector {connector.name} of {broker.host}"
    protocol = protocol_name_of_scheme(connector.scheme)
    size = _parse_number(connector.options.get(FRAME_SIZE))
    if protocol == "openwire":
        default = 100 * _MIB if broker.release.is_within_span(_OPENWIRE_100_MIB) else _NO_LIMIT
        return FrameLimit(place, (size if broker.release.has_max_frame_size else None) or default, is_listed)
    if protocol not in _DEFAULT_FRAME_SIZES:
        return FrameLimit(place, 0, is_listed)
    is_limited = broker.release.limits_client_frames
    size = (size if is_limited else None) or _DEFAULT_FRAME_SIZES[protocol]
    growing_bytes = 0 if protocol in ("amqp", "mqtt") else size if is_limited else min(size, _STOMP_HEADER_BYTES)
    return FrameLimit(
        place, size, is_listed, _MIN_OPENWIRE_OVERHEAD, _MAX_OPENWIRE_OVERHEAD + (_STOMP_GROWTH - 1) * growing_bytes
    )


@rule("S009", "warning", each="transportConnector")
def connector_without_max_frame_size(connector: Element) -> Iterator[Problem]:
    """A connector sets no wireFormat.maxFrameSize: it accepts frames of any size.

    Why: a frame begins with its length, and the broker allocates that much memory, so a few clients or one port
        scanner can exhaust the heap.
    Fix: add wireFormat.maxFrameSize=10485760 (10 MB), or the size of the largest message, to the connector's URI.
        Releases before 5.6 have no such option: in a firewall, permit connections to the port of the connector only
        from the addresses of its clients.
    Source: OpenWireFormat, AmqpWireFormat, MQTTWireFormat of the release tags; SECURITY.md of 6.3.1

    Fires on 5.18.3::

        <transportConnector name="clients" uri="nio://0.0.0.0:61617"/>

    Silent on 5.18.3::

        <transportConnector name="clients" uri="nio://0.0.0.0:61617?wireFormat.maxFrameSize=104857600"/>
    """
    uri = listener_uri(connector)
    if FRAME_SIZE in uri.options or "${" in uri.text:
        return
    if uri.scheme.startswith("auto") and "wireFormat.default.maxFrameSize" in uri.options:
        return
    document, release = connector.document, connector.document.release
    size = _largest_frame_text(uri, release)
    if not size or (document.broker is not None and not release.has_max_frame_size):
        return
    name = connector.get("name") or uri.text
    if not release.has_max_frame_size:
        message = f"connector {name} accepts frames {size}: release {release} has no option that limits them"
        fix = (
            "in a firewall, permit connections to the port of the connector only from the addresses of its clients. Or "
            f"upgrade to 5.6 or later and set {FRAME_SIZE} in the URI of the connector"
        )
        yield connector.problem(message, "uri", severity="info", fix=fix)
        return
    message = f"connector {name} accepts frames {size}"
    misspelled_option = next((option for option in uri.options if option.lower() == FRAME_SIZE.lower()), "")
    if misspelled_option:
        message += f": the broker ignores {misspelled_option}, because the option is {FRAME_SIZE}"
    else:
        message += ": a few clients can exhaust the heap"
    size_option = f"{FRAME_SIZE}=10485760 (10 MB), or the size of the largest message"
    variable = variable_to_change(connector, "uri")
    if misspelled_option:
        fix = f"write {size_option}, instead of {misspelled_option}" + (f" in {variable}" if variable else "")
    elif variable is None or variable == XML_FRAGMENTS:
        fix = f"add {size_option}, to the connector's URI" + (f" in {variable}" if variable else "")
    else:
        fix = (
            f"add {FRAME_SIZE}: 10485760 (10 MB), or the size of the largest message, to the options of connector "
            f"{name} in {variable}"
        )
    # No variable adds options to a pure master's connector for replication.
    replicates = document.ha_profile is not None and document.ha_profile.replicates and name == "replication"
    severity: Severity | None = "info" if is_loopback(uri.host) or replicates else None
    yield connector.problem(message, "uri", misspelled_option, severity=severity, fix=fix)


def _largest_frame_text(uri: Uri, release: Release) -> str:
    """Return the size of the largest frame that a connector accepts without maxFrameSize, as text.

    The result is "" if the release limits frames.
    """
    if is_openwire(uri.scheme):
        unlimited = release.is_within_span(_OPENWIRE_UNLIMITED) or not release.has_max_frame_size
        return "of any size" if unlimited else ""
    protocol = PROTOCOLS.get(protocol_name_of_scheme(uri.scheme))
    if (
        protocol is None
        or not protocol.max_frame_size_since
        or not release.is_within_span(protocol.max_frame_size_since)
    ):
        return ""
    return protocol.default_frames


@rule("S018", "warning", scope="fleet")
def frames_of_one_connector_exceed_heap(view: FleetView) -> Iterator[Problem]:
    """The frames that the clients of one connector can send at the same time do not fit in the heap.

    Why: a frame (one message or command on a connection) begins with its length. The broker reserves this memory
        before the client authenticates. Any client that can connect can therefore stop the broker: it opens connections
        and sends only the first bytes of a large frame on each, until the broker has an OutOfMemoryError.
    Fix: in the options of activemq_connectors, lower wireFormat.maxFrameSize to the size of the largest message, or
        maximumConnections to the number of clients. Or raise the heap: activemq_heap, or
        -Xmx in activemq_java_options.
    Cannot see: connectors in activemq_xml_fragments. The rule does not report a connector whose options in
        activemq_connectors set neither wireFormat.maxFrameSize nor maximumConnections. The finding is a warning if the
        heap has room for fewer than five frames of this size, and otherwise an info.
    Source: measured on 5.18.3 and 6.3.1 with a heap of 512 MB

    Fires on 5.18.3::

        all:
          activemq_heap: 1g
          activemq_connectors:
            - {name: openwire, scheme: nio, port: 61616, options: {wireFormat.maxFrameSize: 536870912}}
        hosts:
          orders-mq01-a.example.com:
          orders-mq01-b.example.com:

    Silent on 5.18.3::

        all:
          activemq_heap: 8g
          activemq_connectors:
            - name: openwire
              scheme: nio
              port: 61616
              options: {wireFormat.maxFrameSize: 1048576, maximumConnections: 1000}
        hosts:
          orders-mq01-a.example.com:
          orders-mq01-b.example.com:
    """
    for broker in view.brokers:
        heap = largest_heap_bytes(broker.settings)
        connectors_with_options = [c for c in broker.settings.connectors or () if "options" in c.model_fields_set]
        limited_names = {
            connector.name
            for connector in connectors_with_options
            if not connector.options.keys().isdisjoint(_LIMIT_OPTIONS)
        }
        too_large = []
        for connector in (connector for connector in broker.connectors if connector.name in limited_names):
            frame, connection_limit = (_parse_number(connector.options.get(name)) for name in _LIMIT_OPTIONS)
            if heap and frame and (connection_limit is None or connection_limit * frame > heap):
                too_large.append(
                    (frame, connector.name, "any number of" if connection_limit is None else connection_limit)
                )
        if too_large:
            frame, name, accepted = max(too_large, key=lambda item: item[0])
            yield Problem(
                f"connector {name} accepts {accepted} connections and frames of up to {frame >> 20} MiB, but the heap "
                f"of {heap >> 20} MiB has room for {count_with_noun(heap // frame, 'frame')} of this size",
                host=broker.host,
                severity="warning" if heap // frame < _FEW_FRAMES else "info",
            )


def _parse_number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < _MAX_DIGITS else None
