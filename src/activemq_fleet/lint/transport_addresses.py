"""Rules about addresses in the URIs of listeners and links to which no connection is possible."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.addresses import bind_addresses_overlap, is_loopback
from activemq_fleet.lint.clients_connectors import listener_uri
from activemq_fleet.lint.document import PLACEHOLDER, Element, Problem
from activemq_fleet.lint.engine import XML_FRAGMENTS, rule, variable_to_change
from activemq_fleet.network.uri_parser import Uri, has_placeholder
from activemq_fleet.node.protocols import protocol_name_of_scheme

_TCP_PROTOCOLS = frozenset({"openwire", "stomp", "amqp", "mqtt"})
_HTTP_PROTOCOLS = frozenset({"ws", "wss", "http", "https"})
_HIGHEST_PORT = 65_535
_HAS_UNDERSCORE = "the host name has an underscore"
_HAS_SPACE = "the address contains a space"
_FIXES = {
    _HAS_UNDERSCORE: "write a host name without underscores, or the IP address",
    _HAS_SPACE: "write scheme://host:port without spaces",
}
"""The fix, by the reason why Java cannot use an address."""
_HOST_ALIAS_FIX = "write an IP address, or an alias of letters, digits and hyphens, instead of this host name"
_PORT_DIGITS = len(str(_HIGHEST_PORT)) + 1
_WHITE_SPACE = re.compile(r"\s")


@rule("V053", "error", each="transportConnector", refuses=True)
def unusable_listener_address(connector: Element) -> Iterator[Problem]:
    """A transportConnector's URI has no valid port, or a space in its address.

    Why: the broker opens its listeners while it starts, fails ("Port value out of range: -1", "Could not bind") and
        does not start. Java also reads no port from a URI without // after the scheme, or with an underscore in the
        host name.
    Fix: write scheme://host:port with a port from 1 to 65535, such as tcp://0.0.0.0:61616.
    Cannot see: addresses with a placeholder. Listeners of other transports than TCP are not checked.
    Source: TcpTransportServer of the release tags; java.net.URI; measured on 5.5.1, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <transportConnector name="more" uri="tcp://0.0.0.0:99999"/>

    Fires on 5.5.1::

        <transportConnector name="more" uri="stomp://0.0.0.0"/>

    Silent on 5.18.3::

        <transportConnector name="more" uri="tcp://0.0.0.0:21626?wireFormat.maxFrameSize=10485760"/>
    """
    uri = listener_uri(connector)
    if protocol_name_of_scheme(uri.scheme) in _TCP_PROTOCOLS and uri.scheme in connector.document.release.schemes:
        address = _uri_without_options(uri)
        if reason := _unusable_reason(address, uri.scheme):
            text = f"connector {connector.get('name')} cannot listen on {address}: {reason}"
            yield connector.problem(text, "uri", address, fix=_listener_fix(connector, reason))


def _listener_fix(connector: Element, reason: str) -> str:
    """Return the fix of a listener's address, with the variable that sets it; "" if the fix of the rule applies."""
    variable = variable_to_change(connector, "uri")
    fix = _FIXES.get(reason, "")
    if variable is None:
        return fix
    if variable == XML_FRAGMENTS:
        return f"in {variable}, {fix or 'write scheme://host:port with a port from 1 to 65535'}"
    name = connector.get("name")
    if not fix:
        return (
            f"set port of connector {name} in {variable}, or activemq_port_offset, so that their sum is a port from 1 "
            "to 65535"
        )
    address = "a host name without underscores" if reason == _HAS_UNDERSCORE else "a host name without spaces"
    return f"set bind of connector {name} in {variable}, or activemq_bind, to {address} or to an IP address"


@rule("V057", "error", each="broker", refuses=True, needs="transportConnector")
def listeners_on_one_port(broker: Element) -> Iterator[Problem]:
    """Two transportConnectors listen on the same port of the same address.

    Why: only one of them can open the port. The broker opens its listeners while it starts, fails ("Address already in
        use") and does not start.
    Fix: set another port in the uri of one of the two connectors, or remove one of them. A port can serve several
        protocols with the scheme auto+nio (from 5.13 on).
    Cannot see: addresses with a placeholder, and different names of one address.
    Source: TcpTransportServer.bind of the release tags; measured on 5.5.1, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <transportConnector name="stomp" uri="stomp://0.0.0.0:61616?wireFormat.maxFrameSize=10485760"/>

    Fires on 5.5.1::

        <transportConnector name="stomp" uri="stomp://0.0.0.0:61616"/>

    Fires on 6.3.1::

        <transportConnector name="mqtt" uri="mqtt+nio://0.0.0.0:61616?wireFormat.maxFrameSize=10485760"/>

    Silent on 5.18.3::

        <transportConnector name="stomp" uri="stomp://0.0.0.0:61613?wireFormat.maxFrameSize=10485760"/>
    """
    earlier_listeners: list[tuple[str, str, str]] = []
    for connector in broker.document.elements_with_tag_name("transportConnector"):
        host, port = _listening_socket(listener_uri(connector))
        if port and connector.nearest_ancestor_with_tag_name("broker") is broker:
            name = connector.get("name")
            for other, other_host, other_port in earlier_listeners:
                if port == other_port and bind_addresses_overlap(host, other_host):
                    text = (
                        f"the connectors {other} and {name} listen on the same port, {port}: the broker does not start"
                    )
                    yield connector.problem(text, "uri", port, fix=_shared_port_fix(connector, other))
                    break
            earlier_listeners.append((name, host, port))


def _listening_socket(uri: Uri) -> tuple[str, str]:
    """Return host and port on which a connector listens; the port is "" if the connector opens no known TCP port."""
    if protocol_name_of_scheme(uri.scheme) not in _TCP_PROTOCOLS | _HTTP_PROTOCOLS:
        return "", ""
    authority = _uri_without_options(uri).removeprefix(f"{uri.scheme}://").partition("/")[0]
    host, _, port = authority.rpartition(":")
    return host.strip("[]").lower(), port.lstrip("0") if port.isdecimal() else ""


def _shared_port_fix(connector: Element, other: str) -> str:
    """Return the fix of a port that two listeners of an inventory share; "" if the fix of the rule applies."""
    variable = variable_to_change(connector, "uri")
    if variable is None:
        return ""
    return (
        f"in {variable}, set another port for the connector {connector.get('name')} or {other}, or remove one of them"
    )


@rule("N062", "error", each="networkConnector")
def unusable_link_address(link: Element) -> Iterator[Problem]:
    """The URI of a link has an address without a valid port, or with an underscore in its host name.

    Why: the broker starts and logs "Could not start network bridge" at each attempt, and the bridge is never
        established.
    Fix: write tcp://host:port with a port from 1 to 65535. If a host name contains an underscore, write the host's IP
        address, or an alias of the host that has only letters, digits and hyphens.
    Cannot see: addresses with a placeholder.
    Source: java.net.URI; TcpTransport of the release tags; measured on 5.5.1 and 5.18.3

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south_broker:61616)"/>

    Fires on 5.18.3::

        <networkConnector name="south" uri="masterslave:(tcp://a:61616,tcp://b)"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south-broker:61616)"/>
    """
    for uri in link.uri_attribute_or_empty().transport_uris:
        has_unknown_value = has_placeholder(uri.text) or PLACEHOLDER.search(uri.text)
        if protocol_name_of_scheme(uri.scheme) == "openwire" and not has_unknown_value:
            address = _uri_without_options(uri)
            if reason := _unusable_reason(address, uri.scheme):
                name = f"link {link.get('name')}".rstrip()
                fix = f"write {uri.scheme}://host:port with a port from 1 to 65535"
                if reason in _FIXES:
                    fix = _HOST_ALIAS_FIX if reason == _HAS_UNDERSCORE else _FIXES[reason]
                yield link.problem(f"{name} cannot connect to {address}: {reason}", "uri", address, fix=fix)


def _uri_without_options(uri: Uri) -> str:
    """Return a URI without its options, as written."""
    return uri.text.partition("?")[0]


def _unusable_reason(address: str, scheme: str) -> str:
    """Return the reason why Java cannot use the address of a transport over TCP, as text; "" if it can."""
    authority = address.removeprefix(f"{scheme}:")
    if _WHITE_SPACE.search(address):
        return _HAS_SPACE
    if not authority.startswith("//"):
        return "the address lacks // after the scheme"
    host, _, port = authority[2:].partition("/")[0].rpartition(":")
    if not port.isdecimal() or authority.endswith("]") or int(port[:_PORT_DIGITS]) > _HIGHEST_PORT:
        return f"the address has no port from 1 to {_HIGHEST_PORT}"
    if not host:
        return "the address has no host"
    return _HAS_UNDERSCORE if "_" in host else ""


@rule("N047", "warning", each="networkConnector")
def bridge_to_placeholder_invalid_host(link: Element) -> Iterator[Problem]:
    """A bridge connects to a host below .invalid, a placeholder for an unknown address.

    Why: messages for the other broker stay on this one. `activemq-fleet adopt` writes such a name for a placeholder,
        such as ${HUB}, that no file defines.
    Fix: write the address of the other broker in activemq_links, or run `activemq-fleet adopt` again with
        --properties FILE.
    Source: RFC 2606, section 2

    Fires on 5.18.3::

        <networkConnector name="hub" uri="static:(tcp://hub-url.invalid:61616)"/>

    Silent on 5.18.3::

        <networkConnector name="hub" uri="static:(tcp://hub.example.com:61616)"/>
    """
    for peer in link.uri_attribute_or_empty().transport_uris:
        if peer.host.lower().endswith(".invalid"):
            yield link.problem(
                f"the link connects to {peer.host}, a placeholder name that never resolves: the bridge is "
                "never established",
                "uri",
                peer.host,
            )


def _broker_phrase(broker: Element) -> str:
    return f"broker {broker.get('brokerName')}" if broker.has_attribute("brokerName") else "the broker"


@rule("N041", "warning", each="broker")
def networked_broker_on_loopback_only(broker: Element) -> Iterator[Problem]:
    """A broker with links to other machines listens on loopback addresses only.

    Why: clients and bridges of other machines cannot connect. The broker receives messages only over duplex links that
        it opens.
    Fix: bind its transportConnectors to 0.0.0.0 or to an address that the other machines can reach.
    Source: 4 of 275 files of public repositories

    Fires on 5.18.3::

        <broker>
          <networkConnectors>
            <networkConnector name="south" uri="static:(tcp://south.example.com:61616)"/>
          </networkConnectors>
          <transportConnectors>
            <transportConnector name="openwire" uri="tcp://localhost:61616?wireFormat.maxFrameSize=10485760"/>
          </transportConnectors>
        </broker>

    Silent on 5.18.3::

        <broker>
          <networkConnectors>
            <networkConnector name="south" uri="static:(tcp://localhost:61617)"/>
          </networkConnectors>
          <transportConnectors>
            <transportConnector name="openwire" uri="tcp://localhost:61616?wireFormat.maxFrameSize=10485760"/>
          </transportConnectors>
        </broker>
    """
    connectors = [listener_uri(connector) for connector in broker.descendants("transportConnector")]
    hosts = [uri.host for uri in connectors if uri.scheme and uri.scheme != "vm"]
    if not hosts or not all(is_loopback(host) for host in hosts):
        return
    for link in broker.descendants("networkConnector"):
        linked_hosts = [
            part.host
            for part in link.uri_attribute_or_empty().transport_uris
            if link.literal_value("uri") and part.host and part.port
        ]
        remote_host = next((host for host in linked_hosts if not is_loopback(host)), "")
        if remote_host and not link.boolean_attribute("duplex", False):
            text = (
                f"{_broker_phrase(broker)} has a link to {remote_host}, but listens only on {hosts[0]}: "
                "no other machine can connect to it"
            )
            yield link.problem(text, "uri", remote_host)
