"""Assign agents to their home pairs.

A durable MQTT session lives in the store of one pair, so an agent has a home pair and its list of brokers holds that
pair's nodes only, preferred master first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.similar_names import most_similar_name
from activemq_fleet.topology.model.broker import Broker
from activemq_fleet.topology.model.fleet import Agent, Group, Pair, ShortenedGroupList

_NO_DELIVERY = "the agent delivers the events of its host through the brokers of one pair"


def home_pair_of_agent_by_hash(agent_host: str, pairs: Sequence[str]) -> str:
    """Return the name of the pair to which a failover agent connects by default, chosen by a hash of the names.

    It is for an agent without ``activemq_agent_pair``. ``pairs`` are the names of the pairs to choose from. The choice
    uses highest random weight hashing: a new pair changes only the home pair of agents that move to it.
    """
    return max(pairs, key=lambda pair: (hashlib.sha256(f"{agent_host}\0{pair}".encode()).digest(), pair))


def agents_and_home_pair_findings(
    names: Sequence[str], settings: Mapping[str, HostSettings], groups: Sequence[Group], all_groups: ShortenedGroupList
) -> tuple[tuple[Agent, ...], list[Finding]]:
    """Return (agents, findings): failover agents with the pair to which each connects (home pair), and problems.

    Agents are sorted by name; the findings are T010 and T015.
    """
    groups_by_name = {group.name: group for group in groups}
    agents: list[Agent] = []
    findings: list[Finding] = []
    for name in sorted(names):
        agent, agent_findings = _assign_agent_to_pair(name, settings[name], groups_by_name, all_groups)
        findings += agent_findings
        if agent:
            agents.append(agent)
    return tuple(agents), findings


def _assign_agent_to_pair(
    host: str, settings: HostSettings, groups: Mapping[str, Group], all_groups: ShortenedGroupList
) -> tuple[Agent | None, list[Finding]]:
    """Assign the agent of a host to the pair to which it connects, and return the agent and findings.

    The findings are T010 and T015; the agent is None when no pair can serve it.
    """
    problem = _group_problem(settings, groups, all_groups)
    if problem:
        return None, [error_finding("T010", host, *problem, why=_NO_DELIVERY)]
    group = groups[settings.agent_group or next(iter(groups))]
    names = {pair.name: pair for pair in group.pairs}
    if settings.agent_pair and settings.agent_pair not in names:
        near = most_similar_name(settings.agent_pair, names)
        return None, [
            error_finding(
                "T010",
                host,
                f"activemq_agent_pair is {settings.agent_pair!r}, but the group {group.name} has no pair of this name",
                f"set activemq_agent_pair to {near}, or to another pair of this group"
                if near
                else f"set activemq_agent_pair to one of: {', '.join(sorted(names))}",
                why=_NO_DELIVERY,
            )
        ]
    pair = names[settings.agent_pair or home_pair_of_agent_by_hash(host, sorted(names))]
    return _connect_agent(host, settings, pair)


def _group_problem(
    settings: HostSettings, groups: Mapping[str, Group], all_groups: ShortenedGroupList
) -> tuple[str, str] | None:
    if not all_groups.number:
        return (
            "the host is in activemq_agents, but the inventory has no brokers that the agent can connect to",
            "add brokers to the inventory, or remove the host from activemq_agents",
        )
    if settings.agent_group is None:
        if all_groups.number == 1:
            return None
        return (
            "activemq_agent_group is not set, but the inventory has several groups of brokers",
            f"set activemq_agent_group to one of: {all_groups.shortened_group_list_text}",
        )
    if settings.agent_group not in groups:
        near = most_similar_name(settings.agent_group, all_groups.first)
        return (
            f"activemq_agent_group is {settings.agent_group!r}, but no broker is in this group",
            f"set activemq_agent_group to {near}, or to another group of brokers"
            if near
            else f"set activemq_agent_group to one of: {all_groups.shortened_group_list_text}",
        )
    return None


def _connect_agent(host: str, settings: HostSettings, pair: Pair) -> tuple[Agent | None, list[Finding]]:
    findings = []
    if settings.agent_username is None or settings.agent_password is None:
        findings.append(
            error_finding(
                "T015",
                host,
                "the host is in activemq_agents, but activemq_agent_username or activemq_agent_password is not set",
                "set activemq_agent_username and activemq_agent_password, and encrypt the password with ansible-vault",
                why="a broker that requires authentication rejects the agent",
            )
        )
    listening = [(broker, broker.connector("mqtt")) for broker in pair.brokers_in_dialling_order]
    urls = tuple((b.address, c.port) for b, c in listening if c and b.release.supports_agents)
    if not urls:
        return None, [*findings, _no_mqtt_finding(host, pair.preferred_master)]
    return (
        Agent(
            host=host,
            settings=settings,
            group=pair.group,
            pair=pair.name,
            urls=urls,
            tls=any(c is not None and c.uses_tls for _, c in listening),
            java_urls=tuple((b.address, b.openwire.port) for b in pair.brokers_in_dialling_order if b.openwire),
            java_schemes=tuple(b.openwire.scheme for b in pair.brokers_in_dialling_order if b.openwire),
        ),
        findings,
    )


def _no_mqtt_finding(host: str, broker: Broker) -> Finding:
    if not broker.release.supports_agents:
        reason, fix = f"release {broker.release.text} has no MQTT for agents", "upgrade the pair to 5.9 or later"
    else:
        reason = f"activemq_connectors of {broker.host} has no MQTT connector"
        fix = "add a connector with the scheme mqtt+nio to activemq_connectors of the pair"
    return error_finding(
        "T010",
        host,
        f"the agent cannot connect to the pair {broker.pair}: {reason}",
        f"{fix}, or set another pair or group in activemq_agent_pair or activemq_agent_group",
        why=_NO_DELIVERY,
    )
