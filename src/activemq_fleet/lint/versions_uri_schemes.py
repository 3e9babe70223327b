"""Rules V about the URI schemes that a release supports."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.locations import DISCOVERY_SERVICES, TRANSPORT_SERVICES, scheme_service_file_path
from activemq_fleet.releases import uri_schemes_of_all_releases

# A scheme as java.net.URI parses it; preceding blanks are removed before the match.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@rule("V008", "error", refuses=True)
def unknown_discovery_scheme(document: Document) -> Iterator[Problem]:
    """A networkConnector's URI scheme is not a discovery agent of the release.

    Why: the broker logs "DiscoveryAgent scheme NOT recognized" and does not start. masterslave: and zeroconf: were
        added in 5.6.0, rendezvous: was removed after 5.5.1, and a transport such as tcp: or failover: is not a
        discovery agent in any release.
    Fix: before 5.6, replace masterslave:(…) with
        static:(failover:(tcp://a:61616,tcp://b:61616)?randomize=false&amp;maxReconnectAttempts=1). From 5.6 on, replace
        rendezvous: with zeroconf:. Enclose the URI of a transport in static:(…).
    Source: META-INF/services of the release tags; measured on 5.5.1, 5.6.0, 5.18.3 and 6.3.1

    Fires on 5.5.1::

        <networkConnector name="south" uri="masterslave:(tcp://south-a:61616,tcp://south-b:61616)"/>

    Fires on 5.18.3::

        <networkConnector name="south" uri="rendezvous:default"/>

    Fires on 5.18.3::

        <networkConnector name="south" uri="failover:(tcp://south-a:61616,tcp://south-b:61616)"/>

    Silent on 5.6.0::

        <networkConnector name="south" uri="masterslave:(tcp://south-a:61616,tcp://south-b:61616)"/>
    """
    for node, attribute in document.attributes_with_discovery_uri:
        scheme = node.uri_attribute_or_empty(attribute).scheme
        if (
            scheme
            and scheme not in document.release.discovery_schemes
            and scheme_service_file_path(scheme, DISCOVERY_SERVICES) not in document.other_files
        ):
            yield node.problem(
                f"ActiveMQ {document.release.text} has no discovery agent for the URI scheme {scheme} "
                f"(only for {', '.join(sorted(document.release.discovery_schemes))})"
                f"{_added_jar_clause(scheme, DISCOVERY_SERVICES)}",
                attribute,
                f"{scheme}:",
                fix=_fix_of_agent(scheme, document),
            )


def _fix_of_agent(scheme: str, document: Document) -> str:
    """Return the replacement for a scheme that is not a discovery agent; "" if the fix of the rule applies."""
    agents = document.release.discovery_schemes
    if scheme in ("masterslave", "failover"):
        if "masterslave" in agents:
            return "write masterslave:(tcp://a:61616,tcp://b:61616) for a pair, and static:(URI,URI) for other brokers"
        uri = "failover:(tcp://a:61616,tcp://b:61616)?randomize=false&amp;maxReconnectAttempts=1"
        return f"write static:({uri}) for a pair, and static:(URI,URI) for other brokers"
    renamed = {"rendezvous": "zeroconf", "zeroconf": "rendezvous"}.get(scheme)
    if renamed in agents:
        return f"write {renamed}:, which is the name of this discovery agent in {document.release.text}"
    if scheme in document.release.schemes:
        return f"write static:({scheme}://host:port)"
    if scheme in uri_schemes_of_all_releases():
        return ""
    return f"write static:(tcp://host:port), or put the jar with the discovery agent {scheme} into lib/optional"


def _added_jar_clause(scheme: str, directory: str) -> str:
    """Return a clause for a scheme of no release, whose code a jar of the user may contain; "" for any other scheme."""
    if scheme in uri_schemes_of_all_releases():
        return ""
    return f", unless an added jar contains {scheme_service_file_path(scheme, directory)}"


@rule("V009", "error", each="transportConnector", refuses=True)
def unknown_transport_scheme(connector: Element) -> Iterator[Problem]:
    """A transportConnector has no URI scheme, or one that the release cannot listen on.

    Why: the broker has no code for the scheme and does not start. ws was added in 5.4, mqtt, nio+ssl and
        stomp+nio+ssl in 5.6, wss in 5.7, amqp in 5.8, auto in 5.13; xmpp was removed after 5.8.
    Fix: remove the connector, correct its scheme, or run a release that has it.
    Source: META-INF/services of the release tags; measured on 5.5.1, 5.7.0, 5.8.0, 5.11.4, 5.18.3 and 6.3.1

    Fires on 5.5.1::

        <transportConnector name="mqtt" uri="mqtt://0.0.0.0:1883"/>

    Fires on 5.18.3::

        <transportConnector name="more" uri="tpc://0.0.0.0:61617"/>

    Silent on 5.7.0::

        <transportConnector name="mqtt" uri="mqtt+nio://0.0.0.0:1883"/>
    """
    scheme = connector.uri_attribute_or_empty().scheme
    document = connector.document
    if scheme_service_file_path(scheme, TRANSPORT_SERVICES) in document.other_files:
        return
    if scheme and scheme not in document.release.schemes:
        text = (
            f"ActiveMQ {document.release.text} has no transport for the URI scheme "
            f"{scheme}{_added_jar_clause(scheme, TRANSPORT_SERVICES)}"
        )
        yield connector.problem(text, "uri", f"{scheme}:")
    elif (uri := connector.literal_value("uri")) and not _SCHEME.match(uri):
        fix = "begin the URI with the scheme of the protocol, such as tcp://, stomp:// or mqtt://"
        yield connector.problem(f"the URI {uri[:80]} of the connector has no scheme, such as tcp://", "uri", fix=fix)
