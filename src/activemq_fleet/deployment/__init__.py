"""Compute what is deployed to each host: its files with modes, and the facts that playbooks and operations need."""

from __future__ import annotations

from activemq_fleet.deployment.compiled import AgentMembership, CompiledFleet
from activemq_fleet.deployment.deployable_files import DeployableFile, files_to_deploy
from activemq_fleet.deployment.facts import (
    BrokerFacts,
    LinkFacts,
    ListenerFacts,
    MetricsFacts,
    StoreFacts,
    agent_facts,
    balancer_facts,
    broker_facts,
    exporter_jar_path,
    hosts_by_play,
)

__all__ = [
    "AgentMembership",
    "BrokerFacts",
    "CompiledFleet",
    "DeployableFile",
    "LinkFacts",
    "ListenerFacts",
    "MetricsFacts",
    "StoreFacts",
    "agent_facts",
    "balancer_facts",
    "broker_facts",
    "exporter_jar_path",
    "files_to_deploy",
    "hosts_by_play",
]
