"""The fleet as data: groups, pairs, brokers, links, agents, load balancers."""

from __future__ import annotations

from activemq_fleet.topology.model.balancer import Backend, Balancer, Server, VirtualAddress, VirtualPort
from activemq_fleet.topology.model.broker import Account, Broker, Connector, Link, LinkKind, Permission, dialling_order
from activemq_fleet.topology.model.fleet import (
    MOST_LISTED,
    Agent,
    Fleet,
    Group,
    KnownGroups,
    Pair,
    Unit,
    WholeInventory,
)

__all__ = [
    "MOST_LISTED",
    "Account",
    "Agent",
    "Backend",
    "Balancer",
    "Broker",
    "Connector",
    "Fleet",
    "Group",
    "KnownGroups",
    "Link",
    "LinkKind",
    "Pair",
    "Permission",
    "Server",
    "Unit",
    "VirtualAddress",
    "VirtualPort",
    "WholeInventory",
    "dialling_order",
]
