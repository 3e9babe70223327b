"""Output of the demo: each measurement with its meaning, and the result of the audit in words."""

from __future__ import annotations

from typing import Any

from activemq_fleet.lab.demo import MeasuredTakeover, audit_lines, takeover_lines

TAKEOVER = MeasuredTakeover("mq01", "mq01-a", 4711, "mq01-b", 1.72, 1.24, (), (1.7, 1.6))
INCIDENT = {"kind": "takeover", "host": "mq01-b", "seconds": 1.31, "began_from": "agent", "cause": "mq01-a was killed"}


def audit(incidents: list[dict[str, Any]], **messages: int) -> dict[str, Any]:
    return {"verdict": "findings", "incidents": incidents, "counts": {"messages": messages}}


def test_demo_prints_each_duration_of_takeover_with_its_meaning() -> None:
    assert takeover_lines(TAKEOVER) == [
        "kill -9 of mq01-a (active, pid 4711) under load: mq01-b took over",
        "  1.2 s from the kill to the start record in the log of mq01-b",
        "  1.7 s from the kill until a message completed a round trip through mq01-b",
    ]


def test_demo_reports_audit_of_killed_broker_as_expected() -> None:
    assert audit_lines(audit([INCIDENT], delivered=600), TAKEOVER) == [
        "audit of the logs of brokers and the journals of agents: 1 takeover, as expected after the kill, and every "
        "event delivered",
        "  takeover at mq01-b: mq01-a was killed",
        "    1.3 s from the lost connection of an agent to the start record in the log of mq01-b",
        "  events over MQTT, according to the journals of the agents: 600 delivered (the STOMP clients write no "
        "journal)",
    ]


def test_demo_reports_audit_with_extra_incident_or_lost_event_as_unexpected() -> None:
    second_incident = {**INCIDENT, "kind": "broker_crash", "seconds": None}
    for report in (audit([INCIDENT, second_incident], delivered=1), audit([INCIDENT], delivered=1, lost=1), audit([])):
        assert "but 1 takeover with every event delivered was expected" in audit_lines(report, TAKEOVER)[0]
        assert "'findings'" in audit_lines(report, TAKEOVER)[0]
