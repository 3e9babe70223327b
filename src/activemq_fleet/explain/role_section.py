"""Explain who a broker is: its name, role, pair, group and profile."""

from __future__ import annotations

from activemq_fleet.explain.explanation import (
    ExplanationSection,
    HostStatement,
    broker_or_pair_noun,
    is_only_pair_in_group,
    pair_count,
    variable_entry,
)
from activemq_fleet.naming import DEFAULT_PATTERN, PREFIX
from activemq_fleet.routes.bridges import has_network_connector_fragments
from activemq_fleet.topology import Broker, Fleet, pair_and_single_broker_count_texts

_STATE_HINT = "`activemq-fleet status` (in a lab: `activemq-fleet lab status`) shows which node is active now"


def role_section(fleet: Fleet, broker: Broker) -> ExplanationSection:
    """Return the section of the output of the command ``explain`` about a broker's role.

    It shows the identity, too, with the reason of each entry.
    """
    return ExplanationSection(
        "role",
        "Identity",
        (
            _name_entry(fleet, broker),
            _role_entry(broker),
            _pair_entry(fleet, broker),
            _group_entry(fleet, broker),
            variable_entry(broker.settings, "ha", "profile", broker.settings.ha, why=broker.ha_profile.reason),
            _broker_name_entry(broker),
            _address_entry(broker),
        ),
    )


def _name_entry(fleet: Fleet, broker: Broker) -> HostStatement:
    identity = broker.identity
    domain = f", domain {identity.domain}" if identity.domain else ", no domain"
    text = f"{identity.short_host_name} is in group {identity.group}"
    set_variables = [variable for variable in identity.origins.values() if variable.startswith(PREFIX)]
    if len(set_variables) == len(identity.origins):
        return HostStatement(
            "name",
            f"{text}, node {identity.node}{domain}",
            why=f"set by {', '.join(set_variables)}",
            data=identity.to_dict(),
        )
    variables_note = f", and {', '.join(set_variables)} sets the others" if set_variables else ""
    pattern_note = f"the pattern {fleet.naming_pattern} reads these parts from the host name{variables_note}"
    number = f", number {identity.number}" if identity.number else ""
    return HostStatement(
        "name",
        f"{text}{number}, node {identity.node}{domain}",
        details=(pattern_note,),
        variable="activemq_naming_pattern",
        origin="default" if fleet.naming_pattern == DEFAULT_PATTERN else "inventory",
        data=identity.to_dict(),
    )


def _role_entry(broker: Broker) -> HostStatement:
    if not broker.ha_profile.has_peer:
        return HostStatement("preferred role", "none", why="the broker has no peer", data={"role": None})
    node, letter = broker.identity.node, broker.settings.master_node
    if broker.settings.naming_parity and broker.identity.origins["node"] == "parity":
        reason = f"the number in the host name is {node}, and activemq_naming_parity is {broker.settings.naming_parity}"
    else:
        node_noun = "letter" if len(node) == 1 and node.isalpha() else "mark"
        reason = f"the host has the node {node_noun} {node}"
        reason += ", which marks preferred masters" if node == letter else f", and preferred masters have {letter}"
    return variable_entry(
        broker.settings,
        "master_node",
        "preferred role",
        broker.role,
        why=reason,
        details=(_STATE_HINT,),
        data={"role": broker.role},
    )


def _pair_entry(fleet: Fleet, broker: Broker) -> HostStatement:
    data = {"pair": broker.pair, "peer": broker.peer}
    if not broker.ha_profile.has_peer:
        others = [b.identity.short_host_name for b in fleet.pairs_by_name[broker.pair].brokers if b is not broker]
        meant = f"this broker and {', '.join(others)}" if others else "this broker"
        return HostStatement("pair", "none", why=f"in activemq_links, {broker.pair} means {meant}", data=data)
    if broker.peer is None:
        return HostStatement("pair", f"{broker.pair}, whose other node is not in the inventory", data=data)
    role = "slave" if broker.role == "master" else "master"
    return HostStatement("pair", f"{broker.pair}, with {broker.peer} (preferred {role})", data=data)


def _group_entry(fleet: Fleet, broker: Broker) -> HostStatement:
    units = " and ".join(
        pair_and_single_broker_count_texts(other for other in fleet.brokers if other.group == broker.group)
    )
    data = {"group": broker.group, "pairs": pair_count(fleet, broker.group), "topology": broker.settings.topology}
    if any(link.kind == "multicast" for link in broker.links):
        shape = "linked by multicast discovery"
        return variable_entry(broker.settings, "discovery", "group", f"{broker.group}, {units} {shape}", data=data)
    if is_only_pair_in_group(fleet, broker):
        return HostStatement("group", f"{broker.group}, with no other {broker_or_pair_noun(broker)}", data=data)
    if broker.settings.topology != "none":
        shape = f"linked as a {broker.settings.topology}"
    elif variables := _variables_with_links(fleet, broker.group):
        shape = f"with the links of {' and '.join(variables)}"
    else:
        shape = "with no links between them"
    return variable_entry(broker.settings, "topology", "group", f"{broker.group}, {units} {shape}", data=data)


def _variables_with_links(fleet: Fleet, group: str) -> list[str]:
    """Return the variables that define links between the brokers of a group without a topology."""
    brokers = [broker for broker in fleet.brokers if broker.group == group]
    units = {broker.name_in_links for broker in brokers}
    has_entry = any(link.target in units - {broker.name_in_links} for broker in brokers for link in broker.links)
    has_fragment = any(has_network_connector_fragments(broker) for broker in brokers)
    defined = {"activemq_links": has_entry, "activemq_xml_fragments": has_fragment}
    return [name for name, defines_link in defined.items() if defines_link]


def _broker_name_entry(broker: Broker) -> HostStatement:
    if broker.settings.broker_name:
        reason = ""
    elif broker.ha_profile.shares_store:
        reason = (
            "both nodes have the name of the pair, because durable subscriptions of bridges contain the broker name"
        )
    else:
        reason = "the broker has the name of its host, because it shares no store with another node"
    return variable_entry(broker.settings, "broker_name", "brokerName", broker.broker_name, why=reason)


def _address_entry(broker: Broker) -> HostStatement:
    return variable_entry(
        broker.settings, "address", "address", broker.address, why="other brokers and clients connect to this address"
    )
