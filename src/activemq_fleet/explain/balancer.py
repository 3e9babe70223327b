"""A host that balances: what it may point at."""

from __future__ import annotations

from activemq_fleet.explain.model import Entry, Section, set_by
from activemq_fleet.topology import Balancer, Broker, Fleet


def balancer_sections(fleet: Fleet, balancer: Balancer) -> list[Section]:
    """The brokers that take clients, group by group, and its own address."""
    settings = balancer.settings
    entries = [
        Entry(
            group.name,
            ", ".join(b.identity.host for b in group.brokers if _takes_clients(b)) or "none",
            why=_why(group.brokers),
        )
        for group in fleet.groups
    ]
    own = set_by(settings, "vip", "virtual address", settings.vip or "none")
    return [Section("balances", "What it points at", (own, *entries))]


def _takes_clients(broker: Broker) -> bool:
    return broker.openwire is not None


def _why(brokers: tuple[Broker, ...]) -> str:
    if any(broker.settings.ha == "pure" for broker in brokers):
        return "preferred masters only: a pure slave takes no clients"
    if all(broker.settings.ha == "none" for broker in brokers):
        return "single brokers"
    return "both nodes of a pair: a standby's ports are closed"
