"""Compute which brokers' messages reach which consumers over bridges, within the TTL, also with one broker down."""

from __future__ import annotations

from collections.abc import Mapping

from activemq_fleet.routes.answers import Answer, Routes
from activemq_fleet.routes.bridges import connectors_of_documents
from activemq_fleet.routes.route_findings import route_findings
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Fleet

__all__ = ["Answer", "Routes", "route_findings", "routes_of"]


def routes_of(fleet: Fleet, documents: Mapping[str, XmlDocument] | None = None, *, as_planned: bool = False) -> Routes:
    """Return the routes of messages in a fleet, without links that the broker at the far end refuses.

    ``as_planned``: with refused links, for a caller that reports refusals by itself.

    ``documents``: rendered activemq.xml by inventory name. Those of brokers whose
    ``activemq_xml_fragments`` name networkConnectors are read: they bring links that the fleet does
    not know, or change what it knows. Hosts and ports of their URIs are looked up in the fleet.
    Raises InputError for a document that is no XML.
    """
    return Routes(fleet, connectors_of_documents(fleet, documents) if documents else {}, as_planned=as_planned)
