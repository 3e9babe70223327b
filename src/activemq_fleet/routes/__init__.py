"""Compute which brokers' messages reach which consumers over bridges, within the TTL, also with one broker down."""

from __future__ import annotations

from collections.abc import Mapping

from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.routes.answers import MessageReachAnswer, Routes
from activemq_fleet.routes.bridges import network_connectors_of_brokers_with_fragments
from activemq_fleet.routes.route_findings import route_findings
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Fleet

__all__ = ["MessageReachAnswer", "Routes", "find_routes", "route_findings", "routes_without_refused_links"]


def routes_without_refused_links(
    fleet: Fleet, documents: Mapping[str, XmlDocument] | None = None, *, as_planned: bool = False
) -> Routes:
    """Return the routes of messages in a fleet, without network links that the target broker rejects.

    ``as_planned``: with refused links, for a caller that reports the refusals separately.

    ``documents``: rendered activemq.xml by inventory name. Those of brokers whose
    ``activemq_xml_fragments`` name networkConnectors are read: they bring links that the fleet does
    not know, or change what it knows. Hosts and ports of their URIs are looked up in the fleet.
    Raises InputError for a document that is no XML.
    """
    return Routes(
        fleet,
        network_connectors_of_brokers_with_fragments(fleet, documents) if documents else {},
        as_planned=as_planned,
    )


def find_routes(fleet: Fleet) -> Routes:
    """Find the routes of messages between the brokers of a fleet, and return them.

    Links that ``activemq_xml_fragments`` define are included. ``Routes.reaches(source, target)`` answers whether
    messages from one broker reach a consumer at another one, within the TTL and also while one broker is down; names
    are those of hosts or pairs.

    Raises SettingsError for fragments that cannot be used.

    >>> from activemq_fleet import build_fleet, find_routes
    >>> variables = {
    ...     "activemq_release": "5.18.3",
    ...     "activemq_ha": "none",
    ...     "activemq_links": [{"from": "orders", "to": "billing"}],
    ...     "activemq_network_username": "network",
    ... }
    >>> routes = find_routes(build_fleet({host: variables for host in ("orders-mq01-a", "billing-mq01-a")}))
    >>> answer = routes.reaches("orders-mq01-a", "billing-mq01-a")
    >>> answer.outcome, [(hop.source, hop.target) for hop in answer.path]
    ('reaches', [('orders-mq01-a', 'billing-mq01-a')])
    >>> routes.reaches("billing-mq01-a", "orders-mq01-a").outcome
    'does not reach'
    """
    with_fragments = [broker for broker in fleet.brokers if broker.settings.xml_fragments]
    return routes_without_refused_links(
        fleet, {broker.host: XmlDocument(render_activemq_xml_bytes(broker)) for broker in with_fragments}
    )
