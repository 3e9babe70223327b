"""Pages of hosts, for the tests of ``explain``."""

from __future__ import annotations

import re
from typing import Any

from activemq_fleet.explain import HostExplanation, HostStatement, explanation_to_text
from activemq_fleet.explain.host_pages import explain_host_by_name
from activemq_fleet.topology import AGENTS, Fleet, build_fleet
from tests.unit.fleets import fleet, hosts

AGENT = {"activemq_agent_username": "till", "activemq_agent_password": "an agent's secret"}
JDBC = {
    "url": "jdbc:mysql://db/x?password=topsecret",
    "driver": "org.example.Driver",
    "username": "mq",
    "password": "p",
}


def shop(**variables: Any) -> Fleet:
    return fleet("orders-mq01", "orders-mq02", **variables)


def with_agents(count: int = 1, **variables: Any) -> Fleet:
    agents = {f"till{i}.example.com": AGENT | {"activemq_agent_pair": "orders-mq01"} for i in range(count)}
    return build_fleet(hosts("orders-mq01", "orders-mq02", **variables) | agents, {AGENTS: list(agents)})


def entries(explanation: HostExplanation, section: str, label: str) -> list[HostStatement]:
    return [entry for entry in explanation.section(section).entries if entry.label == label]


def entry(explanation: HostExplanation, section: str, label: str) -> HostStatement:
    (match,) = entries(explanation, section, label)
    return match


def labels(explanation: HostExplanation, section: str) -> list[str]:
    return [entry.label for entry in explanation.section(section).entries]


def page(explained_fleet: Fleet, host: str) -> str:
    """Return the page with joined lines, so that tests find a sentence across line breaks."""
    return re.sub(r"\s+", " ", explanation_to_text(explain_host_by_name(explained_fleet, host)))
