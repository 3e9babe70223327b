"""What one host returns for a status costs that host its state, and no other (attack p12)."""

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


def status_with(host: str, returned: Any) -> FleetStatus:
    evidence = {
        A: {"broker": broker_evidence(FLEET, A)},
        B: {"broker": broker_evidence(FLEET, B)},
        KIOSK: {"agent": {"state": "running", "how": "it answers", "publisher": "x", "store": {"outbox_rows": 0}}},
    }
    return fleet_status(FLEET, {**evidence, host: returned}, now=NOW)


@pytest.mark.parametrize(
    "more",
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
def test_broker_values_of_a_wrong_type_make_that_broker_unknown(more: dict[str, Any]) -> None:
    status = status_with(A, {"broker": {**broker_evidence(FLEET, A), **more}})

    assert status.states_by_host == {A: "unknown", B: "standby", KIOSK: "running"}
    assert "the module host_status of the collection returned an unusable result (broker" in status.brokers[0].reason
    (about,) = (finding for finding in status.findings if finding.host == A and finding.rule == "unknown-state")
    assert next(iter(more)) in about.message


@pytest.mark.parametrize(
    "returned",
    ["x", {"broker": "x"}, {"broker": [1]}, {"broker": NESTED}, {"broker": {"how": NESTED}}, {"invalid": "it is huge"}],
)
def test_evidence_that_is_no_mapping_makes_that_broker_unknown(returned: Any) -> None:
    assert status_with(A, returned).states_by_host == {A: "unknown", B: "standby", KIOSK: "running"}


@pytest.mark.parametrize(
    "store", [{"oldest_age": "x"}, {"oldest_age": float("inf")}, {"outbox_rows": []}, [1], "x", {"quarantined": {}}]
)
def test_agent_values_of_a_wrong_type_make_that_agent_unknown(store: Any) -> None:
    status = status_with(KIOSK, {"agent": {"state": "running", "how": "it answers", "store": store}})

    assert status.states_by_host == {A: "active", B: "standby", KIOSK: "unknown"}
    (about,) = (finding for finding in status.findings if finding.host == KIOSK)
    assert about.message.startswith("the state of the agent is not known: the module host_status of the collection")


def test_a_part_that_the_fleet_does_not_have_on_a_host_is_left_out() -> None:
    """An agent's host that returns an active broker would be asked for in the fleet's brokers."""
    status = status_with(KIOSK, {"agent": {"state": "running", "how": "x"}, "broker": broker_evidence(FLEET, A)})

    assert [row.host for row in status.brokers] == [A, B]


def test_texts_of_a_host_are_escaped_in_every_line() -> None:
    hostile = "\x1b]0;PWNED\x07\x1b[2J\u202e\nevil | evil=1"
    status = status_with(A, {"broker": {**broker_evidence(FLEET, A), "state": "hung", "how": hostile}})

    lines = [
        nagios_line_and_exit_code(status.restricted_to([A]))[0],
        *(finding.to_line() for finding in status.findings),
    ]

    assert all(line.isprintable() for line in lines)
    assert lines[0].count("|") == 1  # that before our own performance data


@pytest.mark.parametrize("answer", [{"store": [1]}, {"store": {}, "publisher": "x"}, {"subscriber": ["x"]}])
def test_an_agent_that_answers_nonsense_is_reported_by_its_host(tmp_path: Path, answer: dict[str, Any]) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "agent.sock"))
        listener.listen(1)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(json.dumps(answer).encode() + b"\n")

        thread = threading.Thread(target=serve)
        thread.start()
        found = gather_agent_status({"config": str(tmp_path / "etc"), "state": str(tmp_path)})
        thread.join()

    assert found["state"] is None
    assert "the agent sent a status that cannot be used" in found["how"]
