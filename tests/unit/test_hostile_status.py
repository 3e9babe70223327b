"""Unusable evidence of one host, which makes the state of that host unknown and no other (attack p12)."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.node.probe.deadline_socket import DeadlineSocket
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
    assert finding.rule == "unknown-state"
    assert finding.message.startswith("the state of the agent is not known: the module host_status of the collection")


@pytest.mark.parametrize(
    "host_evidence", ["x", {"invalid": "it is huge"}, {"balancer": "x"}, {"balancer": {"haproxy": {"state": 1}}}]
)
def test_unusable_evidence_of_load_balancer_makes_only_that_balancer_unknown(host_evidence: Any) -> None:
    balancers = {
        "lb1": {"activemq_vip": "10.77.0.100", "activemq_vip_interface": "eth0"},
        "lb2": {"activemq_vip": "10.77.0.100", "activemq_vip_interface": "eth0"},
    }
    login = {"activemq_vip_username": "check", "activemq_vip_password": "s3cret-check"}
    fleet = build_fleet(
        {A: COMMON, B: COMMON} | {host: variables | login for host, variables in balancers.items()},
        {"activemq_loadbalancers": list(balancers)},
    )
    standby = {
        "haproxy": {"answers": True, "state": "active/running"},
        "keepalived": {"state": "active/running"},
        "addresses": {"orders": False},
    }
    status = fleet_status(fleet, {"lb1": host_evidence, "lb2": {"balancer": standby}}, now=NOW)

    assert status.states_by_host == {"lb1": "unknown", "lb2": "up"}
    (finding,) = status.findings
    assert (finding.host, finding.rule) == ("lb1", "unknown-state")
    assert finding.message.startswith("the state of the load balancer is not known: the module host_status")
    assert nagios_line_and_exit_code(status.restricted_to(["lb1"]))[1] == 3


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


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"store": [1]}, "the agent sent a status that cannot be used"),
        ({"store": {}, "publisher": "x"}, "the agent sent a status that cannot be used"),
        ({"subscriber": ["x"]}, "the agent sent a status that cannot be used"),
        ([], "cannot be read (received b'[]"),
        (
            {"error": "all 128 connections are in use: send the request again later\n", "code": "busy"},
            r"with an error: all 128 connections are in use: send the request again later\n",
        ),
    ],
)
def test_agent_that_answers_without_usable_status_has_unknown_status(tmp_path: Path, answer: Any, reason: str) -> None:
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
        agent_status = gather_agent_status({"config": str(tmp_path / "etc"), "state": str(tmp_path)})
        thread.join()

    assert agent_status["state"] is None
    assert reason in agent_status["how"]


def test_agent_is_queried_at_socket_that_replaces_default(tmp_path: Path) -> None:
    parameters = {"config": str(tmp_path / "etc"), "state": str(tmp_path), "socket": str(tmp_path / "own.sock")}
    agent_status = gather_agent_status(parameters)
    assert f"does not answer on its socket {tmp_path}/own.sock" in agent_status["how"]


def test_agent_that_answers_and_closes_before_query_is_sent_has_unknown_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = DeadlineSocket.send

    def send_after_close(connection: DeadlineSocket, content: bytes) -> None:
        caller, _ = listener.accept()
        with caller:
            caller.sendall(b'{"error": "all connections are in use", "code": "busy"}\n')
        send(connection, content)

    monkeypatch.setattr(DeadlineSocket, "send", send_after_close)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "agent.sock"))
        listener.listen(1)
        agent_status = gather_agent_status({"config": str(tmp_path / "etc"), "state": str(tmp_path)})

    assert agent_status["state"] is None
    assert agent_status["how"].endswith("with an error: all connections are in use")
