"""Rules V about the URI schemes that a release supports, and about names that must be unique."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.locations import DISCOVERY_SERVICES, TRANSPORT_SERVICES, scheme_service_file_path
from activemq_fleet.releases import every_uri_scheme
from activemq_fleet.schema import BEANS, CORE

# The characters with which Spring separates names.
_NAME_SEPARATORS = re.compile(r"[,;\s]+")
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
    if scheme in every_uri_scheme():
        return ""
    return f"write static:(tcp://host:port), or put the jar with the discovery agent {scheme} into lib/optional"


def _added_jar_clause(scheme: str, directory: str) -> str:
    """Return a clause for a scheme of no release, whose code a jar of the user may contain; "" for any other scheme."""
    if scheme in every_uri_scheme():
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


@rule("V016", "error", refuses=True)
def duplicate_bean_name_or_id(document: Document) -> Iterator[Problem]:
    """Two beans have the same name or id, such as two networkConnectors.

    Why: Spring creates a bean from each element with a name or id. Both the name and the id are names of this bean. A
        networkConnector and a transportConnector therefore cannot have the same name. The broker rejects the second
        bean ("Bean name is already used") and does not start. Spring splits a name at each space, comma and semicolon:
        "to east" and "to west" both contain the name "to".
    Fix: give every connector a unique name without spaces: north-to-south for a link, openwire for a connector.
    Source: Spring's bean names; measured on eleven releases, 5.5.1 to 6.3.1

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south:61616)"/>
        <networkConnector name="south" uri="static:(tcp://east:61616)"/>

    Fires on 5.5.1::

        <networkConnector name="openwire" uri="static:(tcp://south:61616)"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south:61616)"/>
        <networkConnector name="east" uri="static:(tcp://east:61616)"/>
    """
    first_uses: dict[tuple[Element | None, str], Element] = {}
    nested_nodes = {
        node
        for bean in document.elements_with_given_names("bean")
        if bean.namespace == BEANS
        for node in bean.descendants()
    }
    for node in document.elements_with_attribute("id", "name"):
        if node in nested_nodes or not _is_bean(node):
            continue
        scope = node.nearest_ancestor_with_given_name("beans")
        names = [(attribute, name) for attribute in ("id", "name") for name in _bean_names(node, attribute)]
        for attribute, name in names:
            other = first_uses.get((scope, name))
            if other is not None:
                yield node.problem(
                    f'<{node.name}> has the same {attribute} "{name}" as the <{other.name}> in line '
                    f"{other.position()[0]}: the broker does not start",
                    attribute,
                    name,
                )
                break
        first_uses |= {(scope, name): node for _, name in names if (scope, name) not in first_uses}


def _is_bean(node: Element) -> bool:
    """Return whether an element's id must be unique: it is an ActiveMQ element, or a top-level Spring bean."""
    parent = node.parent
    if node.namespace == CORE:
        return True
    is_spring = (node.namespace, node.name) == (BEANS, "bean")
    return is_spring and parent is not None and (parent.namespace, parent.name) == (BEANS, "beans")


def _bean_names(node: Element, attribute: str) -> list[str]:
    value = node.literal_value(attribute)
    if value is None:
        return []
    return [value] if attribute == "id" else [name for name in dict.fromkeys(_NAME_SEPARATORS.split(value)) if name]
