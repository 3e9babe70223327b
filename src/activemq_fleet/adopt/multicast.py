"""Propose multicast discovery for the groups in which every broker uses it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from activemq_fleet.adopt.broker_variables import transport_connector_elements
from activemq_fleet.adopt.equal_meaning import parse_multicast_uri
from activemq_fleet.adopt.network_connectors import (
    expressible_connector_options,
    network_connector_elements,
    network_ttl_of_connector,
    replaceable_bridges,
    ttl_as_number_or_mapping,
)
from activemq_fleet.adopt.profiles import master_connector_element
from activemq_fleet.adopt.proposal import ProposedVariablesByHost, is_valid_value, parse_yaml_scalar
from activemq_fleet.adopt.sources import AdoptedDocument
from activemq_fleet.network.connectors import parse_network_connector
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

    The result is None if the file has no such connector, or several, or one that the variables cannot express.
    """
    identity = document.identity
    profile = proposal.proposed_ha_profile(document.host)
    unit_name = identity.pair if profile.shares_store else identity.short_host_name
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
    connector = parse_network_connector(node)
    ttl = ttl_as_number_or_mapping(network_ttl_of_connector(connector))
    is_valid_ttl = is_valid_value("network_ttl", ttl)
    if connector.has_split_ttl and not is_valid_ttl:
        return None  # The rendered networkTTL would replace the consumerTTL and messageTTL of a fragment.
    if profile.replicates and not master_connector_element(document) and "duplex" not in node.attributes:
        return None  # The rendered link of a master would be duplex, but this link is not.
    # The rendered static links of the host get the same attributes. A fragment sets those that not all links have.
    attributes = set(expressible_connector_options(node)).intersection(
        *(bridge.attributes for bridge in replaceable_bridges(document))
    )
    variables: dict[str, Any] = {
        "discovery": "multicast",
        "multicast": address,
        "environment": None if is_custom_group else environment or None,
        "multicast_group": group if is_custom_group else None,
        "multicast_name": node.get("name") if node.get("name") != f"{unit_name}-{identity.group}" else None,
        "multicast_interface": interface,
        "network_ttl": ttl if is_valid_ttl and ttl != MULTICAST_TTL else None,
        "network_attributes": {name: parse_yaml_scalar(text) for name, text in sorted(attributes)} or None,
    }
    are_valid = all(value is None or is_valid_value(name, value) for name, value in variables.items())
    return variables if are_valid else None
