"""Rules N about the connections of links: reconnection to peers, the order at the start, and authentication."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from activemq_fleet.findings import Severity
from activemq_fleet.lint.document import Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.security_authentication import AUTHENTICATION
from activemq_fleet.lint.uri_options import uri_text_starting_at_option
from activemq_fleet.naming import is_certainly_pair_node, with_masked_node_mark
from activemq_fleet.network.uri_parser import Uri, has_placeholder
from activemq_fleet.node.printable import count_with_noun

_FAILOVER_BEFORE_5_6 = "static:(failover:(tcp://a:61616,tcp://b:61616)?randomize=false&amp;maxReconnectAttempts=1)"
_RETRY_INDEFINITELY = "remove maxReconnectAttempts from the URI, so that the link tries to connect indefinitely"
_ADD_RANDOMIZE_FALSE = "Also set randomize=false after the closing parenthesis of failover:(…)"
_RANDOM_ORDER = "an attempt to connect may begin with the standby, whose ports are closed"


@rule("N001", "error", each="networkConnector", releases="5.6.0", refuses=True, texts="masterslave:")
def masterslave_with_fewer_than_two_uris(link: Element) -> Iterator[Problem]:
    """A masterslave: URI lists fewer than two brokers.

    Why: masterslave: is only for a pair. The broker does not start with fewer than two addresses.
    Fix: write static:(tcp://host:61616) for a single broker. For a pair, list both nodes in the brackets of
        masterslave:.
    Source: measured on 5.6.0 to 6.3.1; MasterSlaveDiscoveryAgent

    Fires on 5.18.3::

        <networkConnector name="south" uri="masterslave:(tcp://south:61616)"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="masterslave:(tcp://south-a:61616,tcp://south-b:61616)"/>
    """
    for uri in link.uri_attribute_or_empty().find_uris_with_given_schemes("masterslave"):
        if len(uri.parts) < 2 and not has_placeholder(uri.text):
            yield link.problem(
                f"the masterslave: URI lists {count_with_noun(len(uri.parts), 'broker')}, but requires both nodes "
                "of a pair: the broker with this link does not start",
                "uri",
                "masterslave:",
            )


@rule("N002", "warning", each="networkConnector", texts="failover:")
def failover_reconnects_without_new_bridge(link: Element) -> Iterator[Problem]:
    """A bridge's failover: URI reconnects automatically, without rebuilding the bridge.

    Why: after a failover, the bridge still uses the identity of the failed broker, and the log contains no new line
        "has been established". In a duplex link, the reverse direction then forwards nothing.
    Fix: write masterslave:(tcp://a:61616,tcp://b:61616). Before 5.6, which has no masterslave:, append
        ?randomize=false&amp;maxReconnectAttempts=1 after the closing parenthesis of failover:(…). From 5.6 on,
        failover: with maxReconnectAttempts=0 is also correct.
    Source: AMQ-3542; FailoverTransport; measured on 5.5.1 and 5.18.3

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(failover:(tcp://a:61616,tcp://b:61616)?randomize=false)"/>

    Fires on 5.5.1::

        <networkConnector name="south" uri="static:(failover:(tcp://a:61616,tcp://b:61616)?randomize=false)"/>

    Silent on 5.18.3::

        <networkConnector name="south"
            uri="static:(failover:(tcp://a:61616,tcp://b:61616)?randomize=false&amp;maxReconnectAttempts=0)"/>

    Silent on 5.5.1::

        <networkConnector name="south"
            uri="static:(failover:(tcp://a:61616,tcp://b:61616)?randomize=false&amp;maxReconnectAttempts=1)"/>
    """
    required_attempts = link.document.release.bridge_reconnect_attempts
    for failover_uri in _failover_uris(link):
        attempts = failover_uri.integer_option("maxReconnectAttempts")
        if attempts in (required_attempts, 0):  # rule N003 reports a wrong 0
            continue
        if attempts is not None:
            cause = f"maxReconnectAttempts={attempts}"
            part = uri_text_starting_at_option(link, "uri", failover_uri, "maxReconnectAttempts")
        else:
            cause = f"no maxReconnectAttempts={required_attempts}"
            part = failover_uri.text
        message = (
            f"the failover: URI of this link has {cause}: after a failover the link reconnects to the other node, but "
            "the broker does not rebuild the bridge"
        )
        fix = (
            f"set maxReconnectAttempts={required_attempts} after the closing parenthesis of failover:(…). The "
            "connection then ends after one round of attempts, and the broker rebuilds the bridge"
        )
        if len(failover_uri.parts) > 1:
            masterslave = "write masterslave:(tcp://a:61616,tcp://b:61616) in place of the URI"
            fix = f"{masterslave}, or {fix}" if required_attempts == 0 else f"{fix}. {_ADD_RANDOMIZE_FALSE}"
        yield link.problem(message, "uri", part, severity=_severity_for_duplex(link), fix=fix)


@rule("N003", "warning", each="networkConnector", releases="5.3.0 !5.6.0", texts="failover:")
def zero_max_reconnect_attempts_before_5_6(link: Element) -> Iterator[Problem]:
    """A failover: URI sets maxReconnectAttempts=0, which ActiveMQ 5.5 and earlier treat as unlimited attempts.

    Why: the connection moves to the other node, but the bridge keeps the identity of the failed broker. In a duplex
        link, the reverse direction then forwards nothing.
    Fix: write maxReconnectAttempts=1. The transport then gives up after one round without a connection, and the bridge
        is rebuilt. This also works with a shared store, whose standby opens its ports only after a takeover.
    Source: AMQ-3542; FailoverTransport; measured on 5.5.1

    Fires on 5.5.1::

        <networkConnector name="south"
            uri="static:(failover:(tcp://a:61616,tcp://b:61616)?randomize=false&amp;maxReconnectAttempts=0)"/>

    Silent on 5.5.1::

        <networkConnector name="south"
            uri="static:(failover:(tcp://a:61616,tcp://b:61616)?randomize=false&amp;maxReconnectAttempts=1)"/>
    """
    for failover_uri in _failover_uris(link):
        if failover_uri.integer_option("maxReconnectAttempts") == 0:
            message = (
                f"maxReconnectAttempts=0 means unlimited attempts in ActiveMQ {link.document.release.text}: "
                "after a failover the broker does not rebuild the bridge"
            )
            part = uri_text_starting_at_option(link, "uri", failover_uri, "maxReconnectAttempts")
            yield link.problem(message, "uri", part, severity=_severity_for_duplex(link))


def _severity_for_duplex(link: Element) -> Severity | None:
    return "error" if link.boolean_attribute("duplex", default=False) else None


@rule("N004", "warning", each="networkConnector", texts="failover:")
def failover_without_randomize_false(link: Element) -> Iterator[Problem]:
    """A bridge's failover: URI does not set randomize=false.

    Why: every second attempt starts with the standby. The bridge recovers later, and the log contains irrelevant
        refused connections.
    Fix: add randomize=false after the closing parenthesis, such as
        failover:(tcp://a:61616,tcp://b:61616)?randomize=false. List the preferred master first.
    Source: FailoverTransport

    Fires on 5.18.3::

        <networkConnector name="south"
            uri="static:(failover:(tcp://a:61616,tcp://b:61616)?maxReconnectAttempts=0)"/>

    Silent on 5.18.3::

        <networkConnector name="south"
            uri="static:(failover:(tcp://a:61616,tcp://b:61616)?randomize=false&amp;maxReconnectAttempts=0)"/>
    """
    for failover_uri in _failover_uris(link):
        if len(failover_uri.parts) < 2 or failover_uri.options.get("priorityBackup") == "true":
            continue
        randomize = failover_uri.options.get("randomize")
        if randomize is None:
            message = f"the failover: URI of this link has no randomize=false: {_RANDOM_ORDER}"
            yield link.problem(message, "uri", failover_uri.text)
        elif randomize.lower() == "true":
            message = f"the failover: URI of this link has randomize=true: {_RANDOM_ORDER}"
            yield link.problem(message, "uri", uri_text_starting_at_option(link, "uri", failover_uri, "randomize"))


def _failover_uris(link: Element) -> Iterator[Uri]:
    """Yield each failover: URI inside the discovery agent of a network link, if all its options are literal.

    A failover: without an agent is reported by rule V008.
    """
    uri = link.uri_attribute_or_empty()
    for failover_uri in uri.find_uris_with_given_schemes("failover"):
        is_literal = not any(has_placeholder(f"{name}={value}") for name, value in failover_uri.options.items())
        if failover_uri is not uri and is_literal:
            yield failover_uri


@rule("N005", "warning", each="networkConnector", texts="static:")
def static_uri_lists_both_nodes_of_pair(link: Element) -> Iterator[Problem]:
    """A static: URI lists both nodes of a pair: the bridge to the standby fails repeatedly.

    Why: the broker opens a bridge to each node. The bridge to the standby fails every few seconds, indefinitely. These
        failures hide relevant failures in the log.
    Fix: write masterslave: instead of static:. Before 5.6, which has no masterslave:, write
        static:(failover:(tcp://a:61616,tcp://b:61616)?randomize=false&amp;maxReconnectAttempts=1).
    Cannot see: pairs whose host names do not indicate that they are a pair. For names such as south-a and south-b,
        without number or role, the severity is info, because they may be two independent brokers.
    Source: measured on 5.17.2; SimpleDiscoveryAgent

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south-mq01-a:61616,tcp://south-mq01-b:61616)"/>

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://master:61616,tcp://slave:61616)"/>

    Silent on 5.18.3::

        <networkConnector name="others" uri="static:(tcp://south-a:61616,tcp://west-b:61616,tcp://mq1:61616)"/>
    """
    for static_uri in link.uri_attribute_or_empty().find_uris_with_given_schemes("static"):
        transport_uris = [part for part in static_uri.parts if part.host and not part.parts]
        if pair := _nodes_of_one_pair(link, transport_uris):
            first, second = pair
            message = (
                f"the static: URI opens one bridge each to {first.host} and {second.host}, the two nodes of a pair: "
                "the bridge to the standby fails repeatedly"
            )
            is_planned = link.document.is_from_inventory(link)
            if is_planned:
                fix = "remove activemq_discovery from the variables, so that its default applies"
            elif link.document.release.is_within_span("5.6.0"):
                fix = "write masterslave: instead of static:"
            else:
                fix = f"write {_FAILOVER_BEFORE_5_6}"
            severity: Severity | None = None if is_planned or is_certainly_pair_node(first.host) else "info"
            yield link.problem(message, "uri", static_uri.text, fix=fix, severity=severity)


def _nodes_of_one_pair(link: Element, parts: list[Uri]) -> tuple[Uri, Uri] | None:
    broker = link.document.broker
    if broker is not None and link.document.is_from_inventory(link):
        # A link to a pair of the fleet leads to its two nodes, regardless of their names.
        planned_link = next(
            link_of_broker for link_of_broker in broker.links if link_of_broker.name == link.get("name")
        )
        is_by_address = any(entry.addresses and entry.to == planned_link.target for entry in broker.settings.links)
        if not is_by_address:
            return (parts[0], parts[1]) if len(planned_link.addresses) > 1 and len(parts) > 1 else None
    same_names: dict[str, list[Uri]] = {}
    for part in parts:
        if (name := with_masked_node_mark(part.host)) is not None:
            same_names.setdefault(name, []).append(part)
    for first, *others in same_names.values():
        if second := next((part for part in others if part.host != first.host), None):
            return first, second
    return None


@rule("N006", "error", each="networkConnector", texts="maxReconnectAttempts")
def max_reconnect_attempts_on_discovery_uri(link: Element) -> Iterator[Problem]:
    """maxReconnectAttempts is set on a static: or masterslave: URI itself, not on the transport inside.

    Why: on this URI the option counts connections of the bridge that fail within seconds. If the peer is down slightly
        longer than usual, the bridge can reach this number. It then stays off until the broker restarts.
    Fix: remove the option, so that the discovery agent retries indefinitely. If the option is meant for the failover
        transport inside, write it after the inner brackets, as in
        static:(failover:(tcp://a:61616,tcp://b:61616)?OPTION).
    Source: SimpleDiscoveryAgent

    Fires on 5.18.3::

        <networkConnector name="south" uri="masterslave:(tcp://a:61616,tcp://b:61616)?maxReconnectAttempts=5"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="masterslave:(tcp://a:61616,tcp://b:61616)?maxReconnectDelay=2000"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)?maxReconnectAttempts=0"/>
    """
    for discovery_uri in link.uri_attribute_or_empty().find_uris_with_given_schemes("static", "simple", "masterslave"):
        attempts = discovery_uri.integer_option("maxReconnectAttempts")
        if attempts is not None and attempts > 0:
            connections = count_with_noun(attempts, "connection")
            message = (
                f"the {discovery_uri.scheme}: URI has maxReconnectAttempts={attempts}: after {connections} that "
                f"{'fails' if attempts == 1 else 'fail'} within seconds, the broker disables the link until you "
                "restart the broker"
            )
            part = uri_text_starting_at_option(link, "uri", discovery_uri, "maxReconnectAttempts")
            has_failover = any(discovery_uri.find_uris_with_given_schemes("failover"))
            yield link.problem(message, "uri", part, fix="" if has_failover else _RETRY_INDEFINITELY)


@rule("N037", "warning", each="broker", releases="5.5.0")
def links_start_sequentially(broker: Element) -> Iterator[Problem]:
    """A broker connects several links sequentially while it starts.

    Why: the broker finishes its start only after the last link. A peer whose host is down does not respond: each such
        connection attempt takes half a minute and delays the start during an incident.
    Fix: add networkConnectorStartAsync="true" to <broker>.
    Cannot see: the response times of peers. The rule does not report links with masterslave:, failover: or multicast:,
        because they connect in the background.
    Source: BrokerService.startAllConnectors, TcpTransport

    Fires on 5.18.3::

        <broker>
          <networkConnectors>
            <networkConnector name="south" uri="static:(tcp://a:61616)"/>
            <networkConnector name="west" uri="static:(tcp://b:61616)"/>
          </networkConnectors>
        </broker>

    Silent on 5.18.3::

        <broker networkConnectorStartAsync="true">
          <networkConnectors>
            <networkConnector name="south" uri="static:(tcp://a:61616)"/>
            <networkConnector name="west" uri="static:(tcp://b:61616)"/>
          </networkConnectors>
        </broker>

    Silent on 5.18.3::

        <networkConnector name="south" uri="masterslave:(tcp://a:61616,tcp://b:61616)"/>
    """
    if broker.boolean_attribute("networkConnectorStartAsync", default=False) is not False:
        return
    uris = [link.uri_attribute_or_empty() for link in broker.descendants("networkConnector")]
    transport_uris = [part for uri in uris if uri.scheme in ("static", "simple") for part in uri.parts if part.host]
    if len(transport_uris) > 1:
        message = (
            f"the broker connects its {len(transport_uris)} links one after the other while it starts: "
            "each peer whose host is down delays the start"
        )
        yield broker.problem(message, "networkConnectorStartAsync")


@rule("N036", "error", each="broker")
def link_without_user_name_for_local_broker(broker: Element) -> Iterator[Problem]:
    """A link has no userName, although the file requires authentication.

    Why: a bridge also authenticates to its local broker, with the same userName. Without a userName, the local broker
        rejects each attempt of the bridge: "User name [null] or password is invalid". The bridge retries every few
        seconds.
    Fix: set userName and password on the link to an account that exists on both brokers, such as userName="network"
        password="${activemq.network.password}".
    Cannot see: the accounts of the other broker. With JAAS the finding is a warning, because the rule cannot see
        whether the login module accepts guests. For fleets, T008 reports missing network credentials.
    Source: measured on 5.5.1 and 5.18.3; DemandForwardingBridgeSupport.startLocalBridge

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" userName="app" password="${app.password}"/>
    """
    plugins = plugins_that_reject_links_without_user_name(broker)
    has_simple_plugin = any(plugin.name == "simpleAuthenticationPlugin" for plugin in plugins)
    for link in broker.descendants("networkConnector") if plugins else ():
        if not link.has_attribute("userName") and not broker.document.is_from_inventory(link):
            message = (
                f"the link has no userName, but the <{plugins[0].name}> of this broker requires authentication: this "
                "broker rejects its own bridge"
            )
            yield link.problem(message, severity=None if has_simple_plugin else "warning")


def plugins_that_reject_links_without_user_name(broker: Element) -> Sequence[Element]:
    """Return the authentication plugins of a broker element, or () if they may accept anonymous clients.

    With such plugins, a broker rejects its own bridges that have no userName.
    """
    plugins = broker.descendants(*AUTHENTICATION)
    may_accept_anonymous_clients = any(
        plugin.boolean_attribute("anonymousAccessAllowed", default=False) is not False for plugin in plugins
    )
    return () if may_accept_anonymous_clients else plugins
