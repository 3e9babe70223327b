"""Rules N about options in URIs that the release does not support."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.findings import TextEdit
from activemq_fleet.lint import known_uri_options as known
from activemq_fleet.lint.clients_connectors import connects_through_failover_transport, listener_uri
from activemq_fleet.lint.document import Document, Element, Problem, once_per_document
from activemq_fleet.lint.engine import rule
from activemq_fleet.network.uri_parser import Uri, has_placeholder
from activemq_fleet.releases import Release

# Options of listeners that Java parses as an int or a long; 18 digits fit into a long.
_NUMERIC_OPTIONS = frozenset({
    "backlog",
    "connectAttemptTimeout",
    "connectionTimeout",
    "ioBufferSize",
    "maxFrameSize",
    "maxInactivityDuration",
    "maxInactivityDurationInitalDelay",
    "maximumConnections",
    "soLinger",
    "soTimeout",
    "soWriteTimeout",
    "socketBufferSize",
})  # fmt: skip
_BYTE_OPTIONS = frozenset({"ioBufferSize", "maxFrameSize", "socketBufferSize"})
_COUNT_OPTIONS = frozenset({"backlog", "maximumConnections"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_ANY_TRANSPORT = ""  # the scheme of an option that a composite URI sets on its transports, whatever their schemes are
_OPTION_PREFIX = re.compile(r"(?:discovered\.)?(?:nested\.)?(?:(?:transport\.)?socket\.)?")
_WIRE_FORMAT_PREFIX = re.compile(r"wireFormat\.(?:default|stomp|amqp|mqtt)\.")
_IGNORED_EFFECT = "the broker ignores the option"
_CONNECTION_EFFECT = "the broker cannot open the connection"


def uri_text_starting_at_option(node: Element, attribute: str, uri: Uri, option: str) -> str:
    """Return the text from a given URI option to the end of the XML attribute's value that contains the URI.

    Problems are located at this part. The result is the whole rest, because an earlier URI of the value may contain the
    same option.
    """
    value = node.get(attribute)
    begin = max(value.find(uri.text), 0)
    end = begin + len(uri.text)
    query = value.rfind(")", begin, end) if uri.parts else begin
    match = re.compile(rf"[?&]\s*({re.escape(option)})\s*(?:[=&]|$)").search(value, max(query, begin), end)
    return value[match.start(1) :] if match else uri.text


@rule("N007", "error")
def link_fails_on_unknown_uri_option(document: Document) -> Iterator[Problem]:
    """The URI of a link has an option that the release does not know. The link fails.

    Why: the broker starts, but each attempt to connect fails with "Invalid connect parameters", and the bridge is never
        established.
    Fix: remove the option, or correct its spelling. Write options of failover: and of static: after their brackets. For
        options of a transport, write the prefix nested. after failover: (from 5.9), discovered. after static:, and
        discovered.nested. after masterslave:.
    Source: measured on 5.5.1, where the broker does not retry, 5.18.3 and 6.3.1; TransportFactory.doConnect

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616?wireformat.maxInactivityDuration=30000)"/>

    Fires on 5.18.3::

        <networkConnector name="south"
            uri="static:(failover:(tcp://a:61616,tcp://b:61616)?randomise=false&amp;maxReconnectAttempts=0)"/>

    Fires on 5.5.1::

        <networkConnector name="south" uri="static:(tcp://a:61616?wireFormat.maxFrameSize=10485760)"/>

    Silent on 5.18.3::

        <networkConnector name="south"
            uri="masterslave:(tcp://a:61616?wireFormat.maxInactivityDuration=30000&amp;keepAlive=true,tcp://b:61616)"/>
    """
    for node, attribute, uri in _connection_uris(document):
        for option in uri.options:
            if unknown := _known_options_if_rejected(uri, option, document.release):
                yield _option_problem(node, attribute, uri, option, _CONNECTION_EFFECT, unknown)


@rule("N008", "warning")
def ignored_listener_or_discovery_option(document: Document) -> Iterator[Problem]:
    """A listener's or discovery agent's URI has an option that the release does not know and ignores.

    Why: the broker ignores the option without a log line. The option has no effect. Names of options are
        case-sensitive.
    Fix: remove the option, or correct its spelling. On a transportConnector, write transport.NAME for options of
        connections, and wireFormat.NAME for those of the wire format.
    Cannot see: options of another protocol's wire format, and options of ws and http listeners.
    Source: measured on 5.5.1, 5.18.3 and 6.3.1; TcpTransportFactory.doBind, IntrospectionSupport

    Fires on 5.18.3::

        <transportConnector name="nio" uri="nio://0.0.0.0:61626?maximumConnections=1000&amp;wireformat.maxFrameSize=1"/>

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)?maxReconectDelay=2000"/>

    Fires on 5.18.3::

        <transportConnector name="nio" uri="nio://0.0.0.0:61626?soWriteTimeout=10000"/>

    Silent on 5.18.3::

        <transportConnector name="mqtt"
            uri="mqtt+nio://0.0.0.0:1883?maximumConnections=9&amp;transport.soWriteTimeout=1&amp;wireFormat.maxFrameSize=1"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)?maxReconnectDelay=2000&amp;useExponentialBackOff=false"/>
    """
    release = document.release
    for node, attribute, uri in _connection_uris(document):
        names = known.discovery_agent_options(uri.scheme, release)
        for option in uri.options:
            if (
                names is not None
                and not option.startswith("discovered.")
                and not _is_known_or_placeholder(option, names)
            ):
                yield _option_problem(node, attribute, uri, option, _IGNORED_EFFECT, names)
            elif option.startswith("socket.") and not _is_known_or_placeholder(
                option[7:], known.socket_options(release)
            ):
                yield _option_problem(node, attribute, uri, option, _IGNORED_EFFECT, known.socket_options(release))
    for connector in document.transport_connectors:
        uri = connector.uri_attribute_or_empty()
        for option in uri.options:
            if names := _known_options_if_ignored(uri.scheme, option, release):
                yield _option_problem(connector, "uri", uri, option, _IGNORED_EFFECT, names)


@rule("N061", "warning", each="transportConnector")
def non_numeric_listener_option(connector: Element) -> Iterator[Problem]:
    """An option in a listener's URI must be a whole number: the broker ignores any other value.

    Why: the broker logs "Could not set property" at its start, and opens the connector without the option, for
        example without the limit of frames, connections or inactivity.
    Fix: write the number in bytes or milliseconds, without a unit: wireFormat.maxFrameSize=10485760 for 10 MB.
    Cannot see: values that a placeholder decides.
    Source: IntrospectionSupport.setProperty and TypeConversionSupport of the release tags; measured on 5.18.3

    Fires on 5.18.3::

        <transportConnector name="more" uri="tcp://0.0.0.0:21626?wireFormat.maxFrameSize=10 MB"/>

    Silent on 5.18.3::

        <transportConnector name="more" uri="tcp://0.0.0.0:21626?wireFormat.maxFrameSize=10485760"/>
    """
    uri = listener_uri(connector)
    for option, value in uri.options.items():
        if option.rpartition(".")[2] in _NUMERIC_OPTIONS and not _INTEGER.fullmatch(value):
            part = uri_text_starting_at_option(connector, "uri", uri, option)
            message = (
                f"the option {option}={value} of connector {connector.get('name')} is not a whole number: "
                "the broker ignores the option"
            )
            yield connector.problem(message, "uri", part, fix=_number_fix(option))


def _number_fix(option: str) -> str:
    name = option.rpartition(".")[2]
    if name in _BYTE_OPTIONS:
        return f"write the number of bytes, without a unit: {option}=10485760 for 10 MB"
    if name in _COUNT_OPTIONS:
        return f"write a whole number, such as {option}=1000"
    if name == "soLinger":
        return f"write the number of seconds, without a unit, such as {option}=5"
    return f"write the number of milliseconds, without a unit: {option}=30000 for 30 seconds"


@once_per_document
def _connection_uris(document: Document) -> Iterator[tuple[Element, str, Uri]]:
    """Yield (element, attribute, URI) of every URI with options by which a broker connects to others.

    Nested URIs are included.
    """
    masters = [(connector, "remoteURI") for connector in document.elements_with_tag_name("masterConnector")]
    for node, attribute in document.attributes_with_discovery_uri + masters:
        for uri in node.uri_attribute_or_empty(attribute).uri_and_nested_uris():
            if uri.options:
                yield node, attribute, uri


def _known_options_if_rejected(uri: Uri, option: str, release: Release) -> frozenset[str] | None:
    """Return the known options of a URI with which a broker connects, if an unknown option prevents the connection.

    The result is None otherwise.
    """
    scheme, name = uri.scheme, option
    if known.discovery_agent_options(scheme, release) is not None:
        if not option.startswith("discovered."):
            return None
        name = option.removeprefix("discovered.")
        scheme = "failover" if connects_through_failover_transport(uri) else _ANY_TRANSPORT
    if scheme == "failover":
        if not (name.startswith("nested.") and release.is_within_span("5.9.0")):
            names = known.failover_options(release)
            return None if _is_known_or_placeholder(name, names) else names
        name, scheme = name.removeprefix("nested."), _ANY_TRANSPORT
    if scheme == _ANY_TRANSPORT:
        names = known.connection_uri_options_of_all_schemes(release)
    elif scheme in known.DIALLED:
        names = known.connection_uri_options(scheme, release)
    else:
        return None
    if name.startswith("socket.") or (name.startswith("auto.") and release.is_within_span("5.13.0")):
        return None  # The broker removes these options before it searches for unknown ones.
    return None if _is_known_or_placeholder(name, names) else names


def _known_options_if_ignored(scheme: str, option: str, release: Release) -> frozenset[str] | None:
    """Return the known options of a listener's URI, if the listener has an unknown option; otherwise None."""
    names = known.listener_options(scheme, release)
    if scheme not in known.LISTENING:
        similar = known.nearest_option(option, names)
        return (
            names
            if similar and similar.lower() == option.lower() and not _is_known_or_placeholder(option, names)
            else None
        )
    if option.startswith("transport.socket."):
        sockets = known.socket_options(release)
        return None if _is_known_or_placeholder(option.removeprefix("transport.socket."), sockets) else sockets
    name = option
    if scheme.startswith("auto"):
        if option.startswith("auto."):
            return None
        name = _WIRE_FORMAT_PREFIX.sub("wireFormat.", option)
    return None if _is_known_or_placeholder(name, names) else names


def _is_known_or_placeholder(name: str, names: frozenset[str]) -> bool:
    return known.is_known_option(name, names) or has_placeholder(name)


def _option_problem(
    node: Element, attribute: str, uri: Uri, option: str, effect: str, names: frozenset[str]
) -> Problem:
    release = node.document.release
    prefix, known_prefix = _option_prefixes(option)
    name = known_prefix + option[len(prefix) :]
    similar = known.nearest_option(name, names)
    correct_option = f"{prefix}{similar.removeprefix(known_prefix)}" if similar else ""
    fix = f"write {correct_option} in place of {option}" if correct_option and correct_option != option else ""
    if _is_attribute(node, option) and not correct_option.lower().endswith(option.lower()):
        fix, correct_option = f"remove {option} from the URI, and set it as an attribute of <{node.name}>", ""
    part = uri_text_starting_at_option(node, attribute, uri, option)
    edits: tuple[TextEdit, ...] = ()
    if (
        fix
        and correct_option not in ("", *uri.options)
        and similar == known.sole_similar_option(name, names)
        and part != uri.text
    ):
        edits = node.part_replacement_edit(attribute, part, correct_option, length=len(option))
    message = (
        f"the option {option} does not exist in URIs with the scheme {uri.scheme} in ActiveMQ {release.text}: {effect}"
    )
    return node.problem(message, attribute, part, fix=fix, edits=edits)


def _option_prefixes(option: str) -> tuple[str, str]:
    """Return the prefix of a URI option's name, such as ``socket.``, and the prefix that a known name has instead."""
    if match := _WIRE_FORMAT_PREFIX.match(option):
        return match[0], "wireFormat."
    return _OPTION_PREFIX.match(option)[0], ""  # type: ignore[index] # also matches ""


def _is_attribute(node: Element, option: str) -> bool:
    try:
        return node.document.release.supports(node.name, option)
    except KeyError:  # no release has this element
        return False
