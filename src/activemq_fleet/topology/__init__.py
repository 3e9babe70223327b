"""Compute the model of a fleet from the whole inventory: groups, pairs, brokers, links, agents and balancers."""

from __future__ import annotations

from activemq_fleet.topology.build import build_fleet
from activemq_fleet.topology.hosts_by_role import AGENTS, BALANCERS, BROKERS
from activemq_fleet.topology.model.balancer import Backend, Balancer, VirtualAddressPort, VirtualIpAddress
from activemq_fleet.topology.model.broker import Account, Broker, Connector, Link, LinkKind, Permission
from activemq_fleet.topology.model.fleet import (
    MAX_LISTED,
    Agent,
    Fleet,
    Group,
    Pair,
    PairOrSingleBroker,
    ShortenedGroupList,
    WholeInventoryFacts,
    pair_and_single_broker_count_texts,
)

__all__ = [
    "AGENTS",
    "BALANCERS",
    "BROKERS",
    "MAX_LISTED",
    "Account",
    "Agent",
    "Backend",
    "Balancer",
    "Broker",
    "Connector",
    "Fleet",
    "Group",
    "Link",
    "LinkKind",
    "Pair",
    "PairOrSingleBroker",
    "Permission",
    "ShortenedGroupList",
    "VirtualAddressPort",
    "VirtualIpAddress",
    "WholeInventoryFacts",
    "build_fleet",
    "pair_and_single_broker_count_texts",
]
