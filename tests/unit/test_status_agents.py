"""Findings of the status about agents."""

from __future__ import annotations

import pytest

from activemq_fleet.status import fleet_status
from activemq_fleet.topology import build_fleet
from tests.support.broker_evidence import NOW, A


def test_finding_about_quarantined_messages_proposes_to_publish_events_again() -> None:
    fleet = build_fleet(
        {A: {"activemq_release": "5.18.3", "activemq_ha": "none", "activemq_agent_topics": ["a/#"]}},
        {"activemq_agents": [A]},
    )
    agent = {"state": "running", "how": "x", "publisher": A, "store": {"quarantined": 2}}
    report = fleet_status(fleet, {A: {"agent": agent}}, now=NOW)
    (finding,) = [finding for finding in report.findings if finding.rule == "quarantined"]
    assert "the agent skipped 2 messages" in finding.message
    assert finding.fix.endswith("publish the events that are still needed again")


@pytest.mark.parametrize("days", [-1, 1])
def test_fix_of_old_agent_certificate_is_renewal_without_restart(days: int) -> None:
    fleet = build_fleet(
        {A: {"activemq_release": "5.18.3", "activemq_ha": "none", "activemq_agent_topics": ["a/#"]}},
        {"activemq_agents": [A]},
    )
    certificates = [{"name": "/etc/agent.pem", "ends": NOW + days * 86400, "error": ""}]
    agent = {"state": "running", "how": "x", "publisher": A, "certificates": certificates}
    report = fleet_status(fleet, {A: {"agent": agent}}, now=NOW)
    (finding,) = [finding for finding in report.findings if finding.rule.startswith("certificate")]
    assert finding.fix == "renew the certificate of /etc/agent.pem"


@pytest.mark.parametrize("days", [-1, 1])
def test_fix_of_old_broker_certificate_is_renewal_and_restart(days: int) -> None:
    fleet = build_fleet({A: {"activemq_release": "5.18.3", "activemq_ha": "none"}}, {})
    certificates = [{"name": "connector mqtt", "ends": NOW + days * 86400, "error": ""}]
    report = fleet_status(
        fleet, {A: {"broker": {"state": "active", "how": "x", "certificates": certificates}}}, now=NOW
    )
    (finding,) = [finding for finding in report.findings if finding.rule.startswith("certificate")]
    assert finding.fix == "renew the certificate of connector mqtt, and restart the service that uses it"
