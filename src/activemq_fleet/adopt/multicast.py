"""Propose multicast discovery for the groups in which every broker uses it."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from activemq_fleet.adopt.bridges import network_connectors
from activemq_fleet.adopt.proposal import Proposal
from activemq_fleet.adopt.sources import Document
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
    """Return the variables that make a broker's multicast connector, without a value where the default stands.

    None where the file has no connector that they can make.
    """
    identity = document.identity
    own = identity.pair if proposal.profile(document.host).shares_store else identity.host
    named = [node for node in network_connectors(document) if node.get("name") == f"{own}-{identity.group}"]
    uris = [(node, found) for node in named if (found := _MULTICAST.fullmatch(node.get("uri")))]
    if not uris:
        return None
    node, (address, name, interface) = uris[0][0], uris[0][1].groups()
    environment = name.removesuffix(identity.group).removesuffix("-")
    if name not in (identity.group, f"{environment}-{identity.group}"):
        return None
    ttl = node.get("networkTTL", "1")
    return {
        "discovery": "multicast",
        "multicast": address,
        "environment": environment or None,
        "multicast_interface": interface,
        "network_ttl": int(ttl) if ttl.isdigit() and int(ttl) not in (0, MULTICAST_TTL) else None,
    }
