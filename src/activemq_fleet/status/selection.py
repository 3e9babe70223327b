"""Select the hosts and evidence to query for the status of a host, a pair, a group or a fleet."""

from __future__ import annotations

import posixpath
from typing import Any

from activemq_fleet.deployment import balancer_facts, broker_facts
from activemq_fleet.status.link_states import planned_network
from activemq_fleet.topology import Agent, Balancer, Fleet
from activemq_fleet.topology.named_hosts import SelectableHost, find_named_hosts, selectable_brokers


def select_hosts(fleet: Fleet, name: str = "", option: str = "the name") -> tuple[str, ...]:
    """Select the hosts of a fleet that are named by a host, a pair or a group, and return them.

    An empty name selects all hosts. Hosts may be named by their first label. ``option`` is the option that errors name.
    Raises InputError for a name that the fleet does not have, or that several hosts have.
    """
    nodes: tuple[Agent | Balancer, ...] = (*fleet.agents, *fleet.balancers)
    other_hosts = [SelectableHost(node.host) for node in nodes]
    if not name:
        return tuple(sorted({*(broker.host for broker in fleet.brokers), *(node.host for node in other_hosts)}))
    return tuple(sorted(find_named_hosts(name, selectable_brokers(fleet), other_hosts, option=option).hosts))


def hosts_to_query(fleet: Fleet, chosen: tuple[str, ...]) -> tuple[str, ...]:
    """Return the hosts whose status must be gathered: the chosen hosts, and the hosts on which their status depends.

    The latter are the other hosts of their pairs, and the brokers that their links lead to.
    """
    queried_hosts = set(chosen)
    network = planned_network(fleet) if any(broker.host in queried_hosts for broker in fleet.brokers) else None
    for broker in (broker for broker in fleet.brokers if broker.host in chosen):
        queried_hosts |= {broker.peer} if broker.peer else set()
        if network:
            queried_hosts |= {
                peer.host for _, peers in network.connectors_to_other_pairs(broker.host) for peer in peers
            }
    return tuple(sorted(queried_hosts))


def host_status_parameters(fleet: Fleet, hosts: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return the parameters of the Ansible module ``host_status`` for each host: what to gather there.

    They are about broker, agent and balancer.
    """
    by_host: dict[str, dict[str, Any]] = {host: {} for host in hosts}
    for broker in fleet.brokers:
        if broker.host in by_host:
            facts = broker_facts(broker)
            unit = facts.unit_name if facts.service == "systemd" else None
            by_host[broker.host]["broker"] = {"base": facts.base, "unit": unit}
    for agent in fleet.agents:
        if agent.host in by_host:
            by_host[agent.host]["agent"] = _agent_parameters(agent)
    for balancer in fleet.balancers:
        if balancer.host in by_host:
            by_host[balancer.host]["balancer"] = _balancer_parameters(balancer)
    return by_host


def _agent_parameters(agent: Agent) -> dict[str, Any]:
    settings = agent.settings
    unit = "activemq-agent.service" if settings.agent_service == "systemd" else None
    return {
        "config": settings.agent_config,
        "state": settings.agent_state,
        # The agent resolves a relative path from the directory of agent.conf.
        "socket": posixpath.join(settings.agent_config, settings.agent_options["socket"])
        if settings.agent_options.get("socket")
        else None,
        "unit": unit,
        "certificates": [settings.agent_tls_certificate] if agent.tls and settings.agent_tls_certificate else [],
        "authorities": [settings.agent_tls_ca] if agent.tls and settings.agent_tls_ca else [],
    }


def _balancer_parameters(balancer: Balancer) -> dict[str, Any]:
    facts = balancer_facts(balancer)
    return {"check_port": facts["check_port"], "addresses": facts["addresses"]}
