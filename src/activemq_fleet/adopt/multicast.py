"""Propose multicast discovery for the groups in which every broker uses it."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from activemq_fleet.adopt.bridges import network_connectors
from activemq_fleet.adopt.proposal import Proposal
from activemq_fleet.adopt.sources import Document
from activemq_fleet.adopt.xml_diff import XmlElement
from activemq_fleet.topology.links import MULTICAST_TTL

_MULTICAST = re.compile(
    r"multicast://([0-9.]+:[0-9]+)\?group=([A-Za-z0-9._@-]+)(?:&networkInterface=([^&]+)&joinNetworkInterface=\3)?"
)


def propose_multicast(proposal: Proposal) -> set[str]:
    """Propose multicast discovery for groups in which all brokers use it alike; return the names of these groups."""
    groups: dict[str, list[Document]] = defaultdict(list)
    for document in proposal.documents:
        groups[document.identity.group].append(document)
    fitting = set()
    for group, documents in groups.items():
        found = {document.host: _multicast_variables(proposal, document) for document in documents}
        same = len({(v["multicast"], v["environment"]) for v in found.values() if v}) == 1
        if None not in found.values() and same:
            fitting.add(group)
        for document in documents:
            pure = proposal.profile(document.host).replicates
            if group in fitting:
                for name, value in (found[document.host] or {}).items():
                    if value is not None and (name != "discovery" or not pure):
                        proposal.set(document.host, name, value)
            elif pure:
                proposal[document.host]["discovery"] = "failover"
    return fitting


def _multicast_variables(proposal: Proposal, document: Document) -> dict[str, Any] | None:
    identity = document.identity
    own = identity.pair if proposal.profile(document.host).shares_store else identity.host
    found = _multicast_of(document, f"{own}-{identity.group}")
    if found is None:
        return None
    node, address, name, interface = found
    environment = name.removesuffix(identity.group).removesuffix("-")
    if name not in (identity.group, f"{environment}-{identity.group}"):
        return None
    ttl = node.get("networkTTL", "1")
    variables: dict[str, Any] = {
        "discovery": "multicast",
        "multicast": address,
        "environment": environment or None,
        "multicast_interface": interface,
        "network_ttl": int(ttl) if ttl.isdigit() and int(ttl) not in (0, MULTICAST_TTL) else None,
    }
    return variables


def _multicast_of(document: Document, name: str) -> tuple[XmlElement, str, str, str | None] | None:
    """Return the multicast connector called ``name`` as (element, address, group, interface), or None."""
    for node in network_connectors(document):
        found = _MULTICAST.fullmatch(node.get("uri"))
        if found and node.get("name") == name:
            return node, found[1], found[2], found[3]
    return None
