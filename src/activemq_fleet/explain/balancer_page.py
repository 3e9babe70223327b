"""Explain a load balancer: the brokers it may point at, and the virtual addresses it holds."""

from __future__ import annotations

from activemq_fleet.explain.explanation import ExplanationSection, HostStatement, variable_entry
from activemq_fleet.topology import Balancer, Broker, Fleet, VirtualIpAddress


def balancer_sections(fleet: Fleet, balancer: Balancer) -> list[ExplanationSection]:
    """Return the sections about a load balancer on the page that explains its host.

    They show its virtual addresses, and the brokers that accept clients.
    """
    settings = balancer.settings
    entries = [
        HostStatement(
            group.name,
            ", ".join(b.identity.short_host_name for b in group.brokers if b.openwire) or "none",
            why=_backends_reason(group.brokers),
        )
        for group in fleet.groups
    ]
    address_entries = [_address_entry(address) for address in balancer.addresses] or [
        variable_entry(settings, "vip", "virtual address", settings.vip or "none")
    ]
    interface = variable_entry(settings, "vip_interface", "network interface", settings.vip_interface or "none")
    return [ExplanationSection("balances", "Targets", (*address_entries, interface, *entries))]


def _address_entry(address: VirtualIpAddress) -> HostStatement:
    ports = ", ".join(f"{front.connector} {front.port}" for front in address.fronts)
    return HostStatement(
        "virtual address",
        f"{address.address} of group {address.group}: {ports}",
        why=f"keepalived uses priority {address.priority} and the virtual router id {address.router_id}",
        variable="activemq_vip",
        origin="inventory",
    )


def _backends_reason(brokers: tuple[Broker, ...]) -> str:
    replicating = [broker for broker in brokers if broker.ha_profile.replicates]
    if replicating and len(replicating) < len(brokers):
        return (
            "the load balancer connects clients to the preferred master of each pair with activemq_ha: pure, and to "
            "the active node of each other pair. A client stays at its pair"
        )
    if replicating:
        return (
            "the load balancer connects clients only to the preferred master of each pair, because a slave "
            "with activemq_ha: pure accepts no clients"
        )
    if not any(broker.ha_profile.has_peer for broker in brokers):
        return "the load balancer connects clients to each broker of the group, because the group has no pairs"
    return (
        "the load balancer checks both nodes of each pair, and connects clients to the active node: a standby has "
        "closed ports"
    )
