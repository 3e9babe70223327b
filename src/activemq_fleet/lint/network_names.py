"""Rules N about the names of networked brokers and of their links."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import PLACEHOLDER, Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.network.connectors import DEFAULT_CONNECTOR_NAME
from activemq_fleet.network.uri_parser import has_placeholder
from activemq_fleet.schema import split_name_into_words

_ILLEGAL_CHARACTER = re.compile(r"[^A-Za-z0-9._:\-]")
_NAME_PLACEHOLDER = re.compile(r"[$#]\{([^}]*)\}")
_CHANGES_AT_EACH_START = re.compile("random|uuid|millis|timestamp", re.IGNORECASE)
# Other names contain these as parts, such as "runtime" and "update".
_WORDS_OF_CHANGING_VALUES = frozenset({"pid", "time", "starttime", "now", "date", "datetime"})
_CHANGES_WITH_THE_HOST = re.compile(r"host|\bip\b|inetaddress|address", re.IGNORECASE)
_VM_URI = re.compile(r"vm:(?://)?(?P<name>[^\s?/,()\"']+)(?:\?(?P<query>[^\s\"',()]*))?")


def _is_networked(broker: Element) -> bool:
    """Return whether a broker is part of a network of brokers.

    Such a broker has links, is announced by multicast, or is a pure slave.
    """
    is_announced = any(
        connector.has_attribute("discoveryUri") for connector in broker.descendants("transportConnector")
    )
    return is_announced or bool(broker.descendants("networkConnector", "masterConnector"))


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
def broker_name_has_replaced_characters(broker: Element) -> Iterator[Problem]:
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
    name = _NAME_PLACEHOLDER.sub("", broker.get("brokerName", "localhost"))
    if PLACEHOLDER.search(name):
        return
    if not broker.get("brokerName", "localhost").strip():
        is_hang = broker.document.release.is_within_span("5.6.0")
        effect = "the broker hangs during its start" if is_hang else "the broker does not start"
        fix = "use only letters, digits and the characters '.', '_', '-' and ':' in brokerName, or remove brokerName"
        why = "clients, bridges and JMX identify the broker by its name"
        yield broker.problem(f"brokerName is empty: {effect}", "brokerName", fix=fix, why=why)
    elif illegal := _ILLEGAL_CHARACTER.search(name):
        new_name_note = (
            ""
            if broker.has_placeholder_value("brokerName")
            else f", so that the name becomes {_ILLEGAL_CHARACTER.sub('_', name)}"
        )
        message = f"brokerName contains {illegal[0]!r}, which the broker replaces by an underscore{new_name_note}"
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
    nodes_and_attributes = [(broker, "brokerName") for broker in document.brokers if _is_networked(broker)]
    nodes_and_attributes += [(link, "name") for link in document.network_connectors]
    for node, attribute in nodes_and_attributes:
        for placeholder in _NAME_PLACEHOLDER.finditer(node.get(attribute)):
            if _changes_at_each_start(placeholder[1]):
                message = (
                    f"the {attribute} of this {node.name} contains {placeholder[0]}, which changes at each start: the "
                    "durable subscriptions that bridges created under the old name collect messages"
                )
                fix = f"write a fixed name instead of {placeholder[0]}"
                yield node.problem(message, attribute, placeholder[0], fix=fix)
            elif _CHANGES_WITH_THE_HOST.search(placeholder[1]) and _has_store(node):
                message = (
                    f"the {attribute} of this {node.name} contains {placeholder[0]}: on a shared store the name "
                    "changes at every failover"
                )
                fix = (
                    f"if another node uses this store, write the same {attribute} without a placeholder on both nodes. "
                    "Otherwise change nothing"
                )
                yield node.problem(message, attribute, placeholder[0], severity="info", fix=fix)


def _changes_at_each_start(expression: str) -> bool:
    words = split_name_into_words(expression)
    return bool(_CHANGES_AT_EACH_START.search(expression) or _WORDS_OF_CHANGING_VALUES & words)


def _has_store(node: Element) -> bool:
    """Return whether a broker stores messages on a disk.

    ``node`` is the ``<broker>`` element or an element inside it.
    """
    broker = node if node.name == "broker" else node.nearest_ancestor_with_tag_name("broker")
    return broker is None or broker.boolean_attribute("persistent", True) is not False


@rule("N012", "error", each="broker", refuses=True)
def several_network_connectors_without_names(broker: Element) -> Iterator[Problem]:
    """Two networkConnectors have no name.

    Why: networkConnectors without a name all get the default name NC. With JMX, which is enabled by default, the broker
        cannot register the second one under this name, and does not start.
    Fix: give each networkConnector a unique name. Do not change it later, because durable subscriptions contain it.
    Source: measured on 5.5.1 and 5.18.3; BrokerService, TransportConnection

    Fires on 5.18.3::

        <broker useJmx="true">
          <managementContext><managementContext createConnector="false"/></managementContext>
          <networkConnectors>
            <networkConnector uri="static:(tcp://127.0.0.1:19999)"/>
            <networkConnector uri="static:(tcp://127.0.0.1:19998)"/>
          </networkConnectors>
        </broker>

    Silent on 5.18.3::

        <broker useJmx="true">
          <managementContext><managementContext createConnector="false"/></managementContext>
          <networkConnectors>
            <networkConnector name="south" uri="static:(tcp://127.0.0.1:19999)"/>
            <networkConnector name="west" uri="static:(tcp://127.0.0.1:19998)"/>
          </networkConnectors>
        </broker>
    """
    links = broker.descendants("networkConnector")
    unnamed_links = [link for link in links if link.get("name", DEFAULT_CONNECTOR_NAME) == DEFAULT_CONNECTOR_NAME]
    has_jmx = broker.boolean_attribute("useJmx", default=True)
    if has_jmx:
        for link in unnamed_links[1:]:
            first_line = unnamed_links[0].position()[0]
            message = (
                f"this networkConnector and the networkConnector in line {first_line} both have the default name NC: "
                "the broker does not start"
            )
            yield link.problem(message)
    elif has_jmx is False:
        for link, earlier_link in _links_with_same_peer(
            [link for link in unnamed_links if link.boolean_attribute("duplex", default=False)]
        ):
            line = earlier_link.position()[0]
            message = (
                f"this duplex networkConnector and the one in line {line} connect to the same peer and both have the "
                "default name NC: they disconnect each other repeatedly"
            )
            why = "the peer treats a second duplex link with the same name as a replacement of the first one"
            yield link.problem(message, severity="warning", why=why)


def _links_with_same_peer(links: list[Element]) -> Iterator[tuple[Element, Element]]:
    """Yield (link, earlier link) of each link to a peer to which an earlier link already connects."""
    first_links: dict[tuple[str, int], int] = {}
    for number, link in enumerate(links):
        peers = _peer_addresses(link)
        if earlier_links := [first_links[peer] for peer in peers if peer in first_links]:
            yield link, links[min(earlier_links)]
        for peer in peers:
            first_links.setdefault(peer, number)


def _peer_addresses(link: Element) -> set[tuple[str, int]]:
    return {
        (peer.host, peer.port)
        for peer in link.uri_attribute_or_empty().transport_uris
        if not has_placeholder(peer.text)
    }


@rule("N039", "error")
def vm_uri_of_unknown_broker(document: Document) -> Iterator[Problem]:
    """A vm:// URI names a broker that the file does not define.

    Why: if no such broker exists, vm:// starts an empty broker with that name and default settings. The client works,
        and its messages are in the wrong broker.
    Fix: write the brokerName of the intended broker in the vm:// URI. Add create=false&amp;waitForStart=10000, so that
        the client never starts a broker.
    Cannot see: brokers that other files start in the same process.
    Source: VMTransportFactory.doCompositeConnect

    Fires on 5.18.3::

        <bean id="factory" class="org.apache.activemq.ActiveMQConnectionFactory">
          <property name="brokerURL" value="vm://localhost"/>
        </bean>

    Silent on 5.18.3::

        <bean id="factory" class="org.apache.activemq.ActiveMQConnectionFactory">
          <property name="brokerURL" value="vm://north?create=false&amp;waitForStart=10000"/>
        </bean>
    """
    if not document.contains_text("vm:"):
        return
    names = {
        broker.literal_value("brokerName") if broker.has_attribute("brokerName") else "localhost"
        for broker in document.brokers
    }
    if None in names or not names:
        return
    names |= {
        listener.uri_attribute_or_empty().host
        for listener in document.transport_connectors
        if listener.uri_attribute_or_empty().scheme == "vm"
    }
    for node in document.nodes:
        if node.name == "transportConnector":
            continue  # a listener is not a client
        for attribute, value in node.element_attribute_values_and_text():
            for match in _VM_URI.finditer(value) if attribute or value.startswith("vm:") else ():
                name, query = match["name"], match["query"] or ""
                is_external = "{" in name or name.startswith("broker:") or "create=false" in query
                if name not in names and not is_external:
                    message = (
                        f"{match[0].partition('?')[0]} starts a new, empty broker: this file defines no broker with "
                        f"the name {name}"
                    )
                    yield node.problem(message, attribute, match[0])
