"""Unusable evidence of one host, which makes the state of that host unknown and no other (attack p12)."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.node.state.agent_status import gather_agent_status
from activemq_fleet.status import FleetStatus, fleet_status, nagios_line_and_exit_code
from activemq_fleet.topology import build_fleet
from tests.support.broker_evidence import NOW, A, B, broker_evidence, usage_evidence

KIOSK = "kiosk.example.com"
COMMON = {"activemq_release": "5.18.3", "activemq_network_username": "net", "activemq_network_password": "s3cret-net"}
FLEET = build_fleet(
    {A: COMMON, B: COMMON, KIOSK: {"activemq_agent_username": "kiosk", "activemq_agent_password": "s3cret-kiosk"}},
    {"activemq_agents": [KIOSK]},
)
NESTED: Any = []
for _ in range(500):
    NESTED = [NESTED]


def status_with(host: str, host_evidence: Any) -> FleetStatus:
    evidence = {
        A: {"broker": broker_evidence(FLEET, A)},
        B: {"broker": broker_evidence(FLEET, B)},
        KIOSK: {"agent": {"state": "running", "how": "it answers", "publisher": "x", "store": {"outbox_rows": 0}}},
    }
    return fleet_status(FLEET, {**evidence, host: host_evidence}, now=NOW)


@pytest.mark.parametrize(
    "unusable_values",
    [
        {"usage": usage_evidence(store={"percent": "x", "limit": 1})},
        {"usage": usage_evidence(messages=[1])},
        {"usage": {"store": {}}},
        {"usage": usage_evidence(bridges=[{"link": 1}])},
        {"usage": usage_evidence(dlq=10**400)},
        {"state_since": "x"},
        {"state_since": 1e300},
        {"state_since": float("nan")},
        {"state": "well"},
        {"state": ["active"]},
        {"free": {"/": "much"}},
        {"free": ["/"]},
        {"drift": "x\ny"},
        {"restart_reasons": [1]},
        {"certificates": [{"name": "a"}]},
        {"certificates": [{"name": "a", "ends": 1e18, "error": ""}]},
        {"certificates": "x"},
        {"records": [{"level": "WARN"}]},
        {"records": None},
        {"deployed": ["x"]},
        {"generation": "4"},
        {"breaking_bridges": [{"peer": []}]},
    ],
)
def test_broker_values_of_wrong_type_make_only_that_broker_unknown(unusable_values: dict[str, Any]) -> None:
    status = status_with(A, {"broker": {**broker_evidence(FLEET, A), **unusable_values}})

    assert status.states_by_host == {A: "unknown", B: "standby", KIOSK: "running"}
    assert "the module host_status of the collection returned an unusable result (broker" in status.brokers[0].reason
    (finding,) = (finding for finding in status.findings if finding.host == A and finding.rule == "unknown-state")
    assert next(iter(unusable_values)) in finding.message


@pytest.mark.parametrize(
    ("usage", "reason"),
    [
        (usage_evidence(messages=[1]), "broker.usage.messages: Input should be a valid integer"),
        (usage_evidence(store={"percent": "x"}), "broker.usage.store.percent: Input should be a valid integer"),
    ],
)
def test_reason_of_unknown_state_names_value_of_usage_with_wrong_type(usage: dict[str, Any], reason: str) -> None:
    status = status_with(A, {"broker": {**broker_evidence(FLEET, A), "usage": usage}})

    assert f"returned an unusable result ({reason}): install" in status.brokers[0].reason


@pytest.mark.parametrize(
    "host_evidence",
    ["x", {"broker": "x"}, {"broker": [1]}, {"broker": NESTED}, {"broker": {"how": NESTED}}, {"invalid": "it is huge"}],
)
def test_evidence_that_is_not_mapping_makes_only_that_broker_unknown(host_evidence: Any) -> None:
    assert status_with(A, host_evidence).states_by_host == {A: "unknown", B: "standby", KIOSK: "running"}


@pytest.mark.parametrize(
    "store", [{"oldest_age": "x"}, {"oldest_age": float("inf")}, {"outbox_rows": []}, [1], "x", {"quarantined": {}}]
)
def test_agent_values_of_wrong_type_make_only_that_agent_unknown(store: Any) -> None:
    status = status_with(KIOSK, {"agent": {"state": "running", "how": "it answers", "store": store}})

    assert status.states_by_host == {A: "active", B: "standby", KIOSK: "unknown"}
    (finding,) = (finding for finding in status.findings if finding.host == KIOSK)
    assert finding.message.startswith("the state of the agent is not known: the module host_status of the collection")


def test_broker_evidence_of_host_without_broker_is_ignored() -> None:
    """The host of an agent returns an active broker, which is not in the model of the fleet."""
    status = status_with(KIOSK, {"agent": {"state": "running", "how": "x"}, "broker": broker_evidence(FLEET, A)})

    assert [row.host for row in status.brokers] == [A, B]


def test_texts_of_host_are_escaped_in_every_line_of_status() -> None:
    hostile = "\x1b]0;PWNED\x07\x1b[2J\u202e\nevil | evil=1"
    status = status_with(A, {"broker": {**broker_evidence(FLEET, A), "state": "hung", "how": hostile}})

    lines = [
        nagios_line_and_exit_code(status.restricted_to([A]))[0],
        *(finding.to_line() for finding in status.findings),
    ]

    assert all(line.isprintable() for line in lines)
    assert lines[0].count("|") == 1  # The separator of the performance data.


@pytest.mark.parametrize("response", [{"store": [1]}, {"store": {}, "publisher": "x"}, {"subscriber": ["x"]}])
def test_agent_that_sends_unusable_status_has_unknown_status(tmp_path: Path, response: dict[str, Any]) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "agent.sock"))
        listener.listen(1)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(json.dumps(response).encode() + b"\n")

        thread = threading.Thread(target=serve)
        thread.start()
        agent_status = gather_agent_status({"config": str(tmp_path / "etc"), "state": str(tmp_path)})
        thread.join()

    assert agent_status["state"] is None
    assert "the agent sent a status that cannot be used" in agent_status["how"]
