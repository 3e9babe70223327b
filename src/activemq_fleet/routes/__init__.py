"""Who reaches whom over bridges, within the TTL, with all well and with any one broker down."""

from __future__ import annotations

from collections.abc import Mapping

from activemq_fleet.routes.answers import Answer, Hop, Outcome, Routes
from activemq_fleet.routes.documents import lines_of
from activemq_fleet.topology import Fleet

__all__ = ["Answer", "Hop", "Outcome", "Routes", "routes_of"]


def routes_of(fleet: Fleet, documents: Mapping[str, bytes] | None = None) -> Routes:
    """The routes of a fleet.

    ``documents``: rendered activemq.xml by inventory name, of the brokers whose
    ``activemq_xml_fragments`` may hold networkConnectors; those of them that the fleet does not
    know count as links, resolved by host and port.
    """
    return Routes(fleet, lines_of(fleet, documents) if documents else {})
