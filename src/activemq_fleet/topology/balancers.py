"""Compute the balancers and the virtual addresses of groups: ports, the brokers of each port, VRRP priorities.

Behind the address of a ``pure`` group are the preferred masters only: a promoted slave opens no port for clients, and
hands its messages to the other masters. Behind the address of a group with shared stores are both nodes of every pair,
because only the active one answers. A durable subscription lives in the store of one pair, so a client is always sent
to the same pair, also in a group with pairs of both kinds. A list of the pair's nodes is safer, because the balancer's
choice changes with the number of pairs.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence

from activemq_fleet.findings import Finding
from activemq_fleet.node.protocols import protocol_name_of_scheme
from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.topology.balancer_problems import balancer_findings
from activemq_fleet.topology.model.balancer import Backend, Balancer, Server, VirtualAddressPort, VirtualIpAddress
from activemq_fleet.topology.model.broker import Broker, Connector
from activemq_fleet.topology.model.fleet import Group, ShortenedGroupList

_BALANCED = ("mqtt", "openwire", "stomp")  # the protocols that HAProxy can check
_HIGHEST, _STEP = 200, 10
_ROOM = 10
"""Connections of a broker that clients of a balancer leave free: for the balancer's checks, bridges and agents."""
_OTHER = re.compile(r"[^A-Za-z0-9_.:-]")


def build_balancers_and_findings(
    names: Sequence[str],
    settings: Mapping[str, HostSettings],
    groups: Sequence[Group],
    all_groups: ShortenedGroupList | None = None,
) -> tuple[tuple[Balancer, ...], list[Finding]]:
    """Build the load balancers of a fleet, with the virtual addresses of groups.

    Return them and findings. Balancers are listed by name; the findings are T006, T009 and T020 to T027. ``names`` are
    in the order of the inventory: of two balancers that are up, the earlier one takes an address that none holds. A
    balancer that has lost an address does not reclaim it.
    """
    all_groups = all_groups or ShortenedGroupList.shorten_group_names([group.name for group in groups])
    vips = {group.name: _vip_of(group, all_groups, [settings[name] for name in names]) for group in groups}
    served = [(group, vip) for group in groups if (vip := vips[group.name]) is not None]
    balancers = []
    for position, name in enumerate(names):
        addresses = tuple(
            _virtual_address(group, vip, position, name, [(other, settings[other]) for other in names])
            for group, vip in served
        )
        balancers.append(Balancer(name, settings[name], addresses))
    return tuple(sorted(balancers, key=lambda balancer: balancer.host)), list(
        balancer_findings(balancers, groups, all_groups)
    )


def _vip_of(group: Group, all_groups: ShortenedGroupList, balancers: Sequence[HostSettings]) -> str | None:
    """Return the virtual address of a group as its brokers set it; with a single group balancers may set it."""
    vip = next((broker.settings.vip for broker in group.brokers if broker.settings.vip), None)
    if vip is None and all_groups.number == 1:
        return next((settings.vip for settings in balancers if settings.vip), None)
    return vip


def _virtual_address(
    group: Group, vip: str, position: int, name: str, balancers: Sequence[tuple[str, HostSettings]]
) -> VirtualIpAddress:
    balancer_settings = dict(balancers)[name]
    ip_addresses = {other: _balancer_ip_address(other, settings) for other, settings in balancers}
    version = ipaddress.ip_address(vip).version
    # All or none: two balancers that receive nothing from each other would both hold the address.
    unicast = all(
        ip_address and ipaddress.ip_address(ip_address).version == version for ip_address in ip_addresses.values()
    )
    brokers = group.brokers
    return VirtualIpAddress(
        group=group.name,
        address=vip,
        interface=balancer_settings.vip_interface
        or next((b.settings.vip_interface for b in brokers if b.settings.vip_interface), None),
        router_id=next((b.settings.vip_router_id for b in brokers if b.settings.vip_router_id), None)
        or balancer_settings.vip_router_id
        or _vrrp_router_id(vip),
        priority=max(1, _HIGHEST - _STEP * position),
        source=ip_addresses[name] if unicast else None,
        peers=tuple(ip_address for other, ip_address in ip_addresses.items() if ip_address and other != name)
        if unicast
        else (),
        masters_only=_serves_by_masters_only(group),
        fronts=tuple(_virtual_ports(group)),
    )


def _balancer_ip_address(name: str, settings: HostSettings) -> str | None:
    """Return the IP address of a load balancer's host, or None where the inventory has only a host name."""
    try:
        return str(ipaddress.ip_address(settings.address or name))
    except ValueError:
        return None


def _vrrp_router_id(vip: str) -> int:
    """Return the VRRP router id of a virtual IP address.

    It is the last byte of the address, which differs within a small network.
    """
    last = ipaddress.ip_address(vip).packed[-1]
    return last or 1 + int.from_bytes(hashlib.sha256(vip.encode()).digest()[:4], "big") % 255


def _serves_by_masters_only(group: Group) -> bool:
    return all(broker.ha_profile.replicates for broker in group.brokers)


def _virtual_ports(group: Group) -> Iterator[VirtualAddressPort]:
    """Yield a port for each connector that HAProxy can check, in the order of the first broker that has it."""
    connectors_by_name: dict[str, list[tuple[Broker, Connector]]] = {}
    for pair in group.pairs:
        for broker in pair.brokers_in_dialling_order:
            for connector in broker.connectors:
                if connector.name != "replication" and not broker.is_replication_slave:
                    connectors_by_name.setdefault(connector.name, []).append((broker, connector))
    for name, members in connectors_by_name.items():
        broker, first = members[0]
        protocol = protocol_name_of_scheme(first.scheme)
        if protocol not in _BALANCED:
            continue
        yield VirtualAddressPort(
            connector=name,
            protocol=protocol,
            port=first.port - broker.settings.port_offset,
            tls=first.uses_tls,
            greets=protocol == "openwire" and not any(connector.scheme.startswith("auto") for _, connector in members),
            backends=tuple(_backends(group, name, members)),
        )


def _backends(group: Group, connector_name: str, members: Sequence[tuple[Broker, Connector]]) -> Iterator[Backend]:
    by_unit: dict[str, list[Server]] = {}
    for broker, connector in members:
        unit = (
            f"{group.name}.{connector_name}.masters"
            if _serves_by_masters_only(group)
            else f"{broker.name_in_links}.{connector_name}"
        )
        address = (broker.address, connector.port)
        server = Server(
            haproxy_name(broker.identity.short_host_name),
            address,
            _connection_limit(connector),
            _expected_certificate_name(broker),
        )
        by_unit.setdefault(haproxy_name(unit), []).append(server)
    for name, servers in by_unit.items():
        yield Backend(name, tuple(servers))


def _expected_certificate_name(broker: Broker) -> str:
    """Return the host name that a load balancer expects in a broker's certificate.

    It is the broker's address, or its host if that is an IP. HAProxy compares DNS names only (``verifyhost``).
    """
    try:
        ipaddress.ip_address(broker.address.removeprefix("[").removesuffix("]"))
    except ValueError:
        return broker.address
    return broker.host


def _connection_limit(connector: Connector) -> int | None:
    limit_text = connector.options.get("maximumConnections", "")
    return max(1, int(limit_text) - _ROOM) if limit_text.isdigit() else None


def haproxy_name(name: str) -> str:
    """Return a name that HAProxy allows: other characters are replaced by ``_``."""
    return _OTHER.sub("_", name)
