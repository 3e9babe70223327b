"""Rules N about names and attributes of a networked broker and of its links."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.addresses import is_loopback
from activemq_fleet.lint.clients import listener_uri
from activemq_fleet.lint.document import PLACEHOLDER, Document, Element, Problem, other_lines_suffix
from activemq_fleet.lint.engine import rule

_ILLEGAL = re.compile(r"[^A-Za-z0-9._:\-]")
_COMPUTED = re.compile(r"[$#]\{([^}]*)\}")
_CHANGES_AT_EVERY_START = re.compile(r"random|uuid|\bpid\b|time|millis|date", re.IGNORECASE)
_CHANGES_WITH_THE_HOST = re.compile(r"host|\bip\b|inetaddress|address", re.IGNORECASE)


def _is_networked(broker: Element) -> bool:
    """Return whether a broker is part of a network of brokers.

    Such a broker has links, is announced by multicast, or is a pure slave.
    """
    announced = any(connector.has_attribute("discoveryUri") for connector in broker.descendants("transportConnector"))
    return announced or bool(broker.descendants("networkConnector", "masterConnector"))


@rule("N014", "warning", each="broker")
def networked_broker_called_localhost(broker: Element) -> Iterator[Problem]:
    """The name of a broker in a network is localhost.

    Why: localhost is the default name of every broker. Bridges derive client ids and durable subscriptions from the
        names of both brokers. Two brokers with one name disconnect each other repeatedly, and the log does not
        distinguish them.
    Fix: set brokerName to a unique value, such as the name of the host or of the pair.
    Source: BrokerService; measured: a file without brokerName starts as localhost

    Fires on 5.18.3::

        <broker brokerName="localhost">
          <networkConnectors><networkConnector name="south" uri="static:(tcp://a:61616)"/></networkConnectors>
        </broker>

    Silent on 5.18.3::

        <broker brokerName="localhost"/>
    """
    if broker.get("brokerName", "localhost") == "localhost" and _is_networked(broker):
        name_phrase = (
            "has the name localhost"
            if broker.has_attribute("brokerName")
            else "has no brokerName, so that its name is localhost"
        )
        text = (
            f"this broker belongs to a network of brokers, but {name_phrase}: two brokers with the same name "
            "disconnect each other"
        )
        yield broker.problem(text, "brokerName")


@rule("N015", "error", each="broker")
def broker_name_with_replaced_characters(broker: Element) -> Iterator[Problem]:
    """A brokerName has characters that the broker replaces by underscores.

    Why: the broker logs the replacement only at its start. JMX, bridges and vm:// then use a name that is in no file,
        and two names may become the same.
    Fix: use only letters, digits and . _ - : in the name.
    Source: measured on 5.5.1 to 6.3.1; BrokerService.setBrokerName

    Fires on 5.18.3::

        <broker brokerName="north/1"/>

    Silent on 5.18.3::

        <broker brokerName="north-1.example.com"/>
    """
    name = _COMPUTED.sub("", broker.get("brokerName", "localhost"))
    if PLACEHOLDER.search(name):
        return
    if not broker.get("brokerName", "localhost").strip():
        hangs = broker.document.release.is_within_span("5.6.0")
        effect = "the broker hangs during its start" if hangs else "the broker does not start"
        fix = "use only letters, digits and the characters '.', '_', '-' and ':' in brokerName, or remove brokerName"
        why = "clients, bridges and JMX identify the broker by its name"
        yield broker.problem(f"brokerName is empty: {effect}", "brokerName", fix=fix, why=why)
    elif illegal := _ILLEGAL.search(name):
        rewritten = (
            ""
            if broker.has_placeholder_value("brokerName")
            else f", so that the name becomes {_ILLEGAL.sub('_', name)}"
        )
        message = f"brokerName contains {illegal[0]!r}, which the broker replaces by an underscore{rewritten}"
        yield broker.problem(message, "brokerName", illegal[0])


@rule("N016", "warning")
def restart_changes_broker_or_link_name(document: Document) -> Iterator[Problem]:
    """The name of a broker or link contains a placeholder whose value changes at a restart or failover.

    Why: a bridge names its durable subscription after its link and both brokers. After a change of the name, no bridge
        uses the old subscription. The old subscription collects messages until the store is full.
    Fix: write a fixed name. If two nodes share a store, write the same name on both. Before you change the name,
        consume the messages of the durable subscriptions with the old name, and delete these subscriptions.
    Cannot see: a name that you changed manually.
    Source: documentation of networks of brokers; DemandForwardingBridgeSupport

    Fires on 5.18.3::

        <networkConnector name="south-${random.uuid}" uri="static:(tcp://a:61616)"/>

    Silent on 5.18.3::

        <networkConnector name="south-${environment}" uri="static:(tcp://a:61616)"/>
    """
    named = [(broker, "brokerName") for broker in document.brokers if _is_networked(broker)]
    named += [(link, "name") for link in document.network_connectors]
    for node, attribute in named:
        for computed in _COMPUTED.finditer(node.get(attribute)):
            if _CHANGES_AT_EVERY_START.search(computed[1]):
                message = (
                    f"the {attribute} of this {node.name} contains {computed[0]}, which changes at each start: the "
                    "durable subscriptions that bridges created under the old name collect messages"
                )
                fix = f"write a fixed name instead of {computed[0]}"
                yield node.problem(message, attribute, computed[0], fix=fix)
            elif _CHANGES_WITH_THE_HOST.search(computed[1]) and _has_store(node):
                message = (
                    f"the {attribute} of this {node.name} contains {computed[0]}: on a shared store the name changes "
                    "at every failover"
                )
                fix = (
                    f"if another node uses this store, write the same {attribute} without a placeholder on both nodes. "
                    "Otherwise change nothing"
                )
                yield node.problem(message, attribute, computed[0], severity="info", fix=fix)


def _has_store(node: Element) -> bool:
    """Return whether a broker stores messages on a disk.

    ``node`` is the ``<broker>`` element or an element inside it.
    """
    broker = node if node.name == "broker" else node.nearest_ancestor_with_given_name("broker")
    return broker is None or broker.boolean_attribute("persistent", True) is not False


@rule("N026", "warning", each="broker", releases="5.3.0 !5.18.0")
def decrease_network_consumer_priority_unset(broker: Element) -> Iterator[Problem]:
    """A networkConnector of a broker before 5.18 does not set decreaseNetworkConsumerPriority.

    Why: consumers behind a bridge have the same priority as local consumers. The broker forwards messages although
        local consumers exist, and with such links in both directions messages may come back. From 5.18 on the default
        is true.
    Fix: set decreaseNetworkConsumerPriority="true". To give local and remote consumers an equal share, set it to
        "false" explicitly.
    Source: AMQ-5137; NetworkBridgeConfiguration

    Fires on 5.17.6::

        <networkConnector name="south" uri="static:(tcp://a:61616)"/>

    Silent on 5.17.6::

        <networkConnector name="south" uri="static:(tcp://a:61616)" decreaseNetworkConsumerPriority="true"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)"/>
    """
    links = [
        link
        for link in broker.descendants("networkConnector")
        if not link.has_attribute("decreaseNetworkConsumerPriority")
    ]
    if links:
        yield links[0].problem(
            f"the link does not set decreaseNetworkConsumerPriority: ActiveMQ {broker.document.release.text} forwards "
            "messages although local consumers exist" + other_lines_suffix(links)
        )


@rule("N028", "error", each="networkConnector", releases="5.6.0", needs="@staticBridge")
def static_bridge_without_static_destinations(link: Element) -> Iterator[Problem]:
    """A networkConnector sets staticBridge="true" without staticallyIncludedDestinations.

    Why: a static bridge ignores consumers and forwards only the listed destinations. Without a list it is established,
        logs no error, and forwards nothing.
    Fix: list the destinations in <staticallyIncludedDestinations>, or remove staticBridge.
    Source: DemandForwardingBridgeSupport; measured on 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" staticBridge="true"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" staticBridge="true">
          <staticallyIncludedDestinations><queue physicalName="orders"/></staticallyIncludedDestinations>
        </networkConnector>
    """
    listed = link.first_child("staticallyIncludedDestinations")
    if link.boolean_attribute("staticBridge", default=False) and (listed is None or not listed.children()):
        yield link.problem(
            "staticBridge is true without staticallyIncludedDestinations: the bridge forwards nothing", "staticBridge"
        )


@rule("N030", "error", each="networkConnector", refuses=True, needs="@prefetchSize")
def prefetch_size_below_one(link: Element) -> Iterator[Problem]:
    """A networkConnector sets a prefetchSize of 0 or less.

    Why: a bridge receives only prefetched messages, so with 0 it forwards nothing. With a negative value, and from
        5.13.3 on also with 0, the broker does not start.
    Fix: remove prefetchSize, so that the default of 1000 applies, or write a number of 1 or more.
    Source: measured on 5.5.1 to 6.3.1; NetworkBridgeConfiguration.setPrefetchSize

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://127.0.0.1:19999)" prefetchSize="0"/>

    Fires on 5.5.1::

        <networkConnector name="south" uri="static:(tcp://127.0.0.1:19999)" prefetchSize="-1"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://127.0.0.1:19999)" prefetchSize="1"/>
    """
    size = link.integer_attribute("prefetchSize")
    if size is not None and size < 1:
        refused = size < 0 or link.document.release.is_within_span("5.13.3")
        what = "the broker does not start" if refused else "the bridge forwards nothing"
        why = "the broker rejects the value" if refused else "a bridge receives only prefetched messages"
        yield link.problem(f"prefetchSize is {size}: {what}", "prefetchSize", why=why)


@rule("N032", "warning", each="networkConnector", releases="5.14.0 !5.19.7 6.0.0 !6.2.6", needs="@syncDurableSubs")
def sync_durable_subs_discloses_subscriptions(link: Element) -> Iterator[Problem]:
    """A link sets syncDurableSubs="true" on a release that discloses durable subscriptions (CVE-2026-49270).

    Why: any client that connects as a bridge can read the list of durable subscriptions of the broker.
    Fix: upgrade to 5.19.7, 6.2.6 or later, or remove syncDurableSubs.
    Source: CVE-2026-49270

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" syncDurableSubs="true"/>

    Silent on 6.3.1::

        <networkConnector name="south" uri="static:(tcp://a:61616)" syncDurableSubs="true"/>
    """
    if link.boolean_attribute("syncDurableSubs", default=False):
        message = (
            f"with syncDurableSubs, ActiveMQ {link.document.release.text} discloses its durable subscriptions to any "
            "client that connects as a bridge"
        )
        yield link.problem(message, "syncDurableSubs")


@rule("N033", "info", each="networkConnector", needs="@dynamicOnly")
def dynamic_only_is_false(link: Element) -> Iterator[Problem]:
    """dynamicOnly="false" is set: a bridge restores durable subscriptions of consumers that no longer exist.

    Why: at each start, the bridge restores the durable subscriptions of all former consumers. It then forwards messages
        for consumers that no longer exist, and these messages accumulate on the other broker.
    Fix: set dynamicOnly="true" if durable subscribers move or are short-lived. If they are permanent, keep
        dynamicOnly="false" and suppress N033. In a file, write <!-- activemq-fleet: disable=N033 REASON --> before the
        networkConnector. In a fleet, add a waiver of N033 to activemq_waivers.
    Cannot see: whether durable subscribers exist.
    Source: documentation of networks of brokers; DurableConduitBridge

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" dynamicOnly="false"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" dynamicOnly="true"/>
    """
    if link.boolean_attribute("dynamicOnly", default=True) is False:
        yield link.problem(
            "dynamicOnly is false: at each start the bridge restores durable subscriptions of consumers that no longer "
            "exist",
            "dynamicOnly",
        )


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
    dialled = [part for uri in uris if uri.scheme in ("static", "simple") for part in uri.parts if part.host]
    if len(dialled) > 1:
        message = (
            f"the broker connects its {len(dialled)} links one after the other while it starts: "
            "each peer whose host is down delays the start"
        )
        yield broker.problem(message, "networkConnectorStartAsync")


def _broker_phrase(broker: Element) -> str:
    return f"broker {broker.get('brokerName')}" if broker.has_attribute("brokerName") else "the broker"


@rule("N041", "warning", each="broker")
def linked_broker_listens_on_loopback_only(broker: Element) -> Iterator[Problem]:
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
        dialled = [
            part.host
            for part in link.uri_attribute_or_empty().transport_uris
            if link.literal_value("uri") and part.host and part.port
        ]
        away = next((host for host in dialled if not is_loopback(host)), "")
        if away and not link.boolean_attribute("duplex", False):
            text = (
                f"{_broker_phrase(broker)} has a link to {away}, but listens only on {hosts[0]}: "
                "no other machine can connect to it"
            )
            yield link.problem(text, "uri", away)
