"""Propose multicast discovery for the groups in which every broker uses it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from activemq_fleet.adopt.broker_variables import transport_connector_elements
from activemq_fleet.adopt.equal_meaning import parse_multicast_uri
from activemq_fleet.adopt.network_connectors import expressible_connector_options, network_connector_elements
from activemq_fleet.adopt.proposal import ProposedVariablesByHost, is_valid_value, parse_yaml_scalar
from activemq_fleet.adopt.sources import AdoptedDocument
from activemq_fleet.topology.links import MULTICAST_TTL


def propose_multicast_for_groups(proposal: ProposedVariablesByHost) -> set[str]:
    """Propose multicast discovery for the groups whose existing brokers use it.

    All brokers of such a group use it alike. Return the names of these groups.
    """
    groups: dict[str, list[AdoptedDocument]] = defaultdict(list)
    for document in proposal.documents:
        groups[document.identity.group].append(document)
    multicast_groups = set()
    for group, documents in groups.items():
        variables_by_host = {document.host: _multicast_variables(proposal, document) for document in documents}
        is_equal = (
            len({(v["multicast"], v["environment"], v["multicast_group"]) for v in variables_by_host.values() if v})
            == 1
        )
        if None not in variables_by_host.values() and is_equal:
            multicast_groups.add(group)
        for document in documents:
            is_pure = proposal.proposed_ha_profile(document.host).replicates
            if group in multicast_groups:
                for name, value in (variables_by_host[document.host] or {}).items():
                    if value is not None and (name != "discovery" or not is_pure):
                        proposal.propose_value_if_valid(document.host, name, value)
            elif is_pure:
                proposal[document.host]["discovery"] = "failover"
    return multicast_groups


def _multicast_variables(proposal: ProposedVariablesByHost, document: AdoptedDocument) -> dict[str, Any] | None:
    """Return the variables that render a broker's multicast connector, where the value None means the default.

    The result is None if the file has no such connector, or several.
    """
    identity = document.identity
    unit_name = identity.pair if proposal.proposed_ha_profile(document.host).shares_store else identity.short_host_name
    multicast_connectors = [
        (node, parts)
        for node in network_connector_elements(document)
        if (parts := parse_multicast_uri(node.get("uri"))) is not None
    ]
    if len(multicast_connectors) != 1:
        return None
    node, (address, options) = multicast_connectors[0]
    connectors = transport_connector_elements(document)
    if connectors and not any("discoveryUri" in connector.attributes for connector in connectors):
        return None  # The rendered broker would announce itself, but this broker does not.
    group, interface = options.pop("group"), options.pop("networkInterface", None)
    if options.pop("joinNetworkInterface", None) != interface or options:
        return None
    environment = group.removesuffix(identity.group).removesuffix("-")
    is_custom_group = group not in (identity.group, f"{environment}-{identity.group}")
    ttl = node.get("networkTTL", "1")
    attributes = {name: parse_yaml_scalar(text) for name, text in expressible_connector_options(node)}
    variables: dict[str, Any] = {
        "discovery": "multicast",
        "multicast": address,
        "environment": None if is_custom_group else environment or None,
        "multicast_group": group if is_custom_group else None,
        "multicast_name": node.get("name") if node.get("name") != f"{unit_name}-{identity.group}" else None,
        "multicast_interface": interface,
        "network_ttl": int(ttl) if ttl.isdigit() and int(ttl) not in (0, MULTICAST_TTL) else None,
        "network_attributes": attributes or None,
    }
    are_valid = all(value is None or is_valid_value(name, value) for name, value in variables.items())
    return variables if are_valid else None
