"""Find errors that require the whole inventory to detect; each finding names the host and the variable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.naming import PREFIX
from activemq_fleet.settings.encrypted import may_equal
from activemq_fleet.similar_names import most_similar_name
from activemq_fleet.topology import name_problems
from activemq_fleet.topology.account_problems import (
    conflicting_account_password_findings,
    conflicting_agent_password_findings,
    missing_client_account_findings,
    shared_agent_account_findings,
)
from activemq_fleet.topology.link_login_problems import (
    any_broker_links_to_its_peer,
    link_definitions_by_unit,
    missing_link_user_or_password_findings,
)
from activemq_fleet.topology.links import PlannedNetwork
from activemq_fleet.topology.metrics_problems import loopback_agent_metrics_findings, metrics_access_findings
from activemq_fleet.topology.model.balancer import Balancer
from activemq_fleet.topology.model.broker import Broker
from activemq_fleet.topology.model.fleet import Agent, LinkEnd
from activemq_fleet.topology.pair_account_and_protocol_problems import pair_account_and_protocol_difference_findings

_Question = Callable[[Broker], Any]
_MOST_NAMED = 4
_NO_FAILOVER = "without a second node, no broker takes over when this broker fails"
_PORT_IN_USE = "the broker that starts second cannot open the port, and stops"
_PORT_USED_TWICE = "the broker can open the port for only one of its two listeners, and stops"
_UNREADABLE_STORE = "one node could not read the files of the store that the other node has written"
_SAME_LOGIN = "a bridge logs in to the brokers at both of its ends with the same account"
_PORT_VARIABLES = {
    "console": "activemq_console_port",
    "metrics": "activemq_metrics_port",
    "replication": "activemq_replication_port",
    "jmx": "the port of activemq_jmx",
}

# What the two nodes of a pair must agree on, and why.
_PAIR_EQUAL: tuple[tuple[str, _Question, str], ...] = (
    (
        "activemq_group",
        attrgetter("group"),
        "with two groups, the pair would have the links of another group after a failover",
    ),
    (
        "activemq_ha",
        lambda b: b.settings.ha,
        "nodes with different values of activemq_ha do not take over from each other",
    ),
    ("activemq_master_node", lambda b: b.settings.master_node, "both nodes would be the preferred master, or neither"),
    (
        "activemq_users",
        lambda b: sorted((user.name, sorted(user.groups)) for user in b.settings.users),
        "after a failover the pair would accept and reject other clients than before",
    ),
    (
        "activemq_acl",
        lambda b: sorted((acl.kind, acl.destination, acl.read, acl.write, acl.admin) for acl in b.settings.acl),
        "after a failover the pair would accept and reject other clients than before",
    ),
    *(
        (
            f"activemq_{name}",
            attrgetter(f"settings.{name}"),
            "after a failover the pair would treat messages differently",
        )
        for name in ("destination_policies", "virtual_destinations", "destinations", "plugins")
    ),
)
_SHARED_EQUAL: tuple[tuple[str, _Question, str], ...] = (
    (
        "activemq_store_directory",
        lambda b: b.shared_store_directory,
        "two directories have no common lock, so both nodes become active",
    ),
    (
        "activemq_fence",
        lambda b: b.settings.fence,
        "a node with a guard and a node without one do not use the same lock, so both nodes become active",
    ),
    (
        "activemq_fence_command",
        lambda b: b.settings.fence_command and (b.settings.fence_command.argv, b.settings.fence_command.timeout),
        "with different commands, a takeover may succeed on only one of the two nodes",
    ),
    (
        "activemq_index_rebuild",
        lambda b: b.settings.index_rebuild,
        "if the store has no usable index, a node with the value refuse does not start, but a node with serve does",
    ),
    (
        "activemq_jdbc",
        lambda b: b.settings.jdbc and b.settings.jdbc.url,
        "two databases have no common lock, so both nodes become active",
    ),
    (
        "activemq_broker_name",
        lambda b: b.broker_name,
        "durable subscriptions of bridges contain the broker name, so bridges would not find them after a failover",
    ),
    (
        "activemq_kahadb",
        lambda b: b.settings.kahadb,
        "both nodes write to the same store, so both require the same settings of the store",
    ),
    ("activemq_scheduler", lambda b: b.settings.scheduler, "after a failover delayed messages would be missing"),
    (
        "activemq_usage",
        lambda b: b.settings.usage and (b.settings.usage.store, b.settings.usage.job_scheduler),
        "after a failover the store could exceed its limit",
    ),
    ("activemq_uid", lambda b: b.settings.uid, _UNREADABLE_STORE),
    ("activemq_gid", lambda b: b.settings.gid, _UNREADABLE_STORE),
    (
        "activemq_tls",
        attrgetter("openwire_uses_tls"),
        "bridges and clients connect to both nodes with the same URI scheme",
    ),
)
_GROUP_EQUAL: tuple[tuple[str, _Question, str], ...] = (
    (
        "activemq_discovery",
        lambda b: b.discovery_method == "multicast",
        "brokers with multicast and brokers without it do not find each other",
    ),
    ("activemq_topology", lambda b: b.settings.topology, "links would be missing or exist twice"),
    ("activemq_environment", lambda b: b.settings.environment, "the brokers would not find each other"),
)
_MULTICAST_EQUAL: tuple[tuple[str, _Question, str], ...] = (
    ("activemq_multicast", lambda b: b.settings.multicast, "the brokers would not find each other"),
)
_AUTHENTICATION: tuple[tuple[str, _Question, str], ...] = (
    (
        "activemq_authentication",
        lambda b: "none" if b.settings.authentication == "none" else None,
        "bridges of a broker without authentication do not log in, and brokers with authentication reject them",
    ),
)
_CREDENTIALS: tuple[tuple[str, _Question, str], ...] = (
    (
        "activemq_network_username",
        lambda b: b.settings.network_username,
        _SAME_LOGIN,
    ),
    (
        "activemq_network_password",
        lambda b: b.settings.network_password,
        _SAME_LOGIN,
    ),
)


def topology_findings(
    brokers: Sequence[Broker],
    network: PlannedNetwork,
    agents: Sequence[Agent],
    balancers: Sequence[Balancer],
    names: Iterable[str] = (),
    unclear: Iterable[Mapping[str, Any]] = (),
) -> Iterator[Finding]:
    """Yield the findings about the topology of a whole inventory.

    They are about names, ports, pairs, groups, links and accounts. ``names`` are those of all hosts, of which one may
    be a misspelled name of a missing node. ``unclear`` are the variables of brokers without an identity, for which
    there is an error T001.
    """
    by_pair: dict[str, list[Broker]] = defaultdict(list)
    by_group: dict[str, list[Broker]] = defaultdict(list)
    for broker in brokers:
        by_pair[broker.pair].append(broker)
        by_group[broker.group].append(broker)
    yield from name_problems.duplicate_node_findings(brokers)
    yield from name_problems.pair_named_like_host_findings(brokers)
    yield from name_problems.variable_contradicts_name_findings(brokers)
    yield from _port_conflict_findings(brokers)
    yield from _same_address_and_instance_findings(brokers)
    paired = {broker.host for nodes in by_pair.values() if len(nodes) > 1 for broker in nodes}
    known = paired | {agent.host for agent in agents} | {balancer.host for balancer in balancers}
    unpaired = [name for name in names if name not in known]
    explained = name_problems.pairs_split_by_pair_variable(brokers)
    complete = {pair: nodes for pair, nodes in by_pair.items() if pair not in explained}
    yield from _findings_within_pairs(_without_consequences(complete, unclear), unpaired)
    yield from _different_group_settings_findings(by_group)
    yield from _link_end_findings(network)
    yield from shared_agent_account_findings(agents)
    yield from conflicting_agent_password_findings(agents)
    agents_by_group: dict[str, list[Agent]] = defaultdict(list)
    for agent in agents:
        agents_by_group[agent.group].append(agent)
    for broker in brokers:
        in_front = [balancer for balancer in balancers if balancer.serves_group(broker.group)]
        yield from missing_client_account_findings(broker)
        yield from _duplicate_connector_or_link_name_findings(broker)
        yield from conflicting_account_password_findings(broker, agents_by_group[broker.group], in_front)
        yield from metrics_access_findings(broker)
    yield from loopback_agent_metrics_findings(agents, brokers)


def _without_consequences(
    units: Mapping[str, Sequence[Broker]], unclear: Iterable[Mapping[str, Any]]
) -> dict[str, Sequence[Broker]]:
    """Return the pairs without those of a single node whose other node is a broker with an error T001."""
    stated = [(variables.get("activemq_pair"), variables.get("activemq_node")) for variables in unclear]
    return {
        pair: brokers
        for pair, brokers in units.items()
        if len(brokers) > 1
        or not any(
            pair_of_other == pair or (pair_of_other is None and node not in (None, brokers[0].identity.node))
            for pair_of_other, node in stated
        )
    }


def _findings_within_pairs(units: Mapping[str, Sequence[Broker]], unpaired: Sequence[str]) -> Iterator[Finding]:
    """Yield the findings about the nodes of pairs (T002, T004, T009).

    ``units`` maps names of pairs to their brokers, and ``unpaired`` are the names of hosts that are no node of a
    complete pair.
    """
    halves = {
        pair: nodes[0] for pair, nodes in units.items() if len(nodes) == 1 and _is_set_by_variable(nodes[0], "pair")
    }
    for pair, brokers in units.items():
        first = brokers[0]
        if first.ha_profile.has_peer and len(brokers) == 1 and (other_pair := _misspelt_pair(pair, halves)):
            if other_pair < pair:  # one finding for the two halves
                yield _divided_pair_finding(pair, first, halves[other_pair])
        elif first.ha_profile.has_peer:
            yield from _uneven_pair_findings(pair, brokers, unpaired)
        if len(brokers) == 1:
            continue
        for other in brokers[1:]:
            if other.release.line != first.release.line:
                yield error_finding(
                    "T004",
                    other.host,
                    f"activemq_release is {other.release.text}, but the other node {first.host} of the pair has "
                    f"{first.release.text}",
                    "set the same activemq_release on both nodes",
                    why="the older release may be unable to read a store that the newer release has written",
                )
        yield from _unequal_setting_findings(brokers, _PAIR_EQUAL, f"pair {pair}")
        yield from pair_account_and_protocol_difference_findings(brokers)
        if first.ha_profile.shares_store:
            yield from _unequal_setting_findings(brokers, _SHARED_EQUAL, f"pair {pair}")


def _uneven_pair_findings(pair: str, brokers: Sequence[Broker], unpaired: Sequence[str]) -> Iterator[Finding]:
    """Yield an error for a pair that does not consist of one preferred master and one slave (T002)."""
    nodes = sorted({broker.identity.node for broker in brokers})
    if len(brokers) == 1:
        yield _single_node_finding(pair, brokers[0], unpaired)
    elif len(nodes) > 2:
        third = brokers[2]
        listed = ", ".join(f"{broker.identity.node} ({broker.host})" for broker in brokers)
        stated = _is_set_by_variable(third, "pair")
        yield error_finding(
            "T002",
            third.host,
            f"pair {pair}{' (set by activemq_pair)' if stated else ''} must have 2 nodes, but has {len(nodes)}: "
            f"{listed}",
            "keep two nodes in the pair: set another activemq_pair on the other hosts, or remove these hosts from the "
            "inventory"
            if stated
            else "keep two nodes in the pair: rename the other hosts, so their names contain the number of another "
            "pair, or remove them from the inventory. If activemq_naming_pattern reads the names wrongly, correct its "
            "regular expression group `node`",
            why="exactly two nodes share one store: the preferred master and the node that takes over",
        )
    elif len(nodes) == 2 and not any(broker.role == "master" for broker in brokers):
        yield error_finding(
            "T002",
            brokers[0].host,
            f"pair {pair} has no preferred master: its nodes are {' and '.join(nodes)}, "
            f"but activemq_master_node is {brokers[0].settings.master_node}",
            f"set activemq_master_node to {nodes[0]} or {nodes[1]}",
            why="the preferred master is the node that clients and links try first",
        )


def _single_node_finding(pair: str, broker: Broker, unpaired: Sequence[str]) -> Finding:
    identity = broker.identity
    alone = f"pair {pair} has only one node"
    remedy = "or set activemq_ha: none if the broker has no second node"
    if _is_set_by_variable(broker, "pair"):
        return error_finding(
            "T002",
            broker.host,
            f"{alone}: no other host has activemq_pair {pair}",
            f"set activemq_pair to {pair} on the other node, add the other node to the inventory, {remedy}",
            why=_NO_FAILOVER,
        )
    if not identity.other_name:
        return error_finding(
            "T002",
            broker.host,
            f"{alone}: its other node is not in the inventory",
            f"add the other node to the inventory, {remedy}",
            why=_NO_FAILOVER,
        )
    hint = _similar_host_hint(identity.other_name, [name for name in unpaired if name != broker.host])
    return error_finding(
        "T002",
        broker.host,
        f"{alone}: node {identity.other_node} is not in the inventory",
        f"add {identity.other_name} to the inventory{hint}, {remedy}",
        why=_NO_FAILOVER,
    )


def _is_set_by_variable(broker: Broker, part: str) -> bool:
    """Return whether a variable of a host defines this part of its identity: group, pair or node."""
    return broker.identity.origins.get(part) == f"{PREFIX}{part}"


def _misspelt_pair(pair: str, halves: Mapping[str, Broker]) -> str | None:
    """Return the pair whose name a host's ``activemq_pair`` probably misspells; None without one.

    Both pairs have a single node.
    """
    if pair not in halves:
        return None
    first = halves[pair]
    others = [
        name
        for name, broker in halves.items()
        if name != pair
        and _digits_in(name) == _digits_in(pair)
        and broker.group == first.group
        and broker.identity.node != first.identity.node
    ]
    return most_similar_name(pair, others, certain=True)


def _divided_pair_finding(pair: str, broker: Broker, peer: Broker) -> Finding:
    """Return the error for two hosts whose pairs have similar names and only one node each (T002)."""
    return error_finding(
        "T002",
        broker.host,
        f"the pairs {pair} and {peer.pair} (activemq_pair of {peer.host}) have only one node each",
        f"if the two hosts are a pair, set activemq_pair to {peer.pair} or {pair} on both. Otherwise add the other "
        "node of each pair to the inventory",
        why=_NO_FAILOVER,
    )


def _similar_host_hint(expected: str, names: Sequence[str]) -> str:
    """Return a hint at the host whose name is most similar to an expected one; "" without one.

    Only a name with the same digits is meant as the expected one: another number is that of another pair.
    """
    label = expected.partition(".")[0]
    by_label = {name.partition(".")[0]: name for name in names}
    same_digits = [other for other in by_label if _digits_in(other) == _digits_in(label)]
    similar = most_similar_name(label, same_digits, certain=True)
    return f" ({by_label[similar]} has a similar name: if it is the missing node, rename it)" if similar else ""


def _digits_in(name: str) -> list[str]:
    return [character for character in name if character.isdigit()]


def _different_group_settings_findings(members: Mapping[str, Sequence[Broker]]) -> Iterator[Finding]:
    """Yield an error for settings that differ between brokers of one group (T009).

    The settings are discovery, topology and environment.
    """
    for group, brokers in members.items():
        yield from _unequal_setting_findings(brokers, _GROUP_EQUAL, f"group {group}")
        if brokers[0].discovery_method == "multicast":
            yield from _unequal_setting_findings(brokers, _MULTICAST_EQUAL, f"group {group}")


def _port_conflict_findings(brokers: Sequence[Broker]) -> Iterator[Finding]:
    """Yield an error for each conflict of ports: two listeners use one port of an address (T006).

    They belong to two brokers or to one.
    """
    owners: dict[tuple[str, int], tuple[str, str]] = {}
    for broker in brokers:
        conflicts: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
        for name, port in broker.ports.items():
            host, other = owners.setdefault((broker.address.lower(), port), (broker.host, name))
            if (host, other) != (broker.host, name):
                conflicts[host].append((name, other, port))
        for host, shared in conflicts.items():
            if host == broker.host or len(shared) == 1:
                yield from (_port_finding(broker, host, *listeners) for listeners in shared)
            else:
                yield _address_finding(broker, host, shared)


def _port_finding(broker: Broker, host: str, name: str, other: str, port: int) -> Finding:
    if host == broker.host:
        # Without the address, which differs from host to host, so that the finding of several hosts is shown once.
        message = f"the listeners {name} and {other} of this broker both use port {port}"
        fix = f"set another port for one of the two: {_port_variable(name)}, or {_port_variable(other)}"
        return error_finding("T006", broker.host, message, fix, _PORT_USED_TWICE)
    variables = " or ".join(dict.fromkeys((_port_variable(name), _port_variable(other))))
    fix = (
        "set activemq_port_offset: 10 or another activemq_address for one of the two brokers. Or change the port of "
        f"one of the two listeners ({variables})"
    )
    message = f"the listeners {name} and {other} of {host} both use port {port} of {broker.address}"
    return error_finding("T006", broker.host, message, fix, _PORT_IN_USE)


def _port_variable(name: str) -> str:
    """Return where the port of a listener is set; ``name`` is a key of ``Broker.ports``."""
    return _PORT_VARIABLES.get(name, f"the port of the connector {name} in activemq_connectors")


def _address_finding(broker: Broker, host: str, shared: Sequence[tuple[str, str, int]]) -> Finding:
    """Return the error for a broker with the address of another host, and several of its ports (T006)."""
    ports = ", ".join(f"{port} ({name})" for name, _, port in shared)
    return error_finding(
        "T006",
        broker.host,
        f"the broker on {host} listens on the same address {broker.address} (activemq_address) and the same ports "
        f"{ports} as this broker",
        "set another activemq_address for one of the brokers. If they run on one machine, set activemq_port_offset: 10 "
        "for one of them",
        why=_PORT_IN_USE,
    )


def _same_address_and_instance_findings(brokers: Sequence[Broker]) -> Iterator[Finding]:
    """Yield an error for two brokers with the same address and instance name (T009).

    They would have the same directories and systemd unit.
    """
    owners: dict[tuple[str, str, str], Broker] = {}
    for broker in brokers:
        if broker.settings.service == "none":
            continue
        key = (broker.address.lower(), broker.settings.base, broker.settings.instance)
        owner = owners.setdefault(key, broker)
        if owner is not broker:
            yield error_finding(
                "T009",
                broker.host,
                f"the host {owner.host} has the same activemq_address and the same activemq_instance "
                f"{broker.settings.instance!r} as this host",
                "set a different activemq_instance for each broker of the machine",
                why="both brokers would use the same service unit and directories",
            )


def _link_end_findings(network: PlannedNetwork) -> Iterator[Finding]:
    """Yield the findings about credentials and listeners at the two ends of planned links (T008, T009, T014).

    The listener is one for OpenWire.
    """
    for plan in (plan for plans in network.plans.values() for plan in plans):
        if not plan.leads_outside_inventory:
            yield from _undialled_link_findings(plan.name, network.units[plan.target])
    definitions = link_definitions_by_unit(network)
    for units in network.components:
        brokers = [broker for unit in units for broker in unit.brokers]
        if (
            len(units) == 1
            and units[0].group not in network.multicast_groups
            and not any_broker_links_to_its_peer(brokers)
        ):
            continue
        yield from missing_link_user_or_password_findings(brokers, definitions)
        names = sorted({unit.group for unit in units})
        where = f"group {names[0]}" if len(names) == 1 else f"the network of {', '.join(names[:_MOST_NAMED])}"
        where = where if len(units) > 1 else f"pair {brokers[0].pair}"
        yield from _unequal_setting_findings(brokers, _AUTHENTICATION, where)
        brokers_with_login = [broker for broker in brokers if broker.settings.authentication == "simple"]
        yield from _unequal_setting_findings(brokers_with_login, _CREDENTIALS, where) if brokers_with_login else ()


def _undialled_link_findings(name: str, target: LinkEnd) -> Iterator[Finding]:
    if not target.openwire_addresses_for_bridges:
        broker = target.brokers[0]
        yield error_finding(
            "T014",
            broker.host,
            f"the link {name} cannot connect to the broker, because activemq_connectors has no OpenWire connector",
            "add a connector with the scheme nio or tcp to activemq_connectors",
            why="a link uses the OpenWire protocol, so without an OpenWire port on this broker it carries no messages",
        )


def _duplicate_connector_or_link_name_findings(broker: Broker) -> Iterator[Finding]:
    """Yield an error for connectors or links of one broker with the same name (T012).

    Each name is the name of a bean in activemq.xml, and a broker does not start with two beans of one name.
    Measured on 5.5.1 and 6.3.1: ``Bean name 'openwire' is already used``.
    """
    names = [*(connector.name for connector in broker.connectors), *(link.name for link in broker.links)]
    if len({"broker", "store", *names}) == 2 + len(names):
        return
    owners = {"broker": ("the <broker> element", "")}
    if broker.ha_profile.has_database_lease:
        owners["store"] = ("the bean of the database", "")
    named = [("connector", connector.name, "") for connector in broker.connectors]
    for kind, name, target in (*named, *(("link", link.name, link.target) for link in broker.links)):
        if name in owners:
            yield _duplicate_name_finding(broker.host, f"{kind} {name}", target, *owners[name])
        owners.setdefault(name, ("another link" if kind == "link" else "a connector", target))


def _duplicate_name_finding(host: str, named: str, target: str, owner: str, target_of_owner: str) -> Finding:
    """Return the error for a connector or link with the name of another part of the broker (T012).

    ``target`` is "" for a connector.
    """
    if target and target == target_of_owner:
        return error_finding(
            "T012",
            host,
            f"the broker has two links with the name {named.removeprefix('link ')}, both to {target}",
            "remove one of the two entries of activemq_links. If there is only one, remove it, because "
            "activemq_topology creates the same link",
            why="the name of a link is the name of a bean in activemq.xml, and a broker does not start with two beans "
            "of the same name",
        )
    return error_finding(
        "T012",
        host,
        f"the {named} has the same name as {owner}, so the broker does not start",
        f"set another name for the {named} in {'activemq_links' if target else 'activemq_connectors'}",
        why="each name is the name of a bean in activemq.xml, and every bean requires a unique name",
    )


def _unequal_setting_findings(
    brokers: Sequence[Broker], questions: Iterable[tuple[str, _Question, str]], where: str
) -> Iterator[Finding]:
    first = brokers[0]
    for variable, question, why in questions:
        expected = question(first)
        for other in brokers[1:]:
            if not may_equal(question(other), expected):
                yield error_finding(
                    "T009",
                    other.host,
                    f"{variable} differs from the value of {first.host} in {where}",
                    f"set {variable} to the same value for all brokers of {where}",
                    why=why,
                )
