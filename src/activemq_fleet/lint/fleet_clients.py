"""C, S: what only the whole fleet shows of clients, and what its releases are open to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from activemq_fleet.lint.document import Node
from activemq_fleet.lint.engine import Problem, rule
from activemq_fleet.lint.files import ACTIVEMQ_XML
from activemq_fleet.lint.fleets import FleetView
from activemq_fleet.lint.uri import Uri
from activemq_fleet.releases import Release

if TYPE_CHECKING:
    from activemq_fleet.topology import Broker

_FAILOVER = re.compile(r"failover:(?://)?\([^()]*\)(?:\?[^\s\"'<>]*)?")
_LINKS = frozenset({"networkConnector", "masterConnector"})
_REMOTE_CODE = "CVE-2023-46604"
_HAS_IT = "5.3.0 !5.15.16 5.16.0 !5.16.7 5.17.0 !5.17.6 5.18.0 !5.18.3"
_PREFETCH = 1000
_REMEMBERED = ("maxFailoverProducersToTrack", "maxProducersToAudit")
_MOST_NAMED = 3


class _Use(NamedTuple):
    """A client's failover: URI in what the user added to a broker: where it stands, and its text."""

    broker: Broker
    uri: Uri
    where: dict[str, object]


def _client_uris(view: FleetView) -> Iterator[_Use]:
    """Those in fragments, further files and Java options; links have rules of their own."""
    for broker in view.brokers:
        for text in broker.settings.java_options:
            for match in _FAILOVER.finditer(text):
                yield _Use(broker, Uri.read(match[0]), {})
        for extra in broker.settings.extra_files:
            for number, line in enumerate(extra.content.split("\n"), 1):
                for match in _FAILOVER.finditer(line):
                    where = {"file": extra.path, "line": number, "column": match.start() + 1}
                    yield _Use(broker, Uri.read(match[0].replace("&amp;", "&")), where)
    for broker, document in view.changed_to_say("failover:"):
        for node in document.nodes:
            if node.name not in _LINKS:
                yield from _in_node(broker, node)


def _in_node(broker: Broker, node: Node) -> Iterator[_Use]:
    for attribute, text in (*node.attributes.items(), ("", node.text)):
        for match in _FAILOVER.finditer(text):
            where = {"node": node, "attribute": attribute, "part": match[0], "file": ACTIVEMQ_XML}
            yield _Use(broker, Uri.read(match[0]), where)


@rule("C004", "warning", scope="fleet", source="failover reference; measured on 5.17.2")
def client_knows_one_node(view: FleetView) -> Iterator[Problem]:
    """A client's failover: list has one node of a pair and not the other.

    Why: after a take-over the client dials only the node that is down, for ever, while the other has its messages.
    Fix: list both nodes, preferred master first, and randomize=false; the filter failover_uri and the rendered
        clients/GROUP/jndi.properties do.
    Cannot see: clients outside the inventory. It looks at fragments, activemq_extra_files and activemq_java_options.

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
    for use in _client_uris(view):
        listed = {found.host: found for t in use.uri.transports if (found := view.at(t.host, t.port))}
        for broker in listed.values():
            for other in view.units[broker.unit]:
                # A pure slave has no connector that could be listed.
                if other.host not in listed and other.openwire is not None:
                    yield view.problem(
                        use.broker,
                        f"a client's list has {broker.host} and not {other.host}: {use.uri.text}",
                        **use.where,
                    )


@rule("C005", "info", scope="fleet", source="FailoverTransport.oneway of the release tags; failover reference")
def client_waits_for_ever(view: FleetView) -> Iterator[Problem]:
    """A client's failover: URI has no timeout.

    Why: while no broker answers, send() does not return. A thread of the application stands still as long as the
        outage lasts, and whoever waits for it too.
    Fix: add timeout=3000 (milliseconds) to a producer's URI, and handle the exception; a consumer needs none.
    Cannot see: clients outside the inventory, and whether this one produces.

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
    for use in _client_uris(view):
        if "timeout" not in use.uri.options:
            yield view.problem(
                use.broker, f"a client's send() waits as long as an outage lasts: {use.uri.text}", **use.where
            )


@rule("C010", "warning", scope="fleet", source="ActiveMQMessageAuditNoSync, ProducerBrokerExchange of the release tags")
def audit_forgets_too_early(view: FleetView) -> Iterator[Problem]:
    """The audit that finds duplicates remembers fewer producers or messages than arrive here.

    Why: what is sent again after a fail-over is recognised by producer and number. A producer that the audit has
        dropped for a newer one, or a message beyond its depth, is stored and delivered twice.
    Fix: leave maxProducersToAudit, maxAuditDepth and maxFailoverProducersToTrack alone, or set them above the number
        of producers, and above the prefetchSize of the links that lead here.
    Cannot see: clients outside the inventory: it counts the agents of the pair and the links that lead here, one
        producer each. failoverProducersAuditDepth does not bound what the store recognises (read in 5.5.1 and 5.18.3).

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
    for broker, document in view.changed_to_say(*_REMEMBERED, "maxAuditDepth"):
        for node in document.all("kahaDB", "policyEntry"):
            for attribute in _REMEMBERED:
                remembered = node.number(attribute)
                if remembered is not None and remembered < (producers := _producers(view, broker)):
                    yield view.problem(
                        broker,
                        f"{attribute} is {remembered}, and at least {producers} producers send here",
                        node=node,
                        attribute=attribute,
                        file=ACTIVEMQ_XML,
                    )
            depth = node.number("maxAuditDepth")
            if depth is not None and depth < (in_flight := _in_flight(view, broker)):
                yield view.problem(
                    broker,
                    f"maxAuditDepth is {depth}, and a link that leads here has {in_flight} messages in flight",
                    node=node,
                    attribute="maxAuditDepth",
                    file=ACTIVEMQ_XML,
                )


def _dialled_by(view: FleetView, broker: Broker) -> list[Broker]:
    """Who has a link to this broker; for multicast, all of the group."""
    names = {broker.unit, broker.group}
    return [other for other, link in view.links if link.target in names and other.unit != broker.unit]


def _producers(view: FleetView, broker: Broker) -> int:
    agents = sum(agent.pair == broker.pair for agent in view.fleet.agents)
    return agents + len({other.unit for other in _dialled_by(view, broker)})


def _in_flight(view: FleetView, broker: Broker) -> int:
    """Messages that a bridge may send again: the largest prefetchSize of the links that lead here."""
    sizes = [0]
    for other in _dialled_by(view, broker):
        document = view.document(other)
        links = document.links if document else []
        sizes += [link.number("prefetchSize") or 0 if link.has("prefetchSize") else _PREFETCH for link in links]
    return max(sizes)


@rule("S001", "warning", scope="fleet", releases=_HAS_IT, source="the project's advisory of CVE-2023-46604")
def open_to_remote_code(view: FleetView) -> Iterator[Problem]:
    """The release runs code for whoever reaches an OpenWire port (CVE-2023-46604).

    Why: no login is needed, and scanners look for it all the time.
    Fix: upgrade. Until then let only brokers and clients reach the ports, and waive this with that reason.
    Cannot see: who can reach the ports, which is why it is a warning.

    Fires on 5.5.1::

        hosts:
          orders-mq01-a.example.com:
          orders-mq01-b.example.com:

    Silent on 5.18.3::

        hosts:
          orders-mq01-a.example.com:
          orders-mq01-b.example.com:
    """
    for broker in view.brokers:
        message, fix = _remote_code(broker.release)
        if message:
            yield view.problem(broker, message, fix=fix)


@rule("S002", "warning", scope="fleet", source="the project's advisories up to August 2026")
def below_the_security_floor(view: FleetView) -> Iterator[Problem]:
    """The release is open to advisories that a newer one fixes.

    Why: each of them is public, with the change that fixes it.
    Fix: upgrade. Until then let only brokers and clients reach the ports, and waive this with that reason.
    Cannot see: who can reach the ports, which is why it is a warning.

    Fires on 5.18.3::

        hosts:
          orders-mq01-a.example.com:
          orders-mq01-b.example.com:

    Silent on 6.3.1::

        hosts:
          orders-mq01-a.example.com:
          orders-mq01-b.example.com:
    """
    for broker in view.brokers:
        message, fix = _below_floor(broker.release)
        if message:
            yield view.problem(broker, message, fix=fix)


@cache
def _remote_code(release: Release) -> tuple[str, str]:
    for advisory in release.advisories:
        if _REMOTE_CODE in advisory.cves:
            own = next((fixed for fixed in advisory.fixed_in if fixed.rpartition(".")[0] == release.line), "")
            first = f"{own}, better {release.security_floor}" if own else release.security_floor
            return (
                f"release {release} is open to {_REMOTE_CODE}: {advisory.what}",
                f"go to {first}; until then let only brokers and clients reach the ports",
            )
    return "", ""


def _counted(cves: Sequence[str]) -> str:
    """A few by name: every broker of the release has this finding, and a report must stay readable."""
    if len(cves) <= _MOST_NAMED:
        return ", ".join(cves) or "what that fixes"
    return f"{', '.join(cves[:_MOST_NAMED])} and {len(cves) - _MOST_NAMED} more"


@cache
def _below_floor(release: Release) -> tuple[str, str]:
    if release.meets_security_floor:
        return "", ""
    cves = [cve for advisory in release.advisories for cve in advisory.cves if cve != _REMOTE_CODE]
    return (
        f"release {release} is older than {release.security_floor} and open to {_counted(cves)}",
        f"go to {release.security_floor}; until then let only brokers and clients reach the ports",
    )
