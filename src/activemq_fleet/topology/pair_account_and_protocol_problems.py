"""Find differences between the nodes of a pair that its clients notice after a failover: passwords and protocols."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from activemq_fleet.addresses import is_loopback
from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.node.protocols import PROTOCOLS, protocol_name_of_scheme
from activemq_fleet.settings.encrypted import may_equal
from activemq_fleet.topology.model.broker import Broker

_PROTOCOLS_OF_AUTO = ("openwire", "stomp", "amqp", "mqtt")


def pair_account_and_protocol_difference_findings(brokers: Sequence[Broker]) -> Iterator[Finding]:
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
