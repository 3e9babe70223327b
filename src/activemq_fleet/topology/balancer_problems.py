"""Check load balancers and virtual addresses; each finding names the host and the variable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from activemq_fleet.addresses import is_wildcard_bind_address
from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.settings.encrypted import may_equal
from activemq_fleet.topology.account_problems import different_password_finding
from activemq_fleet.topology.model.balancer import Balancer, VirtualAddressPort, VirtualIpAddress
from activemq_fleet.topology.model.broker import Broker
from activemq_fleet.topology.model.fleet import Group, ShortenedGroupList

# Only activemq_vip, its interface and its router id are read from the brokers' variables as well.
_AT_BALANCERS = "in the balancers' variables (group activemq_loadbalancers)"


def balancer_findings(
    balancers: Sequence[Balancer], groups: Sequence[Group], all_groups: ShortenedGroupList
) -> Iterator[Finding]:
    """Yield the findings about load balancers and the virtual addresses of groups (T006, T009, T020 to T027).

    ``balancers`` are in the order of the inventory.
    """
    if not balancers:
        return
    by_name = {group.name: group for group in groups}
    yield from _idle_balancer_findings(balancers, all_groups)
    yield from _differing_vip_findings(groups)
    yield from _login_findings(balancers)
    first = balancers[0]
    yield from _duplicate_address_findings(first.addresses, balancers, groups)
    for address in first.addresses:
        yield from _duplicate_port_findings(address, by_name[address.group])
    for balancer in balancers:
        yield from _vrrp_multicast_findings(balancer, balancers)
        for address in balancer.addresses:
            yield from _host_conflict_findings(balancer, address, by_name[address.group])


def _idle_balancer_findings(balancers: Sequence[Balancer], all_groups: ShortenedGroupList) -> Iterator[Finding]:
    """Yield a finding for each load balancer for which no group has a virtual address (T020)."""
    for balancer in balancers:
        if balancer.addresses:
            continue
        is_set_elsewhere = any(other.settings.vip for other in balancers)
        yield error_finding(
            "T020",
            balancer.host,
            "the host is in activemq_loadbalancers, but activemq_vip is "
            + ("not set in the variables of any group of brokers" if is_set_elsewhere else "not set"),
            "set activemq_vip in the variables of each group of brokers that the load balancer serves (groups of the "
            f"inventory: {all_groups.shortened_group_list_text})",
            why="a load balancer serves only groups that have a virtual address",
        )


def _differing_vip_findings(groups: Sequence[Group]) -> Iterator[Finding]:
    """Yield an error for brokers of one group with different virtual addresses or router ids (T009).

    A group has one of each.
    """
    for group in groups:
        for variable in ("vip", "vip_router_id"):
            first, *others = group.brokers
            expected = getattr(first.settings, variable)
            for other in others:
                if getattr(other.settings, variable) != expected:
                    yield error_finding(
                        "T009",
                        other.host,
                        f"activemq_{variable} differs from the value of {first.host} in group {group.name}",
                        f"set activemq_{variable} to the same value for all brokers of group {group.name}",
                        why="a group has one virtual address",
                    )
                    break


def _login_findings(balancers: Sequence[Balancer]) -> Iterator[Finding]:
    """Yield findings about logins of load balancers (T009, T025).

    T009: two balancers with one user name and two passwords. T025: health checks without a login.
    """
    known: dict[str, Balancer] = {}
    for balancer in balancers:
        name = balancer.settings.vip_username
        if name is None:
            if any(front.protocol != "openwire" for address in balancer.addresses for front in address.fronts):
                yield _anonymous_check_finding(balancer)
            continue
        if balancer.settings.vip_broker_ca is None and any(
            front.tls and front.protocol != "openwire" for address in balancer.addresses for front in address.fronts
        ):
            yield _unverified_certificate_finding(balancer)
        other = known.setdefault(name, balancer)
        if not may_equal(other.settings.vip_password, balancer.settings.vip_password):
            yield different_password_finding("activemq_vip", name, balancer.host, other.host)


def _anonymous_check_finding(balancer: Balancer) -> Finding:
    return Finding(
        rule="T025",
        severity="warning",
        host=balancer.host,
        message="activemq_vip_username and activemq_vip_password are not set: the load balancer checks the brokers "
        "without a login",
        fix=f"set activemq_vip_username and activemq_vip_password {_AT_BALANCERS}, and encrypt the password with "
        "ansible-vault; the brokers get the account automatically",
        # Measured on 5.5.1, 5.18.3 and 6.3.1: with a login, none.
        why="the broker rejects a health check without an account, and logs a warning every 2 seconds",
    )


def _unverified_certificate_finding(balancer: Balancer) -> Finding:
    return Finding(
        rule="T025",
        severity="warning",
        host=balancer.host,
        message="activemq_vip_broker_ca is not set: the load balancer cannot verify the certificates of the brokers, "
        "so it does not log in when it checks the brokers over TLS",
        fix=f"set activemq_vip_broker_ca {_AT_BALANCERS} to a PEM file on the load balancer with the certificates of "
        "the brokers' CA",
        why="the broker rejects a health check without a login, and logs a warning every 2 seconds",
    )


def _duplicate_address_findings(
    addresses: Sequence[VirtualIpAddress], balancers: Sequence[Balancer], groups: Sequence[Group]
) -> Iterator[Finding]:
    """Yield findings about a virtual address or router id that two groups, or a group and a host, have (T022, T023)."""
    owners: dict[str, tuple[str, str]] = {}
    for group in groups:
        for broker in group.brokers:
            owners[broker.address] = (f"the address of {broker.host}", "activemq_vip")
    for balancer in balancers:
        owners[balancer.settings.address or balancer.host] = (f"the address of {balancer.host}", "activemq_vip")
    routers: dict[int, VirtualIpAddress] = {}
    by_name = {group.name: group for group in groups}
    for address in addresses:
        host = by_name[address.group].brokers[0].host
        if address.address in owners:
            yield error_finding(
                "T022",
                host,
                f"activemq_vip of group {address.group} is {address.address}, which is {owners[address.address][0]}",
                f"set activemq_vip of group {address.group} to an address that no host and no other group has",
                why="the virtual address moves between the load balancers, so clients would connect to a wrong host",
            )
        owners.setdefault(address.address, (f"the virtual address of group {address.group}", "activemq_vip"))
        other = routers.setdefault(address.router_id, address)
        if other is not address and other.address != address.address:
            yield error_finding(
                "T023",
                host,
                f"activemq_vip_router_id of group {address.group} is {address.router_id}, "
                f"and group {other.group} has the same id",
                "set a different activemq_vip_router_id from 1 to 255 for one of the two groups",
                why="the load balancers would confuse the VRRP messages of the two addresses",
            )


def _duplicate_port_findings(address: VirtualIpAddress, group: Group) -> Iterator[Finding]:
    """Yield an error for two connectors that would be the same port of a group's virtual address (T006)."""
    owners: dict[int, VirtualAddressPort] = {}
    for front in address.fronts:
        other = owners.setdefault(front.port, front)
        if other is not front:
            yield error_finding(
                "T006",
                group.brokers[0].host,
                f"the connectors {other.connector} and {front.connector} of group {group.name} both require port "
                f"{front.port} of the virtual address {address.address} (activemq_vip)",
                f"in activemq_connectors, give the connector on port {front.port} the same name on all brokers of "
                f"group {group.name}. If {other.connector} and {front.connector} are different connectors, set "
                "different ports for them",
                why="the load balancer forwards each port of the virtual address to one connector only",
            )


def _vrrp_multicast_findings(balancer: Balancer, balancers: Sequence[Balancer]) -> Iterator[Finding]:
    """Yield a finding for load balancers without unicast IP addresses, which exchange VRRP by multicast (T024)."""
    if len(balancers) > 1 and any(address.source is None for address in balancer.addresses):
        yield Finding(
            rule="T024",
            severity="warning",
            host=balancer.host,
            message="activemq_address of a load balancer is not an IP address of the same version (IPv4 or IPv6) as "
            "activemq_vip, so the load balancers send VRRP messages by multicast",
            fix="set activemq_address of each load balancer to its IP address, in the same version as activemq_vip",
            why="if the network drops multicast, every load balancer holds the virtual address",
        )


def _host_conflict_findings(balancer: Balancer, address: VirtualIpAddress, group: Group) -> Iterator[Finding]:
    if address.interface is None:
        yield error_finding(
            "T021",
            balancer.host,
            f"activemq_vip of group {group.name} is {address.address}, but activemq_vip_interface is not set",
            "set activemq_vip_interface to the load balancer's network interface for this address, such as eth0",
            why="keepalived, which moves the address between the load balancers, requires the interface",
        )
    for broker in group.brokers:
        if broker.host == balancer.host:
            yield from _shared_port_findings(broker, address)
    if balancer.settings.vip_certificate is None and any(front.tls for front in address.fronts):
        balanced = {front.connector for front in address.fronts}
        asking = [
            b.host
            for b in group.brokers
            if any(c.name in balanced and c.refuses_clients_without_certificate(b.release) for c in b.connectors)
        ]
        if asking:
            yield error_finding(
                "T027",
                balancer.host,
                f"activemq_vip_certificate is not set, but the broker {asking[0]} requires certificates of clients",
                f"set activemq_vip_certificate {_AT_BALANCERS} to a PEM file on the load balancer that contains a "
                "client certificate and its key",
                why="without a client certificate, every health check of this broker fails",
            )


def _shared_port_findings(broker: Broker, address: VirtualIpAddress) -> Iterator[Finding]:
    """Yield an error for a host where HAProxy and a broker that listens on all addresses share a port (T026)."""
    ports, binds = {front.port for front in address.fronts}, broker.bind_addresses
    shared = sorted(
        (port, name) for name, port in broker.ports.items() if port in ports and is_wildcard_bind_address(binds[name])
    )
    if not shared:
        return
    port, name = shared[0]
    connector = next((connector for connector in broker.connectors if connector.name == name), None)
    if connector is None:
        fix = f"set another port for the listener {name} of the broker"
    elif connector.bind:
        fix = f"set bind of the connector {name} in activemq_connectors to the address of the host"
    else:
        fix = "set activemq_bind of the broker to the address of the host"
    yield error_finding(
        "T026",
        broker.host,
        f"the host is also a load balancer, but its broker listens on port {port} of all addresses, "
        "including the virtual address (activemq_vip)",
        fix,
        why="HAProxy, the program of the load balancer, cannot listen on the same port of the virtual address",
    )
