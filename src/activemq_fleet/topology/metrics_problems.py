"""Report metrics that no Prometheus can scrape, and metrics that any client can read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from activemq_fleet.addresses import is_loopback, parse_listening_address
from activemq_fleet.findings import Finding
from activemq_fleet.topology.model.broker import Broker
from activemq_fleet.topology.model.fleet import Agent


def loopback_or_unauthenticated_metrics_findings(broker: Broker) -> Iterator[Finding]:
    """Yield a warning if a broker's metrics are readable only on its own host (T033), or without a login (T034).

    Only its own host (T033), or the whole network (T034).
    """
    settings = broker.settings
    if not settings.metrics:
        return
    if is_loopback(settings.metrics_bind):
        yield Finding(
            rule="T033",
            severity="warning",
            host=broker.host,
            message=f"activemq_metrics_bind is the loopback address {settings.metrics_bind}: Prometheus on another "
            "host cannot read the metrics",
            fix="set activemq_metrics_bind to an address of the host, and set activemq_metrics_username and "
            "activemq_metrics_password. If Prometheus runs on this host, add a waiver of T033 to activemq_waivers",
            why="without the metrics, the alerts of Prometheus report that the running broker is down",
        )
    elif settings.metrics_username is None:
        yield Finding(
            rule="T034",
            severity="warning",
            host=broker.host,
            message=f"activemq_metrics_bind is {settings.metrics_bind}, but the metrics do not require authentication",
            fix="set activemq_metrics_username and activemq_metrics_password. If a firewall accepts only Prometheus, "
            "add a waiver of T034 to activemq_waivers",
            why="any client that can reach the metrics port can read the names of destinations and their traffic",
        )


def loopback_agent_metrics_findings(agents: Iterable[Agent], brokers: Iterable[Broker]) -> Iterator[Finding]:
    """Yield a warning for each agent whose metrics endpoint is on a loopback address (T033).

    Prometheus on another host cannot read the metrics. There is no warning if no broker has metrics.
    """
    if not any(broker.settings.metrics for broker in brokers):
        return
    for agent in agents:
        address = agent.settings.agent_metrics_address
        if address and is_loopback(parse_listening_address(address)[0]):
            yield Finding(
                rule="T033",
                severity="warning",
                host=agent.host,
                message=f"activemq_agent_metrics_address is the loopback address {address}: Prometheus on another "
                "host cannot read the metrics",
                fix="set activemq_agent_metrics_address to an address of the host, and protect the port with a "
                "firewall: an agent's metrics require no authentication. If Prometheus runs on this host, add a waiver "
                "of T033 to activemq_waivers",
                why="without the metrics, the alerts of Prometheus report that the running agent is down",
            )
