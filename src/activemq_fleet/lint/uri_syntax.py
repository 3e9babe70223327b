"""The rules about URIs that Java cannot parse while the broker starts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from activemq_fleet.lint.document import Element, Problem
from activemq_fleet.lint.engine import in_variable_phrase, rule
from activemq_fleet.network.uri_parser import members_as_written
from activemq_fleet.node.protocols import protocol_name_of_scheme

_LISTS = frozenset({"static", "simple", "masterslave"})
_DISCOVERY_ATTRIBUTES = {"networkConnector": ("uri",), "transportConnector": ("discoveryUri", "discoveryURI")}
_TCP_PROTOCOLS = frozenset({"openwire", "stomp", "amqp", "mqtt"})
_SCHEME_PART = re.compile(r"([^:/?#]*):")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
# URLDecoder parses two characters after % as a hexadecimal number, which may have a plus sign.
_INVALID_ESCAPE = re.compile(r"%(?![0-9A-Fa-f+][0-9A-Fa-f])")


@rule("V068", "error", each="networkConnector transportConnector", refuses=True)
def unusable_member_of_composite_uri(connector: Element) -> Iterator[Problem]:
    """A URI in the list of static: or masterslave: begins with white space, or has no scheme.

    Why: Java cannot parse the URI ("Illegal character in scheme name at index 0"). The broker parses the list while it
        starts, fails with "Could not create discovery agent", and does not start.
    Fix: write the list without spaces and line breaks, and each URI with its scheme:
        static:(tcp://a:61616,tcp://b:61616).
    Cannot see: URIs with placeholders. Inside of failover:(...), white space does not stop the broker.
    Source: URISupport.parseComposite of the release tags; java.net.URI; measured on 5.5.1, 5.8.0, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://127.0.0.1:1, tcp://127.0.0.1:2)"/>

    Fires on 6.3.1::

        <networkConnector name="south" uri="masterslave:(
            tcp://127.0.0.1:1,
            tcp://127.0.0.1:2)"/>

    Fires on 5.5.1::

        <networkConnector name="south" uri="static:(127.0.0.1:1)"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://127.0.0.1:1 ,tcp://127.0.0.1:2)"/>

    Silent on 5.18.3::

        <networkConnector name="south"
            uri="static:(failover:(tcp://127.0.0.1:1, tcp://127.0.0.1:2)?randomize=false&amp;maxReconnectAttempts=1)"/>
    """
    for attribute in _DISCOVERY_ATTRIBUTES[connector.name]:
        text = connector.literal_value(attribute)
        scheme = text.partition(":")[0] if text else ""
        if text and scheme in _LISTS and scheme in connector.document.release.discovery_schemes:
            yield from _unusable_members(connector, attribute, text)


def _unusable_members(connector: Element, attribute: str, text: str) -> Iterator[Problem]:
    """Yield the problems of a composite URI: one for all its white space, and one for each URI without a scheme."""
    place = in_variable_phrase(connector, attribute)
    spaced = []
    for position, member in members_as_written(text):
        scheme_part = _SCHEME_PART.match(member)
        if scheme_part is None or _SCHEME.fullmatch(scheme_part[1]):
            continue
        unspaced = member.strip()
        if member[0].isspace() and (unspaced.startswith("(") or _SCHEME.fullmatch(scheme_part[1].lstrip())):
            spaced.append((position, member))
            continue
        message = (
            f"{_address(unspaced)} in {attribute} of <{connector.name}> has no valid URI scheme: the broker does not "
            "start"
        )
        fix = f"begin each URI of the list with its scheme{place}, such as tcp://"
        yield connector.problem(message, attribute, unspaced, fix=fix)
    if spaced:
        position, member = spaced[0]
        edits = chain.from_iterable(
            connector.part_replacement_edit(attribute, text[start:], "", length=len(uri) - len(uri.lstrip()))
            for start, uri in spaced
        )
        message = (
            f"white space precedes {_address(member.strip())} in {attribute} of <{connector.name}>: the broker does "
            "not start"
        )
        fix = f"remove the white space in the list of URIs{place}"
        yield connector.problem(message, attribute, member.strip(), fix=fix, edits=tuple(edits))


def _address(uri: str) -> str:
    """Return the part of a URI that a message quotes: the URI without its options, which can contain a password."""
    return uri.partition("?")[0][:80]


@rule("V069", "error", each="networkConnector transportConnector", texts="%", refuses=True)
def invalid_escape_in_uri(connector: Element) -> Iterator[Problem]:
    """The options of a connector's URI contain a % without two hexadecimal digits after it.

    Why: the broker decodes the options while it starts, fails with "URLDecoder: Illegal hex characters in escape" or
        "Incomplete trailing escape", and does not start.
    Fix: write a percent sign as %25, and any other escaped character as % with two hexadecimal digits.
    Cannot see: URIs with placeholders. Of transportConnectors, only those over TCP are checked, and of discovery URIs
        only multicast:. In static:(...), such an escape does not stop the broker.
    Source: URISupport.parseQuery of the release tags; java.net.URLDecoder; measured on 5.5.1, 5.8.0, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <transportConnector name="more" uri="tcp://0.0.0.0:21626?wireFormat.maxFrameSize=10485760&amp;transport.a=b%zz"/>

    Fires on 5.5.1::

        <transportConnector name="more" uri="stomp://0.0.0.0:21626?transport.a=b%"/>

    Silent on 5.18.3::

        <transportConnector name="more" uri="tcp://0.0.0.0:21626?wireFormat.maxFrameSize=1048576%30"/>
    """
    release = connector.document.release
    if connector.name == "transportConnector":
        scheme = connector.uri_attribute_or_empty().scheme
        if protocol_name_of_scheme(scheme) in _TCP_PROTOCOLS and scheme in release.schemes:
            yield from _invalid_escapes(connector, "uri")
    for attribute in _DISCOVERY_ATTRIBUTES[connector.name]:
        if connector.get(attribute).strip().startswith("multicast:"):
            yield from _invalid_escapes(connector, attribute)


def _invalid_escapes(connector: Element, attribute: str) -> Iterator[Problem]:
    """Yield the problem of the first invalid escape sequence in the options of a URI."""
    options = (connector.literal_value(attribute) or "").partition("#")[0].partition("?")[2]
    if match := _INVALID_ESCAPE.search(options):
        escape = options[match.start() : match.start() + 3]
        message = (
            f"{escape} in {attribute} of <{connector.name}> is not a valid escape sequence: the broker does not start"
        )
        fix = f"write a percent sign as %25, or % with two hexadecimal digits{in_variable_phrase(connector, attribute)}"
        yield connector.problem(message, attribute, escape, fix=fix)
