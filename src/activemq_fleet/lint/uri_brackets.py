"""The rules about composite URIs whose parentheses do not match."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.network.uri_parser import COMPOSITE, has_placeholder

_URI_ATTRIBUTES = frozenset((
    "uri", "discoveryUri", "discoveryURI", "brokerURL", "remote", "local", "localUri", "localURI", "remoteURI",
    "masterConnectorURI", "vmConnectorURI",
))  # fmt: skip
_URI_ATTRIBUTES_PARSED_AT_START: Mapping[str, frozenset[str]] = MappingProxyType(
    {"networkConnector": frozenset({"uri"}), "transportConnector": frozenset({"discoveryUri", "discoveryURI"})}
)
"""The attributes whose URIs a broker parses while it starts, by element."""
_BRACKET = re.compile(r"[()]")


@rule("V029", "error", each="networkConnector transportConnector", refuses=True)
def unbalanced_link_or_discovery_uri(connector: Element) -> Iterator[Problem]:
    """A networkConnector's URI, or a transportConnector's discovery URI, has an unmatched parenthesis.

    Why: ActiveMQ cannot divide the URI into its parts. The broker logs "Not a matching number of '(' and ')'
        parenthesis" or "Cannot create inner bean", and does not start.
    Fix: close every parenthesis, as in static:(tcp://a:61616).
    Cannot see: URIs with placeholders. V056 reports other elements.
    Source: URISupport.checkParenthesis and parseComposite of the release tags; measured on 5.18.3

    Fires on 5.18.3::

        <networkConnectors><networkConnector name="n" uri="static:(tcp://a:61616"/></networkConnectors>

    Fires on 5.18.3::

        <transportConnector name="more" uri="tcp://0.0.0.0:21626" discoveryUri="static:(tcp://127.0.0.1:1"/>

    Silent on 5.18.3::

        <networkConnectors><networkConnector name="n" uri="static:(tcp://a:61616)"/></networkConnectors>
    """
    yield from _unbalanced_attributes(connector, _URI_ATTRIBUTES_PARSED_AT_START[connector.name])


@rule("V056", "error")
def unbalanced_composite_uri_outside_connectors(document: Document) -> Iterator[Problem]:
    """A composite URI outside of connectors has an unmatched parenthesis.

    Why: ActiveMQ cannot divide the URI into its parts, so each connection that uses the URI fails. The broker itself
        starts.
    Fix: close every parenthesis, as in failover:(tcp://a:61616).
    Cannot see: URIs with placeholders, and URIs in <property>. V029 reports network connectors and discovery URIs.
    Source: URISupport.checkParenthesis and parseComposite of the release tags; measured on 5.18.3, which starts with
        such a proxyConnector or connectionFactory

    Fires on 5.18.3::

        <proxyConnectors><proxyConnector bind="tcp://127.0.0.1:29911" remote="failover:(tcp://a:61616"/></proxyConnectors>

    Silent on 5.18.3::

        <proxyConnectors><proxyConnector bind="tcp://127.0.0.1:29911" remote="failover:(tcp://a:61616)"/></proxyConnectors>
    """
    for element in document.elements_with_attribute(*_URI_ATTRIBUTES):
        yield from _unbalanced_attributes(
            element, _URI_ATTRIBUTES - _URI_ATTRIBUTES_PARSED_AT_START.get(element.name, frozenset())
        )


def _unbalanced_attributes(element: Element, names: frozenset[str]) -> Iterator[Problem]:
    """Yield a problem for each of the named attributes whose value is a composite URI with unmatched parentheses."""
    for attribute in filter(names.__contains__, element.attributes):
        text = element.get(attribute).strip()
        scheme, _, rest = text.partition(":")
        is_composite = scheme in COMPOSITE or rest.removeprefix("//").startswith("(")
        if is_composite and not has_placeholder(text) and not _is_balanced(text):
            counts = f"{text.count('(')} opening and {text.count(')')} closing parentheses"
            message = f"the parentheses in {attribute} of <{element.name}> do not match: the URI has {counts}"
            yield element.problem(message, attribute)


def _is_balanced(text: str) -> bool:
    depth = 0
    for bracket in _BRACKET.findall(text):
        depth += 1 if bracket == "(" else -1
        if depth < 0:
            return False
    return depth == 0
