"""Find errors about the two nodes of a pair: a missing node, and settings, accounts or protocols that differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from activemq_fleet.addresses import host_name_without_domain, is_loopback
from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.naming import PREFIX
from activemq_fleet.node.protocols import PROTOCOLS, protocol_name_of_scheme
from activemq_fleet.settings.encrypted import may_equal
from activemq_fleet.similar_names import most_similar_name
from activemq_fleet.topology.model.broker import Broker
from activemq_fleet.topology.unequal_settings import EqualSetting, unequal_setting_findings

_NO_FAILOVER = "without a second node, no broker takes over when this broker fails"
_UNREADABLE_STORE = "one node could not read the files of the store that the other node has written"

# What the two nodes of a pair must agree on, and why.
_PAIR_EQUAL: tuple[EqualSetting, ...] = (
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
_SHARED_EQUAL: tuple[EqualSetting, ...] = (
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
_PROTOCOLS_OF_AUTO = ("openwire", "stomp", "amqp", "mqtt")


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


def pair_findings(
    all_units: Mapping[str, Sequence[Broker]], unpaired: Sequence[str], unclear: Iterable[Mapping[str, Any]]
) -> Iterator[Finding]:
    """Yield findings about pairs without exactly two nodes (T002), or with unequal releases (T004) or settings (T009).

    ``all_units`` maps names of pairs to their brokers, and ``unpaired`` are the names of hosts that are no node of a
    complete pair. ``unclear`` are the variables of brokers without an identity, for which there is an error T001.
    """
    units = _without_consequences(all_units, unclear)
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
        if len(brokers) == 1 or not any(broker.ha_profile.has_peer for broker in brokers):
            continue  # A single broker does not share a store, and no broker takes over from it.
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
        yield from unequal_setting_findings(brokers, _PAIR_EQUAL, f"pair {pair}")
        yield from _account_and_protocol_difference_findings(brokers)
        yield from _missing_metrics_findings(pair, brokers)
        if first.ha_profile.shares_store:
            yield from unequal_setting_findings(brokers, _SHARED_EQUAL, f"pair {pair}")


def _missing_metrics_findings(pair: str, brokers: Sequence[Broker]) -> Iterator[Finding]:
    """Yield a warning if only one node of a pair has metrics (T009)."""
    measured = [broker.host for broker in brokers if broker.settings.metrics]
    for broker in brokers:
        if measured and not broker.settings.metrics:
            yield Finding(
                rule="T009",
                severity="warning",
                host=broker.host,
                message=f"activemq_metrics is not set, but the other node {measured[0]} of pair {pair} has metrics",
                fix=f"set activemq_metrics to the same value for both nodes of pair {pair}",
                why="while the node without metrics is active, the alert ActiveMQNoActiveNode fires although the pair "
                "serves clients",
            )


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
    label = host_name_without_domain(expected)
    by_label = {host_name_without_domain(name): name for name in names}
    same_digits = [other for other in by_label if _digits_in(other) == _digits_in(label)]
    similar = most_similar_name(label, same_digits, certain=True)
    return f" ({by_label[similar]} has a similar name: if it is the missing node, rename it)" if similar else ""


def _digits_in(name: str) -> list[str]:
    return [character for character in name if character.isdigit()]


def _account_and_protocol_difference_findings(brokers: Sequence[Broker]) -> Iterator[Finding]:
    """Yield the findings about accounts and protocols that differ between the nodes of a pair (T009).

    ``brokers`` are the nodes of one pair.
    """
    first = brokers[0]
    for other in brokers[1:]:
        if first.ha_profile.has_peer and other.ha_profile.has_peer:
            yield from _different_password_findings(other, first)
            if _protocols_with_tls(first, expand_auto=False) != _protocols_with_tls(other, expand_auto=False):
                yield from _missing_protocol_findings(first, other)
                yield from _missing_protocol_findings(other, first)


def _different_password_findings(broker: Broker, peer: Broker) -> Iterator[Finding]:
    """Yield an error for each account of ``activemq_users`` with different passwords on the nodes of a pair (T009)."""
    if any(node.settings.authentication != "simple" for node in (broker, peer)):
        return
    passwords = {user.name: user.password for user in peer.settings.users}
    for position, user in enumerate(broker.settings.users):
        known = passwords.get(user.name)
        if known is None or may_equal(known, user.password):
            continue
        yield error_finding(
            "T009",
            broker.host,
            f"activemq_users[{position}].password of the account {user.name} differs from the password of the same "
            f"account on {peer.host} in pair {broker.pair}",
            f"set the same password for {user.name} on both nodes, such as in the variables of the group",
            why="after a failover the other node rejects clients that log in with this account",
        )


def _missing_protocol_findings(broker: Broker, peer: Broker) -> Iterator[Finding]:
    """Yield a warning if a broker does not accept a protocol that the other node of its pair accepts (T009)."""
    if not (_has_all_connectors(broker) and _has_all_connectors(peer)):
        return
    accepted = _protocols_with_tls(broker, expand_auto=True)
    expected = _protocols_with_tls(peer, expand_auto=False)
    names = {name for name, _ in accepted}
    if broker.openwire_uses_tls == peer.openwire_uses_tls:
        missing = [
            name if name not in names else f"{name} {'with' if uses_tls else 'without'} TLS"
            for name, uses_tls in sorted(expected - accepted)
        ]
    else:  # the difference of TLS is reported for activemq_tls
        missing = sorted({name for name, _ in expected} - names)
    if missing:
        yield Finding(
            rule="T009",
            severity="warning",
            host=broker.host,
            message=f"activemq_connectors has no connector for {', '.join(missing)}, but the other node "
            f"{peer.host} of the pair {broker.pair} has one",
            fix="set connectors for the same protocols on both nodes, with TLS on both or on neither. Names and ports "
            "may differ",
            why="while this node is active, clients of the missing protocol cannot connect to the pair",
        )


def _has_all_connectors(broker: Broker) -> bool:
    """Return whether all connectors of a broker are known.

    The slave of a ``pure`` pair has none, a connector with an unknown scheme is reported elsewhere (T011), and an XML
    fragment may add connectors.
    """
    settings = broker.settings
    if broker.is_replication_slave or any("Connector" in fragment.xml for fragment in settings.xml_fragments):
        return False
    return settings.connectors is None or len(broker.connectors) >= len(settings.connectors)


def _protocols_with_tls(broker: Broker, *, expand_auto: bool) -> set[tuple[str, bool]]:
    """Return the protocols that a broker accepts from other hosts, each with whether it uses TLS.

    A connector with the scheme ``auto`` accepts several protocols, which ``expand_auto`` includes.
    """
    protocols: set[tuple[str, bool]] = set()
    for connector in broker.connectors:
        name = protocol_name_of_scheme(connector.scheme)
        if name not in PROTOCOLS or is_loopback(connector.bind or broker.settings.bind):
            continue
        protocols.add((name, connector.uses_tls))
        if expand_auto and connector.scheme.startswith("auto"):
            protocols.update((accepted, connector.uses_tls) for accepted in _PROTOCOLS_OF_AUTO)
    return protocols
