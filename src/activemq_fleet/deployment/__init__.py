"""Compute what is deployed to each host: its files with modes, and the facts that playbooks and operations need."""

from __future__ import annotations

from activemq_fleet.deployment.compiled import FleetFacts, PairAndGroupNamesOfAgent
from activemq_fleet.deployment.deployable_files import files_to_deploy
from activemq_fleet.deployment.facts import (
    BrokerFacts,
    LinkFacts,
    ListenerFacts,
    MetricsFacts,
    StoreFacts,
    agent_facts,
    balancer_facts,
    broker_facts,
    exporter_jar_path_on_controller,
    hosts_by_play_of_site_playbook,
)

__all__ = [
    "BrokerFacts",
    "FleetFacts",
    "LinkFacts",
    "ListenerFacts",
    "MetricsFacts",
    "PairAndGroupNamesOfAgent",
    "StoreFacts",
    "agent_facts",
    "balancer_facts",
    "broker_facts",
    "exporter_jar_path_on_controller",
    "files_to_deploy",
    "hosts_by_play_of_site_playbook",
]
