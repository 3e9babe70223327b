"""Find errors in names: of hosts, nodes and pairs, and of the connectors and links of one broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.naming import DEFAULT_PATTERN, PREFIX, UnparsableBrokerNameError
from activemq_fleet.topology.model.broker import Broker


def naming_pattern_mismatch_findings(
    host_names: Iterable[str], unclear: Mapping[str, UnparsableBrokerNameError], pattern: str
) -> Iterator[Finding]:
    """Yield an error for each host in ``activemq_brokers`` whose name does not match the naming pattern (T001).

    ``unclear`` holds reasons by host.
    """
    for name in host_names:
        if name in unclear:
            text, fix = unclear[name].reason, unclear[name].fix
        else:
            text = "the host is in activemq_brokers, but its name does not match activemq_naming_pattern"
            fix = (
                "run `activemq-fleet names -i INVENTORY`, which proposes an activemq_naming_pattern for existing "
                f"names, or rename the host to {_form_of_name(pattern)}. If it is not a broker, remove it from "
                "activemq_brokers"
            )
        yield error_finding(
            "T001",
            name,
            text,
            fix,
            why="the regular expression activemq_naming_pattern extracts the group, the pair and the node from a host "
            f"name. Without them, no configuration is generated for the host. The pattern is {pattern}",
        )


def misspelled_broker_name_findings(host_names: Iterable[str], pattern: str) -> Iterator[Finding]:
    """Yield a warning for each inventory host whose name is probably a misspelled broker name (T017).

    It has -mq and digits but does not match the naming pattern.
    """
    for name in host_names:
        yield Finding(
            rule="T017",
            severity="warning",
            host=name,
            message="no configuration is generated for the host: its name resembles that of a broker, but "
            "activemq_naming_pattern finds no group and node in it",
            fix=f"if the host is a broker, rename it to {_form_of_name(pattern)}, or run `activemq-fleet names "
            "-i INVENTORY`, which proposes an activemq_naming_pattern. If it is the host of an agent or a load "
            "balancer, add it to the inventory group activemq_agents or activemq_loadbalancers",
            why=f"the names of brokers match activemq_naming_pattern, which is {pattern}",
        )


def _form_of_name(pattern: str) -> str:
    """Return the form to which a broker's name must be changed."""
    if pattern == DEFAULT_PATTERN:
        return "GROUP-mqNUMBER-NODE, such as orders-mq01-a"
    return "a name that activemq_naming_pattern matches"


def possible_broker_without_role_findings(host_names: Iterable[str]) -> Iterator[Finding]:
    """Yield a warning for each host that has no role and may be meant as a broker (T037)."""
    for name in host_names:
        yield Finding(
            rule="T037",
            severity="warning",
            host=name,
            message="the host is not read as a broker: its name does not match activemq_naming_pattern, and "
            "activemq_pair and activemq_node are not set",
            fix="if the host is a broker, set activemq_group, activemq_pair and activemq_node of the host. Otherwise "
            "move it to an inventory group without brokers. Run `activemq-fleet names -i INVENTORY` to see how each "
            "name is read",
            why="no configuration is generated for the host",
        )


def duplicate_node_findings(brokers: Sequence[Broker]) -> Iterator[Finding]:
    """Yield an error for hosts that are duplicates of one node: the same node of the same pair (T003)."""
    seen: dict[tuple[str, str], list[str]] = defaultdict(list)
    for broker in brokers:
        seen[broker.pair, broker.identity.node].append(broker.host)
    for (pair, node), hosts in seen.items():
        for host in hosts[1:]:
            part = _stated_part(brokers, pair, host)
            origin = f" (set by activemq_{part})" if part else ""
            half = _half_pair(brokers, pair, node, host)
            fix = (
                f"set activemq_pair of {host} to {half}, which has one node, or correct activemq_pair of {hosts[0]}"
                if half and part == "pair"
                else f"correct activemq_{part} of {host} or of {hosts[0]}, or remove one of the hosts"
                if part
                else "rename one of the hosts, remove it from the inventory, or change activemq_naming_pattern"
            )
            message = f"the host is node {node} of pair {pair}{origin}, but the host {hosts[0]} is the same node"
            why = "both hosts would have the same broker name, store and role"
            yield error_finding("T003", host, message, fix, why)


def names_of_pairs_split_by_pair_variable(brokers: Sequence[Broker]) -> set[str]:
    """Return the names of pairs with only one node because ``activemq_pair`` puts the other node in another pair."""
    seen: set[tuple[str, str]] = set()
    halves = set()
    for broker in brokers:
        key = broker.pair, broker.identity.node
        if key in seen and _stated_part(brokers, broker.pair, broker.host) == "pair":
            halves.add(_half_pair(brokers, *key, broker.host))
        seen.add(key)
    return {half for half in halves if half}


def _half_pair(brokers: Sequence[Broker], pair: str, node: str, host: str) -> str:
    """Return the pair that lacks a host as its second node, or "" if not exactly one pair of the group does."""
    group = next(broker.group for broker in brokers if broker.host == host)
    nodes: dict[str, set[str]] = defaultdict(set)
    for broker in brokers:
        if broker.group == group and broker.pair != pair and broker.ha_profile.has_peer:
            nodes[broker.pair].add(broker.identity.node)
    halves = [name for name, marks in nodes.items() if len(marks) == 1 and node not in marks]
    return halves[0] if len(halves) == 1 else ""


def _stated_part(brokers: Sequence[Broker], pair: str, host: str) -> str:
    """Return the part of a host's identity, node or pair, that a variable states and that makes it a node of a pair
    a second time; "" where the name states both.

    A third node has a wrong pair, because all nodes of the pair exist without the host.
    """
    members = [broker for broker in brokers if broker.pair == pair]
    origins = next(broker.identity.origins for broker in members if broker.host == host)
    others = {broker.identity.node for broker in members if broker.host != host}
    likely = ("pair", "node") if len(others) > 1 else ("node", "pair")
    return next((part for part in likely if origins.get(part) == f"{PREFIX}{part}"), "")


def pair_named_like_host_findings(brokers: Sequence[Broker]) -> Iterator[Finding]:
    """Yield an error for a pair that has the name of a host in its group (T003).

    Targets and link ends would be ambiguous.
    """
    hosts = {(broker.group, broker.identity.short_host_name): broker.host for broker in brokers}
    for pair, broker in {broker.pair: broker for broker in brokers if broker.ha_profile.has_peer}.items():
        if other := hosts.get((broker.group, pair)):
            yield error_finding(
                "T003",
                broker.host,
                f"the host is in pair {pair}, but the host {other} has the same name as this pair",
                "set activemq_pair on both nodes of the pair to a name that no host has",
                why="a link or a command with this name could mean the pair or the host",
            )


def variable_contradicts_name_findings(brokers: Iterable[Broker]) -> Iterator[Finding]:
    """Yield a finding for each variable of a broker that differs from the group, pair or node in its host name (T035).

    There is one for each part of the broker's identity. A contradicting node is a warning, because the wrong host may
    be preferred; a different group or pair is an info.
    """
    for broker in brokers:
        for part, parsed in broker.identity.disagreements.items():
            yield Finding(
                rule="T035",
                severity="warning" if part == "node" else "info",
                host=broker.host,
                message=f"the variable activemq_{part} is set to {getattr(broker.identity, part)}, but the host name "
                f"contains the {part} {parsed}. The variable takes precedence",
                fix=f"if the host name is correct, remove the variable activemq_{part} of {broker.host}; otherwise, "
                "rename the host",
                why=f"operators who read the host name expect another {part}",
            )


def duplicate_connector_or_link_name_findings(broker: Broker) -> Iterator[Finding]:
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
