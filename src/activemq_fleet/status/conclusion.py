"""Determine the status of a fleet: its rows, from the evidence of its hosts, and the findings about them."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from activemq_fleet.findings import SEVERITIES, Finding
from activemq_fleet.node.judge import SERVING
from activemq_fleet.render import render_agent, render_broker
from activemq_fleet.status.findings import BY_IMPORTANCE, status_findings
from activemq_fleet.status.host_evidence import (
    NO_AGENT_EVIDENCE,
    NO_BROKER_EVIDENCE,
    AgentStore,
    CertificateExpiry,
    HostEvidence,
    read_host_evidence,
)
from activemq_fleet.status.link_states import link_statuses_of_broker, planned_network
from activemq_fleet.status.model import (
    AgentStatus,
    BalancerStatus,
    BrokerStatus,
    Certificate,
    FleetStatus,
    LinkStatus,
    rfc3339,
)
from activemq_fleet.topology import Agent, Balancer, Broker, Fleet

_DAY = 86400.0


def fleet_status(
    fleet: Fleet,
    evidence: Mapping[str, Mapping[str, Any]],
    *,
    chosen: Collection[str] | None = None,
    now: float | None = None,
    seconds: float = 0.0,
) -> FleetStatus:
    """Return the status of a fleet from the evidence of its hosts.

    ``evidence`` is by host the result of the module ``host_status``, a dictionary with the keys ``broker``, ``agent``
    and ``balancer``, whichever the host has; or it is ``{"unreachable": reason}`` or ``{"invalid": reason}``. A host
    whose result has invalid types gets the state unknown, without an effect on other hosts.
    Hosts without evidence are left out. ``chosen`` are the hosts of the returned status, if more hosts were queried.
    ``now`` is in seconds since the epoch; ``seconds`` is the time that it took to gather the evidence.

    Raises InputError for evidence of a host that is not in the fleet.

    >>> from activemq_fleet import build_fleet, fleet_status
    >>> variables = {"activemq_release": "5.18.3", "activemq_ha": "none"}
    >>> fleet = build_fleet({"orders-mq01-a": variables})
    >>> status = fleet_status(fleet, {"orders-mq01-a": {"unreachable": "no route to host"}})
    >>> status.states_by_host
    {'orders-mq01-a': 'unreachable'}
    >>> [(finding.rule, finding.severity) for finding in status.findings]
    [('unreachable', 'error')]
    >>> status.exit_code
    1
    """
    status_time = time.time() if now is None else now
    hosts = read_host_evidence(fleet, evidence)
    links = _link_statuses_by_host(fleet, hosts)
    brokers = tuple(
        _broker_status(broker, hosts[broker.host], links.get(broker.host, ()), status_time)
        for broker in fleet.brokers
        if broker.host in hosts
    )
    agents = tuple(
        _agent_status(agent, hosts[agent.host], status_time) for agent in fleet.agents if agent.host in hosts
    )
    balancers = tuple(
        _balancer_status(balancer, hosts[balancer.host]) for balancer in fleet.balancers if balancer.host in hosts
    )
    findings = status_findings(fleet, brokers, agents, balancers)
    status = FleetStatus(
        time=status_time,
        seconds=seconds,
        brokers=brokers,
        agents=agents,
        balancers=balancers,
        findings=tuple(sorted(findings, key=_importance_key)),
    )
    return status if chosen is None else status.restricted_to(chosen)


def _importance_key(finding: Finding) -> tuple[int, int]:
    return SEVERITIES.index(finding.severity), BY_IMPORTANCE.index(finding.rule)


def _link_statuses_by_host(fleet: Fleet, hosts: Mapping[str, HostEvidence]) -> dict[str, tuple[LinkStatus, ...]]:
    evidence = {host: host_evidence.broker for host, host_evidence in hosts.items() if host_evidence.broker}
    usages = {host: observed.usage for host, observed in evidence.items() if observed.state in SERVING}
    if not any(fleet.broker(host).links or fleet.broker(host).settings.xml_fragments for host in usages):
        return {}
    records = {host: observed.records for host, observed in evidence.items()}
    network = planned_network(fleet)
    return {
        host: link_statuses_of_broker(
            fleet.broker(host), network, usages, records, [bridge.peer for bridge in evidence[host].breaking_bridges]
        )
        for host in usages
    }


def _broker_status(broker: Broker, evidence: HostEvidence, links: tuple[LinkStatus, ...], now: float) -> BrokerStatus:
    observed = evidence.broker or NO_BROKER_EVIDENCE
    return BrokerStatus(
        host=broker.host,
        group=broker.group,
        pair=broker.pair,
        role=broker.role,
        ha=broker.settings.ha,
        state=observed.state or evidence.missing_state("broker"),
        reason=observed.how or evidence.missing_reason("broker"),
        frozen=bool(observed.frozen),
        since=rfc3339(observed.state_since),
        started=observed.since,
        pid=observed.pid,
        release=observed.release,
        release_planned=broker.release.text,
        version=observed.version,
        not_deployed=tuple(_undeployed_files(observed.deployed, partial(render_broker, broker, reveal=False))),
        by_hand=tuple(observed.drift),
        restart=tuple(observed.restart_reasons),
        usage=observed.usage,
        links=links,
        certificates=_certificate_statuses(observed.certificates, now),
        generation=observed.generation,
        generation_in_force=observed.generation_in_force,
        holds_lock=observed.holds_lock,
        evidence=observed,
    )


def _undeployed_files(deployed: Mapping[str, str], render: Callable[[], Mapping[str, bytes]]) -> Iterable[str]:
    """Yield the planned files that are not deployed, or were changed; none if no complete version is in force.

    A file with secrets is compared without them, so a change of only a password is not detected.
    """
    for path, content in render().items() if deployed else ():
        if path not in deployed:
            yield f"{path} is not deployed"
        elif deployed[path] != hashlib.sha256(content).hexdigest():
            yield f"{path} differs from the inventory"


def _certificate_statuses(certificates: Sequence[CertificateExpiry], now: float) -> tuple[Certificate, ...]:
    return tuple(
        Certificate(
            certificate.name,
            rfc3339(certificate.ends),
            None if certificate.ends is None else _days_until(certificate.ends, now),
            certificate.error,
        )
        for certificate in certificates
    )


def _days_until(moment: float, now: float) -> float:
    """Return the days until a moment, rounded up to tenths, so that they are positive until the moment has passed."""
    return math.ceil((moment - now) / _DAY * 10) / 10


def _agent_status(agent: Agent, evidence: HostEvidence, now: float) -> AgentStatus:
    observed = evidence.agent or NO_AGENT_EVIDENCE
    store = observed.store or AgentStore()
    return AgentStatus(
        host=agent.host,
        group=agent.group,
        pair=agent.pair,
        state=observed.state or evidence.missing_state("agent"),
        reason=observed.damage or observed.how or evidence.missing_reason("agent"),
        outbox=store.outbox_rows,
        outbox_bytes=store.outbox_bytes,
        oldest=store.oldest_age,
        inbox=store.inbox_rows,
        quarantined=store.quarantined,
        publisher=observed.publisher,
        subscriber=observed.subscriber,
        not_deployed=tuple(_undeployed_files(observed.deployed, partial(render_agent, agent, reveal=False))),
        certificates=_certificate_statuses(observed.certificates, now),
    )


def _balancer_status(balancer: Balancer, evidence: HostEvidence) -> BalancerStatus:
    observed = evidence.balancer
    if observed is None:
        return BalancerStatus(
            host=balancer.host,
            state=evidence.missing_state("balancer"),
            reason=evidence.missing_reason("balancer"),
        )
    haproxy, keepalived = observed.haproxy, observed.keepalived
    runs = keepalived.state is None or keepalived.state.startswith("active/")
    return BalancerStatus(
        host=balancer.host,
        state="up" if haproxy.answers and runs else "down",
        haproxy=f"{'answers' if haproxy.answers else 'does not answer'} ({haproxy.state or 'no unit'})",
        keepalived=keepalived.state or "no unit",
        addresses=observed.addresses,
    )
