"""The rule about composite URIs whose parentheses do not match."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.network.uri import COMPOSITE, has_placeholder

_ATTRIBUTES = frozenset((
    "uri", "discoveryUri", "discoveryURI", "brokerURL", "remote", "local", "localUri", "localURI", "remoteURI",
    "masterConnectorURI", "vmConnectorURI",
))  # fmt: skip
_BRACKET = re.compile(r"[()]")


@rule("V029", "error")
def unbalanced_composite_uri(document: Document) -> Iterator[Problem]:
    """A composite URI has an unmatched parenthesis.

    Why: ActiveMQ cannot divide the URI into its parts, so the connector or link that uses it does not work.
    Fix: close every parenthesis, as in static:(tcp://a:61616).
    Cannot see: URIs with placeholders.
    Source: URISupport.checkParenthesis and parseComposite of the release tags

    Fires on 5.18.3::

        <networkConnectors><networkConnector name="n" uri="static:(tcp://a:61616"/></networkConnectors>

    Silent on 5.18.3::

        <networkConnectors><networkConnector name="n" uri="static:(tcp://a:61616)"/></networkConnectors>
    """
    for element in document.elements_with_attribute(*_ATTRIBUTES):
        for attribute in filter(_ATTRIBUTES.__contains__, element.attributes):
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
