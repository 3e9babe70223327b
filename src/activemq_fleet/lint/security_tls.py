"""Rules S about TLS: connectors that use no TLS, and obsolete protocols."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.addresses import is_loopback
from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.security_authentication import non_vm_connectors_and_uris

_PASSWORD_PLUGINS = ("jaasAuthenticationPlugin", "jaasDualAuthenticationPlugin", "simpleAuthenticationPlugin")
_MAX_LISTED_CONNECTORS = 5
_OBSOLETE_PROTOCOL = re.compile(r"\b(SSLv2(?:Hello)?|SSLv3|SSL|TLSv1(?:\.[01])?)(?![\w.])")
_NAME_OF_ALL_PROTOCOLS = "SSL"  # of an SSLContext in Java: the same as TLS


@rule("S016", "info", each="broker")
def passwords_sent_in_clear_text(broker: Element) -> Iterator[Problem]:
    """Clients send their passwords in clear text.

    Why: without TLS, anyone who can capture the packets of a connection obtains the account and reads all messages.
    Fix: use the connector's scheme with TLS (nio+ssl, stomp+nio+ssl, mqtt+nio+ssl …) and set the key store of the
        broker in <sslContext>. In a fleet, set activemq_tls instead. Or bind the connector to 127.0.0.1 and place a TLS
        proxy in front of it.
    Cannot see: a network that is isolated or encrypted, which is why the finding is an info.
    Source: ConnectionInfo of OpenWire, CONNECT of STOMP and MQTT: the password as it is

    Fires on 5.18.3::

        <transportConnector name="mqtt" uri="mqtt://0.0.0.0:1883?wireFormat.maxFrameSize=1048576"/>

    Silent on 5.18.3::

        <broker>
          <transportConnectors>
            <transportConnector name="clients" uri="nio+ssl://0.0.0.0:61617?wireFormat.maxFrameSize=10485760"/>
            <transportConnector name="here" uri="nio://127.0.0.1:61616?wireFormat.maxFrameSize=10485760"/>
          </transportConnectors>
        </broker>
    """
    if not broker.descendants(*_PASSWORD_PLUGINS):
        return
    unencrypted = [
        (connector, uri)
        for connector, uri in non_vm_connectors_and_uris(broker)
        if uri.scheme and "ssl" not in uri.scheme and uri.scheme not in ("wss", "https") and not is_loopback(uri.host)
    ]
    if unencrypted:
        connector, _ = unencrypted[0]
        ports = ", ".join(f"{uri.scheme} on {uri.port}" for _, uri in unencrypted[:_MAX_LISTED_CONNECTORS])
        more = (
            f" and {len(unencrypted) - _MAX_LISTED_CONNECTORS} more"
            if len(unencrypted) > _MAX_LISTED_CONNECTORS
            else ""
        )
        yield connector.problem(f"clients send passwords in clear text to connectors without TLS: {ports}{more}")


@rule("S020", "warning", texts="SSL TLSv1")
def obsolete_tls_protocol_enabled(document: Document) -> Iterator[Problem]:
    """A setting enables SSLv3, TLS 1.0 or TLS 1.1 by name.

    Why: these protocols are insecure. Java disabled SSLv3 in 2015, and TLS 1.0 and 1.1 in 2021. A connector that
        permits only these protocols accepts no connection. A connector that also permits newer protocols accepts
        insecure clients on an older Java. The protocol of <sslContext> affects only links over ssl:.
    Fix: in URIs, remove enabledProtocols, or set it to TLSv1.2,TLSv1.3. On <sslContext>, set protocol="TLS".
    Cannot see: links that are added later. For an <sslContext> of a file without a link over ssl:, the finding is an
        info.
    Source: RFC 7568 (SSLv3), RFC 8996 (TLS 1.0 and 1.1); SSLContext measured on Java 11 and 17

    Fires on 5.18.3::

        <transportConnector name="ssl" uri="ssl://0.0.0.0:61617?transport.enabledProtocols=TLSv1,TLSv1.1"/>

    Silent on 5.18.3::

        <transportConnector name="ssl" uri="ssl://0.0.0.0:61617?transport.enabledProtocols=TLSv1.2"/>
    """
    for connector in (*document.transport_connectors, *document.network_connectors):
        for part in connector.uri_attribute_or_empty().uri_and_nested_uris():
            for option, value in part.options.items():
                if option.rpartition(".")[2] == "enabledProtocols" and (obsolete := _OBSOLETE_PROTOCOL.search(value)):
                    yield connector.problem(
                        f"the option {option} enables {obsolete[1]}, an insecure protocol",
                        "uri",
                        option,
                        fix=f"remove {option} from the URI, or set it to TLSv1.2,TLSv1.3",
                    )
    for context in document.elements_with_tag_name("sslContext"):
        protocol = context.literal_value("protocol") or ""
        if protocol != _NAME_OF_ALL_PROTOCOLS and _OBSOLETE_PROTOCOL.fullmatch(protocol):
            yield context.problem(
                f"<sslContext> limits links over ssl: to {protocol} and older, which are insecure",
                "protocol",
                severity=None if any("ssl:" in link.get("uri") for link in document.network_connectors) else "info",
                fix='write protocol="TLS" on <sslContext>',
                why="Java disabled these protocols in 2015 (SSLv3) and 2021, so that links over ssl: cannot connect. "
                "On an older Java they use an insecure protocol. Connectors still offer TLS 1.2 and 1.3",
            )
