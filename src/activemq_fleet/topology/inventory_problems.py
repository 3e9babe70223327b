"""Call the checks that require the whole inventory, in the order of their findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from activemq_fleet.findings import Finding
from activemq_fleet.topology import name_problems
from activemq_fleet.topology.account_problems import (
    broker_without_client_accounts_findings,
    conflicting_account_password_findings,
    conflicting_agent_password_findings,
    shared_agent_account_findings,
)
from activemq_fleet.topology.group_problems import different_group_setting_findings
from activemq_fleet.topology.link_login_and_listener_problems import link_login_and_listener_findings
from activemq_fleet.topology.links import PlannedNetwork
from activemq_fleet.topology.machine_and_port_problems import (
    port_conflict_findings,
    same_address_and_instance_findings,
)
from activemq_fleet.topology.metrics_problems import (
    loopback_agent_metrics_findings,
    loopback_or_unauthenticated_metrics_findings,
)
from activemq_fleet.topology.model.balancer import Balancer
from activemq_fleet.topology.model.broker import Broker
from activemq_fleet.topology.model.fleet import Agent
from activemq_fleet.topology.pair_problems import pair_findings
from activemq_fleet.topology.password_problems import (
    guessable_agent_password_findings,
    guessable_balancer_password_findings,
    guessable_broker_password_findings,
)


def topology_findings(
    brokers: Sequence[Broker],
    network: PlannedNetwork,
    agents: Sequence[Agent],
    balancers: Sequence[Balancer],
    names: Iterable[str] = (),
    unclear: Iterable[Mapping[str, Any]] = (),
) -> Iterator[Finding]:
    """Yield the findings about the topology of a whole inventory.

    They are about names, ports, pairs, groups, links, accounts and passwords. ``names`` are those of all hosts, of
    which one may be a misspelled name of a missing node. ``unclear`` are the variables of brokers without an identity,
    for which there is an error T001.
    """
    by_pair: dict[str, list[Broker]] = defaultdict(list)
    by_group: dict[str, list[Broker]] = defaultdict(list)
    for broker in brokers:
        by_pair[broker.pair].append(broker)
        by_group[broker.group].append(broker)
    yield from name_problems.duplicate_node_findings(brokers)
    yield from name_problems.pair_named_like_host_findings(brokers)
    yield from name_problems.variable_contradicts_name_findings(brokers)
    yield from port_conflict_findings(brokers)
    yield from same_address_and_instance_findings(brokers)
    paired = {broker.host for nodes in by_pair.values() if len(nodes) > 1 for broker in nodes}
    known = paired | {agent.host for agent in agents} | {balancer.host for balancer in balancers}
    unpaired = [name for name in names if name not in known]
    explained = name_problems.names_of_pairs_split_by_pair_variable(brokers)
    complete = {pair: nodes for pair, nodes in by_pair.items() if pair not in explained}
    yield from pair_findings(complete, unpaired, unclear)
    yield from different_group_setting_findings(by_group)
    yield from link_login_and_listener_findings(network)
    yield from shared_agent_account_findings(agents)
    yield from conflicting_agent_password_findings(agents)
    agents_by_group: dict[str, list[Agent]] = defaultdict(list)
    for agent in agents:
        agents_by_group[agent.group].append(agent)
    for broker in brokers:
        in_front = [balancer for balancer in balancers if balancer.serves_group(broker.group)]
        yield from broker_without_client_accounts_findings(broker)
        yield from name_problems.duplicate_connector_or_link_name_findings(broker)
        yield from conflicting_account_password_findings(broker, agents_by_group[broker.group], in_front)
        yield from loopback_or_unauthenticated_metrics_findings(broker)
        yield from guessable_broker_password_findings(broker)
    for agent in agents:
        yield from guessable_agent_password_findings(agent)
    for balancer in balancers:
        yield from guessable_balancer_password_findings(balancer)
    yield from loopback_agent_metrics_findings(agents, brokers)
