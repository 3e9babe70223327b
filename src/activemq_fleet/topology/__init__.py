"""Identities and settings -> Fleet: the whole inventory as one graph, checked before any host is."""

from __future__ import annotations

from activemq_fleet.topology.agents import home_pair
from activemq_fleet.topology.build import AGENTS, BALANCERS, BROKERS, build_fleet
from activemq_fleet.topology.model import (
    Account,
    Agent,
    Balancer,
    Broker,
    Connector,
    Fleet,
    Group,
    Link,
    Pair,
    Permission,
)

__all__ = [
    "AGENTS",
    "BALANCERS",
    "BROKERS",
    "Account",
    "Agent",
    "Balancer",
    "Broker",
    "Connector",
    "Fleet",
    "Group",
    "Link",
    "Pair",
    "Permission",
    "build_fleet",
    "home_pair",
]
