"""Rules C about clients, which require the whole fleet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from activemq_fleet.lint.document import Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.fleets import FleetView
from activemq_fleet.network.uri_parser import Uri
from activemq_fleet.topology import Broker

_FAILOVER_URI = re.compile(r"failover:(?://)?\([^()]*\)(?:\?[^\s\"'<>]*)?")
_LINK_ELEMENTS = frozenset({"networkConnector", "masterConnector"})
_DEFAULT_PREFETCH_SIZE = 1000
_PRODUCER_LIMIT_ATTRIBUTES = ("maxFailoverProducersToTrack", "maxProducersToAudit")


class ClientFailoverUri(NamedTuple):
    """A failover: URI of a client of the fleet, with its position in the configuration of a broker.

    The client runs in the broker's process or reads a file of the broker, such as a Camel route. The URI is in an XML
    fragment, an extra file or the Java options.
    """

    broker: Broker
    uri: Uri
    position: Problem

    @property
    def file_or_variable(self) -> str:
        """The name of the file or variable that contains the client's failover: URI."""
        return self.position.file or ("activemq.xml" if self.position.node else "activemq_java_options")

    def problem_at_failover_uri(self, message: str, fix: str = "") -> Problem:
        """Return a lint problem with a message and a fix, located at this failover: URI in a broker's configuration."""
        return replace(self.position, message=message, fix=fix, host=self.broker.host)


def client_failover_uris(view: FleetView) -> Iterator[ClientFailoverUri]:
    """Yield the failover: URIs of clients in the configuration of a fleet's brokers.

    They are in XML fragments, extra files and Java options. URIs of networkConnectors are omitted.
    """
    for broker in view.brokers:
        for text in broker.settings.java_options:
            for match in _FAILOVER_URI.finditer(text):
                yield ClientFailoverUri(broker, Uri.parse(match[0]), Problem(""))
        for extra in broker.settings.extra_files:
            for number, line in enumerate(extra.content.split("\n"), 1):
                for match in _FAILOVER_URI.finditer(line):
                    position = Problem("", file=extra.path, line=number, column=match.start() + 1)
                    yield ClientFailoverUri(broker, Uri.parse(match[0].replace("&amp;", "&")), position)
    for broker, document in view.brokers_and_user_documents_containing(["failover:"]):
        for node in document.nodes:
            for attribute, text in node.element_attribute_values_and_text() if node.name not in _LINK_ELEMENTS else ():
                for match in _FAILOVER_URI.finditer(text):
                    yield ClientFailoverUri(broker, Uri.parse(match[0]), node.problem("", attribute, match[0]))


@rule("C004", "warning", scope="fleet")
def client_failover_lists_one_node_of_pair(view: FleetView) -> Iterator[Problem]:
    """The failover: URI of a client lists only one node of a pair.

    Why: after a failover, the client indefinitely tries to connect to the failed node. The messages are on the other
        node, which the client does not know.
    Fix: add the other node to the failover list. The rendered clients/GROUP/jndi.properties contains a complete list.
    Cannot see: clients outside the inventory. The rule checks activemq_xml_fragments, activemq_extra_files and
        activemq_java_options.
    Source: failover reference; measured on 5.17.2

    Fires on 5.18.3::

        hosts:
          orders-mq01-a.example.com:
            activemq_extra_files:
              - path: conf/camel.properties
                content: "broker=failover:(nio://orders-mq01-a.example.com:61616)?timeout=3000"
          orders-mq01-b.example.com:

    Silent on 5.18.3::

        hosts:
          orders-mq01-a.example.com:
            activemq_extra_files:
              - path: conf/camel.properties
                content: "broker=failover:(nio://orders-mq01-a.example.com:61616,nio://orders-mq01-b.example.com:61616)"
          orders-mq01-b.example.com:
    """
    for client in client_failover_uris(view):
        listed = {
            listed_broker.host: listed_broker
            for transport in client.uri.transport_uris
            if (listed_broker := view.brokers_by_address.broker_at(transport.host, transport.port))
        }
        for broker in listed.values():
            for other in view.brokers_by_pair[broker.name_in_links]:
                # A pure slave has no connector that could be listed.
                if other.host not in listed and other.openwire is not None:
                    yield client.problem_at_failover_uri(
                        f"a failover list in {client.file_or_variable} contains {broker.host} but not {other.host}, "
                        f"the other node of the pair: {client.uri.text}",
                        fix=f"add {other.host} to this failover list, in brackets: failover:(URI,URI)",
                    )


@rule("C005", "info", scope="fleet")
def client_failover_without_timeout(view: FleetView) -> Iterator[Problem]:
    """The failover: URI of a client has no timeout.

    Why: while no broker is available, send() does not return, and the application's thread blocks for the whole
        outage.
    Fix: add timeout=3000 (milliseconds) to the URI, and handle the exception of send(). If the client only consumes,
        add a waiver of C005 to activemq_waivers.
    Cannot see: clients outside the inventory, and whether the client of this URI sends messages.
    Source: FailoverTransport.oneway of the release tags; failover reference

    Fires on 5.18.3::

        hosts:
          orders-mq01-a.example.com:
            activemq_java_options:
              - -Dwebconsole.jms.url=failover:(nio://orders-mq01-a.example.com:61616,nio://orders-mq01-b.example.com:61616)
          orders-mq01-b.example.com:

    Silent on 5.18.3::

        hosts:
          orders-mq01-a.example.com:
            activemq_extra_files:
              - path: conf/camel.properties
                content: "url=failover:(nio://orders-mq01-a.example.com:61616,nio://orders-mq01-b.example.com:61616)?timeout=3000"
          orders-mq01-b.example.com:
    """
    for client in client_failover_uris(view):
        if "timeout" not in client.uri.options:
            yield client.problem_at_failover_uri(
                f"a failover: URI in {client.file_or_variable} has no timeout: send() blocks while no broker is "
                f"available ({client.uri.text})"
            )


@rule("C010", "warning", scope="fleet")
def broker_duplicate_audit_too_small(view: FleetView) -> Iterator[Problem]:
    """The duplicate audit of a broker remembers too few producers, or too few messages per producer.

    Why: after a failover, clients and bridges send unacknowledged messages again. The broker recognizes such a
        duplicate only if its audit still remembers the producer and the sequence number of the message.
    Fix: remove the attribute that the finding names, so that its default applies, or set it above the number in the
        finding.
    Cannot see: clients outside the inventory. The rule counts only the agents of the pair and the brokers with a link
        to the pair, each as one producer. It does not check failoverProducersAuditDepth, which does not limit the
        store's audit (verified in 5.5.1 and 5.18.3).
    Source: ActiveMQMessageAuditNoSync, ProducerBrokerExchange of the release tags

    Fires on 5.18.3::

        all:
          activemq_xml_fragments:
            - parent: broker/destinationPolicy/policyMap/policyEntries
              xml: <policyEntry queue="orders.>" maxAuditDepth="100"/>
        hosts:
          orders-mq01-a.example.com:
          orders-mq01-b.example.com:
          orders-mq02-a.example.com:
          orders-mq02-b.example.com:

    Silent on 5.18.3::

        all:
          activemq_xml_fragments:
            - parent: broker/destinationPolicy/policyMap/policyEntries
              xml: <policyEntry queue="orders.>" maxAuditDepth="4096"/>
        hosts:
          orders-mq01-a.example.com:
          orders-mq01-b.example.com:
          orders-mq02-a.example.com:
          orders-mq02-b.example.com:
    """
    for broker, document in view.brokers_and_user_documents_containing([*_PRODUCER_LIMIT_ATTRIBUTES, "maxAuditDepth"]):
        for node in document.elements_with_tag_name("kahaDB", "policyEntry"):
            for attribute in _PRODUCER_LIMIT_ATTRIBUTES:
                producer_limit = node.integer_attribute(attribute)
                if producer_limit is not None and producer_limit < (producers := _producer_count(view, broker)):
                    message = (
                        f"{attribute} of this {node.name} is {producer_limit}, but at least {producers} producers send "
                        "to this broker: messages may be delivered twice after a failover"
                    )
                    fix = f"remove {attribute}, so that its default applies, or set it above {producers}"
                    yield node.problem(message, attribute, fix=fix)
            depth = node.integer_attribute("maxAuditDepth")
            if depth is not None and depth < (in_flight := _messages_in_flight(view, broker)):
                message = (
                    f"maxAuditDepth of this {node.name} is {depth}, but a link to this broker can have {in_flight} "
                    "messages in flight: messages may be delivered twice after a failover"
                )
                fix = f"remove maxAuditDepth, so that its default applies, or set it above {in_flight}"
                yield node.problem(message, "maxAuditDepth", fix=fix)


def _brokers_linked_to(view: FleetView, broker: Broker) -> list[Broker]:
    """Return the brokers that have a link to a broker; with multicast, all brokers of its group."""
    names = {broker.name_in_links, broker.group}
    others = (other for other in view.brokers if other.name_in_links != broker.name_in_links)
    return [other for other in others for link in other.links if link.target in names]


def _producer_count(view: FleetView, broker: Broker) -> int:
    agents = sum(agent.pair == broker.pair for agent in view.fleet.agents)
    return agents + len({other.name_in_links for other in _brokers_linked_to(view, broker)})


def _messages_in_flight(view: FleetView, broker: Broker) -> int:
    """Return how many messages a network bridge to a broker may send again after a failure.

    It is the largest prefetchSize of the links that lead to the broker.
    """
    sizes = [0]
    for other in _brokers_linked_to(view, broker):
        document = view.broker_document(other)
        links = document.network_connectors if document else []
        sizes += [
            link.integer_attribute("prefetchSize") or 0
            if link.has_attribute("prefetchSize")
            else _DEFAULT_PREFETCH_SIZE
            for link in links
        ]
    return max(sizes)
