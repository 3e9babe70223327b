"""Determine the status of a fleet: its rows, from the evidence of its hosts, and the findings about them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from activemq_fleet.findings import SEVERITIES, Finding
from activemq_fleet.node.judge import SERVING
from activemq_fleet.render import render_agent, render_broker
from activemq_fleet.status.findings import BY_IMPORTANCE, status_findings
from activemq_fleet.status.host_evidence import typed_evidence
from activemq_fleet.status.link_states import link_statuses_of_broker, planned_network
from activemq_fleet.status.model import (
    AgentStatus,
    BalancerStatus,
    BrokerStatus,
    Certificate,
    FleetStatus,
    LinkStatus,
    ShownState,
    rfc3339,
)
from activemq_fleet.topology import Agent, Balancer, Broker, Fleet

_DAY = 86400.0
Evidence = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Record:
    level: str
    message: str


def fleet_status(
    fleet: Fleet,
    evidence: Mapping[str, Evidence],
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
    evidence = typed_evidence(fleet, evidence)
    broker_evidence_by_host = {host: host_evidence.get("broker") or {} for host, host_evidence in evidence.items()}
    links = _link_statuses_by_host(fleet, broker_evidence_by_host)
    brokers = tuple(
        _broker_status(broker, evidence[broker.host], links.get(broker.host, ()), status_time)
        for broker in fleet.brokers
        if broker.host in evidence
    )
    agents = tuple(
        _agent_status(agent, evidence[agent.host], status_time) for agent in fleet.agents if agent.host in evidence
    )
    balancers = tuple(
        _balancer_status(balancer, evidence[balancer.host]) for balancer in fleet.balancers if balancer.host in evidence
    )
    findings = status_findings(fleet, brokers, agents, balancers, broker_evidence_by_host)
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


def _link_statuses_by_host(
    fleet: Fleet, broker_evidence_by_host: Mapping[str, Evidence]
) -> dict[str, tuple[LinkStatus, ...]]:
    usages = {
        host: broker_evidence.get("usage") or {}
        for host, broker_evidence in broker_evidence_by_host.items()
        if broker_evidence.get("state") in SERVING
    }
    if not any(fleet.broker(host).links or fleet.broker(host).settings.xml_fragments for host in usages):
        return {}
    records = {
        host: [_Record(record["level"], record["message"]) for record in broker_evidence.get("records", ())]
        for host, broker_evidence in broker_evidence_by_host.items()
    }
    network = planned_network(fleet)
    breaking = {
        host: [str(bridge["peer"]) for bridge in broker_evidence.get("breaking_bridges") or ()]
        for host, broker_evidence in broker_evidence_by_host.items()
    }
    return {
        host: link_statuses_of_broker(fleet.broker(host), network, usages, records, breaking[host]) for host in usages
    }


def _broker_status(broker: Broker, evidence: Evidence, links: tuple[LinkStatus, ...], now: float) -> BrokerStatus:
    broker_evidence, state = evidence.get("broker") or {}, _part_state(evidence, "broker")
    return BrokerStatus(
        host=broker.host,
        group=broker.group,
        pair=broker.pair,
        role=broker.role,
        ha=broker.settings.ha,
        state=cast("ShownState", state),
        reason=str(broker_evidence.get("how") or evidence.get("unreachable") or "the host returned no result"),
        frozen=bool(broker_evidence.get("frozen")),
        since=rfc3339(broker_evidence.get("state_since")),
        started=broker_evidence.get("since"),
        pid=broker_evidence.get("pid"),
        release=broker_evidence.get("release"),
        release_planned=broker.release.text,
        version=broker_evidence.get("version"),
        not_deployed=tuple(
            _undeployed_files(broker_evidence.get("deployed") or {}, lambda: render_broker(broker, reveal=False))
        ),
        by_hand=tuple(broker_evidence.get("drift") or ()),
        restart=tuple(broker_evidence.get("restart_reasons") or ()),
        usage=broker_evidence.get("usage") or {},
        links=links,
        certificates=_certificate_statuses(broker_evidence, now),
        generation=broker_evidence.get("generation"),
        generation_in_force=broker_evidence.get("generation_in_force"),
        holds_lock=broker_evidence.get("holds_lock"),
    )


def _part_state(evidence: Evidence, part: str) -> str:
    if part not in evidence:
        return "unreachable"
    return str(evidence[part].get("state") or "unknown")


def _undeployed_files(deployed: Mapping[str, str], planned: Any) -> Iterable[str]:
    """Yield the planned files that are not deployed, or were changed; none if no complete version is in force.

    A file with secrets is compared without them, so a change of only a password is not detected.
    """
    for path, content in planned().items() if deployed else ():
        if path not in deployed:
            yield f"{path} is not deployed"
        elif deployed[path] != hashlib.sha256(content).hexdigest():
            yield f"{path} differs from the inventory"


def _certificate_statuses(evidence: Evidence, now: float) -> tuple[Certificate, ...]:
    return tuple(
        Certificate(
            row["name"], rfc3339(row["ends"]), None if row["ends"] is None else round((row["ends"] - now) / _DAY, 1),
            row["error"],
        )
        for row in evidence.get("certificates") or ()
    )  # fmt: skip


def _agent_status(agent: Agent, evidence: Evidence, now: float) -> AgentStatus:
    agent_evidence = evidence.get("agent") or {}
    store = agent_evidence.get("store") or {}
    return AgentStatus(
        host=agent.host,
        group=agent.group,
        pair=agent.pair,
        state=cast('Literal["running", "stopped", "unreachable", "unknown"]', _part_state(evidence, "agent")),
        reason=str(
            agent_evidence.get("damage")
            or agent_evidence.get("how")
            or evidence.get("unreachable")
            or "the host returned no result"
        ),
        outbox=store.get("outbox_rows"),
        outbox_bytes=store.get("outbox_bytes"),
        oldest=store.get("oldest_age"),
        inbox=store.get("inbox_rows"),
        quarantined=store.get("quarantined"),
        publisher=agent_evidence.get("publisher"),
        subscriber=agent_evidence.get("subscriber"),
        not_deployed=tuple(
            _undeployed_files(agent_evidence.get("deployed") or {}, lambda: render_agent(agent, reveal=False))
        ),
        certificates=_certificate_statuses(agent_evidence, now),
    )


def _balancer_status(balancer: Balancer, evidence: Evidence) -> BalancerStatus:
    balancer_evidence = evidence.get("balancer")
    if not balancer_evidence or "haproxy" not in balancer_evidence:
        reason = str(
            (balancer_evidence or {}).get("how") or evidence.get("unreachable") or "the host returned no result"
        )
        return BalancerStatus(host=balancer.host, state="unreachable", reason=reason)
    haproxy, keepalived = balancer_evidence["haproxy"], balancer_evidence["keepalived"]
    answers = bool(haproxy["answers"])
    runs = keepalived["state"] is None or str(keepalived["state"]).startswith("active/")
    return BalancerStatus(
        host=balancer.host,
        state="up" if answers and runs else "down",
        haproxy=f"{'answers' if answers else 'does not answer'} ({haproxy['state'] or 'no unit'})",
        keepalived=str(keepalived["state"] or "no unit"),
        addresses=dict(balancer_evidence["addresses"]),
    )
