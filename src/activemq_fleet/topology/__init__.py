"""The model of a fleet: groups, pairs, brokers, links, agents and balancers, computed from the whole inventory."""

from __future__ import annotations

from activemq_fleet.topology.agents import home_pair
from activemq_fleet.topology.build import AGENTS, BALANCERS, BROKERS, build_fleet
from activemq_fleet.topology.model import (
    Account,
    Agent,
    Backend,
    Balancer,
    Broker,
    Connector,
    Fleet,
    Group,
    Link,
    Pair,
    Permission,
    Server,
    VirtualAddress,
    VirtualPort,
    WholeInventory,
)

__all__ = [
    "AGENTS",
    "BALANCERS",
    "BROKERS",
    "Account",
    "Agent",
    "Backend",
    "Balancer",
    "Broker",
    "Connector",
    "Fleet",
    "Group",
    "Link",
    "Pair",
    "Permission",
    "Server",
    "VirtualAddress",
    "VirtualPort",
    "WholeInventory",
    "build_fleet",
    "home_pair",
]
